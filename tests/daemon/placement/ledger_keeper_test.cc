// SPDX-License-Identifier: Apache-2.0

#include "daemon/placement/ledger_keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/apps/program.h"
#include "tests/proto/ledgers.h"

namespace tmprof {
namespace ledger_keeper_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class LedgerKeeperTest : public ::testing::Test {
 protected:
  LedgerKeeperTest() { config_.file = folder_.File("ledger"); }

  LedgerKeeper Begin() {
    Result<LedgerKeeper> keeper = LedgerKeeper::Begin(config_, SmallLedgerInfo());
    EXPECT_TRUE(keeper) << keeper.error().Message();
    return *std::move(keeper);
  }
  static constexpr std::array kObserved{TargetId(0)};

  // An epoch with target 0 alone.
  static EpochProfile Epoch(std::uint64_t index) {
    const LedgerEpoch times = LedgerEpochAt(index);
    EpochProfile epoch{.index = index, .start = times.start, .end = times.end};
    epoch.targets.push_back({.id = TargetId(0), .pid = Pid(4711), .name = "redis-server"});
    return epoch;
  }
  static Status Note(LedgerKeeper& keeper, std::uint64_t index, std::vector<MoveOutcome> outcomes) {
    return keeper.Note(Epoch(index), kObserved, {}, 0, std::move(outcomes), RankSource::kCombined,
                       {}, {}, {});
  }
  static std::vector<LedgerEpoch> Read(const std::filesystem::path& path) {
    std::vector<LedgerEpoch> epochs;
    Result<LedgerReader> reader = LedgerReader::Open(path);
    EXPECT_TRUE(reader) << reader.error().Message();
    for (LedgerEpoch epoch; reader && reader->Next(epoch).value_or(false);) epochs.push_back(epoch);
    return epochs;
  }

