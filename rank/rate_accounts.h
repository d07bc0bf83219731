// SPDX-License-Identifier: Apache-2.0
// Decides which of a span's accessed bits belong to its current rate. Only rank/ uses it.

#pragma once

#include <cstdint>
#include <optional>

namespace tmprof {

// One answer, by which bits those are, in order of age.
struct RateAccount {
  enum class Since : std::uint8_t { kEver, kSuspicion, kNow };

  Since since = Since::kEver;
  double weight = 0;    // how likely it is beside the others, up to a factor of them all
  double log_rate = 0;  // expected by it, of one base page
};

struct RateAccounts {
  RateAccount older;
  std::optional<RateAccount> newer;
};

// The chances from which a change is worth remembering.
struct LeastChances {
  double suspicion;
  double now;
};

// Reduces three hypotheses to at most two, oldest first. Drops those whose share of all weight is
// below a threshold (`least`; one of its own for `ever`), but never the likeliest. If three remain,
// the two that differ least are merged: the result has the heavier one's bits and the sum of both
// weights. Ties: equal weights take the older one's bits; equal losses merge the changes first,
// then the older two. A weight of 0 means that there is no such hypothesis.
RateAccounts ChooseAccounts(const RateAccount& ever, const RateAccount& suspicion,
                            const RateAccount& now, LeastChances least);

}  // namespace tmprof
