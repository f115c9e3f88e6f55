#include "agent/topology.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "tests/test_folder.hpp"

using namespace homeostat;

namespace fs = std::filesystem;

//   15:01.0 root port ── 16:00.0 switch ── 17:00.0 GPU (and its audio function, which is none of ours)
//   00:1f.2 disk controller, no accelerator
TEST_CASE("the ports above a GPU, from where sysfs has its folder") {
  TestFolder tree;
  const auto& sys = tree.path;
  const auto add = [&](const std::string& folder, const char* device_class) {
    fs::create_directories(sys / "devices" / folder);
    std::ofstream(sys / "devices" / folder / "class") << device_class << "\n";
    fs::create_directories(sys / "bus/pci/devices");
    fs::create_symlink("../../../devices/" + folder, sys / "bus/pci/devices" / fs::path(folder).filename());
  };
  add("pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0", "0x030200");
  add("pci0000:00/0000:00:1f.2", "0x010601");
  const auto topology = agent::read_topology(sys);
  CHECK(topology.above.size() == 2);
  CHECK(topology.leads_to("0000:16:00.0", "0000:17:00"));
  CHECK(topology.leads_to("0000:15:01.0", "0000:17:00"));
  CHECK_FALSE(topology.leads_to("0000:15:02.0", "0000:17:00"));
  CHECK(agent::read_topology(sys / "nowhere").above.empty());
}
