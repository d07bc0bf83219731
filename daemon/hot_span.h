// SPDX-License-Identifier: Apache-2.0
// A span of pages as the daemon ranks it.

#pragma once

#include <chrono>
#include <optional>

#include "base/page_key.h"
#include "base/tiers.h"
#include "base/units.h"

namespace tmprof {

struct HotSpan {
  PageKey key;  // the address by which it is moved
  PageCount pages;
  double score = 0;  // of all its pages, in the unit of the ranking
  // Standard deviation of the score, relative to it. nullopt: unknown.
  std::optional<double> relative_sd;
  bool assumed = false;  // nobody looked at its pages lately: the score is that of similar pages
  bool joint = false;    // several mappings hold its pages
  std::optional<NodeId> node;
  std::optional<Tier> tier;  // nullopt: the node is unknown, or is in no tier
  // Time from the last epoch in which it was seen accessed to the last epoch of all. nullopt: it
  // was not seen accessed since ages are followed.
  std::optional<std::chrono::nanoseconds> age;
};

}  // namespace tmprof
