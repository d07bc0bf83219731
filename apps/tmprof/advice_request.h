// SPDX-License-Identifier: Apache-2.0
// Options that all kinds of advice of `tmprof advise` read.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "apps/tmprof/cli.h"
#include "rank/rank_words.h"

namespace tmprof {

struct AdviceRequest {
  std::string trace{kDefaultTrace};
  RankWords rank;                          // without a weight, the kind of advice has one
  std::optional<std::uint64_t> llc_bytes;  // nullopt: no cache is modelled
  std::string format = "text";
  bool wide = false;
};

}  // namespace tmprof
