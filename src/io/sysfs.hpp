// Bounded reading of small kernel files (sysfs, procfs) below a folder that is passed in, so that tests and the lab can
// lay a tree of their own. Every file that cannot be had has a named reason; nothing is read past a limit. A read can
// hang in the driver: O_NONBLOCK does not help there, so the path being read can be asked for from another thread.
// One thread at a time, but for NowReading::text().
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace homeostat::io {

struct SysRoots {
  std::string sys = "/sys";
  std::string proc = "/proc";
};

enum class SysFault {
  none,
  missing,  // no such file or device (any more)
  denied,   // no permission
  failed,   // the driver or the kernel gave an error
  empty,    // nothing in it
  huge,     // longer than the limit
  garbled,  // not what belongs there
};

std::string_view to_string(SysFault fault);              // "missing", …
std::string trouble_of(const char* file, SysFault why);  // "its file state is missing": the end of a sentence
SysFault fault_of_errno(int error);

// Text of one file, without the newline at its end. It lives in the tree's buffer until the next read.
struct SysText {
  std::string_view text;
  SysFault fault = SysFault::none;
  int error = 0;  // errno behind `fault`, when there is one
  explicit operator bool() const { return fault == SysFault::none; }
};

// What a thread is reading at this moment.
class NowReading {
 public:
  void begin(std::string_view folder, std::string_view name);
  void end();
  std::string text() const;  // "" when nothing is being read; any thread

 private:
  mutable std::mutex mutex_;  // never held over a system call on the files
  std::array<char, 320> path_{};
  size_t length_ = 0;
};

// An open folder; files below it are named by a path relative to it.
class SysFolder {
 public:
  SysFolder() = default;
  SysFolder(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  SysFolder(SysFolder&& other) noexcept : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {}
  SysFolder& operator=(SysFolder&& other) noexcept;
  ~SysFolder();

  explicit operator bool() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  const std::string& path() const { return path_; }

 private:
  int fd_ = -1;
  std::string path_;
};

class SysTree {
 public:
  static constexpr size_t page = 4096;         // what the kernel gives for one attribute at most
  static constexpr size_t max_entries = 4096;  // of one folder

  explicit SysTree(std::string root) : root_(std::move(root)) {}

  const std::string& root() const { return root_; }
  // Below the root; no folder when it is not there. `why` says why not.
  SysFolder open(std::string_view path, SysFault* why = nullptr);
  SysFolder open(const SysFolder& folder, const char* path, SysFault* why = nullptr);
  // Names in the folder, sorted, without those that begin with a dot.
  std::vector<std::string> list(const SysFolder& folder);
  SysText read(const SysFolder& folder, const char* name);
  // For the few files that are longer than a page.
  SysText read_long(const SysFolder& folder, const char* name, size_t limit);
  std::optional<std::uint64_t> number(const SysFolder& folder, const char* name, SysFault* why = nullptr);
  std::string link(const SysFolder& folder, const char* name);  // where a symbolic link points; "" when it is none
  bool exists(const SysFolder& folder, const char* name);

  const std::shared_ptr<NowReading>& now_reading() const { return now_; }

 private:
  SysText read_into(const SysFolder& folder, const char* name, size_t limit);

  std::string root_;
  std::string buffer_;
  std::shared_ptr<NowReading> now_ = std::make_shared<NowReading>();
};

// "0000:41:00.1" out of "../../../0000:41:00.1"; "" when the last part is no PCI address.
std::string pci_address_of(std::string_view path);
// The function that owns what a path of /sys/devices leads to: the last PCI address in it; "" for none, and for what
// hangs on a USB controller.
std::string last_pci_address_in(std::string_view path);
bool is_pci_address(std::string_view text);
// "0x" hexadecimal or decimal; nothing else before or behind it but blanks.
std::optional<std::uint64_t> parse_number(std::string_view text);
std::string_view trimmed(std::string_view text);

}  // namespace homeostat::io
