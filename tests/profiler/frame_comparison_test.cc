// SPDX-License-Identifier: Apache-2.0

#include "profiler/frame_comparison.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/host/procfs.h"
#include "base/kept_groups.h"
#include "profiler/epoch_builder.h"
#include "tests/base/host/proc_tree.h"

namespace tmprof {
namespace frame_comparison_test {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

// Each reading takes a while.
class SlowClock final : public Clock {
 public:
  MonotonicTime Now() const override { return now += step; }
  mutable MonotonicTime now{seconds(100)};
  nanoseconds step{0};
};

// Process t has the PID 100 + t.
class FrameComparisonTest : public testing::Test {
 protected:
  // Pages [0, 1000) are private memory of each process, and the next 1000 are shared memory.
  void Start(std::uint32_t target, std::int32_t parent) {
    targets_.push_back(
        {.id = TargetId(target),
         .pid = Pid(100 + static_cast<std::int32_t>(target)),
         .mappings = {{.range = {Vpn(0), Vpn(1000)}, .kind = MappingKind::kAnonymous},
                      {.range = {Vpn(1000), Vpn(2000)}, .kind = MappingKind::kShared}}});
    parent_of_[TargetId(target)] = Pid(parent);
  }
  void Look(std::uint32_t target, std::uint64_t vpn, std::optional<SeenFrame> frame,
            std::uint64_t span = 1) {
    looks_.push_back({.key = {TargetId(target), Vpn(vpn)},
                      .span = PageCount(span),
                      .looks = 1,
                      .frame = frame,
                      .region = !frame});
  }
  static SeenFrame At(std::uint64_t number) { return {.number = number, .is_shareable = true}; }
  static SeenFrame OwnAt(std::uint64_t number) { return {.number = number, .is_shareable = false}; }

  EpochProfile Epoch() {
    std::vector<std::optional<SeenFrame>> frames;
    EpochProfile profile = BuildEpoch({.end = now_, .targets = targets_},
                                      {{.references = std::exchange(looks_, {})}}, &frames);
    outcome_ = comparison_.Compare(
        profile, frames,
        [this](TargetId target) -> std::optional<Pid> {
          const auto known = parent_of_.find(target);
          return known == parent_of_.end() ? std::nullopt : std::optional(known->second);
        },
        open_frames_);
    return profile;
  }
  using Column = std::optional<std::vector<std::uint32_t>>;
  Column SameAs() { return Epoch().pages.same_as; }

