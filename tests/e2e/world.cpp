#include "world.hpp"

#include <fmt/core.h>
#include <signal.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "cli/bring_up.hpp"
#include "core/names.hpp"
#include "io/files.hpp"
#include "io/json.hpp"
#include "kube/meta.hpp"

namespace homeostat::e2e {
namespace {

World::Answer run(const std::vector<std::string>& argv, Duration limit, const std::string& input = {}) {
  auto done = io::run(argv, {.input = input, .timeout = limit});
  if (!done) return {-1, "", done.error().message};
  return {done->status.signal != 0 ? 128 + done->status.signal : done->status.code, done->out, done->err};
}

// Says which case runs and how long it took, and keeps the logs of one that failed.
class Listener : public doctest::IReporter {
 public:
  explicit Listener(const doctest::ContextOptions&) {}
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_start(const doctest::TestCaseData& data) override {
    name_ = data.m_name;
    fmt::print("[e2e] {}\n", name_);
    std::fflush(stdout);
  }
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats& stats) override {
    fmt::print("[e2e] {} after {:.1f} s: {}\n", stats.failure_flags == 0 ? "good" : "FAILED", stats.seconds, name_);
    std::fflush(stdout);
    if (stats.failure_flags != 0) World::get().save_logs(name_);
  }
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}

 private:
  std::string name_;
};
REGISTER_LISTENER("e2e", 1, Listener);

}  // namespace

World& World::get() {
  static World world;
  return world;
}

