#include "io/fake_sys.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace homeostat::io {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void give_up(const fs::path& path, const char* what) {
  throw std::runtime_error("The fake sysfs tree cannot " + std::string(what) + " " + path.string() + ": " +
                           std::strerror(errno) + ".");
}

fs::path beside(const fs::path& path, const char* prefix) {
  return path.parent_path() / (prefix + path.filename().string());
}

// "0000:41:00.0" -> "0000:40:00.0": the port above a device.
std::string bridge_above(std::string_view pci) {
  std::string bridge(pci);
  const auto bus = std::stoul(bridge.substr(bridge.find(':') + 1, 2), nullptr, 16);
  std::array<char, 8> text;
  (void)std::snprintf(text.data(), text.size(), "%02x", static_cast<unsigned>((bus + 255) % 256));  // fits: two digits
  bridge.replace(bridge.find(':') + 1, 2, text.data(), 2);
  bridge.replace(bridge.size() - 4, 4, "00.0");
  return bridge;
}

constexpr std::string_view aer_correctable =
    "RxErr 0\nBadTLP 0\nBadDLLP 0\nRollover 0\nTimeout 0\nNonFatalErr 0\nCorrIntErr 0\nHeaderOF 0\nTOTAL_ERR_COR 0";

std::string aer_uncorrectable(std::string_view total) {
  std::string text;
  for (const auto* name :
       {"Undefined", "DLP", "SDES", "TLP", "FCP", "CmpltTO", "CmpltAbrt", "UnxCmplt", "RxOF", "MalfTLP", "ECRC",
        "UnsupReq", "ACSViol", "UncorrIntErr", "BlockedTLP", "AtomicOpBlocked", "TLPBlockedErr", "PoisonTLPBlocked"}) {
    text += name;
    text += " 0\n";
  }
  text += total;
  return text + " 0";
}

}  // namespace

FakeSys::FakeSys(fs::path root, fs::path proc) : root_(std::move(root)), proc_(std::move(proc)) {
  if (proc_.empty()) proc_ = root_.parent_path() / "proc";
  for (const auto* folder : {"bus/pci/devices", "bus/pci/drivers", "class", "devices", "fs", "block"})
    fs::create_directories(root_ / folder);
  fs::create_directories(proc_ / "1");
  // A tree that is there already is taken up as it is.
  if (!fs::exists(proc_ / "1/mounts")) set_proc("1/mounts", "proc /proc proc rw,nosuid 0 0");
}

void FakeSys::write(const fs::path& path, std::string_view content) const {
  fs::create_directories(path.parent_path());
  const auto fresh = beside(path, ".new.");
  std::ofstream file(fresh, std::ios::binary | std::ios::trunc);
  file << content;
  file.close();
  if (!file) give_up(fresh, "write");
  fs::rename(fresh, path);
}

void FakeSys::set(std::string_view path, std::string_view value) { write(at(path), std::string(value) + "\n"); }
void FakeSys::set_proc(std::string_view path, std::string_view value) {
  write(proc_ / path, value.empty() ? "" : std::string(value) + "\n");
}
void FakeSys::set_bytes(std::string_view path, std::string_view bytes) { write(at(path), bytes); }

