// SPDX-License-Identifier: Apache-2.0
// Server to which the traced processes of one recording send their counts.

#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/epoch_profile.h"
#include "base/host/procfs.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "profiler/sources/exact/truth_assembler.h"
#include "profiler/sources/exact/truth_decoder.h"

namespace tmprof::exact {

// Not thread-safe.
class TruthServer {
 public:
  // A socket that only this user can connect to, in a folder of its own under $TMPDIR or /tmp.
  static Result<TruthServer> Listen(const ProcFs& procfs);
  TruthServer(TruthServer&&) noexcept;
  TruthServer& operator=(TruthServer&&) = delete;
  ~TruthServer();  // closes all connections and removes the socket

  const std::filesystem::path& socket() const { return socket_; }
  std::vector<int> PollFds() const;

  // Takes what has arrived. A connection that sends what no plugin does is closed, with a
  // complaint.
  void Service(MonotonicTime now);
  // The faults of connections since the last call.
  std::vector<Error> TakeComplaints() { return std::exchange(complaints_, {}); }

  // The epochs that no process can add to any more, ascending: none that is connected, or is about
  // to be anew. One that is silent (a stopped process) is waited for `patience`; what it sends
  // later joins a later epoch.
  std::vector<EpochProfile> TakeEpochs(MonotonicTime now, std::chrono::nanoseconds patience);
  // All that has been sent, whoever may still be connected.
  std::vector<EpochProfile> TakeRest();

  // True if a process may send more: it is connected, or about to be anew, as after exec(2).
  bool MayHearMore() const { return !connections_.empty() || !closed_.empty(); }
  bool AnyEverConnected() const { return accepted_ > 0; }

 private:
  struct Connection {
    UniqueFd fd;
    std::size_t stream = 0;
    TruthDecoder decoder;
    std::optional<std::uint64_t> last_index;  // index of its latest epoch
    MonotonicTime open_since;                 // the end of the last of them, or its beginning
    MonotonicTime last_heard;
    bool recognised = false;  // known to be the successor of one in closed_, or of none
    bool left = false;        // for a program that is not followed
    // Each target's mappings that were ever accessed.
    std::map<std::uint32_t, std::vector<Mapping>> layouts;
  };

  TruthServer(const ProcFs& procfs, std::filesystem::path folder, UniqueFd listener);
  bool Accept(MonotonicTime now);  // false: nobody has connected
  void ReceiveAll(MonotonicTime now);
  // False when it is to be closed.
  bool Receive(Connection& connection, MonotonicTime now);
  void TakeFrom(Connection& connection);
  void AddMappings(Connection& connection, TruthEpoch& epoch);
  void Close(Connection connection, MonotonicTime now);
  void Recognise(Connection& connection);
  bool Lives(const Connection& connection) const;
  // Forgets those of closed_ whose process has gone.
  void Settle(MonotonicTime now);
  void AddOpenEpoch(Connection& connection, MonotonicTime now);
  EpochProfile BuildOne();

  const ProcFs* procfs_;
  std::filesystem::path folder_;
  std::filesystem::path socket_;
  UniqueFd listener_;
  std::vector<Connection> connections_;
  std::vector<Connection> closed_;  // their processes may connect anew
  std::size_t accepted_ = 0;
  std::optional<std::uint64_t> highest_index_;  // index of the latest epoch of any connection
  TruthAssembler assembler_;
  std::vector<Error> complaints_;
  std::vector<char> buffer_;
  std::chrono::nanoseconds own_cpu_{0};
};

}  // namespace tmprof::exact
