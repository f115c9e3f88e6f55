// Where the conformance suite runs: against the fake, or against a real API server with an admin's kubeconfig.
// Everything it makes lies in one namespace of its own (and one throwaway kind), which is removed at the end.
#pragma once

#include <boost/json.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "io/json.hpp"
#include "kube/client.hpp"
#include "kube/connect.hpp"
#include "kube/fake_api_server.hpp"
#include "kube/meta.hpp"

namespace conformance {

using namespace homeostat;
using namespace homeostat::kube;

class World {
 public:
  static World& get();
  static std::string kubeconfig_path();  // of a real server; "": the fake is used

  bool is_real() const { return fake == nullptr; }
  std::unique_ptr<Client> client(std::string user_agent = "conformance/1");
  ClientFactory factory(std::string user_agent = "conformance/1");

  io::SystemClock clock;
  io::SystemRandom random;
  std::unique_ptr<FakeApiServer> fake;  // null: a real server
  std::string ns;
  Resource widgets{"conformance.homeostat.dev", "v1", "widgets", "Widget",
                   true};  // has a status subresource and a list-map

  ~World();

 private:
  World();
  void prepare();
  ClusterConfig config_;
};

std::string fresh_name(std::string_view prefix);
Object config_map(std::string_view name, boost::json::object data);
Object widget(std::string_view name, boost::json::object spec);

// Waits up to 10 s for something that another thread or the server brings about.
bool eventually(const std::function<bool()>& holds,
                std::chrono::milliseconds bound = std::chrono::milliseconds(10'000));

// The value of a Result that must be one; the test fails with the error's sentence otherwise.
template <class T>
T must(Result<T> result);

}  // namespace conformance

#include <doctest/doctest.h>

namespace conformance {
template <class T>
std::string kind_text(const Result<T>& result) {
  if (result) return "success";
  return std::string(to_string(result.error().kind));
}
}  // namespace conformance

template <class T>
T conformance::must(Result<T> result) {
  REQUIRE_MESSAGE(result.has_value(), (result ? std::string() : result.error().message));
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

// Checks that a Result is an error of this kind; shows what it was otherwise.
#define CHECK_KIND(result, expected) CHECK(conformance::kind_text(result) == to_string(expected))
