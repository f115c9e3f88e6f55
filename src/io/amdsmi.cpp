#include "io/amdsmi.hpp"

#include "io/amdsmi_abi.hpp"
#include "io/amdsmi_gpu.hpp"

namespace homeostat::io {

namespace {

using amdsmi::Functions;

constexpr unsigned oldest_major = 24, newest_major = 27;

class LoadedAmdSmi final : public AmdSmi {
 public:
  LoadedAmdSmi(const Functions& functions, std::vector<std::string> lacking, std::shared_ptr<NowReading> now)
      : call_(functions), lacking_(std::move(lacking)), now_(std::move(now)) {}

  Result<AmdSmiReading> read(const std::vector<fault::AmdReading>& gpus) override {
    if (unknown_) return std::unexpected(*unknown_);
    AmdSmiReading reading;
    amdsmi::Complaints complaints;
    amdsmi::Ask ask(*now_, "", complaints);
    if (const int status = ask.call(call_.init, amdsmi::init_gpus); status != amdsmi::success)
      return failure("amdsmi could not be started", status);
    auto known = check_version(ask, reading);
    if (known)
      for (const auto& gpu : gpus)
        if (gpu.listed) reading.gpus.push_back(read_gpu(gpu, reading, complaints));
    (void)ask.call(call_.shut_down);
    if (!known) return std::unexpected(known.error());
    reading.unreadable = std::move(complaints.sentences);
    return reading;
  }

  std::vector<std::string> lacking() const override { return lacking_; }

 private:
  Result<void> check_version(amdsmi::Ask& ask, AmdSmiReading& reading) {
    if (const int status = ask.call(call_.version, room_.fresh()); status != amdsmi::success)
      return failure("amdsmi could not tell its version", status);
    const auto version = room_.as<amdsmi::Version>();
    major_ = version.first;
    reading.version = std::to_string(version.first);
    reading.version.append(".").append(std::to_string(version.second)).append(".");
    reading.version.append(std::to_string(version.third));
    if (major_ >= oldest_major && major_ <= newest_major) return {};
    // It will not be another one before the process ends.
    auto unknown =
        fail(ErrorKind::invalid, "amdsmi " + reading.version + " is of a version whose answers are not known (" +
                                     std::to_string(oldest_major) + " to " + std::to_string(newest_major) +
                                     " are): AMD GPUs are read from /sys alone.");
    unknown_ = unknown.error();
    return unknown;
  }

  fault::AmdReading read_gpu(const fault::AmdReading& known, AmdSmiReading& reading, amdsmi::Complaints& complaints) {
    fault::AmdReading gpu;
    gpu.pci = known.pci;
    const auto bdf = amdsmi::bdf_of(known.pci);
    if (!bdf) return gpu;
    amdsmi::Ask ask(*now_, known.pci, complaints);
    amdsmi::Handle handle = nullptr;
    if (!ask.may()) {
      gpu.trouble = "it was not asked, because the driver failed too often before";
      return gpu;
    }
    if (const int status = ask.call(call_.handle_from_bdf, *bdf, &handle); status != amdsmi::success) {
      gpu.trouble = "amdsmi answers " + amdsmi::word(status) + " (" + amdsmi::sentence(status) + ")";
      return gpu;
    }
    if (reading.driver_version.empty() && ask(call_.driver_info, handle, room_.fresh()))
      reading.driver_version = room_.text(longest_version);
    amdsmi::read_missing(call_, major_, handle, known, ask, room_, gpu);
    return gpu;
  }

  static std::unexpected<Error> failure(const std::string& what, int status) {
    return fail(ErrorKind::unavailable, what + " (" + amdsmi::word(status) + "). " + amdsmi::sentence(status));
  }

  static constexpr size_t longest_version = 64;
  Functions call_;
  std::vector<std::string> lacking_;
  std::shared_ptr<NowReading> now_;
  amdsmi::Room room_;
  unsigned major_ = 0;
  std::optional<Error> unknown_;
};

template <class... Functions>
bool find_vital(SymbolFinder& find, Functions&... functions) {
  return (find(functions.name, functions.call) && ...);
}

template <class... Functions>
void find_optional(SymbolFinder& find, Functions&... functions) {
  (find.optional(functions.name, functions.call), ...);
}

// The plain name first, for whoever has set it to the one that fits the driver.
constexpr const char* candidates[] = {"libamd_smi.so",    "libamd_smi.so.27", "libamd_smi.so.26",
                                      "libamd_smi.so.25", "libamd_smi.so.24", "/opt/rocm/lib/libamd_smi.so"};

void* open_any(const std::string& path, std::string& why) {
  if (!path.empty()) return open_library(path.c_str(), why);
  for (const auto* candidate : candidates)
    if (void* library = open_library(candidate, why)) return library;
  return nullptr;
}

}  // namespace

Result<std::unique_ptr<AmdSmi>> load_amdsmi(const std::string& path, const std::shared_ptr<NowReading>& now) {
  return load_amdsmi_with(path, now, nullptr);
}

Result<std::unique_ptr<AmdSmi>> load_amdsmi_with(const std::string& path, const std::shared_ptr<NowReading>& now,
                                                 const SymbolLookup& lookup) {
  std::string why;
  void* library = open_any(path, why);
  if (library == nullptr) return fail(ErrorKind::not_found, "AMD's management library cannot be loaded: " + why + ".");
  Functions f;
  SymbolFinder find(library, lookup);
  if (!find_vital(find, f.init, f.shut_down, f.version, f.handle_from_bdf)) {
    ::dlclose(library);
    return fail(ErrorKind::invalid, "The library " + (path.empty() ? std::string("libamd_smi.so") : path) +
                                        " is not amdsmi or is older than ROCm 6: AMD GPUs are read from /sys alone.");
  }
  find_optional(find, f.uuid, f.asic_info, f.driver_info, f.ecc_enabled, f.ecc_count, f.total_ecc, f.bad_pages,
                f.bad_page_threshold, f.violations, f.pcie_info, f.power_info, f.heat, f.memory_total, f.memory_used,
                f.compute_partition, f.memory_partition);
  return std::make_unique<LoadedAmdSmi>(f, find.take_lacking(), now);
}

}  // namespace homeostat::io
