// Builds a tree that looks like /sys (and /proc beside it) in a folder and bends it: for tests and for the lab's
// machines. Files are replaced atomically, so that a reader sees the old or the new one. Throws std::runtime_error when
// the folder cannot be written: a test or the lab has nothing to go on with. One thread at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace homeostat::io {

class FakeSys {
 public:
  // `root` becomes the sys folder; `proc` the proc folder ("" for root/../proc). What is there already stays.
  explicit FakeSys(std::filesystem::path root, std::filesystem::path proc = {});

  const std::filesystem::path& root() const { return root_; }
  const std::filesystem::path& proc() const { return proc_; }

  // What follows makes devices; the paths that set() and its like take are relative to the root, for instance
  // "class/infiniband/mlx5_0/ports/1/state". A device can be named by any of its class links.
  void add_pci(std::string_view pci, std::string_view device_class, std::string_view vendor, std::string_view device,
               std::string_view driver, int lanes = 16, std::string_view speed = "32.0 GT/s PCIe");
  void add_infiniband(std::string_view name, std::string_view pci, bool roce = false);
  void add_ethernet(std::string_view name, std::string_view pci, std::uint64_t speed_mbps = 400'000);
  void add_amd_gpu(int index, std::string_view pci);
  void add_nvme(int index, std::string_view pci);
  void add_edac(int controller);
  void add_ext4(std::string_view disk, std::string_view mountpoint);  // and its line in proc/mounts

  // How an 8-GPU training node looks: AMD GPUs, InfiniBand ports, their cards, Ethernet, NVMe, memory controllers.
  void add_machine(int amd_gpus, int infiniband_ports, int ethernet_ports, int nvme_disks);

  void set(std::string_view path, std::string_view value);
  void set_proc(std::string_view path, std::string_view value);
  void set_bytes(std::string_view path, std::string_view bytes);  // as they are, without a newline
  std::string get(std::string_view path) const;
  void bump(std::string_view path, std::int64_t by);  // of a number alone in its file
  // Every read of the file hangs, as in a driver that waits for its device, until release().
  void hang(std::string_view path);
  void release(std::string_view path);     // wakes the readers and puts the file back
  void break_file(std::string_view path);  // every read gives an error
  void mend_file(std::string_view path);
  void remove(std::string_view path);        // a file or a folder with all that is in it
  void remove_device(std::string_view pci);  // fallen off the bus: with its class links
  void link(std::string_view path, std::string_view target);

  // One port goes down or comes up, with its counters and its network interface, as a pulled cable does it.
  void infiniband_down(std::string_view name);
  void infiniband_up(std::string_view name);
  void ethernet_down(std::string_view name);
  void ethernet_up(std::string_view name);

 private:
  std::filesystem::path device_folder(std::string_view pci) const;
  void write(const std::filesystem::path& path, std::string_view content) const;
  void class_link(std::string_view of_class, std::string_view name, const std::filesystem::path& folder) const;
  std::filesystem::path at(std::string_view path) const { return root_ / path; }

  std::filesystem::path root_, proc_;
};

// A gpu_metrics table of the given content revision (1.0 to 1.8) as the driver lays it out.
struct FakeGpuMetrics {
  int content_revision = 6;
  int hotspot_c = 45, memory_c = 40, power_w = 300, busy_percent = 50, gfxclk_mhz = 2100;
  std::uint32_t throttle = 0, accumulated = 1000, thermal = 0;
  int lanes = 16, speed_tenth_gts = 320;
};
std::string gpu_metrics_bytes(const FakeGpuMetrics& metrics);

}  // namespace homeostat::io
