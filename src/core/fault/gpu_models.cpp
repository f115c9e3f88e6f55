#include "core/fault/gpu_models.hpp"

#include <array>

#include "core/fault/tables.hpp"
#include "core/fault/text.hpp"

namespace homeostat::fault {

namespace {

constexpr size_t columns = 7;

// "-" is a figure that is not published; anything else must be a number.
bool read_number(std::string_view text, std::optional<unsigned>& into) {
  if (text == "-") return true;
  const auto number = take_number(text);
  if (!number || !text.empty() || *number > 1000) return false;
  into = static_cast<unsigned>(*number);
  return true;
}

std::optional<GpuModel> parse_row(std::string_view line) {
  std::array<std::string_view, columns> cells;
  size_t count = 0;
  while (true) {
    const auto tab = line.find('\t');
    if (count == columns) return std::nullopt;
    cells[count++] = line.substr(0, tab);
    if (tab == std::string_view::npos) break;
    line.remove_prefix(tab + 1);
  }
  GpuModel model;
  std::optional<unsigned> links;
  const bool good = count == columns && !cells[0].empty() && read_number(cells[1], links) && links &&
                    read_number(cells[2], model.pcie_generation) && read_number(cells[3], model.pcie_width) &&
                    read_number(cells[4], model.slowdown_c) && (cells[5] == "yes" || cells[5] == "no") &&
                    !cells[6].empty();
  if (!good) return std::nullopt;
  model.name = cells[0];
  model.nvlinks = *links;
  model.mig = cells[5] == "yes";
  model.source = cells[6];
  return model;
}

}  // namespace

const GpuModels& GpuModels::instance() {
  static const GpuModels models;
  return models;
}

GpuModels::GpuModels() {
  bool header = true;
  for (auto rest = tables::models; !rest.empty();) {
    const auto line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(line.size() < rest.size() ? line.size() + 1 : rest.size());
    if (line.empty() || line.front() == '#') continue;
    if (!header) {
      if (const auto model = parse_row(line))
        models_.push_back(*model);
      else
        ++malformed_;
    }
    header = false;
  }
}

const GpuModel* GpuModels::find(std::string_view name) const {
  for (const auto& model : models_)
    if (model.name == name) return &model;
  return nullptr;
}

}  // namespace homeostat::fault
