// SPDX-License-Identifier: Apache-2.0

#include "mover/page_mover.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "tests/base/fake_clock.h"

namespace tmprof {
namespace page_mover_test {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A kernel that moves pages as move_pages(2) does: it stops telling once a page did not move.
class FakeKernel final : public MoveCall {
 public:
  explicit FakeKernel(FakeClock& clock, FakeClock& cpu_clock)
      : clock_(&clock), cpu_clock_(&cpu_clock) {}

  int operator()(Pid pid, std::span<const Vpn> pages, std::span<const NodeId> nodes,
                 std::span<int> status, MoveScope scope) override {
    if (nodes.empty()) {
      for (std::size_t i = 0; i < pages.size(); ++i) status[i] = NodeOrError(pages[i]);
      return 0;
    }
    calls.emplace_back(pid, std::vector<Vpn>(pages.begin(), pages.end()));
    scopes.push_back(scope);
    clock_->now += per_page * pages.size();
    cpu_clock_->now += per_page * pages.size();
    if (refusal != 0) return -refusal;
    int left = 0;
    for (std::size_t i = 0; i < pages.size(); ++i) {
      if (room && (*room)-- == 0) return -ENOMEM;
      if (stuck.contains(pages[i]) || full.contains(nodes[i])) {
        clock_->now += per_refusal;
        ++left;
      } else if (!error.contains(pages[i])) {
        left += LeftOf(pages[i], nodes[i]);
      }
    }
    if (left > 0) return left;
    for (std::size_t i = 0; i < pages.size(); ++i) status[i] = NodeOrError(pages[i]);
    return 0;
  }

  nanoseconds per_page{1000};
  nanoseconds per_refusal{0};  // beyond that
  int refusal = 0;
  std::optional<std::uint64_t> room;  // for so many pages on all nodes
  std::set<Vpn> stuck;
  std::set<NodeId> full;
  std::map<Vpn, PageCount> huge;  // that begin there
  // This many pages of a huge page that is split move, the second first and the first last.
  std::map<Vpn, std::uint64_t> goes_in_part;
  std::map<Vpn, int> error;
  std::map<Vpn, NodeId> node;
  std::vector<std::pair<Pid, std::vector<Vpn>>> calls;
  std::vector<MoveScope> scopes;  // one per call

 private:
  int LeftOf(Vpn page, NodeId to) {
    const PageCount pages = huge.contains(page) ? huge.at(page) : PageCount(1);
    const auto part = goes_in_part.find(page);
    for (std::uint64_t i = 1; i <= pages.value(); ++i) {
      if (part != goes_in_part.end() && i > part->second) return 1;
      node[page + PageCount(i % pages.value())] = to;
    }
    return 0;
  }
  int NodeOrError(Vpn page) const {
    const auto refused = error.find(page);
    if (refused != error.end()) return -refused->second;
    const auto at = node.find(page);
    return at == node.end() ? 1 : at->second.value();  // all begin on node 1
  }

  FakeClock* clock_;
  FakeClock* cpu_clock_;
};

Move Promotion(std::uint64_t vpn, std::uint32_t target = 1, PageCount span = PageCount(1)) {
  return {{TargetId(target), Vpn(vpn)}, span, NodeId(1), NodeId(0), 1.0, MoveReason::kWanted};
}

Move Demotion(std::uint64_t vpn) {
  return {{TargetId(1), Vpn(vpn)}, PageCount(1), NodeId(0), NodeId(1), 0.5, MoveReason::kRoom};
}

std::vector<Move> Promotions(std::uint64_t count) {
  std::vector<Move> moves;
  for (std::uint64_t i = 0; i < count; ++i) moves.push_back(Promotion(i));
  return moves;
}

class PageMoverTest : public testing::Test {
 protected:
  PageMover Make(MoverLimits limits = {}) {
    return {limits,
            kernel_,
            clock_,
            cpu_clock_,
            [this](TargetId target) -> std::optional<Pid> {
              if (gone_.contains(target)) return std::nullopt;
              return Pid(static_cast<std::int32_t>(target.value()) + 100);
            },
            {},
            FindFiles()};
  }

