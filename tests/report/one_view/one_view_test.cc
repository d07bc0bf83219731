// SPDX-License-Identifier: Apache-2.0
// The table of views with one more, which took the edits in apply.py. Help, completion and the
// manual page read Views(), and tests/apps/ compares them with it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/view.h"
#include "tests/report/traces.h"

namespace tmprof {
namespace one_view_test {

using ::testing::HasSubstr;

Trace OneEpoch() {
  EpochProfile epoch = MakeEpoch(0, {MakeTarget(0, 10, "t")});
  See(epoch, 0, {{.vpn = 5, .looks = 3, .references = 2}});
  return TraceOf({epoch});
}

TEST(OneView, IsFoundAndShown) {
  const Result<const View*> view = FindView("example");
  ASSERT_TRUE(view) << view.error().Message();
  EXPECT_EQ((*view)->description, "an example of a view");
  const auto rendered = RenderView("example", OneEpoch(), {}, Format::kText);
  ASSERT_TRUE(rendered) << rendered.error().Message();
  EXPECT_EQ(rendered->output, "an example\n");
}

TEST(OneView, IsListedWithTheOthersAndWithTheOptionsItReads) {
  EXPECT_THAT(FindView("exmple").error().Message(), HasSubstr("use one of example, summary, hot"));
  EXPECT_THAT(ViewsThatRead("epochs"), HasSubstr("example, summary"));
  EXPECT_FALSE(ViewsThatRead("pid").contains("example"));
}

TEST(OneView, HasNoPictureUnlessItSaysSo) {
  const auto rendered = RenderView("example", OneEpoch(), {}, Format::kText, /*with_png=*/true);
  ASSERT_FALSE(rendered);
  EXPECT_THAT(rendered.error().Message(), HasSubstr("'example': this view has none"));
}

}  // namespace one_view_test
}  // namespace tmprof
