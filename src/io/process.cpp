#include "io/process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <cstring>

extern char** environ;

namespace homeostat::io {
namespace {

struct Pipe {
  int read = -1, write = -1;
  Pipe() = default;
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() { close_read(), close_write(); }
  bool open() {
    int fds[2];
    if (::pipe2(fds, O_CLOEXEC) != 0) return false;
    read = fds[0], write = fds[1];
    return true;
  }
  void close_read() {
    if (read >= 0) ::close(read), read = -1;
  }
  void close_write() {
    if (write >= 0) ::close(write), write = -1;
  }
};

// Everything that the child needs, made before fork(): between fork and exec only async-signal-safe calls are allowed.
struct ChildPlan {
  std::string path;
  std::vector<char*> argv, envp;
  const SpawnOptions* options;
  std::array<int, 3> stdio{-1, -1, -1};  // descriptors to use instead of the paths
  int error_pipe = -1;
};

int open_stdio(const std::string& path, int number) {
  int flags = number == 0 ? O_RDONLY : O_WRONLY | O_CREAT | O_APPEND;
  return ::open(path.c_str(), flags | O_CLOEXEC, 0640);
}

[[noreturn]] void child(const ChildPlan& plan) {
  auto give_up = [&plan] {
    int code = errno;
    [[maybe_unused]] ssize_t n = ::write(plan.error_pipe, &code, sizeof code);
    ::_exit(127);
  };
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  if (plan.options->new_session) ::setsid();
  const std::string* paths[3] = {&plan.options->stdin_path, &plan.options->stdout_path, &plan.options->stderr_path};
  for (int n = 0; n < 3; ++n) {
    int fd = plan.stdio[n];
    if (fd < 0 && !paths[n]->empty() && (fd = open_stdio(*paths[n], n)) < 0) give_up();
    if (fd >= 0 && fd != n && ::dup2(fd, n) < 0) give_up();
    if (fd == n) ::fcntl(fd, F_SETFD, 0);
  }
  if (!plan.options->cwd.empty() && ::chdir(plan.options->cwd.c_str()) != 0) give_up();
  ::execve(plan.path.c_str(), plan.argv.data(), plan.envp.data());
  give_up();
  ::_exit(127);
}

Result<std::pair<pid_t, int>> launch(const std::vector<std::string>& argv, const SpawnOptions& options,
                                     std::array<int, 3> stdio) {
  if (argv.empty() || argv[0].empty()) return fail(ErrorKind::invalid, "no program was named");
  ChildPlan plan;
  plan.path = argv[0].find('/') == std::string::npos ? find_program(argv[0]) : argv[0];
  if (plan.path.empty())
    return fail(ErrorKind::not_found, "the program '" + argv[0] + "' is not installed (not found in PATH)");
  for (const auto& a : argv) plan.argv.push_back(const_cast<char*>(a.c_str()));
  plan.argv.push_back(nullptr);
  if (options.env) {
    for (const auto& e : *options.env) plan.envp.push_back(const_cast<char*>(e.c_str()));
  } else {
    for (char** e = environ; *e != nullptr; ++e) plan.envp.push_back(*e);
  }
  plan.envp.push_back(nullptr);
  plan.options = &options;
  plan.stdio = stdio;

  Pipe errors;
  if (!errors.open()) return fail(ErrorKind::internal, std::string("cannot make a pipe: ") + std::strerror(errno));
  plan.error_pipe = errors.write;
  pid_t pid = ::fork();
  if (pid < 0) return fail(ErrorKind::internal, "cannot start '" + argv[0] + "': " + std::strerror(errno));
  if (pid == 0) child(plan);
  errors.close_write();
  int code = 0;
  ssize_t n;
  do n = ::read(errors.read, &code, sizeof code);
  while (n < 0 && errno == EINTR);
  if (n == sizeof code) {
    ::waitpid(pid, nullptr, 0);
    auto kind = code == ENOENT ? ErrorKind::not_found : ErrorKind::internal;
    return fail(kind, "cannot start '" + argv[0] + "': " + std::strerror(code));
  }
  // By syscall: the declaration in glibc 2.36 lacks extern "C". Close-on-exec by definition.
  int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (pidfd < 0) {
    int cause = errno;
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    return fail(ErrorKind::internal, "cannot watch '" + argv[0] + "': " + std::strerror(cause));
  }
  return std::pair{pid, pidfd};
}

ExitStatus decode(int status) {
  if (WIFSIGNALED(status)) return {0, WTERMSIG(status)};
  return {WEXITSTATUS(status), 0};
}

int remaining_ms(std::chrono::steady_clock::time_point deadline) {
  auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
  return static_cast<int>(std::clamp<long long>(left, 0, INT_MAX));
}

std::string last_lines(std::string_view text, size_t limit = 600) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  if (text.size() > limit) text.remove_prefix(text.size() - limit);
  return std::string(text);
}

// One round of moving bytes for run(): feeds stdin, reads both outputs. False once both outputs are closed.
class Mover {
 public:
  Mover(std::string_view input, size_t limit) : input_(input), limit_(limit) {}
  Pipe in, out, err;
  RunResult result;

