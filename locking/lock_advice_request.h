// SPDX-License-Identifier: Apache-2.0
// Advice on locks, in the words of the options of `tmprof advise --mlock`.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "locking/lock_advice.h"
#include "rank/rank_words.h"

namespace tmprof {

struct LockAdviceRequest {
  std::string limit = "25%";        // with half, some programs lost by the locks (bench/mlock)
  std::optional<std::int32_t> pid;  // unset: the one with the most accesses
};

// Refuses a modelled cache of `llc_bytes` (nullopt: none) unless accesses to memory are counted.
Result<LockAdviceOptions> OptionsOf(const LockAdviceRequest& request, const RankWords& rank,
                                    std::optional<std::uint64_t> llc_bytes);

}  // namespace tmprof
