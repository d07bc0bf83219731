// SPDX-License-Identifier: Apache-2.0

#include "locking/memory_lock.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/text/human_units.h"
#include "locking/stopped_thread.h"

namespace tmprof {
namespace {

// Calls in one stop of the thread. A call takes some 20 us for little memory, and up to 1 ms for
// much.
constexpr std::size_t kCallsAtOnce = 8;
// Memory of one call. All threads of the process wait with mapping memory until its end.
constexpr PageCount kMostAtOnce((std::uint64_t{16} << 20) / kBasePageBytes);
constexpr int kIpcLock = 14;  // include/uapi/linux/capability.h, CAP_IPC_LOCK

std::string Named(Pid pid) { return fmt::format("PID {}", pid.value()); }

// Reads field 22 of /proc/PID/stat; nullopt: the process is gone.
std::optional<std::uint64_t> StartTime(Pid pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid.value()));
  const std::string stat{std::istreambuf_iterator<char>(file), {}};
  const std::size_t name_end = stat.rfind(')');  // the name may contain anything
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(stat.substr(name_end + 1));
  std::string skipped;
  for (int field = 3; field < 22; ++field) fields >> skipped;
  std::uint64_t ticks = 0;
  if (!(fields >> ticks)) return std::nullopt;
  return ticks;
}

// Keeps all signals that can be blocked from this thread, and from those that it starts, as long as
// it lives.
class SignalsHeldBack {
 public:
  SignalsHeldBack() {
    sigset_t all;
    sigfillset(&all);
    TMPROF_CHECK(pthread_sigmask(SIG_SETMASK, &all, &before_) == 0);
  }
  SignalsHeldBack(const SignalsHeldBack&) = delete;
  SignalsHeldBack& operator=(const SignalsHeldBack&) = delete;
  ~SignalsHeldBack() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

struct LockRights {
  bool unlimited = false;  // CAP_IPC_LOCK
  std::uint64_t locked_bytes = 0;
};

LockRights RightsOf(Pid pid) {
  LockRights rights;
  std::ifstream file(fmt::format("/proc/{}/status", pid.value()));
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string title;
    words >> title;
    if (title == "VmLck:") {
      std::uint64_t kib = 0;
      words >> kib;
      rights.locked_bytes = kib << 10;
    } else if (title == "CapEff:") {
      std::uint64_t held = 0;
      words >> std::hex >> held;
      rights.unlimited = (held >> kIpcLock & 1) != 0;
    }
  }
  return rights;
}

// nullopt: the present limit is enough.
Result<std::optional<std::uint64_t>> RaiseLimit(Pid pid, std::uint64_t more_bytes) {
  const LockRights rights = RightsOf(pid);
  if (rights.unlimited) return std::nullopt;
  const std::uint64_t needed = rights.locked_bytes + more_bytes;
  rlimit limit{};
  if (prlimit(pid.value(), RLIMIT_MEMLOCK, nullptr, &limit) != 0)
    return Fail(Refused("read RLIMIT_MEMLOCK of", Named(pid), errno,
                        "run as the same user or with CAP_SYS_RESOURCE"));
  if (limit.rlim_cur >= needed) return std::nullopt;
  const std::uint64_t had = limit.rlim_cur;
  limit.rlim_cur = needed;
  limit.rlim_max = std::max(limit.rlim_max, limit.rlim_cur);
  if (prlimit(pid.value(), RLIMIT_MEMLOCK, &limit, nullptr) != 0) {
    return Fail(Refused(
        "let " + Named(pid) + " lock", FormatBytes(needed), errno,
        fmt::format("its RLIMIT_MEMLOCK is {}: raise it with prlimit --memlock as root, or give "
                    "the program CAP_IPC_LOCK",
                    FormatBytes(had))));
  }
  return needed;
}

std::vector<VpnRange> InPieces(std::span<const VpnRange> ranges) {
  std::vector<VpnRange> pieces;
  for (VpnRange rest : ranges) {
    while (rest.size() > kMostAtOnce) {
      const Vpn cut = rest.start + kMostAtOnce;
      pieces.push_back({rest.start, cut});
      rest.start = cut;
    }
    pieces.push_back(rest);
  }
  return pieces;
}

// Pieces of one range usually have one error, and are joined.
void AddRefusal(LockOutcome& outcome, VpnRange range, int system_error) {
  if (!outcome.refused.empty()) {
    LockOutcome::Refusal& last = outcome.refused.back();
    if (last.range.end == range.start && last.system_error == system_error) {
      last.range.end = range.end;
      return;
    }
  }
  outcome.refused.push_back({.range = range, .system_error = system_error});
}