  // Chunks until nothing is left, waiting as told.
  std::vector<MoveOutcome> MoveAll(PageMover& mover) {
    std::vector<MoveOutcome> over;
    while (const std::optional<nanoseconds> wait = mover.Wait()) {
      clock_.now += *wait;
      const std::vector<MoveOutcome> more = mover.MoveChunk();
      over.insert(over.end(), more.begin(), more.end());
    }
    return over;
  }

  // The mover knows these bindings of the targets.
  PageMover MakeBound(MoverLimits limits = {}) {
    return {limits,
            kernel_,
            clock_,
            cpu_clock_,
            [this](TargetId target) -> std::optional<Pid> {
              if (gone_.contains(target)) return std::nullopt;
              return Pid(100);
            },
            [this](TargetId) { return binding_; },
            FindFiles()};
  }
  PageMover::FindFiles FindFiles() {
    return [this](Pid, std::span<const Vpn> pages) {
      std::vector<std::optional<FilePlace>> files;
      for (const Vpn page : pages) {
        files.push_back(remapped_.contains(page) ? std::nullopt : std::optional(FileAt(page)));
      }
      if (mappings_unread_) files.clear();
      return files;
    };
  }
  // The file that is mapped from address 0 on.
  static FilePlace FileAt(Vpn page) {
    return {.device = 1, .inode = 7, .offset = PageCount(page.value())};
  }
  static void MakeJoint(Move& move) {
    move.joint = true;
    move.file = FileAt(move.key.vpn);
  }
  void Bind(Vpn first, Vpn end) {
    binding_ = std::make_shared<const MemoryBinding>(
        std::nullopt, std::nullopt,
        std::vector<MemoryBinding::Range>{{{first, end}, std::vector{NodeId(1)}}});
  }

