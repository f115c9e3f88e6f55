#include "agent/amd_sensor.hpp"

#include "agent/sys_test_helpers.hpp"
#include "io/amd.hpp"

using namespace homeostat;
using namespace homeostat::agent;
using namespace std::chrono_literals;
using fault::ProbeState;

namespace {

constexpr auto pci0 = "0000:c1:00.0";

std::unique_ptr<Sensor> sensor_on(const io::SysRoots& roots) {
  AmdSensorOptions options;
  options.roots = roots;
  return make_amd_sensor(std::move(options));
}

std::string file(const char* name) { return std::string("bus/pci/devices/0000:c1:00.0/") + name; }

}  // namespace

TEST_CASE("amd: absent without AMD accelerators where none is expected") {
  TestTree tree;
  CHECK(looks(*sensor_on(tree.roots()), 0s, 120s).state == ProbeState::absent);
  CHECK(sensor_on({"/nonexistent", "/nonexistent"})->look(at(0s)).state == ProbeState::absent);
  // A processor with graphics is no accelerator.
  tree.sys.add_amd_gpu(0, pci0);
  tree.sys.set(file("class"), "0x030000");
  tree.sys.set(file("mem_info_vram_total"), "536870912");
  const auto report = looks(*sensor_on(tree.roots()), 0s, 120s);
  CHECK(report.state == ProbeState::absent);
  CHECK(codes_of(report) == "");
}

//  amd.com/gpu: 8 on the Node, and nothing of AMD's on the bus
TEST_CASE("amd: zero GPUs where some are expected are a fault, not health") {
  TestTree tree;
  const auto sensor = sensor_on(tree.roots());
  const auto at_once = sensor->look(at(0s, 8));
  CHECK(at_once.state == ProbeState::pending);
  CHECK(at_once.message.find("0 of 8 AMD GPUs are there so far.") == 0);
  CHECK(at_once.message.find("expected (8)") != std::string::npos);
  CHECK(looks(*sensor, 5s, 55s, 8).state == ProbeState::pending);
  // /sys has answered: what it tells is a finding, which only a good report hands on.
  const auto report = looks(*sensor, 60s, 120s, 8);
  CHECK(report.state == ProbeState::good);
  CHECK(codes_of(report) == "GPU_MISSING:fatal@");
  // Whoever checks wants to know now.
  AmdSensorOptions options;
  options.roots = tree.roots();
  options.grace = 0s;
  CHECK(codes_of(make_amd_sensor(std::move(options))->look(at(0s, 8))) == "GPU_MISSING:fatal@");
}

//  expected 2    1 listed   2 listed   driver anew: none   2 listed
//  state         pending    good       good                good
TEST_CASE("amd: fewer than expected is waited for until all have been there once") {
  TestTree tree;
  tree.sys.add_amd_gpu(0, pci0);
  const auto sensor = sensor_on(tree.roots());
  const auto report = looks(*sensor, 0s, 30s, 2);
  CHECK(report.state == ProbeState::pending);
  CHECK(report.message == "1 of 2 AMD GPUs are there so far. The driver may still be starting.");
  tree.sys.add_amd_gpu(1, "0000:c3:00.0");
  CHECK(sensor->look(at(35s, 2)).state == ProbeState::good);
  tree.sys.remove_device("0000:c3:00.0");
  CHECK(sensor->look(at(40s, 2)).state == ProbeState::good);
  CHECK(codes_of(looks(*sensor, 45s, 50s, 2)) == "GPU_LOST:fatal@0000:c3:00");
}

