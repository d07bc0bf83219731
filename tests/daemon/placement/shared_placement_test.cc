// SPDX-License-Identifier: Apache-2.0
// Pages that several mappings hold, as the placer sees them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "daemon/placement/placer.h"
#include "tests/base/fake_clock.h"

namespace tmprof {
namespace shared_placement_test {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr NodeId kFast{0};
constexpr NodeId kSlow{1};
constexpr std::uint64_t kPrivate = 50;  // page, of each process
constexpr std::uint64_t kFilePages = 100;

// Looking takes so long for each page at first. The survey of two processes takes 12 ms, and a
// survey has 10 ms in the first epoch and 1 ms more in each later one, so that no survey is made in
// the second and third epoch.
constexpr std::chrono::microseconds kLookingTakes{60};

// Memory of several processes: page tables, and the nodes of what they map.
class FakeMachine final : public PageLocator {
 public:
  FakeMachine(FakeClock& clock, const std::chrono::nanoseconds& looking_takes)
      : clock_(&clock), looking_takes_(&looking_takes) {}

  Result<std::vector<PlacedRun>> Locate(Pid pid, VpnRange range,
                                        std::span<const VpnRange> joint) override {
    clock_->now += *looking_takes_ * static_cast<int>(range.size().value());
    std::vector<PlacedRun> runs;
    for (const auto& [vpn, frame] : tables[pid]) {
      if (!range.Contains(vpn)) continue;
      const bool is_joint = Mappings(frame) > 1;
      const auto holds = [vpn](const VpnRange& part) { return part.Contains(vpn); };
      if (is_joint && std::ranges::none_of(joint, holds)) continue;
      asked[pid].insert(vpn);
      runs.push_back({{vpn, vpn + PageCount(1)}, node.at(frame), PageCount(1), is_joint});
    }
    return runs;
  }
  std::size_t Mappings(int frame) const {
    std::size_t mappings = 0;
    for (const auto& [pid, table] : tables) {
      for (const auto& [vpn, of_page] : table) mappings += of_page == frame ? 1 : 0;
    }
    return mappings;
  }

  std::map<Pid, std::map<Vpn, int>> tables;  // frames
  std::map<int, NodeId> node;
  std::map<Pid, std::set<Vpn>> asked;

 private:
  FakeClock* clock_;
  const std::chrono::nanoseconds* looking_takes_;
};

// Frames 0 to 99 are those of a file.
class SharedPlacementTest : public testing::Test {
 protected:
  struct Process {
    std::vector<Mapping> mappings;
    std::optional<MemoryBinding> binding{{std::nullopt, std::nullopt, {}}};
    bool joins_segments = true;
  };

