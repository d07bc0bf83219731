// SPDX-License-Identifier: Apache-2.0
// How many pages a trace may tell of, by its length. Internal to proto/.

#pragma once

#include <bitset>
#include <cstdint>
#include <map>
#include <utility>

#include "base/epoch_profile.h"
#include "base/units.h"

namespace tmprof {

// Whoever reads a trace keeps some hundred bytes for each page that it tells of, and a few bytes of
// a file could tell of millions. A trace may therefore have so many records, and so many more for
// each of its bytes; beyond these, each page counts once. The writer keeps to it by padding.
class RecordBudget {
 public:
  static constexpr std::uint64_t kFree = std::uint64_t{1} << 19;
  static constexpr std::uint64_t kPerByte = 64;

  // The least length that a file of all records so far must have, with these behind them.
  // `file_bytes` is a length that it has for sure: with more, less is looked at.
  std::uint64_t LeastFileBytes(const PageColumns& pages, std::uint64_t file_bytes);

 private:
  static constexpr std::uint64_t kBlockPages = 512;
  using BlockKey = std::pair<TargetId, std::uint64_t>;  // target, page number / kBlockPages

  std::uint64_t records_ = 0;
  // Holds the first pages of records since there were more than a file's length allows.
  std::map<BlockKey, std::bitset<kBlockPages>> known_;
  std::uint64_t known_pages_ = 0;
};

}  // namespace tmprof
