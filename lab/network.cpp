#include "lab/network.hpp"

#include "io/files.hpp"
#include "io/process.hpp"
#include "lab/zones.hpp"

namespace homeostat::lab {
namespace {

std::string mark(const LabConfig& config) {
  return "homeostat-lab " + config.state;
}  // the bridge's alias: whose it is

std::string leg(const LabConfig& config, int number) { return config.instance + "v" + std::to_string(number); }

// Made of the address, so that a zone that is started again is where its neighbours' ARP caches say.
std::string mac_text(const LabConfig& config, int number) {
  auto address = config.plan.nodes.base + static_cast<std::uint32_t>(number);
  std::string text = "02:68";
  for (int shift : {24, 16, 8, 0}) {
    auto byte = address >> shift & 255;
    text += ':';
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

Result<void> ip_batch(const std::string& lines, const std::string& netns = {}) {
  std::vector<std::string> argv{"ip"};
  if (!netns.empty()) argv.insert(argv.end(), {"-n", netns});
  argv.insert(argv.end(), {"-batch", "-"});
  auto done = io::run_ok(argv, {.input = lines});
  if (!done) return std::unexpected(done.error());
  return {};
}

}  // namespace

bool bridge_exists(const LabConfig& config) { return io::exists("/sys/class/net/" + config.bridge()); }

Result<std::vector<std::string>> network_obstacles(const LabConfig& config) {
  auto routes = io::run_ok({"ip", "-4", "route", "show", "table", "all"});
  if (!routes) return std::unexpected(routes.error());
  auto alias = bridge_exists(config) ? io::read_file("/sys/class/net/" + config.bridge() + "/ifalias")
                                     : Result<std::string>(mark(config));
  auto whose = alias ? *alias : std::string();
  while (!whose.empty() && whose.back() == '\n') whose.pop_back();
  if (whose == mark(config)) return clashes(config.plan, parse_routes(*routes), config.bridge());
  if (!whose.starts_with("homeostat-lab "))
    return std::vector{"the interface " + config.bridge() +
                       " exists already and is not the lab's; choose another prefix with --instance"};
  auto state = whose.substr(14);
  return std::vector{"a lab with the state folder " + state +
                     " is up on this machine; take it down with: homeostat-lab down --state " + state +
                     " (or give this one another --instance and other ranges)"};
}

Result<void> make_bridge(const LabConfig& config) {
  auto bridge = config.bridge();
  if (!bridge_exists(config)) {
    auto made =
        ip_batch("link add " + bridge + " type bridge\nlink set " + bridge + " alias \"" + mark(config) + "\"\n");
    if (!made) return made;
  }
  auto via = " via " + config.plan.control_plane() + " dev " + bridge + "\n";
  return ip_batch("address replace " + config.plan.host() + "/24 dev " + bridge + "\nlink set " + bridge + " up\n" +
                  "route replace " + to_string(config.plan.pods) + via + "route replace " +
                  to_string(config.plan.services) + via + "route replace " + to_string(config.plan.balancers) + via);
}

void remove_bridge(const LabConfig& config) {
  if (bridge_exists(config)) (void)ip_batch("link delete " + config.bridge() + "\n");
}

Result<void> connect_zone(const LabConfig& config, std::string_view zone, int number) {
  disconnect_zone(config, zone, number);
  if (auto made = make_netns(config.netns(zone)); !made) return made;
  auto name = config.netns_name(zone);
  auto linked =
      ip_batch("link add " + leg(config, number) + " type veth peer name eth0 address " + mac_text(config, number) +
               " netns " + name + "\nlink set " + leg(config, number) + " master " + config.bridge() + " up\n");
  if (!linked) return linked;
  std::string lines = "address add " + config.plan.machine(number) +
                      "/24 dev eth0\nlink set lo up\nlink set eth0 up\nroute add default via " + config.plan.host() +
                      "\n";
  // The pods of every machine there may ever be, once and for all: nothing has to follow machines that come and go.
  for (int other = first_machine; other <= last_machine; ++other)
    if (other != number)
      lines += "route add " + to_string(config.plan.pods_of(other)) + " via " + config.plan.machine(other) + "\n";
  return ip_batch(lines, name);
}

void disconnect_zone(const LabConfig& config, std::string_view zone, int number) {
  if (io::exists("/sys/class/net/" + leg(config, number))) (void)ip_batch("link delete " + leg(config, number) + "\n");
  if (io::exists(config.netns(zone))) remove_netns(config.netns(zone));
}

}  // namespace homeostat::lab
