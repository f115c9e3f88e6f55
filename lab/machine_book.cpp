#include "lab/machine_book.hpp"

#include <algorithm>
#include <boost/json.hpp>

#include "lab/address_plan.hpp"

namespace homeostat::lab {
namespace json = boost::json;
namespace {

constexpr size_t name_limit = 40, list_limit = 64, text_limit = 253;
constexpr int gpu_limit = 16;

bool lower_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }
bool letter_or_digit(char c) { return lower_or_digit(c) || (c >= 'A' && c <= 'Z'); }

bool dns_label(std::string_view text, size_t limit) {
  return !text.empty() && text.size() <= limit && lower_or_digit(text.front()) && lower_or_digit(text.back()) &&
         std::all_of(text.begin(), text.end(), [](char c) { return lower_or_digit(c) || c == '-'; });
}

// The alphabet of label keys and values; strict enough that nothing can slip into a command's list syntax.
bool label_text(std::string_view text, bool slash_allowed) {
  return text.size() <= text_limit && std::all_of(text.begin(), text.end(), [slash_allowed](char c) {
           return letter_or_digit(c) || c == '-' || c == '_' || c == '.' || (slash_allowed && c == '/');
         });
}

bool taint(std::string_view text) {
  auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return false;
  auto effect = text.substr(colon + 1), pair = text.substr(0, colon);
  auto equals = pair.find('=');
  auto key = pair.substr(0, equals);
  auto value = equals == std::string_view::npos ? std::string_view{} : pair.substr(equals + 1);
  return !key.empty() && label_text(key, true) && label_text(value, false) &&
         (effect == "NoSchedule" || effect == "PreferNoSchedule" || effect == "NoExecute");
}

json::object order_object(const MachineOrder& order) {
  json::object labels;
  for (const auto& [key, value] : order.labels) labels[key] = value;
  return {{"token", order.token}, {"name", order.name},
          {"pool", order.pool},   {"gpus", order.gpus},
          {"labels", labels},     {"taints", json::array(order.taints.begin(), order.taints.end())}};
}

// Throws on a wrong shape; the callers turn that into an Error.
MachineOrder order_from(const json::object& object) {
  MachineOrder order;
  order.token = std::string(object.at("token").as_string());
  order.name = std::string(object.at("name").as_string());
  if (auto* pool = object.if_contains("pool")) order.pool = std::string(pool->as_string());
  if (auto* gpus = object.if_contains("gpus")) order.gpus = gpus->to_number<int>();
  if (auto* labels = object.if_contains("labels"))
    for (const auto& [key, value] : labels->as_object())
      order.labels[std::string(key)] = std::string(value.as_string());
  if (auto* taints = object.if_contains("taints"))
    for (const auto& item : taints->as_array()) order.taints.emplace_back(item.as_string());
  return order;
}

std::optional<MachineState> parse_state(std::string_view text) {
  for (auto state : {MachineState::creating, MachineState::running, MachineState::deleting, MachineState::failed})
    if (to_string(state) == text) return state;
  return std::nullopt;
}

}  // namespace

bool has_amd_gpus(const MachineOrder& order) {
  const auto label = order.labels.find("lab.homeostat.dev/gpus");
  return label != order.labels.end() && label->second == "amd";
}

std::string_view to_string(MachineState state) {
  switch (state) {
    case MachineState::creating:
      return "Creating";
    case MachineState::running:
      return "Running";
    case MachineState::deleting:
      return "Deleting";
    case MachineState::failed:
      return "Failed";
  }
  return "Failed";
}

std::optional<std::string> problem_with(const MachineOrder& order) {
  if (order.token.empty() || order.token.size() > text_limit) return "the token must have 1 to 253 characters";
  if (!dns_label(order.name, name_limit))
    return "the name '" + order.name.substr(0, 80) +
           "' must be 1 to 40 lower-case letters, digits and '-', beginning and ending with a letter or digit";
  if (order.name == "control-plane") return std::string("the name 'control-plane' is the lab's own; choose another");
  if (!order.pool.empty() && !dns_label(order.pool, name_limit))
    return "the pool '" + order.pool.substr(0, 80) + "' must be a name like 'gpu-pool'";
  if (order.gpus < 0 || order.gpus > gpu_limit) return "gpus must be 0 to 16";
  if (order.labels.size() > list_limit || order.taints.size() > list_limit)
    return "at most 64 labels and 64 taints are possible";
  for (const auto& [key, value] : order.labels)
    if (key.empty() || !label_text(key, true) || value.size() > 63 || !label_text(value, false))
      return "the label '" + key.substr(0, 80) + "=" + value.substr(0, 80) + "' is not a Kubernetes label";
  for (const auto& text : order.taints)
    if (!taint(text))
      return "the taint '" + text.substr(0, 80) +
             "' must be key=value:Effect with NoSchedule, PreferNoSchedule or NoExecute";
  return std::nullopt;
}

std::string machine_json(const Machine& m) {
  return json::serialize(json::object{{"name", m.order.name},
                                      {"token", m.order.token},
                                      {"pool", m.order.pool},
                                      {"gpus", m.order.gpus},
                                      {"state", to_string(m.state)},
                                      {"message", m.message},
                                      {"createdAt", format_rfc3339(m.created_at)}});
}

