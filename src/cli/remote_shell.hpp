// The login node over ssh, as a researcher would use it: OpenSSH's own client, our key, and the host key pinned from
// the cluster's Secret, so that the first connection is already verified. Blocking; every call is bounded.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/context.hpp"
#include "core/result.hpp"
#include "io/process.hpp"

namespace homeostat::cli {

// Makes the key pair once and gives the public line.
Result<std::string> ensure_ssh_key(const Places& places);

struct Login {
  std::string address, user, key, known_hosts;
};

// Reads the address from the SlurmCluster and the host key from its Secret, and writes known_hosts.
Result<Login> find_login(Context& context);

// ssh and its options, up to and including user@address.
std::vector<std::string> ssh_arguments(const Login& login, bool terminal);

// Runs a command of the login node's shell and gives its output; a failing command is an error with what it said.
Result<std::string> remote(const Login& login, const std::string& command, Duration timeout, std::stop_token stop,
                           std::string_view input = {});

// A command whose output grows while it runs (tail -F, a loop of squeue), gathered in a local file. Ends with this
// object.
class RemoteStream {
 public:
  static Result<std::unique_ptr<RemoteStream>> start(const Login& login, const std::string& command);
  ~RemoteStream();
  RemoteStream(const RemoteStream&) = delete;
  RemoteStream& operator=(const RemoteStream&) = delete;

  // All that has come so far, up to 16 MiB. When the connection broke the command is started again, so lines may come
  // twice.
  std::string text();

 private:
  RemoteStream(Login login, std::string command, std::string path);
  Result<void> spawn();
  Login login_;
  std::string command_, path_;
  std::optional<io::Process> process_;
};

}  // namespace homeostat::cli
