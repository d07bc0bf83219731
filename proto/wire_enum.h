// SPDX-License-Identifier: Apache-2.0
// Converts enumerations to and from their wire form. Each is one table, so that both directions
// agree. Internal to proto/.

#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "base/check.h"

namespace tmprof {

template <typename Ours, typename Wire, std::size_t n>
Wire WireOf(const std::pair<Ours, Wire> (&table)[n], Ours value) {
  const auto* row = std::ranges::find(table, value, &std::pair<Ours, Wire>::first);
  TMPROF_CHECK(row != std::end(table));
  return row->second;
}

// False: this version does not know the value.
template <typename Ours, typename Wire, std::size_t n>
bool FromWire(const std::pair<Ours, Wire> (&table)[n], Wire value, Ours& out) {
  const auto* row = std::ranges::find(table, value, &std::pair<Ours, Wire>::second);
  if (row == std::end(table)) return false;
  out = row->first;
  return true;
}

}  // namespace tmprof
