#include "io/step_files.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "io/json.hpp"

namespace homeostat::io {

namespace {

constexpr mode_t folder_mode = 01777;
constexpr size_t max_entries = 4096;  // names looked at; a flood beyond it is not read
constexpr double max_step_s = 86'400;
constexpr std::string_view bad_name = "its name is not JOB.RANK.json";

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return number_; }
  int release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

Error system_error(const std::string& what) {
  const int code = errno;
  ErrorKind kind = code == ENOENT                    ? ErrorKind::not_found
                   : code == EACCES || code == EPERM ? ErrorKind::forbidden
                                                     : ErrorKind::internal;
  return {kind, what + ": " + std::strerror(code), std::nullopt};
}

std::optional<std::int64_t> whole_number(std::string_view text, size_t max_digits) {
  if (text.empty() || text.size() > max_digits) return std::nullopt;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() && value >= 0 ? std::optional(value) : std::nullopt;
}

struct Name {
  std::string job;
  std::int64_t rank = 0;
};

// "<job>.<rank>.json"
std::optional<Name> parse_name(std::string_view name) {
  if (!name.ends_with(".json")) return std::nullopt;
  name.remove_suffix(5);
  const auto dot = name.find('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const auto job = whole_number(name.substr(0, dot), 10);
  const auto rank = whole_number(name.substr(dot + 1), 7);
  if (!job || !rank) return std::nullopt;
  return Name{std::to_string(*job), *rank};
}

std::optional<double> seconds_in(const boost::json::object& object, std::string_view name, double least) {
  const double value = double_at(object, {name}, -1);
  return std::isfinite(value) && value >= least && value <= max_step_s ? std::optional(value) : std::nullopt;
}

bool is_plain(std::string_view text) {
  return text.size() <= 64 && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_' ||
                  c == '.' || c == '/';
         });
}

// What a file says, when it says it of the job and rank that its name has.
Result<fault::StepReport> parse_report(std::string_view text, const Name& name, TimePoint now) {
  auto nonsense = [](const std::string& why) { return fail(ErrorKind::invalid, why); };
  auto object = parse_json_object(text, "a step report", max_step_file_bytes);
  if (!object) return std::unexpected(object.error());
  fault::StepReport report;
  report.job = name.job;
  report.rank = name.rank;
  report.group = string_at(*object, {"group"});
  report.step = int_at(*object, {"step"}, -1);
  const auto step_s = seconds_in(*object, "step_time_s", 0);
  if (string_at(*object, {"job"}) != name.job || int_at(*object, {"rank"}, -1) != name.rank)
    return nonsense("it speaks of another job or rank than its name");
  if (!is_plain(report.group)) return nonsense("its group is not plain text of at most 64 letters");
  if (!step_s || *step_s <= 0 || report.step < 0) return nonsense("its step or step time makes no sense");
  report.step_s = *step_s;
  if (find(*object, {"compute_time_s"}) != nullptr) {
    const auto compute_s = seconds_in(*object, "compute_time_s", 0);
    if (!compute_s || *compute_s > *step_s) return nonsense("its compute time makes no sense");
    report.compute_s = *compute_s;
    report.wait_s = seconds_in(*object, "wait_time_s", 0).value_or(*step_s - *compute_s);
  }
  const double updated_s = double_at(*object, {"updated_at"}, -1);
  if (!(updated_s >= 0 && updated_s < 1e11)) return nonsense("its updated_at is no time");
  report.updated_at = std::min(now, TimePoint(Duration(static_cast<std::int64_t>(updated_s * 1000))));
  return report;
}

