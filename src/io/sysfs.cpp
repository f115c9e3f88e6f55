#include "io/sysfs.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

namespace homeostat::io {

namespace {

// Ends "is being read" on every way out.
class Mark {
 public:
  Mark(NowReading& now, std::string_view folder, std::string_view name) : now_(now) { now_.begin(folder, name); }
  ~Mark() { now_.end(); }
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;

 private:
  NowReading& now_;
};

std::string joined(std::string_view folder, std::string_view name) {
  std::string path(folder);
  if (!path.empty() && path.back() != '/') path += '/';
  path += name;
  return path;
}

}  // namespace

std::string trouble_of(const char* file, SysFault why) {
  std::string text = "its file ";
  text += file;
  text += " is ";
  text += to_string(why);
  return text;
}

std::string_view to_string(SysFault fault) {
  switch (fault) {
    case SysFault::none:
      return "readable";
    case SysFault::missing:
      return "missing";
    case SysFault::denied:
      return "not readable for want of permission";
    case SysFault::failed:
      return "not readable: the driver gave an error";
    case SysFault::empty:
      return "empty";
    case SysFault::huge:
      return "longer than it can be";
    case SysFault::garbled:
      return "garbled";
  }
  return "garbled";
}

SysFault fault_of_errno(int error) {
  switch (error) {
    case 0:
      return SysFault::none;
    case ENOENT:
    case ENODEV:
    case ENXIO:
    case ENOTDIR:
      return SysFault::missing;
    case EACCES:
    case EPERM:
      return SysFault::denied;
    default:
      return SysFault::failed;
  }
}

void NowReading::begin(std::string_view folder, std::string_view name) {
  std::lock_guard lock(mutex_);
  length_ = std::min(folder.size(), path_.size());
  std::copy_n(folder.begin(), length_, path_.begin());
  if (length_ > 0 && length_ < path_.size() && !name.empty()) path_[length_++] = '/';
  const auto more = std::min(name.size(), path_.size() - length_);
  std::copy_n(name.begin(), more, path_.begin() + static_cast<std::ptrdiff_t>(length_));
  length_ += more;
}

void NowReading::end() {
  std::lock_guard lock(mutex_);
  length_ = 0;
}

std::string NowReading::text() const {
  std::lock_guard lock(mutex_);
  return {path_.data(), length_};
}

SysFolder& SysFolder::operator=(SysFolder&& other) noexcept {
  if (this == &other) return *this;
  if (fd_ >= 0) ::close(fd_);
  fd_ = std::exchange(other.fd_, -1);
  path_ = std::move(other.path_);
  return *this;
}

SysFolder::~SysFolder() {
  if (fd_ >= 0) ::close(fd_);
}

SysFolder SysTree::open(std::string_view path, SysFault* why) {
  auto full = joined(root_, path);
  const Mark mark(*now_, root_, path);
  const int fd = ::open(full.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (why) *why = fd < 0 ? fault_of_errno(errno) : SysFault::none;
  return fd < 0 ? SysFolder() : SysFolder(fd, std::move(full));
}

SysFolder SysTree::open(const SysFolder& folder, const char* path, SysFault* why) {
  const Mark mark(*now_, folder.path(), path);
  const int fd = ::openat(folder.fd(), path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (why) *why = fd < 0 ? fault_of_errno(errno) : SysFault::none;
  return fd < 0 ? SysFolder() : SysFolder(fd, joined(folder.path(), path));
}

std::vector<std::string> SysTree::list(const SysFolder& folder) {
  std::vector<std::string> names;
  const Mark mark(*now_, folder.path(), "");
  // A descriptor of its own: reading a folder moves its position.
  const int fd = ::openat(folder.fd(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return names;
  DIR* stream = ::fdopendir(fd);
  if (!stream) {
    ::close(fd);
    return names;
  }
  while (const dirent* entry = ::readdir(stream)) {
    if (entry->d_name[0] == '.') continue;
    names.emplace_back(entry->d_name);
    if (names.size() == max_entries) break;
  }
  ::closedir(stream);
  std::sort(names.begin(), names.end());
  return names;
}

SysText SysTree::read_into(const SysFolder& folder, const char* name, size_t limit) {
  const Mark mark(*now_, folder.path(), name);
  if (!folder) return {{}, SysFault::missing, ENOENT};
  const int fd = ::openat(folder.fd(), name, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {{}, fault_of_errno(errno), errno};
  size_t length = 0;
  int error = 0;
  // One byte more than allowed tells a full file from one that is too long. The buffer grows with what is there: most
  // files are shorter than a page, and the agent's memory is counted.
  while (length <= limit) {
    if (length == buffer_.size() || buffer_.empty())
      buffer_.resize(std::min(limit + 1, std::max(page + 1, 2 * buffer_.size())));
    const auto got = ::read(fd, buffer_.data() + length, std::min(buffer_.size(), limit + 1) - length);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) error = errno;
    if (got <= 0) break;
    length += static_cast<size_t>(got);
  }
  ::close(fd);
  if (error != 0) return {{}, fault_of_errno(error), error};
  if (length > limit) return {{}, SysFault::huge, 0};
  if (length == 0) return {{}, SysFault::empty, 0};
  return {std::string_view(buffer_).substr(0, length), SysFault::none, 0};
}

SysText SysTree::read(const SysFolder& folder, const char* name) {
  auto text = read_into(folder, name, page);
  if (!text) return text;
  text.text = trimmed(text.text);
  if (text.text.empty()) text.fault = SysFault::empty;
  return text;
}

SysText SysTree::read_long(const SysFolder& folder, const char* name, size_t limit) {
  return read_into(folder, name, limit);
}

std::optional<std::uint64_t> SysTree::number(const SysFolder& folder, const char* name, SysFault* why) {
  const auto text = read(folder, name);
  if (why) *why = text.fault;
  if (!text) return std::nullopt;
  const auto value = parse_number(text.text);
  if (why && !value) *why = SysFault::garbled;
  return value;
}

std::string SysTree::link(const SysFolder& folder, const char* name) {
  std::array<char, 1024> target;
  const auto length = ::readlinkat(folder.fd(), name, target.data(), target.size());
  if (length <= 0 || static_cast<size_t>(length) == target.size()) return "";
  return {target.data(), static_cast<size_t>(length)};
}

bool SysTree::exists(const SysFolder& folder, const char* name) {
  return folder && ::faccessat(folder.fd(), name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\0'; };
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  return text;
}

std::optional<std::uint64_t> parse_number(std::string_view text) {
  text = trimmed(text);
  const int base = text.starts_with("0x") ? 16 : 10;
  if (base == 16) text.remove_prefix(2);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool is_pci_address(std::string_view text) {
  // dddd:bb:ss.f, hexadecimal; the domain can be longer (VMD).
  const auto hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); };
  const auto colon = text.find(':');
  if (colon == std::string_view::npos || colon < 4 || colon > 8 || text.size() != colon + 8) return false;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    const bool good = at == colon || at == colon + 3 ? c == ':' : at == colon + 6 ? c == '.' : hex(c);
    if (!good) return false;
  }
  return true;
}

std::string pci_address_of(std::string_view path) {
  const auto name = path.substr(path.rfind('/') + 1);
  return is_pci_address(name) ? std::string(name) : std::string();
}

std::string last_pci_address_in(std::string_view path) {
  std::string_view found;
  while (!path.empty()) {
    const auto slash = path.find('/');
    const auto part = path.substr(0, slash);
    if (part.starts_with("usb")) return "";
    if (is_pci_address(part)) found = part;
    path.remove_prefix(slash == std::string_view::npos ? path.size() : slash + 1);
  }
  return std::string(found);
}

}  // namespace homeostat::io
