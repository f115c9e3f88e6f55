// Other programs: started with an argument vector (never a shell string), waited for with a bound. Safe from any
// thread; a Process belongs to one thread at a time. Descriptors of this process are not inherited by the child, apart
// from the stdio asked for.
#pragma once

#include <sys/types.h>

#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "core/time.hpp"

namespace homeostat::io {

struct ExitStatus {
  int code = 0;    // when signal == 0
  int signal = 0;  // what killed it
  bool ok() const { return code == 0 && signal == 0; }
};

// "exit code 3" or "signal 9": for messages.
std::string to_string(const ExitStatus& status);

struct SpawnOptions {
  std::optional<std::vector<std::string>> env = {};  // NAME=value; nullopt: this process's own
  std::string cwd = {};                              // "": unchanged
  std::string stdin_path = "/dev/null";              // "": inherited, as below
  std::string stdout_path = {};                      // appended to, mode 0640
  std::string stderr_path = {};                      // may be the same file
  bool new_session = false;                          // setsid: survives the terminal, leads its own process group
};

class Process {
 public:
  // argv[0] is looked up in PATH when it holds no slash. not_found: no such program.
  static Result<Process> spawn(const std::vector<std::string>& argv, const SpawnOptions& options = {});

  Process(Process&&) noexcept;
  Process& operator=(Process&&) noexcept;
  ~Process();  // leaves a running child alone

  pid_t pid() const { return pid_; }
  // nullopt: still running after the timeout. Once it has ended, every later call gives the same status.
  std::optional<ExitStatus> wait(Duration timeout);
  void kill(int signal) const;  // nothing happens once it has ended and been waited for

 private:
  explicit Process(pid_t pid, int pidfd) : pid_(pid), pidfd_(pidfd) {}
  pid_t pid_ = -1;
  int pidfd_ = -1;
  std::optional<ExitStatus> status_;
};

struct RunOptions {
  std::optional<std::vector<std::string>> env = {};
  std::string cwd = {};
  std::string input = {};  // fed to stdin
  Duration timeout{60'000};
  size_t max_output_bytes = 4u << 20;  // of each stream; more is read and thrown away
};

struct RunResult {
  ExitStatus status;
  std::string out = {};
  std::string err = {};
  bool truncated = false;
};

// Runs to the end and captures. Errors: not_found, timeout and cancelled (the program was killed), internal. A program
// that ended with a failure is a value: look at status.
Result<RunResult> run(const std::vector<std::string>& argv, const RunOptions& options = {}, std::stop_token stop = {});

// run(), where a failing status is an error too: its message carries the command and the last lines of stderr. Gives
// stdout.
Result<std::string> run_ok(const std::vector<std::string>& argv, const RunOptions& options = {},
                           std::stop_token stop = {});

// The path of a program as PATH finds it; "" when it is not there.
std::string find_program(std::string_view name);

}  // namespace homeostat::io
