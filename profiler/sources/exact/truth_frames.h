// SPDX-License-Identifier: Apache-2.0
// Exact accesses by page frame, whoever made them.

#pragma once

#include "profiler/sources/exact/truth_decoder.h"

namespace tmprof::exact {

// The epoch with one target in place of all: physical memory, whose page N is frame N. It has no
// pid. Accesses to a page whose frame is unknown are lost.
TruthEpoch ByFrame(TruthEpoch epoch);

}  // namespace tmprof::exact
