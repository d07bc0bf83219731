// SPDX-License-Identifier: Apache-2.0

#include "report/view_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace tmprof {
namespace view_request_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const View& Named(std::string_view name) { return **FindView(name); }

std::string RefusalOf(const ViewRequest& request) {
  const auto options = ViewOptionsOf(request, Named("hot"));
  return options ? "none" : options.error().Message();
}

TEST(ViewRequest, IsTheDefaultOfTheViewsIfNothingIsAskedFor) {
  const auto options = ViewOptionsOf({}, Named("hot"));
  ASSERT_TRUE(options);
  EXPECT_EQ(options->model, ViewOptions{}.model);
  EXPECT_EQ(options->weight, ViewOptions{}.weight);
  EXPECT_EQ(options->by, std::nullopt);
  EXPECT_EQ(options->limit, 20u);
  EXPECT_EQ(options->wss_rates, ViewOptions{}.wss_rates);
  EXPECT_EQ(options->heatmap_style, std::nullopt);
}

TEST(ViewRequest, HasEpochsWhoseEndsMayBeLeftOut) {
  const auto range = [](std::string epochs) {
    return ViewOptionsOf({.epochs = std::move(epochs)}, Named("hot"))->epochs;
  };
  EXPECT_EQ(range("3:10").first, 3u);
  EXPECT_EQ(range("3:10").end, 10u);
  EXPECT_EQ(range(":10").first, 0u);
  EXPECT_EQ(range("3:").end, EpochRange{}.end);
  for (const char* bad : {"3", "4:3", "3:3", "x:4", "3:4:5", "-1:4"}) {
    EXPECT_THAT(RefusalOf({.epochs = bad}), HasSubstr("it is not FIRST:END")) << bad;
  }
}

TEST(ViewRequest, HasRatesInAscendingOrder) {
  const auto options = ViewOptionsOf({.rates = "100,1,10"}, Named("wss"));
  ASSERT_TRUE(options);
  EXPECT_THAT(options->wss_rates, ElementsAre(1, 10, 100));
  for (const char* bad : {"", "1,", "0", "-1", "inf", "nan", "1,x"}) {
    EXPECT_THAT(RefusalOf({.rates = bad}), HasSubstr("is not a finite number above 0")) << bad;
  }
  EXPECT_THAT(RefusalOf({.rates = "1,1.0"}), HasSubstr("its value is in the list before"));
}

TEST(ViewRequest, HasAllRowsForALimitOfZero) {
  EXPECT_EQ(ViewOptionsOf({.limit = 0}, Named("hot"))->limit, std::nullopt);
}

TEST(ViewRequest, IsRefusedWithEvidenceBesideAWeightAndWithAGroupAsEvidence) {
  EXPECT_THAT(RefusalOf({.rank = {.by = "samples", .weight = "memory"}}),
              HasSubstr("--by chooses one kind of evidence instead of a weight"));
  EXPECT_THAT(RefusalOf({.rank = {.by = "mapping"}}), HasSubstr("'--view hot --group mapping'"));
  EXPECT_EQ(RefusalOf({.rank = {.by = "samples"}}), "none");
}

TEST(RequireRead, NamesTheViewsThatReadAnOption) {
  const auto only = [](std::string given) {
    return [given = std::move(given)](const std::string& flag) { return flag == given; };
  };
  EXPECT_TRUE(RequireRead(Named("hot"), Views(), only("--limit")));
  const Status status = RequireRead(Named("summary"), Views(), only("--limit"));
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().Message(), HasSubstr("the summary view does not read it; these do: "));
}

}  // namespace view_request_test
}  // namespace tmprof
