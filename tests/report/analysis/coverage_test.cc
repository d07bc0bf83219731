// SPDX-License-Identifier: Apache-2.0

#include "report/analysis/coverage.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/report/traces.h"

namespace tmprof {
namespace coverage_test {

// Target 0: pages 1 (bit), 2 (both, over two epochs), 3 (looked at, cold), 512..1023 a huge page
// with a bit.
// Target 1: page 1 (sample).
Trace TwoTargets() {
  const std::vector targets = {MakeTarget(0, 10, "first"), MakeTarget(1, 11, "second")};
  EpochProfile one = MakeEpoch(0, targets);
  See(one, 0,
      {{.vpn = 1, .looks = 1, .references = 1},
       {.vpn = 2, .looks = 1, .references = 1},
       {.vpn = 3, .looks = 1},
       {.vpn = 512, .looks = 2, .references = 1, .span = 512}});
  EpochProfile two = MakeEpoch(1, targets);
  See(two, 0, {{.vpn = 2, .loads = 1}});
  See(two, 1, {{.vpn = 1, .stores = 4}});
  return TraceOf({one, two});
}

TEST(CoverageTest, CountsDistinctBasePagesOverTheTrace) {
  const Result<Coverage> coverage = MakeCoverage(TwoTargets());
  ASSERT_TRUE(coverage.has_value());
  EXPECT_EQ(coverage->all.looked_at, PageCount(515));
  EXPECT_EQ(coverage->all.references, PageCount(514));
  EXPECT_EQ(coverage->all.samples, PageCount(2));
  EXPECT_EQ(coverage->all.references_only, PageCount(513));
  EXPECT_EQ(coverage->all.samples_only, PageCount(1));
  EXPECT_EQ(coverage->all.both, PageCount(1));
  EXPECT_EQ(coverage->all.either, PageCount(515));
  EXPECT_EQ(coverage->all.footprint, PageCount(515));
  EXPECT_EQ(coverage->all.most_looked_at, std::nullopt);
  ASSERT_EQ(coverage->rows.size(), 2u);
  EXPECT_EQ(coverage->rows[0].seen.either, PageCount(514));
  EXPECT_EQ(coverage->rows[1].seen.samples_only, PageCount(1));
}

// Both targets map one file at page 512, the second one a huge page's length further into it:
// target 1's page 512 is target 0's page 1024.
TEST(CoverageTest, APageThatTwoTargetsMapCountsForEachAndOnceInAll) {
  std::vector targets = {MakeTarget(0, 10, "first"), MakeTarget(1, 11, "second")};
  for (Target& target : targets) {
    const PageCount offset(512 * std::uint64_t{target.id.value()});
    target.mappings = {{.range = {Vpn(512), Vpn(2048)},
                        .kind = MappingKind::kShared,
                        .path = "/memfd:ring (deleted)",
                        .file = FilePlace{.device = 1, .inode = 5, .offset = offset}}};
  }
  EpochProfile one = MakeEpoch(0, targets);
  See(one, 0,
      {{.vpn = 1, .looks = 1, .references = 1},
       {.vpn = 1024, .looks = 1, .references = 1},
       {.vpn = 1025, .looks = 1}});
  See(one, 1, {{.vpn = 1, .looks = 1, .references = 1}, {.vpn = 512, .looks = 1, .loads = 1}});
  const Result<Coverage> coverage = MakeCoverage(TraceOf({one}));
  ASSERT_TRUE(coverage.has_value());
  EXPECT_EQ(coverage->rows[0].seen.footprint, PageCount(2));
  EXPECT_EQ(coverage->rows[1].seen.footprint, PageCount(2));
  EXPECT_EQ(coverage->all.footprint, PageCount(3));
  EXPECT_EQ(coverage->all.looked_at, PageCount(4));
  EXPECT_EQ(coverage->all.references, PageCount(3));
  EXPECT_EQ(coverage->all.both, PageCount(1)) << "each by another mapper";
}

TEST(CoverageTest, IsASmallTableInText) {
  EXPECT_EQ(CoverageText(*MakeCoverage(TwoTargets())),
            "pages detected (distinct 4 KiB pages over the trace)\n"
            "pid  target       pages by references only  samples only  both  either\n"
            " 10  first                             513             0     1     514\n"
            " 11  second                              0             1     0       1\n"
            "     all targets                       513             1     1     515\n");
}

TEST(CoverageTest, IsOneLinePerTargetInCsv) {
  EXPECT_EQ(CoverageCsv(*MakeCoverage(TwoTargets())),
            "target,pid,name,looked_at,references,samples,references_only,samples_only,both,"
            "either,footprint,most_looked_at\n"
            "0,10,first,515,514,1,513,0,1,514,514,\n"
            "1,11,second,0,0,1,0,1,0,1,1,\n"
            ",,all targets,515,514,2,513,1,1,515,515,\n");
}

// Target 0 has three spans. In the region [0, 100) a bit was found and pages 7 and 20 were sampled,
// 20 in a later epoch with a wider region. In the region [300, 400) no bit was found. Page 500 was
// looked at by itself. Target 1 has page 1, by itself.
Trace WithRegions() {
  const std::vector targets = {MakeTarget(0, 10, "first"), MakeTarget(1, 11, "second")};
  EpochProfile one = MakeEpoch(0, targets);
  See(one, 0,
      {{.vpn = 0, .looks = 9, .references = 2, .span = 7},
       {.vpn = 7, .looks = 9, .references = 2, .loads = 1},
       {.vpn = 8, .looks = 9, .references = 2, .span = 92},
       {.vpn = 300, .looks = 9, .span = 100},
       {.vpn = 500, .looks = 3, .references = 1}});
  EpochProfile two = MakeEpoch(1, targets);
  See(two, 0,
      {{.vpn = 0, .looks = 5, .references = 1, .span = 20},
       {.vpn = 20, .looks = 5, .references = 1, .loads = 1},
       {.vpn = 21, .looks = 5, .references = 1, .span = 129}});
  See(two, 1, {{.vpn = 1, .looks = 1, .references = 1}});
  return TraceOf({one, two});
}

TEST(CoverageTest, DoesNotTakeARegionForPagesThatWereLookedAtOrSampled) {
  const Result<Coverage> coverage = MakeCoverage(WithRegions());
  ASSERT_TRUE(coverage.has_value());
  EXPECT_EQ(coverage->all.samples, PageCount(2));
  for (const auto& unknown :
       {coverage->all.looked_at, coverage->all.references, coverage->all.references_only,
        coverage->all.samples_only, coverage->all.both, coverage->all.either}) {
    EXPECT_EQ(unknown, std::nullopt);
  }
  EXPECT_EQ(coverage->all.most_looked_at, PageCount(150 + 100 + 1 + 1));
  EXPECT_EQ(coverage->all.footprint, PageCount(150 + 1 + 1));
  const PagesSeen& second = coverage->rows[1].seen;
  EXPECT_EQ(second.looked_at, PageCount(1)) << "of a process without regions all is known";
  EXPECT_EQ(second.most_looked_at, std::nullopt);
  EXPECT_NE(CoverageText(*coverage).find(
                "note: of 252 pages those that were looked at are unknown, one at a time of each "
                "region; pages sampled: 2\n"),
            std::string::npos);
  const auto json = nlohmann::json::parse(CoverageJson(*coverage));
  EXPECT_TRUE(json["all"]["looked_at"].is_null());
  EXPECT_EQ(json["all"]["samples"], 2);
  EXPECT_EQ(json["all"]["most_looked_at"], 252);
  EXPECT_TRUE(json["targets"][1]["pages"]["most_looked_at"].is_null());
}

// A full scan that came later does not make it known.
TEST(CoverageTest, DoesNotForgetThatARegionWasThere) {
  const std::vector targets = {MakeTarget(0, 10, "first")};
  EpochProfile one = MakeEpoch(0, targets);
  See(one, 0, {{.vpn = 0, .looks = 9, .references = 2, .span = 2}});
  EpochProfile two = MakeEpoch(1, targets);
  See(two, 0, {{.vpn = 0, .looks = 1}, {.vpn = 1, .loads = 1}});
  const Result<Coverage> coverage = MakeCoverage(TraceOf({one, two}));
  ASSERT_TRUE(coverage.has_value());
  EXPECT_EQ(coverage->all.looked_at, std::nullopt);
  EXPECT_EQ(coverage->all.samples, PageCount(1));
  EXPECT_EQ(coverage->all.most_looked_at, PageCount(2));
}

TEST(CoverageTest, DoesNotKnowWhatASourceThatNeverDeliveredWouldHaveSeen) {
  EpochProfile epoch = MakeEpoch(0, {MakeTarget(0, 10, "only")});
  epoch.sources[1].state = SourceState::kUnavailable;
  See(epoch, 0, {{.vpn = 1, .looks = 1, .references = 1}});
  const Result<Coverage> coverage = MakeCoverage(TraceOf({epoch}));
  ASSERT_TRUE(coverage.has_value());
  EXPECT_EQ(coverage->all.references, PageCount(1));
  EXPECT_FALSE(coverage->all.samples.has_value());
  EXPECT_FALSE(coverage->all.both.has_value());
  EXPECT_EQ(coverage->all.either, PageCount(1));
  const auto json = nlohmann::json::parse(CoverageJson(*coverage));
  EXPECT_TRUE(json["all"]["samples"].is_null());
  EXPECT_EQ(json["all"]["either"], 1);
  EXPECT_NE(CoverageText(*coverage).find("unknown"), std::string::npos);
}

// Pages 1 to 4 with exact accesses, page 9 with none.
EpochProfile Counted(std::vector<SourceStatus> sources) {
  EpochProfile epoch = MakeEpoch(0, {MakeTarget(0, 10, "only")});
  epoch.sources = std::move(sources);
  epoch.sources.push_back(
      {.name = "exact", .role = SourceRole::kTruth, .state = SourceState::kActive});
  Append(
      epoch.pages,
      {.key = {TargetId(0), Vpn(1)}, .span = PageCount(4), .accesses = AccessCounts{.loads = 1}});
  Append(epoch.pages, {.key = {TargetId(0), Vpn(9)}, .accesses = AccessCounts{}});
  return epoch;
}

TEST(CoverageTest, ShowsExactAccessesInPlaceOfSamplesIfAlone) {
  const Result<Coverage> coverage = MakeCoverage(TraceOf({Counted({})}));
  ASSERT_TRUE(coverage.has_value());
  EXPECT_EQ(coverage->all.samples, PageCount(4));
  EXPECT_EQ(coverage->all.either, PageCount(4));
  EXPECT_FALSE(coverage->all.references.has_value());
}

TEST(CoverageTest, LeavesExactAccessesOutBesideASourceThatIsToBeCompared) {
  EpochProfile epoch = Counted({SampleSource(1)});
  See(epoch, 0, {{.vpn = 20, .loads = 1}});
  const Result<Coverage> coverage = MakeCoverage(TraceOf({epoch}));
  ASSERT_TRUE(coverage.has_value());
  EXPECT_EQ(coverage->all.samples, PageCount(1));
  EXPECT_EQ(coverage->all.either, PageCount(1));
}

TEST(CoverageTest, CoverageOfAnEmptyTraceIsUnknown) {
  const Result<Coverage> coverage = MakeCoverage(TraceOf({}));
  ASSERT_TRUE(coverage.has_value());
  EXPECT_FALSE(coverage->all.either.has_value());
  EXPECT_TRUE(coverage->rows.empty());
}

TEST(CoverageTest, ReadsOnlyTheEpochsAskedFor) {
  const Result<Coverage> coverage = MakeCoverage(TwoTargets(), {.first = 1, .end = 2});
  ASSERT_TRUE(coverage.has_value());
  EXPECT_EQ(coverage->all.either, PageCount(2));
}

}  // namespace coverage_test
}  // namespace tmprof