  bool round(int timeout_ms) {
    std::array<pollfd, 3> fds{{{out.read, POLLIN, 0}, {err.read, POLLIN, 0}, {in.write, POLLOUT, 0}}};
    if (::poll(fds.data(), fds.size(), timeout_ms) > 0) {
      if (fds[0].revents) drain(out, result.out);
      if (fds[1].revents) drain(err, result.err);
      if (fds[2].revents) feed();
    }
    return out.read >= 0 || err.read >= 0;
  }

  void feed() {
    ssize_t n = input_.empty() ? 0 : ::write(in.write, input_.data(), input_.size());
    if (n > 0) input_.remove_prefix(static_cast<size_t>(n));
    if (input_.empty() || (n < 0 && errno != EAGAIN && errno != EINTR)) in.close_write();
  }

 private:
  void drain(Pipe& pipe, std::string& into) {
    char buffer[16384];
    ssize_t n = ::read(pipe.read, buffer, sizeof buffer);
    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) return pipe.close_read();
    if (n < 0) return;
    size_t room = limit_ - std::min(limit_, into.size());
    if (static_cast<size_t>(n) > room) result.truncated = true;
    into.append(buffer, std::min(room, static_cast<size_t>(n)));
  }
  std::string_view input_;
  size_t limit_;
};

}  // namespace

std::string to_string(const ExitStatus& status) {
  return status.signal != 0 ? "signal " + std::to_string(status.signal) : "exit code " + std::to_string(status.code);
}

std::string find_program(std::string_view name) {
  const char* path = std::getenv("PATH");
  std::string_view rest = path != nullptr ? path : "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
  while (!rest.empty()) {
    auto end = rest.find(':');
    std::string candidate(rest.substr(0, end));
    rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
    if (candidate.empty()) continue;
    candidate.append("/").append(name);
    struct stat info;
    if (::access(candidate.c_str(), X_OK) == 0 && ::stat(candidate.c_str(), &info) == 0 && S_ISREG(info.st_mode))
      return candidate;
  }
  return {};
}

Result<Process> Process::spawn(const std::vector<std::string>& argv, const SpawnOptions& options) {
  auto launched = launch(argv, options, {-1, -1, -1});
  if (!launched) return std::unexpected(launched.error());
  return Process(launched->first, launched->second);
}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), pidfd_(std::exchange(other.pidfd_, -1)), status_(other.status_) {}

Process& Process::operator=(Process&& other) noexcept {
  if (this != &other) {
    if (pidfd_ >= 0) ::close(pidfd_);
    pid_ = std::exchange(other.pid_, -1);
    pidfd_ = std::exchange(other.pidfd_, -1);
    status_ = other.status_;
  }
  return *this;
}

Process::~Process() {
  if (pidfd_ >= 0) ::close(pidfd_);
}

