#include "lab/zones.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <thread>

#include "io/files.hpp"
#include "io/process.hpp"

namespace homeostat::lab {
namespace json = boost::json;
namespace {

constexpr const char* cgroup_root = "/sys/fs/cgroup";

constexpr const char* inotify_setting = "/proc/sys/fs/inotify/max_user_instances";
constexpr const char* inotify_before = "/run/homeostat-lab/max_user_instances";
constexpr int inotify_instances = 8192;

bool unified() { return io::exists(std::string(cgroup_root) + "/cgroup.controllers"); }

// The mounted v1 hierarchies, or the one of v2.
std::vector<std::string> hierarchies() {
  if (unified()) return {cgroup_root};
  std::vector<std::string> found;
  for (const auto& name : io::list_folder(cgroup_root)) {
    auto place = std::string(cgroup_root) + "/" + name;
    struct stat info;
    bool link = ::lstat(place.c_str(), &info) == 0 && S_ISLNK(info.st_mode);  // cpu -> cpu,cpuacct
    if (!link && io::exists(place + "/cgroup.procs") && !io::exists(place + "/cgroup.controllers"))
      found.push_back(place);
  }
  return found;
}

Result<void> write_existing(const std::string& path, std::string_view text) {
  int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  bool good = fd >= 0 && ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  auto error = good ? std::string() : std::string(std::strerror(errno));
  if (fd >= 0) ::close(fd);
  if (!good) return fail(ErrorKind::internal, "cannot write to " + path + ": " + error);
  return {};
}

// A new v1 cpuset is empty and takes no process until it has what its parent has.
Result<void> inherit_cpuset(const std::string& parent, const std::string& folder) {
  for (const char* key : {"/cpuset.cpus", "/cpuset.mems"}) {
    if (!io::exists(folder + key)) continue;
    auto value = io::read_file(parent + key);
    if (!value) return std::unexpected(value.error());
    if (auto own = io::read_file(folder + key); own && own->size() > 1) continue;
    if (auto written = write_existing(folder + key, *value); !written) return written;
  }
  return {};
}

// v2: controllers are handed down one by one; one that this kernel lacks is no error.
void hand_down_controllers(const std::string& folder) {
  for (const char* controller : {"+cpu", "+cpuset", "+memory", "+pids", "+io", "+hugetlb"})
    (void)write_existing(folder + "/cgroup.subtree_control", controller);
}

// Deepest first, as cgroups must go. Those that are still busy stay.
bool remove_folders(const std::string& folder) {
  bool all = true;
  for (const auto& name : io::list_folder(folder)) {
    struct stat info;
    auto below = folder;
    below.append("/").append(name);
    if (::lstat(below.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) all = remove_folders(below) && all;
  }
  return (::rmdir(folder.c_str()) == 0 || errno == ENOENT) && all;
}

std::optional<std::string> stat_line(pid_t pid) {
  auto text = io::read_file("/proc/" + std::to_string(pid) + "/stat");
  return text ? std::optional(*text) : std::nullopt;
}

bool zombie(std::string_view stat) {
  auto end = stat.rfind(')');
  return end != std::string_view::npos && end + 2 < stat.size() && (stat[end + 2] == 'Z' || stat[end + 2] == 'X');
}

}  // namespace

std::optional<unsigned long long> parse_start_time(std::string_view line) {
  auto at = line.rfind(')');  // the end of field 2
  if (at == std::string_view::npos) return std::nullopt;
  line.remove_prefix(at + 1);
  for (int field = 2; field < 22; ++field) {
    auto blank = line.find(' ', field == 2 ? 0 : 1);
    if (blank == std::string_view::npos) return std::nullopt;
    line.remove_prefix(blank);
  }
  line.remove_prefix(1);
  unsigned long long value = 0;
  auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
  if (error != std::errc{} || end == line.data()) return std::nullopt;
  return value;
}

Result<void> write_record(const std::string& path, pid_t pid) {
  auto stat = stat_line(pid);
  auto start = stat ? parse_start_time(*stat) : std::nullopt;
  if (!start) return fail(ErrorKind::internal, "cannot read when process " + std::to_string(pid) + " started");
  return io::write_file(path, json::serialize(json::object{{"pid", pid}, {"startTime", *start}}) + "\n");
}

std::optional<ZoneRecord> read_record(const std::string& path) {
  auto text = io::read_file(path);
  if (!text) return std::nullopt;
  boost::system::error_code error;
  auto parsed = json::parse(*text, error);
  if (error || !parsed.is_object()) return std::nullopt;
  auto* pid = parsed.get_object().if_contains("pid");
  auto* start = parsed.get_object().if_contains("startTime");
  if (pid == nullptr || start == nullptr || !pid->is_int64() || !start->is_number()) return std::nullopt;
  return ZoneRecord{static_cast<pid_t>(pid->get_int64()), start->to_number<unsigned long long>(error)};
}

bool alive(const ZoneRecord& record) {
  auto stat = record.pid > 0 ? stat_line(record.pid) : std::nullopt;
  return stat && !zombie(*stat) && parse_start_time(*stat) == record.start_time;
}

Result<void> start_zone(const std::string& program, const ZoneSpec& spec) {
  auto spec_path = spec.folder + "/zone.json";
  if (auto made = io::make_folders(spec.folder); !made) return made;
  if (auto made = io::make_folders(spec.record.substr(0, spec.record.rfind('/'))); !made) return made;
  if (auto written = io::write_file(spec_path, to_json(spec)); !written) return written;
  auto result = io::run({program, "zone-init", spec_path}, {.timeout = Duration(20'000)});
  if (!result) return std::unexpected(result.error());
  if (result->status.ok()) return {};
  auto message = result->err;
  while (!message.empty() && message.back() == '\n') message.pop_back();
  return fail(ErrorKind::internal, "the zone " + spec.name + " did not start: " + message);
}

Result<void> kill_zone(const std::string& record_path, Duration timeout) {
  auto record = read_record(record_path);
  if (record && alive(*record)) {
    int fd = static_cast<int>(::syscall(SYS_pidfd_open, record->pid, 0));
    // Between alive() and here the pid may have been reused: the pidfd pins it, so look once more.
    if (fd >= 0 && alive(*record)) {
      ::syscall(SYS_pidfd_send_signal, fd, SIGKILL, nullptr, 0);
      pollfd ended{fd, POLLIN, 0};  // readable once the whole PID namespace is empty
      int ready = ::poll(&ended, 1, static_cast<int>(timeout.count()));
      ::close(fd);
      if (ready <= 0)
        return fail(ErrorKind::timeout, "process " + std::to_string(record->pid) + " of " + record_path +
                                            " did not end within " + format_duration(timeout));
    } else if (fd >= 0) {
      ::close(fd);
    }
  }
  ::unlink(record_path.c_str());
  return {};
}

Result<void> make_netns(const std::string& path) {
  if (auto made = io::make_folders("/run/netns"); !made) return made;
  remove_netns(path);
  if (auto made = io::write_file(path, "", 0444); !made) return made;
  std::string error;
  // unshare changes the calling thread only; the file keeps the namespace once the thread has gone.
  std::thread maker([&] {
    auto own = "/proc/self/task/" + std::to_string(::gettid()) + "/ns/net";
    if (::unshare(CLONE_NEWNET) != 0 || ::mount(own.c_str(), path.c_str(), "none", MS_BIND, nullptr) != 0)
      error = std::strerror(errno);
  });
  maker.join();
  if (error.empty()) return {};
  ::unlink(path.c_str());
  return fail(ErrorKind::internal, "cannot make the network namespace " + path + ": " + error);
}

void remove_netns(const std::string& path) {
  ::umount2(path.c_str(), MNT_DETACH);
  ::unlink(path.c_str());
}

Result<void> make_cgroup(const std::string& path) {
  bool v2 = unified();
  for (const auto& hierarchy : hierarchies()) {
    std::string folder = hierarchy;
    size_t at = 0;
    while (at < path.size()) {
      auto next = path.find('/', at + 1);
      auto parent = folder;
      folder += path.substr(at, next - at);
      at = next == std::string::npos ? path.size() : next;
      if (v2) hand_down_controllers(parent);
      if (::mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST)
        return fail(ErrorKind::internal, "cannot make the cgroup " + folder + ": " + std::strerror(errno));
      if (auto copied = inherit_cpuset(parent, folder); !copied) return copied;
    }
  }
  return {};
}

Result<void> join_cgroup(const std::string& path) {
  for (const auto& hierarchy : hierarchies())
    if (auto joined = write_existing(hierarchy + path + "/cgroup.procs", std::to_string(::getpid())); !joined)
      return joined;
  return {};
}

std::vector<std::string> cgroup_places(const std::string& path) {
  std::vector<std::string> found;
  auto all = hierarchies();
  if (!unified()) all.push_back(std::string(cgroup_root) + "/unified");  // hybrid: runc may have made one there too
  for (const auto& hierarchy : all)
    if (io::exists(hierarchy + path)) found.push_back(hierarchy + path);
  return found;
}

void remove_cgroup(const std::string& path) {
  for (int tries = 0; tries < 100; ++tries) {
    bool all = true;
    for (const auto& place : cgroup_places(path)) all = remove_folders(place) && all;
    if (all) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

Result<void> allow_inotify() {
  auto now = io::read_file(inotify_setting);
  if (!now) return {};  // a kernel without the setting has no limit to raise
  int value = 0;
  std::from_chars(now->data(), now->data() + now->size(), value);
  if (value >= inotify_instances) return {};
  if (!io::exists(inotify_before)) {
    if (auto made = io::make_folders("/run/homeostat-lab"); !made) return made;
    if (auto kept = io::write_file(inotify_before, *now); !kept) return kept;
  }
  return write_existing(inotify_setting, std::to_string(inotify_instances));
}

void restore_inotify() {
  if (auto before = io::read_file(inotify_before)) (void)write_existing(inotify_setting, *before);
  ::unlink(inotify_before);
  ::rmdir("/run/homeostat-lab");
}

std::vector<pid_t> processes_in_netns(const std::string& path) {
  std::vector<pid_t> found;
  struct stat wanted, own;
  if (::stat(path.c_str(), &wanted) != 0) return found;
  for (const auto& name : io::list_folder("/proc")) {
    pid_t pid = 0;
    auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error != std::errc{} || end != name.data() + name.size()) continue;
    if (::stat(("/proc/" + name + "/ns/net").c_str(), &own) != 0 || own.st_ino != wanted.st_ino ||
        own.st_dev != wanted.st_dev)
      continue;
    if (auto stat = stat_line(pid); stat && !zombie(*stat)) found.push_back(pid);
  }
  return found;
}

}  // namespace homeostat::lab
