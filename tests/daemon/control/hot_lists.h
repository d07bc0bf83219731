// SPDX-License-Identifier: Apache-2.0
// A hand-made list of hot spans for the tests of the code that hands it out.

#pragma once

#include <chrono>

#include "daemon/control/hot_list.h"

namespace tmprof::test {

// The list has a span of which all is known, and one of which next to nothing is.
inline HotList SmallHotList() {
  using std::chrono::milliseconds;
  return {.epoch = 12,
          .epoch_length = milliseconds(1500),
          .model = RankModel::kRate,
          .by = RankSource::kMemory,
          .ranked = 3000,
          .spans = {{.key = {TargetId(3), VpnOfAddress(0x7f0012345000)},
                     .pages = PageCount(1),
                     .score = 1250.5,
                     .relative_sd = 0.25,
                     .joint = true,
                     .node = NodeId(1),
                     .tier = Tier(2),
                     .age = milliseconds(2500)},
                    {.key = {TargetId(4), VpnOfAddress(0x200000)},
                     .pages = PageCount(512),
                     .score = 7,
                     .relative_sd = {},
                     .assumed = true,
                     .node = {},
                     .tier = {},
                     .age = {}}},
          .processes = {{TargetId(3), Pid(4711), "redis-server"}}};
}

}  // namespace tmprof::test
