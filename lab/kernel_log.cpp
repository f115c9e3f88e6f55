#include "lab/kernel_log.hpp"

#include <time.h>

#include <boost/json.hpp>
#include <charconv>
#include <exception>
#include <utility>

#include "io/fake_sys.hpp"
#include "io/files.hpp"
#include "io/step_files.hpp"
#include "lab/random.hpp"

namespace homeostat::lab {
namespace json = boost::json;
namespace {

constexpr const char* driver_version = "550.144.03";
// Where an HGX board's eight GPUs sit, then eight more.
constexpr int buses[] = {0x17, 0x3d, 0x60, 0x70, 0x98, 0xbb, 0xdd, 0xed,
                         0x18, 0x3e, 0x61, 0x71, 0x99, 0xbc, 0xde, 0xee};
constexpr int notice_priority = 5, info_priority = 6;  // facility kernel (0), so the level alone

std::uint64_t boottime_us() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000 + static_cast<std::uint64_t>(now.tv_nsec) / 1'000;
}

}  // namespace

Result<void> append_lines(const std::string& run_folder, const std::vector<fault::DrillLine>& lines) {
  auto path = run_folder + "/kmsg";
  auto log = io::read_file(path, 256u << 20);
  if (!log) return std::unexpected(log.error());
  // Microseconds count from the machine's own boot, which the file `booted` remembers in the host's count.
  auto booted = io::read_file(run_folder + "/../booted");
  std::uint64_t since = 0;
  if (booted) std::from_chars(booted->data(), booted->data() + booted->size(), since);
  auto sequence = next_sequence(*log);
  std::string text;
  for (const auto& line : lines) text += kmsg_record(line.level, sequence++, boottime_us() - since, line.text);
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

namespace {

constexpr int infiniband_ports = 2, ethernet_ports = 2, nvme_disks = 1;

// What is there already is made sound again, in place: nobody sees a device come and go.
Result<void> build_sys(const std::string& run_folder, const FakeMachine& machine) {
  try {
    io::FakeSys sys(run_folder + "/sys", run_folder + "/proc");
    sys.add_machine(machine.amd ? machine.gpus : 0, infiniband_ports, ethernet_ports, nvme_disks);
  } catch (const std::exception& error) {
    return fail(ErrorKind::internal, "cannot make the machine's sys folder: " + std::string(error.what()));
  }
  return {};
}

std::vector<fault::DrillLine> first_words(const FakeMachine& machine) {
  std::vector<fault::DrillLine> lines{{notice_priority, "Linux version 6.1.0 (homeostat-lab)"}};
  if (machine.gpus == 0) return lines;
  if (machine.amd) {
    lines.push_back({info_priority, "[drm] amdgpu kernel modesetting enabled."});
    return lines;
  }
  lines.push_back({notice_priority, std::string("NVRM: loading NVIDIA UNIX x86_64 Kernel Module  ") + driver_version});
  for (int i = 0; i < machine.gpus; ++i)
    lines.push_back({info_priority, "nvidia " + gpu_address(i) + ": enabling device (0000 -> 0002)"});
  return lines;
}

}  // namespace

Result<FakeMachine> read_machine(const std::string& run_folder) {
  auto text = io::read_file(run_folder + "/../hardware");
  if (!text) return std::unexpected(text.error());
  FakeMachine machine;
  std::from_chars(text->data(), text->data() + text->size(), machine.gpus);
  machine.amd = text->find("amd") != std::string::npos;
  return machine;
}

namespace {

// As on a real machine, where /run does not outlive a boot: here the jobs on it tell how fast they step. The folder
// itself stays: pods live through this boot, and what they have mounted is this one.
Result<void> empty_step_folder(const std::string& folder) {
  for (const auto& name : io::list_folder(folder))
    if (auto removed = io::remove_tree(std::string(folder).append("/").append(name)); !removed) return removed;
  return io::prepare_step_folder(folder);
}

}  // namespace

Result<void> begin_boot(const std::string& run_folder, const FakeMachine& machine) {
  if (auto made = io::make_folders(run_folder); !made) return made;
  auto uuids = known_uuids(run_folder + "/nvml.json");
  uuids.resize(static_cast<size_t>(machine.gpus));
  for (auto& uuid : uuids)
    if (uuid.empty()) uuid = "GPU-" + random_uuid();
  if (auto built = build_sys(run_folder, machine); !built) return built;
  if (auto made = empty_step_folder(run_folder + "/steps"); !made) return made;
  // The log before the boot id: whoever sees the new id must not read the old log under it.
  const std::pair<std::string, std::string> files[] = {
      {"/../hardware", std::to_string(machine.gpus) + (machine.amd ? " amd\n" : " nvidia\n")},
      {"/../booted", std::to_string(boottime_us())},
      {"/kmsg", ""},
      {"/boot_id", random_uuid() + "\n"}};
  for (const auto& [name, text] : files)
    if (auto written = io::write_file(run_folder + name, text); !written) return written;
  if (!machine.amd)
    if (auto written = io::write_file(run_folder + "/nvml.json", healthy_gpus(uuids)); !written) return written;
  return append_lines(run_folder, first_words(machine));
}

}  // namespace homeostat::lab
