// SPDX-License-Identifier: Apache-2.0

#include "objects/analysis/object_advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "tests/base/text/text_tables.h"
#include "tests/objects/analysis/profiles.h"
#include "tests/report/traces.h"

namespace tmprof {
namespace object_advice_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kHalf = kPage / 2;

// Scores are references and samples, added up.
ObjectAdviceOptions Options() { return {.model = RankModel::kSum, .ratios = {{1, 2}}}; }

// One epoch of a program whose sites are numbered from 1 on; site n is called from offset 0x100 n.
class Program {
 public:
  Program() : epoch_(MakeEpoch(0, {MakeTarget(0, 42, "program")})) {
    SetAllocations(epoch_).all_from_bytes = 1;
    for (std::uint32_t site = 1; site <= 4; ++site) {
      AllocationsOf(epoch_)->sites.push_back({.id = site,
                                              .frames = {{.function = "make" + std::to_string(site),
                                                          .module = "/bin/program",
                                                          .offset = 0x100 * site}}});
    }
  }

  // Pages are given in ascending order.
  Program& Page(std::uint64_t page, std::uint32_t references) {
    See(epoch_, 0, {{.vpn = page, .looks = 1000, .references = references}});
    return *this;
  }
  Program& Object(std::uint32_t site, std::uint64_t address, std::uint64_t bytes,
                  double weight = 1) {
    AllocationsOf(epoch_)->events.push_back({.target = TargetId(0),
                                             .kind = AllocationKind::kAllocated,
                                             .address = address,
                                             .bytes = bytes,
                                             .time = epoch_.start,
                                             .site = site,
                                             .weight = weight});
    return *this;
  }
  // `pages` pages that each hold half a page of site 1 and half a page of site 2.
  Program& Mixed(std::uint64_t first, std::uint64_t pages, std::uint32_t references) {
    for (std::uint64_t page = first; page < first + pages; ++page) {
      Object(1, page * kPage, kHalf).Object(2, page * kPage + kHalf, kHalf).Page(page, references);
    }
    return *this;
  }
  Program& Own(std::uint32_t site, std::uint64_t first, std::uint64_t pages,
               std::uint32_t references) {
    for (std::uint64_t page = first; page < first + pages; ++page) {
      Object(site, page * kPage, kPage).Page(page, references);
    }
    return *this;
  }

  ObjectAdvice Advise(const ObjectAdviceOptions& options = Options()) const {
    Result<ObjectAdvice> advice = MakeObjectAdvice(TraceOf({epoch_}), options);
    if (!advice) {
      ADD_FAILURE() << advice.error().Message();
      return {};
    }
    return *std::move(advice);
  }

