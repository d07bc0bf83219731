// SPDX-License-Identifier: Apache-2.0

#include "report/analysis/working_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "base/text/format.h"
#include "tests/apps/program.h"
#include "tests/folders.h"
#include "tests/report/pictures.h"
#include "tests/report/traces.h"

namespace tmprof {
namespace working_set_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Accesses of a page per CPU second in an epoch.
using RateOf = std::function<double(std::uint64_t page, std::uint64_t epoch)>;

// A program of known rates. In an epoch a ladder looks at every `every`-th of its 2 MiB blocks, in
// turn, and reads 0.25, 1, 4 … ms after each clear.
struct Program {
  std::uint64_t pages = 4096;
  std::uint64_t epochs = 8;
  std::uint64_t every = 1;
  std::uint64_t visited_pages = 4096;  // number of visited pages
  RateOf rate;
  std::optional<std::uint64_t> resident;
  std::vector<Mapping> mappings;
  std::chrono::milliseconds cpu_time{1000};
  std::uint32_t targets = 1;  // each like the others, seen by itself
  double longest_read = 1.5;  // seconds after the clear
};

void Look(const Program& program, std::uint64_t epoch, TargetId target, std::mt19937_64& random,
          PageColumns& pages) {
  std::exponential_distribution<double> exponential;
  for (std::uint64_t page = 0; page < program.visited_pages; ++page) {
    if ((page / 512 + epoch) % program.every != 0) continue;
    const double first = exponential(random) / program.rate(page, epoch);
    PageRecord record{.key = {target, Vpn(page)}};
    double before = 0;
    for (double read = 0.25e-3; read < program.longest_read; read *= 4) {
      ++record.looks;
      if (first <= read) {
        record.references = record.first_accesses = 1;
        break;
      }
      before = read;
    }
    const double last = record.first_accesses > 0 ? (before == 0 ? 0.25e-3 : 4 * before) : before;
    const double at_risk = record.first_accesses > 0 ? (before + last) / 2 : before;
    record.time_at_risk = LogDuration::FromNanoseconds(
        std::chrono::nanoseconds(static_cast<std::int64_t>(at_risk * 1e9)));
    Append(pages, record);
  }
}

Trace Record(const Program& program) {
  std::mt19937_64 random(1);
  std::vector<EpochProfile> epochs;
  for (std::uint64_t e = 0; e < program.epochs; ++e) {
    std::vector<Target> targets;
    for (std::uint32_t t = 0; t < program.targets; ++t) {
      targets.push_back(MakeTarget(t, static_cast<std::int32_t>(10 + t), "t"));
      targets.back().cpu_time = program.cpu_time;
      targets.back().mappings = program.mappings;
      if (program.resident) targets.back().resident_pages = PageCount(*program.resident);
    }
    EpochProfile epoch = MakeEpoch(e, targets);
    epoch.sources = {ReferenceSource(1)};
    for (const Target& target : targets) Look(program, e, target.id, random, epoch.pages);
    epochs.push_back(std::move(epoch));
  }
  return TraceOf(std::move(epochs));
}

// Every eighth page is hot. The others are accessed 2 times a second.
double EighthIsHot(std::uint64_t page, std::uint64_t /*epoch*/) { return page % 8 == 0 ? 1000 : 2; }

WorkingSet Make(const Trace& trace, const WorkingSetOptions& options = {}) {
  Result<WorkingSet> set = MakeWorkingSet(trace, options);
  EXPECT_TRUE(set.has_value());
  return *std::move(set);
}

void ExpectHolds(const WorkingSet::Size& size, double truth) {
  EXPECT_LE(size.low, truth);
  EXPECT_GE(size.high, truth);
  EXPECT_LE(size.low, size.pages);
  EXPECT_GE(size.high, size.pages);
}

TEST(WorkingSet, IsTheMemoryAccessedSoOften) {
  const WorkingSet set = Make(Record({.rate = EighthIsHot}));
  ASSERT_EQ(set.at_least.size(), 4u);
  EXPECT_EQ(set.visited, PageCount(4096));
  const double in_use[] = {4096, 512, 512};  // at least 1, 10, 100 times a second
  for (std::size_t r = 0; r < 3; ++r) {
    ExpectHolds(set.at_least[r], in_use[r]);
    EXPECT_TRUE(set.at_least[r].is_told) << r;
    EXPECT_NEAR(set.at_least[r].pages, in_use[r], 0.1 * in_use[r]) << r;
  }
}

TEST(WorkingSet, HasADocumentOfEachKeyOfItsJson) {
  const std::string document = test::ReadFile(TMPROF_SOURCE_DIR "/docs/design/working-set.md");
  const std::function<void(const Json&)> expect_all = [&](const Json& json) {
    if (json.is_object()) {
      for (const auto& [key, value] : json.items()) {
        EXPECT_THAT(document, HasSubstr("`" + key + "`"));
        expect_all(value);
      }
    } else if (json.is_array() && !json.empty()) {
      expect_all(json.front());
    }
  };
  expect_all(Json::parse(WorkingSetJson(Make(Record({.rate = EighthIsHot})))));
}

// Every eighth page is hot, also of every eighth page that a sample by even steps would take.
TEST(WorkingSet, HasAnIntervalThatNoPatternOfThePagesMisleads) {
  const WorkingSet set =
      Make(Record({.pages = 8192, .epochs = 2, .visited_pages = 8192, .rate = EighthIsHot}));
  ExpectHolds(set.at_least[2], 1024);
  EXPECT_GT(set.at_least[2].low, 850);
  EXPECT_LT(set.at_least[2].high, 1200);
}

// A page that was looked at once is little evidence. Sums are right all the same.
TEST(WorkingSet, IsUnbiasedThoughEachPageWasLookedAtOnce) {
  const WorkingSet set = Make(Record({.epochs = 8, .every = 8, .rate = EighthIsHot}));
  EXPECT_NEAR(set.at_least[2].pages, 512, 60);
  ExpectHolds(set.at_least[2], 512);
}

// All reads come within 1.024 s of 4096 pages, and find next to no access. Most pages may have
// 0.001 accesses a second, or none.
TEST(WorkingSet, IsNotToldOfRatesThatNoReadCanTell) {
  const WorkingSet set =
      Make(Record({.epochs = 1, .rate = [](auto, auto) { return 1e-4; }}), {.rates = {0.001, 100}});
  EXPECT_FALSE(set.at_least[0].is_told);
  ExpectHolds(set.at_least[0], 0);
  EXPECT_TRUE(set.at_least[1].is_told);
  EXPECT_LT(set.at_least[1].high, 200);
}

// Half of the pages is accessed 300 times a second, the others 12 times. A read 16 ms after the
// clear finds one of these seldom.
double HalfIsSlow(std::uint64_t page, std::uint64_t /*epoch*/) { return page % 2 == 0 ? 300 : 12; }

TEST(WorkingSet, MayHoldPagesThatWereNotWatchedForLongEnough) {
  const WorkingSet once =
      Make(Record({.epochs = 1, .rate = HalfIsSlow, .longest_read = 0.02}), {.rates = {10, 100}});
  ExpectHolds(once.at_least[0], 4096);
  EXPECT_EQ(once.at_least[0].high, 4096);
  const WorkingSet often =
      Make(Record({.epochs = 32, .rate = HalfIsSlow, .longest_read = 0.02}), {.rates = {40, 100}});
  ExpectHolds(often.at_least[0], 2048);
  EXPECT_TRUE(often.at_least[0].is_told);
  EXPECT_TRUE(often.at_least[1].is_told);
}

// In the first half every eighth page is hot, then every second one.
TEST(WorkingSet, FollowsAProgramThatChanges) {
  const WorkingSet set = Make(Record({.epochs = 16, .rate = [](auto page, auto epoch) {
                                        return page % (epoch < 8 ? 8 : 2) == 0 ? 1000.0 : 2.0;
                                      }}));
  ASSERT_GE(set.rows.size(), 8u);
  EXPECT_NEAR(set.rows[1].at_least[2].pages, 512, 80);
  EXPECT_NEAR(set.rows[set.rows.size() - 2].at_least[2].pages, 2048, 200);
  EXPECT_NEAR(set.at_least[2].pages, 1280, 150);
}

TEST(WorkingSet, IsOneRowIfNothingChanges) {
  const WorkingSet set = Make(Record({.rate = EighthIsHot}));
  ASSERT_EQ(set.rows.size(), 1u);
  EXPECT_EQ(set.rows[0].start, set.totals.start);
  EXPECT_EQ(set.rows[0].end, set.totals.stop);
  EXPECT_THAT(WorkingSetText(set), HasSubstr("No change of rates over time was found.\n"));
}

// Half of the resident memory is looked at: an eighth of it is hot there, and likely elsewhere.
TEST(NeverVisited, IsUnknownAndScalesOnlyTheSizesOfResidentMemory) {
  const WorkingSet set =
      Make(Record({.pages = 8192, .visited_pages = 4096, .rate = EighthIsHot, .resident = 8192}));
  EXPECT_EQ(set.resident, PageCount(8192));
  EXPECT_EQ(set.never_visited, PageCount(4096));
  ASSERT_TRUE(set.of_resident.has_value());
  ExpectHolds(set.of_resident->at_least[2], 1024);
  EXPECT_NEAR(set.of_resident->at_least[2].pages, 2 * set.at_least[2].pages, 1e-6);
  const double widest = set.at_least[2].high - set.at_least[2].low;
  EXPECT_GT(set.of_resident->at_least[2].high - set.of_resident->at_least[2].low, 1.9 * widest);
  for (const WorkingSet::Idle& idle : set.idle) EXPECT_LE(idle.not_seen, 4096);
  EXPECT_THAT(WorkingSetText(set), HasSubstr("never looked at: 16 MiB; unknown"));
}

TEST(NeverVisited, IsNotKnownOfATraceWithoutResidentPages) {
  const WorkingSet set = Make(Record({.rate = EighthIsHot}));
  EXPECT_EQ(set.resident, std::nullopt);
  EXPECT_EQ(set.never_visited, std::nullopt);
  EXPECT_FALSE(set.of_resident.has_value());
  EXPECT_THAT(WorkingSetText(set),
              AllOf(HasSubstr("resident: unknown"), HasSubstr("does not tell how much memory")));
  EXPECT_TRUE(Json::parse(WorkingSetJson(set))["never_visited_pages"].is_null());
}

// Samples are no accesses, and pages that no sample hit may be in use.
TEST(WorkingSet, IsRefusedOfSamplesAlone) {
  EpochProfile epoch = MakeEpoch(0, {MakeTarget(0, 10, "t")});
  epoch.sources = {SampleSource(9)};
  See(epoch, 0, {{.vpn = 1, .loads = 5}, {.vpn = 2, .loads = 1}});
  const Trace samples = TraceOf({epoch});
  See(epoch, 0, {{.vpn = 3, .looks = 1, .references = 1}});
  const Trace both = TraceOf({epoch});
  for (const Result<WorkingSet>& set :
       {MakeWorkingSet(samples, {}), MakeWorkingSet(samples, {.by = RankSource::kCombined}),
        MakeWorkingSet(samples, {.by = RankSource::kSamples}),
        MakeWorkingSet(both, {.by = RankSource::kSamples})}) {
    ASSERT_FALSE(set.has_value());
    EXPECT_THAT(set.error().Message(), AllOf(HasSubstr("samples"), HasSubstr("'references'")));
  }
  EXPECT_TRUE(MakeWorkingSet(both, {}).has_value());
}

std::vector<Mapping> OneFile() {
  return {{.range = {Vpn(0), Vpn(4096)},
           .kind = MappingKind::kShared,
           .path = "/memfd:ring (deleted)",
           .file = FilePlace{.device = 1, .inode = 5, .offset = PageCount(0)}}};
}

// Both processes map the same pages, which are resident in each.
TEST(SharedMemory, CountsOnce) {
  const WorkingSet set =
      Make(Record({.rate = EighthIsHot, .resident = 4096, .mappings = OneFile(), .targets = 2}));
  EXPECT_EQ(set.visited, PageCount(4096));
  EXPECT_NEAR(set.at_least[2].pages, 512, 40);
  EXPECT_FALSE(set.of_resident.has_value());
  EXPECT_THAT(set.why_no_resident, HasSubstr("several processes"));
  EXPECT_EQ(set.resident, std::nullopt);
  EXPECT_EQ(set.never_visited, std::nullopt);
  EXPECT_THAT(WorkingSetText(set), AllOf(HasSubstr("resident: unknown, as several processes"),
                                         Not(HasSubstr("never looked at"))));
  const Json json = Json::parse(WorkingSetJson(set));
  EXPECT_TRUE(json["resident_pages"].is_null());
  EXPECT_TRUE(json["never_visited_pages"].is_null());
}

// Target 0 runs in the first `epochs` seconds, target 1 in as many after it, and so on. An exit is
// seen at the end of the following epoch, in the midst of which it came.
Trace OneAfterAnother(std::uint64_t targets, std::uint64_t epochs, const RateOf& rate) {
  std::mt19937_64 random(1);
  const Program program{.rate = rate};
  std::vector<EpochProfile> all;
  for (std::uint64_t e = 0; e <= targets * epochs; ++e) {
    const std::uint64_t running = e / epochs;
    std::vector<Target> listed;
    if (e > 0 && e % epochs == 0) {
      listed.push_back(MakeTarget(static_cast<std::uint32_t>(running - 1), 9, "t"));
      listed.back().exited = true;
      listed.back().cpu_time = std::chrono::milliseconds(20);
    }
    if (running < targets) {
      listed.push_back(MakeTarget(static_cast<std::uint32_t>(running), 10, "t"));
      listed.back().resident_pages = PageCount(4096 + 100 * running);
    }
    EpochProfile epoch = MakeEpoch(e, listed);
    epoch.sources = {ReferenceSource(1)};
    if (running < targets) {
      Look(program, e, TargetId(static_cast<std::uint32_t>(running)), random, epoch.pages);
    }
    all.push_back(std::move(epoch));
  }
  return TraceOf(std::move(all));
}

TEST(ProcessesOneAfterAnother, AddNoSizesOfTimesInWhichTheyDidNotRun) {
  const WorkingSet set = Make(OneAfterAnother(4, 4, EighthIsHot));
  EXPECT_EQ(set.visited, PageCount(4 * 4096));
  ExpectHolds(set.at_least[2], 512);
  EXPECT_NEAR(set.at_least[2].pages, 512, 60);
  EXPECT_LE(set.at_least[0].high, 4096);
  for (const WorkingSet::Row& row : set.rows) {
    for (const WorkingSet::Size& size : row.at_least) EXPECT_LE(size.high, 4096);
  }
}

// The trace goes on for an epoch, in which the process exits at once.
TEST(ProcessesOneAfterAnother, AreNotSmallerForTheTimeAfterThem) {
  const WorkingSet set = Make(OneAfterAnother(1, 3, EighthIsHot));
  ASSERT_EQ(set.rows.size(), 1u);
  ExpectHolds(set.at_least[0], 4096);
  ExpectHolds(set.at_least[2], 512);
  EXPECT_NEAR(set.at_least[2].pages, 512, 40);
}

// It used CPU time in the epoch of its exit, so it did not rest then.
TEST(ProcessesOneAfterAnother, AreNotThereInTheEpochOfTheExit) {
  const WorkingSet set = Make(OneAfterAnother(
      1, 16, [](auto page, auto epoch) { return page % (epoch < 8 ? 8 : 2) == 0 ? 1000.0 : 2.0; }));
  ASSERT_GT(set.rows.size(), 1u);
  EXPECT_FALSE(set.rows.back().any_there);
  EXPECT_TRUE(set.rows.front().any_there);
  EXPECT_THAT(WorkingSetText(set), AllOf(HasSubstr("not there"), Not(HasSubstr("rests"))));
  const Json json = Json::parse(WorkingSetJson(set));
  EXPECT_TRUE(json["over_time"].back()["ran"].is_null());
  EXPECT_EQ(json["over_time"].front()["ran"], true);
}

TEST(ProcessesOneAfterAnother, AreResidentOnlyWhileTheyRun) {
  const WorkingSet set = Make(OneAfterAnother(3, 4, EighthIsHot));
  EXPECT_EQ(set.resident, PageCount(4296));
  EXPECT_EQ(set.never_visited, PageCount(200));
}

// Each page is accessed until the exit. After it there are no accesses, which is not idleness.
TEST(ProcessesOneAfterAnother, AreNotIdleBecauseTheyExited) {
  const WorkingSet set = Make(OneAfterAnother(3, 4, [](auto, auto) { return 100.0; }));
  ASSERT_EQ(set.idle.size(), 1u);  // none was there for 5 s, though the trace has 13
  EXPECT_EQ(set.idle[0].age, std::chrono::seconds(1));
  EXPECT_EQ(set.idle[0].not_seen, 0);
  EXPECT_EQ(set.idle[0].size.pages, 0);
  EXPECT_EQ(set.idle[0].size.high, 0);
}

// The process of 12 s has all pages in use. That of 4 s has none, which says nothing of 5 s.
TEST(Idle, IsToldOfProcessesThatWereThereForSoLong) {
  std::mt19937_64 random(1);
  const Program busy{.rate = [](auto, auto) { return 100.0; }};
  const Program lazy{.rate = [](auto, auto) { return 1e-9; }};
  std::vector<EpochProfile> epochs;
  for (std::uint64_t e = 0; e < 12; ++e) {
    EpochProfile epoch = MakeEpoch(e, {MakeTarget(0, 10, "busy")});
    epoch.sources = {ReferenceSource(1)};
    Look(busy, e, TargetId(0), random, epoch.pages);
    if (e < 4) {
      epoch.targets.push_back(MakeTarget(1, 11, "lazy"));
      Look(lazy, e, TargetId(1), random, epoch.pages);
    }
    epochs.push_back(std::move(epoch));
  }
  const WorkingSet set = Make(TraceOf(std::move(epochs)));
  ASSERT_EQ(set.idle.size(), 3u);
  EXPECT_EQ(set.idle[0].not_seen, 4096);
  EXPECT_GT(set.idle[0].size.pages, 3000);
  EXPECT_EQ(set.idle[1].not_seen, 0);
  EXPECT_EQ(set.idle[1].size.high, 0);
}

TEST(WorkingSet, LeavesOutOtherProcessesThanTheOneAskedFor) {
  const Trace both = Record({.rate = EighthIsHot, .resident = 4096, .targets = 2});
  EXPECT_EQ(Make(both).visited, PageCount(8192));
  const WorkingSet one = Make(both, {.pid = Pid(11)});
  EXPECT_EQ(one.visited, PageCount(4096));
  EXPECT_EQ(one.resident, PageCount(4096));
  EXPECT_NEAR(one.at_least[2].pages, 512, 40);
}

// A quarter of the pages is accessed 100 times a second until second 4 of 12, the others
// throughout.
double QuarterGoesIdle(std::uint64_t page, std::uint64_t epoch) {
  return page % 4 == 0 && epoch >= 4 ? 1e-6 : 100;
}

TEST(Idle, IsMemoryThatWasNotAccessedForSoLong) {
  const WorkingSet set = Make(Record({.epochs = 12, .rate = QuarterGoesIdle}));
  ASSERT_EQ(set.idle.size(), 3u);  // 1, 5 and 10 s
  ExpectHolds(set.idle[0].size, 1024);
  ExpectHolds(set.idle[1].size, 1024);
  ExpectHolds(set.idle[2].size, 0);
  EXPECT_NEAR(set.idle[1].size.pages, 1024, 120);
  EXPECT_EQ(set.idle[1].not_seen, 1024);
  EXPECT_EQ(set.idle[2].not_seen, 0);
  EXPECT_EQ(set.idle[2].size.pages, 0);
}

// Each page is watched for 16 ms of each second. A quarter is not accessed then, and may all the
// same be accessed in the rest.
TEST(Idle, MayBeNoMemoryThatWasNotWatchedForLongEnough) {
  const auto rate = [](auto page, auto) { return page % 4 == 0 ? 1e-9 : 300.0; };
  const WorkingSet set = Make(Record({.epochs = 8, .rate = rate, .longest_read = 0.02}));
  ASSERT_EQ(set.idle.size(), 2u);
  for (const WorkingSet::Idle& idle : set.idle) {
    ExpectHolds(idle.size, 0);
    ExpectHolds(idle.size, 1024);
    EXPECT_FALSE(idle.size.is_told);
  }
}

// A program that rests accesses nothing, whatever its rates were.
TEST(Idle, IsAllMemoryOfAProgramThatRests) {
  std::vector<EpochProfile> epochs;
  Program busy{.epochs = 1, .rate = EighthIsHot};
  std::mt19937_64 random(1);
  for (std::uint64_t e = 0; e < 8; ++e) {
    epochs.push_back(MakeEpoch(e, {MakeTarget(0, 10, "t")}));
    epochs.back().sources = {ReferenceSource(1)};
    if (e < 2) Look(busy, e, TargetId(0), random, epochs.back().pages);
    if (e >= 2) epochs.back().targets[0].cpu_time = std::chrono::nanoseconds(0);
  }
  const WorkingSet set = Make(TraceOf(epochs));
  ASSERT_EQ(set.idle.size(), 2u);
  EXPECT_NEAR(set.idle[1].size.pages, 4096, 1);
}

TEST(Idle, HasNoAgesLongerThanTheTrace) {
  EXPECT_EQ(Make(Record({.epochs = 4, .rate = EighthIsHot})).idle.size(), 1u);
  EXPECT_EQ(Make(Record({.epochs = 31, .every = 4, .rate = EighthIsHot})).idle.size(), 4u);
}

// Page 1 has 20 accesses in each second, page 2 has 2 in the first, page 3 was only listed.
Trace Exact() {
  std::vector<EpochProfile> epochs;
  for (std::uint64_t e = 0; e < 8; ++e) {
    EpochProfile epoch = MakeEpoch(e, {MakeTarget(0, 10, "t")});
    epoch.sources = {{.name = "exact", .role = SourceRole::kTruth, .state = SourceState::kActive}};
    epoch.targets[0].cpu_time = std::chrono::milliseconds(500);
    for (std::uint64_t page = 1; page <= 3; ++page) {
      const std::uint64_t loads = page == 1 ? 20 : (page == 2 && e == 0) ? 2 : 0;
      Append(epoch.pages,
             {.key = {TargetId(0), Vpn(page)}, .accesses = AccessCounts{.loads = loads}});
    }
    epochs.push_back(std::move(epoch));
  }
  return TraceOf(std::move(epochs));
}

TEST(ExactCounts, TellSizesWithoutError) {
  const WorkingSet set = Make(Exact(), {.rates = {4, 40, 41}});
  EXPECT_TRUE(set.is_exact);
  ASSERT_EQ(set.rows.size(), 8u);
  EXPECT_EQ(set.rows[0].at_least[0].pages, 2);  // 4 in a CPU second
  EXPECT_EQ(set.rows[1].at_least[0].pages, 1);
  EXPECT_EQ(set.rows[0].at_least[1].pages, 1);
  EXPECT_EQ(set.rows[0].at_least[2].pages, 0);
  EXPECT_EQ(set.at_least[0].pages, 9.0 / 8);
  EXPECT_EQ(set.at_least[0].low, set.at_least[0].high);
  EXPECT_EQ(set.visited, PageCount(2));
  ASSERT_EQ(set.idle.size(), 2u);
  EXPECT_EQ(set.idle[1].size.pages, 1);  // page 2, for 7 s
}

TEST(ExactCounts, AreJoinedToFewRowsOfLongTraces) {
  std::vector<EpochProfile> epochs;
  for (std::uint64_t e = 0; e < 100; ++e) {
    EpochProfile epoch = MakeEpoch(e, {MakeTarget(0, 10, "t")});
    epoch.sources = {{.name = "exact", .role = SourceRole::kTruth, .state = SourceState::kActive}};
    Append(epoch.pages, {.key = {TargetId(0), Vpn(1)}, .accesses = AccessCounts{.loads = e % 2}});
    epochs.push_back(std::move(epoch));
  }
  const WorkingSet set = Make(TraceOf(std::move(epochs)), {.rates = {1}});
  EXPECT_EQ(set.rows.size(), 25u);
  EXPECT_EQ(set.rows[3].at_least[0].pages, 0.5);
  EXPECT_EQ(set.at_least[0].pages, 0.5);
}

TEST(WorkingSet, TheWorkingSetOfAnEmptyTraceIsUnknown) {
  const WorkingSet set = Make(TraceOf({}));
  EXPECT_THAT(WorkingSetText(set), HasSubstr("Nothing is known of any page."));
  const Json json = Json::parse(WorkingSetJson(set));
  EXPECT_TRUE(json["working_set"].empty());
  EXPECT_TRUE(json["resident_pages"].is_null());
  EXPECT_TRUE(WorkingSetPng(set).has_value());
}

TEST(WorkingSet, IsUnknownIfProcessesNeverRan) {
  const WorkingSet set =
      Make(Record({.rate = EighthIsHot, .cpu_time = std::chrono::milliseconds(0)}));
  EXPECT_TRUE(set.at_least.empty());
  EXPECT_THAT(WorkingSetText(set), HasSubstr("Nothing is known of any page."));
  const Json json = Json::parse(WorkingSetJson(set));
  EXPECT_TRUE(json["working_set"].empty());
  EXPECT_TRUE(json["idle"].empty());
  EXPECT_TRUE(json["over_time"].empty());
  EXPECT_EQ(std::ranges::count(WorkingSetCsv(set), '\n'), 1);
}

TEST(WorkingSet, IsUnknownIfNobodyLookedAtPages) {
  std::vector<EpochProfile> epochs;
  for (std::uint64_t e = 0; e < 3; ++e) epochs.push_back(MakeEpoch(e, {MakeTarget(0, 10, "t")}));
  const WorkingSet set = Make(TraceOf(std::move(epochs)));
  EXPECT_TRUE(Json::parse(WorkingSetJson(set))["idle"].empty());
  EXPECT_EQ(std::ranges::count(WorkingSetCsv(set), '\n'), 1);
}

TEST(WorkingSet, IsToldOfWhatCameBeforeTheDamage) {
  Trace trace = Record({.epochs = 2, .rate = EighthIsHot});
  const auto whole = trace.open;
  trace.open = [whole]() -> Result<std::unique_ptr<EpochStream>> {
    std::vector<EpochProfile> epochs(2);
    const auto stream = whole();
    for (EpochProfile& epoch : epochs) EXPECT_TRUE(*(*stream)->Next(epoch));
    return std::make_unique<FaultyStream>(epochs);
  };
  const WorkingSet set = Make(trace);
  EXPECT_NEAR(set.at_least[2].pages, 512, 60);
  EXPECT_TRUE(Json::parse(WorkingSetJson(set))["damage"].is_string());
}

TEST(WorkingSet, RefusesMissesThatNobodyModelled) {
  const Result<WorkingSet> set = MakeWorkingSet(Exact(), {.by = RankSource::kMisses});
  ASSERT_FALSE(set.has_value());
  EXPECT_THAT(set.error().Message(), HasSubstr("misses"));
}

TEST(WorkingSet, FitsATerminalOf80Columns) {
  const WorkingSet set = Make(Record(
      {.pages = 8192,
       .epochs = 16,
       .rate = [](auto page, auto epoch) { return page % (epoch < 8 ? 8 : 2) == 0 ? 1000.0 : 2.0; },
       .resident = 262'000}));
  std::istringstream lines(WorkingSetText(set));
  std::size_t tables = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto continued = std::ranges::count_if(
        line, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; });
    EXPECT_LE(line.size() - static_cast<std::size_t>(continued), 80u) << line;
    tables += line.starts_with("accesses/s") || line.starts_with("idle time") ||
              line.find("seconds") < 10;
  }
  EXPECT_EQ(tables, 3u);
}

TEST(WorkingSet, HasALineOfCsvForEachSize) {
  const WorkingSet set = Make(Exact(), {.rates = {4}});
  const std::string csv = WorkingSetCsv(set);
  EXPECT_THAT(csv, AllOf(HasSubstr("working set,0,1,4,,2,2,2,true\n"),
                         HasSubstr("working set,1,2,4,,1,1,1,true\n"),
                         HasSubstr("idle,,,,5,1,1,1,true\n")));
  EXPECT_EQ(std::ranges::count(csv, '\n'), 1 + 8 + 2);
}

TEST(WorkingSet, IsDrawnWithABandAndWhatIsUnknownHatched) {
  const WorkingSet set =
      Make(Record({.pages = 8192, .rate = EighthIsHot, .resident = 8192}), {.rates = {1, 100}});
  const Result<std::string> png = WorkingSetPng(set);
  ASSERT_TRUE(png.has_value());
  const Picture picture(*png);
  EXPECT_EQ(picture.width(), 1000);
  EXPECT_EQ(picture.height(), 820);
  // The upper half of the plot is memory that nobody looked at.
  const auto whites = [&](int top, int bottom) {
    int count = 0;
    for (int y = top; y < bottom; ++y) count += picture.At(460, y) == kWhite;
    return count;
  };
  EXPECT_LT(whites(90, 240), 20);
  EXPECT_GT(whites(290, 370), 60);
}

}  // namespace working_set_test
}  // namespace tmprof
