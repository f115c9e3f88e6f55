#include "agent/classify_stream.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "core/fault/classify.hpp"

namespace homeostat::agent {

namespace {

constexpr size_t chunk_bytes = 1 << 16;

Result<void> write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0)
      return fail(ErrorKind::internal, std::string("The rows could not be written: ") + std::strerror(errno));
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

// Gathers lines from chunks; keeps at most max_line_bytes of each.
class LineSplitter {
 public:
  template <class OnLine>
  void feed(std::string_view chunk, OnLine on_line) {
    while (!chunk.empty()) {
      const auto end = chunk.find('\n');
      const auto piece = chunk.substr(0, end);
      if (end == std::string_view::npos) {
        keep(piece);
        pending_ = true;
        return;
      }
      if (pending_) {
        keep(piece);
        on_line(std::string_view(partial_));
        partial_.clear();
        pending_ = false;
      } else {
        on_line(piece);
      }
      chunk.remove_prefix(end + 1);
    }
  }
  template <class OnLine>
  void finish(OnLine on_line) {
    if (pending_) on_line(std::string_view(partial_));
  }

 private:
  void keep(std::string_view piece) {
    partial_.append(piece.substr(0, fault::max_line_bytes - std::min(partial_.size(), fault::max_line_bytes)));
  }

  std::string partial_;
  bool pending_ = false;
};

}  // namespace

Result<void> classify_stream(int in_fd, int out_fd) {
  fault::Classifier classifier;
  LineSplitter splitter;
  std::vector<char> chunk(chunk_bytes);
  std::string out;
  const auto on_line = [&](std::string_view line) {
    fault::append_row(out, classifier(fault::parse_kernel_line(line)));
    out += '\n';
  };
  while (true) {
    const ssize_t count = ::read(in_fd, chunk.data(), chunk.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      return fail(ErrorKind::internal, std::string("The standard input could not be read: ") + std::strerror(errno));
    if (count == 0)
      splitter.finish(on_line);
    else
      splitter.feed(std::string_view(chunk.data(), static_cast<size_t>(count)), on_line);
    // Rows leave with every chunk, so that a pipe from `dmesg --follow` shows each line at once.
    if (auto done = write_all(out_fd, out); !done) return done;
    out.clear();
    if (count == 0) return {};
  }
}

}  // namespace homeostat::agent
