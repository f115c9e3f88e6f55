#include "io/step_files.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "tests/test_folder.hpp"

using namespace homeostat;
using namespace homeostat::io;

namespace {

const TimePoint now = std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now());

std::string report_text(const std::string& job, int rank, const std::string& rest = R"(,"compute_time_s":0.4)") {
  return R"({"v":1,"job":")" + job + R"(","rank":)" + std::to_string(rank) +
         R"(,"group":"stage0","step":42,"step_time_s":0.5,"updated_at":1796031303.737)" + rest + "}";
}

class Folder : public TestFolder {
 public:
  void age(const std::string& name, int seconds) const {
    const timespec then{std::chrono::system_clock::to_time_t(now) - seconds, 0};
    const timespec times[] = {then, then};
    REQUIRE(::utimensat(AT_FDCWD, file(name).c_str(), times, AT_SYMLINK_NOFOLLOW) == 0);
  }
  StepFolder read() const {
    auto result = read_step_folder(path, now);
    REQUIRE(result);
    return *result;
  }
};

// A process that holds its report locked, as the helper does; killed at the end.
class Holder {
 public:
  explicit Holder(const std::string& file) {
    int ready[2];
    REQUIRE(::pipe(ready) == 0);
    child_ = ::fork();
    if (child_ == 0) {
      const int opened = ::open(file.c_str(), O_RDWR);
      struct flock lock{};
      lock.l_type = F_WRLCK;
      if (::fcntl(opened, F_SETLK, &lock) == 0) (void)!::write(ready[1], "x", 1);
      ::pause();
      ::_exit(0);
    }
    char byte = 0;
    REQUIRE(::read(ready[0], &byte, 1) == 1);
    ::close(ready[0]);
    ::close(ready[1]);
  }
  ~Holder() { kill(); }
  void kill() {
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
    child_ = 0;
  }

 private:
  pid_t child_ = 0;
};

}  // namespace

TEST_CASE("a report is read, with its owner and whether its process lives") {
  Folder folder;
  folder.write("12.3.json", report_text("12", 3));
  Holder holder(folder.file("12.3.json"));
  auto all = folder.read();
  REQUIRE(all.reports.size() == 1);
  CHECK(all.refused == 0);
  const auto& report = all.reports[0];
  CHECK(report.job == "12");
  CHECK(report.rank == 3);
  CHECK(report.group == "stage0");
  CHECK(report.step == 42);
  CHECK(report.step_s == 0.5);
  CHECK(report.compute_s == 0.4);
  CHECK(report.wait_s == doctest::Approx(0.1));
  CHECK(report.uid == ::geteuid());
  CHECK(report.updated_at == std::min(now, TimePoint(Duration(1'796'031'303'737))));
  CHECK(report.alive);
  holder.kill();
  CHECK_FALSE(folder.read().reports.at(0).alive);
}

TEST_CASE("contents that make no sense are refused, one by one") {
  struct Case {
    const char* text;
    bool good;
  };
  const Case cases[] = {
      {R"({"job":"12","rank":3,"step":1,"step_time_s":0.5,"updated_at":5})", true},
      {R"({"job":"12","rank":3,"step":1,"step_time_s":0.5,"compute_time_s":0.5,"updated_at":5})", true},
      {R"({"job":"13","rank":3,"step":1,"step_time_s":0.5,"updated_at":5})", false},  // another job's
      {R"({"job":"12","rank":4,"step":1,"step_time_s":0.5,"updated_at":5})", false},
      {R"({"job":"12","rank":3,"step":-1,"step_time_s":0.5,"updated_at":5})", false},
      {R"({"job":"12","rank":3,"step":1,"step_time_s":0,"updated_at":5})", false},
      {R"({"job":"12","rank":3,"step":1,"step_time_s":-3,"updated_at":5})", false},
      {R"({"job":"12","rank":3,"step":1,"step_time_s":1e308,"updated_at":5})", false},
      {R"({"job":"12","rank":3,"step":1,"step_time_s":"0.5","updated_at":5})", false},
      {R"({"job":"12","rank":3,"step":1,"step_time_s":0.5,"compute_time_s":0.6,"updated_at":5})", false},
      {R"({"job":"12","rank":3,"step":1,"step_time_s":0.5,"compute_time_s":-1,"updated_at":5})", false},
      {R"({"job":"12","rank":3,"step":1,"step_time_s":0.5,"updated_at":1e300})", false},
      {R"({"job":"12","rank":3,"step":1,"step_time_s":0.5})", false},
      {R"({"job":"12","rank":3,"step":1,"step_time_s":0.5,"group":"a b","updated_at":5})", false},
      {R"({"job":"12","rank":3,"step":1,"step_time_s":0.5,"group":"a\n","updated_at":5})", false},
      {"[1,2]", false},
      {"{", false},
      {"", false},
      {"\xff\xfe", false},
  };
  for (const auto& [text, good] : cases) {
    CAPTURE(text);
    Folder folder;
    folder.write("12.3.json", text);
    const auto all = folder.read();
    CHECK(all.reports.size() == (good ? 1 : 0));
    CHECK(all.refused == (good ? 0 : 1));
    CHECK(all.example.empty() == good);
  }
}

