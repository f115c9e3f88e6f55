#include "lab/kernel_log.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <charconv>

#include "io/files.hpp"
#include "lab/random.hpp"

namespace homeostat::lab {
namespace json = boost::json;
namespace {

constexpr const char* driver_version = "550.144.03";
// Where an HGX board's eight GPUs sit, then eight more.
constexpr int buses[] = {0x17, 0x3d, 0x60, 0x70, 0x98, 0xbb, 0xdd, 0xed,
                         0x18, 0x3e, 0x61, 0x71, 0x99, 0xbc, 0xde, 0xee};
constexpr int error_priority = 3, notice_priority = 5, info_priority = 6;  // facility kernel (0), so the level alone

// The driver's words after the code. Sources: NVIDIA's XID catalogue and driver logs quoted in bug reports.
std::string_view xid_text(int xid) {
  switch (xid) {
    case 13:
      return "pid='<unknown>', name=<unknown>, Graphics SM Warp Exception on (GPC 2, TPC 1, SM 0): Out Of Range "
             "Address";
    case 31:
      return "pid=4242, name=python3, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 faulted @ "
             "0x7f2a_10000000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ";
    case 43:
      return "pid=4242, name=python3, Ch 00000008";
    case 45:
      return "pid=4242, name=python3, Ch 00000008";
    case 48:
      return "pid='<unknown>', name=<unknown>, An uncorrectable double bit error (DBE) has been detected on GPU in the "
             "framebuffer at partition 2, subpartition 1.";
    case 63:
      return "pid='<unknown>', name=<unknown>, Row Remapper: New row (0x0000000012345678) marked for remapping, reset "
             "gpu to activate.";
    case 64:
      return "pid='<unknown>', name=<unknown>, Row Remapper: Error writing new remapping entry";
    case 74:
      return "pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 4(0x10000, 0x0, 0x0, 0x0, 0x0, "
             "0x0, 0x0)";
    case 79:
      return "pid='<unknown>', name=<unknown>, GPU has fallen off the bus.";
    case 92:
      return "pid='<unknown>', name=<unknown>, High single-bit ECC error rate";
    case 94:
      return "pid=4242, name=python3, Contained: CE User Channel (0x9). RST: No, D-RST: No";
    case 95:
      return "pid='<unknown>', name=<unknown>, Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No";
    case 119:
      return "pid=4242, name=python3, Timeout after 45s of waiting for RPC response from GPU0 GSP! Expected function "
             "76 (GSP_RM_CONTROL) (0x20802a02 0x8).";
    case 120:
      return "pid='<unknown>', name=<unknown>, GSP task exception: load access page fault (cause:0xd) @ pc:0x1a2b3c, "
             "partition:4#0, task:3";
    default:
      return "pid='<unknown>', name=<unknown>, Ch 00000000";
  }
}

std::string short_address(int index) {  // as XID lines name a GPU: without the function
  auto address = gpu_address(index);
  return address.substr(0, address.rfind('.'));
}

std::uint64_t boottime_us() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000 + static_cast<std::uint64_t>(now.tv_nsec) / 1'000;
}

Result<void> append_lines(const std::string& run_folder, const std::vector<KernelLine>& lines) {
  auto path = run_folder + "/kmsg";
  auto log = io::read_file(path, 256u << 20);
  if (!log) return std::unexpected(log.error());
  // Microseconds count from the machine's own boot, which the file `booted` remembers in the host's count.
  auto booted = io::read_file(run_folder + "/../booted");
  std::uint64_t since = 0;
  if (booted) std::from_chars(booted->data(), booted->data() + booted->size(), since);
  auto sequence = next_sequence(*log);
  std::string text;
  for (const auto& line : lines) text += kmsg_record(line.priority, sequence++, boottime_us() - since, line.text);
  return io::append_file(path, text);
}

std::vector<std::string> known_uuids(const std::string& nvml_path) {
  std::vector<std::string> uuids;
  auto text = io::read_file(nvml_path);
  boost::system::error_code error;
  auto parsed = text ? json::parse(*text, error) : json::value();
  auto* gpus = !error && parsed.is_object() ? parsed.get_object().if_contains("gpus") : nullptr;
  if (gpus == nullptr || !gpus->is_array()) return uuids;
  for (const auto& gpu : gpus->get_array())
    if (auto* uuid = gpu.is_object() ? gpu.get_object().if_contains("uuid") : nullptr;
        uuid != nullptr && uuid->is_string())
      uuids.emplace_back(uuid->get_string());
  return uuids;
}

}  // namespace

std::string kmsg_record(int priority, std::uint64_t sequence, std::uint64_t microseconds, std::string_view text) {
  auto record = std::to_string(priority) + "," + std::to_string(sequence) + "," + std::to_string(microseconds) + ",-;";
  for (unsigned char c : text) {
    if (c >= 32 && c < 127 && c != '\\') {
      record += static_cast<char>(c);
    } else {
      record += "\\x";
      record += "0123456789abcdef"[c >> 4];
      record += "0123456789abcdef"[c & 15];
    }
  }
  return record + "\n";
}

std::uint64_t next_sequence(std::string_view log) {
  auto end = log.rfind('\n');
  if (end == std::string_view::npos) return 0;
  auto begin = log.rfind('\n', end == 0 ? 0 : end - 1);
  auto line = log.substr(begin == std::string_view::npos || begin == end ? 0 : begin + 1);
  auto comma = line.find(',');
  if (comma == std::string_view::npos) return 0;
  std::uint64_t sequence = 0;
  auto [stop, error] = std::from_chars(line.data() + comma + 1, line.data() + line.size(), sequence);
  return error == std::errc{} ? sequence + 1 : 0;
}

