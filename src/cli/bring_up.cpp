#include "cli/bring_up.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <sstream>

#include "cli/manifests.hpp"
#include "cli/remote_shell.hpp"
#include "core/names.hpp"
#include "io/files.hpp"
#include "io/json.hpp"
#include "io/process.hpp"
#include "kube/meta.hpp"

namespace homeostat::cli {
namespace {

namespace json = boost::json;
using Objects = std::vector<kube::Object>;

constexpr std::string_view image_annotation = "homeostat.dev/image-id";
constexpr std::string_view own_image = "localhost/homeostat:dev";
constexpr Duration lab_limit{15 * 60'000};

bool is_kind(const kube::Object& object, std::string_view kind) { return io::string_at(object, {"kind"}) == kind; }

Result<Objects> read_all(const Places& places, std::initializer_list<std::string_view> paths) {
  Objects all;
  for (const auto path : paths) {
    auto some = read_manifests(places.sources + "/" + std::string(path));
    if (!some) return some;
    std::move(some->begin(), some->end(), std::back_inserter(all));
  }
  return all;
}

Result<std::string> image_folder(const Places& places) {
  auto printed = io::run_ok({places.sources + "/scripts/build-images", "--bin", places.programs, "--print-path"},
                            {.timeout = Duration(120'000)});
  if (!printed) return printed;
  while (!printed->empty() && printed->back() == '\n') printed->pop_back();
  return printed->substr(printed->rfind('\n') + 1);
}

Result<std::string> image_id(const std::string& folder) {
  const auto text = io::read_file(folder + "/images.json");
  if (!text) return std::unexpected(text.error());
  const auto images = io::parse_json(*text, folder + "/images.json");
  if (!images) return std::unexpected(images.error());
  if (images->is_array())
    for (const auto& image : images->get_array())
      if (io::string_at(image, {"name"}) == own_image) return io::string_at(image, {"id"});
  return fail(ErrorKind::not_found,
              fmt::format("{} is not among the images in {}; build it with: scripts/build-images", own_image, folder));
}

Result<void> wait_for_definitions(Context& context, kube::Client& client, const Objects& definitions,
                                  const Teller& teller) {
  return wait_for(
      context, {.what = "custom resources", .limit = Duration(30'000)}, teller, [&]() -> Result<std::string> {
        for (const auto& definition : definitions) {
          if (!is_kind(definition, "CustomResourceDefinition")) continue;
          const auto now = client.get(kube::resources::custom_resource_definitions, "", kube::name_of(definition));
          if (!now) return std::unexpected(now.error());
          bool served = false;
          for (const auto& condition : io::array_at(*now, {"status", "conditions"}))
            served = served || (io::string_at(condition, {"type"}) == "Established" &&
                                io::string_at(condition, {"status"}) == "True");
          if (!served) return kube::name_of(definition) + " is not served yet";
        }
        return std::string();
      });
}

// The default policy and the cluster belong to people once they exist: `up` creates them, and later changes only the
// login key.
Result<void> create_missing(kube::Client& client, const Objects& objects) {
  for (const auto& object : objects) {
    const auto resource = resource_of(object);
    if (!resource) return std::unexpected(resource.error());
    const auto made = client.create(*resource, kube::namespace_of(object), object);
    if (!made && made.error().kind != ErrorKind::already_exists)
      return fail(made.error().kind,
                  fmt::format("{} {}: {}", resource->kind, kube::name_of(object), made.error().message));
  }
  return {};
}

Result<void> install(Context& context, const Teller& teller) {
  const auto& places = context.places();
  auto client = context.client();
  if (!client) return std::unexpected(client.error());
  auto folder = image_folder(places);
  if (!folder) return std::unexpected(folder.error());
  if (run_lab(places, {"load", *folder}) != 0)
    return fail(ErrorKind::internal, "the images could not be brought into the lab");
  const auto id = image_id(*folder);
  if (!id) return std::unexpected(id.error());

  const auto definitions = read_all(places, {"api/crds"});
  if (!definitions) return std::unexpected(definitions.error());
  if (auto done = apply_manifests(**client, *definitions); !done) return done;
  if (auto done = wait_for_definitions(context, **client, *definitions, teller); !done) return done;
  teller.say(fmt::format("{} custom resources are defined", definitions->size()));

  auto manifests = read_all(places, {"deploy/manifests/00-namespace.yaml", "deploy/manifests/10-controller-rbac.yaml",
                                     "deploy/manifests/11-agent-rbac.yaml", "deploy/manifests/20-controller.yaml",
                                     "deploy/lab/21-agent.yaml"});
  if (!manifests) return std::unexpected(manifests.error());
  tailor_images(*manifests, *id);
  if (auto done = apply_manifests(**client, *manifests); !done) return done;
  auto policy = read_all(places, {"catalog/default-policy.yaml"});
  if (!policy) return std::unexpected(policy.error());
  tailor_policy(*policy);
  if (auto done = create_missing(**client, *policy); !done) return done;
  teller.say("controller and agent are installed");
  return {};
}

Result<void> create_cluster(Context& context, const Teller& teller) {
  auto client = context.client();
  if (!client) return std::unexpected(client.error());
  const auto key = ensure_ssh_key(context.places());
  if (!key) return std::unexpected(key.error());
  auto objects = read_all(context.places(), {"examples/cluster.yaml"});
  if (!objects) return std::unexpected(objects.error());
  add_login_key(*objects, *key);
  if (auto done = create_missing(**client, *objects); !done) return done;

  // An older cluster may know another key (a lab's folder that was copied, a key that was removed).
  const auto& names = context.names();
  auto cluster = (*client)->get(kube::resources::slurm_clusters, names.ns, names.cluster);
  if (!cluster) return std::unexpected(cluster.error());
  const auto& keys = io::array_at(*cluster, {"spec", "login", "authorizedKeys"});
  const bool known = std::any_of(keys.begin(), keys.end(),
                                 [&](const json::value& k) { return k.is_string() && k.get_string() == *key; });
  if (!known) {
    json::array more = keys;
    more.emplace_back(*key);
    json::object patch;
    io::set_at(patch, {"spec", "login", "authorizedKeys"}, more);
    auto patched =
        (*client)->patch(kube::resources::slurm_clusters, names.ns, names.cluster, kube::PatchType::merge, patch);
    if (!patched) return std::unexpected(patched.error());
  }
  teller.say("examples/cluster.yaml is applied: a NodePool and a SlurmCluster");
  return {};
}

std::string pool_missing(const kube::Object& pool) {
  const auto size = io::int_at(pool, {"spec", "size"}), spares = io::int_at(pool, {"spec", "spares"});
  const auto healthy = io::int_at(pool, {"status", "healthy"}), spare = io::int_at(pool, {"status", "spare"}),
             sick = io::int_at(pool, {"status", "inRepair"});
  if (healthy >= size && spare >= spares && sick == 0) return {};
  return fmt::format("{} of {} nodes are healthy, {} of {} spares{}", healthy, size, spare, spares,
                     sick > 0 ? fmt::format(", {} in repair", sick) : "");
}

// A controller that was just renewed waits for its predecessor's lease; until then nobody heals.
Result<std::string> leader_missing(kube::Client& client) {
  const auto lease = client.get(kube::resources::leases, names::system_namespace, "homeostat-controller");
  if (!lease && lease.error().kind != ErrorKind::not_found) return std::unexpected(lease.error());
  const auto holder = lease ? io::string_at(*lease, {"spec", "holderIdentity"}) : std::string();
  const auto pods = client.list(kube::resources::pods, names::system_namespace,
                                {.label_selector = "app.kubernetes.io/name=homeostat-controller"});
  if (!pods) return std::unexpected(pods.error());
  for (const auto& pod : pods->items)
    if (!kube::is_deleting(pod) && holder.starts_with(kube::name_of(pod))) return std::string();
  return std::string("homeostat-controller waits for its lease");
}

Result<std::string> anything_missing(Context& context, kube::Client& client, std::optional<Login>& login) {
  const auto& names = context.names();
  const auto controller = client.get(kube::resources::deployments, names::system_namespace, "homeostat-controller");
  if (!controller) return std::unexpected(controller.error());
  if (io::int_at(*controller, {"status", "availableReplicas"}) < 1)
    return std::string("homeostat-controller is not running yet");
  if (auto leader = leader_missing(client); !leader || !leader->empty()) return leader;
  const auto pool = client.get(kube::resources::node_pools, "", names.pool);
  if (!pool) return std::unexpected(pool.error());
  if (auto missing = pool_missing(*pool); !missing.empty()) return missing;
  const auto cluster = client.get(kube::resources::slurm_clusters, names.ns, names.cluster);
  if (!cluster) return std::unexpected(cluster.error());
  if (io::string_at(*cluster, {"status", "loginAddress"}).empty())
    return std::string("Slurm's login node has no address yet");
  if (!login) {
    auto found = find_login(context);
    if (!found) return std::unexpected(found.error());
    login = *found;
  }
  const auto idle = remote(*login, "sinfo -h -N -o '%N %t'", Duration(15'000), context.stop());
  if (!idle) return std::unexpected(idle.error());
  const auto size = io::int_at(*pool, {"spec", "size"});
  std::istringstream lines(*idle);
  std::string node, state;
  int usable = 0;
  while (lines >> node >> state) usable += state == "idle" || state == "mix" || state == "alloc" ? 1 : 0;
  return usable >= size ? std::string() : fmt::format("{} of {} Slurm nodes are up", usable, size);
}

}  // namespace

void tailor_images(Objects& objects, std::string_view image_id) {
  for (auto& object : objects)
    if (is_kind(object, "Deployment") || is_kind(object, "DaemonSet"))
      io::set_at(object, {"spec", "template", "metadata", "annotations", image_annotation}, json::string(image_id));
}

void tailor_policy(Objects& objects) {
  for (auto& object : objects)
    if (is_kind(object, "HealthPolicy")) io::set_at(object, {"spec", "breaker", "maxNodes"}, 1000);
}

void add_login_key(Objects& objects, const std::string& public_key) {
  for (auto& object : objects) {
    if (!is_kind(object, "SlurmCluster")) continue;
    json::array keys = io::array_at(object, {"spec", "login", "authorizedKeys"});
    keys.emplace_back(public_key);
    io::set_at(object, {"spec", "login", "authorizedKeys"}, keys);
  }
}

int run_lab(const Places& places, const std::vector<std::string>& arguments, bool quiet) {
  std::vector<std::string> argv = {places.lab_program(), "--state", places.state};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  auto process = io::Process::spawn(argv, {.stdout_path = quiet ? "/dev/null" : ""});
  if (!process) {
    fmt::print(stderr, "homeostat: {}\n", process.error().message);
    return exit_missing;
  }
  const auto status = process->wait(lab_limit);
  if (!status) {
    process->kill(15);
    fmt::print(stderr, "homeostat: homeostat-lab {} did not end within {}; look at {}/serve.log\n", arguments.front(),
               format_duration(lab_limit), places.state);
    return exit_failed;
  }
  return status->signal != 0 ? exit_failed : status->code;
}

Result<std::string> lab_host_address(const Places& places) {
  auto text =
      io::run({places.lab_program(), "--state", places.state, "status", "-o", "json"}, {.timeout = Duration(10'000)});
  if (!text) return std::unexpected(text.error());
  const auto status = io::parse_json_object(text->out, "the status of homeostat-lab");
  if (!status) return std::unexpected(status.error());
  auto url = io::string_at(*status, {"provider"});  // https://10.77.0.1:7443
  if (!url.starts_with("https://"))
    return fail(ErrorKind::not_found, "the lab does not run; bring it up with: homeostat up");
  url = url.substr(8);
  return url.substr(0, url.rfind(':'));
}

Result<void> wait_until_whole(Context& context, const Teller& teller, Duration limit) {
  auto client = context.client();
  if (!client) return std::unexpected(client.error());
  std::optional<Login> login;
  const Wait wait{.what = "waiting",
                  .limit = limit,
                  .hint =
                      "homeostat status; homeostat kubectl -n homeostat-system logs deploy/homeostat-controller; "
                      "homeostat kubectl get pods -A"};
  return wait_for(context, wait, teller, [&] { return anything_missing(context, **client, login); });
}

int up(Context& context, const UpOptions& options, const Teller& teller) {
  if (int code = run_lab(context.places(), {"up"}, teller.quiet()); code != 0) return code;
  if (auto done = install(context, teller); !done) return complain(done.error());
  if (auto done = create_cluster(context, teller); !done) return complain(done.error());
  if (!options.wait) return exit_good;
  if (auto done = wait_until_whole(context, teller, Duration(240'000)); !done) return complain(done.error());
  if (auto login = find_login(context); login)
    teller.say(fmt::format("Slurm is ready: ssh to {} (homeostat ssh)", login->address));
  return exit_good;
}

int down(const Places& places) { return run_lab(places, {"down"}); }

}  // namespace homeostat::cli
