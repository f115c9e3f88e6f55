// What the ports of RDMA devices and Ethernet cards say about a node: a reading, what was seen before and the time in,
// findings out. A port that was never up is unused, not at fault; a port that was up and is not is a fault; a link that
// comes and goes is one fault, not many. Pure, bounded, one thread at a time.
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

// Numbers as the kernel prints them in `state` ("4: ACTIVE").
enum class PortState { unknown = 0, down = 1, init = 2, armed = 3, active = 4, active_defer = 5 };
enum class PhysState { unknown = 0, sleep = 1, polling = 2, disabled = 3, training = 4, link_up = 5, recovery = 6 };

enum class PortCounter {
  link_downed,
  link_error_recovery,
  symbol_error,
  receive_errors,
  link_integrity,
  buffer_overrun,
  transmit_wait,
  receive_data,   // words of 4 bytes
  transmit_data,  // words of 4 bytes
};
inline constexpr size_t port_counter_count = 9;

// One port of one RDMA device.
struct PortReading {
  std::string device, port;  // "mlx5_0", "1"
  std::string pci;           // "0000:41:00.0"; "" when unknown
  std::string board;         // what kind of card it is: the same for all that are alike
  bool listed = true;        // false: the device was there and is not any more
  bool moved = false;        // not listed, yet its PCI function is there with a driver: given to a container
  bool virtual_function = false;
  bool ethernet = false;    // RoCE
  bool admin_down = false;  // RoCE whose network interface somebody has taken down
  PortState state = PortState::unknown;
  PhysState phys = PhysState::unknown;
  std::optional<double> rate_gbps;
  std::array<std::optional<std::uint64_t>, port_counter_count> counters;
  std::string trouble;  // why its state cannot be read; "" when it can
};

class PortWatch {
 public:
  std::vector<Finding> look(const std::vector<PortReading>& ports, Duration now);

  static constexpr size_t max_ports = 256;

 private:
  struct Memory {
    bool was_active = false, active_before = false;
    double best_gbps = 0;
    Continuity down, not_active, slow, gone, silent;
    std::array<RisingCounter, port_counter_count> counters;
    RateWatch flaps, recovery, symbols, receive, integrity, overrun;
  };
  void look_at(const PortReading& port, const std::vector<PortReading>& all, Memory& memory, Duration now,
               std::vector<Finding>& out);
  static void look_for(const PortReading& port, Memory& memory, Duration now, std::vector<Finding>& out);

  std::map<std::string, Memory, std::less<>> memory_;
};

// One Ethernet card's port.
struct NetReading {
  std::string name, pci;
  bool listed = true, moved = false, virtual_function = false;
  bool rdma = false;     // it has an RDMA twin: it carries training traffic
  std::string bond;      // the bond that it is a slave of
  bool admin_up = true;  // IFF_UP
  std::optional<bool> carrier;
  std::optional<std::uint64_t> carrier_downs;
  std::optional<std::uint64_t> speed_mbps;
  bool half_duplex = false;
  std::optional<std::uint64_t> receive_errors, receive_bytes, transmit_bytes;
  std::string trouble;
};

class NetWatch {
 public:
  std::vector<Finding> look(const std::vector<NetReading>& ports, Duration now);

  static constexpr size_t max_ports = 256;

 private:
  struct Memory {
    bool was_up = false;
    std::uint64_t best_mbps = 0;
    std::optional<bool> carrier;
    Continuity down, slow, duplex, gone, silent;
    RisingCounter downs, errors;
    RateWatch flaps, error_rate;
  };
  void look_at(const NetReading& port, Memory& memory, bool bond_holds, Duration now, std::vector<Finding>& out);
  static void look_for(const NetReading& port, Memory& memory, Duration now, std::vector<Finding>& out);

  std::map<std::string, Memory, std::less<>> memory_;
};

}  // namespace homeostat::fault