  FakeClock clock_{MonotonicTime(seconds(1000))};
  FakeClock cpu_clock_{MonotonicTime(seconds(1000))};
  FakeKernel kernel_{clock_, cpu_clock_};
  std::set<TargetId> gone_;
  std::optional<std::shared_ptr<const MemoryBinding>> binding_;
  std::set<Vpn> remapped_;  // pages that map private memory since they were decided for
  bool mappings_unread_ = false;
};

TEST_F(PageMoverTest, MovesForAllMappersOnlyThePagesThatSeveralHold) {
  PageMover mover = Make();
  std::vector<Move> moves = Promotions(5);
  MakeJoint(moves[1]);
  MakeJoint(moves[3]);
  mover.Replace(moves);
  EXPECT_THAT(MoveAll(mover), SizeIs(5));
  ASSERT_THAT(kernel_.calls, SizeIs(2));
  EXPECT_THAT(kernel_.calls[0].second, ElementsAre(Vpn(0), Vpn(2), Vpn(4)));
  EXPECT_THAT(kernel_.calls[1].second, ElementsAre(Vpn(1), Vpn(3)));
  EXPECT_THAT(kernel_.scopes, ElementsAre(MoveScope::kMappedOnce, MoveScope::kAll));
}

// A library's text, for example, would move for every process that has it.
TEST_F(PageMoverTest, DoesNotMoveMemoryMappedInPlaceOfASharedPage) {
  PageMover mover = Make();
  std::vector<Move> moves = Promotions(4);
  for (Move& move : moves) MakeJoint(move);
  remapped_ = {Vpn(1)};
  moves[2].file->offset = PageCount(9);
  moves[3].file.reset();
  std::swap(moves[0], moves[3]);
  mover.Replace(moves);
  const std::vector<MoveOutcome> over = MoveAll(mover);
  EXPECT_THAT(kernel_.calls, ElementsAre(std::pair(Pid(101), std::vector{Vpn(0)})));
  ASSERT_THAT(over, SizeIs(4));
  for (const MoveOutcome& outcome : over) {
    EXPECT_EQ(outcome.error, outcome.move.key.vpn == Vpn(0) ? 0 : kPolicyChanged);
    EXPECT_EQ(outcome.attempts, outcome.move.key.vpn == Vpn(0) ? 1U : 0U);
  }
}

TEST_F(PageMoverTest, ASharedPageStaysWhereMappingsCannotBeRead) {
  PageMover mover = Make();
  mappings_unread_ = true;
  std::vector<Move> moves = Promotions(2);
  MakeJoint(moves[0]);
  mover.Replace(moves);
  MoveAll(mover);
  EXPECT_THAT(kernel_.calls, ElementsAre(std::pair(Pid(101), std::vector{Vpn(1)})));
}

TEST_F(PageMoverTest, JointPagesThatAreBoundByNowAreNotMoved) {
  PageMover mover = MakeBound();
  Bind(Vpn(1), Vpn(2));
  std::vector<Move> moves = Promotions(3);
  for (Move& move : moves) MakeJoint(move);
  mover.Replace(moves);
  MoveAll(mover);
  ASSERT_THAT(kernel_.calls, SizeIs(1));
  EXPECT_THAT(kernel_.calls[0].second, ElementsAre(Vpn(0), Vpn(2)));
}

TEST_F(PageMoverTest, DoesNotMovePagesThatAreBoundByNow) {
  PageMover mover = MakeBound();
  Bind(Vpn(100), Vpn(101));
  mover.Replace(Promotions(3));
  Bind(Vpn(1), Vpn(2));  // after it was decided
  const std::vector<MoveOutcome> over = mover.MoveChunk();
  ASSERT_THAT(over, SizeIs(3));
  EXPECT_EQ(over[0].move.key.vpn, Vpn(1));
  EXPECT_EQ(over[0].error, kPolicyChanged);
  EXPECT_EQ(over[0].attempts, 0U);
  EXPECT_EQ(over[1].error, 0);
  EXPECT_EQ(over[2].error, 0);
  EXPECT_THAT(kernel_.calls, ElementsAre(std::pair(Pid(100), std::vector{Vpn(0), Vpn(2)})));
}

TEST_F(PageMoverTest, AHugePageOfWhichAPartIsBoundByNowIsNotMoved) {
  PageMover mover = MakeBound();
  Bind(Vpn(511), Vpn(512));
  mover.Replace({Promotion(0, 1, PageCount(512))});
  EXPECT_THAT(mover.MoveChunk(), ElementsAre(Field(&MoveOutcome::error, kPolicyChanged)));
  EXPECT_THAT(kernel_.calls, IsEmpty());
}

TEST_F(PageMoverTest, AsksForWhatBindsATargetBeforeItMovesAnyOfIt) {
  PageMover mover = MakeBound();
  mover.Replace(Promotions(3));
  EXPECT_THAT(mover.MoveChunk(), IsEmpty());
  EXPECT_EQ(mover.unread(), TargetId(1));
  EXPECT_THAT(kernel_.calls, IsEmpty());
  EXPECT_EQ(mover.pending(), 3U);
  Bind(Vpn(100), Vpn(101));
  EXPECT_THAT(mover.MoveChunk(), SizeIs(3));
  EXPECT_EQ(mover.unread(), std::nullopt);
}

TEST_F(PageMoverTest, MovesNothingWhereItCannotBeKnownWhatBindsIt) {
  PageMover mover = MakeBound();
  binding_ = nullptr;
  mover.Replace(Promotions(2));
  EXPECT_THAT(mover.MoveChunk(),
              AllOf(SizeIs(2), Each(Field(&MoveOutcome::error, kPolicyChanged))));
  EXPECT_THAT(kernel_.calls, IsEmpty());
}

TEST_F(PageMoverTest, DoesNotAskWhatBindsATargetThatIsGone) {
  PageMover mover = MakeBound();
  gone_ = {TargetId(1)};
  mover.Replace(Promotions(2));
  EXPECT_THAT(mover.MoveChunk(), AllOf(SizeIs(2), Each(Field(&MoveOutcome::error, ESRCH))));
}

TEST_F(PageMoverTest, MovesWhatItIsTold) {
  PageMover mover = Make();
  mover.Replace({Promotion(7), Promotion(9)});
  const std::vector<MoveOutcome> over = mover.MoveChunk();
  ASSERT_THAT(over, SizeIs(2));
  EXPECT_EQ(over[0].error, 0);
  EXPECT_EQ(over[0].attempts, 1U);
  EXPECT_EQ(over[0].latency, microseconds(1));
  EXPECT_EQ(kernel_.node.at(Vpn(7)), NodeId(0));
  EXPECT_EQ(kernel_.calls[0].first, Pid(101));
  EXPECT_EQ(mover.Wait(), std::nullopt);
}

TEST_F(PageMoverTest, GoesOnByOtherLimitsWithWhatItHasLearnt) {
  PageMover mover = Make({.call_latency = milliseconds(5)});
  mover.Replace(Promotions(20'000));
  while (mover.pending() > 10'000) mover.MoveChunk();
  ASSERT_EQ(mover.chunk(), PageCount(5000)) << "at 1 us a page";
  mover.Configure({.call_latency = milliseconds(5), .bytes_per_second = 100 * kBasePageBytes});
  EXPECT_EQ(mover.chunk(), PageCount(5000));
  kernel_.per_page = nanoseconds(0);
  EXPECT_THAT(mover.MoveChunk(), SizeIs(100));
  EXPECT_THAT(mover.MoveChunk(), IsEmpty()) << "the second is not over";
  mover.Configure({.dry_run = true});
  EXPECT_THAT(mover.MoveChunk(), Each(Field(&MoveOutcome::error, ECANCELED)));
}

TEST_F(PageMoverTest, ACallIsOfOneTargetAndOneNodeInTheOrderGiven) {
  PageMover mover = Make();
  Move demotion = Promotion(3);
  std::swap(demotion.from, demotion.to);
  mover.Replace({Promotion(1), Promotion(2, 2), demotion, Promotion(4)});
  MoveAll(mover);
  EXPECT_THAT(kernel_.calls, ElementsAre(std::pair(Pid(101), std::vector{Vpn(1), Vpn(4)}),
                                         std::pair(Pid(102), std::vector{Vpn(2)}),
                                         std::pair(Pid(101), std::vector{Vpn(3)})));
}

TEST_F(PageMoverTest, CallsGrowToTheirLatencyBudgetAndNotBeyond) {
  PageMover mover = Make({.call_latency = milliseconds(5)});
  mover.Replace(Promotions(20'000));
  MoveAll(mover);
  EXPECT_EQ(kernel_.calls[0].second.size(), 64U);
  EXPECT_EQ(kernel_.calls[1].second.size(), 128U);
  EXPECT_EQ(mover.chunk(), PageCount(5000)) << "at 1 us a page";
  kernel_.per_page = microseconds(50);
  mover.Replace(Promotions(5000));
  mover.MoveChunk();
  EXPECT_EQ(mover.chunk(), PageCount(100));
}

TEST_F(PageMoverTest, TheCostOfCallsIsLearntForSharedPagesByItself) {
  PageMover mover = Make({.call_latency = milliseconds(5)});
  mover.Replace(Promotions(20'000));
  MoveAll(mover);
  std::vector<Move> joint = Promotions(10'000);
  for (Move& move : joint) MakeJoint(move);
  kernel_.calls.clear();
  mover.Replace(joint);
  mover.MoveChunk();
  ASSERT_THAT(kernel_.calls, SizeIs(1));
  EXPECT_EQ(kernel_.calls[0].second.size(), 64U);
  EXPECT_EQ(mover.chunk(MoveScope::kAll), PageCount(128));
  EXPECT_EQ(mover.chunk(), PageCount(5000));
}

TEST_F(PageMoverTest, AHugePageGoesAloneWhereItIsMoreThanACallMayHold) {
  PageMover mover = Make({.call_latency = microseconds(10)});
  mover.Replace({Promotion(0, 1, PageCount(512)), Promotion(512, 1, PageCount(512))});
  EXPECT_THAT(mover.MoveChunk(), SizeIs(1));
}

TEST_F(PageMoverTest, ABusyPageIsTriedSoOftenAndNeverInASpin) {
  PageMover mover = Make({.attempts = 3});
  kernel_.stuck = {Vpn(1)};
  mover.Replace(Promotions(3));
  const MonotonicTime began = clock_.now;
  const std::vector<MoveOutcome> over = MoveAll(mover);
  ASSERT_THAT(over, SizeIs(3));
  EXPECT_EQ(over[0].error, 0);
  EXPECT_EQ(over[1].error, 0) << "page 2 moved, though the kernel did not say so";
  EXPECT_EQ(over[2].move.key.vpn, Vpn(1));
  EXPECT_EQ(over[2].error, EBUSY);
  EXPECT_EQ(over[2].attempts, 3U);
  EXPECT_THAT(kernel_.calls, SizeIs(3));
  EXPECT_GE(clock_.now - began, milliseconds(200));
}

TEST_F(PageMoverTest, TriesOnceIfRetryingCannotHelp) {
  PageMover mover = Make();
  kernel_.error = {{Vpn(0), EACCES}, {Vpn(1), ENOENT}};
  mover.Replace(Promotions(3));
  const std::vector<MoveOutcome> over = mover.MoveChunk();
  ASSERT_THAT(over, SizeIs(3));
  EXPECT_EQ(over[0].error, EACCES);
  EXPECT_EQ(over[1].error, ENOENT);
  EXPECT_EQ(over[2].error, 0);
}

TEST_F(PageMoverTest, AProcessThatIsGoneEndsItsMovesOnly) {
  PageMover mover = Make();
  gone_.insert(TargetId(1));
  mover.Replace({Promotion(1), Promotion(2, 2)});
  const std::vector<MoveOutcome> over = MoveAll(mover);
  ASSERT_THAT(over, SizeIs(2));
  EXPECT_EQ(over[0].error, ESRCH);
  EXPECT_EQ(over[1].error, 0);
  EXPECT_THAT(kernel_.calls, SizeIs(1));
}

TEST_F(PageMoverTest, ARefusalOfTheWholeCallIsEachPages) {
  PageMover mover = Make();
  kernel_.refusal = EPERM;
  mover.Replace(Promotions(2));
  const std::vector<MoveOutcome> over = mover.MoveChunk();
  ASSERT_THAT(over, SizeIs(2));
  EXPECT_EQ(over[0].error, EPERM);
  EXPECT_EQ(over[1].error, EPERM);
}

// A full node ends a call: its 64 moves are reported, and the remaining one waits.
TEST_F(PageMoverTest, ANodeThatIsOutOfMemoryIsLeftAloneForASecond) {
  PageMover mover = Make();
  kernel_.refusal = ENOMEM;
  std::vector<Move> moves = Promotions(65);
  moves.push_back(Promotion(1000));
  moves.back().to = NodeId(2);
  mover.Replace(moves);
  EXPECT_THAT(mover.MoveChunk(), AllOf(SizeIs(64), Each(Field(&MoveOutcome::error, ENOMEM))));
  EXPECT_EQ(mover.Wait(), nanoseconds(0)) << "node 2 is another";
  kernel_.refusal = 0;
  EXPECT_THAT(mover.MoveChunk(), SizeIs(1));
  EXPECT_EQ(mover.Wait(), seconds(1) - microseconds(1)) << "the call to node 2 took 1 us";
  EXPECT_THAT(mover.MoveChunk(), IsEmpty());
  clock_.now += seconds(1);
  EXPECT_THAT(mover.MoveChunk(), ElementsAre(Field(&MoveOutcome::error, 0)));
}

TEST_F(PageMoverTest, AHugePageWithoutRoomInOnePieceDoesNotHoldUpBasePages) {
  PageMover mover = Make();
  kernel_.error[Vpn(512)] = ENOMEM;
  mover.Replace({Promotion(512, 1, PageCount(512)), Promotion(5), Promotion(6)});
  EXPECT_THAT(mover.MoveChunk(), ElementsAre(Field(&MoveOutcome::error, ENOMEM)));
  EXPECT_EQ(mover.Wait(), nanoseconds(0));
  EXPECT_THAT(mover.MoveChunk(), AllOf(SizeIs(2), Each(Field(&MoveOutcome::error, 0))));
}

TEST_F(PageMoverTest, AHugePageThatMovesWholeHasMoved) {
  PageMover mover = Make();
  kernel_.huge[Vpn(512)] = PageCount(512);
  mover.Replace({Promotion(512, 1, PageCount(512))});
  EXPECT_THAT(mover.MoveChunk(), ElementsAre(Field(&MoveOutcome::error, 0)));
  EXPECT_EQ(mover.Wait(), std::nullopt);
}

TEST_F(PageMoverTest, AHugePageThatIsSplitAndMovesInAllItsPartsHasMoved) {
  PageMover mover = Make();
  kernel_.huge[Vpn(512)] = PageCount(512);
  kernel_.goes_in_part[Vpn(512)] = 512;
  mover.Replace({Promotion(512, 1, PageCount(512))});
  EXPECT_THAT(mover.MoveChunk(), ElementsAre(Field(&MoveOutcome::error, 0)));
}

TEST_F(PageMoverTest, AHugePageOfWhichAPartMovesIsOverAndHasNotMoved) {
  PageMover mover = Make();
  kernel_.huge[Vpn(512)] = PageCount(512);
  kernel_.goes_in_part[Vpn(512)] = 100;
  mover.Replace({Promotion(512, 1, PageCount(512))});
  EXPECT_THAT(mover.MoveChunk(), ElementsAre(Field(&MoveOutcome::error, ENOMEM)));
  EXPECT_EQ(mover.Wait(), std::nullopt);
}

TEST_F(PageMoverTest, ReportsEachOfSeveralHugePagesByItself) {
  PageMover mover = Make();
  mover.Replace(Promotions(1000));  // calls grow
  while (mover.chunk() < PageCount(1024)) mover.MoveChunk();
  for (const std::uint64_t first : {512, 1024, 1536}) kernel_.huge[Vpn(first)] = PageCount(512);
  kernel_.goes_in_part[Vpn(1024)] = 0;
  kernel_.error[Vpn(1537)] = ENOENT;  // a page that nobody has touched
  std::vector<Move> moves;
  for (const std::uint64_t first : {512, 1024, 1536}) {
    moves.push_back(Promotion(first, 1, PageCount(512)));
  }
  mover.Replace(moves);
  kernel_.calls.clear();
  std::vector<MoveOutcome> over = mover.MoveChunk();
  EXPECT_THAT(kernel_.calls, ElementsAre(Field(&std::pair<Pid, std::vector<Vpn>>::second,
                                               ElementsAre(Vpn(512), Vpn(1024)))));
  EXPECT_THAT(over, ElementsAre(Field(&MoveOutcome::error, 0)));
  over = mover.MoveChunk();
  EXPECT_THAT(over, ElementsAre(Field(&MoveOutcome::error, 0)));
  EXPECT_EQ(over[0].move.key.vpn, Vpn(1536));
}

TEST_F(PageMoverTest, PartialMovesCountForTheBandwidth) {
  PageMover mover = Make({.bytes_per_second = 512 * 4096});
  kernel_.huge[Vpn(512)] = PageCount(512);
  kernel_.goes_in_part[Vpn(512)] = 511;
  mover.Replace({Promotion(512, 1, PageCount(512)), Promotion(5)});
  clock_.now += seconds(1);
  MoveAll(mover);
  const MonotonicTime began = clock_.now;
  mover.Replace(Promotions(512));
  MoveAll(mover);
  EXPECT_GE(clock_.now - began, milliseconds(500));
}

TEST_F(PageMoverTest, TheKernelsSearchForMemoryDoesNotShortenCalls) {
  PageMover mover = Make();
  const PageCount chunk = mover.chunk();
  kernel_.room = 3;
  kernel_.per_page = milliseconds(1);
  mover.Replace(Promotions(40));
  EXPECT_THAT(mover.MoveChunk(), SizeIs(40));
  EXPECT_EQ(mover.chunk(), chunk);
}

TEST_F(PageMoverTest, PagesThatLeaveAFullNodeMakeRoomThere) {
  PageMover mover = Make();
  kernel_.refusal = ENOMEM;
  mover.Replace({Promotion(1)});
  EXPECT_THAT(mover.MoveChunk(), SizeIs(1));
  kernel_.refusal = 0;
  Move demotion = Promotion(5);
  demotion.from = NodeId(0);
  demotion.to = NodeId(1);
  mover.Replace({demotion, Promotion(1)});
  EXPECT_THAT(mover.MoveChunk(), SizeIs(1));
  EXPECT_EQ(mover.Wait(), nanoseconds(0));
}

TEST_F(PageMoverTest, ReportsThePagesThatMovedBeforeMemoryRanOut) {
  PageMover mover = Make();
  kernel_.room = 3;
  mover.Replace(Promotions(5));
  const std::vector<MoveOutcome> over = mover.MoveChunk();
  std::vector<int> errors;
  for (const MoveOutcome& outcome : over) errors.push_back(outcome.error);
  EXPECT_THAT(errors, ElementsAre(0, 0, 0, ENOMEM, ENOMEM));
}

// 64 pages in 64 us; then 10 pages in 10 us and 990 us, in which the kernel tried one of them
// again.
TEST_F(PageMoverTest, TheTimeOfARefusalCountsForTheRefusedPages) {
  PageMover mover = Make({.attempts = 1});
  mover.Replace(Promotions(64));
  EXPECT_THAT(mover.MoveChunk(), Each(Field(&MoveOutcome::latency, microseconds(1))));
  kernel_.stuck = {Vpn(103)};
  kernel_.per_refusal = microseconds(990);
  std::vector<Move> moves;
  for (std::uint64_t vpn = 100; vpn < 110; ++vpn) moves.push_back(Promotion(vpn));
  mover.Replace(moves);
  const std::vector<MoveOutcome> over = mover.MoveChunk();
  ASSERT_THAT(over, SizeIs(10));
  for (const MoveOutcome& outcome : over) {
    if (outcome.error == 0) {
      // Half of the known time was assumed: 2 us.
      EXPECT_GE(outcome.latency, microseconds(1));
      EXPECT_LE(outcome.latency, microseconds(2));
    } else {
      EXPECT_EQ(outcome.move.key.vpn, Vpn(103));
      EXPECT_GE(outcome.latency, microseconds(980));
    }
  }
}

// A node that has room for what leaves it, and one of the three pages does not.
TEST_F(PageMoverTest, DoesNotTryAPromotionWhoseDemotionWasRefused) {
  PageMover mover = Make();
  kernel_.node = {{Vpn(50), NodeId(0)}, {Vpn(51), NodeId(0)}, {Vpn(52), NodeId(0)}};
  kernel_.error = {{Vpn(51), EACCES}};
  mover.Replace(
      {Demotion(50), Demotion(51), Demotion(52), Promotion(1), Promotion(2), Promotion(3)});
  const std::vector<MoveOutcome> over = MoveAll(mover);
  ASSERT_THAT(over, SizeIs(6));
  EXPECT_EQ(over[1].error, EACCES);
  EXPECT_EQ(over[3].move.key.vpn, Vpn(3)) << "the last of the promotions";
  EXPECT_EQ(over[3].error, ENOMEM);
  EXPECT_EQ(over[3].attempts, 0U);
  EXPECT_EQ(over[4].error, 0);
  EXPECT_EQ(over[5].error, 0);
  EXPECT_THAT(
      kernel_.calls,
      ElementsAre(Field(&std::pair<Pid, std::vector<Vpn>>::second, SizeIs(3)),
                  Field(&std::pair<Pid, std::vector<Vpn>>::second, ElementsAre(Vpn(1), Vpn(2)))));
}

TEST_F(PageMoverTest, AHugePromotionIsNotTriedForWantOfAPart) {
  PageMover mover = Make();
  kernel_.node = {{Vpn(50), NodeId(0)}};
  kernel_.error = {{Vpn(50), EACCES}};
  mover.Replace({Demotion(50), Promotion(1), Promotion(512, 1, PageCount(512))});
  const std::vector<MoveOutcome> over = MoveAll(mover);
  ASSERT_THAT(over, SizeIs(3));
  EXPECT_EQ(over[1].move.key.vpn, Vpn(512));
  EXPECT_EQ(over[1].error, ENOMEM);
  EXPECT_EQ(over[2].error, 0);
}

TEST_F(PageMoverTest, APromotionWaitsIfItsDemotionIsTriedAgain) {
  PageMover mover = Make({.attempts = 2});
  kernel_.node = {{Vpn(50), NodeId(0)}, {Vpn(51), NodeId(0)}};
  kernel_.stuck = {Vpn(51)};
  mover.Replace({Demotion(50), Demotion(51), Promotion(1), Promotion(2)});
  EXPECT_THAT(mover.MoveChunk(), SizeIs(1));
  const std::vector<MoveOutcome> first = mover.MoveChunk();
  EXPECT_THAT(first, ElementsAre(Field(&MoveOutcome::error, 0)));
  EXPECT_EQ(first[0].move.key.vpn, Vpn(1));
  EXPECT_GT(*mover.Wait(), milliseconds(99)) << "the other one waits for the demotion";
  kernel_.stuck.clear();
  clock_.now += *mover.Wait();
  EXPECT_EQ(mover.MoveChunk()[0].move.key.vpn, Vpn(51));
  EXPECT_EQ(mover.MoveChunk()[0].move.key.vpn, Vpn(2));
  EXPECT_EQ(mover.pending(), 0U);
}

// Calls of 64 pages: two busy pages in each of two, and 68 promotions to the room of all.
TEST_F(PageMoverTest, SeveralDemotionsThatAreToBeTriedAgainHoldBackAsManyPromotions) {
  PageMover mover = Make({.attempts = 2});
  std::vector<Move> moves;
  for (std::uint64_t vpn = 1000; vpn < 1128; ++vpn) {
    kernel_.node[Vpn(vpn)] = NodeId(0);
    moves.push_back(Demotion(vpn));
  }
  for (std::uint64_t vpn = 0; vpn < 128; ++vpn) moves.push_back(Promotion(vpn));
  kernel_.stuck = {Vpn(1000), Vpn(1001), Vpn(1126), Vpn(1127)};
  mover.Replace(moves);
  while (*mover.Wait() == nanoseconds(0)) mover.MoveChunk();
  std::size_t promoted = 0;
  for (std::uint64_t vpn = 0; vpn < 128; ++vpn) promoted += kernel_.node.contains(Vpn(vpn)) ? 1 : 0;
  EXPECT_EQ(promoted, 124U);
  EXPECT_EQ(mover.pending(), 8U);
}

TEST_F(PageMoverTest, CpuTimeUsedBesidesCounts) {
  PageMover mover = Make({.cpu_ns_per_second = 1'000'000});
  mover.Replace(Promotions(1));
  mover.SpendCpuTime(milliseconds(10));
  const MonotonicTime began = clock_.now;
  MoveAll(mover);
  EXPECT_GE(clock_.now - began, seconds(9)) << "of the 10 ms one was saved up";
  EXPECT_LE(clock_.now - began, seconds(10));
}

TEST_F(PageMoverTest, BandwidthIsHeldOnTheWhole) {
  PageMover mover = Make({.bytes_per_second = 1 << 20});  // 256 pages
  mover.Replace(Promotions(2560));
  const MonotonicTime began = clock_.now;
  EXPECT_THAT(MoveAll(mover), SizeIs(2560));
  // A second's worth was there from the start.
  EXPECT_GE(clock_.now - began, milliseconds(8900));
  EXPECT_LE(clock_.now - began, milliseconds(9100));
}

TEST_F(PageMoverTest, CpuTimeIsHeldOnTheWhole) {
  PageMover mover = Make({.cpu_ns_per_second = 1'000'000});  // 1000 pages at 1 us
  mover.Replace(Promotions(10'000));
  const MonotonicTime began = clock_.now;
  EXPECT_THAT(MoveAll(mover), SizeIs(10'000));
  // A call's time is known when it is over: the last, of 5 ms at most, is not waited for.
  EXPECT_GE(clock_.now - began, seconds(4));
  EXPECT_LE(clock_.now - began, seconds(9));
}

TEST_F(PageMoverTest, NewMovesTakeThePlaceOfOldOnes) {
  PageMover mover = Make();
  mover.Replace({Promotion(1), Promotion(2)});
  EXPECT_THAT(mover.Replace({Promotion(3)}), ElementsAre(Promotion(1), Promotion(2)));
  MoveAll(mover);
  EXPECT_THAT(kernel_.calls, ElementsAre(std::pair(Pid(101), std::vector{Vpn(3)})));
}

TEST_F(PageMoverTest, ADryRunCallsNobody) {
  PageMover mover = Make({.dry_run = true});
  mover.Replace(Promotions(2));
  const std::vector<MoveOutcome> over = MoveAll(mover);
  ASSERT_THAT(over, SizeIs(2));
  EXPECT_EQ(over[0].error, ECANCELED);
  EXPECT_EQ(over[0].attempts, 0U);
  EXPECT_THAT(kernel_.calls, IsEmpty());
}

}  // namespace page_mover_test
}  // namespace tmprof
