// The few things that we do with whole files, each with an Error that names the path. Used by one process at a time
// per file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"

namespace homeostat::io {

// Refuses files larger than max_bytes. not_found when there is none.
Result<std::string> read_file(const std::string& path, size_t max_bytes = 16u << 20);

// The first max_bytes of a file that may be longer, such as one that still grows.
Result<std::string> read_head(const std::string& path, size_t max_bytes);

// Whole or not at all: written beside it, then renamed over it. mode is exact, whatever the umask. With sync, it also
// survives a power cut.
Result<void> write_file(const std::string& path, std::string_view text, unsigned mode = 0644, bool sync = false);

Result<void> append_file(const std::string& path, std::string_view text);
Result<void> make_folders(const std::string& path, unsigned mode = 0755);  // existing ones keep their mode
bool exists(const std::string& path);                                      // follows symbolic links
std::vector<std::string> list_folder(const std::string& path);             // sorted names; empty when there is none
Result<void> remove_tree(const std::string& path);                         // never follows links; absent is success
long long free_bytes(const std::string& path);  // of the file system under the nearest existing parent; -1: unknown

}  // namespace homeostat::io
