#include "lab/zone_init.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>

#include "io/files.hpp"
#include "lab/zone_spec.hpp"
#include "lab/zones.hpp"

namespace homeostat::lab {
namespace {

using Clock = std::chrono::steady_clock;

constexpr off_t log_limit_bytes = 8 << 20;  // then it becomes NAME.log.1 and a new one begins
constexpr auto wait_for_limit = std::chrono::seconds(30);

std::unexpected<Error> system_error(const std::string& what) {
  return fail(ErrorKind::internal, what + ": " + std::strerror(errno));
}

// --- the zone's view of the file system
// -----------------------------------------------------------------------------------------

// A private copy of the host's mounts still pins the other zones' network namespaces: let go of them.
void drop_foreign_namespaces() {
  auto table = io::read_file("/proc/self/mounts");
  if (!table) return;
  std::vector<std::string> targets;
  for (size_t at = 0; at < table->size();) {
    auto end = table->find('\n', at);
    auto line = std::string_view(*table).substr(at, end - at);
    at = end == std::string::npos ? table->size() : end + 1;
    auto first = line.find(' ');
    if (first == std::string_view::npos) continue;
    auto target = line.substr(first + 1, line.find(' ', first + 1) - first - 1);
    if (target.starts_with("/run/netns/")) targets.emplace_back(target);
  }
  for (const auto& target : targets) ::umount2(target.c_str(), MNT_DETACH);
}

Result<void> make_device(const std::string& name, unsigned major, unsigned minor, mode_t mode = 0666) {
  auto path = "/dev/" + name;
  if (::mknod(path.c_str(), S_IFCHR | mode, makedev(major, minor)) != 0 || ::chmod(path.c_str(), mode) != 0)
    return system_error("cannot make the device " + path);
  return {};
}

Result<void> private_dev(const ZoneSpec& spec) {
  if (::mount("tmpfs", "/dev", "tmpfs", MS_NOSUID, "mode=755,size=1m") != 0) return system_error("cannot mount /dev");
  const ZoneDevice standard[] = {{"null", 1, 3},    {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8},
                                 {"urandom", 1, 9}, {"tty", 5, 0},  {"kmsg", 1, 11}};
  for (const auto& d : standard)
    if (auto made = make_device(d.name, d.major, d.minor, d.name == "kmsg" ? 0600 : 0666); !made) return made;
  for (const auto& d : spec.devices)
    if (auto made = make_device(d.name, d.major, d.minor); !made) return made;
  for (const char* folder : {"/dev/pts", "/dev/shm", "/dev/mqueue"}) ::mkdir(folder, 0755);
  if (::mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620,gid=5") != 0 ||
      ::mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777") != 0)
    return system_error("cannot mount /dev/pts and /dev/shm");
  ::mount("mqueue", "/dev/mqueue", "mqueue", MS_NOSUID | MS_NODEV | MS_NOEXEC,
          nullptr);  // not every kernel has it; nothing here needs it
  const std::pair<const char*, const char*> links[] = {{"pts/ptmx", "/dev/ptmx"},
                                                       {"/proc/self/fd", "/dev/fd"},
                                                       {"/proc/self/fd/0", "/dev/stdin"},
                                                       {"/proc/self/fd/1", "/dev/stdout"},
                                                       {"/proc/self/fd/2", "/dev/stderr"}};
  for (auto [to, at] : links)
    if (::symlink(to, at) != 0) return system_error(std::string("cannot make ") + at);
  return {};
}

Result<void> make_target(const ZoneMount& mount) {
  struct stat info;
  if (::stat(mount.target.c_str(), &info) == 0) return {};
  bool file = mount.kind == ZoneMount::Kind::bind && ::stat(mount.source.c_str(), &info) == 0 && !S_ISDIR(info.st_mode);
  if (!file) return io::make_folders(mount.target);
  if (auto made = io::make_folders(mount.target.substr(0, mount.target.rfind('/'))); !made) return made;
  return io::write_file(mount.target, "");
}

Result<void> do_mount(const ZoneMount& m) {
  if (auto made = make_target(m); !made) return made;
  if (m.kind == ZoneMount::Kind::tmpfs) {
    if (::mount("tmpfs", m.target.c_str(), "tmpfs", MS_NOSUID, "mode=755") != 0)
      return system_error("cannot mount a tmpfs at " + m.target);
    return {};
  }
  if (::mount(m.source.c_str(), m.target.c_str(), nullptr, MS_BIND | MS_REC, nullptr) != 0)
    return system_error("cannot mount " + m.source + " at " + m.target);
  if (m.read_only && ::mount(nullptr, m.target.c_str(), nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY, nullptr) != 0)
    return system_error("cannot make " + m.target + " read-only");
  return {};
}

Result<void> build_view(const ZoneSpec& spec) {
  // Private first, so that nothing goes back to the host; then shared, so that the pods of a machine see its later
  // mounts.
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    return system_error("cannot separate the zone's mounts");
  drop_foreign_namespaces();
  if (::mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0)
    return system_error("cannot mount /proc");
  if (spec.own_dev)
    if (auto made = private_dev(spec); !made) return made;
  for (const auto& m : spec.mounts)
    if (auto made = do_mount(m); !made) return made;
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_SHARED, nullptr) != 0)
    return system_error("cannot share the zone's mounts");
  if (::sethostname(spec.name.data(), spec.name.size()) != 0) return system_error("cannot set the host name");
  if (!spec.netns.empty()) {
    // Forwarding between pods, bridge and services; without redirects, which would teach others ways round this zone.
    for (const char* key :
         {"ip_forward=1", "conf/all/send_redirects=0", "conf/default/send_redirects=0", "conf/eth0/send_redirects=0"}) {
      std::string_view setting = key;
      auto equals = setting.find('=');
      auto path = "/proc/sys/net/ipv4/" + std::string(setting.substr(0, equals));
      int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
      bool good = fd >= 0 && ::write(fd, setting.data() + equals + 1, 1) == 1;
      if (fd >= 0) ::close(fd);
      if (!good) return system_error("cannot set " + path);
    }
  }
  return {};
}

// --- the loop that keeps the programs running
// -----------------------------------------------------------------------------------

class Program {
 public:
  Program(const ZoneProgram& spec, std::string log_path) : spec_(spec), log_path_(std::move(log_path)) {}

