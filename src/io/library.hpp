// A shared library that is loaded while the program runs (NVML, amdsmi), and its functions by name. It stays loaded
// until the process ends: a thread that hangs in the driver may still be inside it.
#pragma once

#include <dlfcn.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace homeostat::io {

// Another way to find a function of the library than dlsym, which can hide one. null: dlsym.
using SymbolLookup = std::function<void*(void* library, const char* name)>;

class SymbolFinder {
 public:
  SymbolFinder(void* library, const SymbolLookup& lookup) : library_(library), lookup_(lookup) {}

  template <class Function>
  bool operator()(const char* name, Function& into) {
    void* symbol = lookup_ ? lookup_(library_, name) : ::dlsym(library_, name);
    into = reinterpret_cast<Function>(symbol);
    return symbol != nullptr;
  }
  template <class Function>
  void optional(const char* name, Function& into) {
    if (!(*this)(name, into)) lacking_.emplace_back(name);
  }
  // Optional functions that this library does not have.
  std::vector<std::string> take_lacking() { return std::move(lacking_); }

 private:
  void* library_;
  const SymbolLookup& lookup_;
  std::vector<std::string> lacking_;
};

// null: it cannot be loaded; `why` has the loader's word for it.
inline void* open_library(const char* path, std::string& why) {
  void* library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* said = ::dlerror();
    why = said != nullptr ? said : "unknown reason";
  }
  return library;
}

}  // namespace homeostat::io
