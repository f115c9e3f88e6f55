#include "agent/probe.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>

using namespace homeostat;
using namespace homeostat::agent;

namespace {

struct ScriptedNvml final : io::Nvml {
  std::function<Result<io::NvmlReading>()> answer;
  Result<io::NvmlReading> read() override { return answer(); }
};

Probe::Load scripted(std::function<Result<io::NvmlReading>()> answer) {
  return [answer](const std::string&) -> Result<std::unique_ptr<io::Nvml>> {
    auto nvml = std::make_unique<ScriptedNvml>();
    nvml->answer = answer;
    return nvml;
  };
}

template <class Condition>
bool eventually(Condition condition) {
  for (int i = 0; i < 500; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

io::GpuReading gpu(unsigned index, std::string pci) {
  io::GpuReading reading;
  reading.index = index;
  reading.pci = std::move(pci);
  reading.uuid = "GPU-" + std::to_string(index);
  return reading;
}

}  // namespace

TEST_CASE("what a reading says about the node") {
  io::NvmlReading reading;
  reading.gpus = {gpu(0, "0000:0a:00"), gpu(1, "0000:0b:00"), gpu(2, "0000:0c:00")};
  CHECK(findings_of(reading, 3).empty());
  CHECK(findings_of(reading, 0).empty());

  reading.gpus[0].lost = true;
  reading.gpus[1].ecc_uncorrected = 2;
  reading.gpus[2].recovery_action = 2;
  const auto findings = findings_of(reading, 4);
  REQUIRE(findings.size() == 4);
  CHECK(findings[0].code == "LOST");
  CHECK(findings[0].device == "0000:0a:00");
  CHECK(findings[0].repair_class == fault::RepairClass::replace_node);
  CHECK(findings[1].code == "ECC_UNCORRECTED");
  CHECK(findings[1].severity == fault::Severity::warn);
  CHECK(findings[2].code == "RECOVERY_ACTION/2");
  CHECK(findings[2].action == "RESTART_BM");
  CHECK(findings[3].code == "GPU_MISSING");
  CHECK(findings[3].severity == fault::Severity::fatal);
  CHECK(findings[3].title == "3 GPUs are there, 4 should be");
}

TEST_CASE("a GPU that was lost before it could say its name is still counted") {
  io::NvmlReading reading;
  reading.gpus.resize(1);
  reading.gpus[0].index = 5;
  reading.gpus[0].lost = true;
  CHECK(findings_of(reading, 1).at(0).device == "gpu-5");
}

TEST_CASE("a missing library is nothing to watch where no GPU is expected, and a failure where one is") {
  const Probe::Load missing = [](const std::string&) -> Result<std::unique_ptr<io::Nvml>> {
    return fail(ErrorKind::not_found, "not there");
  };
  Probe idle({"", false, Duration(5), Duration(1000)}, missing);
  CHECK(eventually([&] { return idle.latest().state == fault::ProbeState::absent; }));
  idle.expect_gpus(true);
  CHECK(eventually([&] { return idle.latest().state == fault::ProbeState::failed; }));
  CHECK(idle.latest().message == "not there");
}

TEST_CASE("a probe that hangs says so and holds nobody up") {
  auto release = std::make_shared<std::promise<void>>();
  auto released = std::make_shared<std::shared_future<void>>(release->get_future().share());
  auto calls = std::make_shared<std::atomic<int>>(0);
  const auto before = std::chrono::steady_clock::now();
  {
    Probe probe({"", true, Duration(5), Duration(30)}, scripted([=]() -> Result<io::NvmlReading> {
                  if (++*calls > 1) released->wait();
                  return io::NvmlReading{};
                }));
    CHECK(eventually([&] { return probe.latest().rounds >= 1; }));
    CHECK(eventually([&] { return probe.latest().state == fault::ProbeState::failed; }));
    CHECK(probe.latest().message.starts_with("The driver has not answered the device probe for "));
  }
  CHECK(std::chrono::steady_clock::now() - before < std::chrono::seconds(6));
  release->set_value();
}

TEST_CASE("asked, it looks again at once") {
  Probe probe({"", true, Duration(60'000), Duration(1000)},
              scripted([] { return Result<io::NvmlReading>(io::NvmlReading{}); }));
  CHECK(eventually([&] { return probe.latest().rounds == 1; }));
  probe.ask_now();
  CHECK(eventually([&] { return probe.latest().rounds == 2; }));
}