  test::TemporaryFolder folder_;
  LedgerConfig config_;
};

TEST_F(LedgerKeeperTest, HasTheMovesOfEachEpoch) {
  LedgerKeeper keeper = Begin();
  ASSERT_TRUE(Note(keeper, 0, {}));
  ASSERT_TRUE(Note(keeper, 1, {Moved(0, 5, 1, 0)}));
  ASSERT_TRUE(keeper.End({}, 0));
  const std::vector<LedgerEpoch> epochs = Read(*config_.file);
  ASSERT_THAT(epochs, SizeIs(3));
  EXPECT_THAT(epochs[0].targets, SizeIs(1));
  EXPECT_THAT(epochs[1].moves, ElementsAre(Moved(0, 5, 1, 0)));
  EXPECT_THAT(epochs[2].settled, SizeIs(1)) << "what is watched still";
}

TEST_F(LedgerKeeperTest, HasWhatWasOverAndWhatWasDroppedAfterTheLastEpoch) {
  LedgerKeeper keeper = Begin();
  ASSERT_TRUE(Note(keeper, 0, {}));
  ASSERT_TRUE(keeper.End({Moved(0, 5, 1, 0), Moved(0, 6, 1, 0)}, 3));
  const std::vector<LedgerEpoch> epochs = Read(*config_.file);
  ASSERT_THAT(epochs, SizeIs(2));
  EXPECT_THAT(epochs[1].moves, ElementsAre(Moved(0, 5, 1, 0), Moved(0, 6, 1, 0)));
  EXPECT_EQ(epochs[1].replaced, 3U);
  EXPECT_THAT(epochs[1].settled, SizeIs(2));
}

TEST_F(LedgerKeeperTest, HasNoLastEpochWhereNothingIsToBeTold) {
  LedgerKeeper keeper = Begin();
  ASSERT_TRUE(Note(keeper, 0, {}));
  ASSERT_TRUE(keeper.End({}, 0));
  EXPECT_THAT(Read(*config_.file), SizeIs(1));
}

TEST_F(LedgerKeeperTest, TellsOfNoTargetThatItDoesNotKnow) {
  LedgerKeeper keeper = Begin();
  ASSERT_TRUE(Note(keeper, 0, {Moved(7, 5, 1, 0)}));
  ASSERT_TRUE(keeper.End({Moved(7, 6, 1, 0)}, 0));
  const std::vector<LedgerEpoch> epochs = Read(*config_.file);
  ASSERT_THAT(epochs, SizeIs(1));
  EXPECT_THAT(epochs[0].moves, IsEmpty());
}

TEST_F(LedgerKeeperTest, SetsAFullFileAsideAndTellsTheNextOneAll) {
  config_.most_bytes = 1;
  LedgerKeeper keeper = Begin();
  ASSERT_TRUE(Note(keeper, 0, {}));
  ASSERT_TRUE(Note(keeper, 1, {Moved(0, 5, 1, 0)}));
  const std::vector<LedgerEpoch> aside = Read(folder_.File("ledger.1"));
  ASSERT_THAT(aside, SizeIs(1));
  EXPECT_EQ(aside[0].index, 1U);
  EXPECT_THAT(aside[0].targets, SizeIs(1));
}

TEST_F(LedgerKeeperTest, KeepsSoManyOfBeforeAndTheLatestAtTheFront) {
  config_.kept = 2;
  for (std::uint64_t run = 0; run < 4; ++run) {
    LedgerKeeper keeper = Begin();
    ASSERT_TRUE(Note(keeper, run, {}));
    ASSERT_TRUE(keeper.End({}, 0));
  }
  EXPECT_EQ(Read(*config_.file).front().index, 3U);
  EXPECT_EQ(Read(folder_.File("ledger.1")).front().index, 2U);
  EXPECT_EQ(Read(folder_.File("ledger.2")).front().index, 1U);
  EXPECT_FALSE(std::filesystem::exists(folder_.File("ledger.3")));
}

TEST_F(LedgerKeeperTest, SetsAsideNoMoreThanItMustWhereOneIsMissing) {
  for (std::uint64_t run = 0; run < 3; ++run) {
    LedgerKeeper keeper = Begin();
    ASSERT_TRUE(Note(keeper, run, {}));
    ASSERT_TRUE(keeper.End({}, 0));
  }
  std::filesystem::remove(folder_.File("ledger.1"));
  LedgerKeeper keeper = Begin();
  EXPECT_EQ(Read(folder_.File("ledger.1")).front().index, 2U);
  EXPECT_EQ(Read(folder_.File("ledger.2")).front().index, 0U);
}

TEST_F(LedgerKeeperTest, LeavesTheLedgerThatAnotherDaemonWrites) {
  LedgerKeeper running = Begin();
  const Result<LedgerKeeper> second = LedgerKeeper::Begin(config_, SmallLedgerInfo());
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().Message(), ::testing::HasSubstr("another tmprofd writes it"));
  EXPECT_FALSE(std::filesystem::exists(folder_.File("ledger.1")));
  ASSERT_TRUE(Note(running, 0, {Moved(0, 5, 1, 0)}));
  EXPECT_THAT(Read(*config_.file).front().moves, SizeIs(1));
}

TEST_F(LedgerKeeperTest, SettlesTheMovesOfATargetThatIsNoLongerObserved) {
  LedgerKeeper keeper = Begin();
  ASSERT_TRUE(Note(keeper, 0, {Moved(0, 5, 1, 0)}));
  EpochProfile without = Epoch(1);
  without.targets.clear();
  ASSERT_TRUE(keeper.Note(without, {}, {}, 0, {}, RankSource::kMemory, {}, {}, {}));
  const std::vector<LedgerEpoch> epochs = Read(*config_.file);
  ASSERT_THAT(epochs, SizeIs(2));
  ASSERT_THAT(epochs[1].settled, SizeIs(1));
  EXPECT_EQ(epochs[1].settled[0].cause, SettledCause::kGone);
}

// A child that does not pass the process filter is such a target.
TEST_F(LedgerKeeperTest, SettlesTheMovesOfATargetWhoseMemoryIsNoLongerLookedAt) {
  LedgerKeeper keeper = Begin();
  ASSERT_TRUE(Note(keeper, 0, {Moved(0, 5, 1, 0)}));
  ASSERT_TRUE(keeper.Note(Epoch(1), {}, {}, 0, {}, RankSource::kMemory, {}, {}, {}));
  EXPECT_THAT(Read(*config_.file)[1].settled, SizeIs(1));
  EXPECT_EQ(Read(*config_.file)[0].ranked_by, "combined");
  EXPECT_EQ(Read(*config_.file)[1].ranked_by, "memory");
}

