// SPDX-License-Identifier: Apache-2.0

#include "report/traced_objects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/report/traces.h"

namespace tmprof {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

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
  epoch.allocations.emplace().events = std::move(events);
  if (index == 0) {
    epoch.allocations->sites = {{.id = 1, .frames = {{.function = "make"}}},
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
  EXPECT_DOUBLE_EQ(objects.rows[0].references, 8 + 1);
  EXPECT_DOUBLE_EQ(objects.rows[0].samples, 40 + 5);
  EXPECT_DOUBLE_EQ(objects.references, 112);
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
  EXPECT_DOUBLE_EQ(objects.rows[0].references, 6 + 50);
  EXPECT_DOUBLE_EQ(objects.rows[0].live_bytes, 0);
  EXPECT_EQ(objects.rows[0].lifetime, milliseconds(1250));
}

TEST(TracedObjects, AHugePageIsSharedByWhatOfItIsTheObjects) {
  EpochProfile epoch = Epoch(0, {Event(AllocationKind::kMapped, 512 * kPage, 128 * kPage, 2)});
  AddPage(epoch, 512, 8, 80, 512);
  const TracedObjects objects = Objects({epoch});
  EXPECT_DOUBLE_EQ(objects.rows.at(0).references, 2);
  EXPECT_DOUBLE_EQ(objects.rows.at(0).samples, 20);
}

TEST(TracedObjects, AMappingHasWhatAllocationsInItLeave) {
  EpochProfile epoch = Epoch(0, {Event(AllocationKind::kMapped, 16 * kPage, 4 * kPage, 2),
                                 Event(AllocationKind::kAllocated, 16 * kPage, kPage / 4, 1)});
  AddPage(epoch, 16, 8, 0);
  AddPage(epoch, 17, 1, 0);
  const TracedObjects objects = Objects({epoch});
  ASSERT_EQ(objects.rows.size(), 2U);
  EXPECT_EQ(objects.rows[0].kind, TracedKind::kMapped);
  EXPECT_DOUBLE_EQ(objects.rows[0].references, 6 + 1);
  EXPECT_DOUBLE_EQ(objects.rows[1].references, 2);
}

TEST(TracedObjects, APartThatIsUnmappedIsNoMore) {
  EpochProfile first = Epoch(0, {Event(AllocationKind::kMapped, 16 * kPage, 3 * kPage, 2),
                                 Event(AllocationKind::kUnmapped, 17 * kPage, kPage, 0)});
  for (const std::uint64_t page : {16, 17, 18}) AddPage(first, page, 1, 0);
  const TracedObjects objects = Objects({first});
  ASSERT_EQ(objects.rows.size(), 1U);
  EXPECT_DOUBLE_EQ(objects.rows[0].references, 2);
  EXPECT_DOUBLE_EQ(objects.rows[0].live_bytes, 2 * kPage);
  EXPECT_DOUBLE_EQ(objects.rows[0].objects, 1);
}

TEST(TracedObjects, ASampledOneStandsForOthers) {
  EpochProfile epoch =
      Epoch(0, {Event(AllocationKind::kAllocated, 16 * kPage, 1024, 1, milliseconds(0), 100)});
  AddPage(epoch, 16, 4, 0);
  const TracedObjects objects = Objects({epoch});
  ASSERT_EQ(objects.rows.size(), 1U);
  EXPECT_DOUBLE_EQ(objects.rows[0].references, 100);
  EXPECT_DOUBLE_EQ(objects.rows[0].objects, 100);
  EXPECT_DOUBLE_EQ(objects.rows[0].bytes, 102'400);
  EXPECT_TRUE(objects.rows[0].estimated);
  const std::string text = TracedObjectsText(objects);
  for (const char* estimate : {"~100 KiB", "~100 ", " 0 "}) {
    EXPECT_THAT(text, HasSubstr(estimate)) << "no samples are none";
  }
}

TEST(TracedObjects, WhatIsAllocatedWhereSomethingLivesEndsIt) {
  EpochProfile epoch =
      Epoch(0, {Event(AllocationKind::kAllocated, 16 * kPage, kPage, 1),
                Event(AllocationKind::kAllocated, 16 * kPage, kPage, 1, milliseconds(500))});
  AddPage(epoch, 16, 8, 0);
  const TracedObjects objects = Objects({epoch}, {.by = ObjectsBy::kObject});
  ASSERT_EQ(objects.rows.size(), 2U);
  EXPECT_DOUBLE_EQ(objects.rows[0].references, 4);
  EXPECT_DOUBLE_EQ(objects.rows[1].references, 4);
  EXPECT_EQ(objects.rows[1].start, 16 * kPage);
  EXPECT_EQ(objects.rows[1].pid, Pid(42));
}

TEST(TracedObjects, EpochsAndProcessesCanBeChosenAndWhatIsOlderStillLives) {
  EpochProfile first = Epoch(0, {Event(AllocationKind::kAllocated, 16 * kPage, kPage, 1)});
  AddPage(first, 16, 8, 0);
  EpochProfile second = Epoch(1, {});
  AddPage(second, 16, 3, 0);
  const TracedObjects objects = Objects({first, second}, {.epochs = {.first = 1}});
  EXPECT_DOUBLE_EQ(objects.rows.at(0).references, 3);
  EXPECT_DOUBLE_EQ(objects.references, 3);
  const TracedObjects others = Objects({first, second}, {.pid = Pid(7)});
  EXPECT_TRUE(others.rows.empty());
}

TEST(TracedObjects, WhatDidNotLiveInTheseEpochsIsNotCounted) {
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
TEST(TracedObjects, AsManyRowsAsAreShownAreKeptAndAllAreCounted) {
  EpochProfile first = Epoch(0, {});
  for (std::uint64_t i = 0; i < 4; ++i) {
    first.allocations->events.push_back(
        Event(AllocationKind::kAllocated, (16 + i) * kPage, kPage, 1));
    if (i != 2) {
      first.allocations->events.push_back(
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
  EXPECT_DOUBLE_EQ(objects.rows[1].references, 10);
  EXPECT_EQ(objects.rows[1].lifetime, milliseconds(500));
  EXPECT_EQ(objects.all_rows, 4U);
  EXPECT_THAT(TracedObjectsText(objects), HasSubstr("2 of 4 rows"));
  EXPECT_EQ(TracedObjectsFolded(objects), "allocated;make 41\n");
  EXPECT_EQ(TracedObjectsFolded(objects), TracedObjectsFolded(all));
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

TEST(TracedObjects, AccessesAreEstimatedWhereBitsWereRead) {
  EpochProfile seen = Epoch(0, {Event(AllocationKind::kAllocated, 16 * kPage, kPage, 1),
                                Event(AllocationKind::kAllocated, 17 * kPage, kPage / 2, 2)});
  AddPage(seen, 16, 800, 0);
  AddPage(seen, 17, 8, 0);
  const TracedObjects objects = Objects({seen});
  ASSERT_TRUE(objects.accesses);
  ASSERT_EQ(objects.rows.size(), 2U);
  EXPECT_GT(objects.rows[0].accesses, 100 * objects.rows[1].accesses);
  EXPECT_NEAR(objects.rows[0].accesses + 2 * objects.rows[1].accesses, *objects.accesses,
              *objects.accesses * 1e-9);
  EXPECT_DOUBLE_EQ(*objects.rows[0].AccessesPerByte(), objects.rows[0].accesses / kPage);

  EpochProfile sampled = Epoch(0, {Event(AllocationKind::kAllocated, 16 * kPage, kPage, 1)});
  Append(sampled.pages, {.key = {TargetId(0), Vpn(16)}, .load_samples = 7});
  EXPECT_FALSE(Objects({sampled}).accesses);
}

TEST(TracedObjects, WhatLivesEndsWithItsProcess) {
  EpochProfile epoch =
      Epoch(0, {Event(AllocationKind::kAllocated, 16 * kPage, kPage, 1, milliseconds(250))});
  epoch.targets[0].exited = true;
  const TracedObjects objects = Objects({epoch});
  EXPECT_EQ(objects.rows.at(0).lifetime, milliseconds(750));
  EXPECT_DOUBLE_EQ(objects.rows.at(0).live_bytes, 0);
}

TEST(TracedObjects, OfOnePageAreThatPagesSharesAndWhatItHeldAlone) {
  EpochProfile epoch = Epoch(0, {Event(AllocationKind::kAllocated, 16 * kPage, 5120, 1),
                                 Event(AllocationKind::kMapped, 20 * kPage, kPage, 2)});
  AddPage(epoch, 16, 8, 40);
  AddPage(epoch, 17, 4, 20);
  AddPage(epoch, 20, 7, 7);
  const TracedObjects objects = Objects({epoch}, {.page = Vpn(17)});
  ASSERT_EQ(objects.rows.size(), 1U);
  EXPECT_DOUBLE_EQ(objects.rows[0].references, 1);
  EXPECT_DOUBLE_EQ(objects.rows[0].samples, 5);
  EXPECT_DOUBLE_EQ(objects.references, 4);
  EXPECT_THAT(TracedObjectsText(objects), HasSubstr("page 0x11000"));
}

TEST(TracedObjects, OfOnePageNothingIsCountedThatOthersStandForElsewhere) {
  EpochProfile epoch =
      Epoch(0, {Event(AllocationKind::kAllocated, 16 * kPage, 1024, 1, milliseconds(0), 32'768)});
  AddPage(epoch, 16, 8, 40);
  const TracedObjects objects = Objects({epoch}, {.page = Vpn(16)});
  ASSERT_EQ(objects.rows.size(), 1U);
  EXPECT_DOUBLE_EQ(objects.rows[0].references, 2);
  EXPECT_DOUBLE_EQ(objects.rows[0].samples, 10);
  EXPECT_THAT(TracedObjectsText(objects), HasSubstr("~32 768"));
}

TEST(TracedObjects, SitesOfOneTypeAreOneRow) {
  EpochProfile epoch = Epoch(0, {Event(AllocationKind::kAllocated, 16 * kPage, kPage, 1),
                                 Event(AllocationKind::kAllocated, 17 * kPage, kPage, 2),
                                 Event(AllocationKind::kAllocated, 18 * kPage, kPage, 3)});
  epoch.allocations->sites = {
      {.id = 1, .frames = {{.function = "operator new(unsigned long)"}, {.function = "make"}}},
      {.id = 2, .frames = {{.function = "make"}, {.function = "main"}}},
      {.id = 3, .frames = {{.function = "std::allocator<Node<int>, 5>::allocate(unsigned long)"}}}};
  for (const std::uint64_t page : {16, 17, 18}) AddPage(epoch, page, page == 18 ? 1 : 8, 0);
  const TracedObjects objects = Objects({epoch}, {.by = ObjectsBy::kType});
  ASSERT_EQ(objects.rows.size(), 2U);
  EXPECT_EQ(objects.rows[0].type, "by make");
  EXPECT_DOUBLE_EQ(objects.rows[0].objects, 2);
  EXPECT_DOUBLE_EQ(objects.rows[0].references, 16);
  EXPECT_EQ(objects.rows[0].lifetime, milliseconds(1000));
  EXPECT_EQ(objects.rows[1].type, "Node<int>");
}

TEST(TracedObjects, FoldedStacksLeadFromTheOutermostCall) {
  EpochProfile epoch = Epoch(0, {Event(AllocationKind::kAllocated, 16 * kPage, kPage, 1),
                                 Event(AllocationKind::kAllocated, 17 * kPage, kPage, 2),
                                 Event(AllocationKind::kMapped, 18 * kPage, kPage, 9)});
  epoch.allocations->sites = {
      {.id = 1, .frames = {{.function = "make", .line = 1}, {.function = "main"}}},
      {.id = 2, .frames = {{.function = "make", .line = 2}, {.function = "main"}}}};
  for (const std::uint64_t page : {16, 17, 18}) AddPage(epoch, page, 8, 1);
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
  epoch.allocations->sites.push_back(
      {.id = 3, .frames = {{.module = "/bin/program"}}, .name = "table"});
  epoch.allocations->sites.push_back(
      {.id = 4, .frames = {{.module = "/bin/program"}}, .name = ".bss"});
  epoch.allocations->sites.push_back({.id = 5, .frames = {}, .name = "worker", .thread = Tid(43)});
  epoch.allocations->fixed = std::move(events);
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
  EXPECT_DOUBLE_EQ(objects.rows[0].references, 7);
  EXPECT_EQ(objects.rows[1].kind, TracedKind::kData);
  EXPECT_DOUBLE_EQ(objects.rows[1].references, 4);
  EXPECT_EQ(objects.rows[2].kind, TracedKind::kVariable);
  EXPECT_DOUBLE_EQ(objects.rows[2].references, 2);
  const std::string text = TracedObjectsText(objects);
  EXPECT_THAT(text, HasSubstr("stack     thread 43 worker"));
  EXPECT_THAT(text, HasSubstr("variable  table of program"));
  EXPECT_THAT(text, HasSubstr("data      .bss of program, no symbol"));
  EXPECT_THAT(TracedObjectsJson(objects), HasSubstr("\"name\": \"table\""));
  EXPECT_THAT(TracedObjectsFolded(objects), HasSubstr("variable;table of program 2\n"));
}

TEST(TracedObjects, AStackInAMappingHasItsPartAndEndsWithItsThread) {
  EpochProfile epoch = FixedEpoch({Fixed(FixedKind::kStack, 17 * kPage, kPage, 5),
                                   Fixed(FixedKind::kStack, 17 * kPage, 0, 0, milliseconds(250))});
  epoch.allocations->events = {Event(AllocationKind::kMapped, 16 * kPage, 4 * kPage, 2)};
  AddPage(epoch, 17, 8, 0);
  const TracedObjects objects = Objects({epoch}, {.by = ObjectsBy::kObject});
  ASSERT_EQ(objects.rows.size(), 2U);
  EXPECT_EQ(objects.rows[0].kind, TracedKind::kMapped);
  EXPECT_DOUBLE_EQ(objects.rows[0].references, 6);
  EXPECT_EQ(objects.rows[1].kind, TracedKind::kStack);
  EXPECT_DOUBLE_EQ(objects.rows[1].references, 2);
  EXPECT_EQ(objects.rows[1].lifetime, milliseconds(250));
  EXPECT_DOUBLE_EQ(objects.rows[1].live_bytes, 0);
}

TEST(TracedObjects, AStackThatGrewIsTheSameOne) {
  EpochProfile first = FixedEpoch({Fixed(FixedKind::kStack, 17 * kPage, kPage, 5)});
  EpochProfile second = Epoch(1, {});
  second.allocations->fixed = {
      Fixed(FixedKind::kStack, 15 * kPage, 3 * kPage, 5, milliseconds(1000))};
  AddPage(first, 16, 8, 0);
  AddPage(second, 16, 4, 0);
  const TracedObjects objects = Objects({first, second});
  ASSERT_EQ(objects.rows.size(), 1U);
  EXPECT_DOUBLE_EQ(objects.rows[0].objects, 1);
  EXPECT_DOUBLE_EQ(objects.rows[0].bytes, 3 * kPage);
  EXPECT_DOUBLE_EQ(objects.rows[0].references, 4);
  EXPECT_EQ(objects.rows[0].lifetime, milliseconds(2000));
}

TEST(TracedObjects, ByTypeStacksOfOneNameAreOne) {
  EpochProfile epoch = FixedEpoch({Fixed(FixedKind::kStack, 16 * kPage, kPage, 5),
                                   Fixed(FixedKind::kStack, 17 * kPage, kPage, 6)});
  epoch.allocations->sites.push_back({.id = 6, .frames = {}, .name = "worker", .thread = Tid(44)});
  for (const std::uint64_t page : {16, 17}) AddPage(epoch, page, 8, 0);
  EXPECT_EQ(Objects({epoch}).rows.size(), 2U);
  const TracedObjects objects = Objects({epoch}, {.by = ObjectsBy::kType});
  ASSERT_EQ(objects.rows.size(), 1U);
  EXPECT_EQ(objects.rows[0].type, "worker");
  EXPECT_DOUBLE_EQ(objects.rows[0].references, 16);
}

TEST(TracedObjects, ATraceWithoutAllocationsSaysSo) {
  const TracedObjects objects = Objects({MakeEpoch(0, {MakeTarget(0, 42, "program")})});
  EXPECT_FALSE(objects.tracked);
  EXPECT_THAT(TracedObjectsText(objects), HasSubstr("record it with --objects"));
}

TEST(TracedObjects, TextTellsOfWhatWasLost) {
  EpochProfile epoch = Epoch(0, {Event(AllocationKind::kAllocated, 16 * kPage, kPage, 1)});
  epoch.allocations->lost = 3;
  const std::string text = TracedObjectsText(Objects({epoch}));
  EXPECT_THAT(text, HasSubstr("make"));
  EXPECT_THAT(text, HasSubstr("3 allocations and frees were lost"));
}

}  // namespace
}  // namespace tmprof
