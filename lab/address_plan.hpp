// Which addresses the lab uses: pure arithmetic on IPv4. The control plane is .2 of the node range; machine number N
// (10 to 250) has address .N and the pods of 10.244.N.0/24. Numbers are handed out by whoever makes machines.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"

namespace homeostat::lab {

struct Cidr {
  std::uint32_t base = 0;  // host byte order, host bits zero
  int bits = 0;
  bool operator==(const Cidr&) const = default;
};

std::optional<Cidr> parse_cidr(std::string_view text);  // "a.b.c.d/n" with zero host bits; also a lone address as /32
std::string to_string(Cidr range);
std::string address_text(std::uint32_t address);
bool overlap(Cidr a, Cidr b);

inline constexpr int first_machine = 10, last_machine = 250;

struct AddressPlan {
  Cidr nodes, pods, services, balancers;

  std::string host() const { return address_text(nodes.base + 1); }
  std::string control_plane() const { return address_text(nodes.base + 2); }
  std::string machine(int number) const { return address_text(nodes.base + static_cast<std::uint32_t>(number)); }
  Cidr pods_of(int number) const { return {pods.base + (static_cast<std::uint32_t>(number) << 8), 24}; }
  std::string kubernetes_service() const { return address_text(services.base + 1); }
  std::string dns_service() const { return address_text(services.base + 10); }
};

struct RangeTexts {
  std::string nodes = "10.77.0.0/24", pods = "10.244.0.0/16", services = "10.96.0.0/16", balancers = "10.98.0.0/24";
};

// Sizes are fixed (nodes /24, pods /16, services /16, balancers /24) and no range may overlap another.
Result<AddressPlan> make_plan(const RangeTexts& texts);

// What another user of this machine already routes: a range and the interface that it goes through.
struct Route {
  Cidr range;
  std::string device;
};

// From the output of `ip -4 route show table all`; default routes, local and broadcast entries are no clash and are
// left out.
std::vector<Route> parse_routes(std::string_view text);

// One sentence per clash, of routes that are not through own_device.
std::vector<std::string> clashes(const AddressPlan& plan, const std::vector<Route>& routes,
                                 std::string_view own_device);

}  // namespace homeostat::lab
