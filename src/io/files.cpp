#include "io/files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

namespace homeostat::io {
namespace fs = std::filesystem;
namespace {

std::unexpected<Error> system_error(std::string_view what, const std::string& path) {
  int code = errno;
  auto kind = code == ENOENT ? ErrorKind::not_found : ErrorKind::internal;
  std::string hint =
      code == ENOSPC ? ": the disk is full; free some space there" : std::string(": ") + std::strerror(code);
  return fail(kind, std::string("cannot ") + std::string(what) + " " + path + hint);
}

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    text.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

}  // namespace

Result<std::string> read_head(const std::string& path, size_t max_bytes) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return system_error("read", path);
  std::string text;
  char buffer[65536];
  ssize_t n = 1;
  while (text.size() < max_bytes && n != 0) {
    n = ::read(fd, buffer, std::min(sizeof buffer, max_bytes - text.size()));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) break;
    text.append(buffer, static_cast<size_t>(n));
  }
  auto error = n < 0 ? std::optional(system_error("read", path)) : std::nullopt;
  ::close(fd);
  if (error) return *error;
  return text;
}

Result<std::string> read_file(const std::string& path, size_t max_bytes) {
  auto text = read_head(path, max_bytes + 1);
  if (text && text->size() > max_bytes)
    return fail(ErrorKind::invalid, path + " is larger than " + std::to_string(max_bytes) + " bytes");
  return text;
}

Result<void> write_file(const std::string& path, std::string_view text, unsigned mode, bool sync) {
  std::string temporary = path + ".new-" + std::to_string(::getpid()) + "-" + std::to_string(::gettid());
  int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return system_error("write", path);
  bool good = write_all(fd, text) && ::fchmod(fd, mode) == 0 && (!sync || ::fsync(fd) == 0);
  auto error = good ? std::nullopt : std::optional(system_error("write", path));
  ::close(fd);
  if (!error && ::rename(temporary.c_str(), path.c_str()) != 0) error = system_error("replace", path);
  if (!error) return {};
  ::unlink(temporary.c_str());
  return *error;
}

Result<void> append_file(const std::string& path, std::string_view text) {
  int fd = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return system_error("append to", path);
  auto error = write_all(fd, text) ? std::nullopt : std::optional(system_error("append to", path));
  ::close(fd);
  if (error) return *error;
  return {};
}

Result<void> make_folders(const std::string& path, unsigned mode) {
  if (exists(path)) return {};
  auto parent = fs::path(path).parent_path().string();
  if (!parent.empty() && parent != path)
    if (auto made = make_folders(parent, mode); !made) return made;
  if (::mkdir(path.c_str(), mode) != 0 && errno != EEXIST) return system_error("make the folder", path);
  return {};
}

bool exists(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0;
}

std::vector<std::string> list_folder(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error))
    names.push_back(it->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

Result<void> remove_tree(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) return fail(ErrorKind::internal, "cannot remove " + path + ": " + error.message());
  return {};
}

long long free_bytes(const std::string& path) {
  fs::path place = path;
  while (!place.empty() && place != place.parent_path() && !exists(place.string())) place = place.parent_path();
  struct statvfs info;
  if (::statvfs(place.c_str(), &info) != 0) return -1;
  return static_cast<long long>(info.f_bavail) * static_cast<long long>(info.f_frsize);
}

}  // namespace homeostat::io
