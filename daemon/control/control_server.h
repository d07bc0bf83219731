// SPDX-License-Identifier: Apache-2.0
// Answers operators over the control socket (control_client.h has the protocol).

#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/trace_info.h"
#include "daemon/control/daemon_status.h"
#include "daemon/control/hot_list.h"

namespace tmprof {

// Each returns when it is in force, or why it is not. They are called one at a time, by a thread of
// the server's that does nothing else: one that waits holds up the next, and no "status".
struct ControlHandlers {
  std::function<Status()> pause;
  std::function<Status()> resume;
  // All of these, none named twice, or none of them.
  std::function<Status(const std::vector<Setting>&)> set;
  // Returns the spans that are ranked best, at most so many.
  std::function<Result<HotList>(std::size_t most)> hot;
  // Sees to it that the daemon ends, and returns before it does.
  std::function<Status()> stop;
};

struct ControlLimits {
  // Beyond these, the one that has been idle for longest makes room for the next.
  std::size_t most_clients = 16;
  // For a client to send a whole request, and again to take its answer.
  std::chrono::milliseconds patience{5000};
};

class ControlServer {
 public:
  // Serves the socket at `path`, which only the daemon's user (mode 0600) and root may use. Makes
  // the folder that it is in, replaces the socket of a daemon that has died, and refuses that of
  // one that lives. `path`.lock keeps two daemons from starting there at a time, and stays behind.
  // All handlers are given. `board` must outlive the server.
  static Result<std::unique_ptr<ControlServer>> Start(std::string path, const StatusBoard& board,
                                                      ControlHandlers handlers,
                                                      ControlLimits limits = {});
  // Waits for the handler that runs, sends the answers that are there, and removes the socket.
  ~ControlServer();
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

 private:
  class Loop;
  explicit ControlServer(std::unique_ptr<Loop> loop);

  std::unique_ptr<Loop> loop_;
};

}  // namespace tmprof