TEST_CASE("amd: eight good GPUs and their figures, in every published revision of gpu_metrics") {
  for (int revision = 0; revision <= 8; ++revision) {
    CAPTURE(revision);
    TestTree tree;
    tree.sys.add_machine(8, 0, 0, 0);
    io::FakeGpuMetrics metrics;
    metrics.content_revision = revision;
    if (revision == 0) metrics.speed_tenth_gts = 160;  // one byte wide
    tree.sys.set_bytes(file("gpu_metrics"), io::gpu_metrics_bytes(metrics));
    const auto sensor = sensor_on(tree.roots());
    const auto report = looks(*sensor, 0s, 120s, 8);
    CHECK(report.state == ProbeState::good);
    CHECK(codes_of(report) == "");
    for (const auto& [name, value] : {std::pair<const char*, double>{"homeostat_gpu_temperature_celsius", 45},
                                      {"homeostat_gpu_memory_temperature_celsius", 40},
                                      {"homeostat_gpu_power_watts", 300},
                                      {"homeostat_gpu_sm_clock_hertz", 2.1e9},
                                      {"homeostat_gpu_pcie_lanes", 16},
                                      {"homeostat_gpu_utilization_ratio", 0.5},
                                      {"homeostat_gpu_memory_total_bytes", 206141652992.0}}) {
      CAPTURE(name);
      REQUIRE(sample_of(report, name));
      CHECK(sample_of(report, name)->value == doctest::Approx(value));
    }
    CHECK(report.samples.size() <= 8 * 13);
  }
}

TEST_CASE("amd: an unknown revision gives no figures and no fault, a missing table neither") {
  TestTree tree;
  tree.sys.add_amd_gpu(0, pci0);
  tree.sys.set_bytes(file("gpu_metrics"), std::string("\x20\x00\x01\x09", 4) + std::string(60, 'x'));
  auto report = looks(*sensor_on(tree.roots()), 0s, 120s);
  CHECK(report.state == ProbeState::good);
  CHECK(codes_of(report) == "");
  CHECK_FALSE(sample_of(report, "homeostat_gpu_temperature_celsius"));
  for (const auto* name : {"gpu_metrics", "ras", "xgmi_error", "pcie_replay_count", "hwmon"})
    tree.sys.remove(file(name));
  report = looks(*sensor_on(tree.roots()), 0s, 120s);
  CHECK(report.state == ProbeState::good);
  CHECK(codes_of(report) == "");
}

TEST_CASE("amd: RAS errors, bad pages, heat, temperature, xGMI errors") {
  TestTree tree;
  tree.sys.add_amd_gpu(0, pci0);
  const auto sensor = sensor_on(tree.roots());
  (void)sensor->look(at(0s));
  tree.sys.set(file("ras/umc_err_count"), "ue: 1\nce: 0\nde: 0");
  const auto report = sensor->look(at(5s));
  CHECK(codes_of(report) == "RAS_UE/umc:fatal@0000:c1:00");
  CHECK(report.findings[0].repair_class == fault::RepairClass::reset);
  tree.sys.set(file("ras/umc_err_count"), "ue: 0\nce: 0\nde: 0");
  tree.sys.set(file("ras/gpu_vram_bad_pages"), "0x00000001 : 0x00001000 : R\n0x00000002 : 0x00001000 : F");
  CHECK(codes_of(sensor->look(at(10s))) == "BAD_PAGE_UNRESERVED:error@0000:c1:00 BAD_PAGES:warn@0000:c1:00");
  tree.sys.set_bytes(file("ras/gpu_vram_bad_pages"), "");
  io::FakeGpuMetrics metrics;
  metrics.hotspot_c = 105;
  tree.sys.set_bytes(file("gpu_metrics"), io::gpu_metrics_bytes(metrics));
  CHECK(codes_of(looks(*sensor, 15s, 45s)) == "BAD_PAGES:warn@0000:c1:00 TEMPERATURE:error@0000:c1:00");
  // Errors are counted until the next of the rare readings.
  tree.sys.set(file("xgmi_error"), "2");
  CHECK(codes_of(looks(*sensor, 50s, 595s)).find("XGMI") == std::string::npos);
  CHECK(codes_of(sensor->look(at(600s))).find("XGMI_ERROR:warn@0000:c1:00") != std::string::npos);
}

