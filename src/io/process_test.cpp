#include "io/process.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <thread>

#include "tests/test_folder.hpp"

using namespace homeostat;
using namespace std::chrono_literals;

TEST_CASE("run captures both outputs, the status and what it was fed") {
  auto result = io::run({"sh", "-c", "cat; echo problem >&2; exit 3"}, {.input = "hello"});
  REQUIRE(result);
  CHECK(result->out == "hello");
  CHECK(result->err == "problem\n");
  CHECK(result->status.code == 3);
  auto killed = io::run({"sh", "-c", "kill -9 $$"});
  REQUIRE(killed);
  CHECK(killed->status.signal == 9);
  auto plain = io::run({"env"}, {.env = std::vector<std::string>{"A=b"}, .cwd = "/"});
  REQUIRE(plain);
  CHECK(plain->out.find("A=b\n") != std::string::npos);
  CHECK(plain->out.find("HOME=") == std::string::npos);
}

TEST_CASE("run bounds output and time, and hears a stop") {
  auto much = io::run({"sh", "-c", "head -c 3000000 /dev/zero"}, {.max_output_bytes = 1000});
  REQUIRE(much);
  CHECK(much->out.size() == 1000);
  CHECK(much->truncated);
  CHECK(much->status.ok());

  auto before = std::chrono::steady_clock::now();
  auto slow = io::run({"sleep", "30"}, {.timeout = Duration(100)});
  REQUIRE_FALSE(slow);
  CHECK(slow.error().kind == ErrorKind::timeout);
  std::stop_source stop;
  std::jthread stopper([&stop] { std::this_thread::sleep_for(100ms), stop.request_stop(); });
  auto stopped = io::run({"sleep", "30"}, {}, stop.get_token());
  REQUIRE_FALSE(stopped);
  CHECK(stopped.error().kind == ErrorKind::cancelled);
  CHECK(std::chrono::steady_clock::now() - before < 10s);
}

TEST_CASE("a large input to a program that reads none of it harms nothing") {
  auto result = io::run({"true"}, {.input = std::string(1 << 20, 'x')});
  REQUIRE(result);
  CHECK(result->status.ok());
}

TEST_CASE("what cannot be started says why") {
  auto missing = io::run({"no-such-program-here"});
  REQUIRE_FALSE(missing);
  CHECK(missing.error().kind == ErrorKind::not_found);
  CHECK(missing.error().message.find("not installed") != std::string::npos);
  auto folder = io::run({"/tmp"});
  REQUIRE_FALSE(folder);
  CHECK(folder.error().message.find("Permission denied") != std::string::npos);
  auto failed = io::run_ok({"sh", "-c", "echo because >&2; exit 4"});
  REQUIRE_FALSE(failed);
  CHECK(failed.error().message.find("exit code 4: because") != std::string::npos);
}

TEST_CASE("a spawned program writes to its file, is waited for with a bound and can be killed") {
  TestFolder folder;
  const auto name = folder.file("output");
  auto child = io::Process::spawn({"sh", "-c", "echo out; echo err >&2; exec sleep 30"},
                                  {.stdout_path = name, .stderr_path = name, .new_session = true});
  REQUIRE(child);
  CHECK_FALSE(child->wait(Duration(200)));
  CHECK(::getsid(child->pid()) == child->pid());
  child->kill(SIGTERM);
  auto status = child->wait(Duration(5000));
  REQUIRE(status);
  CHECK(status->signal == SIGTERM);
  CHECK(child->wait(Duration(0))->signal == SIGTERM);
  std::ifstream file(name);
  std::string text(std::istreambuf_iterator<char>(file), {});
  CHECK(text == "out\nerr\n");
}
