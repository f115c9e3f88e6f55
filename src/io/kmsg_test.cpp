#include "io/kmsg.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <thread>

#include "tests/test_folder.hpp"

using namespace homeostat;
using namespace homeostat::io;

namespace {

struct LogFile {
  TestFolder folder;
  const std::string path = folder.file("kmsg");
  LogFile() { append(""); }
  void append(const std::string& text) { std::ofstream(path, std::ios::app) << text; }
};

std::vector<std::string> read_now(KmsgReader& reader, Duration wait = Duration(0)) {
  auto batch = reader.read(wait, {});
  REQUIRE(batch.has_value());
  return batch->records;
}

using Records = std::vector<std::string>;

}  // namespace

TEST_CASE("what stands in the file comes first, then what is appended") {
  LogFile log;
  log.append("a\nb\n");
  auto reader = open_kmsg(log.path);
  REQUIRE(reader.has_value());
  CHECK(read_now(**reader) == Records{"a", "b"});
  CHECK(read_now(**reader).empty());
  log.append("c\n");
  CHECK(read_now(**reader, Duration(2000)) == Records{"c"});
}

TEST_CASE("a record is handed over only when it is whole") {
  LogFile log;
  auto reader = open_kmsg(log.path);
  REQUIRE(reader.has_value());
  log.append("half");
  CHECK(read_now(**reader).empty());
  log.append(" and half\n");
  CHECK(read_now(**reader, Duration(2000)) == Records{"half and half"});
}

TEST_CASE("an appended record is seen within milliseconds") {
  LogFile log;
  auto reader = open_kmsg(log.path);
  REQUIRE(reader.has_value());
  std::chrono::steady_clock::time_point written;
  std::jthread writer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    written = std::chrono::steady_clock::now();
    log.append("x\n");
  });
  CHECK(read_now(**reader, Duration(5000)) == Records{"x"});
  writer.join();
  CHECK(std::chrono::steady_clock::now() - written < std::chrono::milliseconds(80));
}

TEST_CASE("a batch is bounded and nothing between batches is lost") {
  LogFile log;
  std::string text;
  for (int i = 0; i < 1000; ++i) text += std::to_string(i) + "\n";
  log.append(text);
  auto reader = open_kmsg(log.path);
  REQUIRE(reader.has_value());
  Records all;
  for (int i = 0; i < 10; ++i) {
    const auto some = read_now(**reader);
    CHECK(some.size() <= max_kmsg_batch);
    all.insert(all.end(), some.begin(), some.end());
  }
  REQUIRE(all.size() == 1000);
  CHECK(all[999] == "999");
}

TEST_CASE("a record of a megabyte is cut, the next one is whole") {
  LogFile log;
  log.append(std::string(1 << 20, 'x') + "\nnext\n");
  auto reader = open_kmsg(log.path);
  REQUIRE(reader.has_value());
  const auto records = read_now(**reader);
  REQUIRE(records.size() == 2);
  CHECK(records[0].size() == 16 * 1024);
  CHECK(records[1] == "next");
}

TEST_CASE("a file that is replaced is followed") {
  LogFile log;
  log.append("a\n");
  auto reader = open_kmsg(log.path);
  REQUIRE(reader.has_value());
  CHECK(read_now(**reader) == Records{"a"});
  const auto fresh = log.path + ".new";
  std::ofstream(fresh) << "b\n";
  REQUIRE(std::rename(fresh.c_str(), log.path.c_str()) == 0);
  CHECK(read_now(**reader, Duration(2000)) == Records{"b"});
}

TEST_CASE("a log that is not there is told in a sentence; a stop ends the wait") {
  const auto missing = open_kmsg("/nonexistent/kmsg");
  REQUIRE_FALSE(missing.has_value());
  CHECK(missing.error().kind == ErrorKind::not_found);
  LogFile log;
  auto reader = open_kmsg(log.path);
  REQUIRE(reader.has_value());
  std::stop_source stop;
  std::jthread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    stop.request_stop();
  });
  const auto before = std::chrono::steady_clock::now();
  CHECK((*reader)->read(Duration(60'000), stop.get_token())->records.empty());
  CHECK(std::chrono::steady_clock::now() - before < std::chrono::seconds(5));
}
