// SPDX-License-Identifier: Apache-2.0

#include "mover/live_bindings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "tests/base/fake_clock.h"

namespace tmprof {
namespace live_bindings_test {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using Destinations = MemoryBinding::Destinations;

constexpr TargetId kTarget{3};
constexpr Pid kPid{42};
constexpr NodeId kFast{0};
constexpr NodeId kSlow{1};
constexpr VpnRange kPage{Vpn(10), Vpn(11)};

// A process with one policy, and what it takes to read that.
class FakePolicies final : public PolicyReader {
 public:
  FakePolicies(FakeClock& clock, bool mappings_are_cheaper)
      : clock_(&clock), cheaper_(mappings_are_cheaper) {}

  std::string_view way() const override { return "a test"; }
  Result<MemoryBinding> Read(Pid /*pid*/) override {
    ++readings;
    clock_->now += takes;
    if (refusal != 0) return Fail(Refused("read", "a test", refusal));
    return MemoryBinding(std::nullopt, policy, {});
  }
  bool mappings_are_cheaper() const override { return cheaper_; }
  Result<std::vector<VpnRange>> ReadMappings(Pid /*pid*/) override {
    ++mapping_readings;
    clock_->now += mappings_take;
    return mappings;
  }

  nanoseconds takes{milliseconds(10)};
  nanoseconds mappings_take{microseconds(20)};
  Destinations policy;
  std::vector<VpnRange> mappings{{Vpn(0), Vpn(100)}};
  int refusal = 0;
  int readings = 0;
  int mapping_readings = 0;

 private:
  FakeClock* clock_;
  bool cheaper_;
};

class LiveBindingsTest : public testing::Test {
 protected:
  // True if a move may promote the page. Reads the bindings first if moving asks for that.
  bool MayMove(LiveBindings& bindings, VpnRange pages = kPage) {
    if (!bindings.ForMoving(kTarget)) bindings.Read(kTarget, kPid);
    const LiveBindings::Shared binding = bindings.ForMoving(kTarget).value();
    return binding != nullptr && binding->MayMove(pages, kSlow, kFast);
  }

