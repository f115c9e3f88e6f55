// What is wrong with a kubeconfig in each common way, and the sentence that it gives; what is right, and what it means.
#include "kube/kubeconfig.hpp"

#include <doctest/doctest.h>
#include <fmt/core.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <filesystem>
#include <fstream>

#include "io/http_server.hpp"
#include "io/jwt.hpp"
#include "io/tls.hpp"
#include "kube/connect.hpp"
#include "tests/test_folder.hpp"

using namespace homeostat;
using namespace homeostat::kube;
namespace fs = std::filesystem;

namespace {

struct Folder : TestFolder {
  std::string write(const std::string& name, const std::string& text, mode_t mode = 0600) const {
    TestFolder::write(name, text);
    fs::permissions(path / name, fs::perms(mode));
    return file(name);
  }
};

// One cluster, one user, one context; the parts are YAML flow maps.
std::string config(const std::string& cluster, const std::string& user, const std::string& current = "ctx") {
  return fmt::format(
      "current-context: {}\nclusters: [{{name: c, cluster: {}}}]\nusers: [{{name: u, user: {}}}]\n"
      "contexts: [{{name: ctx, context: {{cluster: c, user: u, namespace: work}}}}]\n",
      current, cluster, user);
}

const io::KeyPair& test_ca() {
  static const io::KeyPair ca = *io::make_ca("test ca", std::chrono::hours(1));
  return ca;
}

io::SystemClock clock_;
io::SystemRandom random_;

ClientOptions once() {
  ClientOptions options;
  options.attempts = 1;
  options.request_timeout = Duration{3000};
  return options;
}

}  // namespace

TEST_CASE("each common mistake gives one sentence that says what is wrong") {
  const Folder folder;
  const std::string good_cluster = "{server: 'https://127.0.0.1:1'}";
  struct Case {
    const char* what;
    std::string text;
    const char* says;
  };
  const Case cases[] = {
      {"not YAML", "a: [b", "is not valid YAML"},
      {"not a map", "just text", "not a YAML map"},
      {"no current context", "clusters: []\ncontexts: [{name: one, context: {cluster: c}}]\n",
       "no current-context is set; choose one of: one"},
      {"unknown context", config(good_cluster, "{}", "other"), "no context named \"other\"; defined are: ctx"},
      {"unknown cluster", "current-context: x\ncontexts: [{name: x, context: {cluster: nope}}]\n",
       "no cluster named \"nope\"; defined are: none"},
      {"unknown user",
       "current-context: x\nclusters: [{name: c, cluster: {server: 'https://h'}}]\ncontexts: [{name: x, context: "
       "{cluster: c, user: nope}}]\n",
       "no user named \"nope\""},
      {"no server", config("{}", "{}"), "has server \"\"; write https://host:port"},
      {"bad base64", config("{server: 'https://h', certificate-authority-data: '%%%'}", "{}"),
       "certificate-authority-data is not valid base64"},
      {"CA is no certificate", config("{server: 'https://h', certificate-authority-data: 'aGVsbG8='}", "{}"),
       "holds no PEM certificate"},
      {"missing CA file", config("{server: 'https://h', certificate-authority: nowhere.crt}", "{}"),
       "there is no file"},
      {"certificate without key",
       config(good_cluster, "{client-certificate-data: '" + io::base64_encode(test_ca().cert_pem) + "'}"),
       "certificate without its key"},
      {"missing token file", config(good_cluster, "{tokenFile: nowhere}"), "there is no file"},
      {"password", config(good_cluster, "{username: a, password: b}"), "no longer serves"},
      {"old exec version",
       config(good_cluster, "{exec: {command: x, apiVersion: client.authentication.k8s.io/v1alpha1}}"),
       "v1 and v1beta1 are known"},
      {"exec wants a terminal",
       config(good_cluster,
              "{exec: {command: x, apiVersion: client.authentication.k8s.io/v1, interactiveMode: Always}}"),
       "nobody can type here"},
  };
  for (const auto& [what, text, says] : cases) {
    CAPTURE(what);
    const auto loaded = load_kubeconfig({.paths = {folder.write("config", text)}});
    REQUIRE_FALSE(loaded.has_value());
    CHECK_MESSAGE(loaded.error().message.find(says) != std::string::npos, loaded.error().message);
    CHECK(loaded.error().message.find('\n') == std::string::npos);
  }
  const auto missing = load_kubeconfig({.paths = {(folder.path / "nowhere").string()}});
  REQUIRE_FALSE(missing.has_value());
  CHECK(missing.error().kind == ErrorKind::not_found);
  CHECK(missing.error().message.find("there is no kubeconfig at") != std::string::npos);
}