std::string FakeSys::get(std::string_view path) const {
  std::ifstream file(at(path), std::ios::binary);
  if (!file) give_up(at(path), "read");
  std::string text{std::istreambuf_iterator<char>(file), {}};
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

void FakeSys::bump(std::string_view path, std::int64_t by) {
  set(path, std::to_string(std::stoull(get(path)) + static_cast<std::uint64_t>(by)));
}

void FakeSys::hang(std::string_view path) {
  const auto file = at(path), fifo = beside(file, ".fifo.");
  if (::mkfifo(fifo.c_str(), 0600) != 0) give_up(fifo, "make");
  fs::create_hard_link(file, beside(file, ".held."));
  fs::rename(fifo, file);
}

void FakeSys::release(std::string_view path) {
  const auto file = at(path);
  const int fd = ::open(file.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);  // a writer: who waits in open() goes on
  if (fd < 0) give_up(file, "open");
  fs::rename(beside(file, ".held."), file);
  ::close(fd);
}

void FakeSys::break_file(std::string_view path) {
  // Reading a folder gives EISDIR, whoever reads: the nearest to a driver's EIO that a plain folder can do.
  const auto file = at(path);
  fs::rename(file, beside(file, ".held."));
  fs::create_directory(file);
}

void FakeSys::mend_file(std::string_view path) {
  const auto file = at(path);
  fs::remove(file);
  fs::rename(beside(file, ".held."), file);
}

void FakeSys::remove(std::string_view path) { fs::remove_all(at(path)); }

void FakeSys::link(std::string_view path, std::string_view target) {
  const auto from = at(path), fresh = beside(from, ".new.");
  fs::create_directories(from.parent_path());
  fs::remove(fresh);
  fs::create_symlink(target, fresh);
  fs::rename(fresh, from);
}

fs::path FakeSys::device_folder(std::string_view pci) const {
  return root_ / "devices" / "pci0000:00" / bridge_above(pci) / pci;
}

void FakeSys::class_link(std::string_view of_class, std::string_view name, const fs::path& folder) const {
  const auto from = root_ / "class" / of_class / name;
  fs::create_directories(from.parent_path());
  fs::remove(from);
  fs::create_symlink(folder.lexically_relative(from.parent_path()), from);
}

void FakeSys::add_pci(std::string_view pci, std::string_view device_class, std::string_view vendor,
                      std::string_view device, std::string_view driver, int lanes, std::string_view speed) {
  const auto fill = [&](const fs::path& folder, std::string_view klass, std::string_view maker,
                        std::string_view model) {
    write(folder / "class", std::string(klass) + "\n");
    write(folder / "vendor", std::string(maker) + "\n");
    write(folder / "device", std::string(model) + "\n");
    for (const auto* width : {"current_link_width", "max_link_width"})
      write(folder / width, std::to_string(lanes) + "\n");
    for (const auto* rate : {"current_link_speed", "max_link_speed"}) write(folder / rate, std::string(speed) + "\n");
    write(folder / "aer_dev_correctable", std::string(aer_correctable) + "\n");
    write(folder / "aer_dev_nonfatal", aer_uncorrectable("TOTAL_ERR_NONFATAL") + "\n");
    write(folder / "aer_dev_fatal", aer_uncorrectable("TOTAL_ERR_FATAL") + "\n");
    const auto from = root_ / "bus/pci/devices" / folder.filename();
    fs::remove(from);
    fs::create_symlink(folder.lexically_relative(from.parent_path()), from);
  };
  const auto folder = device_folder(pci);
  fill(folder.parent_path(), "0x060400", "0x1000", "0xc030");
  fill(folder, device_class, vendor, device);
  if (driver.empty()) return;
  const auto drivers = root_ / "bus/pci/drivers" / driver;
  fs::create_directories(drivers);
  fs::remove(drivers / pci);
  fs::create_symlink(folder.lexically_relative(drivers), drivers / pci);
  fs::remove(folder / "driver");
  fs::create_symlink(drivers.lexically_relative(folder), folder / "driver");
}

void FakeSys::add_infiniband(std::string_view name, std::string_view pci, bool roce) {
  if (!fs::exists(device_folder(pci))) add_pci(pci, roce ? "0x020000" : "0x020700", "0x15b3", "0x1021", "mlx5_core");
  const auto folder = device_folder(pci) / "infiniband" / name;
  fs::create_directories(folder);
  fs::remove(folder / "device");
  fs::create_symlink(fs::path("../../../") / pci, folder / "device");
  write(folder / "board_id", "MT_0000000838\n");
  const auto port = folder / "ports/1";
  write(port / "state", "4: ACTIVE\n");
  write(port / "phys_state", "5: LinkUp\n");
  write(port / "rate", "400 Gb/sec (4X NDR)\n");
  write(port / "link_layer", roce ? "Ethernet\n" : "InfiniBand\n");
  for (const auto* counter :
       {"link_downed", "link_error_recovery", "symbol_error", "port_rcv_errors", "local_link_integrity_errors",
        "excessive_buffer_overrun_errors", "port_xmit_wait", "port_rcv_data", "port_xmit_data", "VL15_dropped"})
    write(port / "counters" / counter, "0\n");
  for (const auto* counter : {"out_of_buffer", "local_ack_timeout_err", "packet_seq_err"})
    write(port / "hw_counters" / counter, "0\n");
  class_link("infiniband", name, folder);
}

void FakeSys::add_ethernet(std::string_view name, std::string_view pci, std::uint64_t speed_mbps) {
  if (!fs::exists(device_folder(pci))) add_pci(pci, "0x020000", "0x15b3", "0x1021", "mlx5_core");
  const auto folder = device_folder(pci) / "net" / name;
  fs::create_directories(folder);
  fs::remove(folder / "device");
  fs::create_symlink(fs::path("../../../") / pci, folder / "device");
  for (const auto& [file, value] : {std::pair{"operstate", "up"},
                                    {"carrier", "1"},
                                    {"carrier_down_count", "1"},
                                    {"duplex", "full"},
                                    {"type", "1"},
                                    {"flags", "0x1003"},
                                    {"statistics/rx_errors", "0"},
                                    {"statistics/rx_bytes", "0"},
                                    {"statistics/tx_bytes", "0"},
                                    {"statistics/rx_crc_errors", "0"},
                                    {"statistics/rx_dropped", "0"}})
    write(folder / file, std::string(value) + "\n");
  write(folder / "speed", std::to_string(speed_mbps) + "\n");
  class_link("net", name, folder);
}

void FakeSys::add_amd_gpu(int index, std::string_view pci) {
  add_pci(pci, "0x120000", "0x1002", "0x74a1", "amdgpu");
  const auto folder = device_folder(pci);
  write(folder / "ras/features", "feature mask: 0x4fff\n");
  for (const auto* block : {"umc", "sdma", "gfx", "mmhub", "xgmi_wafl", "pcie_bif"})
    write(folder / "ras" / (std::string(block) + "_err_count"), "ue: 0\nce: 0\nde: 0\n");
  write(folder / "ras/gpu_vram_bad_pages", "");
  write(folder / "gpu_metrics", gpu_metrics_bytes({}));
  write(folder / "mem_info_vram_total", "206141652992\n");
  write(folder / "mem_info_vram_used", "1048576\n");
  write(folder / "gpu_busy_percent", "50\n");
  write(folder / "xgmi_error", "0\n");
  write(folder / "pcie_replay_count", "0\n");
  write(folder / "hwmon/hwmon3/temp2_crit", "100000\n");
  write(folder / "hwmon/hwmon3/temp2_label", "junction\n");
  const auto card = "card" + std::to_string(index);
  const auto drm = folder / "drm" / card;
  fs::create_directories(drm);
  fs::remove(drm / "device");
  fs::create_symlink(fs::path("../../../") / pci, drm / "device");
  class_link("drm", card, drm);
}

void FakeSys::add_nvme(int index, std::string_view pci) {
  add_pci(pci, "0x010802", "0x144d", "0xa824", "nvme", 4, "16.0 GT/s PCIe");
  const auto name = "nvme" + std::to_string(index);
  const auto folder = device_folder(pci) / "nvme" / name;
  write(folder / "state", "live\n");
  write(folder / "transport", "pcie\n");
  fs::remove(folder / "device");
  fs::create_symlink(fs::path("../../../") / pci, folder / "device");
  class_link("nvme", name, folder);
  const auto block = name + "n1";
  write(folder / block / "stat", "100 0 800 10 100 0 800 10 0 10 20\n");
  const auto from = root_ / "block" / block;
  fs::remove(from);
  fs::create_symlink((folder / block).lexically_relative(from.parent_path()), from);
}

void FakeSys::add_edac(int controller) {
  const auto folder = "devices/system/edac/mc/mc" + std::to_string(controller) + "/";
  for (const auto* file : {"ce_count", "ue_count", "ce_noinfo_count", "ue_noinfo_count"}) set(folder + file, "0");
  set(folder + "mc_name", "Intel_SKX_Socket#0");
  for (const auto* dimm : {"dimm0/", "dimm1/"}) {
    set(folder + dimm + "dimm_ce_count", "0");
    set(folder + dimm + "dimm_ue_count", "0");
    set(folder + dimm + "dimm_label", std::string("CPU_SrcID#0_MC#0_Chan#0_DIMM#") + dimm[4]);
  }
}

void FakeSys::add_ext4(std::string_view disk, std::string_view mountpoint) {
  set("fs/ext4/" + std::string(disk) + "/errors_count", "0");
  const auto mounts = proc_ / "1/mounts";
  std::ifstream file(mounts);
  std::string all{std::istreambuf_iterator<char>(file), {}};
  all += "/dev/" + std::string(disk) + " " + std::string(mountpoint) + " ext4 rw,relatime 0 0\n";
  write(mounts, all);
}

void FakeSys::add_machine(int amd_gpus, int infiniband_ports, int ethernet_ports, int nvme_disks) {
  const auto address = [](int kind, int index) {
    std::array<char, 32> text;
    (void)std::snprintf(text.data(), text.size(), "0000:%x%x:00.0", kind, (2 * index + 1) % 16);  // fits
    return std::string(text.data());
  };
  for (int i = 0; i < amd_gpus; ++i) add_amd_gpu(i, address(0xc, i));
  for (int i = 0; i < infiniband_ports; ++i) add_infiniband("mlx5_" + std::to_string(i), address(0x4, i));
  for (int i = 0; i < ethernet_ports; ++i) add_ethernet("eth" + std::to_string(i), address(0x2, i), 100'000);
  for (int i = 0; i < nvme_disks; ++i) add_nvme(i, address(0x8, i));
  for (int i = 0; i < 2; ++i) add_edac(i);
}

void FakeSys::remove_device(std::string_view pci) {
  const auto folder = device_folder(pci);
  for (const auto* of_class : {"infiniband", "net", "drm", "nvme"})
    if (fs::exists(folder / of_class))
      for (const auto& entry : fs::directory_iterator(folder / of_class))
        fs::remove(root_ / "class" / of_class / entry.path().filename());
  if (fs::exists(folder / "driver")) fs::remove(fs::canonical(folder / "driver") / pci);
  fs::remove(root_ / "bus/pci/devices" / pci);
  fs::remove_all(folder);
}

void FakeSys::infiniband_down(std::string_view name) {
  const auto port = "class/infiniband/" + std::string(name) + "/ports/1/";
  set(port + "state", "1: DOWN");
  set(port + "phys_state", "2: Polling");
  bump(port + "counters/link_downed", 1);
}

void FakeSys::infiniband_up(std::string_view name) {
  const auto port = "class/infiniband/" + std::string(name) + "/ports/1/";
  set(port + "phys_state", "5: LinkUp");
  set(port + "state", "4: ACTIVE");
}

void FakeSys::ethernet_down(std::string_view name) {
  const auto port = "class/net/" + std::string(name) + "/";
  set(port + "carrier", "0");
  set(port + "operstate", "down");
  bump(port + "carrier_down_count", 1);
}

void FakeSys::ethernet_up(std::string_view name) {
  const auto port = "class/net/" + std::string(name) + "/";
  set(port + "carrier", "1");
  set(port + "operstate", "up");
}

namespace {

class Table {
 public:
  explicit Table(size_t size) : bytes_(size, '\xff') {}  // all ones: a field that the chip does not have
  template <class T>
  void put(size_t offset, T value) {
    for (size_t i = 0; i < sizeof(T); ++i)
      bytes_[offset + i] = static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i) & 0xff);
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Revisions 1.0 to 1.3: one layout that grows at its end.
std::string old_metrics(const FakeGpuMetrics& m) {
  static constexpr size_t sizes[] = {80, 96, 104, 120};
  Table table(sizes[m.content_revision]);
  table.put<std::uint16_t>(0, static_cast<std::uint16_t>(sizes[m.content_revision]));
  const size_t temperatures = m.content_revision == 0 ? 16 : 4, activity = m.content_revision == 0 ? 28 : 16;
  table.put<std::uint16_t>(temperatures + 2, static_cast<std::uint16_t>(m.hotspot_c));
  table.put<std::uint16_t>(temperatures + 4, static_cast<std::uint16_t>(m.memory_c));
  table.put<std::uint16_t>(activity, static_cast<std::uint16_t>(m.busy_percent));
  table.put<std::uint16_t>(activity + 6, static_cast<std::uint16_t>(m.power_w));
  table.put<std::uint16_t>(54, static_cast<std::uint16_t>(m.gfxclk_mhz));
  table.put<std::uint32_t>(68, m.throttle);
  if (m.content_revision == 0) {
    table.put<std::uint8_t>(74, static_cast<std::uint8_t>(m.lanes));
    table.put<std::uint8_t>(75, static_cast<std::uint8_t>(m.speed_tenth_gts));
  } else {
    table.put<std::uint16_t>(74, static_cast<std::uint16_t>(m.lanes));
    table.put<std::uint16_t>(76, static_cast<std::uint16_t>(m.speed_tenth_gts));
  }
  if (m.content_revision == 3) table.put<std::uint64_t>(112, static_cast<std::uint64_t>(m.throttle) << 32);
  table.put<std::uint8_t>(2, 1);
  table.put<std::uint8_t>(3, static_cast<std::uint8_t>(m.content_revision));
  return table.take();
}

// Revisions 1.4 to 1.8 (MI300 and later): where power and what follows it move.
std::string new_metrics(const FakeGpuMetrics& m) {
  struct Layout {
    size_t size, throttle, accumulated, thermal, lanes, gfxclk;
  };
  static constexpr Layout layouts[] = {{288, 40, 0, 0, 48, 240},
                                       {360, 104, 0, 0, 112, 312},
                                       {1664, 0, 32, 44, 60, 264},
                                       {2000, 0, 40, 52, 68, 296},
                                       {3000, 0, 40, 52, 68, 296}};
  const auto& layout = layouts[m.content_revision - 4];
  Table table(layout.size);
  table.put<std::uint16_t>(0, static_cast<std::uint16_t>(layout.size));
  table.put<std::uint8_t>(2, 1);
  table.put<std::uint8_t>(3, static_cast<std::uint8_t>(m.content_revision));
  table.put<std::uint16_t>(4, static_cast<std::uint16_t>(m.hotspot_c));
  table.put<std::uint16_t>(6, static_cast<std::uint16_t>(m.memory_c));
  table.put<std::uint16_t>(10, static_cast<std::uint16_t>(m.power_w));
  table.put<std::uint16_t>(12, static_cast<std::uint16_t>(m.busy_percent));
  if (layout.throttle > 0) table.put<std::uint32_t>(layout.throttle, m.throttle);
  if (layout.accumulated > 0) {
    table.put<std::uint32_t>(layout.accumulated, m.accumulated);
    for (size_t at = layout.accumulated + 4; at < layout.thermal + 12; at += 4) table.put<std::uint32_t>(at, 0);
    table.put<std::uint32_t>(layout.thermal, m.thermal);
  }
  table.put<std::uint16_t>(layout.lanes, static_cast<std::uint16_t>(m.lanes));
  table.put<std::uint16_t>(layout.lanes + 2, static_cast<std::uint16_t>(m.speed_tenth_gts));
  for (size_t i = 0; i < 8; ++i)
    table.put<std::uint16_t>(layout.gfxclk + 2 * i, static_cast<std::uint16_t>(m.gfxclk_mhz));
  return table.take();
}

}  // namespace

std::string gpu_metrics_bytes(const FakeGpuMetrics& metrics) {
  return metrics.content_revision <= 3 ? old_metrics(metrics) : new_metrics(metrics);
}

}  // namespace homeostat::io
