// Image templates: containerd roots into which the images were imported once. A machine's root is cloned from one in
// milliseconds: databases are copied, layers and blobs are symbolic links into the template, which is never written
// again. Big images (hundreds of megabytes) form a template of their own, so that a changed small one is imported in
// about a second.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "lab/config.hpp"

namespace homeostat::lab {

struct Image {
  std::string name;  // localhost/x:tag
  std::string file;  // docker-archive
  std::string id;    // sha256:... of its content
  long long bytes = 0;
};

// Reads images.json of the folder that scripts/build-images makes.
Result<std::vector<Image>> read_images(const std::string& folder);
Result<std::vector<Image>> parse_images(std::string_view json_text);  // file names as written, sizes zero

// The template that holds exactly these images, building what is missing. say() hears a line for each slow step.
Result<std::string> ensure_template(const LabConfig& config, const std::vector<Image>& images,
                                    const std::function<void(const std::string&)>& say);

// `to` must not exist. Afterwards containerd can use it as its root.
Result<void> clone_root(const std::string& from, const std::string& to);

// Removes templates that these images do not need. Only for when no lab is up: machines live on their templates.
void prune_templates(const LabConfig& config, const std::vector<Image>& images);

// Ends what a killed build left running and removes half-made templates.
void clear_template_builds(const LabConfig& config);

}  // namespace homeostat::lab
