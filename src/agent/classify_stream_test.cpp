#include "agent/classify_stream.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <string>
#include <thread>

namespace {

std::string run(const std::string& input) {
  int in[2], out[2];
  REQUIRE(pipe(in) == 0);
  REQUIRE(pipe(out) == 0);
  std::jthread writer([&] {
    size_t at = 0;
    while (at < input.size()) {
      const ssize_t n = write(in[1], input.data() + at, input.size() - at);
      if (n <= 0) break;
      at += static_cast<size_t>(n);
    }
    close(in[1]);
  });
  std::string rows;
  std::jthread reader([&] {
    char buffer[4096];
    ssize_t n;
    while ((n = read(out[0], buffer, sizeof buffer)) > 0) rows.append(buffer, static_cast<size_t>(n));
  });
  const auto done = homeostat::agent::classify_stream(in[0], out[1]);
  close(out[1]);
  writer.join();
  reader.join();
  close(in[0]);
  close(out[0]);
  REQUIRE(done.has_value());
  return rows;
}

}  // namespace

TEST_CASE("one row for each line, the last one without a newline included") {
  CHECK(run("") == "");
  CHECK(run("hello\nNVRM: Xid (PCI:0000:0a:00): 79, x") ==
        "none\t\t\tnone\t\ngpu-xid\t79\t0000:0a:00\tfatal\tRESTART_BM\n");
  CHECK(run("\n\n") == "none\t\t\tnone\t\nnone\t\t\tnone\t\n");
}

TEST_CASE("a line of a megabyte, binary bytes and NULs give one row and harm nothing after them") {
  const std::string after = "\nNVRM: Xid (PCI:0000:0a:00): 79, x\n";
  const std::string row = "none\t\t\tnone\t\ngpu-xid\t79\t0000:0a:00\tfatal\tRESTART_BM\n";
  CHECK(run(std::string(1 << 20, 'x') + after) == row);
  CHECK(run(std::string(1 << 20, '\0') + after) == row);
  CHECK(run(std::string("\xff\xfe\x00\x01(((:::", 10) + after) == row);
}

TEST_CASE("a fault at the head of a very long line is still seen") {
  CHECK(run("NVRM: Xid (PCI:0000:0a:00): 79, " + std::string(1 << 20, 'y') + "\n") ==
        "gpu-xid\t79\t0000:0a:00\tfatal\tRESTART_BM\n");
}

TEST_CASE("a lost GPU reported in three lines takes its name from the first") {
  CHECK(run("NVRM: The NVIDIA GPU 0000:3b:00.0\nNVRM: (PCI ID: 10de:2330) installed in this system has\n"
            "NVRM: fallen off the bus and is not responding to commands.\n") ==
        "none\t\t\tnone\t\nnone\t\t\tnone\t\ngpu-lost\t79\t0000:3b:00\tfatal\tRESTART_BM\n");
}
