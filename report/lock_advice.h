// SPDX-License-Identifier: Apache-2.0
// Which memory of a process is worth to be kept in RAM when RAM gets scarce (Daptrace's case study:
// there people chose it from a heat map).

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "rank/rank_model.h"
#include "rank/rank_weight.h"
#include "report/trace.h"
#include "report/whole_trace.h"

namespace tmprof {

// Each range may part a mapping in three, of which a process may have 65 530 by default
// (vm.max_map_count), and costs a system call of the process.
inline constexpr std::size_t kMostLockedRanges = 1024;

struct HeatedRange {
  VpnRange pages;
  double accesses = 0;
  friend bool operator==(const HeatedRange&, const HeatedRange&) = default;
};

struct LockChoice {
  std::vector<HeatedRange> ranges;  // ascending, none touches the next
  // What was chosen from: single pages, or blocks that begin at multiples of so many, as far as
  // they are known, gaps between known pages included, where single pages are too many ranges.
  PageCount grain{1};

  PageCount size() const;
  double accesses() const;
};

// The most accessed pages, by accesses a page, then ascending: at most `limit` and in at most
// `most_ranges`. Of a sweep, all of whose pages are alike, some are better than none: the kernel
// evicts each shortly before its turn. `known` ascending, disjoint; each holds its accesses evenly.
LockChoice ChooseLocked(std::span<const HeatedRange> known, PageCount limit,
                        std::size_t most_ranges);

struct LockAdviceOptions {
  RankModel model = RankModel::kRate;
  RankWeight weight = RankWeight::kAccesses;        // what a cache serves is swapped out, too
  std::optional<RankSource> by;                     // one kind of evidence instead of the weight
  std::optional<Pid> pid;                           // unset: the process with the most accesses
  std::variant<std::uint64_t, double> limit{0.25};  // bytes, or a share of what it accessed
};

struct LockAdvice {
  TraceTotals totals;
  LockAdviceOptions options;
  TargetTotal target;
  PageCount accessed;   // pages of it that were seen accessed
  double accesses = 0;  // of the process
  PageCount limit;
  LockChoice choice;

  // What came of it in the process that runs; unset: it was not asked for.
  struct Applied {
    bool locked = true;  // else unlocked
    PageCount changed;
    struct Refusal {
      VpnRange range;
      int system_error = 0;
    };
    std::vector<Refusal> refused;
    std::optional<std::uint64_t> raised_limit;  // RLIMIT_MEMLOCK, bytes
  };
  std::optional<Applied> applied;

  // Of the process's accesses, those to what is chosen; unknown where none were seen.
  std::optional<double> CoveredShare() const;
};

// Refuses a process that the trace does not have, and a trace in which nothing was seen accessed.
Result<LockAdvice> MakeLockAdvice(const Trace& trace, const LockAdviceOptions& options);

std::string LockAdviceText(const LockAdvice& advice);
std::string LockAdviceJson(const LockAdvice& advice);

}  // namespace tmprof
