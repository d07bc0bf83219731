// SPDX-License-Identifier: Apache-2.0
// Time is given from outside, so that tests own it.

#pragma once

#include "base/units.h"

namespace tmprof {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual MonotonicTime Now() const = 0;
};

// CLOCK_MONOTONIC.
class SystemClock final : public Clock {
 public:
  MonotonicTime Now() const override;
};

}  // namespace tmprof
