// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/exact/truth_server.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <set>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "profiler/recorder.h"
#include "profiler/source_kind.h"

namespace tmprof::exact {
namespace {

constexpr std::size_t kReadBytes = 1 << 20;
constexpr int kBacklog = 128;

// `pages` ascending. Those of `mappings` that hold pages of `epoch` or overlap what was known
// before: the emulator has memory of its own in the same address space, which the program does not
// access.
std::vector<Mapping> Accessed(const std::vector<Mapping>& mappings, const std::vector<Vpn>& pages,
                              const std::vector<Mapping>& before) {
  std::vector<Mapping> kept;
  for (const Mapping& mapping : mappings) {
    const auto page = std::ranges::lower_bound(pages, mapping.range.start);
    const bool holds_page = page != pages.end() && *page < mapping.range.end;
    const bool known = std::ranges::any_of(before, [&](const Mapping& old) {
      return old.range.start < mapping.range.end && mapping.range.start < old.range.end;
    });
    if (holds_page || known) kept.push_back(mapping);
  }
  return kept;
}

}  // namespace

Result<TruthServer> TruthServer::Listen(const ProcFs& procfs) {
  std::error_code error;
  std::filesystem::path base = std::filesystem::temp_directory_path(error);
  if (error) base = "/tmp";
  std::string folder = (base / "tmprof-exact-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr)
    return Fail(Refused("create a folder for a socket in", base.string(), errno));
  UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  TruthServer server(procfs, folder, std::move(listener));
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  const std::string path = server.socket_.string();
  if (path.size() >= sizeof address.sun_path) {
    return Fail(BadInput("create socket", path, "its path is too long for one",
                         "set TMPDIR to a folder with a shorter name"));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  if (!server.listener_ ||
      bind(server.listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) !=
          0 ||
      listen(server.listener_.get(), kBacklog) != 0) {
    return Fail(Refused("create socket", path, errno));
  }
  return server;
}

TruthServer::TruthServer(const ProcFs& procfs, std::filesystem::path folder, UniqueFd listener)
    : procfs_(&procfs),
      folder_(std::move(folder)),
      socket_(folder_ / "socket"),
      listener_(std::move(listener)),
      assembler_(kExactSource),
      buffer_(kReadBytes),
      own_cpu_(OwnCpuTime()) {}

TruthServer::TruthServer(TruthServer&& other) noexcept
    : procfs_(other.procfs_),
      folder_(std::exchange(other.folder_, {})),
      socket_(std::move(other.socket_)),
      listener_(std::move(other.listener_)),
      connections_(std::move(other.connections_)),
      closed_(std::move(other.closed_)),
      accepted_(other.accepted_),
      highest_index_(other.highest_index_),
      assembler_(std::move(other.assembler_)),
      complaints_(std::move(other.complaints_)),
      buffer_(std::move(other.buffer_)),
      own_cpu_(other.own_cpu_) {}

TruthServer::~TruthServer() {
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

std::vector<int> TruthServer::PollFds() const {
  std::vector<int> fds{listener_.get()};
  for (const Connection& connection : connections_) fds.push_back(connection.fd.get());
  return fds;
}

bool TruthServer::Accept(MonotonicTime now) {
  bool any = false;
  while (true) {
    UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd && errno == EINTR) continue;
    if (!fd) return any;
    any = true;
    const std::size_t stream = accepted_++;
    connections_.push_back({.fd = std::move(fd),
                            .stream = stream,
                            .decoder = TruthDecoder(fmt::format("of the exact tracer, {}", stream)),
                            .last_index = std::nullopt,
                            .open_since = now,
                            .last_heard = now,
                            .layouts = {}});
  }
}

void TruthServer::AddMappings(Connection& connection, TruthEpoch& epoch) {
  for (TruthTarget& target : epoch.targets) {
    if (!target.pid) continue;
    std::vector<Mapping>& layout = connection.layouts[target.number];
    // A process that is gone keeps those that it had.
    if (const auto mappings = procfs_->Mappings(*target.pid)) {
      std::vector<Vpn> pages;
      for (const TruthPage& page : epoch.pages) {
        if (page.target == target.number) pages.push_back(page.vpn);
      }
      std::ranges::sort(pages);
      layout = Accessed(*mappings, pages, layout);
    }
    target.mappings = layout;
  }
}

void TruthServer::TakeFrom(Connection& connection) {
  while (auto epoch = connection.decoder.Next()) {
    AddMappings(connection, *epoch);
    connection.last_index = epoch->index;
    connection.open_since = epoch->end;
    connection.left = epoch->processes_not_followed > 0;
    highest_index_ = std::max(highest_index_.value_or(0), epoch->index);
    assembler_.Add(*connection.decoder.origin(), connection.stream, *std::move(epoch));
  }
}

bool TruthServer::Receive(Connection& connection, MonotonicTime now) {
  while (true) {
    const ssize_t got = recv(connection.fd.get(), buffer_.data(), buffer_.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return true;
    if (got <= 0) return false;
    connection.last_heard = now;
    const Status fed =
        connection.decoder.Feed(std::span(buffer_.data(), static_cast<std::size_t>(got)));
    Recognise(connection);
    TakeFrom(connection);
    if (!fed) {
      complaints_.push_back(fed.error());
      AddOpenEpoch(connection, now);
      connection.left = true;
      return false;
    }
    // Its process waits for this close before it ends (exact.c).
    if (connection.decoder.finished()) return false;
  }
}

void TruthServer::ReceiveAll(MonotonicTime now) {
  Accept(now);
  // A process that connects while the others are read may have begun in an epoch that these have
  // ended meanwhile: nobody takes that epoch before the process is known.
  do {
    // They are read in the order in which they were accepted: a process's last one is closed before
    // its next one is read.
    std::vector<Connection> open;
    for (Connection& connection : connections_) {
      if (Receive(connection, now))
        open.push_back(std::move(connection));
      else
        Close(std::move(connection), now);
    }
    connections_ = std::move(open);
  } while (Accept(now));
}

// One that ends without a word was killed, or its program has closed all files: then it connects
// anew, and nothing is lost. One that has ended in order may have executed another program.
void TruthServer::Close(Connection connection, MonotonicTime now) {
  connection.fd.Reset();
  connection.last_heard = now;
  if (!connection.left && !connection.decoder.targets().empty())
    closed_.push_back(std::move(connection));
}

void TruthServer::Recognise(Connection& connection) {
  const auto& targets = connection.decoder.targets();
  if (connection.recognised || targets.empty()) return;
  connection.recognised = true;
  const auto same = [&](const Connection& other) {
    const TruthTarget& mine = targets.begin()->second;
    const TruthTarget& theirs = other.decoder.targets().begin()->second;
    return mine.pid == theirs.pid && mine.start_time_ticks == theirs.start_time_ticks;
  };
  const auto before = std::ranges::find_if(closed_, same);
  if (before == closed_.end()) return;
  if (!before->decoder.finished()) {  // else it runs another program now
    connection.layouts = std::move(before->layouts);
    connection.open_since = before->open_since;
  }
  closed_.erase(before);
}

bool TruthServer::Lives(const Connection& connection) const {
  return std::ranges::any_of(connection.decoder.targets(), [&](const auto& numbered) {
    const TruthTarget& target = numbered.second;
    if (!target.pid) return false;
    const auto stat = procfs_->Stat(*target.pid);
    return stat && stat->alive() &&
           stat->start_time_ticks == target.start_time_ticks.value_or(stat->start_time_ticks);
  });
}

void TruthServer::Settle(MonotonicTime now) {
  std::set<std::size_t> gone;
  for (const Connection& connection : closed_)
    if (!Lives(connection)) gone.insert(connection.stream);
  if (gone.empty()) return;
  ReceiveAll(now);  // they may have connected anew before they went
  std::erase_if(closed_, [&](Connection& connection) {
    if (!gone.contains(connection.stream)) return false;
    if (!connection.decoder.finished()) AddOpenEpoch(connection, now);
    return true;
  });
}

void TruthServer::AddOpenEpoch(Connection& connection, MonotonicTime now) {
  TruthEpoch open{.index = 0, .start = connection.open_since, .end = now};
  const auto& last = connection.last_index ? connection.last_index : highest_index_;
  if (last) open.index = *last + 1;
  for (const auto& [number, target] : connection.decoder.targets()) {
    open.targets.push_back(target);
    open.targets.back().exited = true;
    open.targets.back().mappings = connection.layouts[number];
  }
  if (open.targets.empty()) return;
  assembler_.AddUnended(*connection.decoder.origin(), connection.stream, std::move(open));
}

void TruthServer::Service(MonotonicTime now) {
  ReceiveAll(now);
  Settle(now);
}

EpochProfile TruthServer::BuildOne() {
  const std::chrono::nanoseconds used = OwnCpuTime();
  return assembler_.Build(used - std::exchange(own_cpu_, used));
}

std::vector<EpochProfile> TruthServer::TakeEpochs(MonotonicTime now,
                                                  std::chrono::nanoseconds patience) {
  std::vector<EpochProfile> epochs;
  while (const auto waiting = assembler_.Waiting()) {
    const auto is_awaited = [&](const Connection& connection) {
      // The program that a process executes next begins in the epoch that the last one ended in.
      const bool may_send = !connection.last_index || *connection.last_index < *waiting ||
                            (*connection.last_index == *waiting && connection.decoder.finished());
      return may_send && now - connection.last_heard < patience;
    };
    if (std::ranges::any_of(connections_, is_awaited) || std::ranges::any_of(closed_, is_awaited))
      break;
    epochs.push_back(BuildOne());
  }
  return epochs;
}

std::vector<EpochProfile> TruthServer::TakeRest() {
  std::vector<EpochProfile> epochs;
  while (assembler_.Waiting()) epochs.push_back(BuildOne());
  return epochs;
}

}  // namespace tmprof::exact