// Its last moves are reported after its last epoch; what is kept of targets is bounded.
TEST_F(LedgerKeeperTest, KnowsATargetForTwoEpochsAfterItsLast) {
  LedgerKeeper keeper = Begin();
  ASSERT_TRUE(Note(keeper, 0, {}));
  EpochProfile without = Epoch(1);
  without.targets.clear();
  ASSERT_TRUE(
      keeper.Note(without, {}, {}, 0, {Moved(0, 5, 1, 0)}, RankSource::kMemory, {}, {}, {}));
  without.index = 2;
  ASSERT_TRUE(
      keeper.Note(without, {}, {}, 0, {Moved(0, 6, 1, 0)}, RankSource::kMemory, {}, {}, {}));
  without.index = 3;
  ASSERT_TRUE(
      keeper.Note(without, {}, {}, 0, {Moved(0, 7, 1, 0)}, RankSource::kMemory, {}, {}, {}));
  const std::vector<LedgerEpoch> epochs = Read(*config_.file);
  ASSERT_THAT(epochs, SizeIs(4));
  EXPECT_THAT(epochs[1].moves, SizeIs(1));
  EXPECT_THAT(epochs[2].moves, SizeIs(1));
  EXPECT_THAT(epochs[3].moves, IsEmpty()) << "of a target that is not known any more";
}

// Two targets map a file; the page moves through the one that exits.
TEST_F(LedgerKeeperTest, WatchesASharedPageOnWhereItsOwnerExits) {
  config_.most_bytes = 1;  // a file for each epoch
  LedgerKeeper keeper = Begin();
  SharedPages shared;
  PageOwners owners;
  const auto note = [&](std::uint64_t index, const std::vector<std::uint32_t>& targets,
                        std::vector<MoveOutcome> outcomes, std::uint32_t samples) {
    EpochProfile epoch = Epoch(index);
    epoch.targets.clear();
    std::vector<TargetId> observed;
    std::vector<PageOwners::Mapper> mappers;
    for (const std::uint32_t id : targets) {
      Target& target = epoch.targets.emplace_back(TargetId(id), Pid(4711));
      target.mappings = {{.range = {Vpn(1000 * (id + 1)), Vpn(1000 * (id + 1) + 10)},
                          .kind = MappingKind::kShared,
                          .path = "/dev/shm/ring",
                          .file = FilePlace{.device = 1, .inode = 7, .offset = PageCount(0)}}};
      observed.push_back(target.id);
      mappers.push_back({target.id});
      Append(epoch.pages, {.key = {target.id, Vpn(1000 * (id + 1) + 3)}, .load_samples = samples});
    }
    shared.Add(epoch.targets);
    shared.KeepOnly(observed);
    owners.Follow(shared, mappers);
    EvidenceTable table;
    TakeEvidence(epoch, table);
    return keeper.Note(epoch, observed, {}, 0, std::move(outcomes), RankSource::kCombined, table,
                       Scores(table.size(), 2.0), owners);
  };
  MoveOutcome moved = Moved(0, 1003, 1, 0);
  moved.move.shared_page = PageKey{SharedPages::kFirstFile, Vpn(3)};
  ASSERT_TRUE(note(0, {0, 1}, {moved}, 9));
  ASSERT_TRUE(note(1, {0, 1}, {}, 5));
  for (std::uint64_t index = 2; index < 6; ++index) ASSERT_TRUE(note(index, {1}, {}, 1));
  ASSERT_TRUE(note(6, {}, {}, 0));  // the last mapper has exited
  const std::vector<LedgerEpoch> last = Read(folder_.File("ledger.1"));
  ASSERT_THAT(last, SizeIs(1));
  ASSERT_THAT(last[0].settled, SizeIs(1));
  const SettledMove& settled = last[0].settled[0];
  EXPECT_EQ(settled.key, (PageKey{TargetId(0), Vpn(1003)})) << "as it was moved";
  EXPECT_EQ(settled.cause, SettledCause::kGone);
  EXPECT_EQ(settled.epochs_known, 5U);
  EXPECT_EQ(settled.seen, 2 * 5 + 4 * 1) << "through both mappings, and then through one";
  EXPECT_EQ(settled.weight, 2 * 2.0 + 4 * 2.0);
}

