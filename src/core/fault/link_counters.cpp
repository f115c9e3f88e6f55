#include "core/fault/link_counters.hpp"

#include <algorithm>

#include "core/fault/counter_codes.hpp"

namespace homeostat::fault {

namespace {

using namespace std::chrono_literals;
namespace codes = counter_codes;

// Evict on a network alert only after two within five minutes: ByteRobust (arXiv 2509.16293).
constexpr RateRule flap_rule{2, 5min, 10min};
// A link that retrains by itself a few times in five minutes is on its way out; once is not.
constexpr RateRule recovery_rule{5, 5min, 10min};
// 120 symbol errors an hour is the bit error rate of 1e-12 that the InfiniBand specification asks for at 4X QDR.
constexpr RateRule symbol_rule{120, 60min, 60min};
constexpr RateRule receive_rule{100, 5min, 15min};
constexpr RateRule integrity_rule{3, 60min, 60min};
constexpr RateRule overrun_rule{10, 60min, 60min};
constexpr RateRule net_error_rule{1000, 5min, 15min};

constexpr Duration down_quiet = 15s;    // up this long: over
constexpr Duration down_lasting = 30s;  // a switch port that is reset is back before
constexpr Duration init_hold = 120s;    // a subnet manager that starts anew needs a minute
constexpr Duration slow_hold = 60s;     // links renegotiate
constexpr Duration slow_quiet = 60s;
constexpr Duration gone_lasting = 60s;            // a driver that recovers its device takes it away for half a minute
constexpr Duration silent_hold = 15s;             // a reset in progress makes files unreadable for a moment
constexpr std::uint64_t counter_top = 255;        // of link_downed in PortCounters
constexpr std::uint64_t used_words = 1ull << 18;  // 1 MiB received: more than management traffic of a new link
constexpr std::uint64_t used_bytes = 4 * used_words;
constexpr std::uint64_t fast_mbps = 10'000;  // slower cards carry no training traffic

std::string port_name(const PortReading& port) {
  std::string name = port.ethernet ? "RoCE port " : "InfiniBand port ";
  name += port.device;
  name += '/';
  name += port.port;
  return name;
}

std::string_view device_key(const PortReading& port) { return port.pci.empty() ? port.device : port.pci; }

// Ports beyond the first share their device's address.
std::string_view part_of(const PortReading& port) { return port.port == "1" ? std::string_view() : port.port; }

bool is_active(PortState state) { return state == PortState::active || state == PortState::active_defer; }

// More than half of the cards of its kind in this node run faster: so much an agent knows that starts afterwards.
bool peers_are_faster(const PortReading& port, const std::vector<PortReading>& all) {
  if (port.board.empty()) return false;
  size_t peers = 1, faster = 0;  // the port itself is one of them
  for (const auto& other : all) {
    const bool alike = &other != &port && other.board == port.board && other.ethernet == port.ethernet;
    if (!alike || !is_active(other.state) || !other.rate_gbps) continue;
    ++peers;
    if (*other.rate_gbps > *port.rate_gbps) ++faster;
  }
  return 2 * faster > peers;
}

}  // namespace

std::vector<Finding> PortWatch::look(const std::vector<PortReading>& ports, Duration now) {
  std::vector<Finding> out;
  for (const auto& port : ports) {
    auto key = std::string(device_key(port));
    key += '/';
    key += port.port;
    if (port.moved) {
      memory_.erase(key);
      continue;
    }
    if (!memory_.contains(key) && memory_.size() >= max_ports) continue;
    auto& memory = memory_[key];
    if (port.listed)
      look_at(port, ports, memory, now, out);
    else
      look_for(port, memory, now, out);
  }
  return out;
}

void PortWatch::look_for(const PortReading& port, Memory& memory, Duration now, std::vector<Finding>& out) {
  if (!memory.was_active || port.virtual_function) return;
  memory.gone.observe(true, now, 0ms, down_quiet);
  const bool lasting = memory.gone.lasted(now) >= gone_lasting;
  out.push_back(counter_finding(lasting ? codes::ib_gone : codes::ib_vanishing, device_key(port),
                                "The RDMA device of " + port_name(port) + " has gone", part_of(port)));
}

void PortWatch::look_at(const PortReading& port, const std::vector<PortReading>& all, Memory& memory, Duration now,
                        std::vector<Finding>& out) {
  const auto report = [&](const CounterCode& code, std::string_view what) {
    auto title = port_name(port);
    title += what;
    out.push_back(counter_finding(code, device_key(port), std::move(title), part_of(port)));
  };
  if (memory.gone.observe(false, now, 0ms, down_quiet)) report(codes::ib_vanishing, " had gone and is back");
  if (memory.silent.observe(!port.trouble.empty(), now, silent_hold, silent_hold))
    report(codes::ib_unreadable, " cannot be asked: " + (port.trouble.empty() ? "it is back" : port.trouble));

  std::array<std::uint64_t, port_counter_count> risen{};
  for (size_t i = 0; i < port_counter_count; ++i) risen[i] = memory.counters[i].take(port.counters[i]);
  const auto rise = [&](PortCounter counter) { return risen[static_cast<size_t>(counter)]; };
  const auto& received = port.counters[static_cast<size_t>(PortCounter::receive_data)];

  const bool known = port.trouble.empty() && port.state != PortState::unknown;
  const bool active = is_active(port.state);
  // A port that is down when we first look, yet has carried traffic since its driver came up, has been in use.
  memory.was_active |= known && (active || received.value_or(0) > used_words);

  // The counter is 8 bits wide in the standard and stays at its top: then what we see ourselves counts.
  const auto& downed = port.counters[static_cast<size_t>(PortCounter::link_downed)];
  const bool fell = known && memory.active_before && !active;
  if (known) memory.active_before = active;
  auto downs = rise(PortCounter::link_downed);
  if (!downed || *downed == counter_top) downs = std::max<std::uint64_t>(downs, fell ? 1 : 0);
  if (port.admin_down) downs = 0;
  if (memory.flaps.observe(flap_rule, now, downs)) report(codes::ib_flapping, " goes down again and again");

  // LinkUp without ACTIVE is the subnet manager's matter; everything else is a link that is down.
  const bool trained = port.phys == PhysState::link_up && port.state != PortState::down;
  if (port.admin_down) memory.down.clear(), memory.not_active.clear();
  if (known && !port.admin_down) {
    memory.down.observe(memory.was_active && !active && !trained, now, 0ms, down_quiet);
    memory.not_active.observe(!active && trained, now, memory.was_active ? Duration(30s) : init_hold, down_quiet);
  }
  if (memory.down.active()) {
    const bool lasting = memory.down.lasted(now) >= down_lasting;
    report(lasting ? codes::ib_down_lasting : codes::ib_down, " was ACTIVE and is down");
  }
  if (memory.not_active.active()) {
    const bool lasting = memory.was_active && memory.not_active.lasted(now) >= init_hold;
    report(lasting ? codes::ib_not_active_lasting : codes::ib_not_active,
           " has a link, but no subnet manager has made it ACTIVE");
  }

  if (known && active && port.rate_gbps) {
    memory.best_gbps = std::max(memory.best_gbps, *port.rate_gbps);
    const bool slow = *port.rate_gbps < 0.99 * memory.best_gbps || peers_are_faster(port, all);
    memory.slow.observe(slow, now, slow_hold, slow_quiet);
  }
  if (memory.slow.active()) report(codes::ib_rate, " runs below the rate that it had or that others of its kind have");

  if (memory.recovery.observe(recovery_rule, now, rise(PortCounter::link_error_recovery)))
    report(codes::ib_recovery, " retrains its link again and again");
  if (memory.symbols.observe(symbol_rule, now, rise(PortCounter::symbol_error)))
    report(codes::ib_symbols, " has more symbol errors than the bit error rate allows");
  if (memory.receive.observe(receive_rule, now, rise(PortCounter::receive_errors)))
    report(codes::ib_rcv, " receives damaged packets");
  if (memory.integrity.observe(integrity_rule, now, rise(PortCounter::link_integrity)))
    report(codes::ib_integrity, " has local link integrity errors");
  if (memory.overrun.observe(overrun_rule, now, rise(PortCounter::buffer_overrun)))
    report(codes::ib_overrun, " has overrun buffers");
}

// Ethernet.

namespace {

std::string_view device_key(const NetReading& port) { return port.pci.empty() ? port.name : port.pci; }

bool matters(const NetReading& port, std::uint64_t best_mbps) { return port.rdma || best_mbps >= fast_mbps; }

}  // namespace

std::vector<Finding> NetWatch::look(const std::vector<NetReading>& ports, Duration now) {
  std::vector<Finding> out;
  for (const auto& port : ports) {
    if (port.moved) {
      memory_.erase(port.name);
      continue;
    }
    if (!memory_.contains(port.name) && memory_.size() >= max_ports) continue;
    auto& memory = memory_[port.name];
    if (!port.listed) {
      look_for(port, memory, now, out);
      continue;
    }
    const bool bond_holds = !port.bond.empty() && std::ranges::any_of(ports, [&](const NetReading& other) {
      return other.listed && other.name != port.name && other.bond == port.bond && other.carrier.value_or(false);
    });
    look_at(port, memory, bond_holds, now, out);
  }
  return out;
}

void NetWatch::look_for(const NetReading& port, Memory& memory, Duration now, std::vector<Finding>& out) {
  if (!memory.was_up || port.virtual_function) return;
  memory.gone.observe(true, now, 0ms, down_quiet);
  const bool lasting = memory.gone.lasted(now) >= gone_lasting && matters(port, memory.best_mbps);
  out.push_back(counter_finding(lasting ? codes::eth_gone : codes::eth_vanishing, device_key(port),
                                "The network card of " + port.name + " has gone", port.pci.empty() ? "" : port.name));
}

void NetWatch::look_at(const NetReading& port, Memory& memory, bool bond_holds, Duration now,
                       std::vector<Finding>& out) {
  const auto report = [&](const CounterCode& code, std::string_view what) {
    auto title = "Network port " + port.name;
    title += what;
    out.push_back(counter_finding(code, device_key(port), std::move(title), port.pci.empty() ? "" : port.name));
  };
  if (memory.gone.observe(false, now, 0ms, down_quiet)) report(codes::eth_vanishing, " had gone and is back");
  if (memory.silent.observe(!port.trouble.empty(), now, silent_hold, silent_hold))
    report(codes::eth_unreadable, " cannot be asked: " + (port.trouble.empty() ? "it is back" : port.trouble));

  const bool known = port.trouble.empty();
  const bool up = known && port.admin_up && port.carrier.value_or(false);
  auto fell = memory.downs.take(port.carrier_downs);
  // Whoever takes a port down on purpose makes its carrier fall: no flap.
  const bool on_purpose = known && !port.admin_up;
  if (on_purpose) fell = 0;
  memory.was_up |= up || (known && port.receive_bytes.value_or(0) > used_bytes);
  if (up && port.speed_mbps) memory.best_mbps = std::max(memory.best_mbps, *port.speed_mbps);
  const bool grave = matters(port, memory.best_mbps) && !bond_holds;

  if (memory.flaps.observe(flap_rule, now, fell))
    report(matters(port, memory.best_mbps) ? codes::eth_flapping : codes::eth_flapping_minor,
           " goes down again and again");
  if (on_purpose) memory.down.clear();
  if (known && !on_purpose) memory.down.observe(memory.was_up && !up, now, 0ms, down_quiet);
  if (memory.down.active()) {
    const bool lasting = memory.down.lasted(now) >= down_lasting && grave;
    report(lasting ? codes::eth_down_lasting : codes::eth_down,
           bond_holds ? " had a link and has none; its bond holds" : " had a link and has none");
  }
  if (up && port.speed_mbps) memory.slow.observe(*port.speed_mbps < memory.best_mbps, now, slow_hold, slow_quiet);
  if (memory.slow.active())
    report(grave ? codes::eth_speed : codes::eth_speed_minor, " runs below the speed that it had");
  if (up && memory.duplex.observe(port.half_duplex, now, slow_hold, slow_quiet))
    report(codes::eth_duplex, " runs at half duplex");
  if (memory.error_rate.observe(net_error_rule, now, memory.errors.take(port.receive_errors)))
    report(codes::eth_errors, " receives damaged packets");
}

}  // namespace homeostat::fault