  const ZoneProgram& spec() const { return spec_; }
  pid_t pid() const { return pid_; }
  int restarts() const { return restarts_; }
  int output() const { return output_; }

  // When to look at it again; nullopt: only when it ends.
  std::optional<Clock::time_point> due() const {
    if (pid_ > 0) return std::nullopt;
    return next_start_;
  }

  void start_if_due(Clock::time_point now) {
    if (pid_ > 0 || now < next_start_) return;
    if (!spec_.wait_for.empty() && !io::exists(spec_.wait_for) && now < waiting_since_ + wait_for_limit) {
      next_start_ = now + std::chrono::milliseconds(20);
      return;
    }
    start(now);
  }

  void ended(int status, Clock::time_point now) {
    drain();
    auto ran = std::chrono::duration_cast<std::chrono::milliseconds>(now - started_).count();
    backoff_ms_ = next_backoff_ms(backoff_ms_, ran);
    log_line((WIFSIGNALED(status) ? "ended by signal " + std::to_string(WTERMSIG(status))
                                  : "ended with exit code " + std::to_string(WEXITSTATUS(status))) +
             ", starts again in " + std::to_string(backoff_ms_) + " ms");
    pid_ = -1, ++restarts_;
    next_start_ = now + std::chrono::milliseconds(backoff_ms_);
    waiting_since_ = now;
  }

  void drain() {
    char buffer[16384];
    for (int rounds = 0; output_ >= 0 && rounds < 64; ++rounds) {
      ssize_t n = ::read(output_, buffer, sizeof buffer);
      if (n > 0)
        log_text({buffer, static_cast<size_t>(n)});
      else if (n < 0 && errno == EINTR)
        continue;
      else if (n < 0 && errno == EAGAIN)
        return;
      else
        ::close(output_), output_ = -1;
    }
  }

