// SPDX-License-Identifier: Apache-2.0
// The pages that a ranking would put into tier 1, for several capacities.

#pragma once

#include <cstdint>
#include <vector>

#include "base/page_key.h"
#include "base/units.h"

namespace tmprof {

// Spans in the order of choice: each choice holds the spans of those before it, and more.
struct ChosenSpans {
  std::vector<PageCount> capacities;  // one per choice, ascending
  std::vector<PageKey> key;           // ascending
  std::vector<std::uint32_t> span_pages;
  // The first one that holds the span; the number of choices: none does.
  std::vector<std::uint8_t> first_choice;
};

}  // namespace tmprof