// The record of page 6 says only that it is the same page as another, or that it no longer is.
TEST(SeenSpansOf, LeavesOutPagesOfWhichNothingWasSeen) {
  EpochProfile epoch;
  const auto add = [&epoch](PageRecord record) {
    record.key = {TargetId(0), Vpn(5 + epoch.pages.size())};
    Append(epoch.pages, record);
  };
  add({.looks = 1});
  add({});
  add({.load_samples = 2});
  add({.store_samples = 1});
  add({.fast_looks = 1});
  const auto seen = [&epoch] {
    std::vector<std::uint64_t> pages;
    for (const SeenSpan& span : SeenSpansOf(epoch, {}, {}, {}))
      pages.push_back(span.key.vpn.value());
    return pages;
  };
  EXPECT_THAT(seen(), ElementsAre(5, 7, 8, 9));
  add({.accesses = AccessCounts{.loads = 1}});
  EXPECT_THAT(seen(), ElementsAre(5, 6, 7, 8, 9, 10)) << "all accesses were counted";
}

// A sampler of accesses to memory watches all pages. The page was moved through the child, which
// shared it with its parent until a write parted the two. Its neighbour is shared on.
TEST_F(LedgerKeeperTest, KnowsNothingOfAPageThatPartedFromThoseOfOtherProcesses) {
  LedgerKeeper keeper = Begin();
  SharedPages shared;
  PageOwners owners;
  const auto note = [&](std::uint64_t index, std::vector<std::uint32_t> same_as,
                        std::vector<MoveOutcome> outcomes) {
    EpochProfile epoch = Epoch(index);
    epoch.targets.clear();
    epoch.sources = {{.name = "perf",
                      .role = SourceRole::kSamples,
                      .state = SourceState::kActive,
                      .samples_of = SampleSubject::kMemory}};
    std::vector<TargetId> observed;
    std::vector<PageOwners::Mapper> mappers;
    for (const std::uint32_t id : {0u, 1u}) {
      Target& target = epoch.targets.emplace_back(TargetId(id), Pid(4711));
      target.mappings = {{.range = {Vpn(0), Vpn(100)}, .kind = MappingKind::kAnonymous}};
      observed.push_back(target.id);
      mappers.push_back({target.id});
      for (const std::uint64_t page : {5, 6})
        Append(epoch.pages, {.key = {target.id, Vpn(page)}, .looks = 1, .references = 1});
    }
    epoch.pages.same_as = std::move(same_as);
    shared.AddEpoch(epoch);
    owners.Follow(shared, mappers);
    EvidenceTable table;
    TakeEvidence(epoch, table);
    return keeper.Note(epoch, observed, {}, 0, std::move(outcomes), RankSource::kCombined, table,
                       Scores(table.size(), 1.0), owners);
  };
  std::vector<MoveOutcome> moved = {Moved(1, 5, 1, 0), Moved(1, 6, 1, 0)};
  for (MoveOutcome& outcome : moved) {
    outcome.move.shared_page =
        PageKey{SharedPages::kFirstForked, outcome.move.key.vpn};  // the parent's address
  }
  ASSERT_TRUE(note(0, {0, 1, 0, 1}, moved));
  ASSERT_TRUE(note(1, {0, 1, 0, 1}, {}));
  ASSERT_TRUE(note(2, {0, 1, 2, 1}, {}));
  ASSERT_TRUE(note(3, {0, 1, 2, 1}, {}));
  ASSERT_TRUE(keeper.End({}, 0));
  const std::vector<LedgerEpoch> epochs = Read(*config_.file);
  ASSERT_THAT(epochs.back().settled, SizeIs(2));
  const SettledMove& parted = epochs.back().settled[0];
  EXPECT_EQ(parted.key.vpn, Vpn(5));
  EXPECT_EQ(parted.epochs, 3U);
  EXPECT_EQ(parted.epochs_known, 1U) << "then either process may have the page that was moved";
  EXPECT_EQ(parted.seen, 2);
  EXPECT_EQ(epochs.back().settled[1].epochs_known, 3U);
  EXPECT_EQ(epochs.back().settled[1].seen, 6);
}

TEST_F(LedgerKeeperTest, KeepsNothingWithoutAFile) {
  config_.file.reset();
  LedgerKeeper keeper = Begin();
  EXPECT_TRUE(Note(keeper, 0, {Moved(0, 5, 1, 0)}));
  EXPECT_TRUE(keeper.End({}, 0));
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

}  // namespace ledger_keeper_test
}  // namespace tmprof
