// What PCI Express, memory and disks say about a node: a reading, what was seen before and the time in, findings out.
// Pure, bounded, one thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/fault/finding.hpp"
#include "core/fault/flap.hpp"
#include "core/time.hpp"

namespace homeostat::fault {

// PCI Express.

enum class PciKind { accelerator, network, bridge };

struct PciReading {
  std::string address;  // with function
  PciKind kind = PciKind::bridge;
  std::string model;  // "10de:2330"
  // AER. Non-fatal ones without unsupported requests, which scans of the bus make.
  std::optional<std::uint64_t> correctable, nonfatal, fatal;
  // What the link has now, and what device and the port above it can do at most. Speeds in 0.1 GT/s.
  std::optional<std::uint64_t> lanes, max_lanes, speed, max_speed;
  std::string trouble;
};

class PcieWatch {
 public:
  std::vector<Finding> look(const std::vector<PciReading>& devices, Duration now);

  static constexpr size_t max_devices = 512;

 private:
  struct Link {
    std::uint64_t best = 0;
    Continuity lost, never;
  };
  struct Memory {
    RisingCounter correctable, nonfatal, fatal;
    RateWatch correctable_rate, correctable_storm, nonfatal_rate, nonfatal_often, fatal_rate;
    Link lanes, speed;
    Continuity silent;
    bool seen = false;
  };
  void look_at(const PciReading& device, const std::vector<PciReading>& all, Memory& memory, Duration now,
               std::vector<Finding>& out);

  std::map<std::string, Memory, std::less<>> memory_;
};

// The findings' device: an accelerator's address without function, as the kernel's lines name it.
std::string pci_device_key(const PciReading& device);

// "RxErr 0\nBadTLP 2\n...\nTOTAL_ERR_COR 2" -> the total, less what `without` names; nullopt when there is no total.
std::optional<std::uint64_t> aer_total(std::string_view text, std::string_view without = "");

// Memory controllers (EDAC).

struct MemoryReading {
  std::string controller;  // "mc0"
  std::optional<std::uint64_t> corrected, uncorrected;
  std::string worst_dimm;  // its label, when errors are known by module
  std::string trouble;
};

class MemoryWatch {
 public:
  std::vector<Finding> look(const std::vector<MemoryReading>& controllers, Duration now);

  static constexpr size_t max_controllers = 64;

 private:
  struct Memory {
    RisingCounter corrected;
    RateWatch rate;
    Continuity silent;
  };
  std::map<std::string, Memory, std::less<>> memory_;
};

// Disks and filesystems.

struct NvmeReading {
  std::string name, pci;
  bool listed = true;
  bool moved = false;   // not listed, yet its PCI function is there with a driver
  bool fabric = false;  // over a network: it may connect anew
  std::string state;    // live, resetting, connecting, deleting, dead, …
  std::string trouble;
};

struct BlockReading {
  std::string name;
  std::uint64_t in_flight = 0, completed = 0;
};

struct MountReading {
  std::string source, mountpoint;  // "/dev/nvme0n1p2", "/var"
  bool read_only = false;
  bool emergency = false;  // the filesystem says itself that errors made it so
};

struct FilesystemReading {
  std::string disk;  // "nvme0n1p2"
  std::uint64_t errors = 0;
};

struct DiskReading {
  std::vector<NvmeReading> nvme;
  std::vector<BlockReading> blocks;
  std::vector<MountReading> mounts;
  std::vector<FilesystemReading> filesystems;
  std::vector<std::string> degraded_raids;
  std::vector<std::string> troubles;  // "mounts is garbled"
};

class DiskWatch {
 public:
  std::vector<Finding> look(const DiskReading& reading, Duration now);

  static constexpr size_t max_known = 1024;  // of each kind

 private:
  struct Nvme {
    bool was_live = false;
    Continuity busy, gone, silent;
  };
  struct Block {
    std::uint64_t completed = 0;
    Continuity stalled;
  };
  struct Mount {
    bool was_writable = false, seen = false;
  };
  void look_at_nvme(const NvmeReading& disk, Duration now, std::vector<Finding>& out);
  void look_at_block(const BlockReading& disk, Duration now, std::vector<Finding>& out);
  void look_at_mounts(const std::vector<MountReading>& mounts, std::vector<Finding>& out);
  void look_at_filesystem(const FilesystemReading& filesystem, std::vector<Finding>& out);

  std::map<std::string, Nvme, std::less<>> nvme_;
  std::map<std::string, Block, std::less<>> blocks_;
  std::map<std::string, Mount, std::less<>> mounts_;
  std::map<std::string, std::uint64_t, std::less<>> first_errors_;
  Continuity silent_;
};

// "/dev/sda1 / ext4 rw,relatime 0 0" lines: those of filesystems on disks that keep data.
std::vector<MountReading> parse_mounts(std::string_view text);
// The arrays of /proc/mdstat that lack a member ("[2/1] [U_]").
std::vector<std::string> degraded_raids_of(std::string_view mdstat);
// /sys/block/*/stat; nullopt when it is garbled.
std::optional<BlockReading> parse_block_stat(std::string_view name, std::string_view text);

}  // namespace homeostat::fault
