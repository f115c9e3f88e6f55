#include "cli/context.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "kube/connect.hpp"
#include "kube/kubeconfig.hpp"

namespace homeostat::cli {
namespace {

std::string own_folder() {
  std::error_code error;
  const auto own = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::string(".") : own.parent_path().string();
}

// build/bin/homeostat stands two folders below the work tree; elsewhere the tree that it was built from serves.
std::string source_folder(const std::string& programs) {
  std::error_code error;
  const auto tree = std::filesystem::path(programs) / ".." / "..";
  if (std::filesystem::exists(tree / "api" / "crds", error)) return tree.lexically_normal().string();
  return HOMEOSTAT_SOURCE_DIR;
}

}  // namespace

Places find_places() {
  const char* state = std::getenv("HOMEOSTAT_STATE");
  Places places;
  places.state = state != nullptr && *state != '\0' ? std::filesystem::absolute(state).lexically_normal().string()
                                                    : "/var/lib/homeostat/lab";
  places.programs = own_folder();
  // A test program stands beside the programs' folder.
  std::error_code error;
  if (!std::filesystem::exists(places.lab_program(), error)) {
    const auto beside = std::filesystem::path(places.programs).parent_path() / "bin";
    if (std::filesystem::exists(beside / "homeostat-lab", error)) places.programs = beside.string();
  }
  places.sources = source_folder(places.programs);
  return places;
}

Result<kube::Client*> Context::client() {
  if (client_) return client_.get();
  std::error_code error;
  if (!places_.cluster.empty() && !std::filesystem::exists(places_.cluster, error))
    return fail(ErrorKind::not_found, "there is no file " + places_.cluster + ": name the cluster's kubeconfig");
  if (!std::filesystem::exists(places_.kubeconfig(), error))
    return fail(ErrorKind::not_found,
                fmt::format("there is no lab in {}; bring one up with: homeostat up", places_.state));
  auto config = kube::load_kubeconfig({.paths = {places_.kubeconfig()}, .context = ""});
  if (!config) return std::unexpected(config.error());
  kube::ClientOptions options;
  options.user_agent = "homeostat/" HOMEOSTAT_VERSION;
  options.qps = 50;
  options.burst = 100;
  options.request_timeout =
      Duration(10'000);  // short, and no stop_token: what an interrupted command cleans up goes through it, too
  client_ = kube::make_client(std::move(*config), nullptr, clock_, random_, options);
  return client_.get();
}

Teller::Teller(bool quiet) : start_(io::SystemClock().monotonic()), quiet_(quiet) {}

void Teller::say(std::string_view text) const {
  if (quiet_) return;
  const auto elapsed = io::SystemClock().monotonic() - start_;
  fmt::print("[{:6.1f}s] {}\n", static_cast<double>(elapsed.count()) / 1000.0, text);
  std::fflush(stdout);
}

Result<void> wait_for(Context& context, const Wait& wait, const Teller& teller,
                      const std::function<Result<std::string>()>& missing) {
  const auto deadline = context.clock().monotonic() + wait.limit;
  std::string last;
  while (!context.stop().stop_requested()) {
    const auto answer = missing();
    const std::string now = answer ? *answer : answer.error().message;
    if (answer && now.empty()) return {};
    if (now != last) teller.say(fmt::format("{}: {}", wait.what, now));
    last = now;
    if (context.clock().monotonic() > deadline)
      return fail(ErrorKind::timeout,
                  fmt::format("{}: not there after {}: {}.{}{}", wait.what, format_duration(wait.limit), now,
                              wait.hint.empty() ? "" : " Look at: ", wait.hint));
    context.clock().sleep(wait.every, context.stop());
  }
  return fail(ErrorKind::cancelled, "interrupted");
}

int complain(const Error& error) {
  fmt::print(stderr, "homeostat: {}\n", error.message);
  return error.kind == ErrorKind::not_found ? exit_missing : exit_failed;
}

}  // namespace homeostat::cli
