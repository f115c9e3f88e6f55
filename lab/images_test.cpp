#include "lab/images.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include "io/files.hpp"
#include "lab/progress.hpp"
#include "tests/test_folder.hpp"

using namespace homeostat;
using namespace homeostat::lab;

TEST_CASE("the list of images is read, wrong ones are refused") {
  auto images = parse_images(
      R"([{"name":"localhost/b:1","file":"b.tar","id":"sha256:2"},{"name":"localhost/a:1","file":"a.tar","id":"sha256:1"}])");
  REQUIRE(images);
  CHECK((*images)[0].name == "localhost/a:1");  // sorted: the order in the file does not matter
  for (const char* bad :
       {"", "{}", "[1]", R"([{"name":"a","file":"a.tar"}])", R"([{"name":"a","file":"../x","id":"i"}])"}) {
    CAPTURE(bad);
    auto refused = parse_images(bad);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().message.find("scripts/build-images") != std::string::npos);
  }
  CHECK(read_images("/nowhere").error().kind == ErrorKind::not_found);
}

//  template/root                              clone
//    io...bolt/meta.db      (file)     ──>      a copy
//    ...snapshots/1         (folder)   ──>      a link to the template's
//    ...snapshots/2 -> base (link)     ──>      the same link: never a chain
//    ...blobs/sha256/x      (file)     ──>      a link to the template's
TEST_CASE("a clone copies databases and links layers and blobs") {
  TestFolder own;
  auto folder = own.path.string();
  auto from = folder + "/root", to = folder + "/clone";
  std::string snapshots = "/io.containerd.snapshotter.v1.overlayfs/snapshots",
              blobs = "/io.containerd.content.v1.content/blobs/sha256";
  REQUIRE(io::make_folders(from + snapshots + "/1/fs"));
  REQUIRE(io::make_folders(from + blobs));
  REQUIRE(io::make_folders(from + "/io.containerd.metadata.v1.bolt"));
  REQUIRE(io::make_folders(folder + "/base/2/fs"));
  REQUIRE(io::write_file(from + snapshots + "/1/fs/file", "layer"));
  REQUIRE(io::write_file(from + blobs + "/x", "blob"));
  REQUIRE(io::write_file(from + "/io.containerd.metadata.v1.bolt/meta.db", "database"));
  REQUIRE(::symlink((folder + "/base/2").c_str(), (from + snapshots + "/2").c_str()) == 0);

  REQUIRE(clone_root(from, to));
  char target[4096];
  auto link = [&target](const std::string& path) {
    auto size = ::readlink(path.c_str(), target, sizeof target);
    return std::string(target, static_cast<size_t>(size < 0 ? 0 : size));
  };
  CHECK(link(to + snapshots + "/1") == from + snapshots + "/1");
  CHECK(link(to + snapshots + "/2") == folder + "/base/2");
  CHECK(link(to + blobs + "/x") == from + blobs + "/x");
  CHECK(link(to + "/io.containerd.metadata.v1.bolt/meta.db").empty());
  REQUIRE(io::write_file(to + "/io.containerd.metadata.v1.bolt/meta.db", "changed"));
  CHECK(*io::read_file(from + "/io.containerd.metadata.v1.bolt/meta.db") == "database");
  CHECK(io::remove_tree(to));  // removes links, never what they lead to
  CHECK(*io::read_file(from + snapshots + "/1/fs/file") == "layer");
}

TEST_CASE("pruning keeps what the images need, and half-made folders for the builder to judge") {
  TestFolder folder;
  LabConfig config;
  config.cache = folder.path;
  std::vector<Image> images{{"localhost/a:1", "a.tar", "sha256:1", 1}};
  REQUIRE(io::make_folders(config.cache + "/templates/0123456789abcdef/root"));
  REQUIRE(io::make_folders(config.cache + "/templates/unfinished"));
  prune_templates(config, images);
  CHECK_FALSE(io::exists(config.cache + "/templates/0123456789abcdef"));
  CHECK(io::exists(config.cache + "/templates/unfinished"));
}

TEST_CASE("progress is told once, in the order of the steps") {
  ProgressReport before{{{"network", "done"}, {"images", "running"}, {"machine"}}, false, ""};
  auto after = before;
  after.steps[1].detail = "importing x";
  CHECK(news(before, after) == std::vector<std::string>{"images: importing x"});
  after.steps[1] = {"images", "done"};
  after.steps[2].state = "running";
  CHECK(news(before, after) == std::vector<std::string>{"images: done (2 of 3)", "machine: running"});
  CHECK(news(after, after).empty());
  auto read = parse_progress(to_json(after));
  REQUIRE(read);
  CHECK(to_json(*read) == to_json(after));
  CHECK_FALSE(parse_progress("{"));
}