TEST_CASE("relative paths start at the file, data comes before files, the first file to define a name wins") {
  const Folder folder;
  fs::create_directory(folder.path / "sub");
  folder.write("sub/ca.crt", test_ca().cert_pem);
  folder.write("sub/token", "from-file\n");
  const auto first = folder.write("sub/config", config("{server: 'https://first:6443/', certificate-authority: ca.crt, "
                                                       "tls-server-name: other, proxy-url: 'http://p:1'}",
                                                       "{tokenFile: token, as: someone, as-groups: [g]}"));
  const auto second = folder.write("second", config("{server: 'https://second'}", "{token: no}") + "preferences: {}\n");
  const auto loaded = load_kubeconfig({.paths = {(folder.path / "missing").string(), first, second}});
  REQUIRE_MESSAGE(loaded.has_value(), (loaded ? "" : loaded.error().message));
  CHECK(loaded->server == "https://first:6443");
  CHECK(loaded->tls.ca_pem == test_ca().cert_pem);
  CHECK(loaded->tls.server_name == "other");
  CHECK(loaded->tls.proxy_url == "http://p:1");
  CHECK(loaded->ns == "work");
  CHECK(loaded->impersonate_user == "someone");
  CHECK(loaded->impersonate_groups == std::vector<std::string>{"g"});
  CHECK(loaded->credentials->current(Duration{0}, {})->bearer_token == "from-file");
}

