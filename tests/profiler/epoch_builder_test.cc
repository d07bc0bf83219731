// SPDX-License-Identifier: Apache-2.0

#include "profiler/epoch_builder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace tmprof {
namespace epoch_builder_test {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr std::uint32_t kMax = std::numeric_limits<std::uint32_t>::max();

ReferenceRecord Reference(std::uint32_t target, std::uint64_t vpn, std::uint64_t span,
                          std::uint32_t looks, std::uint32_t references) {
  return {.key = {TargetId(target), Vpn(vpn)},
          .span = PageCount(span),
          .looks = looks,
          .references = references};
}
ReferenceRecord HugeSpan(std::uint32_t target, std::uint64_t vpn) {
  return Reference(target, vpn, 512, 0, 0);
}
SampleRecord Sample(std::uint32_t target, std::uint64_t vpn, std::uint32_t loads,
                    std::uint32_t stores = 0) {
  return {.key = {TargetId(target), Vpn(vpn)}, .loads = loads, .stores = stores};
}
EpochFrame Frame(std::uint32_t targets) {
  EpochFrame frame;
  for (std::uint32_t id = 0; id < targets; ++id) {
    frame.targets.push_back({.id = TargetId(id), .pid = Pid(static_cast<std::int32_t>(100 + id))});
  }
  return frame;
}
PageColumns Pages(std::uint32_t targets, std::vector<SourceEpoch> sources) {
  return BuildEpoch(Frame(targets), std::move(sources)).pages;
}

// target:vpn+span looks/references loads/stores, one row a line.
std::string Text(const PageColumns& pages) {
  std::string text;
  const auto n = [](auto number) { return std::to_string(number); };
  for (std::size_t i = 0; i < pages.size(); ++i) {
    const PageRecord row = RecordAt(pages, i);
    text += n(row.key.target.value()) + ":" + n(row.key.vpn.value()) + "+" + n(row.span.value()) +
            " " + n(row.looks) + "/" + n(row.references) + " " + n(row.load_samples) + "/" +
            n(row.store_samples) + "\n";
  }
  return text;
}

TEST(BuildEpoch, KeepsTheFrame) {
  EpochFrame frame = Frame(2);
  frame.index = 7;
  frame.start = MonotonicTime(nanoseconds(100));
  frame.end = MonotonicTime(nanoseconds(250));
  frame.profiler_cpu_time = nanoseconds(9);
  const EpochProfile profile = BuildEpoch(frame, {});
  EXPECT_EQ(profile.index, 7u);
  EXPECT_EQ(profile.length(), nanoseconds(150));
  EXPECT_EQ(profile.profiler_cpu_time, nanoseconds(9));
  EXPECT_EQ(profile.targets, frame.targets);
  EXPECT_TRUE(profile.pages.empty());
  EXPECT_TRUE(profile.sources.empty());
}

TEST(BuildEpoch, SortsByTargetAndPageWhateverTheOrderOfDelivery) {
  EXPECT_EQ(Text(Pages(2, {{.references = {Reference(1, 5, 1, 1, 0), Reference(0, 9, 1, 2, 1)}},
                           {.samples = {Sample(1, 2, 3), Sample(0, 4, 0, 1)}}})),
            "0:4+1 0/0 0/1\n"
            "0:9+1 2/1 0/0\n"
            "1:2+1 0/0 3/0\n"
            "1:5+1 1/0 0/0\n");
}

TEST(BuildEpoch, AddsUpWhatSourcesSayOfOnePage) {
  EXPECT_EQ(Text(Pages(1, {{.references = {Reference(0, 4, 1, 2, 1), Reference(0, 4, 1, 3, 3)}},
                           {.samples = {Sample(0, 4, 10, 1), Sample(0, 4, 20, 2)}}})),
            "0:4+1 5/4 30/3\n");
}

TEST(BuildEpoch, JoinsSamplesToTheSpanThatHoldsThem) {
  // A span of 100 pages, samples at its edges and just outside both.
  EXPECT_EQ(Text(Pages(1, {{.references = {Reference(0, 1000, 100, 8, 2)}},
                           {.samples = {Sample(0, 999, 1), Sample(0, 1000, 2), Sample(0, 1099, 4),
                                        Sample(0, 1100, 8)}}})),
            "0:999+1 0/0 1/0\n"
            "0:1000+100 8/2 6/0\n"
            "0:1100+1 0/0 8/0\n");
}

TEST(BuildEpoch, JoinsSamplesToAHugeSpanThatNobodyLookedAt) {
  EXPECT_EQ(Text(Pages(1, {{.samples = {Sample(0, 513, 1), Sample(0, 1023, 0, 2)}},
                           {.huge_spans = {HugeSpan(0, 512), HugeSpan(0, 1024)}}})),
            "0:512+512 0/0 1/2\n");
}

TEST(BuildEpoch, KeepsNeighbouringHugeSpansApart) {
  EXPECT_EQ(
      Text(Pages(1, {{.references = {Reference(0, 512, 512, 3, 3), Reference(0, 0, 512, 3, 1)},
                      .huge_spans = {HugeSpan(0, 0), HugeSpan(0, 512)}}})),
      "0:0+512 3/1 0/0\n"
      "0:512+512 3/3 0/0\n");
}

TEST(BuildEpoch, JoinsTheSmallPagesOfASplitHugePageToIt) {
  EXPECT_EQ(Text(Pages(1, {{.references = {Reference(0, 512, 1, 2, 1), Reference(0, 700, 1, 2, 2),
                                           Reference(0, 512, 512, 5, 5)}}})),
            "0:512+512 9/8 0/0\n");
}

TEST(BuildEpoch, UnitesSpansThatOverlapInPart) {
  EXPECT_EQ(
      Text(Pages(1, {{.references = {Reference(0, 10, 10, 1, 1), Reference(0, 15, 20, 2, 0),
                                     Reference(0, 34, 1, 4, 1), Reference(0, 35, 1, 8, 8)}}})),
      "0:10+25 7/2 0/0\n"
      "0:35+1 8/8 0/0\n");
}

TEST(BuildEpoch, NeverJoinsAcrossTargets) {
  EXPECT_EQ(Text(Pages(2, {{.references = {Reference(0, 0, 512, 1, 1), Reference(1, 5, 1, 1, 0)}},
                           {.samples = {Sample(1, 6, 1)}}})),
            "0:0+512 1/1 0/0\n"
            "1:5+1 1/0 0/0\n"
            "1:6+1 0/0 1/0\n");
}

TEST(BuildEpoch, LeavesOutASpanWithoutEvidence) {
  EXPECT_EQ(Text(Pages(1, {{.references = {Reference(0, 3, 1, 0, 0)},
                            .samples = {Sample(0, 4, 0, 0)},
                            .huge_spans = {HugeSpan(0, 512)}}})),
            "");
}

TEST(BuildEpoch, KeepsAPageThatWasLookedAtAndFoundIdle) {
  EXPECT_EQ(Text(Pages(1, {{.references = {Reference(0, 3, 1, 4, 0)}}})), "0:3+1 4/0 0/0\n");
}

TEST(BuildEpoch, SaturatesEveryCount) {
  ReferenceRecord full = Reference(0, 3, 1, kMax, kMax - 1);
  full.first_accesses = kMax;
  ReferenceRecord more = Reference(0, 3, 1, 2, 2);
  more.first_accesses = 1;
  full.first_read_finds = kMax;
  more.first_read_finds = 1;
  full.fast_looks = full.fast_found = full.fast_earlier = kMax;
  more.fast_looks = more.fast_found = more.fast_earlier = 1;
  const PageColumns pages = Pages(
      1, {{.references = {full, more}, .samples = {Sample(0, 3, kMax, 1), Sample(0, 3, 1, kMax)}}});
  ASSERT_EQ(pages.size(), 1u);
  EXPECT_EQ(pages.looks[0], kMax);
  EXPECT_EQ(pages.references[0], kMax);
  EXPECT_EQ(pages.first_accesses[0], kMax);
  ASSERT_TRUE(pages.finding_reads);
  EXPECT_EQ(pages.finding_reads->first_reads[0], kMax);
  EXPECT_EQ(pages.load_samples[0], kMax);
  EXPECT_EQ(pages.store_samples[0], kMax);
  ASSERT_TRUE(pages.fast_tries);
  EXPECT_EQ(pages.fast_tries->looks[0], kMax);
  EXPECT_EQ(pages.fast_tries->found[0], kMax);
  EXPECT_EQ(pages.fast_tries->earlier[0], kMax);
}

TEST(BuildEpoch, SumsTimesBeforeTheyAreCoded) {
  // A thousand pieces of 1 ms: coded one by one, each would err by up to 2.2 % the same way.
  ReferenceRecord piece = Reference(0, 3, 1, 1, 1);
  piece.time_at_risk = milliseconds(1);
  piece.first_accesses = piece.first_read_finds = 1;
  piece.first_read_time = nanoseconds(250'100);
  piece.later_read_time = nanoseconds(500'100);
  piece.fast_looks = 1;
  piece.fast_time = nanoseconds(4'100);
  piece.fast_earlier_time = nanoseconds(16'100);
  const PageColumns pages = Pages(1, {{.references = std::vector(1000, piece)}});
  EXPECT_EQ(pages.time_at_risk[0], LogDuration::FromNanoseconds(std::chrono::seconds(1)));
  ASSERT_TRUE(pages.finding_reads);
  EXPECT_EQ(pages.finding_reads->first_reads[0], 1000u);
  EXPECT_EQ(pages.finding_reads->first_time[0],
            LogDuration::FromNanoseconds(nanoseconds(250'100'000)));
  EXPECT_EQ(pages.finding_reads->later_time[0],
            LogDuration::FromNanoseconds(nanoseconds(500'100'000)));
  ASSERT_TRUE(pages.fast_tries);
  EXPECT_EQ(pages.fast_tries->looks[0], 1000u);
  EXPECT_EQ(pages.fast_tries->time[0], LogDuration::FromNanoseconds(nanoseconds(4'100'000)));
  EXPECT_EQ(pages.fast_tries->earlier_time[0],
            LogDuration::FromNanoseconds(nanoseconds(16'100'000)));
}

TEST(BuildEpoch, AddsUpNewVisitsApart) {
  ReferenceRecord one = Reference(0, 3, 1, 2, 2);
  one.first_accesses = 2;
  one.time_at_risk = milliseconds(100);
  one.later_read_time = milliseconds(60);
  one.new_first_accesses = 1;
  one.new_time_at_risk = milliseconds(1);
  one.new_later_read_time = microseconds(500);
  const PageColumns pages =
      Pages(1, {{.references = {one, one, Reference(0, 4, 1, 1, 0)}, .tells_new_visits = true}});
  ASSERT_TRUE(pages.new_visits);
  EXPECT_EQ(
      *pages.new_visits,
      (PageColumns::NewVisits{.first_accesses = {2, 0},
                              .time_at_risk = {LogDuration::FromNanoseconds(milliseconds(2)), {}},
                              .later_time = {LogDuration::FromNanoseconds(milliseconds(1)), {}}}));
  EXPECT_EQ(pages.time_at_risk[0], LogDuration::FromNanoseconds(milliseconds(200)));
}

TEST(BuildEpoch, TellsThatNoVisitBeganInTheEpochApartFromNotKnowing) {
  const ReferenceRecord idle = Reference(0, 3, 1, 1, 0);
  EXPECT_EQ(Pages(1, {{.references = {idle}}}).new_visits, std::nullopt);
  const PageColumns pages = Pages(1, {{.references = {idle}, .tells_new_visits = true}});
  ASSERT_TRUE(pages.new_visits);
  EXPECT_THAT(pages.new_visits->first_accesses, testing::ElementsAre(0u));
}

TEST(BuildEpoch, KeepsRungsOfTheTargetsThatTheFrameNames) {
  RungCounts counts;
  counts.delay = {microseconds(250), milliseconds(1)};
  counts.window = {microseconds(260), microseconds(700)};
  for (const std::uint32_t target : {0u, 1u, 5u}) {
    counts.target.emplace_back(target);
    counts.start.emplace_back(512);
    counts.pages.push_back(512);
    for (RungCounts::Counts* of : {&counts.new_visits, &counts.older_visits}) {
      of->read.insert(of->read.end(), {10 + target, 4});
      of->found.insert(of->found.end(), {6, target});
    }
  }
  RungCounts strangers = counts;
  for (TargetId& target : strangers.target) target = TargetId(7);
  EpochFrame frame;
  frame.targets.resize(2);
  frame.targets[0].id = TargetId(0);
  frame.targets[1].id = TargetId(5);
  std::vector<SourceEpoch> sources(1);
  sources[0].rungs = {counts, strangers};
  const EpochProfile epoch = BuildEpoch(std::move(frame), std::move(sources));
  ASSERT_EQ(epoch.rungs.size(), 1u);
  const RungCounts& kept = epoch.rungs[0];
  EXPECT_EQ(kept.delay, counts.delay);
  EXPECT_EQ(kept.window, counts.window);
  EXPECT_THAT(kept.target, testing::ElementsAre(TargetId(0), TargetId(5)));
  EXPECT_THAT(kept.pages, testing::ElementsAre(512u, 512u));
  EXPECT_THAT(kept.start, testing::ElementsAre(Vpn(512), Vpn(512)));
  EXPECT_THAT(kept.new_visits.read, testing::ElementsAre(10u, 4u, 15u, 4u));
  EXPECT_THAT(kept.older_visits.found, testing::ElementsAre(6u, 0u, 6u, 5u));
}

TEST(BuildEpoch, TakesTheNodeThatTheLaterSourceSaw) {
  ReferenceRecord early = Reference(0, 3, 1, 1, 0);
  early.node = NodeId(0);
  ReferenceRecord late = Reference(0, 3, 1, 1, 0);
  late.node = NodeId(1);
  ReferenceRecord silent = Reference(0, 3, 1, 1, 0);
  EXPECT_EQ(
      Pages(1, {{.references = {early}}, {.references = {late}}, {.references = {silent}}}).node[0],
      NodeId(1));
  EXPECT_EQ(Pages(1, {{.references = {late}}, {.references = {early}}}).node[0], NodeId(0));
  EXPECT_EQ(Pages(1, {{.references = {silent}}}).node[0], std::nullopt);
}

TEST(BuildEpoch, KeepsASpanThatWasSeenThoughNotLookedAt) {
  ReferenceRecord silent = HugeSpan(0, 512);
  ReferenceRecord sampled = HugeSpan(0, 2048);
  silent.seen = sampled.seen = true;
  SourceEpoch scanner{.references = {silent, sampled},
                      .huge_spans = {HugeSpan(0, 512), HugeSpan(0, 2048), HugeSpan(0, 4096)}};
  SourceEpoch sampler{.samples = {Sample(0, 2050, 1, 0)}};
  EXPECT_EQ(Text(BuildEpoch(Frame(1), {scanner, sampler}).pages),
            "0:512+512 0/0 0/0\n0:2048+512 0/0 1/0\n");
}

TEST(BuildEpoch, CountsEvidenceOfUnnamedTargetsAsLostInItsOwnSource) {
  SourceEpoch scanner{.status = {.name = "abit", .lost = 10},
                      .references = {Reference(0, 1, 1, 5, 5), Reference(9, 1, 1, 7, 0),
                                     Reference(9, 512, 512, 2, 0)}};
  SourceEpoch sampler{.status = {.name = "clock", .lost = 0}, .samples = {Sample(8, 1, 2, 3)}};
  SourceEpoch idle{.status = {.name = "ibs"}, .samples = {Sample(8, 1, 4, 0)}};
  const EpochProfile profile = BuildEpoch(Frame(1), {scanner, sampler, idle});
  EXPECT_EQ(Text(profile.pages), "0:1+1 5/5 0/0\n");
  ASSERT_EQ(profile.sources.size(), 3u);
  EXPECT_EQ(profile.sources[0].lost, 10u + 7 + 2 * 512);  // looks x pages
  EXPECT_EQ(profile.sources[1].lost, 5u);
  EXPECT_EQ(profile.sources[2].lost, std::nullopt);  // still not known
  EXPECT_EQ(profile.sources[2].details, (std::vector{NamedCount{"without_target", 4}}));
}

TEST(BuildEpoch, KeepsStatusesInTheOrderOfSources) {
  const SourceStatus refused{.name = "pebs", .state = SourceState::kUnavailable, .note = "ENOENT"};
  const SourceStatus active{.name = "clock", .state = SourceState::kActive, .duty_cycle = 0.5};
  const EpochProfile profile = BuildEpoch(Frame(0), {{.status = active}, {.status = refused}});
  EXPECT_EQ(profile.sources, (std::vector{active, refused}));
}

// The naive second implementation: for each target a page-by-page map of who covers it; spans that
// share a page are one.
PageColumns Naively(std::uint32_t targets, const std::vector<SourceEpoch>& sources) {
  constexpr std::uint64_t kPages = 256;
  PageColumns pages;
  for (std::uint32_t target = 0; target < targets; ++target) {
    // joined[p]: the pages p and p + 1 belong together.
    std::vector<bool> covered(kPages, false);
    std::vector<bool> joined(kPages, false);
    const auto cover = [&](const PageKey& key, std::uint64_t span) {
      if (key.target != TargetId(target)) return;
      for (std::uint64_t page = key.vpn.value(); page < key.vpn.value() + span; ++page) {
        covered[page] = true;
        if (page + 1 < key.vpn.value() + span) joined[page] = true;
      }
    };
    for (const SourceEpoch& source : sources) {
      for (const auto& record : source.references) cover(record.key, record.span.value());
      for (const auto& record : source.huge_spans) cover(record.key, record.span.value());
      for (const auto& record : source.samples) cover(record.key, 1);
    }
    for (std::uint64_t start = 0; start < kPages;) {
      std::uint64_t end = start + 1;
      while (joined[end - 1]) ++end;
      PageRecord row{.key = {TargetId(target), Vpn(start)}, .span = PageCount(end - start)};
      const auto inside = [&](const PageKey& key) {
        return key.target == TargetId(target) && start <= key.vpn.value() && key.vpn.value() < end;
      };
      nanoseconds at_risk{0};
      nanoseconds first_read{0};
      nanoseconds later_read{0};
      nanoseconds fast{0};
      nanoseconds earlier{0};
      for (const SourceEpoch& source : sources) {
        for (const auto& record : source.references) {
          if (!inside(record.key)) continue;
          row.looks += record.looks;
          row.references += record.references;
          row.first_accesses += record.first_accesses;
          at_risk += record.time_at_risk;
          row.first_read_finds += record.first_read_finds;
          first_read += record.first_read_time;
          later_read += record.later_read_time;
          row.fast_looks += record.fast_looks;
          row.fast_found += record.fast_found;
          fast += record.fast_time;
          row.fast_earlier += record.fast_earlier;
          earlier += record.fast_earlier_time;
        }
        for (const auto& record : source.samples) {
          if (!inside(record.key)) continue;
          row.load_samples += record.loads;
          row.store_samples += record.stores;
        }
      }
      row.time_at_risk = LogDuration::FromNanoseconds(at_risk);
      row.first_read_time = LogDuration::FromNanoseconds(first_read);
      row.later_read_time = LogDuration::FromNanoseconds(later_read);
      row.fast_time = LogDuration::FromNanoseconds(fast);
      row.fast_earlier_time = LogDuration::FromNanoseconds(earlier);
      if (row.looks + row.load_samples + row.store_samples > 0) Append(pages, row);
      start = end;
    }
  }
  return pages;
}

TEST(BuildEpoch, ExactAccessesAddUpAndJoinTheSpanThatHoldsThem) {
  SourceEpoch bits;
  bits.references.push_back(Reference(0, 512, 512, 4, 1));
  SourceEpoch truth;
  truth.status.role = SourceRole::kTruth;
  const auto accesses = [](std::uint64_t vpn, std::uint64_t loads, std::uint64_t stores) {
    return AccessRecord{.key = {TargetId(0), Vpn(vpn)},
                        .counts = {.loads = loads,
                                   .stores = stores,
                                   .llc_misses = 1,
                                   .hidden_misses = 1,
                                   .stall_ns = loads},
                        .node = NodeId(1)};
  };
  truth.accesses = {accesses(600, 10, 1), accesses(3, 5, 0), accesses(600, 20, 2)};
  const PageColumns pages = Pages(1, {bits, truth});
  ASSERT_EQ(pages.size(), 2u);
  EXPECT_EQ(pages.vpn[0], Vpn(3));
  EXPECT_EQ(RecordAt(pages, 0).accesses,
            (AccessCounts{.loads = 5, .llc_misses = 1, .hidden_misses = 1, .stall_ns = 5}));
  EXPECT_EQ(RecordAt(pages, 0).looks, 0u);
  EXPECT_EQ(pages.vpn[1], Vpn(512));
  EXPECT_EQ(RecordAt(pages, 1).looks, 4u);
  EXPECT_EQ(RecordAt(pages, 1).accesses,
            (AccessCounts{
                .loads = 30, .stores = 3, .llc_misses = 2, .hidden_misses = 2, .stall_ns = 30}));
  EXPECT_EQ(RecordAt(pages, 1).node, NodeId(1));
}

TEST(BuildEpoch, AgreesWithAPageByPageImplementationOnRandomEvidence) {
  std::mt19937 random(20261120);
  const auto below = [&](std::uint32_t bound) {
    return static_cast<std::uint32_t>(random() % bound);
  };
  for (int round = 0; round < 400; ++round) {
    std::vector<SourceEpoch> sources(1 + below(3));
    for (SourceEpoch& source : sources) {
      for (std::uint32_t i = below(30); i > 0; --i) {
        const std::uint32_t span = below(3) == 0 ? 1 + below(40) : 1;
        const std::uint32_t looks = below(4);
        ReferenceRecord record =
            Reference(below(3), below(200), span, looks, looks == 0 ? 0 : below(looks + 1));
        record.first_accesses = below(3);
        record.time_at_risk = nanoseconds(below(1'000'000));
        record.first_read_finds = below(record.first_accesses + 1);
        record.first_read_time = nanoseconds(250'000 * record.first_read_finds);
        record.later_read_time =
            nanoseconds(500'000 * (record.first_accesses - record.first_read_finds));
        if (looks > 0 && below(4) == 0) {
          record.fast_looks = 1 + below(3);
          record.fast_found = below(record.fast_looks + 1);
          record.fast_time = nanoseconds(4'000 * record.fast_looks + below(1'000));
          record.fast_earlier = below(5);
          record.fast_earlier_time = nanoseconds(64'000 * record.fast_earlier);
        }
        source.references.push_back(record);
      }
      for (std::uint32_t i = below(30); i > 0; --i) {
        source.samples.push_back(Sample(below(3), below(200), below(3), below(3)));
      }
      for (std::uint32_t i = below(4); i > 0; --i) {
        source.huge_spans.push_back(Reference(below(3), 16 * below(12), 16, 0, 0));
      }
    }
    // Target 2 is named in no frame.
    ASSERT_EQ(Pages(2, sources), Naively(2, sources)) << "round " << round;
  }
}

ReferenceRecord Region(std::uint64_t vpn, std::uint64_t span, std::uint32_t first_accesses) {
  ReferenceRecord region = Reference(0, vpn, span, 10, 6);
  region.first_accesses = first_accesses;
  region.time_at_risk = milliseconds(2);
  region.region = true;
  return region;
}

TEST(BuildEpoch, ASampleInsideARegionPartsIt) {
  const PageColumns pages =
      Pages(1, {{.references = {Region(100, 40, 8)}}, {.samples = {Sample(0, 110, 3, 1)}}});
  EXPECT_EQ(Text(pages),
            "0:100+10 10/6 0/0\n"
            "0:110+1 10/6 3/1\n"
            "0:111+29 10/6 0/0\n");
  // 8 x 10 / 40; then 6 x 1 / 30 and the rest.
  EXPECT_EQ(pages.first_accesses, (std::vector<std::uint32_t>{2, 0, 6}));
  for (const LogDuration time : pages.time_at_risk)
    EXPECT_EQ(time, LogDuration::FromNanoseconds(milliseconds(2)));
}

// Page 612 of a region of 1025 pages is sampled: on either side 512 are left, which are no huge
// page's.
TEST(BuildEpoch, NoPartOfARegionHasTheSizeOfAHugePage) {
  const PageColumns pages =
      Pages(1, {{.references = {Region(100, 1025, 4)}}, {.samples = {Sample(0, 612, 3, 1)}}});
  std::vector<std::pair<std::uint64_t, std::uint32_t>> spans;
  std::uint32_t first_accesses = 0;
  for (std::size_t i = 0; i < pages.size(); ++i) {
    spans.emplace_back(pages.vpn[i].value(), pages.span_pages[i]);
    first_accesses += pages.first_accesses[i];
  }
  EXPECT_EQ(spans, (std::vector<std::pair<std::uint64_t, std::uint32_t>>{
                       {100, 256}, {356, 256}, {612, 1}, {613, 256}, {869, 256}}));
  EXPECT_EQ(first_accesses, 4u);
}

TEST(BuildEpoch, NoPartOfARegionGetsMoreThanItsShareOfTheFirstAccesses) {
  // 6 x 38 / 40 = 5.7 before the sampled page, 5.85 with it, and one page after it.
  EXPECT_EQ(Pages(1, {{.references = {Region(100, 40, 6)}}, {.samples = {Sample(0, 138, 3, 1)}}})
                .first_accesses,
            (std::vector<std::uint32_t>{6, 0, 0}));
  // Parts of 1 page each have 0.15: in all 0.15, 0.3, 0.45, 0.6 (one), 0.75 ... 6.
  EXPECT_EQ(Pages(1, {{.references = {Region(100, 40, 6)}},
                      {.samples = {Sample(0, 100, 1), Sample(0, 101, 1), Sample(0, 102, 1),
                                   Sample(0, 103, 1), Sample(0, 104, 1)}}})
                .first_accesses,
            (std::vector<std::uint32_t>{0, 0, 0, 1, 0, 5}));
}

TEST(BuildEpoch, EachPartOfARegionHasItsShareOfTheFirstAccessesToAHalf) {
  std::mt19937 random(20261122);
  for (int round = 0; round < 200; ++round) {
    const std::uint32_t span = 2 + static_cast<std::uint32_t>(random() % 200);
    const std::uint32_t first_accesses = static_cast<std::uint32_t>(random() % 50);
    SourceEpoch samples;
    for (int i = 0; i < 6; ++i) samples.samples.push_back(Sample(0, 100 + random() % span, 1));
    const PageColumns pages =
        Pages(1, {{.references = {Region(100, span, first_accesses)}}, samples});
    std::uint32_t in_all = 0;
    for (std::size_t i = 0; i < pages.size(); ++i) {
      in_all += pages.first_accesses[i];
      const double end =
          static_cast<double>((pages.vpn[i] + RecordAt(pages, i).span).value()) - 100;
      EXPECT_NEAR(in_all, first_accesses * end / span, 0.5 + 1e-9) << "round " << round;
    }
    EXPECT_EQ(in_all, first_accesses);
  }
}

TEST(BuildEpoch, SamplesAtTheEndsOfARegionAndOnAllOfItPartItToo) {
  EXPECT_EQ(Text(Pages(1, {{.references = {Region(100, 4, 0)}},
                           {.samples = {Sample(0, 100, 1), Sample(0, 103, 2)}}})),
            "0:100+1 10/6 1/0\n"
            "0:101+2 10/6 0/0\n"
            "0:103+1 10/6 2/0\n");
  EXPECT_EQ(Text(Pages(1, {{.references = {Region(100, 2, 0)}},
                           {.samples = {Sample(0, 100, 1), Sample(0, 101, 2)}},
                           {.samples = {Sample(0, 101, 5), Sample(0, 102, 9)}}})),
            "0:100+1 10/6 1/0\n"
            "0:101+1 10/6 7/0\n"
            "0:102+1 0/0 9/0\n");
}

// number and "shared" or "own", one row a line.
std::string FrameText(std::vector<SourceEpoch> sources) {
  std::vector<std::optional<SeenFrame>> frames = {std::nullopt};  // left over by another call
  const EpochProfile profile = BuildEpoch(Frame(1), std::move(sources), &frames);
  EXPECT_EQ(frames.size(), profile.pages.size());
  std::string text;
  for (const auto& frame : frames) {
    text += !frame ? "unknown\n"
                   : std::to_string(frame->number) + (frame->is_shareable ? " shared\n" : " own\n");
  }
  return text;
}
ReferenceRecord AtFrame(ReferenceRecord record, std::uint64_t number, bool is_shareable = true) {
  record.frame = {.number = number, .is_shareable = is_shareable};
  return record;
}

TEST(BuildEpoch, TellsTheLastFrameOfEachRecord) {
  EXPECT_EQ(FrameText({{.references = {AtFrame(Reference(0, 4, 1, 2, 1), 70),
                                       AtFrame(Reference(0, 5, 1, 2, 1), 71, false),
                                       Reference(0, 6, 1, 2, 1)}},
                       {.samples = {Sample(0, 4, 1), Sample(0, 9, 1)}}}),
            "70 shared\n71 own\nunknown\nunknown\n");
  EXPECT_EQ(FrameText({{.references = {AtFrame(Reference(0, 4, 1, 2, 1), 70)}},
                       {.references = {AtFrame(Reference(0, 4, 1, 1, 0), 80)}}}),
            "80 shared\n");
  EXPECT_EQ(FrameText({{.references = {AtFrame(Reference(0, 512, 512, 1, 0), 512)},
                        .huge_spans = {HugeSpan(0, 512)}}}),
            "512 shared\n");
}

TEST(BuildEpoch, SharesNoFrameOfASpanThatWasMappedInSeveralWays) {
  EXPECT_EQ(FrameText({{.references = {AtFrame(Reference(0, 512, 1, 2, 1), 512),
                                       AtFrame(Reference(0, 512, 512, 5, 5), 512)}}}),
            "512 own\n");
}

}  // namespace epoch_builder_test
}  // namespace tmprof