std::optional<ExitStatus> Process::wait(Duration timeout) {
  if (status_ || pid_ < 0) return status_;
  auto deadline = std::chrono::steady_clock::now() + timeout;
  pollfd fd{pidfd_, POLLIN, 0};
  int ready;
  do ready = ::poll(&fd, 1, remaining_ms(deadline));
  while (ready < 0 && errno == EINTR);
  int status = 0;
  if (ready > 0 && ::waitpid(pid_, &status, 0) == pid_) status_ = decode(status);
  return status_;
}

void Process::kill(int signal) const {
  if (!status_ && pid_ > 0) ::kill(pid_, signal);
}

Result<RunResult> run(const std::vector<std::string>& argv, const RunOptions& options, std::stop_token stop) {
  Mover mover(options.input, options.max_output_bytes);
  if (!mover.in.open() || !mover.out.open() || !mover.err.open())
    return fail(ErrorKind::internal, std::string("cannot make a pipe: ") + std::strerror(errno));
  SpawnOptions spawn;
  spawn.env = options.env;
  spawn.cwd = options.cwd;
  auto launched = launch(argv, spawn, {mover.in.read, mover.out.write, mover.err.write});
  if (!launched) return std::unexpected(launched.error());
  auto [pid, pidfd] = *launched;
  ::close(pidfd);
  mover.in.close_read(), mover.out.close_write(), mover.err.close_write();
  ::fcntl(mover.in.write, F_SETFL, O_NONBLOCK);
  // A child that closes its stdin early must not kill this thread.
  sigset_t pipe_signal, old;
  sigemptyset(&pipe_signal), sigaddset(&pipe_signal, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &pipe_signal, &old);

  constexpr int look_every_ms = 50;
  auto deadline = std::chrono::steady_clock::now() + options.timeout;
  std::optional<Error> abort;
  int status = 0;
  bool open = true, ended = false;
  while (!ended && !abort) {
    int wait_ms = std::min(remaining_ms(deadline), open ? look_every_ms : 5);
    if (open)
      open = mover.round(wait_ms);
    else
      ::poll(nullptr, 0, wait_ms);
    ended = ::waitpid(pid, &status, WNOHANG) == pid;
    if (ended) break;
    if (stop.stop_requested())
      abort = Error{ErrorKind::cancelled, "'" + argv[0] + "' was cancelled", {}};
    else if (remaining_ms(deadline) == 0)
      abort = Error{ErrorKind::timeout,
                    "'" + argv[0] + "' did not end within " + format_duration(options.timeout) + " and was killed",
                    {}};
  }
  if (abort) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, &status, 0);
  }
  // What the program wrote before it ended; a grandchild that keeps the pipe open must not hold us up.
  for (int rounds = 0; open && rounds < 4096; ++rounds) {
    size_t before = mover.result.out.size() + mover.result.err.size();
    open = mover.round(0);
    if (!mover.result.truncated && before == mover.result.out.size() + mover.result.err.size()) break;
  }
  timespec zero{};
  ::sigtimedwait(&pipe_signal, nullptr,
                 &zero);  // takes a SIGPIPE that is pending, so that unblocking does not deliver it
  ::pthread_sigmask(SIG_SETMASK, &old, nullptr);
  if (abort) return std::unexpected(*abort);
  mover.result.status = decode(status);
  return std::move(mover.result);
}

Result<std::string> run_ok(const std::vector<std::string>& argv, const RunOptions& options, std::stop_token stop) {
  auto result = run(argv, options, stop);
  if (!result) return std::unexpected(result.error());
  if (result->status.ok()) return std::move(result->out);
  std::string command;
  for (const auto& a : argv) command += (command.empty() ? "" : " ") + a;
  if (command.size() > 200) command = command.substr(0, 200) + "...";
  auto detail = last_lines(result->err.empty() ? result->out : result->err);
  return fail(ErrorKind::internal,
              "'" + command + "' failed with " + to_string(result->status) + (detail.empty() ? "" : ": " + detail));
}

}  // namespace homeostat::io