std::string machine_record(const Machine& m) {
  return json::serialize(json::object{{"order", order_object(m.order)},
                                      {"state", to_string(m.state)},
                                      {"message", m.message},
                                      {"createdAt", format_rfc3339(m.created_at)},
                                      {"number", m.number}}) +
         "\n";
}

Result<Machine> parse_machine_record(std::string_view text) {
  try {
    auto parsed = json::parse(json::string_view(text.data(), text.size()));
    const auto& object = parsed.as_object();
    Machine m;
    m.order = order_from(object.at("order").as_object());
    auto state = parse_state(std::string_view(object.at("state").as_string()));
    auto created = parse_rfc3339(std::string_view(object.at("createdAt").as_string()));
    m.message = std::string(object.at("message").as_string());
    m.number = object.at("number").to_number<int>();
    if (!state || !created || problem_with(m.order) || m.number < first_machine || m.number > last_machine)
      return fail(ErrorKind::invalid, "the machine's record holds impossible values");
    m.state = *state, m.created_at = *created;
    return m;
  } catch (const std::exception& e) {
    return fail(ErrorKind::invalid, std::string("the machine's record is damaged: ") + e.what());
  }
}

Result<MachineOrder> parse_order(std::string_view body) {
  try {
    auto parsed = json::parse(json::string_view(body.data(), body.size()));
    auto order = order_from(parsed.as_object());
    if (auto problem = problem_with(order)) return fail(ErrorKind::invalid, *problem);
    return order;
  } catch (const std::exception&) {
    return fail(ErrorKind::invalid,
                R"(the body must be JSON of the form {"token","name","pool","gpus","labels":{},"taints":[]})");
  }
}

void MachineBook::restore(std::vector<Machine> machines) {
  std::lock_guard lock(mutex_);
  for (auto& m : machines) {
    last_number_ = std::max(last_number_, m.number);
    machines_[m.order.name] = std::move(m);
  }
}

std::optional<int> MachineBook::free_number() const {
  constexpr int count = last_machine - first_machine + 1;
  int start = std::clamp(last_number_ + 1, first_machine, last_machine + 1);
  for (int i = 0; i < count; ++i) {
    int candidate = first_machine + (start - first_machine + i) % count;
    bool taken = std::any_of(machines_.begin(), machines_.end(),
                             [candidate](const auto& entry) { return entry.second.number == candidate; });
    if (!taken) return candidate;
  }
  return std::nullopt;
}

Result<MachineBook::Answer> MachineBook::order(const MachineOrder& order, TimePoint now) {
  std::lock_guard lock(mutex_);
  for (const auto& [name, machine] : machines_) {
    if (machine.order.token != order.token) continue;
    if (machine.order == order) return Answer{machine, false};
    return fail(ErrorKind::conflict, "the token '" + order.token + "' was used for another order (machine " + name +
                                         "); use a new token for a new machine");
  }
  if (machines_.contains(order.name))
    return fail(ErrorKind::conflict, "the name '" + order.name + "' is taken by a machine that another token ordered");
  auto number = free_number();
  if (!number)
    return fail(ErrorKind::throttled, "all " + std::to_string(last_machine - first_machine + 1) +
                                          " machine addresses are in use; delete a machine first");
  Machine machine{order, MachineState::creating, "", now, *number};
  if (auto saved = save_(machine); !saved) return std::unexpected(saved.error());
  last_number_ = *number;
  machines_[order.name] = machine;
  return Answer{machine, true};
}

Result<Machine> MachineBook::begin_delete(std::string_view name) {
  std::lock_guard lock(mutex_);
  auto found = machines_.find(name);
  if (found == machines_.end())
    return fail(ErrorKind::not_found, "there is no machine named '" + std::string(name) + "'");
  auto changed = found->second;
  changed.state = MachineState::deleting;
  changed.message = "being deleted";
  if (auto saved = save_(changed); !saved) return std::unexpected(saved.error());
  found->second = changed;
  return changed;
}

void MachineBook::set_state(std::string_view name, MachineState state, std::string message) {
  std::lock_guard lock(mutex_);
  auto found = machines_.find(name);
  if (found == machines_.end() || found->second.state == MachineState::deleting) return;
  found->second.state = state;
  found->second.message = std::move(message);
  (void)save_(found->second);  // after a crash the state is found out anew
}

void MachineBook::forget(std::string_view name) {
  std::lock_guard lock(mutex_);
  auto found = machines_.find(name);
  if (found == machines_.end()) return;
  forget_(found->first);
  machines_.erase(found);
}

std::optional<Machine> MachineBook::find(std::string_view name) const {
  std::lock_guard lock(mutex_);
  auto found = machines_.find(name);
  return found == machines_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<Machine> MachineBook::list(std::string_view token) const {
  std::lock_guard lock(mutex_);
  std::vector<Machine> result;
  for (const auto& [name, machine] : machines_)
    if (token.empty() || machine.order.token == token) result.push_back(machine);
  return result;
}

}  // namespace homeostat::lab