  std::vector<Target> targets_;
  std::map<TargetId, Pid> parent_of_;
  std::vector<ReferenceRecord> looks_;
  SlowClock clock_;
  FrameComparison::OpenFrames open_frames_;
  FrameComparison comparison_{clock_};
  FrameComparison::Outcome outcome_;  // of the last epoch
  MonotonicTime now_{seconds(100)};   // end of the next epoch
};

TEST_F(FrameComparisonTest, JoinsPagesOfAFamilyWithEqualFrames) {
  Start(0, 1);
  Start(1, 100);
  Start(2, 101);
  for (std::uint32_t target = 0; target < 3; ++target) {
    Look(target, 5, At(70));
    Look(target, 6, At(80 + target));
  }
  EXPECT_EQ(SameAs(), (Column{{0, 1, 0, 3, 0, 5}}));
}

TEST_F(FrameComparisonTest, JoinsPagesOfChildrenWhoseParentIsNoTarget) {
  Start(0, 50);
  Start(1, 50);
  Look(0, 5, At(70));
  Look(1, 5, At(70));
  EXPECT_EQ(SameAs(), (Column{{0, 0}}));
}

TEST_F(FrameComparisonTest, DoesNotCompareStrangers) {
  Start(0, 1);
  Start(1, 1);
  Look(0, 5, At(70));
  Look(1, 5, At(70));
  EXPECT_EQ(SameAs(), std::nullopt);
  Start(2, 101);
  Look(0, 5, At(70));
  Look(1, 5, At(70));
  Look(2, 5, At(70));
  EXPECT_EQ(SameAs(), (Column{{0, 1, 1}}));
}

TEST_F(FrameComparisonTest, JoinsNoPageThatItsProcessMayWriteTo) {
  Start(0, 1);
  Start(1, 100);
  Look(0, 5, At(70));
  Look(1, 5, OwnAt(70));
  EXPECT_EQ(SameAs(), (Column{{0, 1}}));
}

TEST_F(FrameComparisonTest, JoinsNoPagesAtDifferentAddressesOrOfOtherSizes) {
  Start(0, 1);
  Start(1, 100);
  Look(0, 5, At(70));
  Look(1, 6, At(70));
  Look(0, 512, At(512), 512);
  Look(1, 512, At(512));
  EXPECT_EQ(SameAs(), (Column{{0, 1, 2, 3}}));
}

TEST_F(FrameComparisonTest, LeavesSharedMappingsToTheirFiles) {
  Start(0, 1);
  Start(1, 100);
  Look(0, 1005, At(70));
  Look(1, 1005, At(70));
  EXPECT_EQ(SameAs(), (Column{{0, 1}}));
}

TEST_F(FrameComparisonTest, ComparesNothingWithoutFrames) {
  Start(0, 1);
  Start(1, 100);
  Look(0, 5, std::nullopt, 100);
  Look(1, 5, At(70));
  EXPECT_EQ(SameAs(), std::nullopt);
  Look(0, 5, At(70));
  EXPECT_EQ(SameAs(), std::nullopt) << "one process has pages";
}

// Frames that relatives have where no look read them, and what was asked for.
class AskedRelativesTest : public FrameComparisonTest {
 protected:
  AskedRelativesTest() {
    open_frames_ = [this](const Target& target) -> FrameComparison::ReadFrames {
      ++opened_;
      return [this, pid = target.pid](VpnRange pages) { return Read(pid, pages); };
    };
  }
  std::vector<std::optional<SeenFrame>> Read(Pid pid, VpnRange pages) {
    std::vector<std::optional<SeenFrame>> frames;
    asked_ += std::to_string(pid.value()) + ":" + std::to_string(pages.start.value()) + "+" +
              std::to_string(pages.size().value()) + " ";
    for (Vpn page = pages.start; page < pages.end; page = page + PageCount(1)) {
      const auto known = frames_of_[pid].find(page);
      frames.push_back(known == frames_of_[pid].end() ? SeenFrame() : known->second);
    }
    return frames;
  }
  void Have(std::uint32_t target, std::uint64_t vpn, std::optional<SeenFrame> frame) {
    frames_of_[Pid(100 + static_cast<std::int32_t>(target))][Vpn(vpn)] = frame;
  }
  // target:vpn+span looks=first record, for each record.
  std::string Told() {
    const EpochProfile epoch = Epoch();
    std::string text;
    for (std::size_t i = 0; i < epoch.pages.size(); ++i) {
      const PageRecord record = RecordAt(epoch.pages, i);
      text += std::to_string(record.key.target.value()) + ":" +
              std::to_string(record.key.vpn.value()) + "+" + std::to_string(record.span.value()) +
              " " + std::to_string(record.looks) +
              (epoch.pages.same_as ? "=" + std::to_string(epoch.pages.same_as->at(i)) : "") + "\n";
    }
    return text;
  }
  std::string Asked() { return std::exchange(asked_, ""); }

