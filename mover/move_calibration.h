// SPDX-License-Identifier: Apache-2.0
// Compares what promotions were predicted to save with what later evidence of their pages says.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>

#include "base/move.h"
#include "base/page_key.h"
#include "base/units.h"
#include "mover/payback.h"

namespace tmprof {

// A move has this time to pay for itself, and its prediction is checked over this time.
inline constexpr std::chrono::seconds kPaybackTime{10};

// Sums over promoted pages, each for its first kPaybackTime in tier 1. An epoch adds only the pages
// for which it has evidence, to both sums. The savings of other pages are unknown.
struct PromotionSavings {
  std::uint64_t promotions = 0;  // promotions for which some epoch has evidence
  double predicted_seconds = 0;  // saved memory time, estimated from the scores that decided
  double realised_seconds = 0;   // saved memory time, estimated from the scores of later epochs
  friend bool operator==(const PromotionSavings&, const PromotionSavings&) = default;
};

class MoveCalibration {
 public:
  // Watches at most this many promotions; further ones are not checked. Precondition: not 0.
  explicit MoveCalibration(std::size_t most_moves);

  // Notes a promotion that ended in `epoch`: from then on its pages are in tier 1. Its score was
  // made for an epoch of length `decided_over`; an access saves `gap_ns`. A second move of watched
  // pages ends their watch.
  void Promoted(const Move& move, std::chrono::nanoseconds decided_over, double gap_ns,
                std::uint64_t epoch);
  // Notes any other move of pages.
  void Moved(const Move& move);
  // Takes what Payback::Observe() takes, and the epoch's length.
  void Observe(std::uint64_t epoch, std::chrono::nanoseconds length,
               std::span<const SeenSpan> spans, Payback::Elsewhere elsewhere,
               const PageOwners& owners = {});
  // Forgets pages of a target that is no longer tracked, or of a file that no target maps any more.
  void Forget(TargetId target);
  // Ends all watches. The caller calls it when scores get another unit, because they cannot be
  // compared any more.
  void ForgetAll() { watched_.clear(); }

  bool watches_any() const { return !watched_.empty(); }
  const PromotionSavings& savings() const { return savings_; }

 private:
  struct Watched {
    PageKey key;  // its address
    PageCount span;
    std::uint64_t moved_in = 0;
    double predicted_per_second = 0;  // seconds of memory time
    double gap_ns = 0;
    std::chrono::nanoseconds watched{0};
    bool was_known = false;
  };

  std::size_t most_moves_;
  std::map<PageKey, Watched> watched_;  // key: the first page; they do not overlap
  PromotionSavings savings_;
};

}  // namespace tmprof
