// What a model of GPU should show (catalog/models.tsv). Read once from the compiled-in table; immutable.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace homeostat::fault {

struct GpuModel {
  std::string_view name;  // as the driver prints it
  unsigned nvlinks = 0;   // that must be up where a machine has more than one GPU of the model
  std::optional<unsigned> pcie_generation, pcie_width, slowdown_c;
  bool mig = false;
  std::string_view source;
};

class GpuModels {
 public:
  static const GpuModels& instance();
  const GpuModel* find(std::string_view name) const;  // nullptr: no expectations
  const std::vector<GpuModel>& all() const { return models_; }
  size_t malformed_rows() const { return malformed_; }  // none in a sound build (a test holds that)

 private:
  GpuModels();
  std::vector<GpuModel> models_;
  size_t malformed_ = 0;
};

}  // namespace homeostat::fault
