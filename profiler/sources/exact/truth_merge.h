// SPDX-License-Identifier: Apache-2.0
// Puts exact accesses beside what a recording of the same run has seen.

#pragma once

#include <cstdint>
#include <functional>

#include "base/epoch_profile.h"
#include "base/epoch_stream.h"

namespace tmprof::exact {

// Adds what `truth` counted, and its sources, to an epoch of a recording on the same clock; several
// may be added to one. Processes are the same by pid, and by start time where both know it.
// Accesses of a process that the recording does not know are lost, and counted so in the source's
// status. A page that lies in a span of the recording's joins it.
void AddTruth(EpochProfile& recorded, const EpochProfile& truth);

struct MergeResult {
  StreamEnd recorded;
  StreamEnd truth;
  std::uint64_t without_truth = 0;      // epochs of the recording
  std::uint64_t outside_recording = 0;  // epochs of the truth
};

// Hands each epoch of `recorded` to `visit`, with the truth's epochs whose middles lie in it added.
// `first` was taken from `truth` already. Both are on the same clock.
MergeResult MergeTruth(EpochStream& recorded, EpochProfile first, EpochStream& truth,
                       const std::function<void(const EpochProfile&)>& visit);

}  // namespace tmprof::exact
