#include "io/edac.hpp"

namespace homeostat::io {

namespace {

constexpr size_t max_controllers = 64, max_dimms = 64;

}  // namespace

std::string EdacReader::worst_dimm(const SysFolder& controller) {
  std::uint64_t worst = 0;
  std::string label;
  size_t dimms = 0;
  for (const auto& name : tree_.list(controller)) {
    if (!name.starts_with("dimm") || ++dimms > max_dimms) continue;
    const auto dimm = tree_.open(controller, name.c_str());
    // One uncorrected error says more than any number of corrected ones.
    const auto errors =
        tree_.number(dimm, "dimm_ce_count").value_or(0) + (tree_.number(dimm, "dimm_ue_count").value_or(0) << 40);
    if (errors <= worst) continue;
    worst = errors;
    label = tree_.read(dimm, "dimm_label").text;
    if (label.empty()) label = name;
  }
  return label;
}

std::vector<fault::MemoryReading> EdacReader::read() {
  std::vector<fault::MemoryReading> out;
  const auto all = tree_.open("devices/system/edac/mc");
  if (!all) return out;
  for (const auto& name : tree_.list(all)) {
    if (!name.starts_with("mc") || name.find_first_not_of("0123456789", 2) != std::string::npos) continue;
    if (out.size() == max_controllers) break;
    const auto folder = tree_.open(all, name.c_str());
    fault::MemoryReading reading;
    reading.controller = name;
    SysFault ce = SysFault::none, ue = SysFault::none;
    reading.corrected = tree_.number(folder, "ce_count", &ce);
    reading.uncorrected = tree_.number(folder, "ue_count", &ue);
    if (!reading.corrected || !reading.uncorrected) {
      reading.trouble = "its file ";
      reading.trouble += reading.corrected ? "ue_count is " : "ce_count is ";
      reading.trouble += to_string(reading.corrected ? ue : ce);
    }
    if (reading.corrected.value_or(0) + reading.uncorrected.value_or(0) > 0) reading.worst_dimm = worst_dimm(folder);
    out.push_back(std::move(reading));
  }
  return out;
}

}  // namespace homeostat::io
