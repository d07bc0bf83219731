// SPDX-License-Identifier: Apache-2.0

#include "objects/analysis/object_views.h"

#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/report/every_view.h"

namespace tmprof {
namespace object_views_test {

using namespace every_view;

View TheView(ObjectViewOptions options = {}) {
  return ObjectsView(std::make_shared<const ObjectViewOptions>(std::move(options)));
}

INSTANTIATE_TEST_SUITE_P(Objects, EveryView, testing::Values(TheView()));

TEST(ObjectsView, RefusesAPageOfWhichNothingIsKnown) {
  const auto rendered = RenderView(TheView({.page = Vpn(6)}), OnePage(), {}, Format::kText);
  ASSERT_FALSE(rendered.has_value());
  EXPECT_EQ(rendered.error().ExitStatus(), 2);
  EXPECT_THAT(rendered.error().Message(),
              testing::AllOf(testing::HasSubstr("'0x6000'"), testing::HasSubstr("not observed")));
  EXPECT_TRUE(RenderView(TheView({.page = Vpn(5)}), OnePage(), {}, Format::kText).has_value());
}

TEST(ObjectsView, GoesByAccessesToMemoryWhereEnoughMissesWereSampled) {
  EXPECT_THAT(RenderView(TheView(), SampledMisses(16384), {}, Format::kText)->output,
              testing::HasSubstr("by memory: accesses to memory (estimated) of their pages"));
}

}  // namespace object_views_test
}  // namespace tmprof
