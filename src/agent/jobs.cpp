#include "agent/jobs.hpp"

#include <dirent.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <string_view>

namespace homeostat::agent {

namespace {

constexpr size_t max_folders = 512, max_depth = 8, max_jobs = 64;
constexpr std::string_view job_folder = "job_";

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

bool is_job(std::string_view name) {
  return name.size() > job_folder.size() && name.size() < 24 && name.starts_with(job_folder) &&
         name.find_first_not_of("0123456789", job_folder.size()) == std::string_view::npos;
}

}  // namespace

std::vector<std::string> jobs_under(const std::string& cgroups) {
  std::vector<std::string> jobs;
  std::deque<std::pair<std::string, size_t>> waiting{{cgroups, 0}};
  for (size_t looked_at = 0; !waiting.empty() && looked_at < max_folders; ++looked_at) {
    const auto [path, depth] = std::move(waiting.front());
    waiting.pop_front();
    const std::unique_ptr<DIR, CloseFolder> folder(::opendir(path.c_str()));
    if (!folder) continue;
    while (const auto* entry = ::readdir(folder.get())) {
      const std::string_view name = entry->d_name;
      if (entry->d_type != DT_DIR || name.starts_with('.')) continue;
      if (is_job(name)) {
        if (jobs.size() < max_jobs) jobs.emplace_back(name.substr(job_folder.size()));
      } else if (depth + 1 < max_depth && waiting.size() < max_folders) {
        waiting.emplace_back(std::string(path).append("/").append(name), depth + 1);
      }
    }
  }
  std::sort(jobs.begin(), jobs.end());
  jobs.erase(std::unique(jobs.begin(), jobs.end()), jobs.end());
  return jobs;
}

}  // namespace homeostat::agent
