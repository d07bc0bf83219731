// SPDX-License-Identifier: Apache-2.0

#include "profiler/progress_line.h"

#include <fmt/format.h>

#include <chrono>

#include "base/text/human_units.h"

namespace tmprof {

void KnownSum::Add(std::optional<std::uint64_t> count) {
  if (count) {
    sum_ += *count;
  } else {
    complete_ = false;
  }
}

std::string KnownSum::Text() const {
  if (complete_) return FormatCount(sum_);
  return sum_ == 0 ? "unknown" : "at least " + FormatCount(sum_);
}

std::string ProgressLine::After(const EpochProfile& epoch) {
  KnownSum observed;
  for (const SourceStatus& source : epoch.sources) {
    if (source.state == SourceState::kUnavailable) continue;
    if (source.role == counted_) observed.Add(source.observations);
    lost_.Add(source.lost);
  }
  const double own_share =
      std::chrono::duration<double>(epoch.profiler_cpu_time) / epoch.length() * 100;
  return fmt::format("\repoch {:4}  page records {:>9}  {} {:>7}  lost {}  own CPU {:.1f} %\x1b[K",
                     epoch.index, FormatCount(epoch.pages.size()),
                     counted_ == SourceRole::kTruth ? "accesses" : "samples", observed.Text(),
                     lost_.Text(), own_share);
}

}  // namespace tmprof
