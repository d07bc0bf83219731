// SPDX-License-Identifier: Apache-2.0
// Covers the way from page tables of forked processes to the readers of their trace: a process of
// 64 MiB has children that read all of it, and one child writes to half of it later.

#include <unistd.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "policy/replay/replay.h"
#include "profiler/epoch_builder.h"
#include "profiler/frame_comparison.h"
#include "profiler/sources/abit/abit_scanner.h"
#include "proto/trace_file.h"
#include "report/analysis/coverage.h"
#include "report/analysis/hot.h"

namespace tmprof {
namespace forked_trace_test {

using std::chrono::seconds;

constexpr std::uint64_t kPages = 16'384;
constexpr std::uint32_t kChildren = 10;
constexpr Vpn kStart{0x7f0000000};

class ForkedTraceTest : public testing::Test {
 protected:
  ForkedTraceTest()
      : path_(std::filesystem::temp_directory_path() /
              ("forked_trace_test." + std::to_string(::getpid()))) {}
  ~ForkedTraceTest() override { std::filesystem::remove(path_); }

  // One epoch in which the first `processes` have looked at their pages. The first child has copies
  // of the first `copied` pages.
  EpochProfile Epoch(std::uint32_t processes, std::uint64_t copied) {
    const MonotonicTime start{seconds(next_epoch_)};
    EpochFrame frame{.index = next_epoch_++, .start = start, .end = start + seconds(1)};
    abit::Harvest harvest;
    for (std::uint32_t id = 0; id < processes; ++id) {
      frame.targets.push_back({.id = TargetId(id),
                               .pid = Pid(static_cast<std::int32_t>(100 + id)),
                               .name = "server",
                               .cpu_time = seconds(1),
                               .mappings = {{.range = {kStart, kStart + PageCount(kPages)},
                                             .kind = MappingKind::kAnonymous}}});
      abit::BlockEvidence& block = harvest.evidence.emplace_back(
          abit::BlockEvidence{.target = TargetId(id), .start = kStart});
      for (std::uint64_t page = 0; page < kPages; ++page) {
        abit::UnitRecord& unit = block.units.emplace_back();
        unit.tally.looks = 4;
        unit.tally.references = 2;
        unit.tally.first_accesses = 1;
        unit.tally.at_risk_ns = 1'000'000;
        unit.writable = id == 1 && page < copied;
        unit.frame = 1 + page + (unit.writable ? kPages : 0);
      }
    }
    static const abit::NodeMap no_nodes("/nonexistent");
    SourceEpoch source{.status = {.name = "abit-bpf",
                                  .role = SourceRole::kReferences,
                                  .state = SourceState::kActive}};
    source.references = abit::ReferencesOf(harvest, no_nodes);
    std::vector<std::optional<SeenFrame>> frames;
    EpochProfile profile = BuildEpoch(std::move(frame), {std::move(source)}, &frames);
    const auto parent_of = [](TargetId target) { return Pid(target == TargetId(0) ? 1 : 100); };
    FrameComparison().Compare(profile, frames, parent_of, {});
    return profile;
  }
  void Record(const std::vector<EpochProfile>& epochs) {
    Result<TraceWriter> writer = TraceWriter::Create(path_, {.epoch_length = seconds(1)});
    ASSERT_TRUE(writer.has_value());
    for (const EpochProfile& epoch : epochs) ASSERT_TRUE(writer->Write(epoch).has_value());
    ASSERT_TRUE(writer->Finish().has_value());
  }
  Trace Recorded() const { return *OpenTraceFile(path_); }
  ReplayOutcome Replayed() const {
    return *Replay([this] { return Recorded().open(); }, {.policies = {*FindPolicy("oracle")},
                                                          .ranks = {RankSource::kReferences},
                                                          .ratios = {{1, 8}},
                                                          .judge = RankSource::kReferences});
  }

 private:
  std::filesystem::path path_;
  std::uint64_t next_epoch_ = 0;
};

TEST_F(ForkedTraceTest, PagesCountOnceHoweverManyProcessesHaveThem) {
  Record({Epoch(1, 0), Epoch(1 + kChildren, 0), Epoch(1 + kChildren, 0)});
  const ReplayOutcome outcome = Replayed();
  EXPECT_EQ(outcome.whole, PageCount(kPages));
  EXPECT_EQ(outcome.results[0].capacity, PageCount(kPages / 8));
  EXPECT_NEAR(*outcome.results[0].hit_rate, 1.0 / 8, 1e-6) << "all pages are equally hot";
  EXPECT_EQ(MakeCoverage(Recorded())->all.footprint, PageCount(kPages));
  const Result<HotList> list = MakeHotList(Recorded(), {});
  ASSERT_TRUE(list.has_value());
  EXPECT_EQ(list->pages, PageCount(kPages));
  ASSERT_FALSE(list->rows.empty());
  EXPECT_EQ(list->rows[0].mappers.size(), 1 + kChildren);
  // Half of the looks found it accessed, in each process.
  EXPECT_EQ(list->rows[0].references, 2u * (1 + 2 * (1 + kChildren)) * list->rows[0].span.value());
}

TEST_F(ForkedTraceTest, CopiesCountApart) {
  Record({Epoch(1, 0), Epoch(1 + kChildren, 0), Epoch(1 + kChildren, kPages / 2)});
  EXPECT_EQ(Replayed().whole, PageCount(kPages + kPages / 2));
  EXPECT_EQ(MakeCoverage(Recorded())->all.footprint, PageCount(kPages + kPages / 2));
}

// An older recorder did not compare frames.
TEST_F(ForkedTraceTest, PagesOfAnOlderTraceCountForEachProcess) {
  EpochProfile epoch = Epoch(1 + kChildren, 0);
  epoch.pages.same_as.reset();
  Record({epoch});
  EXPECT_EQ(Replayed().whole, PageCount(kPages * (1 + kChildren)));
}

}  // namespace forked_trace_test
}  // namespace tmprof
