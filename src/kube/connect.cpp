// The clients' usual connection. Apart from rest_client.cpp, so that a program that brings its own transport does not
// link libcurl.
#include "kube/connect.hpp"

namespace homeostat::kube {

ClientFactory make_client_factory(ClusterConfig config, TransportMaker transport, io::Clock& clock, io::Random& random,
                                  ClientOptions options) {
  if (!transport) transport = [](const io::TlsOptions& tls) { return io::make_curl_transport(tls); };
  return make_client_factory_over(std::move(transport), std::move(config), clock, random, std::move(options));
}

std::unique_ptr<Client> make_client(ClusterConfig config, TransportMaker transport, io::Clock& clock,
                                    io::Random& random, ClientOptions options) {
  return make_client_factory(std::move(config), std::move(transport), clock, random, std::move(options))();
}

}  // namespace homeostat::kube
