#include "lab/inject.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <chrono>
#include <exception>
#include <thread>

#include "io/fake_sys.hpp"
#include "io/files.hpp"
#include "lab/kernel_log.hpp"

namespace homeostat::lab {
namespace json = boost::json;
using fault::DrillFault;
using fault::DrillKind;

namespace {

constexpr std::int64_t hang_ms = 600'000;
constexpr int flaps_by_default = 3;
// A port retrains for a moment; the sensors count how often, not how long.
constexpr auto port_down_for = std::chrono::milliseconds(100);

class Lock {
 public:
  explicit Lock(const std::string& path) : fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    if (fd_ >= 0) (void)::flock(fd_, LOCK_EX);
  }
  ~Lock() {
    if (fd_ >= 0) ::close(fd_);
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  bool held() const { return fd_ >= 0; }

 private:
  int fd_;
};

void raise(json::object& gpu, std::string_view key, std::int64_t by) {
  const auto* old = gpu.if_contains(key);
  gpu[key] = (old != nullptr && old->is_int64() ? old->get_int64() : 0) + by;
}

void uncorrectable_error(json::object& gpu, std::int64_t count) {
  raise(gpu, "ecc_uncorrected", count);
  raise(gpu, "ecc_uncorrected_aggregate", count);
}

void change_for_xid(json::object& gpu, std::string_view code, std::int64_t count) {
  if (code == "79") gpu["state"] = "lost";
  if (code == "48" || code == "94" || code == "95") uncorrectable_error(gpu, count);
  if (code == "92") raise(gpu, "ecc_corrected", 1'000 * count);
  if (code == "63") gpu["remap_pending"] = true;
  if (code == "64") gpu["remap_failure"] = true;
  if (code.starts_with("154/0x")) gpu["recovery_action"] = code.back() - '0';
}

void change_for_ecc(json::object& gpu, std::string_view value, std::int64_t count) {
  if (value == "correctable") raise(gpu, "ecc_corrected", 1'000 * count);
  if (value == "row-remap-pending") gpu["remap_pending"] = true;
  if (value == "row-remap-failure") gpu["remap_failure"] = true;
  if (value != "uncorrectable") return;
  uncorrectable_error(gpu, count);
  gpu["remap_pending"] = true;
  gpu["recovery_action"] = 4;
}

void change(json::object& gpu, const DrillFault& fault) {
  switch (fault.kind) {
    case DrillKind::xid:
      return change_for_xid(gpu, fault.value, fault.count);
    case DrillKind::ecc:
      return change_for_ecc(gpu, fault.value, fault.count);
    case DrillKind::lost:
      gpu["state"] = "lost";
      return;
    case DrillKind::thermal:
      gpu["temperature_c"] = 96;
      gpu["memory_temperature_c"] = 98;
      gpu["throttle"] = json::array{"hw_slowdown", "hw_thermal"};
      gpu["sm_clock_mhz"] = 345;
      return;
    default:
      return;
  }
}

bool concerns_a_gpu(DrillKind kind) {
  return kind != DrillKind::link && kind != DrillKind::hang && kind != DrillKind::sxid && kind != DrillKind::clear;
}

Result<int> index_of(const std::string& device, const std::vector<std::string>& addresses) {
  const auto wanted = device.empty() ? "0" : device.substr(0, device.find('.'));
  for (size_t i = 0; i < addresses.size(); ++i)
    if (std::to_string(i) == wanted || addresses[i] == wanted) return static_cast<int>(i);
  return fail(ErrorKind::not_found,
              "the machine has no GPU " + wanted + "; it has " + std::to_string(addresses.size()));
}

std::vector<std::string> gpu_addresses(const std::string& run_folder, const FakeMachine& machine) {
  std::vector<std::string> addresses;
  if (machine.amd) {
    const auto cards = run_folder + "/sys/class/drm/";
    for (const auto& card : io::list_folder(cards)) {
      char target[512] = {};
      auto link = cards;
      link.append(card).append("/device");
      const auto length = ::readlink(link.c_str(), target, sizeof target - 1);
      const std::string path(target, length > 0 ? static_cast<size_t>(length) : 0);
      const auto address = path.substr(path.rfind('/') + 1);
      addresses.push_back(address.substr(0, address.rfind('.')));
    }
    return addresses;
  }
  for (int i = 0; i < machine.gpus; ++i) {
    const auto address = gpu_address(i);
    addresses.push_back(address.substr(0, address.rfind('.')));
  }
  return addresses;
}

Result<void> change_nvml(const std::string& run_folder, const DrillFault& fault, int gpu) {
  auto state = io::read_file(run_folder + "/nvml.json");
  if (!state) return std::unexpected(state.error());
  auto changed = after_fault(*state, fault, gpu);
  if (!changed) return std::unexpected(changed.error());
  return io::write_file(run_folder + "/nvml.json", *changed);
}

void strike_amd(io::FakeSys& sys, const DrillFault& fault, int gpu) {
  const auto folder = "class/drm/card" + std::to_string(gpu) + "/device/";
  if (fault.kind == DrillKind::amd && fault.value == "ue")
    sys.set(folder + "ras/umc_err_count", "ue: " + std::to_string(fault.count) + "\nce: 0\nde: 0");
  if (fault.kind != DrillKind::thermal) return;
  io::FakeGpuMetrics hot;
  hot.hotspot_c = 112;
  hot.accumulated = 2'000, hot.thermal = 900;
  sys.set_bytes(folder + "gpu_metrics", io::gpu_metrics_bytes(hot));
}

// The kernel's words about a port, as mlx5 writes them.
Result<void> strike_link(io::FakeSys& sys, const std::string& run_folder, const DrillFault& fault) {
  const auto port = fault.port.empty() ? std::string("mlx5_0:1") : fault.port;
  const auto name = port.substr(0, port.find(':'));
  const bool infiniband = io::exists(run_folder + "/sys/class/infiniband/" + name);
  if (!infiniband && !io::exists(run_folder + "/sys/class/net/" + name))
    return fail(ErrorKind::not_found,
                "the machine has no port " + port + "; it has mlx5_0:1, mlx5_1:1, eth0:1 and eth1:1");
  const auto say = [&](std::string_view word) {
    std::string text = "mlx5_core ";
    text.append(name.back() == '1' ? (infiniband ? "0000:43:00.0" : "0000:23:00.0")
                                   : (infiniband ? "0000:41:00.0" : "0000:21:00.0"));
    text.append(infiniband ? ": Port: 1 Link " : " " + name + ": Link ").append(word);
    return append_lines(run_folder, {{6, std::move(text)}});
  };
  const int times = fault.value == "down" ? 1 : fault.count > 1 ? fault.count : flaps_by_default;
  for (int i = 0; i < times; ++i) {
    infiniband ? sys.infiniband_down(name) : sys.ethernet_down(name);
    if (auto said = say(infiniband ? "DOWN" : "down"); !said) return said;
    if (fault.value == "down") break;
    std::this_thread::sleep_for(port_down_for);
    infiniband ? sys.infiniband_up(name) : sys.ethernet_up(name);
    if (auto said = say(infiniband ? "ACTIVE" : "up"); !said) return said;
  }
  return {};
}

Result<void> strike_sys(const std::string& run_folder, const DrillFault& fault, const FakeMachine& machine, int gpu) {
  try {
    io::FakeSys sys(run_folder + "/sys", run_folder + "/proc");
    if (fault.kind == DrillKind::link) return strike_link(sys, run_folder, fault);
    if (machine.amd) strike_amd(sys, fault, gpu);
  } catch (const std::exception& error) {
    return fail(ErrorKind::internal, "the machine's sys folder cannot be changed: " + std::string(error.what()));
  }
  return {};
}

Result<void> refuse_other_vendor(const DrillFault& fault, const FakeMachine& machine) {
  const auto driver = fault::driver_of(fault.kind);
  if (driver.empty() || driver == (machine.amd ? "amdgpu" : "nvidia")) return {};
  return fail(ErrorKind::invalid,
              machine.amd ? "the machine has AMD GPUs: choose amd=ue, amd=poison, amd=reset-failed or thermal"
                          : "the machine has NVIDIA GPUs: choose xid=79, for example");
}

}  // namespace

Result<Injection> parse_injection(const std::vector<std::string>& words) {
  Injection injection;
  std::string text;
  for (const auto& word : words) {
    if (word.starts_with("device="))
      injection.device = word.substr(7);
    else
      text.append(text.empty() ? "" : " ").append(word);
  }
  if (!fault::is_drill_device(injection.device))
    return fail(ErrorKind::invalid, "device is a GPU's index such as device=0, or its PCI address");
  auto fault = fault::parse_drill(text);
  if (!fault) return std::unexpected(fault.error());
  injection.fault = std::move(*fault);
  return injection;
}

Result<std::string> after_fault(std::string_view nvml_json, const DrillFault& fault, int gpu) {
  boost::system::error_code error;
  auto parsed = json::parse(nvml_json, error);
  auto* gpus = !error && parsed.is_object() ? parsed.get_object().if_contains("gpus") : nullptr;
  if (gpus == nullptr || !gpus->is_array())
    return fail(ErrorKind::invalid, "the machine's nvml.json has a wrong shape");
  if (fault.kind == DrillKind::hang) {
    parsed.get_object()["hang_ms"] = hang_ms;
    return json::serialize(parsed) + "\n";
  }
  auto& list = gpus->get_array();
  if (gpu < 0 || static_cast<size_t>(gpu) >= list.size() || !list[static_cast<size_t>(gpu)].is_object())
    return fail(ErrorKind::not_found,
                "the machine has no GPU " + std::to_string(gpu) + "; it has " + std::to_string(list.size()));
  change(list[static_cast<size_t>(gpu)].get_object(), fault);
  return json::serialize(parsed) + "\n";
}

Result<std::string> inject(const std::string& run_folder, const Injection& injection) {
  const auto& fault = injection.fault;
  const Lock lock(run_folder + "/../inject.lock");
  if (!lock.held()) return fail(ErrorKind::not_found, "the machine's folder " + run_folder + " is gone");
  const auto machine = read_machine(run_folder);
  if (!machine) return std::unexpected(machine.error());
  if (auto good = refuse_other_vendor(fault, *machine); !good) return std::unexpected(good.error());
  if (fault.kind == DrillKind::clear) {
    if (auto begun = begin_boot(run_folder, *machine); !begun) return std::unexpected(begun.error());
    return std::string("the machine's hardware is sound again and it has booted anew");
  }
  fault::DrillTarget target;
  target.fake_hardware = true;
  int gpu = 0;
  if (concerns_a_gpu(fault.kind)) {
    const auto addresses = gpu_addresses(run_folder, *machine);
    const auto index = index_of(injection.device, addresses);
    if (!index) return std::unexpected(index.error());
    gpu = *index;
    target.device = addresses[static_cast<size_t>(gpu)];
    const auto uuids = known_uuids(run_folder + "/nvml.json");
    if (static_cast<size_t>(gpu) < uuids.size()) target.uuid = uuids[static_cast<size_t>(gpu)];
  } else if (fault.kind == DrillKind::sxid) {
    target.device = injection.device.find(':') == std::string::npos
                        ? "0000:c1:00"
                        : injection.device.substr(0, injection.device.find('.'));
  }
  const auto plan = fault::plan_drill(fault, target);
  if (!plan) return std::unexpected(plan.error());
  const bool in_nvml = fault.kind == DrillKind::hang || (!machine->amd && concerns_a_gpu(fault.kind));
  if (in_nvml)
    if (auto changed = change_nvml(run_folder, fault, gpu); !changed) return std::unexpected(changed.error());
  if (auto struck = strike_sys(run_folder, fault, *machine, gpu); !struck) return std::unexpected(struck.error());
  if (!plan->lines.empty())
    if (auto said = append_lines(run_folder, plan->lines); !said) return std::unexpected(said.error());
  return "'" + fault::to_text(fault) + "' struck" + (concerns_a_gpu(fault.kind) ? " GPU " + std::to_string(gpu) : "");
}

}  // namespace homeostat::lab