TEST_CASE("a report from the future is of now") {
  Folder folder;
  folder.write("12.3.json", R"({"job":"12","rank":3,"step":1,"step_time_s":0.5,"updated_at":99999999999})");
  CHECK(folder.read().reports.at(0).updated_at == now);
}

//   nothing that somebody leaves in the folder is followed, waited for or taken for a report
TEST_CASE("a hostile folder") {
  Folder folder, elsewhere;
  elsewhere.write("secret", report_text("12", 0));
  std::filesystem::create_symlink(elsewhere.file("secret"), folder.file("12.0.json"));
  folder.write("1.1.json", report_text("1", 1));
  std::filesystem::create_hard_link(folder.file("1.1.json"), folder.file("12.1.json"));
  REQUIRE(::mkfifo(folder.file("12.2.json").c_str(), 0666) == 0);
  std::filesystem::create_directory(folder.file("12.3.json"));
  folder.write("12.4.json", std::string(max_step_file_bytes + 1, ' '));
  for (const char* name : {"12.json", "x.0.json", "12.0.json.bak", "-1.0.json", "12.-1.json", "12345678901.0.json",
                           "12.12345678.json", "12.5.JSON", "\n", "12. 6.json"})
    folder.write(name, report_text("12", 5));
  auto all = folder.read();
  CHECK(all.reports.empty());
  CHECK(all.refused == 16);
  CHECK(std::filesystem::exists(elsewhere.file("secret")));
}

TEST_CASE("at most 512 reports are read") {
  Folder folder;
  for (int i = 0; i < 600; ++i) folder.write("7." + std::to_string(i) + ".json", report_text("7", i));
  const auto all = folder.read();
  CHECK(all.reports.size() == max_step_files);
  CHECK(all.refused == 600 - max_step_files);
  CHECK(all.example.contains("too many"));
}

TEST_CASE("what nobody holds is removed after an hour; what a process holds stays, for it may hang") {
  Folder folder;
  for (const char* name : {"1.0.json", "2.0.json", "3.0.json"}) folder.write(name, report_text({name[0]}, 0));
  folder.write(".2.0.77", "unfinished");
  folder.write(".3.0.78", "unfinished");
  folder.age("1.0.json", 7200);
  folder.age("2.0.json", 7200);
  folder.age(".2.0.77", 7200);
  const Holder holder(folder.file("1.0.json"));
  const auto all = folder.read();
  CHECK(all.reports.size() == 2);
  CHECK(std::filesystem::exists(folder.file("1.0.json")));
  CHECK_FALSE(std::filesystem::exists(folder.file("2.0.json")));
  CHECK(std::filesystem::exists(folder.file("3.0.json")));
  CHECK_FALSE(std::filesystem::exists(folder.file(".2.0.77")));
  CHECK(std::filesystem::exists(folder.file(".3.0.78")));
  CHECK(all.refused == 0);
}

TEST_CASE("the folder is made, and made writable for everybody, once") {
  Folder folder;
  const auto steps = folder.file("steps");
  auto mode = [&] { return static_cast<unsigned>(std::filesystem::status(steps).permissions()); };
  CHECK(read_step_folder(steps, now).error().kind == ErrorKind::not_found);
  CHECK(prepare_step_folder(steps));
  CHECK(mode() == 01777);
  REQUIRE(::chmod(steps.c_str(), 0755) == 0);  // as a kubelet makes it
  CHECK(prepare_step_folder(steps));
  CHECK(mode() == 01777);
  CHECK(prepare_step_folder(folder.file("none/steps")).error().kind == ErrorKind::not_found);
  std::filesystem::create_directory_symlink(steps, folder.file("link"));
  CHECK_FALSE(prepare_step_folder(folder.file("link")));
  CHECK_FALSE(read_step_folder(folder.file("link"), now));
}