  FakeClock clock_{MonotonicTime(seconds(1000))};
  FakePolicies quick_{clock_, /*mappings_are_cheaper=*/false};
  FakePolicies slow_{clock_, /*mappings_are_cheaper=*/true};
};

TEST_F(LiveBindingsTest, APolicyThatWasSetMeanwhileHoldsAfterAHundredTimesWhatReadingTakes) {
  quick_.takes = microseconds(100);
  LiveBindings bindings(quick_, clock_);
  EXPECT_TRUE(MayMove(bindings));
  quick_.policy = std::vector{kSlow};
  clock_.now += milliseconds(9);
  EXPECT_TRUE(MayMove(bindings)) << "9.1 ms old";
  clock_.now += microseconds(900);
  EXPECT_FALSE(MayMove(bindings)) << "10 ms old";
  EXPECT_EQ(quick_.mapping_readings, 0);
}

TEST_F(LiveBindingsTest, DecidingGoesByAThousandTimesThat) {
  LiveBindings bindings(quick_, clock_);
  EXPECT_TRUE(bindings.ForDeciding(kTarget, kPid).value()->MayMove(kPage, kSlow, kFast));
  quick_.policy = std::vector{kSlow};
  clock_.now += milliseconds(9989);
  EXPECT_TRUE(bindings.ForDeciding(kTarget, kPid).value()->MayMove(kPage, kSlow, kFast));
  clock_.now += milliseconds(1);
  EXPECT_FALSE(bindings.ForDeciding(kTarget, kPid).value()->MayMove(kPage, kSlow, kFast));
}

// The mover asks for a reading that deciding has made in the meantime.
TEST_F(LiveBindingsTest, AReadingThatAnotherHasJustMadeStands) {
  LiveBindings bindings(quick_, clock_);
  ASSERT_TRUE(bindings.ForDeciding(kTarget, kPid));
  bindings.Read(kTarget, kPid);
  EXPECT_EQ(quick_.readings, 1);
  EXPECT_EQ(quick_.mapping_readings, 0);
  EXPECT_TRUE(bindings.ForMoving(kTarget).value()->MayMove(kPage, kSlow, kFast));
}

TEST_F(LiveBindingsTest, DecidingGoesByFiveSecondsWhereReadingCostsLittle) {
  quick_.takes = microseconds(100);
  LiveBindings bindings(quick_, clock_);
  ASSERT_TRUE(bindings.ForDeciding(kTarget, kPid));
  clock_.now += milliseconds(4999);
  ASSERT_TRUE(bindings.ForDeciding(kTarget, kPid));
  EXPECT_EQ(quick_.readings, 1);
  clock_.now += milliseconds(1);
  ASSERT_TRUE(bindings.ForDeciding(kTarget, kPid));
  EXPECT_EQ(quick_.readings, 2);
}

TEST_F(LiveBindingsTest, DecidingGoesByWhatMovingHasRead) {
  LiveBindings bindings(quick_, clock_);
  ASSERT_TRUE(bindings.ForDeciding(kTarget, kPid));
  quick_.policy = std::vector{kSlow};
  clock_.now += seconds(1);
  EXPECT_FALSE(MayMove(bindings));
  EXPECT_FALSE(bindings.ForDeciding(kTarget, kPid).value()->MayMove(kPage, kSlow, kFast));
  EXPECT_EQ(quick_.readings, 2);
}

TEST_F(LiveBindingsTest, AReadingIsTenMinutesOldAtMost) {
  quick_.takes = seconds(30);
  LiveBindings bindings(quick_, clock_);
  ASSERT_TRUE(bindings.ForDeciding(kTarget, kPid));
  clock_.now += minutes(10);
  ASSERT_TRUE(bindings.ForDeciding(kTarget, kPid));
  EXPECT_EQ(quick_.readings, 2);
}

TEST_F(LiveBindingsTest, DoesNotReadAllTheTimeIfReadingTakesNoTime) {
  quick_.takes = nanoseconds(0);
  LiveBindings bindings(quick_, clock_);
  EXPECT_TRUE(MayMove(bindings));
  EXPECT_TRUE(MayMove(bindings));
  EXPECT_EQ(quick_.readings, 1);
}

TEST_F(LiveBindingsTest, MemoryMappedAfterALongReadingIsHeldBack) {
  LiveBindings bindings(slow_, clock_);
  EXPECT_TRUE(MayMove(bindings));
  slow_.mappings = {{Vpn(0), Vpn(100)}, {Vpn(200), Vpn(300)}};
  clock_.now += milliseconds(3);  // mappings were just read before the policies
  EXPECT_TRUE(MayMove(bindings));
  EXPECT_FALSE(MayMove(bindings, {Vpn(200), Vpn(201)}));
  EXPECT_EQ(slow_.readings, 1);
  EXPECT_TRUE(bindings.ForDeciding(kTarget, kPid).value()->HasUnread({Vpn(200), Vpn(201)}));
  clock_.now += seconds(1);
  EXPECT_TRUE(MayMove(bindings, {Vpn(200), Vpn(201)})) << "read again";
  EXPECT_EQ(slow_.readings, 2);
}

TEST_F(LiveBindingsTest, APartOfAMappingBoundAfterALongReadingIsHeldBack) {
  LiveBindings bindings(slow_, clock_);
  EXPECT_TRUE(MayMove(bindings));
  slow_.mappings = {{Vpn(0), Vpn(10)}, {Vpn(10), Vpn(20)}, {Vpn(20), Vpn(100)}};
  clock_.now += milliseconds(3);
  EXPECT_FALSE(MayMove(bindings));
}

TEST_F(LiveBindingsTest, UnreadableBindingsForbidMovesAndAreReadAgain) {
  quick_.refusal = EACCES;
  LiveBindings bindings(quick_, clock_);
  EXPECT_FALSE(MayMove(bindings));
  EXPECT_EQ(bindings.ForDeciding(kTarget, kPid).error().system_error, EACCES);
  quick_.refusal = 0;
  clock_.now += seconds(1);
  EXPECT_TRUE(MayMove(bindings));
}

TEST_F(LiveBindingsTest, ForgetsTargetsThatAreGone) {
  LiveBindings bindings(quick_, clock_);
  EXPECT_TRUE(MayMove(bindings));
  bindings.KeepOnly(std::vector{kTarget});
  EXPECT_TRUE(bindings.ForMoving(kTarget));
  bindings.KeepOnly({});
  EXPECT_FALSE(bindings.ForMoving(kTarget));
}

}  // namespace live_bindings_test
}  // namespace tmprof