// Changes pieces in one stop of the thread.
Status ChangeSome(Pid pid, std::uint64_t start_time_ticks, std::span<const VpnRange> pieces,
                  LockChange change, LockOutcome& outcome) {
  Result<StoppedThread> thread = StoppedThread::Stop(pid);
  // A held process keeps its PID.
  if (StartTime(pid) != start_time_ticks) return Fail(Refused("lock memory of", Named(pid), ESRCH));
  if (!thread) return Fail(std::move(thread.error()));
  for (const VpnRange& piece : pieces) {
    const std::uint64_t start = AddressOf(piece.start);
    const std::uint64_t length = piece.size().value() * kBasePageBytes;
    const Result<std::int64_t> answer =
        change == LockChange::kLock ? thread->Call(SYS_mlock2, {start, length, MLOCK_ONFAULT})
                                    : thread->Call(SYS_munlock, {start, length, 0});
    if (!answer) return Fail(answer.error());
    if (*answer == 0) {
      outcome.changed += piece.size();
    } else {
      AddRefusal(outcome, piece, static_cast<int>(-*answer));
    }
  }
  return thread->Release();
}

// Works in a thread of its own. When that ends, the kernel lets go of a thread that could not be
// released.
Status ChangeSomeApart(Pid pid, std::uint64_t start_time_ticks, std::span<const VpnRange> pieces,
                       LockChange change, LockOutcome& outcome) {
  Status status;
  const SignalsHeldBack held_back;
  try {
    std::thread([&] {
      status = ChangeSome(pid, start_time_ticks, pieces, change, outcome);
    }).join();
  } catch (const std::system_error& error) {
    return Fail(Refused("start a thread to stop", Named(pid), error.code().value()));
  }
  return status;
}

}  // namespace

Result<LockOutcome> ChangeLocks(Pid pid, std::uint64_t start_time_ticks,
                                std::span<const VpnRange> ranges, LockChange change) {
  LockOutcome outcome;
  if (StartTime(pid) != start_time_ticks) {
    return Fail(Refused("lock memory of", Named(pid), ESRCH,
                        "the process has ended; record one that runs"));
  }
  if (change == LockChange::kLock) {
    PageCount more;
    for (const VpnRange& range : ranges) more += range.size();
    auto raised = RaiseLimit(pid, more.value() * kBasePageBytes);
    if (!raised) return Fail(std::move(raised.error()));
    outcome.raised_limit = *raised;
  }
  const std::vector<VpnRange> pieces = InPieces(ranges);
  for (std::span<const VpnRange> rest = pieces; !rest.empty();) {
    const auto batch = rest.first(std::min(kCallsAtOnce, rest.size()));
    rest = rest.subspan(batch.size());
    Status changed = ChangeSomeApart(pid, start_time_ticks, batch, change, outcome);
    if (changed) continue;
    if (outcome.changed == PageCount(0) && !outcome.raised_limit)
      return Fail(std::move(changed.error()));
    outcome.cut_short = std::move(changed.error());
    break;
  }
  return outcome;
}

Result<std::vector<VpnRange>> LockedRanges(Pid pid) {
  std::vector<VpnRange> locked;
  // Reading smaps takes long for much memory.
  if (RightsOf(pid).locked_bytes == 0) return locked;
  const std::string path = fmt::format("/proc/{}/smaps", pid.value());
  std::ifstream smaps(path);
  VpnRange mapping;
  bool complete = false;
  for (std::string line; std::getline(smaps, line);) {
    std::istringstream words(line);
    std::string first;
    words >> first;
    if (first == "VmFlags:") {
      complete = true;
      bool is_locked = false;
      for (std::string flag; words >> flag;) is_locked |= flag == "lo";
      if (!is_locked) continue;
      if (!locked.empty() && locked.back().end == mapping.start) {
        locked.back().end = mapping.end;
      } else {
        locked.push_back(mapping);
      }
      continue;
    }
    std::uint64_t start = 0;
    std::uint64_t end = 0;
    char dash = 0;
    std::istringstream addresses(first);
    if (addresses >> std::hex >> start >> dash >> end && dash == '-')
      mapping = {VpnOfAddress(start), VpnOfAddress(end)};
  }
  if (!complete) {
    return Fail(Refused("read", path, smaps.is_open() ? ESRCH : EACCES,
                        "what the program has locked itself has to be known; run as the same user "
                        "or with CAP_SYS_PTRACE"));
  }
  return locked;
}

}  // namespace tmprof
