#include "lab/address_plan.hpp"

#include <array>
#include <charconv>

namespace homeostat::lab {
namespace {

std::optional<int> number(std::string_view text, int limit) {
  int value = -1;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0 || value > limit) return std::nullopt;
  return value;
}

std::uint32_t mask(int bits) { return bits == 0 ? 0 : ~std::uint32_t{0} << (32 - bits); }

std::vector<std::string_view> words(std::string_view line) {
  std::vector<std::string_view> result;
  while (!line.empty()) {
    auto end = line.find(' ');
    if (end != 0) result.push_back(line.substr(0, end));
    if (end == std::string_view::npos) break;
    line.remove_prefix(end + 1);
  }
  return result;
}

}  // namespace

std::optional<Cidr> parse_cidr(std::string_view text) {
  Cidr range{0, 32};
  if (auto slash = text.find('/'); slash != std::string_view::npos) {
    auto bits = number(text.substr(slash + 1), 32);
    if (!bits) return std::nullopt;
    range.bits = *bits;
    text = text.substr(0, slash);
  }
  for (int part = 0; part < 4; ++part) {
    auto dot = part < 3 ? text.find('.') : text.size();
    if (dot == std::string_view::npos) return std::nullopt;
    auto byte = number(text.substr(0, dot), 255);
    if (!byte) return std::nullopt;
    range.base = range.base << 8 | static_cast<std::uint32_t>(*byte);
    text.remove_prefix(part < 3 ? dot + 1 : dot);
  }
  if ((range.base & ~mask(range.bits)) != 0) return std::nullopt;
  return range;
}

std::string address_text(std::uint32_t a) {
  return std::to_string(a >> 24) + "." + std::to_string(a >> 16 & 255) + "." + std::to_string(a >> 8 & 255) + "." +
         std::to_string(a & 255);
}

std::string to_string(Cidr range) { return address_text(range.base) + "/" + std::to_string(range.bits); }

bool overlap(Cidr a, Cidr b) {
  auto common = mask(std::min(a.bits, b.bits));
  return (a.base & common) == (b.base & common);
}

Result<AddressPlan> make_plan(const RangeTexts& texts) {
  AddressPlan plan;
  struct Entry {
    const char* name;
    const std::string& text;
    int bits;
    Cidr& into;
  };
  std::array<Entry, 4> entries{{{"node", texts.nodes, 24, plan.nodes},
                                {"pod", texts.pods, 16, plan.pods},
                                {"service", texts.services, 16, plan.services},
                                {"load balancer", texts.balancers, 24, plan.balancers}}};
  for (size_t i = 0; i < entries.size(); ++i) {
    auto& entry = entries[i];
    auto range = parse_cidr(entry.text);
    if (!range || range->bits != entry.bits)
      return fail(ErrorKind::invalid, std::string("the ") + entry.name + " range '" + entry.text +
                                          "' must be an IPv4 range of size /" + std::to_string(entry.bits) +
                                          ", for example 10.77.0.0/" + std::to_string(entry.bits));
    entry.into = *range;
    for (size_t k = 0; k < i; ++k)
      if (overlap(entries[k].into, *range))
        return fail(ErrorKind::invalid, std::string("the ") + entry.name + " range " + entry.text + " overlaps the " +
                                            entries[k].name + " range " + entries[k].text);
  }
  return plan;
}

std::vector<Route> parse_routes(std::string_view text) {
  std::vector<Route> routes;
  while (!text.empty()) {
    auto end = text.find('\n');
    auto parts = words(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    if (parts.empty()) continue;
    auto range = parse_cidr(parts[0]);  // "default", "local", "broadcast", "unreachable" are no ranges
    if (!range || range->bits == 0) continue;
    std::string device;
    for (size_t i = 1; i + 1 < parts.size(); ++i)
      if (parts[i] == "dev") device = parts[i + 1];
    routes.push_back({*range, device});
  }
  return routes;
}

std::vector<std::string> clashes(const AddressPlan& plan, const std::vector<Route>& routes,
                                 std::string_view own_device) {
  std::vector<std::string> found;
  struct Entry {
    const char* flag;
    Cidr range;
  };
  for (auto [flag, range] : {Entry{"--node-range", plan.nodes}, Entry{"--pod-range", plan.pods},
                             Entry{"--service-range", plan.services}, Entry{"--balancer-range", plan.balancers}}) {
    for (const auto& route : routes) {
      if (route.device == own_device || !overlap(range, route.range)) continue;
      found.push_back("the range " + to_string(range) + " is in use on this machine (route " + to_string(route.range) +
                      " through " + (route.device.empty() ? "another table" : route.device) +
                      "); choose another with " + flag);
    }
  }
  return found;
}

}  // namespace homeostat::lab