  SharedPlacementTest() {
    options_.policy = *FindPolicy("history");
    options_.ranker = Ranker::DefaultOptions(RankModel::kSum);
    options_.capacity = PageCount(1);
    options_.most_pages = PageCount(10'000);
    options_.cost_of_move = 0.5;
    Start(1);
    MapFile(1, 1000);
    Start(2);
    MapFile(2, 5000);
  }

  static Pid PidOf(std::uint32_t target) { return Pid(static_cast<std::int32_t>(target) + 100); }
  // With one page of its own.
  void Start(std::uint32_t target) {
    processes_[target].mappings = {{.range = {Vpn(kPrivate), Vpn(kPrivate + 1)}}};
    const int frame = 1000 + static_cast<int>(target);
    machine_.tables[PidOf(target)][Vpn(kPrivate)] = frame;
    machine_.node[frame] = kSlow;
  }
  void MapFile(std::uint32_t target, std::uint64_t at, const char* path = "/dev/shm/ring") {
    processes_[target].mappings.push_back(
        {.range = {Vpn(at), Vpn(at + kFilePages)},
         .kind = MappingKind::kShared,
         .path = path,
         .file = FilePlace{.device = 1, .inode = 7, .offset = PageCount(0)}});
  }
  // The process has used this page of the file through its mapping there.
  void Touch(std::uint32_t target, std::uint64_t at, int page, NodeId on = kSlow) {
    machine_.tables[PidOf(target)][Vpn(at + static_cast<std::uint64_t>(page))] = page;
    machine_.node.try_emplace(page, on);
  }
  void Exit(std::uint32_t target) {
    processes_.erase(target);
    machine_.tables.erase(PidOf(target));
  }
  void Unmap(std::uint32_t target) {
    processes_[target].mappings.resize(1);
    std::erase_if(machine_.tables[PidOf(target)],
                  [](const auto& page) { return page.second < 1000; });
  }

  static PageKey Key(std::uint32_t target, std::uint64_t vpn) {
    return {TargetId(target), Vpn(vpn)};
  }
  // An epoch in which these pages were sampled so often.
  PlacementDecision Decide(const std::map<PageKey, std::uint32_t>& samples) {
    EpochProfile epoch{.index = next_epoch_,
                       .start = MonotonicTime(seconds(next_epoch_)),
                       .end = MonotonicTime(seconds(next_epoch_ + 1))};
    ++next_epoch_;
    std::vector<PlacedTarget> targets;
    for (const auto& [id, process] : processes_) {
      epoch.targets.push_back({.id = TargetId(id),
                               .pid = PidOf(id),
                               .cpu_time = seconds(1),
                               .mappings = process.mappings});
      PlacedTarget& target = targets.emplace_back(TargetId(id), PidOf(id));
      for (const Mapping& mapping : process.mappings) target.mapped.push_back(mapping.range);
      if (process.binding) target.binding = &*process.binding;
      target.joins_segments = process.joins_segments;
    }
    for (const auto& [key, count] : samples) {
      Append(epoch.pages, {.key = key, .looks = compares_frames_ ? 1u : 0u, .load_samples = count});
    }
    if (compares_frames_) epoch.pages.same_as = EqualFrames(epoch.pages);
    for (const auto& [key, pages] : regions_) {
      Append(epoch.pages, {.key = key, .span = PageCount(pages), .load_samples = 9});
    }
    const std::vector<NodeMemory> nodes{
        {.id = kFast, .free = PageCount(1000), .allocatable = PageCount(1000)},
        {.id = kSlow, .free = PageCount(1000), .allocatable = PageCount(1000)}};
    if (!placer_) placer_ = std::make_unique<Placer>(options_, machine_, clock_);
    return placer_->Decide(epoch, targets, nodes);
  }
  std::vector<std::uint32_t> EqualFrames(const PageColumns& pages) {
    const auto frame = [&](std::uint32_t i) {
      return machine_.tables.at(PidOf(pages.target[i].value())).at(pages.vpn[i]);
    };
    std::vector<std::uint32_t> same_as;
    for (std::uint32_t i = 0; i < pages.size(); ++i) {
      std::uint32_t first = 0;
      while (frame(first) != frame(i)) ++first;
      same_as.push_back(first);
    }
    return same_as;
  }
  std::uint64_t Play(const PlacementDecision& decision) {
    std::vector<MoveOutcome> outcomes;
    for (const Move& move : decision.moves) {
      const int frame = machine_.tables.at(PidOf(move.key.target.value())).at(move.key.vpn);
      EXPECT_EQ(machine_.node.at(frame), move.from);
      EXPECT_EQ(move.joint, machine_.Mappings(frame) > 1);
      EXPECT_EQ(move.file.has_value(), move.joint);
      machine_.node.at(frame) = move.to;
      outcomes.push_back({.move = move, .attempts = 1});
    }
    return placer_->Learn(outcomes, next_epoch_);
  }
  void Refuse(const PlacementDecision& decision, int error) {
    std::vector<MoveOutcome> outcomes;
    for (const Move& move : decision.moves) {
      outcomes.push_back({.move = move, .error = error, .attempts = 1});
    }
    placer_->Learn(outcomes, next_epoch_);
  }
  static auto MoveOf(PageKey key) { return Field("key", &Move::key, key); }

  PlacerOptions options_{.tiers = *Tiers::Make({{kFast}, {kSlow}})};
  FakeClock clock_;
  std::chrono::nanoseconds looking_takes_ = kLookingTakes;
  FakeMachine machine_{clock_, looking_takes_};
  std::map<std::uint32_t, Process> processes_;
  std::unique_ptr<Placer> placer_;  // with the first decision
  std::uint64_t next_epoch_ = 0;
  std::map<PageKey, std::uint32_t> regions_;  // sampled in each epoch, with so many pages
  bool compares_frames_ = false;              // all pages are looked at, too
};

TEST_F(SharedPlacementTest, APageIsWorthTheAccessesOfAllItsMappers) {
  Touch(1, 1000, 3);
  Touch(2, 5000, 3);
  const PlacementDecision decision =
      Decide({{Key(1, kPrivate), 5}, {Key(1, 1003), 3}, {Key(2, 5003), 3}});
  EXPECT_EQ(decision.wanted, PageCount(1));
  ASSERT_THAT(decision.moves, ElementsAre(MoveOf(Key(1, 1003))));
  EXPECT_EQ(decision.moves[0].score, 6);
  EXPECT_TRUE(decision.moves[0].joint);
  EXPECT_EQ(decision.moves[0].file, (FilePlace{.device = 1, .inode = 7, .offset = PageCount(3)}));
  EXPECT_EQ(decision.gain, 6.0 / 11);
  Play(decision);
  EXPECT_THAT(Decide({{Key(1, 1003), 3}, {Key(2, 5003), 3}}).moves, IsEmpty());
}

TEST_F(SharedPlacementTest, PagesCountOnceInACapacity) {
  for (int page = 0; page < 98; ++page) {
    Touch(1, 1000, page);
    Touch(2, 5000, page);
  }
  options_.capacity = Ratio{1, 2};
  EXPECT_EQ(Decide({}).capacity, PageCount((98 + 2) / 2)) << "with a page of each process's own";
  EXPECT_THAT(machine_.asked[PidOf(1)], SizeIs(99));
  EXPECT_THAT(machine_.asked[PidOf(2)], ElementsAre(Vpn(kPrivate)))
      << "the owner alone is asked where a page is";
}

TEST_F(SharedPlacementTest, APageIsFoundThroughTheMapperThatUsesIt) {
  Touch(2, 5000, 3);
  EXPECT_THAT(Decide({{Key(2, 5003), 3}}).moves, ElementsAre(MoveOf(Key(2, 5003))));
}

// Accesses to a region do not show which of its pages a mapper uses.
TEST_F(SharedPlacementTest, APageOfARegionIsFoundThroughWhicheverMapperHasIt) {
  for (const std::uint32_t user : {1U, 2U}) {
    const std::uint64_t at = user == 1 ? 1000 : 5000;
    const int page = static_cast<int>(user);
    Decide({});
    Touch(user, at, page);
    regions_ = {{Key(1, 1000), 16}, {Key(2, 5000), 16}};
    std::vector<Move> moves = Decide({}).moves;
    if (moves.empty()) moves = Decide({}).moves;
    EXPECT_THAT(moves, ElementsAre(MoveOf(Key(user, at + static_cast<std::uint64_t>(page)))));
    regions_.clear();
    placer_.reset();
    machine_.tables[PidOf(user)].erase(Vpn(at + static_cast<std::uint64_t>(page)));
  }
}

TEST_F(SharedPlacementTest, AMoveOfWhatOneProcessHasInUseTakesNoPrivilege) {
  options_.moves_joint = false;
  Touch(2, 5000, 3);
  const PlacementDecision decision = Decide({{Key(2, 5003), 3}});
  ASSERT_THAT(decision.moves, SizeIs(1));
  EXPECT_FALSE(decision.moves[0].joint);
}

TEST_F(SharedPlacementTest, SharedPagesStayWithoutThePrivilegeAndAreCounted) {
  options_.moves_joint = false;
  options_.capacity = PageCount(10);
  for (const int page : {3, 4}) {
    Touch(1, 1000, page);
    Touch(2, 5000, page);
  }
  const std::map<PageKey, std::uint32_t> hot{
      {Key(1, 1003), 9}, {Key(2, 5004), 9}, {Key(2, kPrivate), 5}};
  for (int epoch = 0; epoch < 3; ++epoch) {
    const PlacementDecision decision = Decide(hot);
    EXPECT_EQ(decision.not_moved, NotMoved{.shared = 2}) << epoch;
    EXPECT_THAT(decision.moves, epoch == 0 ? SizeIs(1) : SizeIs(0));
    Play(decision);
  }
}

TEST_F(SharedPlacementTest, AFileMappedTwiceByOneTargetMovesOnce) {
  Exit(2);
  MapFile(1, 2000);
  Touch(1, 1000, 3);
  Touch(1, 2000, 3);
  options_.capacity = PageCount(10);
  const PlacementDecision decision = Decide({{Key(1, 1003), 3}, {Key(1, 2003), 4}});
  ASSERT_THAT(decision.moves, ElementsAre(MoveOf(Key(1, 1003))));
  EXPECT_EQ(decision.moves[0].score, 7);
  EXPECT_TRUE(decision.moves[0].joint);
  Play(decision);
  EXPECT_THAT(Decide({{Key(1, 2003), 4}}).moves, IsEmpty());
}

TEST_F(SharedPlacementTest, APageThatADryRunAssumedToMoveIsJointAfterwards) {
  options_.dry_run = true;
  Touch(1, 1000, 3);
  Touch(2, 5000, 3);
  const std::map<PageKey, std::uint32_t> hot{{Key(1, 1003), 3}};
  const PlacementDecision dry = Decide(hot);
  ASSERT_THAT(dry.moves, SizeIs(1));
  placer_->Learn(std::vector<MoveOutcome>{{.move = dry.moves[0], .error = ECANCELED}}, next_epoch_);
  EXPECT_THAT(Decide(hot).moves, IsEmpty());
  options_.dry_run = false;
  placer_->Configure(options_);
  const PlacementDecision real = Decide(hot);
  ASSERT_THAT(real.moves, ElementsAre(MoveOf(Key(1, 1003))));
  EXPECT_TRUE(real.moves[0].joint);
}

TEST_F(SharedPlacementTest, ThePolicyOfTheOwnersMappingBindsThePage) {
  Touch(1, 1000, 3);
  Touch(2, 5000, 3);
  Touch(1, 1000, 4);
  Touch(2, 5000, 4);
  options_.capacity = PageCount(10);
  const MemoryBinding::Range bound{{Vpn(1004), Vpn(1005)}, std::vector{kSlow}};
  processes_[1].binding = MemoryBinding(std::nullopt, std::nullopt, {bound});
  const PlacementDecision decision = Decide({{Key(1, 1003), 3}, {Key(1, 1004), 3}});
  EXPECT_THAT(decision.moves, ElementsAre(MoveOf(Key(1, 1003))));
  EXPECT_EQ(decision.not_moved, NotMoved{.bound = 1});
}

TEST_F(SharedPlacementTest, APageStaysWhereAnotherMapperIsBound) {
  for (const int page : {3, 4}) {
    Touch(1, 1000, page);
    Touch(2, 5000, page);
  }
  options_.capacity = PageCount(10);
  const std::map<PageKey, std::uint32_t> hot{{Key(1, 1003), 3}, {Key(1, 1004), 3}};
  processes_[2].binding = MemoryBinding(std::vector{kSlow}, std::nullopt, {});
  const PlacementDecision in_cpuset = Decide(hot);
  EXPECT_THAT(in_cpuset.moves, IsEmpty());
  EXPECT_EQ(in_cpuset.not_moved, NotMoved{.bound = 2});
  processes_[2].binding.reset();
  EXPECT_EQ(Decide(hot).not_moved, NotMoved{.binding_unknown = 2});
  const MemoryBinding::Range bound{{Vpn(5004), Vpn(5005)}, std::vector{kSlow}};
  processes_[2].binding = MemoryBinding(std::nullopt, std::nullopt, {bound});
  const PlacementDecision in_part = Decide(hot);
  EXPECT_THAT(in_part.moves, ElementsAre(MoveOf(Key(1, 1003))));
  EXPECT_EQ(in_part.not_moved, NotMoved{.bound = 1});
}

TEST_F(SharedPlacementTest, AProcessThatSharesNoPageBindsNoOther) {
  Unmap(2);
  processes_[2].binding = MemoryBinding(std::vector{kSlow}, std::nullopt, {});
  Touch(1, 1000, 3);
  EXPECT_THAT(Decide({{Key(1, 1003), 3}}).moves, ElementsAre(MoveOf(Key(1, 1003))));
}

TEST_F(SharedPlacementTest, TheNextOwnerTakesOverCoolDownsWhereTheOwnerExits) {
  options_.cool_down_epochs = 3;
  Touch(1, 1000, 3);
  Touch(2, 5000, 3);
  Play(Decide({{Key(1, 1003), 3}, {Key(2, 5003), 3}}));
  ASSERT_EQ(machine_.node[3], kFast);
  Exit(1);
  // The page has become colder than another one.
  const std::map<PageKey, std::uint32_t> hot{{Key(2, kPrivate), 9}, {Key(2, 5003), 1}};
  const PlacementDecision early = Decide(hot);
  EXPECT_THAT(early.moves, IsEmpty());
  EXPECT_EQ(early.not_moved, NotMoved{.without_room = 1});
  EXPECT_EQ(placer_->map().PagesIn(TargetId(2), options_.tiers, kTier1), PageCount(1));
  Decide(hot);
  EXPECT_THAT(Decide(hot).moves, IsEmpty()) << "two epochs after that of its move";
  const PlacementDecision later = Decide(hot);
  EXPECT_THAT(later.moves, ElementsAre(MoveOf(Key(2, 5003)), MoveOf(Key(2, kPrivate))));
  EXPECT_EQ(Play(later), 1U) << "it undoes the move through the other process";
}

TEST_F(SharedPlacementTest, PagesStillCountOnceTheirOwnerHasExited) {
  for (int page = 0; page < 99; ++page) {
    Touch(1, 1000, page, page < 20 ? kFast : kSlow);
    Touch(2, 5000, page);
  }
  options_.capacity = Ratio{1, 2};
  EXPECT_EQ(Decide({}).capacity, PageCount((99 + 2) / 2));
  Exit(1);
  looking_takes_ = seconds(9);  // too long for anything more to be looked at
  machine_.asked.clear();
  EXPECT_EQ(Decide({}).capacity, PageCount((99 + 1) / 2));
  EXPECT_EQ(placer_->map().PagesIn(TargetId(2), options_.tiers, kTier1), PageCount(20));
  EXPECT_THAT(machine_.asked, IsEmpty());
}

TEST_F(SharedPlacementTest, PagesStillCountOnceTheyAreNoLongerShared) {
  for (int page = 0; page < 99; ++page) {
    Touch(1, 1000, page, page < 20 ? kFast : kSlow);
  }
  Touch(2, 5000, 0);
  options_.capacity = Ratio{1, 2};
  EXPECT_EQ(Decide({}).capacity, PageCount((99 + 2) / 2));
  Exit(2);
  looking_takes_ = seconds(9);
  EXPECT_EQ(Decide({}).capacity, PageCount((99 + 1) / 2));
  EXPECT_EQ(placer_->map().PagesIn(TargetId(1), options_.tiers, kTier1), PageCount(20));
}

TEST_F(SharedPlacementTest, APageIsTakenOverByTheMapperThatUsesItOnceItsOwnerHasExited) {
  Start(3);
  MapFile(3, 7000);
  Touch(1, 1000, 3);
  Touch(3, 7000, 3);
  Decide({{Key(1, kPrivate), 5}, {Key(1, 1003), 3}});
  Exit(1);
  const PlacementDecision after = Decide({{Key(3, 7003), 5}});
  ASSERT_THAT(after.moves, ElementsAre(MoveOf(Key(3, 7003)))) << "process 2 has never used it";
  Play(after);
}

TEST_F(SharedPlacementTest, TheNextOwnerTakesOverWhatIsInBackoffWhereTheOwnerUnmaps) {
  Touch(1, 1000, 3);
  Touch(2, 5000, 3);
  const PlacementDecision first = Decide({{Key(1, 1003), 3}, {Key(2, 5003), 3}});
  ASSERT_THAT(first.moves, ElementsAre(MoveOf(Key(1, 1003))));
  Refuse(first, EINVAL);
  Unmap(1);
  const PlacementDecision next = Decide({{Key(2, 5003), 3}});
  EXPECT_THAT(next.moves, IsEmpty());
  EXPECT_EQ(next.not_moved, NotMoved{.backoff = 1});
}

TEST_F(SharedPlacementTest, TheOwnerStaysWhoeverElseUsesThePage) {
  options_.capacity = PageCount(10);
  Touch(2, 5000, 3);
  Play(Decide({{Key(2, 5003), 3}}));
  Touch(1, 1000, 3);
  Decide({{Key(1, 1003), 30}});
  EXPECT_EQ(placer_->map().PagesIn(TargetId(1), options_.tiers, kTier1), PageCount(0));
  EXPECT_EQ(placer_->map().PagesIn(TargetId(2), options_.tiers, kTier1), PageCount(1));
}

TEST_F(SharedPlacementTest, AnotherMapperIsAskedOnceTheOwnerHasLostThePage) {
  Touch(1, 1000, 3);
  Touch(2, 5000, 3);
  const std::map<PageKey, std::uint32_t> hot{{Key(1, 1003), 3}, {Key(2, 5003), 3}};
  const PlacementDecision first = Decide(hot);
  ASSERT_THAT(first.moves, ElementsAre(MoveOf(Key(1, 1003))));
  machine_.tables[PidOf(1)].erase(Vpn(1003));
  Refuse(first, ENOENT);
  Decide({{Key(2, 5003), 3}});
  const PlacementDecision later = Decide({{Key(2, 5003), 3}});
  EXPECT_THAT(later.moves, ElementsAre(MoveOf(Key(2, 5003))));
  EXPECT_FALSE(later.moves[0].joint);
}

TEST_F(SharedPlacementTest, APageThatOthersMapSinceItWasFoundIsFoundAnew) {
  Touch(1, 1000, 3);
  const std::map<PageKey, std::uint32_t> hot{{Key(1, 1003), 3}};
  const PlacementDecision first = Decide(hot);
  ASSERT_THAT(first.moves, SizeIs(1));
  EXPECT_FALSE(first.moves[0].joint);
  Touch(2, 5000, 3);
  Refuse(first, EACCES);
  const PlacementDecision next = Decide(hot);
  ASSERT_THAT(next.moves, ElementsAre(MoveOf(Key(1, 1003))));
  EXPECT_TRUE(next.moves[0].joint);
}

// Target 3 is never placed: no mapping shows it.
TEST_F(SharedPlacementTest, APageThatOnlyOutsidersShareStaysOnceTheOtherTargetExits) {
  Touch(1, 1000, 3);
  Touch(2, 5000, 3);
  machine_.tables[PidOf(3)][Vpn(1)] = 3;
  const std::map<PageKey, std::uint32_t> hot{{Key(1, 1003), 3}};
  const PlacementDecision before = Decide(hot);
  ASSERT_THAT(before.moves, ElementsAre(MoveOf(Key(1, 1003))));
  EXPECT_TRUE(before.moves[0].joint);
  Exit(2);
  const PlacementDecision after = Decide(hot);
  ASSERT_THAT(after.moves, SizeIs(1));
  EXPECT_FALSE(after.moves[0].joint) << "the kernel is to refuse it for the outsider's sake";
  Refuse(after, EACCES);
  EXPECT_THAT(Decide(hot).moves, IsEmpty());
}

TEST_F(SharedPlacementTest, APageThatADryRunAssumedToMoveIsNotJointOnceTheOtherTargetExits) {
  options_.dry_run = true;
  Touch(1, 1000, 3);
  Touch(2, 5000, 3);
  const std::map<PageKey, std::uint32_t> hot{{Key(1, 1003), 3}};
  const PlacementDecision dry = Decide(hot);
  placer_->Learn(std::vector<MoveOutcome>{{.move = dry.moves.at(0), .error = ECANCELED}},
                 next_epoch_);
  Exit(2);
  EXPECT_THAT(Decide(hot).moves, IsEmpty());
  options_.dry_run = false;
  placer_->Configure(options_);
  const PlacementDecision real = Decide(hot);
  ASSERT_THAT(real.moves, SizeIs(1));
  EXPECT_FALSE(real.moves[0].joint);
}

TEST_F(SharedPlacementTest, APageNeedsNoPrivilegeOnceTheOtherTargetExits) {
  options_.moves_joint = false;
  Touch(1, 1000, 3);
  Touch(2, 5000, 3);
  EXPECT_THAT(Decide({{Key(1, 1003), 3}}).moves, IsEmpty());
  Exit(2);
  const PlacementDecision after = Decide({{Key(1, 1003), 3}});
  ASSERT_THAT(after.moves, ElementsAre(MoveOf(Key(1, 1003))));
  EXPECT_FALSE(after.moves[0].joint);
}

TEST_F(SharedPlacementTest, SegmentsOfAnotherIpcNamespaceAreMemoryOfTheirOwn) {
  MapFile(1, 2000, "/SYSV00000000 (deleted)");
  MapFile(2, 6000, "/SYSV00000000 (deleted)");
  processes_[2].joins_segments = false;
  machine_.tables[PidOf(1)][Vpn(2003)] = 201;
  machine_.tables[PidOf(2)][Vpn(6003)] = 202;
  machine_.node[201] = machine_.node[202] = kSlow;
  options_.capacity = PageCount(10);
  const PlacementDecision decision = Decide({{Key(1, 2003), 3}, {Key(2, 6003), 4}});
  ASSERT_THAT(decision.moves, ElementsAre(MoveOf(Key(2, 6003)), MoveOf(Key(1, 2003))));
  EXPECT_EQ(decision.moves[0].score, 4);
  EXPECT_FALSE(decision.moves[0].joint);
}

TEST_F(SharedPlacementTest, APageThatOthersKeepMappingIsTriedEverMoreRarely) {
  Touch(1, 1000, 3);
  const std::map<PageKey, std::uint32_t> hot{{Key(1, 1003), 3}};
  Refuse(Decide(hot), EACCES);
  std::vector<int> waits;
  while (waits.size() < 5) {
    waits.push_back(0);
    PlacementDecision next = Decide(hot);
    for (; next.moves.empty() && waits.back() < 100; next = Decide(hot)) {
      EXPECT_EQ(next.not_moved, NotMoved{.mapped_elsewhere = 1});
      ++waits.back();
    }
    Refuse(next, EACCES);
  }
  EXPECT_THAT(waits, ElementsAre(0, 1, 2, 4, 8));
}

// A forked child has it, too, and no mapping shows it.
TEST_F(SharedPlacementTest, APrivatePageThatIsMappedElsewhereIsInBackoffAndCountedByItself) {
  const std::map<PageKey, std::uint32_t> hot{{Key(1, kPrivate), 3}};
  const PlacementDecision first = Decide(hot);
  ASSERT_THAT(first.moves, SizeIs(1));
  Refuse(first, EACCES);
  const std::uint64_t refused = next_epoch_;
  while (next_epoch_ < refused + 60) {
    const PlacementDecision next = Decide(hot);
    ASSERT_THAT(next.moves, IsEmpty()) << next_epoch_;
    ASSERT_EQ(next.not_moved, NotMoved{.mapped_elsewhere = 1});
  }
  EXPECT_THAT(Decide(hot).moves, SizeIs(1)) << "it may be the process's own by now";
}

TEST_F(SharedPlacementTest, AForkedPageMovesOnceWithTheAccessesOfAllProcesses) {
  compares_frames_ = true;
  machine_.tables[PidOf(2)] = machine_.tables[PidOf(1)];
  const PlacementDecision decision = Decide({{Key(1, kPrivate), 3}, {Key(2, kPrivate), 4}});
  EXPECT_EQ(decision.wanted, PageCount(1));
  ASSERT_THAT(decision.moves, ElementsAre(MoveOf(Key(1, kPrivate))));
  EXPECT_TRUE(decision.moves[0].joint);
  EXPECT_EQ(decision.moves[0].score, 7);
  EXPECT_EQ(decision.moves[0].file, std::nullopt);
}

TEST_F(SharedPlacementTest, AForkedPageStaysWithoutThePrivilegeAndIsCounted) {
  compares_frames_ = true;
  options_.moves_joint = false;
  machine_.tables[PidOf(2)] = machine_.tables[PidOf(1)];
  const PlacementDecision decision = Decide({{Key(1, kPrivate), 3}, {Key(2, kPrivate), 4}});
  EXPECT_THAT(decision.moves, IsEmpty());
  EXPECT_EQ(decision.not_moved, NotMoved{.shared = 1});
}

TEST_F(SharedPlacementTest, TheCopiesOfAForkedPageMoveEachForItself) {
  compares_frames_ = true;
  options_.capacity = PageCount(10);
  const auto table = machine_.tables[PidOf(2)];
  machine_.tables[PidOf(2)] = machine_.tables[PidOf(1)];
  const std::map<PageKey, std::uint32_t> hot{{Key(1, kPrivate), 3}, {Key(2, kPrivate), 4}};
  ASSERT_THAT(Decide(hot).moves, SizeIs(1));
  machine_.tables[PidOf(2)] = table;
  std::vector<Move> moves = Decide(hot).moves;
  for (int epoch = 0; epoch < 5 && moves.size() < 2; ++epoch) moves = Decide(hot).moves;
  ASSERT_THAT(moves, ElementsAre(MoveOf(Key(2, kPrivate)), MoveOf(Key(1, kPrivate))));
  EXPECT_FALSE(moves[0].joint || moves[1].joint);
}

// Two other processes map the file, run, and were never seen to use it.
TEST_F(SharedPlacementTest, APageKeepsItsAccessesWhenTheProcessSeenToUseItExits) {
  options_.ranker = Ranker::DefaultOptions(RankModel::kRate);
  Start(3);
  MapFile(3, 9000);
  for (const std::uint32_t id : {1U, 2U, 3U}) Touch(id, id == 1 ? 1000 : id == 2 ? 5000 : 9000, 3);
  const PlacementDecision before = Decide({{Key(1, 1003), 90}, {Key(2, kPrivate), 1}});
  ASSERT_THAT(before.moves, SizeIs(1));
  Exit(1);
  std::vector<Move> moves = Decide({{Key(2, kPrivate), 1}}).moves;
  if (moves.empty()) moves = Decide({{Key(2, kPrivate), 1}}).moves;
  ASSERT_THAT(moves, SizeIs(1));
  EXPECT_THAT(moves[0].key, testing::AnyOf(Key(2, 5003), Key(3, 9003)));
}

TEST_F(SharedPlacementTest, RowsOfDifferentSpansMeetPageByPage) {
  SharedPages shared;
  shared.Add({{.id = TargetId(1), .mappings = processes_[1].mappings},
              {.id = TargetId(2), .mappings = processes_[2].mappings}});
  PageOwners owners;
  // After the second call it is target 1's turn for pages without an owner.
  for (int turn = 0; turn < 2; ++turn) {
    owners.Follow(shared, std::vector<PageOwners::Mapper>{{TargetId(1)}, {TargetId(2)}});
  }
  owners.Seen({Key(2, 5003), PageCount(1)});
  EvidenceTable table;
  Push(table, Key(1, 1000), 4, {});
  Push(table, Key(2, 5001), 2, {.looks = 1});
  RankedRows rows;
  const Scores scores{4, 20};
  rows.Take(table, scores, owners);
  std::vector<std::pair<std::uint64_t, double>> found;
  for (auto row = rows.Of(TargetId(1)); !row.AtEnd(); row.Next()) {
    found.emplace_back(row->pages.start.value(), row->score);
  }
  EXPECT_THAT(found, ElementsAre(std::pair(1000U, 1.0), std::pair(1001U, 22.0)));
  auto other = rows.Of(TargetId(2));
  ASSERT_FALSE(other.AtEnd());
  EXPECT_EQ(other->pages, (VpnRange{Vpn(5003), Vpn(5004)})) << "of which this mapping is the owner";
  EXPECT_EQ(other->score, 1);
  EXPECT_FALSE(other->looked_at);
  other.Next();
  EXPECT_TRUE(other.AtEnd());
}

}  // namespace shared_placement_test
}  // namespace tmprof
