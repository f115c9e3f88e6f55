#include "io/kmsg.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

namespace homeostat::io {

namespace {

constexpr size_t max_record_bytes = size_t{16} * 1024;  // the kernel's own bound is 8 KiB
constexpr Duration stop_slice{100};                     // how long a wait may overlook a stop
constexpr Duration blind_slice{10};                     // between looks at a file that cannot be watched

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) : fd_(fd) {}
  ~FileDescriptor() { reset(); }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }
  void reset(int fd = -1) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

 private:
  int fd_;
};

std::string reason() { return std::strerror(errno); }

Duration monotonic() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return Duration(now.tv_sec * 1000 + now.tv_nsec / 1'000'000);
}

class DeviceReader final : public KmsgReader {
 public:
  DeviceReader(int fd, std::string path) : fd_(fd), path_(std::move(path)), buffer_(max_record_bytes) {}
  bool is_device() const override { return true; }

  Result<KmsgBatch> read(Duration max_wait, std::stop_token stop) override {
    KmsgBatch batch;
    const auto deadline = monotonic() + max_wait;
    while (!stop.stop_requested()) {
      while (batch.records.size() < max_kmsg_batch) {
        const ssize_t count = ::read(fd_.get(), buffer_.data(), buffer_.size());
        if (count > 0) {
          std::string_view record(buffer_.data(), static_cast<size_t>(count));
          batch.records.emplace_back(record.substr(0, record.find('\n')));
          continue;
        }
        if (count < 0 && errno == EPIPE) {
          batch.overrun = true;
          continue;
        }
        if (count < 0 && (errno == EINTR || errno == EINVAL)) continue;
        if (count < 0 && errno != EAGAIN)
          return fail(ErrorKind::internal, "Reading " + path_ + " failed: " + reason() + ".");
        break;
      }
      const auto left = deadline - monotonic();
      if (!batch.records.empty() || batch.overrun || left <= Duration(0)) break;
      pollfd poll_fd{fd_.get(), POLLIN, 0};
      ::poll(&poll_fd, 1, static_cast<int>(std::min(left, stop_slice).count()));
    }
    return batch;
  }

 private:
  FileDescriptor fd_;
  std::string path_;
  std::vector<char> buffer_;
};

class FileReader final : public KmsgReader {
 public:
  FileReader(int fd, std::string path)
      : fd_(fd),
        path_(std::move(path)),
        inotify_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)),
        chunk_(size_t{64} * 1024) {
    watch();
  }
  bool is_device() const override { return false; }

  Result<KmsgBatch> read(Duration max_wait, std::stop_token stop) override {
    KmsgBatch batch;
    const auto deadline = monotonic() + max_wait;
    while (!stop.stop_requested()) {
      if (auto done = take(batch); !done) return std::unexpected(done.error());
      const auto left = deadline - monotonic();
      if (!batch.records.empty() || left <= Duration(0)) break;
      wait(left);
      follow_replacement();
    }
    return batch;
  }

 private:
  void watch() {
    watched_ = inotify_.get() >= 0 &&
               ::inotify_add_watch(inotify_.get(), path_.c_str(), IN_MODIFY | IN_MOVE_SELF | IN_DELETE_SELF) >= 0;
  }

  void wait(Duration left) {
    if (!watched_) {
      ::poll(nullptr, 0, static_cast<int>(std::min(left, blind_slice).count()));
      return;
    }
    pollfd poll_fd{inotify_.get(), POLLIN, 0};
    if (::poll(&poll_fd, 1, static_cast<int>(std::min(left, stop_slice).count())) > 0)
      while (::read(inotify_.get(), chunk_.data(), chunk_.size()) > 0) {
      }
  }

  // A file that was replaced or cut is read from its start: the sequence numbers tell what is new.
  void follow_replacement() {
    struct stat named{}, open_one{};
    if (::stat(path_.c_str(), &named) != 0 || ::fstat(fd_.get(), &open_one) != 0) return;
    const bool replaced = named.st_ino != open_one.st_ino || named.st_dev != open_one.st_dev;
    if (!replaced && open_one.st_size >= offset_) return;
    const int fd = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    fd_.reset(fd);
    offset_ = 0;
    partial_.clear();
    watch();
  }

  Result<void> take(KmsgBatch& batch) {
    while (batch.records.size() < max_kmsg_batch) {
      if (pending_.empty()) {
        const ssize_t count = ::pread(fd_.get(), chunk_.data(), chunk_.size(), offset_);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return fail(ErrorKind::internal, "Reading " + path_ + " failed: " + reason() + ".");
        if (count == 0) return {};
        offset_ += count;
        taken_.assign(chunk_.data(), static_cast<size_t>(count));
        pending_ = taken_;
      }
      const auto end = pending_.find('\n');
      const auto piece = pending_.substr(0, end);
      partial_.append(piece.substr(0, max_record_bytes - std::min(partial_.size(), max_record_bytes)));
      pending_.remove_prefix(end == std::string_view::npos ? pending_.size() : end + 1);
      if (end == std::string_view::npos) continue;
      if (!partial_.empty()) batch.records.push_back(std::move(partial_));
      partial_.clear();
    }
    return {};
  }

  FileDescriptor fd_;
  std::string path_;
  FileDescriptor inotify_;
  bool watched_ = false;
  off_t offset_ = 0;
  std::vector<char> chunk_;
  std::string taken_;         // the chunk that is being cut into records
  std::string_view pending_;  // what is left of it
  std::string partial_;       // a record whose end has not come yet
};

}  // namespace

Result<std::unique_ptr<KmsgReader>> open_kmsg(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) {
    const bool denied = errno == EACCES || errno == EPERM;
    return fail(
        denied ? ErrorKind::forbidden : ErrorKind::not_found,
        "The kernel log " + path + " cannot be opened: " + reason() + ". " +
            (denied ? "Run as root with CAP_SYSLOG." : "Name it with --kmsg; in a pod, mount it from the host."));
  }
  struct stat info{};
  if (::fstat(fd, &info) != 0 || S_ISDIR(info.st_mode)) {
    ::close(fd);
    return fail(ErrorKind::invalid,
                "The kernel log " + path + " is not a file or device. Name the right one with --kmsg.");
  }
  if (S_ISREG(info.st_mode)) return std::make_unique<FileReader>(fd, path);
  return std::make_unique<DeviceReader>(fd, path);
}

}  // namespace homeostat::io
