// SPDX-License-Identifier: Apache-2.0

#include "report/analysis/hot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "tests/report/traces.h"

namespace tmprof {
namespace hot_test {

constexpr HotOptions kSum{.model = RankModel::kSum};

Mapping MakeMapping(std::uint64_t start, std::uint64_t end, MappingKind kind, std::string path) {
  return {.range = {Vpn(start), Vpn(end)}, .kind = kind, .path = std::move(path)};
}

// Scores by references + samples: page 16: 3 + 4 = 7; page 17: 1; page 18: 1; the span of 8 pages
// at 32: 8, which is 1 per page; page 16 of target 1: 2.
Trace Ranked() {
  Target first = MakeTarget(0, 10, "first");
  first.mappings = {MakeMapping(16, 18, MappingKind::kHeap, ""),
                    MakeMapping(32, 64, MappingKind::kFile, "/lib/a,\"b\".so")};
  EpochProfile epoch = MakeEpoch(0, {first, MakeTarget(1, 11, "second")});
  epoch.sources[1] = SampleSource(8);
  epoch.sources[1].details = {{"no_address", 2}, {"kernel_mode", 4}};
  See(epoch, 0,
      {{.vpn = 16, .looks = 5, .references = 3, .loads = 3, .stores = 1},
       {.vpn = 17, .looks = 2, .references = 1},
       {.vpn = 18, .loads = 1},
       {.vpn = 19, .looks = 2},
       {.vpn = 32, .looks = 9, .references = 8, .span = 8}});
  See(epoch, 1, {{.vpn = 16, .stores = 2}});
  return TraceOf({epoch});
}

std::vector<std::uint64_t> Starts(const HotList& list) {
  std::vector<std::uint64_t> starts;
  for (const HotList::Row& row : list.rows) starts.push_back(row.start.value());
  return starts;
}

// Lower ends per page: 3.59 of 7, 0.573 of 2, 0.536 of 8 over 8 pages, 0.180 of 1.
TEST(HotListTest, RanksByTheLowerEndPerPageThenByKeyAndLeavesOutTheCold) {
  const Result<HotList> list = MakeHotList(Ranked(), kSum);
  ASSERT_TRUE(list.has_value());
  EXPECT_THAT(Starts(*list), testing::ElementsAre(16, 16, 32, 17, 18));
  EXPECT_EQ(list->rows[0].target.pid, Pid(10));
  EXPECT_EQ(list->rows[1].target.pid, Pid(11));
  EXPECT_EQ(list->rows[2].score, 8);
  EXPECT_EQ(list->rows[2].span, PageCount(8));
  EXPECT_EQ(list->spans, 5u);
  EXPECT_EQ(list->pages, PageCount(12));
  EXPECT_EQ(list->total_score, 19);
}

// Both map pages 0 to 7 of a file. Page 0 of the file has 5 references by the first and 2 by the
// second, page 1 has 3 by the second alone. Page 90 is the first's own.
Trace Sharing() {
  std::vector<Target> targets = {MakeTarget(0, 10, "first"), MakeTarget(1, 11, "second")};
  for (Target& target : targets) {
    const std::uint64_t start = target.id == TargetId(0) ? 100 : 200;
    target.mappings = {MakeMapping(start, start + 8, MappingKind::kShared, "/dev/shm/x")};
    target.mappings[0].file = FilePlace{.device = 1, .inode = 2};
  }
  EpochProfile epoch = MakeEpoch(0, targets);
  See(epoch, 0,
      {{.vpn = 90, .looks = 9, .references = 4}, {.vpn = 100, .looks = 9, .references = 5}});
  See(epoch, 1,
      {{.vpn = 200, .looks = 9, .references = 2}, {.vpn = 201, .looks = 9, .references = 3}});
  return TraceOf({epoch});
}

TEST(HotListTest, ListsASharedPageOnceWithItsMappers) {
  const Result<HotList> list = MakeHotList(Sharing(), kSum);
  ASSERT_TRUE(list.has_value());
  EXPECT_THAT(Starts(*list), testing::ElementsAre(100, 90, 201));
  EXPECT_EQ(list->rows[0].score, 7);
  EXPECT_EQ(list->rows[0].references, 7);
  EXPECT_NEAR(list->rows[0].relative_sd, 1 / std::sqrt(7.0), 1e-12) << "a count's own error";
  ASSERT_EQ(list->rows[0].mappers.size(), 2u);
  EXPECT_EQ(list->rows[0].mappers[1].target.pid, Pid(11));
  EXPECT_EQ(list->rows[0].mappers[1].start, Vpn(200));
  EXPECT_EQ(list->rows[0].mappers[1].score, 2);
  EXPECT_TRUE(list->rows[2].mappers.empty()) << "one process alone was seen to use it";
  EXPECT_EQ(list->spans, 3u);
  EXPECT_EQ(list->pages, PageCount(3));
  EXPECT_EQ(list->total_score, 14);
  EXPECT_THAT(HotText(*list), testing::HasSubstr("10 +1  first"));
  const auto json = nlohmann::json::parse(HotJson(*list));
  EXPECT_EQ(json["rows"][0]["mappers"][1]["start"], "0xc8000");
  EXPECT_TRUE(json["rows"][1]["mappers"].empty());
}

// The second process has written to page 101 since the fork.
TEST(HotListTest, ListsAForkedPageOnceAndItsCopiesApart) {
  std::vector<Target> targets = {MakeTarget(0, 10, "first"), MakeTarget(1, 11, "second")};
  for (Target& target : targets)
    target.mappings = {MakeMapping(100, 108, MappingKind::kAnonymous, "")};
  EpochProfile epoch = MakeEpoch(0, targets);
  See(epoch, 0,
      {{.vpn = 100, .looks = 9, .references = 5}, {.vpn = 101, .looks = 9, .references = 4}});
  See(epoch, 1,
      {{.vpn = 100, .looks = 9, .references = 2}, {.vpn = 101, .looks = 9, .references = 3}});
  epoch.pages.same_as = {0, 1, 0, 3};
  const Result<HotList> list = MakeHotList(TraceOf({epoch}), kSum);
  ASSERT_TRUE(list.has_value());
  EXPECT_THAT(Starts(*list), testing::ElementsAre(100, 101, 101));
  EXPECT_EQ(list->rows[0].score, 7);
  ASSERT_EQ(list->rows[0].mappers.size(), 2u);
  EXPECT_EQ(list->rows[0].mappers[1].target.pid, Pid(11));
  EXPECT_EQ(list->pages, PageCount(3));
  EXPECT_EQ(list->total_score, 14);
}

TEST(HotListTest, CountsAProcessThatMapsAPageTwiceOnce) {
  Target target = MakeTarget(0, 10, "first");
  for (const std::uint64_t start : {100, 200}) {
    target.mappings.push_back(MakeMapping(start, start + 8, MappingKind::kShared, "/dev/shm/x"));
    target.mappings.back().file = FilePlace{.device = 1, .inode = 2};
  }
  EpochProfile epoch = MakeEpoch(0, {target});
  See(epoch, 0,
      {{.vpn = 100, .looks = 9, .references = 5}, {.vpn = 200, .looks = 9, .references = 2}});
  const Result<HotList> list = MakeHotList(TraceOf({epoch}), kSum);
  ASSERT_TRUE(list.has_value());
  ASSERT_EQ(list->rows.size(), 1u);
  EXPECT_EQ(list->rows[0].mappers.size(), 2u) << "both mappings";
  EXPECT_THAT(HotText(*list), testing::Not(testing::HasSubstr("+1")));
  EXPECT_THAT(HotCsv(*list), testing::HasSubstr(",1\n"));
}

TEST(HotListTest, ListsTheSharedPagesOfOneProcessByItsPart) {
  HotOptions options = kSum;
  options.pid = Pid(11);
  const Result<HotList> list = MakeHotList(Sharing(), options);
  ASSERT_TRUE(list.has_value());
  EXPECT_THAT(Starts(*list), testing::ElementsAre(201, 200));
  EXPECT_EQ(list->rows[1].score, 2);
  EXPECT_EQ(list->total_score, 5);
}

// The processes' shares of a page have errors that the page's sum does not have.
TEST(HotListTest, TellsASharedPageWithASmallerErrorThanAProcesssPart) {
  HotOptions options;
  options.model = RankModel::kRate;
  const Result<HotList> all = MakeHotList(Sharing(), options);
  options.pid = Pid(11);
  const Result<HotList> part = MakeHotList(Sharing(), options);
  ASSERT_TRUE(all.has_value() && part.has_value());
  const auto at = [](const HotList& list, std::size_t mappers, std::uint64_t start) {
    return std::ranges::find_if(list.rows, [&](const HotList::Row& row) {
      return row.mappers.size() == mappers && row.start == Vpn(start);
    });
  };
  const auto page = at(*all, 2, 100);
  const auto of_process = at(*part, 0, 200);
  ASSERT_TRUE(page != all->rows.end() && of_process != part->rows.end());
  EXPECT_LT(page->relative_sd, of_process->relative_sd - 0.05);
}

TEST(HotListTest, TellsTheShareOfTheScoreThatIsShown) {
  HotOptions options = kSum;
  options.limit = 2;
  const Result<HotList> list = MakeHotList(Ranked(), options);
  ASSERT_TRUE(list.has_value());
  EXPECT_THAT(Starts(*list), testing::ElementsAre(16, 16));
  EXPECT_DOUBLE_EQ(*list->shown_share, 9.0 / 19);
}

TEST(HotListTest, CountsOnlyTheSourceAskedFor) {
  HotOptions options = kSum;
  options.by = RankSource::kReferences;
  EXPECT_THAT(Starts(*MakeHotList(Ranked(), options)), testing::ElementsAre(16, 32, 17));
  options.by = RankSource::kSamples;
  EXPECT_THAT(Starts(*MakeHotList(Ranked(), options)), testing::ElementsAre(16, 16, 18));
}

TEST(HotListTest, ShowsOneProcessWhenAsked) {
  HotOptions options = kSum;
  options.pid = Pid(11);
  const Result<HotList> list = MakeHotList(Ranked(), options);
  EXPECT_THAT(Starts(*list), testing::ElementsAre(16));
  EXPECT_EQ(list->total_score, 2);
}

TEST(HotListTest, IsATableInText) {
  EXPECT_EQ(
      HotText(*MakeHotList(Ranked(), kSum)),
      "hottest spans by accesses (combined) over 1 epoch; ordered by the lower end of the 90 % "
      "interval, "
      "per page\n"
      "rank  pid  target    start    span  references  samples (loads+stores)  references + "
      "samples  at least  at most  mapping\n"
      "   1   10  first   0x10000   4 KiB           3                     3+1                 "
      " 7.00      3.59    11.94  heap\n"
      "   2   11  second  0x10000   4 KiB     unknown                     0+2                 "
      " 2.00      0.57     4.65  unknown\n"
      "   3   10  first   0x20000  32 KiB           8                     0+0                 "
      " 8.00      4.29    13.26  file /lib/a,\"b\".so\n"
      "   4   10  first   0x11000   4 KiB           1                     0+0                 "
      " 1.00      0.18     2.78  heap\n"
      "   5   10  first   0x12000   4 KiB     unknown                     1+0                 "
      " 1.00      0.18     2.78  unknown\n"
      "5 of 5 spans shown, holding 100 % of the references + samples; 12 pages in all\n"
      "note: all accesses count because those to memory are unknown: rank model sum estimates no "
      "rates\n"
      "note: clock: of 14 samples, 14.3 % have no address, 28.6 % fell in the kernel\n");
}

TEST(HotListTest, ShowsTheSamplersBlindSpotsOnlyBesideItsOwnRankings) {
  HotOptions options = kSum;
  options.by = RankSource::kReferences;
  EXPECT_THAT(HotText(*MakeHotList(Ranked(), options)),
              testing::Not(testing::HasSubstr("no address")));
}

TEST(HotListTest, QuotesPathsInCsvAndKeepsUnknownEmpty) {
  const std::string csv = HotCsv(*MakeHotList(Ranked(), kSum));
  EXPECT_THAT(csv, testing::HasSubstr(",file,\"/lib/a,\"\"b\"\".so\",,4.288"));
  EXPECT_THAT(csv, testing::HasSubstr("2,1,11,second,0x10000,1,,2,0,2,2,"));
}

TEST(HotListTest, NamesItsFieldsAlikeInJsonAndCsv) {
  const HotList list = *MakeHotList(Ranked(), kSum);
  const auto row = nlohmann::json::parse(HotJson(list))["rows"][0];
  const std::string csv = HotCsv(list);
  const std::string header = "," + csv.substr(0, csv.find("\n")) + ",";
  for (const std::string field :
       {"rank", "target", "start", "span", "references", "samples", "score", "mapping"}) {
    EXPECT_TRUE(row.contains(field)) << field;
    EXPECT_THAT(header, testing::HasSubstr("," + field + ","));
  }
  EXPECT_EQ(row["span"], 1);
  EXPECT_EQ(row["samples"], 4);  // 3 loads + 1 store
}

TEST(HotListTest, HasNullForUnknownInJson) {
  const auto json = nlohmann::json::parse(HotJson(*MakeHotList(Ranked(), kSum)));
  EXPECT_EQ(json["rows"][0]["start"], "0x10000");
  EXPECT_EQ(json["rows"][0]["mapping"]["kind"], "heap");
  EXPECT_TRUE(json["rows"][0]["mapping"]["path"].is_null());
  EXPECT_TRUE(json["rows"][1]["references"].is_null());
  EXPECT_TRUE(json["rows"][1]["mapping"].is_null());
  EXPECT_EQ(json["shown_share"], 1.0);
}

TEST(HotListTest, NamesTheLatestMappingOfAPage) {
  std::vector<EpochProfile> epochs;
  for (const std::uint64_t index : {0, 1, 2}) {
    Target target = MakeTarget(0, 10, "t");
    if (index == 0) target.mappings = {MakeMapping(1, 2, MappingKind::kHeap, "")};
    if (index == 1) target.mappings = {MakeMapping(1, 2, MappingKind::kShared, "/dev/shm/x")};
    epochs.push_back(MakeEpoch(index, {target}));  // gone in the last
    See(epochs.back(), 0, {{.vpn = 1, .loads = 1}});
  }
  const Result<HotList> list = MakeHotList(TraceOf(std::move(epochs)), kSum);
  ASSERT_EQ(list->rows.size(), 1u);
  ASSERT_TRUE(list->rows[0].mapping.has_value());
  EXPECT_EQ(list->rows[0].mapping->path, "/dev/shm/x");
}

TEST(HotListTest, GivesTargetsThatEndedEarlyTheirAccessesOverTheWholeTrace) {
  // Both pages are read once per second of CPU time; the first target ended after one epoch of two.
  EpochProfile one = MakeEpoch(0, {MakeTarget(0, 10, "short"), MakeTarget(1, 11, "long")});
  See(one, 0, {{.vpn = 1, .looks = 1, .references = 1}});
  See(one, 1, {{.vpn = 1, .looks = 1, .references = 1}});
  EpochProfile two = MakeEpoch(1, {MakeTarget(1, 11, "long")});
  See(two, 1, {{.vpn = 1, .looks = 1, .references = 1}});
  const Result<HotList> list =
      MakeHotList(TraceOf({one, two}), {.model = RankModel::kRate, .by = RankSource::kReferences});
  ASSERT_TRUE(list.has_value());
  ASSERT_EQ(list->rows.size(), 2u);
  EXPECT_EQ(list->rows[0].target.pid, Pid(11));
  EXPECT_GT(list->rows[1].score, 0);
}

TEST(HotListTest, SaysThatItCannotNameTheObjectsOfTheTrace) {
  EpochProfile epoch = MakeEpoch(0, {MakeTarget(0, 10, "t")});
  See(epoch, 0, {{.vpn = 16, .looks = 5, .references = 3}});
  constexpr const char* kNote = "tells of objects";
  EXPECT_THAT(HotText(*MakeHotList(TraceOf({epoch}), kSum)),
              testing::Not(testing::HasSubstr(kNote)));
  epoch.extension = ExtensionSlot(std::make_unique<UndecodedExtension>("bytes", 0));
  const Result<HotList> list = MakeHotList(TraceOf({epoch}), kSum);
  ASSERT_TRUE(list.has_value());
  EXPECT_THAT(HotText(*list), testing::HasSubstr(kNote));
  EXPECT_THAT(HotJson(*list), testing::HasSubstr(kNote));
}

TEST(HotListTest, RefusesAnObjectThatNobodyNames) {
  HotOptions options = kSum;
  options.object = 0x10000;
  const Result<HotList> list = MakeHotList(Ranked(), options);
  ASSERT_FALSE(list.has_value());
  EXPECT_THAT(list.error().Message(), testing::HasSubstr("nobody names the objects"));
}

// A page of which little is known is no reason to act, however high its estimate is.
TEST(HotListTest, PutsAWellKnownPageBeforeAHotterOneOfGreatError) {
  std::vector<EpochProfile> epochs;
  for (std::uint64_t e = 0; e < 4; ++e) {
    epochs.push_back(MakeEpoch(e, {MakeTarget(0, 10, "t")}));
    See(epochs.back(), 0, {{.vpn = 1, .looks = 90, .references = 25}});
  }
  See(epochs.back(), 0, {{.vpn = 2, .looks = 1, .references = 1, .span = 1}});
  HotOptions options = kSum;
  const Result<HotList> list = MakeHotList(TraceOf(epochs), options);
  ASSERT_TRUE(list.has_value());
  EXPECT_THAT(Starts(*list), testing::ElementsAre(1, 2));
  EXPECT_GT(list->rows[1].interval.high / list->rows[1].interval.low, 10);
  EXPECT_LT(list->rows[0].interval.high / list->rows[0].interval.low, 2);
}

Trace Exact() {
  EpochProfile epoch = MakeEpoch(0, {MakeTarget(0, 10, "t")});
  epoch.sources = {{.name = "exact", .role = SourceRole::kTruth, .state = SourceState::kActive}};
  Append(epoch.pages, {.key = {TargetId(0), Vpn(1)}, .accesses = AccessCounts{.loads = 7}});
  Append(epoch.pages, {.key = {TargetId(0), Vpn(2)}, .accesses = AccessCounts{.stores = 2500}});
  return TraceOf({epoch});
}

TEST(HotListTest, ShowsExactCountsWithoutBeingAskedAndNoColumnThatNobodyFilled) {
  const HotList list = *MakeHotList(Exact(), {});
  EXPECT_THAT(Starts(list), testing::ElementsAre(2, 1));
  EXPECT_EQ(HotText(list),
            "hottest spans by accesses (truth) over 1 epoch\n"
            "rank  pid  target   start   span  thousand accesses  mapping\n"
            "   1   10  t       0x2000  4 KiB             2.5000  unknown\n"
            "   2   10  t       0x1000  4 KiB             0.0070  unknown\n"
            "2 of 2 spans shown, holding 100 % of the accesses; 2 pages in all\n"
            "note: all accesses count because those to memory are unknown: accesses were "
            "counted without a model of a cache\n");
  const auto json = nlohmann::json::parse(HotJson(list));
  EXPECT_EQ(json["by"], "truth");
  EXPECT_TRUE(json["rows"][0]["load_samples"].is_null());
  EXPECT_TRUE(json["rows"][0]["samples"].is_null());
}

TEST(HotListTest, AnEmptyTraceHasAnEmptyHotList) {
  const Result<HotList> list = MakeHotList(TraceOf({}), {});
  ASSERT_TRUE(list.has_value());
  EXPECT_TRUE(list->rows.empty());
  EXPECT_FALSE(list->shown_share.has_value());
  EXPECT_THAT(HotText(*list), testing::HasSubstr("0 of 0 spans shown, holding unknown"));
}

}  // namespace hot_test
}  // namespace tmprof
