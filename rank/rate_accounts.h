// SPDX-License-Identifier: Apache-2.0
// Which of a span's accessed bits are of the rate that it has now. Only rank/ uses it.

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

// What is kept of three, in order of age: none that is unlikely, where another is not; and of three
// that remain, the two that differ least are one, which is of the heavier's bits and as likely as
// both. Ties: of equal weights the older one's bits, of equal losses the changes first, then the
// older two. A weight of 0: there is no such account.
RateAccounts ChooseAccounts(const RateAccount& ever, const RateAccount& suspicion,
                            const RateAccount& now, LeastChances least);

}  // namespace tmprof
