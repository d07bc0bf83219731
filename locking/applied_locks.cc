// SPDX-License-Identifier: Apache-2.0

#include "locking/applied_locks.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <ios>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/host/procfs.h"
#include "report/view.h"

namespace tmprof {
namespace {

constexpr std::string_view kRecordTitle = "tmprof-locks-1";

// Memory of one process that --apply locked, or was about to lock.
struct LockRecord {
  std::uint64_t start_time_ticks = 0;  // start time of the process
  std::vector<VpnRange> ranges;        // ascending, disjoint
};

std::string RecordPath(const std::string& trace, Pid pid) {
  return fmt::format("{}.{}.locks", trace, pid.value());
}

// nullopt: there is none.
Result<std::optional<LockRecord>> ReadRecord(const std::string& path) {
  std::ifstream file(path);
  if (!file.is_open()) {
    if (errno == ENOENT) return std::nullopt;
    return Fail(Refused("read record of locks", path, errno));
  }
  LockRecord record;
  std::string title;
  bool good = static_cast<bool>(file >> title >> record.start_time_ticks) && title == kRecordTitle;
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  for (char dash = 0; good && file >> std::hex >> start;) {
    good = file >> dash >> end && dash == '-' && start < end &&
           (record.ranges.empty() || record.ranges.back().end <= VpnOfAddress(start));
    if (good) record.ranges.push_back({VpnOfAddress(start), VpnOfAddress(end)});
  }
  if (!good || !file.eof()) {
    return Fail(BadInput("read record of locks", path, "it is damaged",
                         "remove it; what was locked stays so until its program ends"));
  }
  return record;
}

Status WriteRecord(const std::string& path, const LockRecord& record) {
  std::string text = fmt::format("{} {}\n", kRecordTitle, record.start_time_ticks);
  for (const VpnRange& range : record.ranges)
    text += fmt::format("{:x}-{:x}\n", AddressOf(range.start), AddressOf(range.end));
  return WriteFile(path, text);
}

std::vector<VpnRange> Union(std::vector<VpnRange> ranges, const std::vector<VpnRange>& more) {
  ranges.insert(ranges.end(), more.begin(), more.end());
  std::ranges::sort(ranges, {}, &VpnRange::start);
  std::vector<VpnRange> joined;
  for (const VpnRange& range : ranges) {
    if (!joined.empty() && range.start <= joined.back().end) {
      joined.back().end = std::max(joined.back().end, range.end);
    } else {
      joined.push_back(range);
    }
  }
  return joined;
}

// Both ascending and disjoint.
std::vector<VpnRange> Without(const std::vector<VpnRange>& ranges,
                              const std::vector<VpnRange>& taken) {
  std::vector<VpnRange> left;
  auto next = taken.begin();
  for (VpnRange rest : ranges) {
    while (next != taken.end() && next->end <= rest.start) ++next;
    for (auto out = next; out != taken.end() && out->start < rest.end; ++out) {
      if (rest.start < out->start) left.push_back({rest.start, out->start});
      rest.start = std::min(out->end, rest.end);
    }
    if (rest.start < rest.end) left.push_back(rest);
  }
  return left;
}

// A range that has a hole is refused, and mappings that touch are one call.
Result<std::vector<VpnRange>> Mapped(Pid pid, const std::vector<VpnRange>& chosen) {
  const Result<std::vector<Mapping>> mappings = ProcFs().Mappings(pid);
  if (!mappings) return Fail(mappings.error());
  std::vector<VpnRange> ranges;
  for (const VpnRange& pages : chosen) {
    bool joins = false;
    for (const Mapping& mapping : *mappings) {
      const Vpn start = std::max(mapping.range.start, pages.start);
      const Vpn end = std::min(mapping.range.end, pages.end);
      if (start >= end || mapping.kind == MappingKind::kSpecial || !mapping.accessible) continue;
      if (joins && ranges.back().end == start) {
        ranges.back().end = end;
      } else {
        ranges.push_back({start, end});
      }
      joins = true;
    }
  }
  return ranges;
}

AppliedLocks Reported(LockOutcome outcome, LockChange change) {
  AppliedLocks applied{.done = {.locked = change == LockChange::kLock,
                                .changed = outcome.changed,
                                .raised_limit = outcome.raised_limit},
                       .cut_short = std::move(outcome.cut_short)};
  for (const LockOutcome::Refusal& refusal : outcome.refused)
    applied.done.refused.push_back({.range = refusal.range, .system_error = refusal.system_error});
  return applied;
}

Result<AppliedLocks> Lock(const LockAdvice& advice, const std::string& path) {
  const Pid pid = advice.target.pid;
  const std::uint64_t start_time = advice.target.start_time_ticks;
  std::vector<VpnRange> chosen;
  for (const HeatedRange& range : advice.choice.ranges) chosen.push_back(range.pages);
  const Result<std::vector<VpnRange>> mapped = Mapped(pid, chosen);
  if (!mapped) return Fail(mapped.error());
  const Result<std::vector<VpnRange>> locked = LockedRanges(pid);
  if (!locked) return Fail(locked.error());
  const std::vector<VpnRange> ranges = Without(*mapped, *locked);

  Result<std::optional<LockRecord>> before = ReadRecord(path);
  if (!before) return Fail(std::move(before.error()));
  // The record is of another process that had the same PID.
  if (*before && (*before)->start_time_ticks != start_time) before->reset();
  LockRecord record{.start_time_ticks = start_time};
  record.ranges = Union(ranges, *before ? (*before)->ranges : std::vector<VpnRange>());
  if (Status written = WriteRecord(path, record); !written) return Fail(std::move(written.error()));
  Result<LockOutcome> outcome = ChangeLocks(pid, start_time, ranges, LockChange::kLock);
  if (!outcome) {
    // No memory was locked.
    if (!*before) {
      std::remove(path.c_str());
    } else if (Status written = WriteRecord(path, **before); !written) {
      return Fail(std::move(written.error()));
    }
    return Fail(std::move(outcome.error()));
  }
  return Reported(*std::move(outcome), LockChange::kLock);
}

Result<AppliedLocks> Unlock(const LockAdvice& advice, const std::string& path) {
  const Result<std::optional<LockRecord>> record = ReadRecord(path);
  if (!record) return Fail(record.error());
  if (!*record) {
    return Fail(Refused("read record of locks", path, ENOENT,
                        "what --apply locked is unlocked, and nothing else; it has not locked "
                        "anything by this trace, or that is undone"));
  }
  const Pid pid = advice.target.pid;
  if ((*record)->start_time_ticks != advice.target.start_time_ticks) {
    return Fail(Refused("unlock memory of", fmt::format("PID {}", pid.value()), ESRCH,
                        "the process of '" + path + "' has ended"));
  }
  const Result<std::vector<VpnRange>> ranges = Mapped(pid, (*record)->ranges);
  if (!ranges) return Fail(ranges.error());
  Result<LockOutcome> outcome =
      ChangeLocks(pid, (*record)->start_time_ticks, *ranges, LockChange::kUnlock);
  if (!outcome) return Fail(std::move(outcome.error()));
  if (!outcome->cut_short && outcome->refused.empty()) std::remove(path.c_str());
  return Reported(*std::move(outcome), LockChange::kUnlock);
}

}  // namespace

Result<AppliedLocks> ApplyLocks(const LockAdvice& advice, const std::string& trace,
                                LockChange change) {
  const std::string path = RecordPath(trace, advice.target.pid);
  return change == LockChange::kLock ? Lock(advice, path) : Unlock(advice, path);
}

}  // namespace tmprof
