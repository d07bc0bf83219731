// SPDX-License-Identifier: Apache-2.0

#include "objects/analysis/counted_objects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "objects/analysis/object_annotator.h"
#include "objects/analysis/object_views.h"
#include "report/analysis/hot.h"
#include "report/view.h"
#include "tests/base/text/text_tables.h"
#include "tests/report/traces.h"

namespace tmprof {
namespace counted_objects_test {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::uint64_t kPage = 4096;
const ObjectAnnotator kAnnotator;
constexpr std::chrono::system_clock::time_point kWallStart{std::chrono::hours(500'000)};

// Profiles of a process that began with the trace and wrote them some time later. It has two nodes,
// of which one came in the second second and another was freed, a buffer, and a variable.
ObjectProfiles Profiles(Pid pid = Pid(42), milliseconds written = milliseconds(3000)) {
  ObjectsInfo info{.pid = pid, .program = "/bin/tree"};
  info.start = kTraceStart;
  info.written = kTraceStart + written;
  info.wall_start = kWallStart;
  ObjectsPart all;
  all.modules = {{.path = "", .start = 100 * kPage, .end = 110 * kPage, .bias = 100 * kPage}};
  all.sites = {{.id = 7, .return_addresses = {0x1010, 0x1020}, .freed_accesses = 5},
               {.id = 8, .return_addresses = {0x1030, 0x1020}}};
  all.variables = {{.name = "_ZN2at4homeE", .start = 104 * kPage, .bytes = kPage, .accesses = 15}};
  all.stacks = {{.number = 1, .accesses = 30}};
  all.elsewhere = 10;
  all.objects = {
      {.start = 16 * kPage, .bytes = kPage, .site = 7, .birth = milliseconds(0), .accesses = 40},
      {.start = 17 * kPage, .bytes = kPage, .site = 8, .birth = milliseconds(0), .accesses = 200},
      {.start = 18 * kPage,
       .bytes = kPage,
       .site = 7,
       .birth = milliseconds(1500),
       .accesses = 95}};
  ObjectProfiles profiles;
  profiles.Add("tree.objects", info, std::move(all), [](std::uint64_t return_address) {
    const char* name = return_address == 0x1010   ? "make_node"
                       : return_address == 0x1030 ? "make_buffer"
                                                  : "main";
    return std::vector<SourceFrame>{
        {.function = name, .module = "/bin/tree", .offset = return_address}};
  });
  return profiles;
}

TEST(ObjectProfiles, AForkedChildsProfileMayCountTwiceBesideOthers) {
  const auto add = [](ObjectProfiles& profiles, std::uint32_t forks) {
    profiles.Add("run.objects", {.forks = forks}, {},
                 [](std::uint64_t) { return std::vector<SourceFrame>(); });
  };
  ObjectProfiles profiles;
  EXPECT_FALSE(profiles.MayCountTwice());
  add(profiles, 1);
  EXPECT_FALSE(profiles.MayCountTwice()) << "by itself it counts once";
  add(profiles, 0);
  EXPECT_TRUE(profiles.MayCountTwice());
  ObjectProfiles apart;
  add(apart, 0);
  add(apart, 0);
  EXPECT_FALSE(apart.MayCountTwice());
}

// Epochs in which all pages that the profile knows have references, ten times their number.
std::vector<EpochProfile> Epochs(std::uint64_t number = 2) {
  std::vector<EpochProfile> epochs;
  for (std::uint64_t index = 0; index < number; ++index) {
    EpochProfile epoch = MakeEpoch(index, {MakeTarget(0, 42, "tree")});
    epoch.sources = {ReferenceSource(10), SampleSource(10)};
    for (const std::uint64_t page : {16, 17, 18, 104}) {
      Append(epoch.pages, {.key = {TargetId(0), Vpn(page)},
                           .looks = 5000,
                           .references = static_cast<std::uint32_t>(10 * page)});
    }
    epochs.push_back(std::move(epoch));
  }
  return epochs;
}

TracedObjects Counted(const ObjectProfiles& profiles, std::vector<EpochProfile> epochs,
                      TracedObjectsOptions options = {}) {
  Result<TracedObjects> objects =
      MakeTracedObjects(profiles.Beside(TraceOf(std::move(epochs))), options);
  if (!objects) {
    ADD_FAILURE() << objects.error().Message();
    return {};
  }
  profiles.Count(*objects);
  return *std::move(objects);
}

const TracedObjects::Row& RowOf(const TracedObjects& objects, const std::string& name) {
  for (const TracedObjects::Row& row : objects.rows) {
    if (row.site.name == name || row.type == name) return row;
    if (!row.site.frames.empty() && row.site.frames[0].function == name) return row;
  }
  ADD_FAILURE() << name;
  static const TracedObjects::Row none{};
  return none;
}

TEST(CountedObjects, HaveTheHeatOfTheirPagesAndWhatTheProgramCounted) {
  const TracedObjects objects = Counted(Profiles(), Epochs());
  ASSERT_EQ(objects.rows.size(), 3U);
  const TracedObjects::Row& nodes = RowOf(objects, "make_node");
  EXPECT_DOUBLE_EQ(nodes.references.value(), 160 + 160 + 180 / 2.0)
      << "the third came amid the second";
  EXPECT_DOUBLE_EQ(nodes.objects, 2);
  EXPECT_EQ(nodes.counted, 40U + 95 + 5);
  EXPECT_EQ(RowOf(objects, "make_buffer").counted, 200U);
  EXPECT_DOUBLE_EQ(RowOf(objects, "make_buffer").references.value(), 340);
  const TracedObjects::Row& variable = RowOf(objects, "at::home");
  EXPECT_EQ(variable.kind, TracedKind::kVariable);
  EXPECT_EQ(variable.counted, 15U);
  EXPECT_DOUBLE_EQ(variable.references.value(), 2080);
  EXPECT_EQ(objects.counted->accesses, 5U + 15 + 30 + 10 + 40 + 200 + 95);
  EXPECT_EQ(objects.counted->in_rows, 5U + 15 + 40 + 200 + 95);
  EXPECT_EQ(objects.counted->freed_accesses, 5U);
  EXPECT_DOUBLE_EQ(objects.CountedShare(nodes).value(), 140.0 / 395);
  EXPECT_THAT(TitlesWithoutUnit(TracedObjectsText(objects)), testing::IsEmpty());
  EXPECT_THAT(TracedObjectsText(objects), HasSubstr("395 accesses, 89.9 % of them in rows"));
  EXPECT_THAT(TracedObjectsCsv(objects),
              AllOf(HasSubstr("counted,counted_share"), HasSubstr(",200," + Exact(200.0 / 395))));
}

TEST(CountedObjects, RowsByObjectAndByTypeHaveTheirOwnCounts) {
  const TracedObjects objects = Counted(Profiles(), Epochs(), {.by = ObjectsBy::kObject});
  std::map<std::uint64_t, std::optional<std::uint64_t>> counted;
  for (const TracedObjects::Row& row : objects.rows) counted[row.start.value()] = row.counted;
  using Counts = std::map<std::uint64_t, std::optional<std::uint64_t>>;
  EXPECT_EQ(counted,
            (Counts{{16 * kPage, 40}, {17 * kPage, 200}, {18 * kPage, 95}, {104 * kPage, 15}}));

  const TracedObjects types = Counted(Profiles(), Epochs(), {.by = ObjectsBy::kType});
  EXPECT_EQ(RowOf(types, "by make_node").counted, 140U);
  EXPECT_EQ(RowOf(types, "at::home").counted, 15U);
}

TEST(CountedObjects, HaveNoHeatOfWhatCameAfterTheirProfile) {
  const ObjectProfiles profiles = Profiles(Pid(42), milliseconds(1750));
  const TracedObjects objects = Counted(profiles, Epochs(3));
  EXPECT_DOUBLE_EQ(RowOf(objects, "make_buffer").references.value(), 170 + 170 * 0.75);
  EXPECT_DOUBLE_EQ(RowOf(objects, "make_node").references.value(), 160 + 160 * 0.75 + 180 * 0.25);
  EXPECT_DOUBLE_EQ(RowOf(objects, "at::home").references.value(), 1040 + 1040 * 0.75);
  EXPECT_EQ(RowOf(objects, "make_buffer").lifetime, milliseconds(1750));
  EXPECT_DOUBLE_EQ(RowOf(objects, "make_buffer").live_bytes, 0);

  const TracedObjects whole = Counted(Profiles(Pid(42), milliseconds(2000)), Epochs(3));
  EXPECT_DOUBLE_EQ(RowOf(whole, "make_buffer").references.value(), 340) << "of one epoch less";

  std::vector<EpochProfile> gap = Epochs(3);
  gap.erase(gap.begin() + 1);
  EXPECT_DOUBLE_EQ(RowOf(Counted(profiles, gap), "make_buffer").references.value(), 170);
}

TEST(CountedObjects, HaveAllHeatOfTheEpochInWhichTheirProcessExits) {
  std::vector<EpochProfile> epochs = Epochs();
  epochs[1].targets[0].exited = true;
  const ObjectProfiles profiles = Profiles(Pid(42), milliseconds(1750));
  EXPECT_DOUBLE_EQ(RowOf(Counted(profiles, epochs), "make_buffer").references.value(), 340);
  const Result<HotList> list =
      MakeHotList(profiles.Beside(TraceOf({epochs[1]})), {.annotator = &kAnnotator});
  ASSERT_TRUE(list) << list.error().Message();
  EXPECT_THAT(HotText(*list), HasSubstr("make_buffer"));
}

TEST(CountedObjects, ObjectsOfAnotherProcessAreNotInTheTrace) {
  const TracedObjects objects = Counted(Profiles(Pid(43)), Epochs());
  EXPECT_TRUE(objects.rows.empty());
  EXPECT_EQ(objects.counted->accesses, 0U);
}

TEST(CountedObjects, ObjectsOfAnEarlierProcessWithThePidAreNotInTheTrace) {
  std::vector<EpochProfile> epochs = Epochs();
  for (EpochProfile& epoch : epochs) {
    epoch.start += std::chrono::seconds(3);
    epoch.end += std::chrono::seconds(3);
  }
  const TracedObjects objects = Counted(Profiles(), epochs);
  EXPECT_TRUE(objects.rows.empty());
  EXPECT_EQ(objects.counted->accesses, 0U);
}

TEST(CountedObjects, AProfileOfNoProcessInTheTraceIsRefusedByName) {
  EXPECT_TRUE(Profiles().RequireProcesses(TraceOf(Epochs())));
  EXPECT_TRUE(ObjectProfiles().RequireProcesses(TraceOf({})));
  const Trace damaged = TraceOf({}, BadInput("read trace file", "test.data", "damaged"));
  EXPECT_TRUE(Profiles().RequireProcesses(damaged)) << "unknown";

  const ObjectAnnotator annotator(Profiles(Pid(43)));
  const View objects = ObjectsView(
      std::make_shared<const ObjectViewOptions>(ObjectViewOptions{.counts = Profiles(Pid(43))}));
  for (const View& view : {objects, **FindView("hot")}) {
    const Result<Rendered> refused =
        RenderView(view, TraceOf(Epochs()), {.annotator = &annotator}, Format::kText);
    ASSERT_FALSE(refused) << view.name;
    EXPECT_EQ(refused.error().kind, ErrorKind::kBadInput);
    EXPECT_THAT(refused.error().Message(),
                AllOf(HasSubstr("tree.objects"), HasSubstr("PID 43"),
                      HasSubstr(WallTime(kWallStart) + " to " +
                                WallTime(kWallStart + std::chrono::seconds(3)))));
  }
}

TEST(CountedObjects, KnowsATrackersSitesByTheirInnermostCalls) {
  // It unwinds further than frame pointers lead, and reported the node that is gone.
  std::vector<EpochProfile> epochs = Epochs();
  const auto frame = [](const char* function, std::uint64_t offset) {
    return SourceFrame{.function = function, .module = "/bin/tree", .offset = offset};
  };
  SetAllocations(epochs[0]).sites = {
      {.id = 1, .frames = {frame("make_node", 0x1010), frame("main", 0x1020), frame("start", 1)}},
      {.id = 2, .frames = {frame("make_buffer", 0x1030), frame("main", 0x1020), frame("start", 1)}},
      {.id = 3,
       .frames = {frame("make_buffer", 0x1030), frame("main", 0x1020), frame("start", 2)}}};
  for (const std::uint32_t site : {1, 2, 3}) {
    AllocationsOf(epochs[0])->events.push_back({.target = TargetId(0),
                                                .kind = AllocationKind::kAllocated,
                                                .address = (15 + site) * kPage,
                                                .bytes = kPage,
                                                .time = kTraceStart,
                                                .site = site,
                                                .weight = 1});
  }
  const TracedObjects objects = Counted(Profiles(), epochs);
  ASSERT_EQ(objects.rows.size(), 3U) << "nothing is there twice";
  EXPECT_EQ(RowOf(objects, "make_node").counted, 140U);
  EXPECT_FALSE(RowOf(objects, "make_buffer").counted.has_value()) << "it may be either";
  const auto json = nlohmann::json::parse(TracedObjectsJson(objects));
  EXPECT_EQ(json["counted"], 395);
  EXPECT_EQ(json["rows"][0]["counted"].is_null(), true);
}

// Makes an event in a tracker's form.
AllocationEvent Event(AllocationKind kind, std::uint64_t page, milliseconds time,
                      std::uint32_t site = kUnknownSite) {
  return {.target = TargetId(0),
          .kind = kind,
          .address = page * kPage,
          .bytes = kPage,
          .time = kTraceStart + time,
          .site = site,
          .weight = 1};
}

TEST(CountedObjects, MatchesObjectsOfOneAddressByTheirBirth) {
  using enum AllocationKind;
  std::vector<EpochProfile> epochs = Epochs();
  SetAllocations(epochs[0]).events = {
      Event(kAllocated, 16, milliseconds(500)),  // not the one that the profile has there
      Event(kAllocated, 17, milliseconds(1)), Event(kFreed, 17, milliseconds(4)),
      Event(kAllocated, 17, milliseconds(6)), Event(kAllocated, 18, milliseconds(100))};
  SetAllocations(epochs[1]).events = {Event(kFreed, 18, milliseconds(1200)),
                                      Event(kAllocated, 18, milliseconds(1504))};
  const TracedObjects objects = Counted(Profiles(), epochs, {.by = ObjectsBy::kObject});
  std::map<std::pair<std::uint64_t, MonotonicTime>, std::optional<std::uint64_t>> counted;
  for (const TracedObjects::Row& row : objects.rows) {
    counted[{*row.start / kPage, *row.birth}] = row.counted;
  }
  const auto at = [](std::uint64_t page, int time) {
    return std::pair(page, MonotonicTime(kTraceStart + milliseconds(time)));
  };
  const decltype(counted) expected{{at(16, 500), std::nullopt},
                                   {at(17, 1), std::nullopt},
                                   {at(17, 6), std::nullopt},
                                   {at(18, 100), std::nullopt},
                                   {at(18, 1504), 95}};
  EXPECT_EQ(counted, expected);
}

TEST(CountedObjects, GivesBothRowsTheCountsOfASiteThatBeginsBoth) {
  std::vector<EpochProfile> epochs = Epochs();
  const auto frame = [](const char* function, std::uint64_t offset) {
    return SourceFrame{.function = function, .module = "/bin/tree", .offset = offset};
  };
  const std::vector<SourceFrame> known = {frame("make_node", 0x1010), frame("main", 0x1020)};
  std::vector<SourceFrame> further = known;
  further.push_back(frame("start", 1));
  SetAllocations(epochs[0]).sites = {{.id = 1, .frames = known}, {.id = 2, .frames = further}};
  AllocationsOf(epochs[0])->events = {Event(AllocationKind::kAllocated, 16, milliseconds(0), 1),
                                      Event(AllocationKind::kAllocated, 17, milliseconds(0), 2)};
  const TracedObjects objects = Counted(Profiles(), epochs);
  ASSERT_EQ(objects.rows.size(), 2U);
  for (const TracedObjects::Row& row : objects.rows) EXPECT_FALSE(row.counted.has_value());
}

TEST(CountedObjects, CountsASiteApartFromAnotherWhoseStackBeginsTheSame) {
  ObjectsInfo info{.pid = Pid(42), .program = "/bin/tree"};
  info.start = kTraceStart;
  info.written = kTraceStart + std::chrono::seconds(3);
  ObjectsPart all;
  all.sites = {{.id = 7, .return_addresses = {0x1010}},
               {.id = 8, .return_addresses = {0x1010, 0x1020}}};
  all.objects = {{.start = 16 * kPage, .bytes = kPage, .site = 7, .accesses = 40},
                 {.start = 17 * kPage, .bytes = kPage, .site = 8, .accesses = 50}};
  ObjectProfiles profiles;
  profiles.Add("tree.objects", info, std::move(all), [](std::uint64_t return_address) {
    return std::vector<SourceFrame>{{.module = "/bin/tree", .offset = return_address}};
  });
  const TracedObjects objects = Counted(profiles, Epochs());
  ASSERT_EQ(objects.rows.size(), 2U);
  for (const TracedObjects::Row& row : objects.rows) {
    EXPECT_EQ(row.counted, row.site.frames.size() == 1 ? 40U : 50U);
  }
}

TEST(CountedObjects, CallsWithoutFramesAreLeftOut) {
  ObjectsInfo info{.pid = Pid(42), .program = "/bin/tree"};
  info.start = kTraceStart;
  info.written = kTraceStart + std::chrono::seconds(3);
  ObjectsPart all;
  all.sites = {{.id = 7, .return_addresses = {0x1010}}};
  all.objects = {{.start = 16 * kPage, .bytes = kPage, .site = 7, .accesses = 40}};
  ObjectProfiles profiles;
  profiles.Add("tree.objects", info, std::move(all),
               [](std::uint64_t) { return std::vector<SourceFrame>(); });
  const TracedObjects objects = Counted(profiles, Epochs());
  ASSERT_EQ(objects.rows.size(), 1U);
  EXPECT_TRUE(objects.rows[0].site.frames.empty());
  EXPECT_EQ(objects.counted->accesses, 40U);
}

TEST(CountedObjects, NameWhatHotPagesHold) {
  const Result<HotList> list =
      MakeHotList(Profiles().Beside(TraceOf(Epochs())), {.annotator = &kAnnotator});
  ASSERT_TRUE(list) << list.error().Message();
  const std::string text = HotText(*list);
  EXPECT_THAT(text, HasSubstr("make_buffer"));
  EXPECT_THAT(text, HasSubstr("at::home of tree"));
}

}  // namespace counted_objects_test
}  // namespace tmprof
