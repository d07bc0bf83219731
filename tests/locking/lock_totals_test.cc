// SPDX-License-Identifier: Apache-2.0
// Advice on locks shows the same accesses of a trace as the hot list.

#include <gtest/gtest.h>

#include "locking/lock_advice.h"
#include "report/analysis/hot.h"
#include "tests/report/recordings.h"

namespace tmprof {
namespace lock_totals_test {

using namespace recordings;

TEST(LockTotals, EqualThatOfTheHotList) {
  for (const Recording& recording : kRecordings) {
    if (recording.targets > 1) continue;
    for (const RankModel model : {RankModel::kRate, RankModel::kSum}) {
      SCOPED_TRACE(recording.name);
      const Trace trace = Record(recording);
      const double hot = MakeHotList(trace, {.model = model, .limit = std::nullopt})->total_score;
      EXPECT_GT(hot, 0);
      EXPECT_NEAR(MakeLockAdvice(trace, {.model = model, .limit = 1.0})->accesses, hot, hot / 100);
    }
  }
}

}  // namespace lock_totals_test
}  // namespace tmprof
