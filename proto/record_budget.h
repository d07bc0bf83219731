// SPDX-License-Identifier: Apache-2.0
// Limits the pages of a trace by its length. Internal to proto/.

#pragma once

#include <bitset>
#include <cstdint>
#include <map>
#include <utility>

#include "base/epoch_profile.h"
#include "base/units.h"

namespace tmprof {

// A reader of a trace keeps some hundred bytes for each of its pages, and a few bytes of a file
// could have millions. A trace may therefore have a fixed number of records, and more for each of
// its bytes. Beyond these, each page counts once. The writer keeps to it by padding.
class RecordBudget {
 public:
  static constexpr std::uint64_t kFree = std::uint64_t{1} << 19;
  static constexpr std::uint64_t kPerByte = 64;

  // Returns the least length of a file with all records up to now and these. `file_bytes` is a
  // length that it certainly has; a larger one saves work.
  std::uint64_t LeastFileBytes(const PageColumns& pages, std::uint64_t file_bytes);

 private:
  static constexpr std::uint64_t kBlockPages = 512;
  using BlockKey = std::pair<TargetId, std::uint64_t>;  // target, page number / kBlockPages

  std::uint64_t records_ = 0;
  // Holds the first pages of records from the moment when there were more than the file's length
  // allows.
  std::map<BlockKey, std::bitset<kBlockPages>> known_;
  std::uint64_t known_pages_ = 0;
};

}  // namespace tmprof