std::string gpu_address(int index) {
  int bus = buses[static_cast<size_t>(index) % std::size(buses)];
  return std::string("0000:") + "0123456789abcdef"[bus >> 4] + "0123456789abcdef"[bus & 15] + ":00.0";
}

std::vector<KernelLine> xid_lines(int xid, int device, std::string_view uuid) {
  auto place = short_address(device);
  std::vector<KernelLine> lines{
      {notice_priority, "NVRM: GPU at PCI:" + place + ": " + std::string(uuid)},
      {error_priority, "NVRM: Xid (PCI:" + place + "): " + std::to_string(xid) + ", " + std::string(xid_text(xid))}};
  if (xid == 79) {
    lines.push_back({error_priority, "NVRM: GPU " + gpu_address(device) + ": GPU has fallen off the bus."});
    lines.push_back({error_priority, "NVRM: A GPU crash dump has been created. If possible, please run"});
    lines.push_back({error_priority, "NVRM: nvidia-bug-report.sh as root to collect this data before"});
    lines.push_back({error_priority, "NVRM: the NVIDIA kernel module is unloaded."});
  }
  return lines;
}

std::string healthy_gpus(const std::vector<std::string>& uuids) {
  json::array gpus;
  for (size_t i = 0; i < uuids.size(); ++i)
    gpus.push_back(json::object{{"index", i},
                                {"uuid", uuids[i]},
                                {"pci", gpu_address(static_cast<int>(i))},
                                {"state", "ok"},
                                {"ecc_uncorrected", 0},
                                {"ecc_corrected", 0},
                                {"utilization", "job"},
                                {"temperature_c", 40},
                                {"recovery_action", 0}});
  return json::serialize(json::object{{"driver", driver_version}, {"gpus", gpus}}) + "\n";
}

Result<std::string> after_xid(std::string_view nvml_json, int xid, int device) {
  boost::system::error_code error;
  auto parsed = json::parse(nvml_json, error);
  auto* gpus = !error && parsed.is_object() ? parsed.get_object().if_contains("gpus") : nullptr;
  if (gpus == nullptr || !gpus->is_array())
    return fail(ErrorKind::invalid, "the machine's nvml.json has a wrong shape");
  auto& list = gpus->get_array();
  if (device < 0 || static_cast<size_t>(device) >= list.size())
    return fail(ErrorKind::not_found,
                "the machine has no GPU " + std::to_string(device) + "; it has " + std::to_string(list.size()));
  auto& gpu = list[static_cast<size_t>(device)].as_object();
  auto raise = [&gpu](const char* key, std::int64_t by) {
    auto* old = gpu.if_contains(key);
    gpu[key] = (old != nullptr && old->is_int64() ? old->get_int64() : 0) + by;
  };
  if (xid == 79) gpu["state"] = "lost";
  if (xid == 48 || xid == 94 || xid == 95) raise("ecc_uncorrected", 1);
  if (xid == 92) raise("ecc_corrected", 1'000);
  return json::serialize(parsed) + "\n";
}

Result<void> begin_boot(const std::string& run_folder, int gpus) {
  if (auto made = io::make_folders(run_folder); !made) return made;
  auto uuids = known_uuids(run_folder + "/nvml.json");
  uuids.resize(static_cast<size_t>(gpus));
  for (auto& uuid : uuids)
    if (uuid.empty()) uuid = "GPU-" + random_uuid();
  if (auto written = io::write_file(run_folder + "/../booted", std::to_string(boottime_us())); !written) return written;
  // The log first: whoever sees the new boot id must not read the old log under it.
  if (auto written = io::write_file(run_folder + "/kmsg", ""); !written) return written;
  if (auto written = io::write_file(run_folder + "/boot_id", random_uuid() + "\n"); !written) return written;
  if (auto written = io::write_file(run_folder + "/nvml.json", healthy_gpus(uuids)); !written) return written;
  std::vector<KernelLine> lines{{notice_priority, "Linux version 6.1.0 (homeostat-lab)"}};
  if (gpus > 0)
    lines.push_back(
        {notice_priority, std::string("NVRM: loading NVIDIA UNIX x86_64 Kernel Module  ") + driver_version});
  for (int i = 0; i < gpus; ++i)
    lines.push_back({info_priority, "nvidia " + gpu_address(i) + ": enabling device (0000 -> 0002)"});
  return append_lines(run_folder, lines);
}

Result<void> inject_xid(const std::string& run_folder, int xid, int device) {
  if (xid < 1 || xid > 999) return fail(ErrorKind::invalid, "an XID is a number from 1 to 999, for example xid=79");
  int lock = ::open((run_folder + "/../inject.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock < 0) return fail(ErrorKind::not_found, "the machine's folder " + run_folder + " is gone");
  ::flock(lock, LOCK_EX);
  auto act = [&]() -> Result<void> {
    auto state = io::read_file(run_folder + "/nvml.json");
    if (!state) return std::unexpected(state.error());
    auto changed = after_xid(*state, xid, device);
    if (!changed) return std::unexpected(changed.error());
    auto uuids = known_uuids(run_folder + "/nvml.json");
    if (auto written = io::write_file(run_folder + "/nvml.json", *changed); !written) return written;
    return append_lines(run_folder, xid_lines(xid, device, uuids[static_cast<size_t>(device)]));
  };
  auto done = act();
  ::close(lock);
  return done;
}

}  // namespace homeostat::lab
