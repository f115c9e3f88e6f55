#include "lab/progress.hpp"

#include <boost/json.hpp>

#include "io/files.hpp"

namespace homeostat::lab {
namespace json = boost::json;

std::string to_json(const ProgressReport& report) {
  json::array steps;
  for (const auto& s : report.steps)
    steps.push_back(json::object{{"name", s.name}, {"state", s.state}, {"detail", s.detail}});
  return json::serialize(json::object{{"steps", steps}, {"ready", report.ready}, {"error", report.error}}) + "\n";
}

Result<ProgressReport> parse_progress(std::string_view text) {
  try {
    auto parsed = json::parse(json::string_view(text.data(), text.size()));
    const auto& object = parsed.as_object();
    ProgressReport report;
    for (const auto& item : object.at("steps").as_array()) {
      const auto& s = item.as_object();
      report.steps.push_back({std::string(s.at("name").as_string()), std::string(s.at("state").as_string()),
                              std::string(s.at("detail").as_string())});
    }
    report.ready = object.at("ready").as_bool();
    report.error = std::string(object.at("error").as_string());
    return report;
  } catch (const std::exception& e) {
    return homeostat::fail(ErrorKind::invalid, std::string("the progress file is damaged: ") + e.what());
  }
}

std::vector<std::string> news(const ProgressReport& before, const ProgressReport& after) {
  std::vector<std::string> lines;
  size_t done = 0;
  for (const auto& step : after.steps) done += step.state == "done" ? 1 : 0;
  for (size_t i = 0; i < after.steps.size(); ++i) {
    const auto& step = after.steps[i];
    const auto* old = i < before.steps.size() ? &before.steps[i] : nullptr;
    bool same = old != nullptr && old->state == step.state && old->detail == step.detail;
    if (same || step.state == "waiting") continue;
    auto line = step.name + ": " + (step.detail.empty() || step.state == "done" ? step.state : step.detail);
    if (step.state == "done") line += " (" + std::to_string(done) + " of " + std::to_string(after.steps.size()) + ")";
    lines.push_back(line);
  }
  return lines;
}

Progress::Progress(std::string path, std::vector<std::string> steps) : path_(std::move(path)) {
  for (auto& name : steps) report_.steps.push_back({std::move(name)});
  write();
}

void Progress::set(std::string_view step, std::string_view state, std::string detail) {
  std::lock_guard lock(mutex_);
  for (auto& s : report_.steps) {
    if (s.name != step) continue;
    s.state = state;
    s.detail = std::move(detail);
    break;  // a step's name stands once
  }
  write();
}

void Progress::ready() {
  std::lock_guard lock(mutex_);
  report_.ready = true;
  write();
}

void Progress::fail(std::string error) {
  std::lock_guard lock(mutex_);
  report_.error = std::move(error);
  write();
}

void Progress::write() { (void)io::write_file(path_, to_json(report_)); }

}  // namespace homeostat::lab
