#include "cli/remote_shell.hpp"

#include <fmt/core.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "io/files.hpp"
#include "io/json.hpp"
#include "io/jwt.hpp"
#include "kube/meta.hpp"

namespace homeostat::cli {
namespace {

constexpr std::size_t max_stream_bytes = 16u << 20;

std::string first_two_words(const std::string& line) {
  std::istringstream words(line);
  std::string type, key;
  words >> type >> key;
  return type.empty() || key.empty() ? "" : type + " " + key;
}

// "type key" of a private key, by ssh-keygen, which takes files only.
Result<std::string> derive_public(const Places& places, const std::string& private_key) {
  std::string path = places.ssh_folder() + "/hostkey.XXXXXX";
  const int fd = ::mkstemp(path.data());  // mode 0600
  if (fd < 0) return fail(ErrorKind::internal, "cannot write into " + places.ssh_folder());
  const bool whole = ::write(fd, private_key.data(), private_key.size()) == static_cast<ssize_t>(private_key.size());
  ::close(fd);
  auto derived = whole ? io::run_ok({"ssh-keygen", "-y", "-f", path})
                       : Result<std::string>(fail(ErrorKind::internal, "the disk is full"));
  ::unlink(path.c_str());
  if (!derived) return derived;
  return first_two_words(*derived);
}

// The public halves of the login node's host keys, from the Secret that holds the private ones.
Result<std::vector<std::string>> host_public_keys(Context& context) {
  auto client = context.client();
  if (!client) return std::unexpected(client.error());
  const auto name = context.names().cluster + "-login-hostkeys";
  const auto secret = (*client)->get(kube::resources::secrets, context.names().ns, name);
  if (!secret) return std::unexpected(secret.error());
  std::vector<std::string> lines;
  for (const auto& entry : io::object_at(*secret, {"data"})) {
    const std::string key = entry.key();
    if (!key.starts_with("ssh_host_") || key.ends_with(".pub") || !entry.value().is_string()) continue;
    auto line = derive_public(context.places(), io::base64_decode(entry.value().get_string()).value_or(""));
    if (!line) return std::unexpected(line.error());
    lines.push_back(*line);
  }
  if (lines.empty())
    return fail(ErrorKind::not_found, fmt::format("Secret {} holds no host key of the login node", name));
  return lines;
}

Result<void> write_whole(const std::string& path, const std::string& text) {
  const auto part = path + ".part";
  std::ofstream out(part, std::ios::binary);
  out << text;
  out.close();
  if (!out || ::rename(part.c_str(), path.c_str()) != 0)
    return fail(ErrorKind::internal, "cannot write " + path + "; is the disk full?");
  return {};
}

}  // namespace

Result<std::string> ensure_ssh_key(const Places& places) {
  std::error_code error;
  std::filesystem::create_directories(places.ssh_folder(), error);
  ::chmod(places.ssh_folder().c_str(), 0700);
  if (!std::filesystem::exists(places.ssh_key() + ".pub", error)) {
    if (io::find_program("ssh-keygen").empty())
      return fail(ErrorKind::not_found, "ssh-keygen is missing; install it with: apt-get install -y openssh-client");
    auto made = io::run_ok({"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "homeostat", "-f", places.ssh_key()});
    if (!made) return std::unexpected(made.error());
  }
  auto line = io::read_file(places.ssh_key() + ".pub").value_or("");
  while (!line.empty() && (line.back() == '\n' || line.back() == ' ')) line.pop_back();
  if (line.empty())
    return fail(ErrorKind::internal,
                places.ssh_key() + ".pub is empty; remove " + places.ssh_folder() + " and try again");
  return line;
}

Result<Login> find_login(Context& context) {
  auto client = context.client();
  if (!client) return std::unexpected(client.error());
  const auto& names = context.names();
  const auto cluster = (*client)->get(kube::resources::slurm_clusters, names.ns, names.cluster);
  if (!cluster) return std::unexpected(cluster.error());
  Login login{io::string_at(*cluster, {"status", "loginAddress"}), names.user, context.places().ssh_key(),
              context.places().known_hosts()};
  if (login.address.empty())
    return fail(
        ErrorKind::unavailable,
        fmt::format("SlurmCluster {}/{} has no login address yet; see: homeostat status", names.ns, names.cluster));
  auto key = ensure_ssh_key(context.places());
  if (!key) return std::unexpected(key.error());
  const auto hosts = host_public_keys(context);
  if (!hosts) return std::unexpected(hosts.error());
  std::string known;
  for (const auto& host : *hosts) known += login.address + " " + host + "\n";
  if (auto written = write_whole(login.known_hosts, known); !written) return std::unexpected(written.error());
  return login;
}

std::vector<std::string> ssh_arguments(const Login& login, bool terminal) {
  std::vector<std::string> argv = {"ssh"};
  for (const auto& option :
       {std::string("IdentitiesOnly=yes"), "UserKnownHostsFile=" + login.known_hosts,
        std::string("GlobalKnownHostsFile=/dev/null"), std::string("StrictHostKeyChecking=yes"),
        std::string("UpdateHostKeys=no"), std::string("ConnectTimeout=3"), std::string("ServerAliveInterval=5"),
        std::string("ServerAliveCountMax=3"), std::string("LogLevel=ERROR")}) {
    argv.push_back("-o");
    argv.push_back(option);
  }
  if (!terminal) argv.insert(argv.end(), {"-o", "BatchMode=yes", "-T"});
  argv.insert(argv.end(), {"-F", "none", "-i", login.key, login.user + "@" + login.address});
  return argv;
}

Result<std::string> remote(const Login& login, const std::string& command, Duration timeout, std::stop_token stop,
                           std::string_view input) {
  auto argv = ssh_arguments(login, false);
  argv.push_back(command);
  const auto done = io::run(argv, {.input = std::string(input), .timeout = timeout}, stop);
  if (!done)
    return std::unexpected(
        Error{done.error().kind,
              fmt::format("on the login node, \"{}\": {}", command.substr(0, 80), done.error().message),
              {}});
  if (!done->status.ok())
    return fail(done->status.code == 255 ? ErrorKind::unreachable : ErrorKind::internal,
                fmt::format("on the login node, \"{}\" ended with {}: {}", command.substr(0, 80),
                            io::to_string(done->status), done->err.substr(0, 500)));
  return done->out;
}

RemoteStream::RemoteStream(Login login, std::string command, std::string path)
    : login_(std::move(login)), command_(std::move(command)), path_(std::move(path)) {}

Result<std::unique_ptr<RemoteStream>> RemoteStream::start(const Login& login, const std::string& command) {
  std::string path = "/tmp/homeostat-stream.XXXXXX";
  const int fd = ::mkstemp(path.data());
  if (fd < 0) return fail(ErrorKind::internal, "cannot make a file in /tmp; is the disk full?");
  ::close(fd);
  auto stream = std::unique_ptr<RemoteStream>(new RemoteStream(login, command, path));
  if (auto spawned = stream->spawn(); !spawned) return std::unexpected(spawned.error());
  return stream;
}

Result<void> RemoteStream::spawn() {
  auto argv = ssh_arguments(login_, false);
  argv.push_back(command_);
  io::SpawnOptions options;
  options.stdout_path = path_;
  options.stderr_path = "/dev/null";
  auto process = io::Process::spawn(argv, options);
  if (!process) return std::unexpected(process.error());
  process_.emplace(std::move(*process));
  return {};
}

RemoteStream::~RemoteStream() {
  if (process_) {
    process_->kill(SIGTERM);
    if (!process_->wait(Duration(2'000))) process_->kill(SIGKILL), process_->wait(Duration(1'000));
  }
  ::unlink(path_.c_str());
}

std::string RemoteStream::text() {
  if (process_ && process_->wait(Duration(0))) {
    process_.reset();
    if (auto again = spawn(); !again) return {};
  }
  return io::read_head(path_, max_stream_bytes).value_or("");
}

}  // namespace homeostat::cli