TEST_CASE("amd: heat holds the chip back") {
  for (const int revision : {3, 6, 7, 8}) {
    CAPTURE(revision);
    TestTree tree;
    tree.sys.add_amd_gpu(0, pci0);
    const auto sensor = sensor_on(tree.roots());
    io::FakeGpuMetrics metrics;
    metrics.content_revision = revision;
    metrics.throttle = revision == 3 ? 1 : 0;
    std::string last;
    for (auto now = 0s; now <= 70s; now += 5s) {
      metrics.accumulated += 1000;
      metrics.thermal += 300;
      tree.sys.set_bytes(file("gpu_metrics"), io::gpu_metrics_bytes(metrics));
      last = codes_of(sensor->look(at(now)));
    }
    CHECK(last == "THERMAL_THROTTLE:warn@0000:c1:00");
  }
}

TEST_CASE("amd: a GPU that falls off the bus, fewer than expected, none with a driver") {
  TestTree tree;
  tree.sys.add_machine(8, 0, 0, 0);
  const auto sensor = sensor_on(tree.roots());
  CHECK(codes_of(looks(*sensor, 0s, 120s, 8)) == "");
  tree.sys.remove_device(pci0);
  const auto report = looks(*sensor, 125s, 130s, 8);
  CHECK(codes_of(report) == "GPU_LOST:fatal@0000:c1:00");
  CHECK(report.findings[0].unambiguous);
  // An agent that starts afterwards knows by the number that is expected.
  CHECK(codes_of(looks(*sensor_on(tree.roots()), 0s, 120s, 8)) == "GPU_MISSING:fatal@");
  TestTree unbound;
  unbound.sys.add_pci(pci0, "0x120000", "0x1002", "0x74a1", "");
  const auto none = looks(*sensor_on(unbound.roots()), 0s, 120s, 1);
  CHECK(none.state == ProbeState::good);
  CHECK(none.message.find("Load the driver") != std::string::npos);
  CHECK(codes_of(none) == "GPU_MISSING:fatal@");
  const auto unasked = looks(*sensor_on(unbound.roots()), 0s, 120s);
  CHECK(unasked.state == ProbeState::failed);
  CHECK(unasked.message.find("Load the driver") != std::string::npos);
  CHECK(codes_of(unasked) == "");
}

TEST_CASE("amd: a driver that is unloaded and loaded anew") {
  TestTree tree;
  tree.sys.add_amd_gpu(0, pci0);
  const auto sensor = sensor_on(tree.roots());
  (void)sensor->look(at(0s));
  tree.sys.remove("bus/pci/drivers/amdgpu/0000:c1:00.0");
  tree.sys.remove(file("driver"));
  CHECK(codes_of(looks(*sensor, 5s, 60s)) == "");
  tree.sys.add_amd_gpu(0, pci0);
  CHECK(codes_of(looks(*sensor, 65s, 120s)) == "");
  tree.sys.remove("bus/pci/drivers/amdgpu/0000:c1:00.0");
  tree.sys.remove(file("driver"));
  CHECK(codes_of(looks(*sensor, 125s, 190s)) == "GPU_LOST:fatal@0000:c1:00");
}

