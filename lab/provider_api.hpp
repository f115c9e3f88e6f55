// The local provider's API: requests to answers, over a MachineBook. No sockets here, and no machines: what has to be
// done is handed to `Work`. docs/developers/contracts.md says what callers may rely on.
#pragma once

#include <functional>
#include <string>

#include "core/time.hpp"
#include "io/http_server.hpp"
#include "lab/machine_book.hpp"

namespace homeostat::lab {

class ProviderApi {
 public:
  struct Work {
    std::function<void(const Machine&)> make;           // returns at once; the machine follows
    std::function<Result<void>(const Machine&)> fence;  // returns once the machine's processes are dead
    std::function<void(const Machine&)> clean_up;       // returns at once; the rest of the machine goes
    std::function<TimePoint()> now;
    std::function<std::string()> no_room;  // why no machine can be made now; "": one can
    std::function<bool()> stopping;
  };

  ProviderApi(MachineBook& book, std::string token, Work work)
      : book_(book), token_(std::move(token)), work_(std::move(work)) {}

  io::ServerResponse handle(const io::ServerRequest& request);

 private:
  io::ServerResponse create(const io::ServerRequest& request);
  io::ServerResponse remove(std::string_view name);
  MachineBook& book_;
  std::string token_;
  Work work_;
};

}  // namespace homeostat::lab
