#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/files.hpp"
#include "lab/zone_spec.hpp"
#include "lab/zones.hpp"
#include "tests/test_folder.hpp"

using namespace homeostat;
using namespace homeostat::lab;

TEST_CASE("a zone's specification survives the way through its file") {
  ZoneSpec spec;
  spec.name = "m-1", spec.netns = "/run/netns/hl-m-1", spec.cgroup = "/lab-m-1", spec.record = "/r.json",
  spec.folder = "/f", spec.own_dev = true;
  spec.mounts = {{ZoneMount::Kind::tmpfs, "", "/run", false}, {ZoneMount::Kind::bind, "/a b", "/c\"d", true}};
  spec.devices = {{"nvidia0", 1, 3}};
  spec.programs = {{"p", {"/bin/p", "--flag=x y"}, {"A=b"}, "/socket"}};
  auto read = parse_zone_spec(to_json(spec));
  REQUIRE(read);
  CHECK(to_json(*read) == to_json(spec));
  CHECK(read->mounts[1].read_only);
  CHECK(read->programs[0].argv[1] == "--flag=x y");
  for (const char* bad : {"", "[]", "{}", R"({"name":"x"})", "{\"name\":5}"}) CHECK_FALSE(parse_zone_spec(bad));
}

TEST_CASE("programs that end at once are started ever more slowly, up to 5 s; a long run forgets that") {
  CHECK(next_backoff_ms(0, 5) == 200);
  CHECK(next_backoff_ms(200, 5) == 400);
  CHECK(next_backoff_ms(3'200, 9'999) == 5'000);
  CHECK(next_backoff_ms(5'000, 5) == 5'000);
  CHECK(next_backoff_ms(5'000, 10'000) == 200);
}

TEST_CASE("the start time is field 22, whatever the program is called") {
  std::string tail = " S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 424242 20 21";
  CHECK(parse_start_time("12 (sh)" + tail) == 424242ull);
  CHECK(parse_start_time("12 (a) b (c)" + tail) == 424242ull);
  CHECK_FALSE(parse_start_time("12 (sh) S 1 2"));
  CHECK_FALSE(parse_start_time(""));
}

TEST_CASE("a record is of one process, not of its number") {
  TestFolder folder;
  auto path = folder.file("record");
  pid_t child = ::fork();
  if (child == 0) ::pause(), ::_exit(0);
  REQUIRE(write_record(path, child));
  auto record = read_record(path);
  REQUIRE(record);
  CHECK(record->pid == child);
  CHECK(alive(*record));
  auto other = *record;
  other.start_time += 1;  // the number was used again
  CHECK_FALSE(alive(other));
  CHECK(kill_zone(path));
  CHECK_FALSE(alive(*record));  // a zombie is dead
  ::waitpid(child, nullptr, 0);
  CHECK_FALSE(read_record(path));
  CHECK(kill_zone(path));  // again: nothing to do
  REQUIRE(io::write_file(path, "garbage"));
  CHECK_FALSE(read_record(path));
}