TEST_CASE("amd: every unreadable state of the files that decide, each hang") {
  struct Row {
    const char* what;
    void (*bend)(io::FakeSys&, const std::string&);
  };
  const Row rows[] = {
      {"gives an error", [](io::FakeSys& sys, const std::string& path) { sys.break_file(path); }},
      {"empty", [](io::FakeSys& sys, const std::string& path) { sys.set_bytes(path, ""); }},
      {"garbled", [](io::FakeSys& sys, const std::string& path) { sys.set_bytes(path, "\xff\xff"); }},
      {"huge", [](io::FakeSys& sys, const std::string& path) { sys.set(path, std::string(1 << 20, 'u')); }},
  };
  for (const auto* name : {"ras/umc_err_count", "gpu_metrics"})
    for (const auto& row : rows) {
      CAPTURE(name);
      CAPTURE(row.what);
      TestTree tree;
      tree.sys.add_amd_gpu(0, pci0);
      const auto sensor = sensor_on(tree.roots());
      (void)sensor->look(at(0s));
      row.bend(tree.sys, file(name));
      const auto report = looks(*sensor, 5s, 65s);
      CHECK(report.state == ProbeState::failed);
      CHECK(report.message.find(name) != std::string::npos);
      CHECK(codes_of(report) == "NO_ANSWER:error@0000:c1:00");
    }
  TestTree tree;
  tree.sys.add_amd_gpu(0, pci0);
  const auto sensor = sensor_on(tree.roots());
  (void)sensor->look(at(0s));
  int now = 5;
  for (const auto* name : {"ras/umc_err_count", "ras/gpu_vram_bad_pages", "gpu_metrics", "mem_info_vram_used",
                           "gpu_busy_percent", "pcie_replay_count"})
    check_hang(*sensor, tree.sys, file(name), std::chrono::seconds(now += 5));
  CHECK(codes_of(looks(*sensor, 60s, 120s)) == "");
}

namespace {

std::string text_of(const std::vector<GpuDevice>& devices) {
  std::string text;
  for (const auto& gpu : devices)
    text += std::to_string(gpu.index) + " " + gpu.pci + " " + gpu.uuid + (gpu.lost ? " lost" : "") +
            (gpu.trouble.empty() ? "" : ": " + gpu.trouble) + "\n";
  return text;
}

}  // namespace

TEST_CASE("amd: the list of devices: numbered by address, with the driver's names, of lost ones too") {
  TestTree tree;
  tree.sys.add_amd_gpu(0, pci0);
  tree.sys.add_amd_gpu(1, "0000:c3:00.0");
  tree.sys.add_amd_gpu(2, "0000:83:00.0");
  tree.sys.set(file("unique_id"), "1f2e3d4c5b6a7988");
  std::vector<GpuDevice> devices;
  AmdSensorOptions options;
  options.roots = tree.roots();
  options.devices_seen = [&](std::vector<GpuDevice> seen) { devices = std::move(seen); };
  const auto sensor = make_amd_sensor(options);
  (void)sensor->look(at(0s));
  CHECK(text_of(devices) == "0 0000:83:00 \n1 0000:c1:00 GPU-1f2e3d4c5b6a7988\n2 0000:c3:00 \n");
  tree.sys.remove_device(pci0);
  (void)sensor->look(at(5s));
  const auto lost =
      "0 0000:83:00 \n1 0000:c1:00 GPU-1f2e3d4c5b6a7988 lost: The GPU has gone from the PCI bus.\n2 0000:c3:00 \n";
  CHECK(text_of(devices) == lost);

  // A restarted agent remembers it, misses it, and gives it its name and number.
  std::vector<KnownGpu> known;
  known.reserve(devices.size());
  for (const auto& gpu : devices) known.push_back({gpu.index, gpu.uuid, gpu.pci, GpuVendor::amd});
  options.known_gpus = [&] { return known; };
  const auto anew = make_amd_sensor(options);
  CHECK(codes_of(looks(*anew, 0s, 60s, 3)) == "GPU_LOST:fatal@0000:c1:00");
  CHECK(text_of(devices) == lost);

  // Driver gone, cannot be asked, given to a virtual machine.
  tree.sys.add_amd_gpu(0, pci0);
  tree.sys.remove("bus/pci/drivers/amdgpu/0000:c1:00.0");
  tree.sys.remove(file("driver"));
  tree.sys.break_file("bus/pci/devices/0000:c3:00.0/gpu_metrics");
  (void)anew->look(at(65s));
  CHECK(text_of(devices).find("The amdgpu driver has let the GPU go.") != std::string::npos);
  CHECK(text_of(devices).find("AMD GPU 0000:c3:00 cannot be asked: its file gpu_metrics is ") != std::string::npos);
  tree.sys.add_pci(pci0, "0x120000", "0x1002", "0x74a1", "vfio-pci");
  CHECK(codes_of(anew->look(at(70s))).find("GPU_LOST") == std::string::npos);
  CHECK(devices.size() == 2);
}

