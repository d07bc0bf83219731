// SPDX-License-Identifier: Apache-2.0

#include "objects/analysis/traced_objects.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "objects/analysis/object_advice.h"
#include "report/analysis/hot.h"
#include "tests/base/text/text_tables.h"
#include "tests/report/traces.h"

namespace tmprof {
namespace traced_objects_test {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::uint64_t kPage = 4096;

// In the first second, unless it is said.
AllocationEvent Event(AllocationKind kind, std::uint64_t address, std::uint64_t bytes,
                      std::uint32_t site, milliseconds at = milliseconds(0), double weight = 1) {
  return {.target = TargetId(0),
          .kind = kind,
          .address = address,
          .bytes = bytes,
          .time = kTraceStart + at,
          .site = site,
          .weight = weight};
}

EpochProfile Epoch(std::uint64_t index, std::vector<AllocationEvent> events) {
  EpochProfile epoch = MakeEpoch(index, {MakeTarget(0, 42, "program")});
  epoch.sources = {ReferenceSource(10), SampleSource(10)};
  SetAllocations(epoch).events = std::move(events);
  if (index == 0) {
    AllocationsOf(epoch)->sites = {{.id = 1, .frames = {{.function = "make"}}},
                                   {.id = 2, .frames = {{.function = "map"}}}};
  }
  return epoch;
}

void AddPage(EpochProfile& epoch, std::uint64_t page, std::uint32_t references,
             std::uint32_t samples, std::uint64_t span = 1) {
  Append(epoch.pages, {.key = {TargetId(0), Vpn(page)},
                       .span = PageCount(span),
                       .looks = 1000,
                       .references = references,
                       .load_samples = samples});
}

TracedObjects Objects(std::vector<EpochProfile> epochs, TracedObjectsOptions options = {}) {
  const Result<TracedObjects> objects = MakeTracedObjects(TraceOf(std::move(epochs)), options);
  if (!objects) {
    ADD_FAILURE() << objects.error().Message();
    return {};
  }
  return *objects;
}

TEST(TracedObjects, APageIsSharedByBytes) {
  // All of page 16 and a quarter of page 17.
  EpochProfile epoch = Epoch(0, {Event(AllocationKind::kAllocated, 16 * kPage, 5120, 1)});
  AddPage(epoch, 15, 100, 100);
  AddPage(epoch, 16, 8, 40);
  AddPage(epoch, 17, 4, 20);
  const TracedObjects objects = Objects({epoch});
  ASSERT_EQ(objects.rows.size(), 1U);
  EXPECT_DOUBLE_EQ(objects.rows[0].references.value(), 8 + 1);
  EXPECT_DOUBLE_EQ(objects.rows[0].samples.value(), 40 + 5);
  EXPECT_DOUBLE_EQ(objects.references.value(), 112);
  EXPECT_EQ(objects.rows[0].site.frames[0].function, "make");
  EXPECT_FALSE(objects.rows[0].estimated);
}

TEST(TracedObjects, AnEpochIsSharedByTimeAndTheNextOneToo) {
  EpochProfile first =
      Epoch(0, {Event(AllocationKind::kAllocated, 16 * kPage, kPage, 1, milliseconds(250))});
  AddPage(first, 16, 8, 0);
  EpochProfile second =
      Epoch(1, {Event(AllocationKind::kFreed, 16 * kPage, 0, 0, milliseconds(1500))});
  AddPage(second, 16, 100, 0);
  EpochProfile third = Epoch(2, {});
  AddPage(third, 16, 1000, 0);
  const TracedObjects objects = Objects({first, second, third});
  ASSERT_EQ(objects.rows.size(), 1U);
  EXPECT_DOUBLE_EQ(objects.rows[0].references.value(), 6 + 50);
  EXPECT_DOUBLE_EQ(objects.rows[0].live_bytes, 0);
  EXPECT_EQ(objects.rows[0].lifetime, milliseconds(1250));
}

TEST(TracedObjects, AHugePageIsSharedByWhatOfItIsTheObjects) {
  EpochProfile epoch = Epoch(0, {Event(AllocationKind::kMapped, 512 * kPage, 128 * kPage, 2)});
  AddPage(epoch, 512, 8, 80, 512);
  const TracedObjects objects = Objects({epoch});
  EXPECT_DOUBLE_EQ(objects.rows.at(0).references.value(), 2);
  EXPECT_DOUBLE_EQ(objects.rows.at(0).samples.value(), 20);
}

TEST(TracedObjects, AMappingHasWhatAllocationsInItLeave) {
  EpochProfile epoch = Epoch(0, {Event(AllocationKind::kMapped, 16 * kPage, 4 * kPage, 2),
                                 Event(AllocationKind::kAllocated, 16 * kPage, kPage / 4, 1)});
  AddPage(epoch, 16, 8, 0);
  AddPage(epoch, 17, 1, 0);
  const TracedObjects objects = Objects({epoch});
  ASSERT_EQ(objects.rows.size(), 2U);
  EXPECT_EQ(objects.rows[0].kind, TracedKind::kMapped);
  EXPECT_DOUBLE_EQ(objects.rows[0].references.value(), 6 + 1);
  EXPECT_DOUBLE_EQ(objects.rows[1].references.value(), 2);
}

TEST(TracedObjects, APartThatIsUnmappedIsNoMore) {
  EpochProfile first = Epoch(0, {Event(AllocationKind::kMapped, 16 * kPage, 3 * kPage, 2),
                                 Event(AllocationKind::kUnmapped, 17 * kPage, kPage, 0)});
  for (const std::uint64_t page : {16, 17, 18}) AddPage(first, page, 1, 0);
  const TracedObjects objects = Objects({first});
  ASSERT_EQ(objects.rows.size(), 1U);
  EXPECT_DOUBLE_EQ(objects.rows[0].references.value(), 2);
  EXPECT_DOUBLE_EQ(objects.rows[0].live_bytes, 2 * kPage);
  EXPECT_DOUBLE_EQ(objects.rows[0].objects, 1);
}

TEST(TracedObjects, ASampledOneStandsForOthers) {
  EpochProfile epoch =
      Epoch(0, {Event(AllocationKind::kAllocated, 16 * kPage, 1024, 1, milliseconds(0), 100)});
  AddPage(epoch, 16, 4, 0);
  const TracedObjects objects = Objects({epoch});
  ASSERT_EQ(objects.rows.size(), 1U);
  EXPECT_DOUBLE_EQ(objects.rows[0].references.value(), 100);
  EXPECT_DOUBLE_EQ(objects.rows[0].objects, 100);
  EXPECT_DOUBLE_EQ(objects.rows[0].bytes, 102'400);
  EXPECT_TRUE(objects.rows[0].estimated);
  const std::string text = TracedObjectsText(objects);
  EXPECT_THAT(TitlesWithoutUnit(text), testing::IsEmpty()) << text;
  for (const char* estimate : {"~100 KiB", "~100 ", " 0 "}) {
    EXPECT_THAT(text, HasSubstr(estimate)) << "no samples are none";
  }
}

TEST(TracedObjects, AnAllocationOverALivingObjectEndsThatObject) {
  EpochProfile epoch =
      Epoch(0, {Event(AllocationKind::kAllocated, 16 * kPage, kPage, 1),
                Event(AllocationKind::kAllocated, 16 * kPage, kPage, 1, milliseconds(500))});
  AddPage(epoch, 16, 8, 0);
  const TracedObjects objects = Objects({epoch}, {.by = ObjectsBy::kObject});
  ASSERT_EQ(objects.rows.size(), 2U);
  EXPECT_DOUBLE_EQ(objects.rows[0].references.value(), 4);
  EXPECT_DOUBLE_EQ(objects.rows[1].references.value(), 4);
  EXPECT_EQ(objects.rows[1].start, 16 * kPage);
  EXPECT_EQ(objects.rows[1].pid, Pid(42));
}

TEST(TracedObjects, EpochsAndProcessesCanBeChosenAndWhatIsOlderStillLives) {
  EpochProfile first = Epoch(0, {Event(AllocationKind::kAllocated, 16 * kPage, kPage, 1)});
  AddPage(first, 16, 8, 0);
  EpochProfile second = Epoch(1, {});
  AddPage(second, 16, 3, 0);
  const TracedObjects objects = Objects({first, second}, {.epochs = {.first = 1}});
  EXPECT_DOUBLE_EQ(objects.rows.at(0).references.value(), 3);
  EXPECT_DOUBLE_EQ(objects.references.value(), 3);
  const TracedObjects others = Objects({first, second}, {.pid = Pid(7)});
  EXPECT_TRUE(others.rows.empty());
}

TEST(TracedObjects, LeaveOutObjectsThatDidNotLiveInTheEpochs) {
  EpochProfile first =
      Epoch(0, {Event(AllocationKind::kAllocated, 16 * kPage, kPage, 1),
                Event(AllocationKind::kAllocated, 17 * kPage, 2 * kPage, 1),
                Event(AllocationKind::kMapped, 32 * kPage, kPage, 2),
                Event(AllocationKind::kUnmapped, 32 * kPage, kPage, 0, milliseconds(400)),
                Event(AllocationKind::kFreed, 16 * kPage, 0, 0, milliseconds(500))});
  EpochProfile second =
      Epoch(1, {Event(AllocationKind::kAllocated, 20 * kPage, 4 * kPage, 1, milliseconds(1250)),
                Event(AllocationKind::kFreed, 20 * kPage, 0, 0, milliseconds(1500))});
  AddPage(second, 17, 3, 0);
  for (const ObjectsBy by : {ObjectsBy::kSite, ObjectsBy::kObject}) {
    const TracedObjects objects = Objects({first, second}, {.by = by, .epochs = {.first = 1}});
    ASSERT_EQ(objects.rows.size(), by == ObjectsBy::kSite ? 1U : 2U) << "without the mapping";
    double all = 0;
    double bytes = 0;
    for (const TracedObjects::Row& row : objects.rows) {
      all += row.objects;
      bytes += row.bytes;
    }
    EXPECT_DOUBLE_EQ(all, 2);
    EXPECT_DOUBLE_EQ(bytes, 6 * kPage);
  }
}

// 3 of 4 objects of one size, that are freed in the epoch in which they have references.
TEST(TracedObjects, KeepTheRowsShownAndCountAll) {
  EpochProfile first = Epoch(0, {});
  for (std::uint64_t i = 0; i < 4; ++i) {
    AllocationsOf(first)->events.push_back(
        Event(AllocationKind::kAllocated, (16 + i) * kPage, kPage, 1));
    if (i != 2) {
      AllocationsOf(first)->events.push_back(
          Event(AllocationKind::kFreed, (16 + i) * kPage, 0, 0, milliseconds(500)));
    }
    AddPage(first, 16 + i, i == 0 ? 2 : 20, 0);
  }
  const TracedObjectsOptions by_object{.by = ObjectsBy::kObject};
  const TracedObjects all = Objects({first}, by_object);
  ASSERT_EQ(all.rows.size(), 4U);
  TracedObjectsOptions limited = by_object;
  limited.limit = 2;
  const TracedObjects objects = Objects({first}, limited);
  ASSERT_EQ(objects.rows.size(), 2U);
  EXPECT_EQ(objects.rows[0].start, 18 * kPage) << "which lived all of the epoch";
  EXPECT_EQ(objects.rows[1].start, 17 * kPage) << "before the one alike that came later";
  EXPECT_EQ(objects.rows[1].site.frames.at(0).function, "make");
  EXPECT_DOUBLE_EQ(objects.rows[1].references.value(), 10);
  EXPECT_EQ(objects.rows[1].lifetime, milliseconds(500));
  EXPECT_EQ(objects.all_rows, 4U);
  EXPECT_THAT(TracedObjectsText(objects), HasSubstr("2 of 4 rows"));
  double accesses = 0;
  for (const TracedObjects::Row& row : all.rows) accesses += row.accesses.value();
  ASSERT_TRUE(objects.stacks.contains("allocated;make"));
  EXPECT_NEAR(objects.stacks.at("allocated;make"), accesses, accesses * 1e-9);
}

TEST(TracedObjects, NodesThatHeldThePagesHaveTheirShares) {
  EpochProfile epoch = Epoch(0, {Event(AllocationKind::kAllocated, 16 * kPage, 3 * kPage, 1),
                                 Event(AllocationKind::kAllocated, 20 * kPage, kPage, 2)});
  const auto add = [&](std::uint64_t page, std::uint32_t references, std::optional<NodeId> node) {
    Append(
        epoch.pages,
        {.key = {TargetId(0), Vpn(page)}, .looks = 1000, .references = references, .node = node});
  };
  add(16, 30, NodeId(2));
  add(17, 10, std::nullopt);
  add(18, 60, NodeId(0));
  add(20, 5, NodeId(2));
  const TracedObjects objects = Objects({epoch});
  EXPECT_THAT(objects.nodes, ::testing::ElementsAre(NodeId(0), NodeId(2), std::nullopt));
  ASSERT_EQ(objects.rows.size(), 2U);
  EXPECT_DOUBLE_EQ(*objects.rows[0].ShareOnNode(0), 0.6);
  EXPECT_DOUBLE_EQ(*objects.rows[0].ShareOnNode(1), 0.3);
  EXPECT_DOUBLE_EQ(*objects.rows[0].ShareOnNode(2), 0.1);
  EXPECT_DOUBLE_EQ(*objects.rows[1].ShareOnNode(1), 1);
  EXPECT_THAT(TracedObjectsText(objects), HasSubstr("node unknown"));
}

// Pages of site 1: 16 on node 2, 17 on no known node, and 18 on node 0. Pages of site 2: 20 on node
// 3, and 21 on node 2, half of which belongs to nobody.
EpochProfile OnNodes(bool with_looks) {
  EpochProfile epoch = Epoch(0, {Event(AllocationKind::kAllocated, 16 * kPage, 3 * kPage, 1),
                                 Event(AllocationKind::kAllocated, 20 * kPage, kPage * 3 / 2, 2)});
  const auto add = [&](std::uint64_t page, std::uint32_t samples, std::optional<NodeId> node) {
    Append(epoch.pages, {.key = {TargetId(0), Vpn(page)},
                         .looks = with_looks ? 1000u : 0u,
                         .references = with_looks ? samples : 0,
                         .load_samples = with_looks ? 0 : samples,
                         .node = node});
  };
  add(16, 30, NodeId(2));
  add(17, 100, std::nullopt);
  add(18, 70, NodeId(0));
  add(20, 5, NodeId(3));
  add(21, 20, NodeId(2));
  return epoch;
}

TEST(TracedObjects, RowsHaveTheirShareOfTier2AndTheShareOfThemInTier2) {
  const TracedObjects objects = Objects({OnNodes(false)}, {.tier2 = {{NodeId(2), NodeId(7)}}});
  ASSERT_FALSE(objects.accesses) << "by samples alone: 50 in tier 2, 75 in tier 1, 100 unknown";
  EXPECT_DOUBLE_EQ(objects.InTier2(objects.tiers).value(), 0.4);
  ASSERT_EQ(objects.rows.size(), 2U);
  EXPECT_DOUBLE_EQ(objects.InTier2(objects.rows[0].tiers).value(), 0.3) << "30 of 30 + 70";
  EXPECT_DOUBLE_EQ(objects.OfTier2(objects.rows[0]).value(), 0.6) << "30 of 50";
  EXPECT_DOUBLE_EQ(objects.InTier2(objects.rows[1].tiers).value(), 10.0 / 15);
  EXPECT_DOUBLE_EQ(objects.OfTier2(objects.rows[1]).value(), 0.2);
  EXPECT_DOUBLE_EQ(objects.InTier2(objects.elsewhere.tiers).value(), 1);
  EXPECT_DOUBLE_EQ(objects.OfTier2(objects.elsewhere).value(), 0.2);
  const auto json = nlohmann::json::parse(TracedObjectsJson(objects));
  EXPECT_EQ(json["tier2_nodes"], nlohmann::json::parse("[2, 7]"));
  EXPECT_DOUBLE_EQ(json["in_tier2_share"], 0.4);
  EXPECT_DOUBLE_EQ(json["rows"][0]["in_tier2_share"], 0.3);
  EXPECT_DOUBLE_EQ(json["rows"][0]["of_tier2_share"], 0.6);
  EXPECT_DOUBLE_EQ(json["elsewhere"]["of_tier2_share"], 0.2);
  const std::string text = TracedObjectsText(objects);
  EXPECT_THAT(text, HasSubstr("in tier 2, or below, nodes 2, 7: 40 % of references and samples"));
  EXPECT_THAT(text, HasSubstr("in tier 2  of tier 2  kind"));
  EXPECT_THAT(text, HasSubstr("30 %       60 %  allocated  make"));
  EXPECT_THAT(TracedObjectsCsv(objects), HasSubstr(",make,,,,,,0.3,0.6,"));
}

TEST(TracedObjects, SharesOfTier2ThatStandForOthersAreEstimates) {
  EpochProfile epoch =
      Epoch(0, {Event(AllocationKind::kAllocated, 16 * kPage, kPage, 1, milliseconds(0), 3),
                Event(AllocationKind::kAllocated, 20 * kPage, kPage, 2)});
  Append(epoch.pages, {.key = {TargetId(0), Vpn(16)}, .load_samples = 10, .node = NodeId(2)});
  Append(epoch.pages, {.key = {TargetId(0), Vpn(20)}, .load_samples = 90, .node = NodeId(2)});
  const std::string text = TracedObjectsText(Objects({epoch}, {.tier2 = {{NodeId(2)}}}));
  EXPECT_THAT(text, HasSubstr(" ~100 %      ~30 %  allocated  make"));
  EXPECT_THAT(text, HasSubstr("  100 %       90 %  allocated  "));
}

// Nobody's half of page 21 has no tier here, nor has page 16.
TEST(TracedObjects, TiersAreThoseOfTheRecordingAndAccessesAreWeighedWhereBitsWereRead) {
  Trace trace = TraceOf({OnNodes(true)});
  trace.info.tiers = {{NodeId(0)}, {NodeId(3)}, {NodeId(4)}};
  const Result<TracedObjects> objects = MakeTracedObjects(trace, {});
  ASSERT_TRUE(objects) << objects.error().Message();
  EXPECT_THAT(objects->tier2.value(), ::testing::ElementsAre(NodeId(3), NodeId(4)));
  ASSERT_EQ(objects->rows.size(), 2U);
  EXPECT_EQ(objects->InTier2(objects->rows[0].tiers), 0.0) << "page 18; node 2 is of no tier";
  EXPECT_EQ(objects->OfTier2(objects->rows[0]), 0.0);
  EXPECT_EQ(objects->InTier2(objects->rows[1].tiers), 1.0);
  EXPECT_NEAR(objects->OfTier2(objects->rows[1]).value(), 1, 1e-9);
  const TracedObjects page20 = Objects({OnNodes(true)}, {.page = Vpn(20)});
  EXPECT_NEAR(objects->tiers.tier2, page20.accesses.value(), *page20.accesses * 1e-9);
  const TracedObjects page18 = Objects({OnNodes(true)}, {.page = Vpn(18)});
  EXPECT_NEAR(objects->tiers.tier1, page18.accesses.value(), *page18.accesses * 1e-9);
}

TEST(TracedObjects, PagesOnNoKnownNodeAreNotOutsideOfTier2) {
  EpochProfile epoch = Epoch(0, {Event(AllocationKind::kAllocated, 16 * kPage, kPage, 1),
                                 Event(AllocationKind::kAllocated, 17 * kPage, kPage, 2)});
  Append(epoch.pages, {.key = {TargetId(0), Vpn(16)}, .load_samples = 9, .node = std::nullopt});
  Append(epoch.pages, {.key = {TargetId(0), Vpn(17)}, .load_samples = 5, .node = NodeId(2)});
  const TracedObjects objects = Objects({epoch}, {.tier2 = {{NodeId(2)}}});
  ASSERT_EQ(objects.rows.size(), 2U);
  EXPECT_FALSE(objects.InTier2(objects.rows[0].tiers));
  EXPECT_FALSE(objects.OfTier2(objects.rows[0])) << "not 0";
  EXPECT_EQ(objects.OfTier2(objects.rows[1]), 1.0);
}

TEST(TracedObjects, ARowWithoutSamplesHasNothingOfTier2) {
  EpochProfile epoch = Epoch(0, {Event(AllocationKind::kAllocated, 16 * kPage, kPage, 1),
                                 Event(AllocationKind::kAllocated, 17 * kPage, kPage, 2)});
  Append(epoch.pages, {.key = {TargetId(0), Vpn(16)}, .load_samples = 5, .node = NodeId(2)});
  const TracedObjects objects = Objects({epoch}, {.tier2 = {{NodeId(2)}}});
  ASSERT_EQ(objects.rows.size(), 2U);
  EXPECT_EQ(objects.OfTier2(objects.rows[0]), 1.0);
  EXPECT_EQ(objects.rows[1].samples, 0.0) << "a sampler was on";
  EXPECT_EQ(objects.OfTier2(objects.rows[1]), 0.0);
  EXPECT_FALSE(objects.InTier2(objects.rows[1].tiers)) << "of nothing, nothing can be a share";
}

TEST(TracedObjects, ANodeThatTheRecordedMachineHasNotIsRefusedAsTier2) {
  Trace trace = TraceOf({OnNodes(true)});
  trace.info.tiers = {{NodeId(0)}, {NodeId(2), NodeId(3)}};
  EXPECT_TRUE(MakeTracedObjects(trace, {.tier2 = {{NodeId(3)}}}));
  const Result<TracedObjects> objects =
      MakeTracedObjects(trace, {.tier2 = {{NodeId(3), NodeId(4)}}});
  ASSERT_FALSE(objects);
  EXPECT_THAT(objects.error().Message(),
              AllOf(HasSubstr("no memory on node 4"), HasSubstr("nodes 0, 2, 3")));
  // Pages lie on node 3, which came after the recording had begun.
  trace.info.tiers = {{NodeId(0)}, {NodeId(2)}};
  EXPECT_TRUE(MakeTracedObjects(trace, {.tier2 = {{NodeId(3)}}}));
}

TEST(TracedObjects, UnknownTiersAreNotShownAndOneClassHasNoSlowTier) {
  Trace trace = TraceOf({OnNodes(true)});
  const TracedObjects unknown = MakeTracedObjects(trace, {}).value();
  EXPECT_FALSE(unknown.tier2);
  EXPECT_FALSE(unknown.InTier2(unknown.rows.at(0).tiers));
  EXPECT_FALSE(unknown.OfTier2(unknown.rows.at(0)));
  EXPECT_THAT(TracedObjectsText(unknown), Not(HasSubstr("tier 2")));
  const auto json = nlohmann::json::parse(TracedObjectsJson(unknown));
  EXPECT_TRUE(json["tier2_nodes"].is_null());
  EXPECT_TRUE(json["rows"][0]["in_tier2_share"].is_null());
  trace.info.tiers = {{NodeId(0), NodeId(2), NodeId(3)}};
  const TracedObjects one = MakeTracedObjects(trace, {}).value();
  EXPECT_TRUE(one.tier2.value().empty());
  EXPECT_EQ(one.InTier2(one.rows.at(0).tiers), 0.0);
  EXPECT_FALSE(one.OfTier2(one.rows.at(0))) << "of nothing";
  EXPECT_THAT(TracedObjectsText(one), Not(HasSubstr("tier 2")));
}

TEST(TracedObjects, AccessesAreEstimatedWhereBitsWereRead) {
  EpochProfile seen = Epoch(0, {Event(AllocationKind::kAllocated, 16 * kPage, kPage, 1),
                                Event(AllocationKind::kAllocated, 17 * kPage, kPage / 2, 2)});
  AddPage(seen, 16, 800, 0);
  AddPage(seen, 17, 8, 0);
  const TracedObjects objects = Objects({seen});
  ASSERT_TRUE(objects.accesses);
  ASSERT_EQ(objects.rows.size(), 2U);
  const double hot = objects.rows[0].accesses.value();
  const double cold = objects.rows[1].accesses.value();
  EXPECT_GT(hot, 100 * cold);
  EXPECT_NEAR(hot + 2 * cold, *objects.accesses, *objects.accesses * 1e-9);
  EXPECT_NEAR(objects.elsewhere.accesses.value(), cold, *objects.accesses * 1e-9);
  EXPECT_DOUBLE_EQ(*objects.rows[0].AccessesPerByte(), hot / kPage);

  EpochProfile sampled = Epoch(0, {Event(AllocationKind::kAllocated, 16 * kPage, kPage, 1)});
  Append(sampled.pages, {.key = {TargetId(0), Vpn(16)}, .load_samples = 7});
  const TracedObjects by_samples = Objects({sampled});
  EXPECT_FALSE(by_samples.accesses);
  EXPECT_FALSE(by_samples.references) << "nobody read a bit";
  EXPECT_FALSE(by_samples.rows.at(0).references);
  EXPECT_DOUBLE_EQ(by_samples.rows.at(0).samples.value(), 7);
}

// Page 16 was looked at and found idle, page 18 was not looked at.
TEST(TracedObjects, UnobservedObjectsAreUnknownAndIdleOnesAreZero) {
  EpochProfile epoch = Epoch(0, {Event(AllocationKind::kAllocated, 16 * kPage, kPage, 1),
                                 Event(AllocationKind::kAllocated, 18 * kPage, kPage, 2)});
  AddPage(epoch, 16, 0, 0);
  AddPage(epoch, 32, 900, 0);
  const TracedObjects sampled = Objects({epoch});
  ASSERT_EQ(sampled.rows.size(), 2U);
  EXPECT_EQ(sampled.rows[0].references, 0.0);
  EXPECT_TRUE(sampled.rows[0].accesses.has_value());
  EXPECT_FALSE(sampled.rows[1].references.has_value());
  EXPECT_FALSE(sampled.rows[1].accesses.has_value());
  EXPECT_EQ(sampled.rows[1].samples, 0.0) << "a sampler has no page of its own";

  epoch.sources = {ReferenceSource(10)};
  const TracedObjects objects = Objects({epoch});
  EXPECT_FALSE(objects.samples.has_value());
  EXPECT_FALSE(objects.rows[0].samples.has_value());
  const std::string text = TracedObjectsText(objects);
  const std::string row = text.substr(text.find("unknown  unknown  unknown"));
  EXPECT_THAT(row.substr(0, row.find('\n')), HasSubstr("allocated  map"));
  const auto json = nlohmann::json::parse(TracedObjectsJson(objects));
  for (const char* figure : {"accesses", "accesses_share", "accesses_per_byte", "references",
                             "references_share", "samples", "samples_share"}) {
    EXPECT_TRUE(json["rows"][1][figure].is_null()) << figure;
  }
  EXPECT_EQ(json["rows"][1]["observed_share"], 0);
  EXPECT_EQ(json["rows"][0]["observed_share"], 1);
  EXPECT_EQ(json["rows"][0]["references"], 0);
  EXPECT_THAT(TracedObjectsCsv(objects),
              HasSubstr("allocated,,,,,,,1,4096,4096,false,1,map,,,,,,,,0,"));
}

// An object has 10 KiB from the middle of page 16 on. Pages 16 and 18 were looked at: 2 and 4 KiB
// of it. Two epochs later page 17 was. The site's second object stands for three, and the last of
// its two pages was sampled.
TEST(TracedObjects, TellHowManyOfARowsBytesWereObserved) {
  EpochProfile first = Epoch(0, {Event(AllocationKind::kAllocated, 16 * kPage + 2048, 10'240, 1)});
  AddPage(first, 16, 8, 0);
  AddPage(first, 18, 8, 0);
  const TracedObjects once = Objects({first});
  EXPECT_DOUBLE_EQ(once.rows.at(0).ObservedShare().value(), 0.6);
  EXPECT_THAT(TracedObjectsText(once), HasSubstr("10 KiB      60 %        1"));
  EXPECT_EQ(nlohmann::json::parse(TracedObjectsJson(once))["rows"][0]["observed_share"], 0.6);
  const TracedObjects of_page = Objects({first}, {.page = Vpn(16)});
  EXPECT_DOUBLE_EQ(of_page.rows.at(0).ObservedShare().value(), 1) << "of its 2 KiB there";

  EpochProfile third = Epoch(
      2, {Event(AllocationKind::kAllocated, 32 * kPage, 2 * kPage, 1, milliseconds(2500), 3)});
  AddPage(third, 17, 0, 0);
  Append(third.pages, {.key = {TargetId(0), Vpn(33)}, .load_samples = 7});
  const TracedObjects all = Objects({first, Epoch(1, {}), third});
  ASSERT_EQ(all.rows.size(), 1U);
  EXPECT_DOUBLE_EQ(all.rows[0].ObservedShare().value(),
                   (10'240.0 + 3 * 4096) / (10'240 + 3 * 8192));
  const TracedObjects types = Objects({first, Epoch(1, {}), third}, {.by = ObjectsBy::kType});
  EXPECT_EQ(types.rows.at(0).ObservedShare(), all.rows[0].ObservedShare());
  const TracedObjects later =
      Objects({first, Epoch(1, {}), third}, {.by = ObjectsBy::kObject, .epochs = {.first = 1}});
  ASSERT_EQ(later.rows.size(), 2U);
  EXPECT_DOUBLE_EQ(later.rows[0].ObservedShare().value(), 0.5) << "which stands for three";
  EXPECT_DOUBLE_EQ(later.rows[1].ObservedShare().value(), 0.4) << "page 17 alone";
}

// Page 16 is looked at in the first epoch, while the first object lives there, not the second.
TEST(TracedObjects, LookingBeforeAnObjectLivedDoesNotObserveIt) {
  EpochProfile first =
      Epoch(0, {Event(AllocationKind::kAllocated, 16 * kPage, kPage, 1, milliseconds(100))});
  AddPage(first, 16, 8, 0);
  const EpochProfile second =
      Epoch(1, {Event(AllocationKind::kFreed, 16 * kPage, 0, 0, milliseconds(1200)),
                Event(AllocationKind::kAllocated, 16 * kPage, kPage, 2, milliseconds(1300))});
  const TracedObjects objects = Objects({first, second});
  ASSERT_EQ(objects.rows.size(), 2U);
  EXPECT_EQ(objects.rows[0].site.frames.at(0).function, "make");
  EXPECT_EQ(objects.rows[0].ObservedShare(), 1.0);
  EXPECT_EQ(objects.rows[1].ObservedShare(), 0.0);
  EXPECT_FALSE(objects.rows[1].accesses);
}

TEST(TracedObjects, ShowsNoObservedShareIfItIsAllOrNoBitWasRead) {
  EpochProfile looked = Epoch(0, {Event(AllocationKind::kAllocated, 16 * kPage, kPage, 1)});
  AddPage(looked, 16, 8, 0);
  EXPECT_THAT(TracedObjectsText(Objects({looked})), Not(HasSubstr("observed")));
  EpochProfile sampled = Epoch(0, {Event(AllocationKind::kAllocated, 16 * kPage, 2 * kPage, 1)});
  Append(sampled.pages, {.key = {TargetId(0), Vpn(16)}, .load_samples = 7});
  const TracedObjects objects = Objects({sampled});
  EXPECT_FALSE(objects.rows.at(0).ObservedShare()) << "a sampler looks at no page of its own";
  EXPECT_THAT(TracedObjectsText(objects), Not(HasSubstr("observed")));
  EXPECT_TRUE(
      nlohmann::json::parse(TracedObjectsJson(objects))["rows"][0]["observed_share"].is_null());
}

// The sampler is on in the first and in the fourth epoch.
TEST(TracedObjects, SamplesAreUnknownIfNoSamplerWasOnInTheObjectsLife) {
  std::vector<EpochProfile> epochs;
  for (std::uint64_t i = 0; i < 4; ++i) {
    epochs.push_back(Epoch(i, {}));
    if (i == 1 || i == 2) epochs.back().sources[1].state = SourceState::kGated;
    AddPage(epochs.back(), 16, 8, 0);
  }
  const auto live = [&](std::uint64_t page, std::vector<std::int64_t> ms) {
    const auto add = [&](AllocationKind kind, std::int64_t at) {
      AllocationsOf(epochs[static_cast<std::size_t>(at) / 1000])
          ->events.push_back(Event(kind, page * kPage, kPage, 1, milliseconds(at)));
    };
    add(AllocationKind::kAllocated, ms[0]);
    if (ms.size() > 1) add(AllocationKind::kFreed, ms[1]);
  };
  live(16, {1250, 2750});
  live(17, {500, 1500});
  live(18, {2000, 3000});
  live(19, {2500});
  const TracedObjects objects = Objects(epochs, {.by = ObjectsBy::kObject});
  ASSERT_EQ(objects.rows.size(), 4U);
  EXPECT_EQ(objects.samples, 0.0);
  for (const TracedObjects::Row& row : objects.rows) {
    const std::uint64_t page = row.start.value() / kPage;
    EXPECT_EQ(row.samples.has_value(), page == 17 || page == 19) << page;
    EXPECT_EQ(row.samples.value_or(0), 0) << page;
  }
  // Epochs without a sampler have no evidence.
  const TracedObjects gated =
      Objects(epochs, {.by = ObjectsBy::kObject, .epochs = {.first = 1, .end = 3}});
  ASSERT_EQ(gated.rows.size(), 4U);
  for (const TracedObjects::Row& row : gated.rows) EXPECT_FALSE(row.samples.has_value());
}

TEST(TracedObjects, ARowOfATypeSumsWhatIsKnown) {
  EpochProfile epoch = Epoch(0, {Event(AllocationKind::kAllocated, 16 * kPage, kPage, 1),
                                 Event(AllocationKind::kAllocated, 18 * kPage, kPage, 3)});
  AllocationsOf(epoch)->sites.push_back({.id = 3, .frames = {{.function = "make", .line = 3}}});
  AddPage(epoch, 16, 8, 0);
  const TracedObjects objects = Objects({epoch}, {.by = ObjectsBy::kType});
  ASSERT_EQ(objects.rows.size(), 1U);
  EXPECT_EQ(objects.rows[0].references, 8.0);
  EXPECT_DOUBLE_EQ(objects.rows[0].objects, 2);
}

// One page is accessed soon after each of few clears, another is found accessed more often, a
// second after each clear. The first one is accessed more.
TEST(TracedObjects, RowsAndStacksGoByAccesses) {
  EpochProfile epoch = Epoch(0, {Event(AllocationKind::kAllocated, 16 * kPage, kPage, 1),
                                 Event(AllocationKind::kAllocated, 17 * kPage, kPage, 2)});
  const auto add = [&](std::uint64_t page, std::uint32_t references, milliseconds at_risk) {
    Append(epoch.pages, {.key = {TargetId(0), Vpn(page)},
                         .looks = references,
                         .references = references,
                         .first_accesses = references,
                         .time_at_risk = LogDuration::FromNanoseconds(at_risk)});
  };
  add(16, 100, milliseconds(900));
  add(17, 20, milliseconds(2));
  const TracedObjects objects = Objects({epoch});
  ASSERT_EQ(objects.rows.size(), 2U);
  EXPECT_EQ(objects.rows[0].site.frames[0].function, "map");
  EXPECT_GT(objects.rows[0].accesses.value(), 10 * objects.rows[1].accesses.value());
  EXPECT_LT(objects.rows[0].references.value(), objects.rows[1].references.value());
  EXPECT_EQ(TracedObjectsFolded(objects), fmt::format("allocated;make {}\nallocated;map {}\n",
                                                      std::llround(*objects.rows[1].accesses),
                                                      std::llround(*objects.rows[0].accesses)));
  EXPECT_THAT(TracedObjectsText(objects),
              HasSubstr("by accesses (references): accesses (estimated) of their pages\n"));
}

// The first page has no sample, the second one many.
TEST(TracedObjects, AccessesCountSamplesWhateverRowsGoBy) {
  EpochProfile epoch = Epoch(0, {Event(AllocationKind::kAllocated, 16 * kPage, kPage, 1),
                                 Event(AllocationKind::kAllocated, 17 * kPage, kPage, 2)});
  AddPage(epoch, 16, 8, 0);
  AddPage(epoch, 17, 6, 900);
  const TracedObjects all = Objects({epoch}, {.weight = RankWeight::kAccesses});
  const TracedObjects by_bits = Objects({epoch}, {.weight = RankWeight::kReferences});
  ASSERT_EQ(by_bits.rows.size(), 2U);
  EXPECT_EQ(all.rows[0].site.frames[0].function, "map");
  EXPECT_EQ(by_bits.rows[0].site.frames[0].function, "make");
  EXPECT_EQ(by_bits.accesses, all.accesses);
  EXPECT_EQ(by_bits.rows[0].accesses, all.rows[1].accesses);
  EXPECT_FALSE(all.ranked.has_value());
  EXPECT_GT(by_bits.rows[0].ranked.value(), by_bits.rows[1].ranked.value());
  const nlohmann::json json = nlohmann::json::parse(TracedObjectsJson(by_bits));
  EXPECT_EQ(json["rows"][0]["reference_accesses"], *by_bits.rows[0].ranked);
  EXPECT_TRUE(json["memory_accesses"].is_null());
  EXPECT_THAT(TracedObjectsText(by_bits),
              HasSubstr("by references: accesses by accessed bits (estimated) of their pages\n"));
}

TEST(TracedObjects, TellTheAccessesOfNoObject) {
  EpochProfile epoch = Epoch(0, {Event(AllocationKind::kAllocated, 16 * kPage, kPage / 4, 1)});
  AddPage(epoch, 16, 8, 4);
  AddPage(epoch, 20, 2, 1);
  const TracedObjects objects = Objects({epoch});
  EXPECT_DOUBLE_EQ(objects.elsewhere.references.value(), 6 + 2);
  EXPECT_DOUBLE_EQ(objects.elsewhere.samples.value(), 3 + 1);
  EXPECT_FALSE(objects.elsewhere.estimated);
  EXPECT_THAT(TracedObjectsText(objects), HasSubstr("elsewhere  in no object that is known"));
  const auto json = nlohmann::json::parse(TracedObjectsJson(objects));
  EXPECT_EQ(json["elsewhere"]["references"], 8);
  EXPECT_DOUBLE_EQ(json["elsewhere"]["samples_share"].get<double>(), 0.8);
  EXPECT_THAT(TracedObjectsCsv(objects), HasSubstr("\nelsewhere,,,8,0.8,4,0.8,,,,false,,,"));

  TracedObjectsOptions none{.limit = 0};
  EXPECT_DOUBLE_EQ(Objects({epoch}, none).elsewhere.references.value(), 8) << "of all rows";

  EpochProfile all = Epoch(0, {Event(AllocationKind::kMapped, 16 * kPage, 8 * kPage, 2)});
  AddPage(all, 16, 8, 4);
  EXPECT_EQ(Objects({all}).elsewhere.references, 0.0);
}

TEST(TracedObjects, AnEstimateAboveTheTotalLeavesAnUnknownRest) {
  EpochProfile epoch =
      Epoch(0, {Event(AllocationKind::kAllocated, 16 * kPage, 1024, 1, milliseconds(0), 100)});
  AddPage(epoch, 16, 4, 0);
  const TracedObjects objects = Objects({epoch});
  EXPECT_TRUE(objects.elsewhere.estimated);
  EXPECT_FALSE(objects.elsewhere.references.has_value()) << "4 - 100";
  EXPECT_EQ(objects.elsewhere.samples, 0.0);
}

// Sites 1 and 2 have pages of their own, in epochs of different heat; page 30 is nobody's, and
// pages 40 to 43 were one span at first.
std::vector<EpochProfile> Changing() {
  EpochProfile first = Epoch(0, {Event(AllocationKind::kAllocated, 16 * kPage, 8 * kPage, 1),
                                 Event(AllocationKind::kAllocated, 40 * kPage, 4 * kPage, 2)});
  EpochProfile second = Epoch(1, {});
  EpochProfile third = Epoch(2, {});
  for (EpochProfile* epoch : {&first, &second, &third}) {
    AllocationsOf(*epoch)->all_from_bytes = 1;
    const auto more = static_cast<std::uint32_t>(epoch->index * 7);
    for (std::uint64_t page = 16; page < 24; ++page) {
      See(*epoch, 0,
          {{.vpn = page, .looks = 90, .references = 20 + more, .loads = 2, .stores = 1}});
    }
    See(*epoch, 0, {{.vpn = 30, .looks = 90, .references = 10 + more}});
    if (epoch->index == 0) {
      See(*epoch, 0, {{.vpn = 40, .looks = 90, .references = 8, .span = 4}});
    } else {
      See(*epoch, 0, {{.vpn = 40, .looks = 90, .references = 60}, {.vpn = 42, .looks = 90}});
    }
  }
  AllocationsOf(first)->sites[0].frames[0] = {
      .function = "make", .module = "/bin/program", .offset = 0x100};
  AllocationsOf(first)->sites[1].frames[0] = {
      .function = "map", .module = "/bin/program", .offset = 0x200};
  return {first, second, third};
}

TEST(TracedObjects, AccessesAreThoseOfTheHotViewAndOfAdvice) {
  const Trace trace = TraceOf(Changing());
  const Result<TracedObjects> objects = MakeTracedObjects(trace, {});
  const Result<HotList> hot = MakeHotList(trace, {});
  const Result<ObjectAdvice> advice = MakeObjectAdvice(trace, {});
  ASSERT_TRUE(objects && hot && advice);
  const double near = hot->total_score * 1e-9;
  EXPECT_NEAR(objects->accesses.value(), hot->total_score, near);
  EXPECT_NEAR(objects->accesses.value(), advice->accesses, near);
  ASSERT_EQ(objects->rows.size(), 2U);
  ASSERT_EQ(advice->sites.size(), 2U);
  for (const TracedObjects::Row& row : objects->rows) {
    const std::string& function = row.site.frames.at(0).function;
    const std::uint64_t first = function == "make" ? 16 : 40;
    const std::uint64_t end = function == "make" ? 24 : 44;
    double of_pages = 0;
    for (const HotList::Row& page : hot->rows) {
      if (page.start >= Vpn(first) && page.start < Vpn(end)) of_pages += page.score;
    }
    EXPECT_GT(of_pages, 0);
    EXPECT_NEAR(row.accesses.value(), of_pages, near) << function;
    const auto site = std::ranges::find(advice->sites, function, [](const auto& candidate) {
      return candidate.frames.at(0).function;
    });
    ASSERT_NE(site, advice->sites.end());
    EXPECT_NEAR(row.accesses.value(), site->accesses, near) << function;
  }
  const auto rest = std::ranges::find(hot->rows, Vpn(30), &HotList::Row::start);
  ASSERT_NE(rest, hot->rows.end());
  EXPECT_NEAR(objects->elsewhere.accesses.value(), rest->score, near);
}

TEST(TracedObjects, AccessesOfOneEpochAreThoseOfItsHotView) {
  const Trace trace = TraceOf(Changing());
  const EpochRange last{.first = 2};
  const Result<TracedObjects> objects = MakeTracedObjects(trace, {.epochs = last});
  HotOptions options;
  options.epochs = last;
  const Result<HotList> hot = MakeHotList(trace, options);
  ASSERT_TRUE(objects && hot);
  EXPECT_NEAR(objects->accesses.value(), hot->total_score, hot->total_score * 1e-9);
}

TEST(TracedObjects, LivingObjectsEndWithTheirProcess) {
  EpochProfile epoch =
      Epoch(0, {Event(AllocationKind::kAllocated, 16 * kPage, kPage, 1, milliseconds(250))});
  epoch.targets[0].exited = true;
  const TracedObjects objects = Objects({epoch});
  EXPECT_EQ(objects.rows.at(0).lifetime, milliseconds(750));
  EXPECT_DOUBLE_EQ(objects.rows.at(0).live_bytes, 0);
}

TEST(TracedObjects, OnePageHasItsOwnSharesAndOnlyItsOwnObjects) {
  EpochProfile epoch = Epoch(0, {Event(AllocationKind::kAllocated, 16 * kPage, 5120, 1),
                                 Event(AllocationKind::kMapped, 20 * kPage, kPage, 2)});
  AddPage(epoch, 16, 8, 40);
  AddPage(epoch, 17, 4, 20);
  AddPage(epoch, 20, 7, 7);
  const TracedObjects objects = Objects({epoch}, {.page = Vpn(17)});
  ASSERT_EQ(objects.rows.size(), 1U);
  EXPECT_DOUBLE_EQ(objects.rows[0].references.value(), 1);
  EXPECT_DOUBLE_EQ(objects.rows[0].samples.value(), 5);
  EXPECT_DOUBLE_EQ(objects.references.value(), 4);
  EXPECT_THAT(TracedObjectsText(objects), HasSubstr("page 0x11000"));
}

TEST(TracedObjects, OnePageDoesNotCountObjectsThatItsRecordedOnesStandFor) {
  EpochProfile epoch =
      Epoch(0, {Event(AllocationKind::kAllocated, 16 * kPage, 1024, 1, milliseconds(0), 32'768)});
  AddPage(epoch, 16, 8, 40);
  const TracedObjects objects = Objects({epoch}, {.page = Vpn(16)});
  ASSERT_EQ(objects.rows.size(), 1U);
  EXPECT_DOUBLE_EQ(objects.rows[0].references.value(), 2);
  EXPECT_DOUBLE_EQ(objects.rows[0].samples.value(), 10);
  EXPECT_THAT(TracedObjectsText(objects), HasSubstr("~32 768"));
}

TEST(TracedObjects, APageThatWasNotObservedHeldWhatItHeld) {
  EpochProfile epoch = Epoch(0, {Event(AllocationKind::kAllocated, 16 * kPage, kPage, 1),
                                 Event(AllocationKind::kAllocated, 17 * kPage, kPage, 2)});
  AddPage(epoch, 17, 8, 0);
  const TracedObjects objects = Objects({epoch}, {.page = Vpn(16)});
  EXPECT_FALSE(objects.page_observed);
  ASSERT_EQ(objects.rows.size(), 1U);
  EXPECT_EQ(objects.rows[0].site.frames.at(0).function, "make");
  EXPECT_FALSE(objects.rows[0].accesses.has_value());
  EXPECT_THAT(TracedObjectsText(objects), HasSubstr("the page was not observed"));
  EXPECT_THAT(TracedObjectsJson(objects), HasSubstr("\"page_observed\": false"));

  const TracedObjects observed = Objects({epoch}, {.page = Vpn(17)});
  EXPECT_TRUE(observed.page_observed);
  EXPECT_THAT(TracedObjectsText(observed), Not(HasSubstr("not observed")));
}

TEST(TracedObjects, SitesOfOneTypeAreOneRow) {
  EpochProfile epoch = Epoch(0, {Event(AllocationKind::kAllocated, 16 * kPage, kPage, 1),
                                 Event(AllocationKind::kAllocated, 17 * kPage, kPage, 2),
                                 Event(AllocationKind::kAllocated, 18 * kPage, kPage, 3)});
  AllocationsOf(epoch)->sites = {
      {.id = 1, .frames = {{.function = "operator new(unsigned long)"}, {.function = "make"}}},
      {.id = 2, .frames = {{.function = "make"}, {.function = "main"}}},
      {.id = 3, .frames = {{.function = "std::allocator<Node<int>, 5>::allocate(unsigned long)"}}}};
  for (const std::uint64_t page : {16, 17, 18}) AddPage(epoch, page, page == 18 ? 1 : 8, 0);
  const TracedObjects objects = Objects({epoch}, {.by = ObjectsBy::kType});
  ASSERT_EQ(objects.rows.size(), 2U);
  EXPECT_EQ(objects.rows[0].type, "by make");
  EXPECT_DOUBLE_EQ(objects.rows[0].objects, 2);
  EXPECT_DOUBLE_EQ(objects.rows[0].references.value(), 16);
  EXPECT_EQ(objects.rows[0].lifetime, milliseconds(1000));
  EXPECT_EQ(objects.rows[1].type, "Node<int>");
}

TEST(TracedObjects, FoldedStacksLeadFromTheOutermostCall) {
  EpochProfile epoch = Epoch(0, {Event(AllocationKind::kAllocated, 16 * kPage, kPage, 1),
                                 Event(AllocationKind::kAllocated, 17 * kPage, kPage, 2),
                                 Event(AllocationKind::kMapped, 18 * kPage, kPage, 9)});
  AllocationsOf(epoch)->sites = {
      {.id = 1, .frames = {{.function = "make", .line = 1}, {.function = "main"}}},
      {.id = 2, .frames = {{.function = "make", .line = 2}, {.function = "main"}}}};
  // No accessed bit was read.
  for (const std::uint64_t page : {16, 17, 18}) {
    Append(epoch.pages, {.key = {TargetId(0), Vpn(page)}, .load_samples = 9});
  }
  EXPECT_EQ(TracedObjectsFolded(Objects({epoch})), "allocated;main;make 18\nmapped;unknown 9\n");
}

FixedEvent Fixed(FixedKind kind, std::uint64_t address, std::uint64_t bytes, std::uint32_t site,
                 milliseconds at = milliseconds(0)) {
  return {.target = TargetId(0),
          .kind = kind,
          .ends = bytes == 0,
          .address = address,
          .bytes = bytes,
          .time = kTraceStart + at,
          .site = site};
}

// Sites 3 to 5: a variable, other data of its file and a stack.
EpochProfile FixedEpoch(std::vector<FixedEvent> events) {
  EpochProfile epoch = Epoch(0, {});
  AllocationsOf(epoch)->sites.push_back(
      {.id = 3, .frames = {{.module = "/bin/program"}}, .name = "table"});
  AllocationsOf(epoch)->sites.push_back(
      {.id = 4, .frames = {{.module = "/bin/program"}}, .name = ".bss"});
  AllocationsOf(epoch)->sites.push_back(
      {.id = 5, .frames = {}, .name = "worker", .thread = Tid(43)});
  AllocationsOf(epoch)->fixed = std::move(events);
  return epoch;
}

TEST(TracedObjects, VariablesAndStacksHaveTheirNamesAndSharePagesByBytes) {
  EpochProfile epoch = FixedEpoch({Fixed(FixedKind::kVariable, 16 * kPage, kPage / 4, 3),
                                   Fixed(FixedKind::kData, 16 * kPage + kPage / 2, kPage / 2, 4),
                                   Fixed(FixedKind::kStack, 32 * kPage, 2 * kPage, 5)});
  AddPage(epoch, 16, 8, 0);
  AddPage(epoch, 33, 7, 0);
  const TracedObjects objects = Objects({epoch});
  ASSERT_EQ(objects.rows.size(), 3U);
  EXPECT_EQ(objects.rows[0].kind, TracedKind::kStack);
  EXPECT_DOUBLE_EQ(objects.rows[0].references.value(), 7);
  EXPECT_EQ(objects.rows[1].kind, TracedKind::kData);
  EXPECT_DOUBLE_EQ(objects.rows[1].references.value(), 4);
  EXPECT_EQ(objects.rows[2].kind, TracedKind::kVariable);
  EXPECT_DOUBLE_EQ(objects.rows[2].references.value(), 2);
  const std::string text = TracedObjectsText(objects);
  EXPECT_THAT(text, HasSubstr("stack      thread 43 worker"));
  EXPECT_THAT(text, HasSubstr("variable   table of program"));
  EXPECT_THAT(text, HasSubstr("data       .bss of program, no symbol"));
  EXPECT_THAT(TracedObjectsJson(objects), HasSubstr("\"name\": \"table\""));
  EXPECT_TRUE(objects.stacks.contains("variable;table of program"));
}

TEST(TracedObjects, AStackInAMappingHasItsPartAndEndsWithItsThread) {
  EpochProfile epoch = FixedEpoch({Fixed(FixedKind::kStack, 17 * kPage, kPage, 5),
                                   Fixed(FixedKind::kStack, 17 * kPage, 0, 0, milliseconds(250))});
  AllocationsOf(epoch)->events = {Event(AllocationKind::kMapped, 16 * kPage, 4 * kPage, 2)};
  AddPage(epoch, 17, 8, 0);
  const TracedObjects objects = Objects({epoch}, {.by = ObjectsBy::kObject});
  ASSERT_EQ(objects.rows.size(), 2U);
  EXPECT_EQ(objects.rows[0].kind, TracedKind::kMapped);
  EXPECT_DOUBLE_EQ(objects.rows[0].references.value(), 6);
  EXPECT_EQ(objects.rows[1].kind, TracedKind::kStack);
  EXPECT_DOUBLE_EQ(objects.rows[1].references.value(), 2);
  EXPECT_EQ(objects.rows[1].lifetime, milliseconds(250));
  EXPECT_DOUBLE_EQ(objects.rows[1].live_bytes, 0);
}

TEST(TracedObjects, AStackThatGrewIsTheSameOne) {
  EpochProfile first = FixedEpoch({Fixed(FixedKind::kStack, 17 * kPage, kPage, 5)});
  EpochProfile second = Epoch(1, {});
  AllocationsOf(second)->fixed = {
      Fixed(FixedKind::kStack, 15 * kPage, 3 * kPage, 5, milliseconds(1000))};
  AddPage(first, 16, 8, 0);
  AddPage(second, 16, 4, 0);
  const TracedObjects objects = Objects({first, second});
  ASSERT_EQ(objects.rows.size(), 1U);
  EXPECT_DOUBLE_EQ(objects.rows[0].objects, 1);
  EXPECT_DOUBLE_EQ(objects.rows[0].bytes, 3 * kPage);
  EXPECT_DOUBLE_EQ(objects.rows[0].references.value(), 4);
  EXPECT_EQ(objects.rows[0].lifetime, milliseconds(2000));
}

TEST(TracedObjects, StacksOfOneNameAreOneRowByType) {
  EpochProfile epoch = FixedEpoch({Fixed(FixedKind::kStack, 16 * kPage, kPage, 5),
                                   Fixed(FixedKind::kStack, 17 * kPage, kPage, 6)});
  AllocationsOf(epoch)->sites.push_back(
      {.id = 6, .frames = {}, .name = "worker", .thread = Tid(44)});
  for (const std::uint64_t page : {16, 17}) AddPage(epoch, page, 8, 0);
  EXPECT_EQ(Objects({epoch}).rows.size(), 2U);
  const TracedObjects objects = Objects({epoch}, {.by = ObjectsBy::kType});
  ASSERT_EQ(objects.rows.size(), 1U);
  EXPECT_EQ(objects.rows[0].type, "worker");
  EXPECT_DOUBLE_EQ(objects.rows[0].references.value(), 16);
}

TEST(TracedObjects, ATraceWithoutAllocationsSaysSo) {
  const TracedObjects objects = Objects({MakeEpoch(0, {MakeTarget(0, 42, "program")})});
  EXPECT_FALSE(objects.tracked);
  EXPECT_THAT(TracedObjectsText(objects), HasSubstr("record it with --objects"));
}

TEST(TracedObjects, TextTellsOfWhatWasLost) {
  EpochProfile epoch = Epoch(0, {Event(AllocationKind::kAllocated, 16 * kPage, kPage, 1)});
  AllocationsOf(epoch)->lost = 3;
  const std::string text = TracedObjectsText(Objects({epoch}));
  EXPECT_THAT(text, HasSubstr("make"));
  EXPECT_THAT(text, HasSubstr("lost: 3 allocations and frees"));
}

}  // namespace traced_objects_test
}  // namespace tmprof
