// SPDX-License-Identifier: Apache-2.0
// Views of objects show the same accesses of a trace as the hot list.

#include <gtest/gtest.h>

#include "objects/analysis/object_advice.h"
#include "objects/analysis/object_annotator.h"
#include "objects/analysis/traced_objects.h"
#include "report/analysis/hot.h"
#include "report/analysis/hot_groups.h"
#include "tests/report/recordings.h"

namespace tmprof {
namespace object_totals_test {

using namespace recordings;

TEST(ObjectTotals, OfAdviceAndOfGroupsOfPagesEqualThoseOfTheHotList) {
  const ObjectAnnotator annotator;
  for (const Recording& recording : kRecordings) {
    for (const RankModel model : {RankModel::kRate, RankModel::kSum}) {
      SCOPED_TRACE(recording.name);
      const Trace trace = Record(recording);
      const HotOptions all{.model = model, .limit = std::nullopt, .annotator = &annotator};
      const double hot = MakeHotList(trace, all)->total_score;
      EXPECT_GT(hot, 0);
      EXPECT_NEAR(MakeObjectAdvice(trace, {.model = model})->accesses, hot, hot / 100);
      double by_object = 0;
      for (const HotGroups::Row& row : MakeHotGroups(trace, all, HotGroup::kObject)->rows) {
        by_object += row.score;
      }
      EXPECT_NEAR(by_object, hot, hot / 100);
    }
  }
}

TEST(ObjectTotals, OfRowsOverAllEpochsEqualThatOfTheHotList) {
  for (const Recording& recording : kRecordings) {
    if (!recording.bits || recording.exact) continue;
    SCOPED_TRACE(recording.name);
    const Trace trace = Record(recording);
    const double hot = MakeHotList(trace, {.by = RankSource::kCombined})->total_score;
    const Result<TracedObjects> objects = MakeTracedObjects(trace, {});
    ASSERT_TRUE(objects.has_value());
    ASSERT_TRUE(objects->accesses.has_value());
    EXPECT_NEAR(*objects->accesses, hot, hot / 100);
  }
}

}  // namespace object_totals_test
}  // namespace tmprof