TEST_CASE("a token file is read again after a minute, and at once after a 401") {
  const Folder folder;
  const auto path = folder.write("token", "one");
  const auto source = token_file(path);
  CHECK(source->current(Duration{0}, {})->bearer_token == "one");
  folder.write("token", "two");
  CHECK(source->current(Duration{30'000}, {})->bearer_token == "one");
  CHECK(source->current(Duration{60'000}, {})->bearer_token == "two");
  folder.write("token", "three");
  source->drop();
  CHECK(source->current(Duration{60'001}, {})->bearer_token == "three");
}

TEST_CASE("an exec plugin is told its protocol, run once until its answer expires, and again after a 401") {
  const Folder folder;
  folder.write(
      "plugin",
      "#!/bin/sh\nprintf x >> \"$COUNT\"\ncase \"$KUBERNETES_EXEC_INFO\" in *ExecCredential*) ;; *) exit 9;; esac\n"
      "echo "
      "'{\"apiVersion\":\"client.authentication.k8s.io/"
      "v1\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"t\",\"expirationTimestamp\":\"1970-01-01T01:00:00Z\"}}'"
      "\n",
      0700);
  const auto count = (folder.path / "count").string();
  const auto path = folder.write(
      "config",
      config("{server: 'https://h'}",
             "{exec: {command: ./plugin, apiVersion: client.authentication.k8s.io/v1, env: [{name: COUNT, value: '" +
                 count + "'}]}}"));
  const auto loaded = load_kubeconfig({.paths = {path}});
  REQUIRE(loaded.has_value());
  const auto runs = [&] { return fs::exists(count) ? fs::file_size(count) : 0; };
  CHECK(loaded->credentials->current(Duration{0}, TimePoint{std::chrono::minutes(1)})->bearer_token == "t");
  CHECK(loaded->credentials->current(Duration{0}, TimePoint{std::chrono::minutes(2)})->bearer_token == "t");
  CHECK(runs() == 1);
  loaded->credentials->drop();
  CHECK(loaded->credentials->current(Duration{0}, TimePoint{std::chrono::minutes(2)}).has_value());
  CHECK(loaded->credentials->current(Duration{0}, TimePoint{std::chrono::minutes(70)}).has_value());
  CHECK(runs() == 3);
}

TEST_CASE("an exec plugin that is missing, fails or talks nonsense is named") {
  const Folder folder;
  const auto run = [&](const std::string& script) {
    if (!script.empty()) folder.write("plugin", "#!/bin/sh\n" + script, 0700);
    return exec_plugin({.command = (folder.path / "plugin").string(),
                        .api_version = "client.authentication.k8s.io/v1",
                        .install_hint = "install it with care"})
        ->current(Duration{0}, {});
  };
  CHECK(run("").error().message.find("install it with care") != std::string::npos);
  CHECK(run("echo broken >&2; exit 3\n").error().message.find("exit code 3: broken") != std::string::npos);
  CHECK(run("echo nonsense\n").error().message.find("not valid JSON") != std::string::npos);
  CHECK(run("echo '{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"status\":{}}'\n")
            .error()
            .message.find("neither a token nor") != std::string::npos);
}

TEST_CASE("an unreachable server, a wrong CA and an expired token each say what to look at") {
  const Folder folder;
  const auto get = [](ClusterConfig cluster) {
    return make_client(std::move(cluster), nullptr, clock_, random_, once())->get(resources::pods, "a", "b");
  };
  const auto nobody = load_kubeconfig(
      {.paths = {folder.write("config", config("{server: 'https://127.0.0.1:1'}", "{token: secret-token}"))}});
  const auto unreachable = get(*nobody);
  CHECK(unreachable.error().kind == ErrorKind::unreachable);
  CHECK(unreachable.error().message.find("is the server running?") != std::string::npos);

  const auto cert = *io::issue(
      test_ca(), {.common_name = "server", .ips = {"127.0.0.1"}, .server = true, .validity = std::chrono::hours(1)});
  int calls = 0;
  auto server = io::HttpServer::start(
      {.cert_pem = cert.cert_pem, .key_pem = cert.key_pem}, [&](const io::ServerRequest& request) {
        ++calls;
        const bool good = request.header("authorization") == "Bearer fresh";
        io::ServerResponse response;
        response.status = good ? 200 : 401;
        response.body =
            good ? "{}" : R"({"kind":"Status","code":401,"reason":"Unauthorized","message":"Unauthorized"})";
        return response;
      });
  REQUIRE(server.has_value());
  const std::string url = fmt::format("https://127.0.0.1:{}", (*server)->port());
  const auto other_ca = *io::make_ca("other", std::chrono::hours(1));
  const auto wrong = get({.server = url, .tls = {.ca_pem = other_ca.cert_pem}});
  CHECK(wrong.error().kind == ErrorKind::invalid);
  CHECK(wrong.error().message.find("not trusted") != std::string::npos);
  const auto expired =
      get({.server = url, .tls = {.ca_pem = test_ca().cert_pem}, .credentials = static_token("secret-token")});
  CHECK(expired.error().kind == ErrorKind::unauthorized);
  CHECK(expired.error().message.find("expired: renew them") != std::string::npos);
  CHECK(expired.error().message.find("secret-token") == std::string::npos);

  // The file has a newer token than the one in memory: one 401, then the answer.
  const auto path = folder.write("token", "stale");
  auto rotating = token_file(path);
  REQUIRE(rotating->current(clock_.monotonic(), clock_.now()).has_value());
  folder.write("token", "fresh");
  calls = 0;
  auto options = once();
  options.attempts = 2;
  const auto renewed = make_client({.server = url, .tls = {.ca_pem = test_ca().cert_pem}, .credentials = rotating},
                                   nullptr, clock_, random_, options)
                           ->get(resources::pods, "a", "b");
  CHECK(renewed.has_value());
  CHECK(calls == 2);
}

TEST_CASE("in a pod: the service account's files; outside: a clear no") {
  const Folder folder;
  folder.write("ca.crt", test_ca().cert_pem);
  folder.write("token", "pod-token");
  folder.write("namespace", "here\n");
  unsetenv("KUBERNETES_SERVICE_HOST");
  CHECK(load_in_cluster(folder.path.string()).error().kind == ErrorKind::not_found);
  setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1", 1);
  setenv("KUBERNETES_SERVICE_PORT", "443", 1);
  const auto loaded = load_in_cluster(folder.path.string());
  unsetenv("KUBERNETES_SERVICE_HOST");
  unsetenv("KUBERNETES_SERVICE_PORT");
  REQUIRE(loaded.has_value());
  CHECK(loaded->server == "https://10.0.0.1:443");
  CHECK(loaded->ns == "here");
  CHECK(loaded->credentials->current(Duration{0}, {})->bearer_token == "pod-token");
}
