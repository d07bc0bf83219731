// SPDX-License-Identifier: Apache-2.0

#include "daemon/placement/session_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/version.h"
#include "tests/apps/program.h"
#include "tests/proto/ledgers.h"

namespace tmprof {
namespace session_ledger_test {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class SessionLedgerTest : public testing::Test {
 protected:
  SessionLedgerTest() { config_.file = folder_.File("ledger"); }

  // The policy in the head of a ledger, and the moves that it has.
  struct Held {
    std::string policy;
    std::size_t moves = 0;
  };
  static Held Read(const std::filesystem::path& path) {
    Result<LedgerReader> reader = LedgerReader::Open(path);
    EXPECT_TRUE(reader) << reader.error().Message();
    if (!reader) return {};
    Held held{.policy = reader->info().policy};
    for (LedgerEpoch epoch; reader->Next(epoch).value_or(false);) held.moves += epoch.moves.size();
    return held;
  }
  // Describes a ledger that begins later than the one before, with this policy.
  LedgerInfo Later(const std::string& policy) {
    LedgerInfo info = SmallLedgerInfo();
    info.start += std::chrono::seconds(60);
    info.wall_start += std::chrono::seconds(60);
    info.policy = policy;
    return info;
  }
  std::function<SettledMoves()> Settle() {
    return [this] {
      ++settled_;
      return SettledMoves{};
    };
  }

  test::TemporaryFolder folder_;
  LedgerConfig config_;
  std::vector<std::string> reported_;
  SessionLedger ledger_{[this](const std::string& error) { reported_.push_back(error); }};
  int settled_ = 0;
};

TEST_F(SessionLedgerTest, GoesOnWhereTheConfigurationChangesNothingInIt) {
  ASSERT_TRUE(ledger_.Begin(config_, SmallLedgerInfo()));
  LedgerInfo info = Later("history");
  info.warnings = {"another"};
  ASSERT_TRUE(ledger_.Renew(config_, info, Settle()));
  EXPECT_EQ(settled_, 0);
  EXPECT_FALSE(std::filesystem::exists(folder_.File("ledger.1")));
}

TEST_F(SessionLedgerTest, BeginsAnewForAnotherPolicy) {
  ASSERT_TRUE(ledger_.Begin(config_, SmallLedgerInfo()));
  ASSERT_TRUE(ledger_.Renew(config_, Later("first_touch"), Settle()));
  EXPECT_EQ(settled_, 1);
  ledger_.End({});
  EXPECT_EQ(Read(folder_.File("ledger.1")).policy, "history");
  EXPECT_EQ(Read(*config_.file).policy, "first_touch");
  EXPECT_THAT(reported_, IsEmpty());
}

TEST_F(SessionLedgerTest, StaysInItsFileWhereAnotherFileCannotBeWritten) {
  ASSERT_TRUE(ledger_.Begin(config_, SmallLedgerInfo()));
  LedgerConfig other = config_;
  other.file = folder_.File("none/ledger");
  EXPECT_FALSE(ledger_.Renew(other, Later("first_touch"), Settle()));
  EXPECT_EQ(settled_, 0) << "nothing has ended";
  EXPECT_FALSE(ledger_.without());
  ledger_.End({});
  EXPECT_EQ(Read(*config_.file).policy, "history");
}

TEST_F(SessionLedgerTest, MovesToAnotherFile) {
  ASSERT_TRUE(ledger_.Begin(config_, SmallLedgerInfo()));
  LedgerConfig other = config_;
  other.file = folder_.File("other");
  ASSERT_TRUE(ledger_.Renew(other, Later("history"), Settle()));
  EXPECT_EQ(settled_, 1);
  ledger_.End({});
  EXPECT_EQ(Read(folder_.File("other")).policy, "history");
  EXPECT_FALSE(std::filesystem::exists(folder_.File("ledger.1"))) << "the first one stays";
}

TEST_F(SessionLedgerTest, TellsAndGoesOnWithoutIfNoneCanBeBegunAnyMore) {
  config_.file = folder_.File("in/ledger");
  std::filesystem::create_directory(folder_.File("in"));
  ASSERT_TRUE(ledger_.Begin(config_, SmallLedgerInfo()));
  std::filesystem::remove_all(folder_.File("in"));
  EXPECT_FALSE(ledger_.Renew(config_, Later("first_touch"), Settle()));
  ASSERT_TRUE(ledger_.without());
  EXPECT_THAT(*ledger_.without(), HasSubstr("; moving goes on without a ledger"));
  EXPECT_THAT(reported_, SizeIs(1));
  ledger_.End({});
}

TEST_F(SessionLedgerTest, HasNoWarningWhereNoneWasAskedFor) {
  ASSERT_TRUE(ledger_.Begin({}, SmallLedgerInfo()));
  ledger_.End({});
  EXPECT_FALSE(ledger_.without());
  EXPECT_THAT(reported_, IsEmpty());
}

TEST(NewLedgerInfo, SaysWhoWritesItAndWhen) {
  const Tiers tiers = *Tiers::Make({{NodeId(0)}, {NodeId(1)}});
  const LedgerInfo info = NewLedgerInfo(tiers, MonotonicTime(std::chrono::seconds(7)));
  EXPECT_EQ(info.tool_version, std::string("tmprof ") + kVersion);
  EXPECT_EQ(info.start, MonotonicTime(std::chrono::seconds(7)));
  EXPECT_EQ(info.tiers, tiers);
  EXPECT_FALSE(info.kernel_release.empty());
}

}  // namespace session_ledger_test
}  // namespace tmprof
