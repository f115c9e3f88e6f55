#include "lab/images.hpp"

#include <fcntl.h>
#include <openssl/sha.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <filesystem>
#include <thread>

#include "io/files.hpp"
#include "io/process.hpp"
#include "lab/zones.hpp"

namespace homeostat::lab {
namespace fs = std::filesystem;
namespace json = boost::json;
namespace {

constexpr long long big_image_bytes = 200ll << 20;
constexpr int format = 1;  // part of every key: a change of the template's layout makes old ones void

std::string key_of(const std::vector<Image>& images) {
  std::string text = "format " + std::to_string(format) + "\n";
  for (const auto& image : images) text += image.name + " " + image.id + "\n";
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
  std::string hex;
  for (int i = 0; i < 8; ++i) hex += "0123456789abcdef"[digest[i] >> 4], hex += "0123456789abcdef"[digest[i] & 15];
  return hex;
}

std::string templates(const LabConfig& config) { return config.cache + "/templates"; }
std::string builder_record(const LabConfig& config) { return templates(config) + "/builder.json"; }

std::string builder_config(const std::string& folder) {
  return "version = 2\nroot = \"" + folder +
         "/root\"\nstate = \"/run/containerd\"\n"
         "disabled_plugins = [\"io.containerd.grpc.v1.cri\", \"io.containerd.internal.v1.opt\", "
         "\"io.containerd.snapshotter.v1.btrfs\", "
         "\"io.containerd.snapshotter.v1.devmapper\", \"io.containerd.snapshotter.v1.zfs\", "
         "\"io.containerd.snapshotter.v1.aufs\"]\n"
         "[grpc]\n  address = \"" +
         folder + "/containerd.sock\"\n";
}

Result<void> import_images(const LabConfig& config, const std::string& folder, const std::vector<Image>& images,
                           const std::function<void(const std::string&)>& say) {
  if (auto written = io::write_file(folder + "/containerd.toml", builder_config(folder)); !written) return written;
  ZoneSpec spec;
  spec.name = "template-builder";
  spec.record = builder_record(config);
  spec.folder = folder;
  spec.mounts = {
      {ZoneMount::Kind::tmpfs, "", "/run", false}};  // mounts and state of the import stay in the zone and go with it
  spec.programs = {{"containerd", {"/usr/bin/containerd", "--config", folder + "/containerd.toml"}}};
  if (auto started = start_zone(config.program, spec); !started) return started;
  auto socket = folder + "/containerd.sock";
  Result<void> result;
  for (int tries = 0; tries < 200 && !io::run_ok({"ctr", "--address", socket, "version"}, {.timeout = Duration(2'000)});
       ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  for (const auto& image : images) {
    say("importing the image " + image.name + " (" + std::to_string(image.bytes >> 20) + " MiB)");
    auto done = io::run_ok({"ctr", "--address", socket, "-n", "k8s.io", "images", "import", image.file},
                           {.timeout = Duration(600'000)});
    if (!done) result = std::unexpected(done.error());
    if (!done) break;
  }
  // Its databases are transactional (bolt), so that killing it loses nothing that an import has finished.
  auto killed = kill_zone(builder_record(config));
  return !result ? result : killed;
}

Result<std::string> build_template(const LabConfig& config, const std::vector<Image>& base,
                                   const std::vector<Image>& added,
                                   const std::function<void(const std::string&)>& say) {
  std::vector<Image> all = base;
  all.insert(all.end(), added.begin(), added.end());
  auto target = templates(config) + "/" + key_of(all);
  if (io::exists(target + "/root")) return target;
  if (added.empty()) return fail(ErrorKind::not_found, "no template " + target);
  std::string under;
  if (!base.empty()) {
    auto built = build_template(config, {}, base, say);
    if (!built) return built;
    under = *built;
  }
  auto work = target + ".building";
  if (auto removed = io::remove_tree(work); !removed) return std::unexpected(removed.error());
  if (auto made = io::make_folders(work); !made) return std::unexpected(made.error());
  if (!under.empty()) {
    if (auto cloned = clone_root(under + "/root", work + "/root"); !cloned) return std::unexpected(cloned.error());
    if (auto written = io::write_file(work + "/base", under + "\n"); !written) return std::unexpected(written.error());
  }
  if (auto imported = import_images(config, work, added, say); !imported) return std::unexpected(imported.error());
  if (::rename(work.c_str(), target.c_str()) != 0)
    return fail(ErrorKind::internal, "cannot rename " + work + " to " + target);
  return target;
}

// Labs of other state folders share the templates: one builder at a time, and the second finds the first one's result.
// Closing the descriptor unlocks.
Result<int> lock_templates(const LabConfig& config) {
  if (auto made = io::make_folders(templates(config)); !made) return std::unexpected(made.error());
  int lock = ::open((templates(config) + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock >= 0 && ::flock(lock, LOCK_EX) == 0) return lock;
  if (lock >= 0) ::close(lock);
  return fail(ErrorKind::internal, "cannot lock " + templates(config));
}

std::pair<std::vector<Image>, std::vector<Image>> by_size(const std::vector<Image>& images) {
  std::pair<std::vector<Image>, std::vector<Image>> big_and_small;
  for (const auto& image : images)
    (image.bytes >= big_image_bytes ? big_and_small.first : big_and_small.second).push_back(image);
  return big_and_small;
}

// What may be linked: a whole layer or a blob. Both are written once, under a name that never gets other content.
bool linkable(const fs::path& relative) {
  auto parent = relative.parent_path().string();
  return parent == "io.containerd.snapshotter.v1.overlayfs/snapshots" ||
         parent.starts_with("io.containerd.content.v1.content/blobs/sha");
}

}  // namespace

Result<std::vector<Image>> parse_images(std::string_view text) {
  boost::system::error_code error;
  auto parsed = json::parse(text, error);
  if (error || !parsed.is_array())
    return fail(ErrorKind::invalid, "the list of images is not a JSON array; build it again with scripts/build-images");
  std::vector<Image> images;
  for (const auto& item : parsed.get_array()) {
    auto* object = item.if_object();
    auto field = [object](const char* key) {
      auto* value = object != nullptr ? object->if_contains(key) : nullptr;
      return value != nullptr && value->is_string() ? std::string(value->get_string()) : std::string();
    };
    Image image{field("name"), field("file"), field("id")};
    if (image.name.empty() || image.id.empty() || image.file.empty() || image.file.find('/') != std::string::npos)
      return fail(
          ErrorKind::invalid,
          "an entry of the list of images lacks its name, file or id; build it again with scripts/build-images");
    images.push_back(std::move(image));
  }
  std::sort(images.begin(), images.end(), [](const Image& a, const Image& b) { return a.name < b.name; });
  return images;
}

Result<std::vector<Image>> read_images(const std::string& folder) {
  auto text = io::read_file(folder + "/images.json");
  if (!text)
    return fail(ErrorKind::not_found, "there are no images in " + folder + "; build them with scripts/build-images");
  auto images = parse_images(*text);
  if (!images) return images;
  for (auto& image : *images) {
    image.file = folder + "/" + image.file;
    struct stat info;
    if (::stat(image.file.c_str(), &info) != 0)
      return fail(ErrorKind::not_found,
                  "the image " + image.file + " is missing; build it again with scripts/build-images");
    image.bytes = info.st_size;
  }
  return images;
}

Result<std::string> ensure_template(const LabConfig& config, const std::vector<Image>& images,
                                    const std::function<void(const std::string&)>& say) {
  auto lock = lock_templates(config);
  if (!lock) return std::unexpected(lock.error());
  auto [big, small] = by_size(images);
  clear_template_builds(config);
  auto built = small.empty() ? build_template(config, {}, big, say) : build_template(config, big, small, say);
  ::close(*lock);
  return built;
}

void prune_templates(const LabConfig& config, const std::vector<Image>& images) {
  auto lock = lock_templates(config);
  if (!lock) return;
  auto [big, small] = by_size(images);
  auto all = big;
  all.insert(all.end(), small.begin(), small.end());
  for (const auto& name : io::list_folder(templates(config)))
    if (name != key_of(all) && name != key_of(big) && io::exists(templates(config) + "/" + name + "/root"))
      (void)io::remove_tree(templates(config) + "/" + name);
  ::close(*lock);
}

Result<void> clone_root(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::create_directories(to, error);
  for (fs::recursive_directory_iterator it(from, error), end; !error && it != end; it.increment(error)) {
    auto relative = it->path().lexically_relative(from);
    auto target = fs::path(to) / relative;
    if (linkable(relative)) {
      // A link of a template to its base is copied, so that links never chain.
      auto source = it->is_symlink() ? fs::read_symlink(it->path(), error) : it->path();
      if (!error) fs::create_symlink(source, target, error);
      it.disable_recursion_pending();
    } else if (it->is_directory() && !it->is_symlink()) {
      struct stat info;
      ::stat(it->path().c_str(), &info);
      ::mkdir(target.c_str(), info.st_mode & 07777);
    } else if (it->is_regular_file()) {
      fs::copy_file(it->path(), target, error);
    }
    if (error) break;
  }
  if (error) return fail(ErrorKind::internal, "cannot clone " + from + " to " + to + ": " + error.message());
  return {};
}

void clear_template_builds(const LabConfig& config) {
  (void)kill_zone(builder_record(config));
  for (const auto& name : io::list_folder(templates(config)))
    if (name.ends_with(".building")) (void)io::remove_tree(templates(config) + "/" + name);
}

}  // namespace homeostat::lab
