// Core decides and nothing else: it may include the standard library and itself, and it may not ask for time, threads
// or files.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

// What core may take from the standard library: no streams, files, threads, sockets or random devices among them.
constexpr std::array allowed_headers = {
    "algorithm",     "array",
    "bit",           "bitset",
    "cctype",        "charconv",
    "chrono",        "climits",
    "cmath",         "compare",
    "concepts",      "cstddef",
    "cstdint",       "cstdio",
    "cstdlib",       "cstring",
    "deque",         "expected",
    "functional",    "iterator",
    "limits",        "map",
    "memory",        "numeric",
    "optional",      "ranges",
    "set",           "span",
    "string",        "string_view",
    "tuple",         "type_traits",
    "unordered_map", "unordered_set",
    "utility",       "variant",
    "vector",        "initializer_list",
};

// The clock is an argument in core; these would read it, or do I/O, behind the caller's back.
constexpr std::array forbidden_words = {"::now()",   "fopen(",    "getenv(",   "rand(",
                                        "sleep_for", "std::cout", "std::cerr", "printf(\""};

struct Violation {
  std::string file;
  std::string line;
};

bool allowed_include(std::string_view line) {
  if (line.starts_with("#include \"")) return line.starts_with("#include \"core/");
  const auto open = line.find('<'), close = line.find('>');
  if (open == std::string_view::npos || close == std::string_view::npos) return false;
  const auto header = line.substr(open + 1, close - open - 1);
  return std::any_of(allowed_headers.begin(), allowed_headers.end(), [&](const char* h) { return header == h; });
}

std::vector<Violation> violations_in(const std::filesystem::path& file) {
  std::vector<Violation> found;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("#include") && !allowed_include(line)) found.push_back({file.string(), line});
    for (const char* word : forbidden_words)
      if (line.find(word) != std::string::npos) found.push_back({file.string(), line});
  }
  return found;
}

bool is_core_source(const std::filesystem::path& path) {
  const auto name = path.filename().string();
  return (name.ends_with(".hpp") || name.ends_with(".cpp")) && !name.ends_with("_test.cpp");
}

}  // namespace

TEST_CASE("core includes only the standard library and itself, and touches no clock and no file") {
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(HOMEOSTAT_SOURCE_DIR "/src/core")) {
    if (!entry.is_regular_file() || !is_core_source(entry.path())) continue;
    ++files;
    for (const auto& violation : violations_in(entry.path())) FAIL_CHECK(violation.file << ": " << violation.line);
  }
  CHECK(files >= 3);
}

TEST_CASE("the check itself refuses what it must") {
  CHECK(allowed_include("#include <vector>"));
  CHECK(allowed_include("#include \"core/time.hpp\""));
  CHECK_FALSE(allowed_include("#include <boost/json.hpp>"));
  CHECK_FALSE(allowed_include("#include <thread>"));
  CHECK_FALSE(allowed_include("#include \"io/http.hpp\""));
  CHECK_FALSE(allowed_include("#include \"kube/client.hpp\""));
}