 private:
  void start(Clock::time_point now) {
    int fds[2];
    if (::pipe2(fds, O_CLOEXEC) != 0) return retry(now, "cannot make a pipe");
    std::vector<char*> argv, envp;
    for (const auto& a : spec_.argv) argv.push_back(const_cast<char*>(a.c_str()));
    argv.push_back(nullptr);
    static char path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", home[] = "HOME=/root";
    envp = {path, home};
    for (const auto& e : spec_.env) envp.push_back(const_cast<char*>(e.c_str()));
    envp.push_back(nullptr);
    pid_t pid = ::fork();
    if (pid < 0) return ::close(fds[0]), ::close(fds[1]), retry(now, "cannot fork");
    if (pid == 0) {
      sigset_t none;
      sigemptyset(&none);
      ::sigprocmask(SIG_SETMASK, &none, nullptr);
      ::setsid();
      int null = ::open("/dev/null", O_RDONLY);
      if (null >= 0) ::dup2(null, 0);
      ::dup2(fds[1], 1), ::dup2(fds[1], 2);
      if (null > 2) ::close(null);
      ::execve(argv[0], argv.data(), envp.data());
      ::dprintf(2, "cannot execute %s: %s\n", argv[0], std::strerror(errno));
      ::_exit(127);
    }
    ::close(fds[1]);
    ::fcntl(fds[0], F_SETFL, O_NONBLOCK);
    if (output_ >= 0) ::close(output_);  // a grandchild of the last run may still hold the other end
    output_ = fds[0], pid_ = pid, started_ = now;
  }

  void retry(Clock::time_point now, const std::string& what) {
    log_line(what + ": " + std::strerror(errno));
    next_start_ = now + std::chrono::seconds(1);
  }

  void log_line(const std::string& text) { log_text("zone-init: " + spec_.name + " " + text + "\n"); }

  // A full disk loses log lines, never the program.
  void log_text(std::string_view text) {
    if (log_fd_ >= 0 && log_size_ > log_limit_bytes) {
      ::close(log_fd_), log_fd_ = -1;
      ::rename(log_path_.c_str(), (log_path_ + ".1").c_str());
    }
    if (log_fd_ < 0) {
      log_fd_ = ::open(log_path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
      struct stat info;
      log_size_ = log_fd_ >= 0 && ::fstat(log_fd_, &info) == 0 ? info.st_size : 0;
    }
    if (log_fd_ < 0) return;
    ssize_t n = ::write(log_fd_, text.data(), text.size());
    if (n > 0) log_size_ += n;
  }

  ZoneProgram spec_;
  std::string log_path_;
  int log_fd_ = -1;
  off_t log_size_ = 0;
  pid_t pid_ = -1;
  int output_ = -1, restarts_ = 0, backoff_ms_ = 0;
  Clock::time_point started_{}, next_start_{}, waiting_since_ = Clock::now();
};

class Init {
 public:
  explicit Init(const ZoneSpec& spec) : status_path_(spec.folder + "/status.json") {
    for (const auto& p : spec.programs) programs_.emplace_back(p, spec.folder + "/log/" + p.name + ".log");
  }

  [[noreturn]] void loop(int signals) {
    for (;;) {
      auto now = Clock::now();
      for (auto& p : programs_) p.start_if_due(now);
      write_status();
      std::vector<pollfd> fds{{signals, POLLIN, 0}};
      for (auto& p : programs_) fds.push_back({p.output(), POLLIN, 0});
      ::poll(fds.data(), fds.size(), timeout_ms(Clock::now()));
      if (fds[0].revents) take_signals(signals);
      for (size_t i = 0; i < programs_.size(); ++i)
        if (fds[i + 1].revents) programs_[i].drain();
      reap();
    }
  }

