#include "lab/inject.hpp"

#include <doctest/doctest.h>

#include "io/fake_sys.hpp"
#include "io/files.hpp"
#include "lab/kernel_log.hpp"
#include "lab/random.hpp"

using namespace homeostat;
using namespace homeostat::lab;

namespace {

struct Bench {
  std::string folder = "/tmp/inject-test-" + random_hex(8), run = folder + "/run";
  explicit Bench(FakeMachine machine) {
    REQUIRE(io::make_folders(run));
    REQUIRE(begin_boot(run, machine));
  }
  ~Bench() { CHECK(io::remove_tree(folder)); }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  Result<std::string> strike(const std::vector<std::string>& words) const {
    auto injection = parse_injection(words);
    REQUIRE(injection);
    return inject(run, *injection);
  }
  std::string log() const { return *io::read_file(run + "/kmsg"); }
  std::string nvml() const { return *io::read_file(run + "/nvml.json"); }
  bool says(std::string_view text) const { return log().find(text) != std::string::npos; }
  bool nvml_has(std::string_view text) const { return nvml().find(text) != std::string::npos; }
};

fault::DrillFault parse(std::string_view text) { return *fault::parse_drill(text); }

}  // namespace

TEST_CASE("the words of a command line are a fault and perhaps a device") {
  const auto injection = parse_injection({"link=flap", "device=1", "port=mlx5_1:1", "count=2"});
  REQUIRE(injection);
  CHECK(fault::to_text(injection->fault) == "link=flap port=mlx5_1:1 count=2");
  CHECK(injection->device == "1");
  CHECK_FALSE(parse_injection({"device=0"}));
  CHECK_FALSE(parse_injection({"xid=79", "device=zero"}));
  CHECK_FALSE(parse_injection({}));
}

TEST_CASE("a fault changes what NVML shows of that GPU alone") {
  const auto healthy = healthy_gpus({"GPU-a", "GPU-b"});
  struct Case {
    std::string_view fault, shows;
  };
  constexpr Case cases[] = {
      {"xid=79", R"("state":"lost")"},
      {"lost", R"("state":"lost")"},
      {"xid=48 count=3", R"("ecc_uncorrected":3)"},
      {"ecc=uncorrectable", R"("recovery_action":4)"},
      {"ecc=correctable", R"("ecc_corrected":1000)"},
      {"ecc=row-remap-pending", R"("remap_pending":true)"},
      {"ecc=row-remap-failure", R"("remap_failure":true)"},
      {"xid=154/0x2", R"("recovery_action":2)"},
      {"thermal", R"("throttle":["hw_slowdown","hw_thermal"])"},
      {"hang", R"("hang_ms":600000)"},
  };
  for (const auto& [text, shows] : cases) {
    const auto changed = after_fault(healthy, parse(text), 1);
    REQUIRE_MESSAGE(changed, text);
    CHECK_MESSAGE(changed->find(shows) != std::string::npos, *changed);
    CHECK(changed->find(R"("uuid":"GPU-a","pci":"0000:17:00.0","state":"ok","ecc_uncorrected":0)") !=
          std::string::npos);
  }
  CHECK(after_fault(healthy, parse("xid=13"), 0) == healthy);
  CHECK(after_fault(healthy, parse("xid=79"), 2).error().kind == ErrorKind::not_found);
  CHECK(after_fault("junk", parse("xid=79"), 0).error().kind == ErrorKind::invalid);
}

TEST_CASE("an XID is told in the driver's words, of the right GPU; what is refused leaves no line") {
  const Bench bench({2, false});
  REQUIRE(bench.strike({"xid=79", "device=1"}));
  CHECK(bench.says(",-;NVRM: Xid (PCI:0000:3d:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."));
  CHECK(bench.says(",-;NVRM: GPU at PCI:0000:3d:00: GPU-"));
  CHECK(bench.nvml_has("lost"));
  const auto before = bench.log();
  CHECK_FALSE(bench.strike({"xid=79", "device=2"}));
  CHECK_FALSE(bench.strike({"link=flap", "port=mlx5_9:1"}));
  CHECK(bench.log() == before);
  REQUIRE(bench.strike({"xid=13", "device=0000:17:00.0"}));
  CHECK(bench.says("Xid (PCI:0000:17:00): 13,"));
}

TEST_CASE("a link that flaps leaves its counter and the driver's words; one that is down stays down") {
  const Bench bench({1, false});
  const io::FakeSys sys(bench.run + "/sys", bench.run + "/proc");
  REQUIRE(bench.strike({"link=flap", "count=2", "port=mlx5_1:1"}));
  CHECK(sys.get("class/infiniband/mlx5_1/ports/1/counters/link_downed") == "2");
  CHECK(sys.get("class/infiniband/mlx5_1/ports/1/state") == "4: ACTIVE");
  CHECK(bench.says(",-;mlx5_core 0000:43:00.0: Port: 1 Link DOWN\n"));
  CHECK(bench.says(",-;mlx5_core 0000:43:00.0: Port: 1 Link ACTIVE\n"));
  CHECK(sys.get("class/infiniband/mlx5_0/ports/1/counters/link_downed") == "0");
  REQUIRE(bench.strike({"link=down"}));
  CHECK(sys.get("class/infiniband/mlx5_0/ports/1/state") == "1: DOWN");
  REQUIRE(bench.strike({"link=down", "port=eth0:1"}));
  CHECK(sys.get("class/net/eth0/carrier") == "0");
}

TEST_CASE("clear makes everything sound again under a new boot") {
  const Bench bench({1, false});
  const auto boot = io::read_file(bench.run + "/boot_id");
  REQUIRE(bench.strike({"hang"}));
  REQUIRE(bench.strike({"link=down"}));
  REQUIRE(bench.strike({"clear"}));
  CHECK(*io::read_file(bench.run + "/boot_id") != *boot);
  CHECK_FALSE(bench.nvml_has("hang_ms"));
  CHECK(io::FakeSys(bench.run + "/sys", bench.run + "/proc").get("class/infiniband/mlx5_0/ports/1/state") ==
        "4: ACTIVE");
  CHECK_FALSE(bench.says("Link DOWN"));
}

TEST_CASE("AMD GPUs fail in their own words and counters, and have no XIDs") {
  const Bench bench({2, true});
  const io::FakeSys sys(bench.run + "/sys", bench.run + "/proc");
  REQUIRE(bench.strike({"amd=ue", "device=1"}));
  CHECK(sys.get("class/drm/card1/device/ras/umc_err_count").starts_with("ue: 1"));
  CHECK(sys.get("class/drm/card0/device/ras/umc_err_count").starts_with("ue: 0"));
  CHECK(bench.says("amdgpu 0000:c3:00.0: amdgpu: socket: 0, die: 0, 1 uncorrectable hardware errors detected"));
  REQUIRE(bench.strike({"thermal"}));
  const auto refused = bench.strike({"xid=79"});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.find("amd=ue") != std::string::npos);
  CHECK_FALSE(bench.says("Xid"));
  CHECK_FALSE(Bench({2, false}).strike({"amd=ue"}));
}
