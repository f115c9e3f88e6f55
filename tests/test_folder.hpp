// For tests: a folder of their own below the system's temporary folder, empty at first, removed with all in it at the
// end. Where none can be made the constructor throws, which doctest shows as that test's failure.
#pragma once

#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace homeostat {

class TestFolder {
 public:
  TestFolder() : path(make()) {}
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  std::string file(const std::string& name) const { return (path / name).string(); }
  void write(const std::string& name, const std::string& text) const { std::ofstream(path / name) << text; }

  const std::filesystem::path path;

 private:
  static std::filesystem::path make() {
    std::string name = (std::filesystem::temp_directory_path() / "homeostat-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::system_error(errno, std::generic_category(), "mkdtemp " + name);
    return name;
  }
};

}  // namespace homeostat
