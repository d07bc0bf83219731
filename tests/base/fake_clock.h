// SPDX-License-Identifier: Apache-2.0
// A clock that shows what the test sets.

#pragma once

#include "base/clock.h"

namespace tmprof {

class FakeClock final : public Clock {
 public:
  explicit FakeClock(MonotonicTime start = {}) : now(start) {}
  MonotonicTime Now() const override { return now; }

  MonotonicTime now;
};

}  // namespace tmprof