World::World() : context_(cli::find_places(), {}) {
  ::signal(SIGPIPE, SIG_IGN);
  brought_up_here_ = lab({"status"}, Duration(20'000)).code != 0;
  const auto up = homeostat({"up"}, Duration(420'000));
  if (up.code != 0) {
    save_logs("bring-up");
    fmt::print(stderr, "homeostat up failed with {}:\n{}{}\n", up.code, up.out, up.err);
    std::exit(1);
  }
}

const cli::Login& World::login() {
  if (!login_) login_ = std::make_unique<cli::Login>(must(cli::find_login(context_)));
  return *login_;
}

std::string World::ssh(const std::string& command, Duration limit) {
  return must(cli::remote(login(), command, limit, {}));
}

std::future<World::Answer> World::homeostat_meanwhile(const std::vector<std::string>& arguments, Duration limit) {
  std::vector<std::string> argv = {places().programs + "/homeostat"};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return std::async(std::launch::async, [argv = std::move(argv), limit] { return run(argv, limit); });
}

World::Answer World::homeostat(const std::vector<std::string>& arguments, Duration limit) {
  return homeostat_meanwhile(arguments, limit).get();
}

World::Answer World::lab(const std::vector<std::string>& arguments, Duration limit) {
  std::vector<std::string> argv = {places().lab_program(), "--state", places().state};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return run(argv, limit);
}

World::Answer World::kubectl(const std::vector<std::string>& arguments, const std::string& input) {
  std::vector<std::string> argv = {places().kubectl(), "--kubeconfig", places().kubeconfig(), "--cache-dir",
                                   places().state + "/kubectl-cache"};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return run(argv, Duration(60'000), input);
}

std::string World::instance() {
  std::ifstream in(places().state + "/lab.json");
  std::ostringstream text;
  text << in.rdbuf();
  return io::string_at(must(io::parse_json_object(text.str(), "lab.json")), {"instance"}, "hl");
}

std::vector<std::string> World::machines() { return machines(context_.names().pool); }

std::vector<std::string> World::machines(const std::string& pool) {
  const auto answer = lab({"machine", "list", "-o", "json"});
  const auto list = must(io::parse_json_object(answer.out, "the machine list"));
  std::vector<std::string> names;
  for (const auto& machine : io::array_at(list, {"machines"}))
    if (io::string_at(machine, {"pool"}) == pool && io::string_at(machine, {"state"}) != "Deleting")
      names.push_back(io::string_at(machine, {"name"}));
  return names;
}

int World::machines_made() {
  std::ifstream in(places().state + "/serve.log");
  int made = 0;
  for (std::string line; std::getline(in, line);) {
    const auto entry = io::parse_json_object(line);
    made += entry && io::string_at(*entry, {"method"}) == "POST" && io::string_at(*entry, {"path"}) == "/v1/machines" &&
            io::string_at(*entry, {"status"}) == "201";
  }
  return made;
}

std::string World::node_name_of_spare() {
  const auto nodes = must(
      client().list(kube::resources::nodes, "", {.label_selector = "homeostat.dev/pool=" + context_.names().pool}));
  for (const auto& node : nodes.items)
    for (const auto& taint : io::array_at(node, {"spec", "taints"}))
      if (io::string_at(taint, {"key"}) == names::spare_taint) return kube::name_of(node);
  return {};
}

void World::wait_until_whole(Duration limit) { must(cli::wait_until_whole(context_, cli::Teller(), limit)); }

void World::wait(const std::string& what, Duration limit, const std::function<bool()>& there) {
  const auto deadline = context_.clock().monotonic() + limit;
  while (!there()) {
    if (context_.clock().monotonic() > deadline) FAIL("not within " << format_duration(limit) << ": " << what);
    context_.clock().sleep(Duration(200), {});
  }
}

void World::save_logs(const std::string& name) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::string folder_name = name;
  for (char& c : folder_name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '-';
  const auto folder = fs::path(places().programs).parent_path() / "e2e-logs" / folder_name.substr(0, 60);
  fs::create_directories(folder, error);
  std::ofstream(folder / "kubernetes.txt") << cli::troubleshooting(places());
  for (const auto& [file, arguments] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"controller.log", {"-n", "homeostat-system", "logs", "deploy/homeostat-controller", "--tail=2000"}},
           {"controller-before.log",
            {"-n", "homeostat-system", "logs", "deploy/homeostat-controller", "--previous", "--tail=2000"}},
           {"objects.yaml",
            {"get", "nodepools,slurmclusters,nodehealths,healthpolicies,repairs,drills", "-A", "-o", "yaml"}},
           {"nodes.yaml", {"get", "nodes", "-o", "yaml"}},
           {"events.txt", {"get", "events", "-A", "--sort-by=.lastTimestamp"}},
           {"slurmctld.log", {"-n", "slurm", "logs", "demo-controller-0", "--tail=2000", "--all-containers"}},
           {"workers.log",
            {"-n", "slurm", "logs", "-l", "homeostat.dev/component=worker", "--tail=500", "--prefix"}}}) {
    const auto answer = kubectl(arguments);
    std::ofstream(folder / file) << answer.out << answer.err;
  }
  fs::copy_file(places().state + "/serve.log", folder / "lab-serve.log", fs::copy_options::overwrite_existing, error);
  fs::copy_file(places().state + "/control-plane/log/kube-apiserver.log", folder / "kube-apiserver.log",
                fs::copy_options::overwrite_existing, error);
  fmt::print("[e2e] logs are in {}\n", folder.string());
}

namespace {

void apply(const std::string& yaml) {
  const auto answer = World::get().kubectl({"apply", "-f", "-"}, yaml);
  REQUIRE_MESSAGE(answer.code == 0, answer.err);
}

}  // namespace

Refusal::Refusal(std::string name, std::string resource_rule)
    : name_(std::move(name)), resource_rule_(std::move(resource_rule)) {
  apply(fmt::format(R"yaml(
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {{name: {0}}}
spec: {{policyName: {0}, validationActions: [Deny]}}
)yaml",
                    name_));
}

void Refusal::allow_only(const std::string& allowed) {
  apply(fmt::format(R"yaml(
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: {}}}
spec:
  failurePolicy: Fail
  matchConstraints: {{resourceRules: [{}]}}
  validations:
    - message: held by the end-to-end test
      expression: >-
        {}
)yaml",
                    name_, resource_rule_, allowed));
}

void Refusal::lift() {
  if (std::exchange(lifted_, true)) return;
  for (const auto* kind : {"validatingadmissionpolicybinding", "validatingadmissionpolicy"})
    World::get().kubectl({"delete", kind, name_, "--ignore-not-found"});
}

pid_t find_process(const std::string& words) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const auto name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    auto arguments = io::read_head(entry.path().string() + "/cmdline", size_t{64} * 1024).value_or("");
    std::replace(arguments.begin(), arguments.end(), '\0', ' ');
    if (arguments.find(words) != std::string::npos) return static_cast<pid_t>(std::stol(name));
  }
  return -1;
}

}  // namespace homeostat::e2e
