// SPDX-License-Identifier: Apache-2.0

#include "daemon/placement/placed_targets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/base/fake_clock.h"

namespace tmprof {
namespace placed_targets_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr VpnRange kHeap{Vpn(16), Vpn(32)};

// A process that does nothing.
class Sleeper {
 public:
  Sleeper() : pid_(::fork()) {
    if (pid_ != 0) return;
    while (true) ::pause();
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;
  ~Sleeper() { End(); }

  Pid pid() const { return Pid(pid_); }
  void End() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  pid_t pid_;
};

class FakePolicies final : public PolicyReader {
 public:
  std::string_view way() const override { return "a test"; }
  Result<MemoryBinding> Read(Pid pid) override {
    if (refusal != 0)
      return Fail(Refused("read policies of", std::to_string(pid.value()), refusal));
    return MemoryBinding(std::nullopt, std::nullopt, {});
  }
  bool mappings_are_cheaper() const override { return false; }
  Result<std::vector<VpnRange>> ReadMappings(Pid /*pid*/) override {
    return std::vector<VpnRange>{};
  }

  int refusal = 0;
};

class PlacedTargetsTest : public testing::Test {
 protected:
  TrackedProcess Tracked(std::uint32_t id, const Sleeper& process) const {
    TrackedProcess tracked{.id = TargetId(id), .pid = process.pid()};
    tracked.start_time_ticks = procfs_.Stat(process.pid())->start_time_ticks;
    tracked.mappings.push_back({.range = kHeap, .kind = MappingKind::kHeap});
    return tracked;
  }
  std::vector<TargetId> IdsNow() {
    std::vector<TargetId> ids;
    for (const PlacedTarget& target : placed_.Now()) ids.push_back(target.id);
    return ids;
  }

  ProcFs procfs_;
  FakeClock clock_{MonotonicTime(std::chrono::seconds(1000))};
  FakePolicies policies_;
  LiveTargets live_{procfs_};
  LiveBindings bindings_{policies_, clock_};
  std::vector<std::string> warnings_;
  PlacedTargets placed_{live_, procfs_, bindings_,
                        [this](const std::string& warning) { warnings_.push_back(warning); }};
  Sleeper first_;
  Sleeper second_;
};

TEST_F(PlacedTargetsTest, AreThoseThatAreAliveAndTheRestIsObserved) {
  placed_.Follow({Tracked(1, first_), Tracked(4, second_)});
  EXPECT_THAT(IdsNow(), ElementsAre(TargetId(1), TargetId(4)));
  first_.End();
  EXPECT_THAT(IdsNow(), ElementsAre(TargetId(4)));
  EXPECT_THAT(placed_.observed(), ElementsAre(TargetId(1), TargetId(4)));
  placed_.Follow({Tracked(4, second_)});
  EXPECT_THAT(placed_.observed(), ElementsAre(TargetId(4)));
}

TEST_F(PlacedTargetsTest, HaveTheirMappingsMemoryAndBinding) {
  TrackedProcess tracked = Tracked(1, first_);
  tracked.mappings.push_back({.range = {Vpn(90), Vpn(91)}, .kind = MappingKind::kSpecial});
  placed_.Follow({tracked});
  const std::vector<PlacedTarget> now = placed_.Now();
  ASSERT_THAT(now, SizeIs(1));
  EXPECT_EQ(now[0].pid, first_.pid());
  EXPECT_THAT(now[0].mapped, ElementsAre(kHeap)) << "the kernel's own mappings are no memory";
  EXPECT_EQ(now[0].resident, procfs_.Stat(first_.pid())->resident);
  EXPECT_NE(now[0].binding, nullptr);
  EXPECT_TRUE(now[0].joins_segments);
}

TEST_F(PlacedTargetsTest, AreWarnedOfOnceWhileTheirPoliciesCannotBeRead) {
  policies_.refusal = EACCES;
  placed_.Follow({Tracked(1, first_)});
  EXPECT_EQ(placed_.Now().front().binding, nullptr);
  clock_.now += std::chrono::minutes(20);  // it is read again
  EXPECT_EQ(placed_.Now().front().binding, nullptr);
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("EACCES (Permission denied); none of its pages is "
                                               "moved meanwhile")));
  policies_.refusal = 0;
  clock_.now += std::chrono::minutes(20);
  EXPECT_NE(placed_.Now().front().binding, nullptr);
  policies_.refusal = EACCES;
  clock_.now += std::chrono::minutes(20);
  placed_.Now();
  EXPECT_THAT(warnings_, SizeIs(2)) << "it is refused anew";
}

TEST_F(PlacedTargetsTest, AreNotWarnedOfWhereTheProcessIsGone) {
  policies_.refusal = ESRCH;
  placed_.Follow({Tracked(1, first_)});
  EXPECT_EQ(placed_.Now().front().binding, nullptr);
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(PlacedTargetsTest, JoinSegmentsOfTheIpcNamespaceOfThisProcessAlone) {
  const auto own = procfs_.IpcNamespace(Pid(::getpid()));
  ASSERT_TRUE(own);
  const std::map<std::optional<std::uint64_t>, bool> joins{
      {own, true}, {*own + 1, false}, {std::nullopt, false}};
  for (const auto& [ipc_namespace, expected] : joins) {
    TrackedProcess tracked = Tracked(1, first_);
    tracked.mappings.push_back(
        {.range = {Vpn(40), Vpn(50)}, .kind = MappingKind::kShared, .path = "/SYSV00000000"});
    tracked.ipc_namespace = ipc_namespace;
    placed_.Follow({tracked});
    EXPECT_EQ(placed_.Now().front().joins_segments, expected) << ipc_namespace.value_or(0);
  }
}

}  // namespace placed_targets_test
}  // namespace tmprof
