// SPDX-License-Identifier: Apache-2.0
// Chooses the memory of a process that is worth keeping in RAM when RAM gets scarce. In Daptrace's
// case study people chose it from a heat map.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/text/text_table.h"
#include "base/units.h"
#include "proto/trace.h"
#include "rank/rank_model.h"
#include "rank/rank_weight.h"
#include "report/analysis/whole_trace.h"

namespace tmprof {

// Each range may split a mapping in three and costs the process a system call. A process may have
// 65 530 mappings by default (vm.max_map_count).
inline constexpr std::size_t kMostLockedRanges = 1024;

struct HeatedRange {
  VpnRange pages;
  double accesses = 0;
  friend bool operator==(const HeatedRange&, const HeatedRange&) = default;
};

struct LockChoice {
  std::vector<HeatedRange> ranges;  // ascending; no two adjoin
  // The unit of the choice. It is single pages or, if these make too many ranges, blocks that begin
  // at multiples of `grain`. A block has its known pages and the gaps between them.
  PageCount grain{1};

  PageCount size() const;
  double accesses() const;
};

// Chooses the most accessed pages, by accesses a page, then ascending: at most `limit` pages in at
// most `most_ranges` ranges. All pages of a sweep are alike. Locking some of them still helps,
// because the kernel evicts each page shortly before its turn. `known` is ascending and disjoint;
// each range holds its accesses evenly.
LockChoice ChooseLocked(std::span<const HeatedRange> known, PageCount limit,
                        std::size_t most_ranges);

struct LockAdviceOptions {
  RankModel model = RankModel::kRate;
  RankWeight weight = RankWeight::kAccesses;        // swapping hits pages that a cache serves, too
  std::optional<RankSource> by;                     // one kind of evidence instead of the weight
  std::optional<Pid> pid;                           // unset: the process with the most accesses
  std::variant<std::uint64_t, double> limit{0.25};  // bytes, or a share of the memory it accessed
};

struct LockAdvice {
  TraceTotals totals;
  LockAdviceOptions options;
  TargetTotal target;
  PageCount accessed;   // pages of the process that were seen accessed
  double accesses = 0;  // the process's
  PageCount limit;
  LockChoice choice;

  // The outcome in the running process; unset: nobody asked to apply the choice.
  struct Applied {
    bool locked = true;  // false: unlocked
    PageCount changed;
    struct Refusal {
      VpnRange range;
      int system_error = 0;
    };
    std::vector<Refusal> refused;
    std::optional<std::uint64_t> raised_limit;  // RLIMIT_MEMLOCK, bytes
  };
  std::optional<Applied> applied;

  // Returns the chosen pages' share of the process's accesses; nullopt: none were seen.
  std::optional<double> CoveredShare() const;
};

// Refuses a process that the trace does not have, and a trace in which no access was seen.
Result<LockAdvice> MakeLockAdvice(const Trace& trace, const LockAdviceOptions& options);

std::string LockAdviceText(const LockAdvice& advice, TextWidth width = {});
std::string LockAdviceJson(const LockAdvice& advice);

}  // namespace tmprof