  EpochProfile epoch_;
};

const ObjectAdvice::Site& SiteOf(const ObjectAdvice& advice, const std::string& function) {
  for (const ObjectAdvice::Site& site : advice.sites) {
    if (site.frames.at(0).function == function) return site;
  }
  ADD_FAILURE() << function;
  static const ObjectAdvice::Site none{};
  return none;
}

// The counts of another build: accesses of site n.
CountedStack CountedAt(std::uint32_t site, std::uint64_t accesses) {
  return {.frames = {{.function = "make" + std::to_string(site),
                      .module = "/bin/counted",
                      .offset = 0x1000 * site}},
          .accesses = accesses};
}

ObjectAdviceOptions WithCounts(const std::vector<CountedStack>& stacks) {
  ObjectAdviceOptions options = Options();
  options.counts = ProfileOf(stacks);
  return options;
}

AdvisedSite Advised(std::optional<std::uint32_t> arena, std::uint32_t site) {
  return {.arena = arena, .calls = {{"/bin/program", 0x100 * site}}};
}

TEST(ObjectAdvice, SitesThatMixAreKnownByThePagesThatAreTheirOwn) {
  // Site 1 has 6 pages' worth, 2 of them its own, with 20 each: 120. Site 2 has so many, with 1
  // each: 6.
  const ObjectAdvice advice =
      Program().Mixed(16, 8, 10).Own(1, 32, 2, 20).Own(2, 48, 2, 1).Advise();
  const ObjectAdvice::Site& hot = SiteOf(advice, "make1");
  EXPECT_EQ(hot.verdict, SiteVerdict::kHot);
  EXPECT_DOUBLE_EQ(hot.accesses, 120);
  EXPECT_DOUBLE_EQ(hot.known_share, 1.0 / 3);
  EXPECT_DOUBLE_EQ(hot.peak_bytes, 6 * kPage);
  EXPECT_EQ(hot.objects, 10U);
  const ObjectAdvice::Site& cold = SiteOf(advice, "make2");
  EXPECT_EQ(cold.verdict, SiteVerdict::kCold);
  EXPECT_DOUBLE_EQ(cold.accesses, 6);
  EXPECT_THAT(advice.advice.sites, ElementsAre(Advised(kHotArena, 1), Advised(kColdArena, 2)));
}

TEST(ObjectAdvice, PredictsWhatPackingGains) {
  const ObjectAdvice advice =
      Program().Mixed(16, 8, 10).Own(1, 32, 2, 20).Own(2, 48, 2, 1).Advise();
  EXPECT_EQ(advice.pages, 12U);
  EXPECT_DOUBLE_EQ(advice.accesses, 122);
  // 2 pages of 20 and 4 of 10; packed, 6 of the 7 pages that 10 headers of 16 bytes make of 6.
  ASSERT_EQ(advice.hit_rates.size(), 1U);
  EXPECT_DOUBLE_EQ(advice.hit_rates[0].now, 80.0 / 122);
  EXPECT_DOUBLE_EQ(advice.hit_rates[0].advised.value(), 120.0 * 6 / 7 / 126);
  EXPECT_EQ(advice.hot_pages, 9U) << "109.8: 2 pages of 20, and of 10 another 7";
  EXPECT_EQ(advice.hot_pages_advised, 7U) << "113.4 of 120 in 7 pages";
}

TEST(ObjectAdvice, HotSitesHaveTheRoomOfTier1) {
  // Each of these has 4 of the 16 accessed pages for itself, each less hot than the one before.
  Program program;
  program.Own(1, 16, 4, 30).Own(2, 32, 4, 20).Own(3, 48, 4, 19).Own(4, 64, 4, 18);
  ObjectAdviceOptions options = Options();
  options.hot_share = 1;
  const ObjectAdvice all = program.Advise(options);
  EXPECT_EQ(all.Count(SiteVerdict::kHot), 4U);
  EXPECT_FALSE(all.hot_room_bytes.has_value());
  EXPECT_TRUE(all.advice.room_bytes.empty());

  options.hot_room = Ratio{.numerator = 3, .denominator = 8};
  const ObjectAdvice some = program.Advise(options);
  EXPECT_EQ(some.hot_room_bytes, 6 * kPage);
  EXPECT_EQ(SiteOf(some, "make1").verdict, SiteVerdict::kHot);
  EXPECT_EQ(SiteOf(some, "make2").verdict, SiteVerdict::kHot) << "half of it has room";
  EXPECT_EQ(SiteOf(some, "make3").verdict, SiteVerdict::kStays);
  EXPECT_EQ(SiteOf(some, "make4").verdict, SiteVerdict::kStays);
  EXPECT_THAT(some.advice.room_bytes, ElementsAre(std::pair(kHotArena, 6 * kPage)));
  EXPECT_EQ(some.hot_bytes, 8 * (kPage + 16)) << "a header each";
  EXPECT_THAT(TitlesWithoutUnit(ObjectAdviceText(some)), testing::IsEmpty());
  EXPECT_THAT(ObjectAdviceText(some), HasSubstr("malloc has the rest of their objects"));

  options.hot_room = std::uint64_t{9 * kPage};
  const ObjectAdvice bytes = program.Advise(options);
  EXPECT_EQ(SiteOf(bytes, "make3").verdict, SiteVerdict::kHot);
  EXPECT_EQ(SiteOf(bytes, "make4").verdict, SiteVerdict::kStays);
}

TEST(ObjectAdvice, PredictsThatWhatHasNoRoomGainsNothing) {
  // The arena has room for half of site 1.
  ObjectAdviceOptions options = Options();
  options.hot_room = std::uint64_t{6 * kPage + 10 * 16} / 2;
  const ObjectAdvice advice =
      Program().Mixed(16, 8, 10).Own(1, 32, 2, 20).Own(2, 48, 2, 1).Advise(options);
  ASSERT_EQ(advice.hit_rates.size(), 1U);
  const double packed = advice.hit_rates[0].advised.value();
  EXPECT_GT(packed, advice.hit_rates[0].now);
  EXPECT_LT(packed, 120.0 * 6 / 7 / 126) << "of all of it packed";
}

TEST(ObjectAdvice, SitesThatShareAllTheirPagesAreSetApartAndThenKnown) {
  const ObjectAdvice first = Program().Mixed(16, 16, 10).Own(3, 64, 16, 0).Advise();
  EXPECT_EQ(SiteOf(first, "make1").verdict, SiteVerdict::kApart);
  EXPECT_EQ(SiteOf(first, "make2").verdict, SiteVerdict::kApart);
  EXPECT_EQ(SiteOf(first, "make3").verdict, SiteVerdict::kCold) << "nothing of it was accessed";
  EXPECT_FALSE(first.hot_pages_advised.has_value()) << "what is apart may be hot or cold";
  EXPECT_FALSE(first.hit_rates.at(0).advised.has_value());
  EXPECT_THAT(ObjectAdviceText(first), HasSubstr("record again with this advice"));
  EXPECT_THAT(first.advice.sites, testing::UnorderedElementsAre(Advised(kFirstApartArena, 1),
                                                                Advised(kFirstApartArena + 1, 2),
                                                                Advised(kColdArena, 3)));

  // The file has no line for site 4.
  ObjectAdviceOptions options = Options();
  options.placed_under = first.advice;
  Program placed;
  placed.Own(1, 16, 8, 100).Own(2, 32, 8, 1).Own(3, 64, 16, 0);
  placed.Own(4, 80, 8, 0);
  const ObjectAdvice second = placed.Advise(options);
  EXPECT_EQ(SiteOf(second, "make1").verdict, SiteVerdict::kHot);
  EXPECT_EQ(SiteOf(second, "make2").verdict, SiteVerdict::kCold);
  EXPECT_EQ(SiteOf(second, "make3").verdict, SiteVerdict::kCold);
  EXPECT_EQ(SiteOf(second, "make4").verdict, SiteVerdict::kCold);
  EXPECT_TRUE(second.hot_pages_advised.has_value());
  EXPECT_THAT(ObjectAdviceText(second), Not(HasSubstr("record again")));
}

TEST(ObjectAdvice, AVerdictStandsIfTheSiteSharesItsPagesNow) {
  ObjectAdviceOptions options = Options();
  options.placed_under =
      ArenaAdvice{.nodes = {}, .sites = {Advised(kHotArena, 1), Advised(kHotArena, 2)}};
  const ObjectAdvice advice = Program().Mixed(16, 16, 10).Own(3, 64, 16, 1).Advise(options);
  EXPECT_EQ(SiteOf(advice, "make1").verdict, SiteVerdict::kHot);
  EXPECT_EQ(SiteOf(advice, "make2").verdict, SiteVerdict::kHot);
  EXPECT_EQ(SiteOf(advice, "make3").verdict, SiteVerdict::kCold);
}

TEST(ObjectAdvice, GivesTheRoomToTheDensestHotSites) {
  Program program;
  program.Own(1, 16, 4, 18).Own(2, 32, 4, 30).Own(3, 48, 4, 20).Own(4, 64, 4, 1);
  ObjectAdviceOptions options = Options();
  options.placed_under = ArenaAdvice{.sites = {Advised(kHotArena, 1), Advised(kHotArena, 2),
                                               Advised(kHotArena, 3), Advised(kColdArena, 4)}};
  EXPECT_EQ(program.Advise(options).Count(SiteVerdict::kHot), 3U);
  options.hot_room = std::uint64_t{6 * kPage};
  const ObjectAdvice some = program.Advise(options);
  EXPECT_EQ(SiteOf(some, "make2").verdict, SiteVerdict::kHot);
  EXPECT_EQ(SiteOf(some, "make3").verdict, SiteVerdict::kHot) << "half of it has room";
  EXPECT_EQ(SiteOf(some, "make1").verdict, SiteVerdict::kStays);
  EXPECT_EQ(SiteOf(some, "make4").verdict, SiteVerdict::kCold);
}

TEST(ObjectAdvice, SitesInPagesThatAreNotHotAreColdWhateverTheyShare) {
  const ObjectAdvice advice = Program().Mixed(16, 16, 1).Own(3, 64, 4, 1000).Advise();
  EXPECT_EQ(SiteOf(advice, "make1").verdict, SiteVerdict::kCold);
  EXPECT_EQ(SiteOf(advice, "make2").verdict, SiteVerdict::kCold);
  EXPECT_EQ(SiteOf(advice, "make3").verdict, SiteVerdict::kHot);
}

TEST(ObjectAdvice, SampledSitesOwnNoPageUntilTheyHaveAnArena) {
  // One of 64 bytes that stands for 2048 of them: others of them may lie anywhere.
  Program program;
  program.Object(1, 16 * kPage, 64, 2048).Page(16, 1000).Own(3, 64, 16, 1);
  const ObjectAdvice first = program.Advise();
  EXPECT_EQ(SiteOf(first, "make1").verdict, SiteVerdict::kApart);
  ObjectAdviceOptions options = Options();
  options.placed_under = ArenaAdvice{.nodes = {}, .sites = {Advised(kFirstApartArena, 1)}};
  const ObjectAdvice second = program.Advise(options);
  EXPECT_EQ(SiteOf(second, "make1").verdict, SiteVerdict::kHot);
  EXPECT_DOUBLE_EQ(SiteOf(second, "make1").accesses, 1000.0 / 64 * 2048);
}

TEST(ObjectAdvice, APageIsOwnOnlyAsAWholeIfSomeAllocationsAreUnknown) {
  const auto verdicts = [](Program program) {
    const ObjectAdvice advice = program.Advise();
    return std::pair(SiteOf(advice, "make1").verdict, SiteOf(advice, "make2").verdict);
  };
  Program program;
  for (std::uint64_t page = 16; page < 32; ++page) {
    program.Object(1, page * kPage, kPage * 3 / 4).Page(page, 100);
  }
  program.Own(2, 32, 16, 80);
  EXPECT_EQ(verdicts(program), std::pair(SiteVerdict::kHot, SiteVerdict::kHot));
  Program lost = program;
  AllocationsOf(lost.epoch_)->lost = 1;
  EXPECT_EQ(verdicts(lost), std::pair(SiteVerdict::kApart, SiteVerdict::kHot));
  for (const std::optional<std::uint64_t> from : {std::optional<std::uint64_t>(2), {}}) {
    Program smaller = program;
    AllocationsOf(smaller.epoch_)->all_from_bytes = from;
    EXPECT_EQ(verdicts(smaller), std::pair(SiteVerdict::kApart, SiteVerdict::kHot))
        << "though none of them happened to be recorded";
  }
  Program unknown = program;
  unknown.Object(kUnknownSite, 16 * kPage + 3072, 1024);
  EXPECT_EQ(verdicts(unknown), std::pair(SiteVerdict::kApart, SiteVerdict::kHot));
}

TEST(ObjectAdvice, ASiteThatIsNotAloneWhereItsArenaIsIsNotKnownByIt) {
  ObjectAdviceOptions options = Options();
  options.placed_under = ArenaAdvice{.nodes = {}, .sites = {Advised(kFirstApartArena, 1)}};
  const ObjectAdvice advice = Program().Mixed(16, 16, 10).Own(3, 64, 16, 0).Advise(options);
  EXPECT_EQ(SiteOf(advice, "make1").verdict, SiteVerdict::kApart)
      << "as aligned ones are not placed";
}

TEST(ObjectAdvice, StacksThatTheTrackerCannotTellApartAreOneSite) {
  Program program;
  program.Own(1, 16, 16, 100).Own(2, 32, 16, 0);
  auto& sites = AllocationsOf(program.epoch_)->sites;
  const SourceFrame main = sites[0].frames[0];
  const SourceFrame recursive{.function = "grow", .module = "/bin/program", .offset = 0x20};
  sites[0].frames = {recursive, main};
  sites[1].frames = {recursive, recursive, main};
  const ObjectAdvice advice = program.Advise();
  ASSERT_EQ(advice.sites.size(), 1U);
  EXPECT_DOUBLE_EQ(advice.sites[0].peak_bytes, 32 * kPage);
  EXPECT_DOUBLE_EQ(advice.sites[0].accesses, 1600);
  EXPECT_EQ(advice.advice.sites.size(), 1U);
}

TEST(ObjectAdvice, AJudgedSiteThatIsNotSeenKeepsItsPlace) {
  ObjectAdviceOptions options = Options();
  options.placed_under = ArenaAdvice{
      .nodes = {{kColdArena, {2}}},
      .sites = {Advised(kColdArena, 3), Advised(std::nullopt, 4), Advised(kFirstApartArena, 2)}};
  const ObjectAdvice advice = Program().Own(1, 16, 16, 100).Advise(options);
  EXPECT_THAT(advice.advice.sites,
              ElementsAre(Advised(kHotArena, 1), Advised(kColdArena, 3), Advised(std::nullopt, 4)));
  EXPECT_EQ(advice.advice.nodes, options.placed_under->nodes);
}

TEST(ObjectAdvice, ASiteThatNobodyLookedAtIsUnknown) {
  Program program;
  program.Own(1, 16, 16, 100).Object(2, 64 * kPage, 16 * kPage);
  const ObjectAdvice advice = program.Advise();
  EXPECT_EQ(SiteOf(advice, "make2").verdict, SiteVerdict::kStays);
  EXPECT_THAT(ObjectAdviceText(advice), HasSubstr("nothing"));
}

TEST(ObjectAdvice, OneHotObjectMakesAPageHotWhoeverHasTheRest) {
  Program program;
  for (std::uint64_t page = 16; page < 48; ++page) {
    program.Object(1, page * kPage, 128).Object(2, page * kPage + 128, kPage - 128).Page(page, 10);
  }
  const ObjectAdvice advice = program.Own(3, 64, 32, 0).Advise();
  EXPECT_EQ(SiteOf(advice, "make2").verdict, SiteVerdict::kApart);
}

TEST(ObjectAdvice, AHugeColdSiteIsNotHotForTheSakeOfItsShare) {
  // 100 a page, and 1 a page that make a fifth of all accesses.
  const ObjectAdvice advice = Program().Own(1, 16, 8, 100).Own(2, 32, 200, 1).Advise();
  EXPECT_EQ(SiteOf(advice, "make1").verdict, SiteVerdict::kHot);
  EXPECT_EQ(SiteOf(advice, "make2").verdict, SiteVerdict::kCold);
}

TEST(ObjectAdvice, NoSiteIsColdIfAllAreAlike) {
  const ObjectAdvice advice = Program().Own(1, 16, 16, 10).Own(2, 32, 16, 10).Advise();
  EXPECT_EQ(advice.Count(SiteVerdict::kCold), 0U);
}

// Pages 16 to 19 were one span of 20 references, and are four of 10, 10, 0 and 0 an epoch later.
TEST(ObjectAdvice, PagesWhoseSpanChangesCountOnce) {
  EpochProfile first = MakeEpoch(0, {MakeTarget(0, 42, "program")});
  SetAllocations(first);
  AllocationsOf(first)->sites.push_back(
      {.id = 1, .frames = {{.function = "make1", .module = "/bin/program", .offset = 0x100}}});
  for (std::uint64_t page = 16; page < 20; ++page) {
    AllocationsOf(first)->events.push_back({.target = TargetId(0),
                                            .kind = AllocationKind::kAllocated,
                                            .address = page * kPage,
                                            .bytes = kPage,
                                            .time = first.start,
                                            .site = 1,
                                            .weight = 1});
  }
  EpochProfile second = MakeEpoch(1, {MakeTarget(0, 42, "program")});
  SetAllocations(second);
  See(first, 0, {{.vpn = 16, .looks = 20, .references = 20, .span = 4}});
  See(second, 0,
      {{.vpn = 16, .looks = 10, .references = 10}, {.vpn = 17, .looks = 10, .references = 10}});
  const Result<ObjectAdvice> advice = MakeObjectAdvice(TraceOf({first, second}), Options());
  ASSERT_TRUE(advice.has_value());
  EXPECT_EQ(advice->pages, 4U);
  EXPECT_DOUBLE_EQ(advice->accesses, 40);
  EXPECT_DOUBLE_EQ(advice->hit_rates.at(0).now, 30.0 / 40);
  EXPECT_DOUBLE_EQ(SiteOf(*advice, "make1").accesses, 40);
  EXPECT_DOUBLE_EQ(SiteOf(*advice, "make1").known_share, 1);
}

TEST(ObjectAdvice, SmallSitesStay) {
  const ObjectAdvice advice = Program().Own(1, 16, 3, 1000).Own(2, 32, 16, 1).Advise();
  EXPECT_EQ(SiteOf(advice, "make1").verdict, SiteVerdict::kStays);
  EXPECT_THAT(advice.advice.sites, testing::Contains(Advised(std::nullopt, 1)))
      << "so that it is told apart from others";
}

TEST(ObjectAdvice, CallsAreSpeltAsTheTrackerLooksThemUp) {
  Program program;
  program.Own(1, 16, 16, 10);
  AllocationsOf(program.epoch_)->sites[0].frames = {
      {.function = "inlined", .module = "/lib/a.so", .offset = 0x10},
      {.function = "around", .module = "/lib/a.so", .offset = 0x10},
      {.function = "recursive", .module = "/bin/program", .offset = 0x20},
      {.function = "recursive", .module = "/bin/program", .offset = 0x20},
      {.function = "", .module = "", .offset = 0x7f0000},
      {.function = "main", .module = "/bin/program", .offset = 0x30}};
  const ObjectAdvice advice = program.Advise();
  ASSERT_EQ(advice.advice.sites.size(), 1U);
  EXPECT_THAT(advice.advice.sites[0].calls,
              ElementsAre(AdvisedCall{"/lib/a.so", 0x10}, AdvisedCall{"/bin/program", 0x20}));

  AllocationsOf(program.epoch_)->sites[0].frames = {
      {.function = "", .module = "", .offset = 0x7f0}};
  const ObjectAdvice unnamed = program.Advise();
  EXPECT_THAT(unnamed.advice.sites, testing::IsEmpty());
  EXPECT_EQ(unnamed.unplaced, 1U);
  EXPECT_THAT(ObjectAdviceText(unnamed), HasSubstr("cannot name"));
}

TEST(ObjectAdvice, IsOfTheBuildThatWasRecorded) {
  Program program;
  program.Own(1, 16, 16, 100).Own(2, 32, 16, 1);
  AllocationsOf(program.epoch_)->files = {{.path = "/bin/program", .build_id = "\x01\xfe"},
                                          {.path = "/lib/other.so", .build_id = "of no site"}};
  const ObjectAdvice advice = program.Advise();
  EXPECT_THAT(advice.advice.build_ids, ElementsAre(std::pair("/bin/program", "\x01\xfe")));
  EXPECT_THAT(ObjectAdviceFile(advice), HasSubstr("\nmodule 1 /bin/program\nbuild 1 01fe\n"));

  // Advice for another build says nothing about the places of this one's calls.
  ObjectAdviceOptions options = Options();
  options.placed_under = ArenaAdvice{.sites = {Advised(kColdArena, 1), Advised(kColdArena, 9)},
                                     .build_ids = {{"/bin/program", "\x01\xfe"}}};
  const ObjectAdvice again = program.Advise(options);
  EXPECT_EQ(SiteOf(again, "make1").verdict, SiteVerdict::kCold);
  EXPECT_THAT(again.advice.sites, testing::Contains(Advised(kColdArena, 9)));
  options.placed_under->build_ids["/bin/program"] = "\x02";
  const ObjectAdvice rebuilt = program.Advise(options);
  EXPECT_EQ(SiteOf(rebuilt, "make1").verdict, SiteVerdict::kHot);
  EXPECT_THAT(rebuilt.advice.sites, Not(testing::Contains(Advised(kColdArena, 9))));
}

TEST(ObjectAdvice, ColdObjectsCanBeBoundToNodes) {
  ObjectAdviceOptions options = Options();
  options.cold_nodes = {2, 3};
  const std::string file =
      ObjectAdviceFile(Program().Own(1, 16, 16, 100).Own(2, 32, 16, 1).Advise(options));
  EXPECT_THAT(file, HasSubstr("\nbind 1 2,3\n"));
  EXPECT_THAT(file, HasSubstr("\nsite 0 1+0x100\nsite 1 1+0x200\n"));
  EXPECT_THAT(file, HasSubstr("\n# hot make1\n"));
}

TEST(ObjectAdvice, CountsOfAnotherBuildSayWhoseTheHeatOfSharedPagesIs) {
  // 160 in all that sites 1 and 2 share, and 20 of site 3, which was not counted.
  const Program program = Program().Mixed(16, 16, 10).Own(3, 64, 20, 1);
  const ObjectAdvice advice = program.Advise(WithCounts({CountedAt(1, 900), CountedAt(2, 100)}));
  const ObjectAdvice::Site& hot = SiteOf(advice, "make1");
  EXPECT_EQ(hot.verdict, SiteVerdict::kHot);
  EXPECT_EQ(hot.known_by, KnownBy::kCounts);
  EXPECT_EQ(hot.counted, 900U);
  EXPECT_DOUBLE_EQ(hot.accesses, 144);
  const ObjectAdvice::Site& cold = SiteOf(advice, "make2");
  EXPECT_EQ(cold.verdict, SiteVerdict::kCold);
  EXPECT_DOUBLE_EQ(cold.accesses, 16);
  const ObjectAdvice::Site& own = SiteOf(advice, "make3");
  EXPECT_EQ(own.verdict, SiteVerdict::kCold);
  EXPECT_EQ(own.known_by, KnownBy::kPages);
  EXPECT_FALSE(own.counted.has_value()) << "unknown is not 0";
  EXPECT_DOUBLE_EQ(own.accesses, 20);
  EXPECT_THAT(advice.advice.sites,
              ElementsAre(Advised(kHotArena, 1), Advised(kColdArena, 2), Advised(kColdArena, 3)));

  // 36 pages, so 18 in tier 1: the hot arena's 9, for 16 times 2064 bytes, and 9 of the cold one's
  // 29, for another 16 of these and 20 times 4112.
  ASSERT_TRUE(advice.hit_rates.at(0).advised.has_value()) << "no site is unknown";
  EXPECT_DOUBLE_EQ(*advice.hit_rates[0].advised, (144 + (16.0 + 20) * 9 / 29) / 180);
}

TEST(ObjectAdvice, SitesThatNoCountIsOfStayAsTheirPagesHaveThem) {
  // Counts of another program for site 4 belong to nobody here.
  const Program program = Program().Mixed(16, 16, 10);
  const ObjectAdvice advice = program.Advise(WithCounts({CountedAt(1, 300), CountedAt(4, 100)}));
  EXPECT_EQ(SiteOf(advice, "make1").verdict, SiteVerdict::kHot);
  EXPECT_DOUBLE_EQ(SiteOf(advice, "make1").accesses, 80) << "all that its bytes have";
  EXPECT_EQ(SiteOf(advice, "make2").verdict, SiteVerdict::kApart);
  EXPECT_FALSE(advice.hit_rates.at(0).advised.has_value());
  ASSERT_TRUE(advice.counts.has_value());
  EXPECT_DOUBLE_EQ(advice.counts->FoundShare(), 0.75);
  EXPECT_EQ(advice.counts->missing_sites, 1U);

  const std::string text = ObjectAdviceText(advice);
  EXPECT_THAT(text, HasSubstr("counts: 75 % of 400 accesses"));
  EXPECT_THAT(text, HasSubstr("note: not in the trace: 1 counted site with accesses"));
  EXPECT_THAT(text, testing::ContainsRegex("hot .* counts  make1\n"));
  const auto json = nlohmann::json::parse(ObjectAdviceJson(advice));
  EXPECT_EQ(json["counts"]["accesses"], 400);
  EXPECT_EQ(json["counts"]["found_share"], 0.75);
  EXPECT_EQ(json["counts"]["missing_sites"], 1);
  EXPECT_EQ(json["counts"]["ambiguous_sites"], 0);
  EXPECT_EQ(json["sites"][0]["known_by"], "counts");
  EXPECT_EQ(json["sites"][0]["counted"], 300);
  EXPECT_TRUE(json["sites"][1]["known_by"].is_null());
  EXPECT_TRUE(json["sites"][1]["counted"].is_null());

  const auto without = nlohmann::json::parse(ObjectAdviceJson(program.Advise()));
  EXPECT_TRUE(without["counts"].is_null());
  EXPECT_THAT(ObjectAdviceText(program.Advise()), Not(HasSubstr("counts:")));
}

TEST(ObjectAdvice, ASiteThatWasCountedWithoutAccessesIsColdHoweverHotItsPagesAre) {
  const ObjectAdvice advice =
      Program().Mixed(16, 16, 10).Advise(WithCounts({CountedAt(1, 900), CountedAt(2, 0)}));
  EXPECT_EQ(SiteOf(advice, "make2").verdict, SiteVerdict::kCold);
  EXPECT_EQ(SiteOf(advice, "make2").counted, 0U);
  EXPECT_DOUBLE_EQ(SiteOf(advice, "make2").accesses, 0);
  EXPECT_DOUBLE_EQ(SiteOf(advice, "make1").accesses, 160);

  // Nor is one that nobody looked at unknown.
  Program unseen;
  unseen.Own(1, 16, 16, 100).Object(2, 64 * kPage, 16 * kPage);
  EXPECT_EQ(
      SiteOf(unseen.Advise(WithCounts({CountedAt(1, 900), CountedAt(2, 0)})), "make2").verdict,
      SiteVerdict::kCold);
}

TEST(ObjectAdvice, CountsCorrectWhatPagesOrAnEarlierAdviceSay) {
  // Site 2 is as cold as can be by its pages and was judged hot; site 1 the other way round.
  Program program;
  program.Own(1, 16, 16, 10).Own(2, 32, 16, 1);
  ObjectAdviceOptions options = WithCounts({CountedAt(1, 1), CountedAt(2, 99)});
  EXPECT_EQ(SiteOf(program.Advise(options), "make1").verdict, SiteVerdict::kCold);
  EXPECT_EQ(SiteOf(program.Advise(options), "make2").verdict, SiteVerdict::kHot);
  EXPECT_DOUBLE_EQ(SiteOf(program.Advise(options), "make2").accesses, 176 * 0.99);

  options.placed_under = ArenaAdvice{.sites = {Advised(kHotArena, 1), Advised(kColdArena, 2)}};
  const ObjectAdvice again = program.Advise(options);
  EXPECT_EQ(SiteOf(again, "make1").verdict, SiteVerdict::kCold);
  EXPECT_EQ(SiteOf(again, "make2").verdict, SiteVerdict::kHot);
  EXPECT_THAT(again.advice.sites, ElementsAre(Advised(kHotArena, 2), Advised(kColdArena, 1)));

  options.counts = ProfileOf({CountedAt(2, 99)});
  const ObjectAdvice one = program.Advise(options);
  EXPECT_EQ(SiteOf(one, "make1").verdict, SiteVerdict::kHot) << "it was not counted";
  EXPECT_EQ(SiteOf(one, "make1").known_by, KnownBy::kAdvice);
}

// 16 pages of ten references each hold 16 objects of site 1 and one of site 2. An object of site 1
// has 112 bytes, so that an arena holds 32 a page, 8 pages in all.
Program KeysAndPayloads() {
  Program program;
  for (std::uint64_t page = 16; page < 32; ++page) {
    for (std::uint64_t key = 0; key < 16; ++key) program.Object(1, page * kPage + key * 112, 112);
    program.Object(2, page * kPage + 1792, 2304).Page(page, 10);
  }
  return program;
}

// Those of site 1 that lived to the end, by their accesses.
CountedStack LiveKeys(const std::vector<std::pair<std::size_t, std::uint64_t>>& keys,
                      std::uint64_t freed_accesses = 0) {
  CountedStack stack = CountedAt(1, freed_accesses);
  for (const auto& [number, accesses] : keys) {
    stack.live.insert(stack.live.end(), number, {.bytes = 112, .accesses = accesses});
  }
  return stack;
}

TEST(ObjectAdvice, PredictsWhatHotObjectsThatWereBornTogetherGain) {
  const Program program = KeysAndPayloads();
  const auto advise = [&](const CountedStack& keys) {
    ObjectAdviceOptions options = WithCounts({keys, CountedAt(2, 800)});
    options.ratios = {{1, 16}, {1, 2}};
    const ObjectAdvice advice = program.Advise(options);
    EXPECT_EQ(SiteOf(advice, "make1").verdict, SiteVerdict::kHot);
    EXPECT_DOUBLE_EQ(SiteOf(advice, "make1").accesses, 128);
    EXPECT_EQ(SiteOf(advice, "make2").verdict, SiteVerdict::kCold);
    return std::pair(advice.hit_rates.at(0).advised.value(),
                     advice.hit_rates.at(1).advised.value());
  };
  // A page of 32 keys has 2080 of 4000 counted accesses, and each other one 160; all have 3200.
  const auto [one, half] = advise(LiveKeys({{32, 65}, {224, 5}}));
  EXPECT_DOUBLE_EQ(one, 2080.0 / 4000);
  EXPECT_DOUBLE_EQ(half, 3200.0 / 4000);
  // Each page has a part of the accesses to freed objects: 200 of 1600.
  EXPECT_DOUBLE_EQ(advise(LiveKeys({{32, 36}, {224, 2}}, 1600)).first, (1152.0 + 200) / 4000);
  EXPECT_DOUBLE_EQ(advise(LiveKeys({}, 3200)).first, 400.0 / 4000) << "all pages are alike";
  // If half of them lived to the end, they lie twice as far apart.
  EXPECT_DOUBLE_EQ(advise(LiveKeys({{32, 70}, {96, 10}})).first, 2240.0 / 2 / 4000);
  // If twice as many lived, a page stands for two: here for 32 of each kind, and of 160 for 20.
  EXPECT_DOUBLE_EQ(advise(LiveKeys({{32, 50}, {480, 3}}, 160)).first, (1600.0 + 96 + 20) / 4000);
}

TEST(ObjectAdvice, PredictsOfWhatHasNoRoomNoGainByCounts) {
  // Room for 4 of the 8 pages: half of the objects, and of their accesses, stay where they are.
  ObjectAdviceOptions options = WithCounts({LiveKeys({{32, 65}, {224, 5}}), CountedAt(2, 800)});
  options.ratios = {{1, 16}};
  options.hot_room = std::uint64_t{4 * kPage};
  const double packed = KeysAndPayloads().Advise(options).hit_rates.at(0).advised.value();
  // A page of the arena stands for two: 2240 of 4000, of which half.
  EXPECT_DOUBLE_EQ(packed, 2240.0 / 2 / 4000);
}

TEST(ObjectAdvice, CountsOfSitesThatMayBeSeveralLeaveThemUnknown) {
  Program program;
  program.Mixed(16, 16, 10).Own(3, 64, 16, 1);
  auto& sites = AllocationsOf(program.epoch_)->sites;
  const SourceFrame outer{.function = "append", .module = "/bin/program", .offset = 0x1};
  for (const std::size_t site : {0, 1})
    sites[site].frames.insert(sites[site].frames.begin(), outer);
  const CountedStack cut{.frames = {{.function = "append", .module = "/bin/counted"}},
                         .accesses = 900};
  const ObjectAdvice advice = program.Advise(WithCounts({cut, CountedAt(3, 5)}));
  for (const std::size_t i : {1, 2}) EXPECT_EQ(advice.sites.at(i).verdict, SiteVerdict::kApart);
  EXPECT_EQ(advice.counts->ambiguous_sites, 1U);
  EXPECT_THAT(ObjectAdviceText(advice),
              HasSubstr("note: counts say nothing of 1 counted site with accesses"));
}

TEST(ObjectAdvice, RefusesAProfileOfAnotherProgram) {
  const Program program = Program().Mixed(16, 16, 10);
  const Result<ObjectAdvice> advice =
      MakeObjectAdvice(TraceOf({program.epoch_}), WithCounts({CountedAt(9, 5)}));
  ASSERT_FALSE(advice);
  EXPECT_EQ(advice.error().kind, ErrorKind::kBadInput);
  EXPECT_THAT(advice.error().Message(), HasSubstr("run.objects"));
}

TEST(ObjectAdvice, CountsOfSitesWithoutHeatAreRefusedAsWhatTheyWeighIsUnknown) {
  // Site 1 was counted, and none of its pages accessed; site 2 is hot, and was not counted.
  Program program;
  program.Own(1, 16, 16, 0).Own(2, 64, 16, 10);
  const auto advise = [&] {
    return MakeObjectAdvice(TraceOf({program.epoch_}), WithCounts({CountedAt(1, 1'000'000'000)}));
  };
  const Result<ObjectAdvice> advice = advise();
  ASSERT_FALSE(advice);
  EXPECT_EQ(advice.error().kind, ErrorKind::kBadInput);
  EXPECT_THAT(advice.error().Message(), HasSubstr("no page of the counted sites was accessed"));
  // Nor has it any where nobody looked at its pages.
  program = Program();
  program.Object(1, 16 * kPage, 16 * kPage).Own(2, 64, 16, 10);
  EXPECT_FALSE(advise());
  // One access is enough to know what a count weighs.
  program = Program();
  program.Own(1, 16, 15, 0).Own(1, 31, 1, 1).Own(2, 64, 16, 10);
  EXPECT_TRUE(advise());
}

TEST(ObjectAdvice, SaysThatATraceHasNoAllocations) {
  Program program;
  program.Page(16, 10);
  program.epoch_.extension.reset();
  const ObjectAdvice advice = program.Advise();
  EXPECT_TRUE(advice.sites.empty());
  EXPECT_FALSE(advice.hot_pages_advised.has_value());
  EXPECT_THAT(ObjectAdviceText(advice), HasSubstr("record it with --objects"));
}

TEST(ObjectAdvice, JsonHasNullForUnknownValues) {
  const auto json = nlohmann::json::parse(ObjectAdviceJson(Program().Mixed(16, 16, 10).Advise()));
  EXPECT_TRUE(json["hot_pages_advised"].is_null());
  EXPECT_TRUE(json["hit_rates"][0]["advised"].is_null());
  EXPECT_EQ(json["hit_rates"][0]["ratio"], "1/2");
  EXPECT_EQ(json["sites"][0]["advice"], "apart");
}

}  // namespace object_advice_test
}  // namespace tmprof