  std::map<Pid, std::map<Vpn, std::optional<SeenFrame>>> frames_of_;
  std::string asked_;
  int opened_ = 0;
};

TEST_F(AskedRelativesTest, HaveARecordWithoutEvidenceOncePagesAreTheSame) {
  Start(0, 1);
  Start(1, 100);
  Start(2, 100);
  Have(0, 5, At(70));
  Have(2, 5, At(71));
  Look(1, 5, At(70));
  Look(1, 6, OwnAt(80));
  EXPECT_EQ(Told(), "0:5+1 0=0\n1:5+1 1=0\n1:6+1 1=2\n");
  EXPECT_EQ(Asked(), "100:5+1 102:5+1 ");
  // Known pages are not asked for again.
  Look(1, 5, At(70));
  EXPECT_EQ(Told(), "1:5+1 1=0\n");
  EXPECT_EQ(Asked(), "102:5+1 ");
}

TEST_F(AskedRelativesTest, HaveARecordOncePagesAreNoLongerTheSame) {
  for (const std::uint32_t target : {0U, 1U, 2U}) {
    Start(target, target == 0 ? 1 : 100);
    Look(target, 5, At(70));
  }
  EXPECT_EQ(Told(), "0:5+1 1=0\n1:5+1 1=0\n2:5+1 1=0\n");
  EXPECT_EQ(Asked(), "");
  // The first has written. The others still have one page.
  Look(0, 5, OwnAt(90));
  Have(1, 5, At(70));
  Have(2, 5, At(70));
  EXPECT_EQ(Told(), "0:5+1 1=0\n1:5+1 0=1\n2:5+1 0=1\n");
  EXPECT_EQ(Asked(), "101:5+1 102:5+1 ");
  Look(0, 5, OwnAt(90));
  EXPECT_EQ(Told(), "0:5+1 1=0\n");
  EXPECT_EQ(Asked(), "");
}

TEST_F(AskedRelativesTest, AreAskedThroughOneOfThoseThatAreKnownToHaveOnePage) {
  for (const std::uint32_t target : {0U, 1U, 2U}) {
    Start(target, target == 0 ? 1 : 100);
    Look(target, 5, At(70));
    Have(target, 5, At(70));
  }
  EXPECT_EQ(Told(), "0:5+1 1=0\n1:5+1 1=0\n2:5+1 1=0\n");
  Start(3, 102);
  Look(3, 5, At(70));
  EXPECT_EQ(Told(), "0:5+1 0=0\n3:5+1 1=0\n");
  EXPECT_EQ(Asked(), "100:5+1 ");
}

TEST_F(AskedRelativesTest, AreAskedForAHugePageAsAWhole) {
  Start(0, 1);
  Start(1, 100);
  for (std::uint64_t i = 0; i < 512; ++i) Have(1, 256 + i, At(1024 + i));
  Look(0, 256, At(1024), 512);
  EXPECT_EQ(Told(), "0:256+512 1=0\n1:256+512 0=0\n");
  comparison_ = FrameComparison(clock_);
  Have(1, 300, At(7));  // a part is a copy
  Look(0, 256, At(1024), 512);
  EXPECT_EQ(Told(), "0:256+512 1=0\n");
}

TEST_F(AskedRelativesTest, KeepTheirRecordOfSamples) {
  Start(0, 1);
  Start(1, 100);
  Have(0, 5, At(70));
  looks_.push_back({.key = {TargetId(0), Vpn(5)}, .seen = true});
  Look(1, 5, At(70));
  EXPECT_EQ(Told(), "0:5+1 0=0\n1:5+1 1=0\n");
}

TEST_F(AskedRelativesTest, AreLeftOutWhereNothingCanBeReadOrNothingIsPrivate) {
  Start(0, 1);
  Start(1, 100);
  Have(0, 5, std::nullopt);
  Have(0, 1005, At(71));
  Look(1, 5, At(70));
  Look(1, 1005, At(71));
  EXPECT_EQ(Told(), "1:5+1 1=0\n1:1005+1 1=1\n");
  EXPECT_EQ(Asked(), "100:5+1 ");
  comparison_ = FrameComparison(clock_);
  targets_[0].exited = true;
  Look(1, 5, At(70));
  EXPECT_EQ(Told(), "1:5+1 1=0\n");
  EXPECT_EQ(Asked(), "");
}

TEST_F(AskedRelativesTest, AreOpenedOnceForAllTheirPages) {
  Start(0, 1);
  Start(1, 100);
  for (const std::uint64_t page : {5, 500, 900}) Look(1, page, At(page));
  (void)Epoch();
  EXPECT_EQ(Asked(), "100:5+1 100:500+1 100:900+1 ");
  EXPECT_EQ(opened_, 1);
}

TEST_F(AskedRelativesTest, AreAskedNoMoreOnceAFrameIsHidden) {
  Start(0, 1);
  Start(1, 100);
  Start(2, 100);
  Look(1, 5, At(70));
  (void)Epoch();
  EXPECT_EQ(Asked(), "100:5+1 102:5+1 ");
  EXPECT_FALSE(outcome_.are_frames_hidden);
  Have(0, 6, std::nullopt);
  for (const std::uint64_t page : {6, 500}) Look(1, page, At(page));
  (void)Epoch();
  EXPECT_EQ(Asked(), "100:6+1 ");
  EXPECT_TRUE(outcome_.are_frames_hidden);
  for (const std::uint32_t target : {0U, 1U}) Look(target, 7, At(70));
  EXPECT_EQ(Told(), "0:7+1 1=0\n1:7+1 1=0\n") << "looks are compared still";
  EXPECT_EQ(Asked(), "");
  EXPECT_EQ(opened_, 3);
  EXPECT_TRUE(outcome_.are_frames_hidden);
}

TEST_F(FrameComparisonTest, ReadsTheFramesOfThisProcess) {
  const std::vector<char> memory(8 * kBasePageBytes, 'x');
  const Vpn page(VpnOfAddress(reinterpret_cast<std::uint64_t>(memory.data())).value() + 1);
  const auto stat = ProcFs().Stat(Pid(::getpid()));
  ASSERT_TRUE(stat);
  Target self{.pid = Pid(::getpid()), .start_time_ticks = stat->start_time_ticks};
  auto pagemap = OpenPagemap(self);
  ASSERT_TRUE(pagemap);
  const auto frames = pagemap({page, page + PageCount(2)});
  ASSERT_EQ(frames.size(), 2u);
  if (!frames[0]) GTEST_SKIP() << "frames take CAP_SYS_ADMIN";
  EXPECT_NE(frames[0]->number, frames[1]->number);
  EXPECT_FALSE(frames[0]->is_shareable);
}

// Bits 63 and 56: present, and mapped by this process alone.
TEST_F(FrameComparisonTest, ReadsNoFramesOfAnotherProcessThatHasTheNumberOfTheTarget) {
  ProcTree tree;
  tree.Put({.pid = 10});
  const std::uint64_t entries[] = {0, 1ull << 63 | 1ull << 56 | 70, 1ull << 63 | 71, 1ull << 63};
  tree.Write("10/pagemap", std::string(reinterpret_cast<const char*>(entries), sizeof entries));
  Target target{.pid = Pid(10), .start_time_ticks = FakeProcess{}.start_time_ticks};
  auto pagemap = OpenPagemap(target, tree.root());
  ASSERT_TRUE(pagemap);
  const auto frames = pagemap({Vpn(0), Vpn(4)});
  ASSERT_EQ(frames.size(), 4u);
  EXPECT_EQ(frames[0], SeenFrame()) << "not present";
  EXPECT_EQ(frames[1], OwnAt(70));
  EXPECT_EQ(frames[2], At(71));
  EXPECT_EQ(frames[3], std::nullopt) << "hidden";
  EXPECT_TRUE(pagemap({Vpn(3), Vpn(5)}).empty()) << "behind the end";
  ++target.start_time_ticks;
  EXPECT_FALSE(OpenPagemap(target, tree.root()));
  target.pid = Pid(11);
  EXPECT_FALSE(OpenPagemap(target, tree.root())) << "no process";
}

// A comparison of four records at a time, of two families.
TEST_F(FrameComparisonTest, ComparesAPartAtATimeAndSaysWhatItLeftOut) {
  constexpr std::uint32_t kOut = kNotCompared;
  comparison_ = FrameComparison(clock_, 4);
  Start(0, 1);
  Start(1, 100);
  Start(2, 1);
  Start(3, 102);
  Start(4, 1);  // has no relatives
  const auto compare = [&] {
    for (std::uint32_t target = 0; target < 4; ++target) {
      Look(target, 5, At(70));
      Look(target, 6, At(80));
      if (target < 2) Look(target, 900, At(90));
    }
    Look(4, 5, At(70));
    return SameAs();
  };
  // Records: 0 to 2 of the first process, 3 to 5 of its child, 6 and 7, 8 and 9, 10.
  EXPECT_EQ(compare(), (Column{{0, 1, kOut, 0, 1, kOut, kOut, kOut, kOut, kOut, 10}}));
  EXPECT_EQ(outcome_.not_compared, 6u);
  EXPECT_EQ(compare(), (Column{{kOut, kOut, 2, kOut, kOut, 2, 6, kOut, 6, kOut, 10}}));
  EXPECT_EQ(outcome_.not_compared, 6u);
  EXPECT_EQ(compare(), (Column{{0, kOut, kOut, 0, kOut, kOut, kOut, 7, kOut, 7, 10}}))
      << "what is left of a part goes to the next family";
  EXPECT_EQ(outcome_.not_compared, 6u);
  comparison_ = FrameComparison(clock_, 10);
  EXPECT_EQ(compare(), (Column{{0, 1, 2, 0, 1, 2, 6, 7, 6, 7, 10}}));
  EXPECT_EQ(outcome_.not_compared, 0u);
}

TEST_F(AskedRelativesTest, AreLeftAloneWhileAPartIsCompared) {
  comparison_ = FrameComparison(clock_, 1);
  Start(0, 1);
  Start(1, 100);
  for (const std::uint64_t page : {5, 6}) Look(1, page, At(page));
  EXPECT_EQ(Told(), "1:5+1 1=0\n1:6+1 1=4294967295\n");
  EXPECT_EQ(Asked(), "");
}

TEST_F(FrameComparisonTest, RestsFor200TimesTheCpuTimeOfAComparison) {
  Start(0, 1);
  Start(1, 100);
  const auto compares_after = [&](nanoseconds time) {
    now_ += time;
    Look(0, 5, At(70));
    Look(1, 5, At(70));
    return SameAs().has_value();
  };
  clock_.step = milliseconds(1);
  EXPECT_TRUE(compares_after(seconds(0)));
  EXPECT_FALSE(compares_after(milliseconds(190)));
  EXPECT_TRUE(compares_after(milliseconds(10)));
}

// Random families, whose records meet or do not.
TEST_F(FrameComparisonTest, AgreesWithAComparisonOfAllPairs) {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&random](std::size_t n) { return random() % n; };
    targets_.clear();
    parent_of_.clear();
    std::map<std::uint32_t, std::uint32_t> root;
    const auto processes = static_cast<std::uint32_t>(2 + below(6));
    for (std::uint32_t target = 0; target < processes; ++target) {
      const auto parent = static_cast<std::uint32_t>(below(target + 1));
      Start(target, parent == target ? 1 : static_cast<std::int32_t>(100 + parent));
      root[target] = parent == target ? target : root[parent];
    }
    std::vector<std::optional<SeenFrame>> frames;
    for (std::uint32_t target = 0; target < processes; ++target) {
      for (std::uint64_t page = 0; page < 20; ++page) {
        if (below(3) == 0) continue;
        Look(target, 990 + page, SeenFrame{.number = below(4), .is_shareable = below(4) != 0});
        frames.push_back(looks_.back().frame);
      }
    }
    const EpochProfile epoch = Epoch();
    const PageColumns& pages = epoch.pages;
    std::vector<std::uint32_t> naive;
    bool any_family = false;
    for (std::uint32_t i = 0; i < pages.size(); ++i) {
      std::uint32_t first = i;
      for (std::uint32_t j = 0; j < pages.size(); ++j) {
        const bool are_relatives = root[pages.target[i].value()] == root[pages.target[j].value()];
        any_family |= are_relatives && pages.target[i] != pages.target[j];
        if (j < first && are_relatives && pages.vpn[i] == pages.vpn[j] &&
            pages.vpn[i] < Vpn(1000) && frames[i] == frames[j] && frames[i]->is_shareable) {
          first = j;
        }
      }
      naive.push_back(first);
    }
    EXPECT_EQ(pages.same_as, any_family ? Column(naive) : std::nullopt);
  }
}

}  // namespace frame_comparison_test
}  // namespace tmprof