// The reporter holds a record lock on its newest file for as long as it lives; the kernel drops it with the process.
bool is_held(int file) {
  struct flock lock{};
  lock.l_type = F_RDLCK;
  lock.l_whence = SEEK_SET;
  return ::fcntl(file, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

class Reader {
 public:
  Reader(int folder, TimePoint now) : folder_(folder), now_(now) {}

  void take(const char* name) {
    if (name[0] == '.') {  // a reporter's unfinished file, mostly
      remove_if_old(name);
      return;
    }
    const auto parsed = parse_name(name);
    if (!parsed) return refuse(name, bad_name);
    if (read_ >= max_step_files) return refuse(name, "there are too many");
    ++read_;
    if (auto done = read(name, *parsed); !done) refuse(name, done.error().message);
  }
  StepFolder result() { return std::move(result_); }
  void refuse(std::string_view name, std::string_view why) {
    if (result_.refused++ == 0) result_.example.append(name.substr(0, 64)).append(": ").append(why.substr(0, 200));
  }

 private:
  Result<void> read(const char* name, const Name& parsed) {
    // O_NONBLOCK: neither a pipe without a writer nor somebody's lease makes us wait.
    const Descriptor file(::openat(folder_, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
    if (file.get() < 0) {
      if (errno == ENOENT) return {};  // replaced or removed a moment ago
      return std::unexpected(system_error("it cannot be opened"));
    }
    struct stat status{};
    if (::fstat(file.get(), &status) != 0) return std::unexpected(system_error("it cannot be looked at"));
    if (!S_ISREG(status.st_mode) || status.st_nlink > 1) return fail(ErrorKind::invalid, "it is not a file of its own");
    if (status.st_size > static_cast<off_t>(max_step_file_bytes)) return fail(ErrorKind::invalid, "it is too large");
    const bool held = is_held(file.get());
    if (!held && age_of(status) > step_file_lifetime) {
      (void)::unlinkat(folder_, name, 0);  // a folder that is mounted read-only keeps it
      return {};
    }
    std::array<char, max_step_file_bytes> text;
    const auto length = ::pread(file.get(), text.data(), text.size(), 0);
    if (length < 0) return std::unexpected(system_error("it cannot be read"));
    auto report = parse_report({text.data(), static_cast<size_t>(length)}, parsed, now_);
    if (!report) return std::unexpected(report.error());
    report->uid = status.st_uid;
    report->alive = held;
    result_.reports.push_back(std::move(*report));
    return {};
  }

  Duration age_of(const struct stat& status) const {
    return now_ - TimePoint(std::chrono::seconds(status.st_mtim.tv_sec));
  }

  void remove_if_old(const char* name) {
    struct stat status{};
    if (std::strcmp(name, ".") == 0 || std::strcmp(name, "..") == 0) return;
    if (::fstatat(folder_, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(status.st_mode) &&
        age_of(status) > step_file_lifetime)
      (void)::unlinkat(folder_, name, 0);
  }

  int folder_;
  TimePoint now_;
  size_t read_ = 0;
  StepFolder result_;
};

Result<int> open_folder(const std::string& folder) {
  const int number = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (number < 0) return std::unexpected(system_error("The folder " + folder + " cannot be opened"));
  return number;
}

}  // namespace

Result<fault::StepReport> parse_step_report(std::string_view name, std::string_view text, TimePoint now) {
  const auto parsed = parse_name(name);
  return parsed ? parse_report(text, *parsed, now) : fail(ErrorKind::invalid, std::string(bad_name));
}

Result<void> prepare_step_folder(const std::string& folder) {
  if (::mkdir(folder.c_str(), folder_mode) != 0 && errno != EEXIST)
    return std::unexpected(system_error("The folder " + folder + " cannot be made"));
  auto opened = open_folder(folder);
  if (!opened) return std::unexpected(opened.error());
  const Descriptor directory(*opened);
  struct stat status{};
  if (::fstat(directory.get(), &status) != 0) return std::unexpected(system_error(folder));
  if ((status.st_mode & 07777) == folder_mode || status.st_uid != ::geteuid()) return {};
  if (::fchmod(directory.get(), folder_mode) != 0)
    return std::unexpected(system_error("The folder " + folder + " cannot be made writable for jobs"));
  return {};
}

Result<StepFolder> read_step_folder(const std::string& folder, TimePoint now) {
  auto opened = open_folder(folder);
  if (!opened) return std::unexpected(opened.error());
  Descriptor directory(*opened);
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::fdopendir(directory.get()), ::closedir);
  if (!entries) return std::unexpected(system_error("The folder " + folder + " cannot be read"));
  const int number = directory.release();  // the DIR closes it
  Reader reader(number, now);
  size_t seen = 0;
  errno = 0;
  while (const auto* entry = ::readdir(entries.get())) {
    if (++seen > max_entries) {
      reader.refuse(entry->d_name, "there are too many names");
      break;
    }
    reader.take(entry->d_name);
    errno = 0;
  }
  if (errno != 0) return std::unexpected(system_error("The folder " + folder + " cannot be read"));
  return reader.result();
}

}  // namespace homeostat::io