 private:
  int timeout_ms(Clock::time_point now) const {
    auto wait = std::chrono::milliseconds(60'000);
    for (const auto& p : programs_)
      if (auto due = p.due())
        wait = std::min(
            wait, std::max(std::chrono::milliseconds(0), std::chrono::ceil<std::chrono::milliseconds>(*due - now)));
    return static_cast<int>(wait.count());
  }

  static void take_signals(int signals) {
    signalfd_siginfo info;
    while (::read(signals, &info, sizeof info) == sizeof info)
      if (info.ssi_signo == SIGTERM) ::_exit(0);  // the kernel ends the rest of the zone
  }

  void reap() {
    int status;
    pid_t pid;
    while ((pid = ::waitpid(-1, &status, WNOHANG)) > 0)
      for (auto& p : programs_)
        if (p.pid() == pid) p.ended(status, Clock::now());
  }

  void write_status() {
    boost::json::array list;
    for (const auto& p : programs_)
      list.push_back(boost::json::object{
          {"name", p.spec().name}, {"running", p.pid() > 0}, {"pid", p.pid()}, {"restarts", p.restarts()}});
    auto text = boost::json::serialize(boost::json::object{{"programs", list}});
    if (text == last_status_) return;
    if (io::write_file(status_path_, text + "\n")) last_status_ = text;
  }

  std::vector<Program> programs_;
  std::string status_path_, last_status_;
};

[[noreturn]] void first_process(const ZoneSpec& spec, int go, int report) {
  char byte;
  if (::read(go, &byte, 1) != 1) ::_exit(1);  // the starter died before it wrote our record: nobody would know of us
  ::close(go);
  ::setsid();
  auto view = build_view(spec);
  if (!view) {
    [[maybe_unused]] ssize_t n = ::write(report, view.error().message.data(), view.error().message.size());
    ::_exit(1);
  }
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) files.rlim_cur = files.rlim_max, ::setrlimit(RLIMIT_NOFILE, &files);
  sigset_t wanted;
  sigemptyset(&wanted);
  for (int s : {SIGCHLD, SIGTERM, SIGPIPE, SIGHUP, SIGINT}) sigaddset(&wanted, s);
  ::sigprocmask(SIG_BLOCK, &wanted, nullptr);
  int signals = ::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
  int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd : {0, 1, 2}) ::dup2(null, fd);
  [[maybe_unused]] ssize_t n = ::write(report, "+", 1);
  ::close(report);
  ::prctl(PR_SET_NAME, "zone-init");
  if (::chdir("/") != 0) ::_exit(1);
  Init(spec).loop(signals);
}

Result<void> enter(const ZoneSpec& spec) {
  if (!spec.cgroup.empty())
    if (auto joined = join_cgroup(spec.cgroup + "/system"); !joined) return joined;
  if (!spec.netns.empty()) {
    int fd = ::open(spec.netns.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return system_error("cannot open the network namespace " + spec.netns);
    int entered = ::setns(fd, CLONE_NEWNET);
    ::close(fd);
    if (entered != 0) return system_error("cannot enter the network namespace " + spec.netns);
  }
  if (::unshare(CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC) != 0)
    return system_error("cannot make the zone's namespaces");
  return {};
}

Result<void> start(const ZoneSpec& spec) {
  if (auto made = io::make_folders(spec.folder + "/log"); !made) return made;
  if (auto entered = enter(spec); !entered) return entered;
  int go[2], report[2];
  if (::pipe2(go, O_CLOEXEC) != 0 || ::pipe2(report, O_CLOEXEC) != 0) return system_error("cannot make a pipe");
  pid_t pid = ::fork();
  if (pid < 0) return system_error("cannot start the zone's first process");
  if (pid == 0) {
    ::close(go[1]), ::close(report[0]);
    first_process(spec, go[0], report[1]);
  }
  ::close(go[0]), ::close(report[1]);
  auto recorded = write_record(spec.record, pid);
  if (!recorded) return recorded;  // go[1] closes with this process: the child gives up
  if (::write(go[1], "!", 1) != 1) return system_error("cannot let the zone's first process go");
  pollfd fd{report[0], POLLIN, 0};
  char answer[512];
  ssize_t n = ::poll(&fd, 1, 10'000) > 0 ? ::read(report[0], answer, sizeof answer) : -1;
  if (n == 1 && answer[0] == '+') return {};
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  return fail(ErrorKind::internal, n > 0 ? std::string(answer, static_cast<size_t>(n))
                                         : "the zone's first process did not report within 10 s");
}

}  // namespace

int zone_init_main(const std::string& spec_path) {
  auto text = io::read_file(spec_path);
  auto spec = text ? parse_zone_spec(*text) : Result<ZoneSpec>(std::unexpected(text.error()));
  auto started = spec ? start(*spec) : Result<void>(std::unexpected(spec.error()));
  if (started) return 0;
  ::dprintf(2, "homeostat-lab zone-init: %s\n", started.error().message.c_str());
  return 1;
}

}  // namespace homeostat::lab