TEST_CASE("amd: accelerators that another driver has are nobody's to miss") {
  TestTree tree;
  tree.sys.add_pci(pci0, "0x120000", "0x1002", "0x74a1", "vfio-pci");
  CHECK(looks(*sensor_on(tree.roots()), 0s, 120s).state == ProbeState::absent);
}

TEST_CASE("amd: ECC and partitions, in every state of their files") {
  TestTree tree;
  tree.sys.add_amd_gpu(0, pci0);
  tree.sys.add_amd_gpu(1, "0000:c3:00.0");
  tree.sys.set(file("ras/features"), "feature mask: 0x4ffe");
  for (const auto* pci : {"0000:c1:00.0", "0000:c3:00.0"}) {
    tree.sys.set(std::string("bus/pci/devices/") + pci + "/current_compute_partition", "SPX");
    tree.sys.set(std::string("bus/pci/devices/") + pci + "/current_memory_partition", "NPS1");
  }
  auto sensor = sensor_on(tree.roots());
  CHECK(codes_of(looks(*sensor, 0s, 120s)) == "ECC_OFF:warn@0000:c1:00");
  tree.sys.set(file("current_compute_partition"), "CPX");
  CHECK(codes_of(looks(*sensor, 125s, 300s)) == "ECC_OFF:warn@0000:c1:00 PARTITION_MIXED:info@");
  // What cannot be read says nothing, and is no trouble: few drivers have these files.
  for (const auto* text : {"", "feature mask: ", "feature mask: 0xg", "4ffe"}) {
    tree.sys.set(file("ras/features"), text);
    tree.sys.set(file("current_compute_partition"), "");
    sensor = sensor_on(tree.roots());
    CHECK(codes_of(looks(*sensor, 0s, 120s)) == "");
  }
  tree.sys.break_file(file("ras/features"));
  tree.sys.break_file(file("current_memory_partition"));
  sensor = sensor_on(tree.roots());
  const auto report = looks(*sensor, 0s, 120s);
  CHECK(report.state == ProbeState::good);
  CHECK(codes_of(report) == "");
  tree.sys.mend_file(file("current_memory_partition"));
  int now = 130;
  for (const auto* name : {"current_compute_partition", "current_memory_partition"})
    check_hang(*sensor, tree.sys, file(name), std::chrono::seconds(now += 60));
}

TEST_CASE("amd: whose the GPUs on the bus are") {
  struct Row {
    const char *what, *device_class, *vendor, *driver;
    bool amd;
  };
  for (const auto& row : {Row{"with its driver", "0x120000", "0x1002", "amdgpu", true},
                          Row{"without a driver", "0x038000", "0x1002", "", true},
                          Row{"of a virtual machine", "0x120000", "0x1002", "vfio-pci", false},
                          Row{"a screen's", "0x030000", "0x1002", "amdgpu", false},
                          Row{"NVIDIA's", "0x030200", "0x10de", "nvidia", false},
                          Row{"a network card", "0x020000", "0x15b3", "mlx5_core", false}}) {
    CAPTURE(row.what);
    TestTree tree;
    io::SysTree sys(tree.roots().sys);
    CHECK_FALSE(io::only_amd_on_bus(sys));
    tree.sys.add_pci(pci0, row.device_class, row.vendor, "0x1234", row.driver);
    CHECK(io::only_amd_on_bus(sys) == row.amd);
    tree.sys.add_pci("0000:17:00.0", "0x030200", "0x10de", "0x2330", "nvidia");
    CHECK_FALSE(io::only_amd_on_bus(sys));
  }
}
