// SPDX-License-Identifier: Apache-2.0
// Time is passed in, so that tests control it.

#pragma once

#include "base/units.h"

namespace tmprof {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual MonotonicTime Now() const = 0;
};

// Reads CLOCK_MONOTONIC.
class SystemClock final : public Clock {
 public:
  MonotonicTime Now() const override;
};

}  // namespace tmprof
