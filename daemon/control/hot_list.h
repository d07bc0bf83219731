// SPDX-License-Identifier: Apache-2.0
// The spans that the daemon ranks best, as answers to those who ask for them. docs/monitoring.md
// describes the formats, which stay as they are.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/text/format.h"
#include "base/text/text_table.h"
#include "base/units.h"
#include "daemon/hot_span.h"
#include "rank/scores.h"

namespace tmprof {

struct HotList {
  struct Process {
    TargetId id;
    Pid pid;
    std::string name;
  };

  std::uint64_t epoch = 0;  // the last one that is over, and its length
  std::chrono::nanoseconds epoch_length{0};
  RankModel model = RankModel::kRate;
  RankSource by = RankSource::kCombined;
  std::uint64_t ranked = 0;        // spans that have a score, shown or not
  std::vector<HotSpan> spans;      // the best first
  std::vector<Process> processes;  // those of the spans, and maybe others
};

// Names what scores count: "accesses", "accesses to memory" (both within the epoch), "samples",
// "references", or "references and samples".
std::string ScoreUnit(const HotList& list);

Json AsJson(const HotList& list);
std::string AsText(const HotList& list, TextWidth width = {});
// Returns a header of 72 bytes and a record of 40 bytes for each span, little-endian.
std::string AsBinary(const HotList& list);

}  // namespace tmprof
