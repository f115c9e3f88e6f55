// Follows a kernel log: /dev/kmsg itself (one record per read, EPIPE when records were overwritten), or a regular file
// of the same records, one per line, that somebody appends to. Reads on from the very first record that is still there;
// whoever uses it skips what it knows by sequence number. One thread at a time; memory is bounded.
#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "core/result.hpp"
#include "core/time.hpp"

namespace homeostat::io {

struct KmsgBatch {
  std::vector<std::string> records;  // at most max_kmsg_batch, each without its newline
  bool overrun = false;              // records between the last batch and this one were lost
};

inline constexpr size_t max_kmsg_batch = 256;

class KmsgReader {
 public:
  virtual ~KmsgReader() = default;
  // True for the kernel's own log: its records are stamped with the machine's own clock.
  virtual bool is_device() const = 0;
  // What is there at once, else waits up to max_wait for more. Empty after max_wait or when stop is requested.
  virtual Result<KmsgBatch> read(Duration max_wait, std::stop_token stop) = 0;
};

Result<std::unique_ptr<KmsgReader>> open_kmsg(const std::string& path);

}  // namespace homeostat::io
