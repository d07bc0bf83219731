// SPDX-License-Identifier: Apache-2.0
// Spells hit rates.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/text/format.h"
#include "rank/hit_rates.h"

namespace tmprof {

// "68.2 % [60.1, 76.3]"; the value is a question mark if too little was seen to know it. "-": it is
// unknown.
std::string WithInterval(const std::optional<HitRate>& rate);

// Returns the sentence that says that a model of the cache stands in for samples of misses.
std::string ByModelOfCache(std::uint64_t llc_bytes);
// Returns the sentence that says that the cache is smaller than that.
std::string CacheIsRefuted(std::uint64_t llc_bytes);

// Returns the line that says what the hit rates take unknown pages for; "" if there are none.
std::string NoteOfUnknown(const HitRates& rates);

// Has the value, the interval, and `told`, which is false if too little was seen to know the value.
Json HitRateJson(const std::optional<HitRate>& rate);

}  // namespace tmprof
