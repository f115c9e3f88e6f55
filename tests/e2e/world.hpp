// The lab that the end-to-end cases share. It is brought up by the first case that asks, and taken down by the last one
// when this program brought it up. When a case fails, logs and objects are kept in build/e2e-logs.
#pragma once

#include <doctest/doctest.h>
#include <sys/types.h>

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "cli/context.hpp"
#include "cli/heal_driver.hpp"
#include "cli/remote_shell.hpp"
#include "io/process.hpp"

namespace homeostat::e2e {

// The value, or a failed case with the error's sentence.
template <class T>
T must(Result<T> result) {
  if (!result) FAIL(result.error().message);
  return std::move(*result);
}
inline void must(Result<void> result) {
  if (!result) FAIL(result.error().message);
}

class World {
 public:
  static World& get();

  cli::Context& context() { return context_; }
  const cli::Places& places() const { return context_.places(); }
  kube::Client& client() { return *must(context_.client()); }
  const cli::Login& login();
  // The output of a command on the login node.
  std::string ssh(const std::string& command, Duration limit = Duration(60'000));

  struct Answer {
    int code = -1;
    std::string out, err;
  };
  Answer homeostat(const std::vector<std::string>& arguments, Duration limit = Duration(300'000));
  // The same beside the case; get() gives its answer.
  std::future<Answer> homeostat_meanwhile(const std::vector<std::string>& arguments,
                                          Duration limit = Duration(300'000));
  Answer lab(const std::vector<std::string>& arguments, Duration limit = Duration(120'000));
  Answer kubectl(const std::vector<std::string>& arguments, const std::string& input = {});

  // Prefix of the lab's bridge and namespaces: "hl" unless it was brought up otherwise.
  std::string instance();
  // Names of the provider's machines that live, in a pool (the lab's own pool).
  std::vector<std::string> machines();
  std::vector<std::string> machines(const std::string& pool);
  // Machines that the provider ever made: lines of its log with a 201.
  int machines_made();
  std::string node_name_of_spare();

  // Both nodes and the spare are healthy and Slurm has them.
  void wait_until_whole(Duration limit = Duration(180'000));
  // Until the answer is true; a failed case with `what` otherwise.
  void wait(const std::string& what, Duration limit, const std::function<bool()>& there);

  bool brought_up_here() const { return brought_up_here_; }
  void save_logs(const std::string& name);

 private:
  World();
  cli::Context context_;
  std::unique_ptr<cli::Login> login_;
  bool brought_up_here_ = false;
};

// While it lives the API server refuses the writes that `resource_rule` (a line of YAML) chooses and for which
// `allowed` (CEL) is false. It takes about three seconds until the API server does so.
class Refusal {
 public:
  Refusal(std::string name, std::string resource_rule);
  ~Refusal() { lift(); }
  Refusal(const Refusal&) = delete;
  Refusal& operator=(const Refusal&) = delete;

  void allow_only(const std::string& allowed);
  void lift();

 private:
  std::string name_, resource_rule_;
  bool lifted_ = false;
};

// pid of the process (of the host's, and so of all machines) whose arguments, parted by blanks, hold this text; -1:
// none.
pid_t find_process(const std::string& words);

}  // namespace homeostat::e2e
