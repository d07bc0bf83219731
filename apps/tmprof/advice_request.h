// SPDX-License-Identifier: Apache-2.0
// Options that all kinds of advice of `tmprof advise` read.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "apps/tmprof/cli.h"

namespace tmprof {

struct AdviceRequest {
  std::string trace{kDefaultTrace};
  std::string by;                          // empty: the weight decides
  std::string rank_weight;                 // empty: what the options of the advice say
  std::optional<std::uint64_t> llc_bytes;  // nullopt: no cache is modelled
  std::string rank_model = "rate";
  std::string format = "text";
  bool wide = false;
};

}  // namespace tmprof
