#include "cli/bring_up.hpp"

#include <doctest/doctest.h>

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>

#include "cli/commands.hpp"
#include "cli/manifests.hpp"
#include "io/json.hpp"

using namespace homeostat;

namespace {
std::vector<kube::Object> parse(std::string_view yaml) {
  auto objects = cli::parse_manifests(yaml, "test");
  REQUIRE(objects);
  return *objects;
}
}  // namespace

TEST_CASE("the image's id goes on pod templates, and on nothing else") {
  auto objects = parse(
      "{kind: Deployment, apiVersion: apps/v1, spec: {template: {metadata: {labels: {a: b}}}}}\n---\n{kind: Namespace, "
      "apiVersion: v1}");
  cli::tailor_images(objects, "sha256:12");
  CHECK(io::string_at(objects[0], {"spec", "template", "metadata", "annotations", "homeostat.dev/image-id"}) ==
        "sha256:12");
  CHECK(io::string_at(objects[0], {"spec", "template", "metadata", "labels", "a"}) == "b");
  CHECK(io::find(objects[1], {"spec"}) == nullptr);
}

TEST_CASE("the lab's policy lets machines be broken on purpose; the rest of it stays") {
  auto objects = parse("{kind: HealthPolicy, spec: {breaker: {maxNodes: 3, quiet_s: 60}}}\n---\n{kind: NodePool}");
  cli::tailor_policy(objects);
  CHECK(io::int_at(objects[0], {"spec", "breaker", "maxNodes"}) == 1000);
  CHECK(io::int_at(objects[0], {"spec", "breaker", "quiet_s"}) == 60);
  CHECK(io::find(objects[1], {"spec"}) == nullptr);
}

TEST_CASE("the login key joins the keys that are there") {
  auto objects =
      parse("{kind: SlurmCluster, spec: {login: {authorizedKeys: [ssh-ed25519 AAAA me]}}}\n---\n{kind: NodePool}");
  cli::add_login_key(objects, "ssh-ed25519 BBBB homeostat");
  const auto& keys = io::array_at(objects[0], {"spec", "login", "authorizedKeys"});
  REQUIRE(keys.size() == 2);
  CHECK(keys[1].as_string() == "ssh-ed25519 BBBB homeostat");
  CHECK(io::find(objects[1], {"spec"}) == nullptr);
}

TEST_CASE("a repair is told as a story: fault, phases and steps with times since the fault, jobs") {
  const auto repair = io::parse_json_object(R"({
    "metadata": {"name": "rep-1"},
    "spec": {"nodeName": "gpu-a", "pool": "gpu", "fault": {"component": "gpu-xid", "code": "79", "device": "0000:17:00", "severity": "fatal",
             "evidence": "NVRM: Xid 79", "observedAt": "2026-11-30T07:00:00.000Z"}},
    "status": {"phase": "Stopping", "message": "waiting for processes",
               "phases": [{"phase": "Observed", "enteredAt": "2026-11-30T07:00:00.100Z"}, {"phase": "Stopping", "enteredAt": "2026-11-30T07:00:00.300Z"}],
               "steps": [{"name": "slurm_down", "intentAt": "2026-11-30T07:00:00.300Z", "finishedAt": "2026-11-30T07:00:00.400Z", "outcome": "ok"},
                         {"name": "cordon", "intentAt": "2026-11-30T07:00:01.000Z"}],
               "jobs": [{"id": 7, "name": "train", "user": "researcher", "requeueable": false}]}})");
  REQUIRE(repair);
  const auto story = cli::describe_repair(*repair);
  CHECK(story.find("Repair rep-1 of node gpu-a (pool gpu)\n  fault    gpu-xid 79 on 0000:17:00 (fatal)\n  evidence "
                   "NVRM: Xid 79\n") == 0);
  CHECK(story.find("phase    Stopping: waiting for processes") != std::string::npos);
  CHECK(story.find("    +0.1s  Observed\n") != std::string::npos);
  CHECK(story.find("    +0.3s        +0.4s  slurm_down\n") != std::string::npos);
  CHECK(story.find("    +1.0s not finished  cordon\n") != std::string::npos);
  CHECK(story.find("7 train of researcher (Slurm never requeues it)") != std::string::npos);
}
