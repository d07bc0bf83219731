// SPDX-License-Identifier: Apache-2.0

#include "daemon/placement/live_mappings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <optional>
#include <vector>

#include "tests/base/fake_clock.h"

namespace tmprof {
namespace live_mappings_test {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class LiveMappingsTest : public testing::Test {
 protected:
  std::optional<FilePlace> FileAt(Pid pid) {
    const Vpn page(103);
    const auto files = live_.FilesAt(pid, std::span(&page, 1));
    return files.empty() ? std::nullopt : files.front();
  }

  FakeClock clock_;
  std::chrono::nanoseconds takes_{0};
  std::uint64_t inode_ = 7;
  bool is_gone_ = false;
  int reads_ = 0;
  LiveMappings live_{
      [this](Pid) -> Result<std::vector<Mapping>> {
        ++reads_;
        clock_.now += takes_;
        if (is_gone_) return Fail(Refused("read", "mappings", ESRCH));
        return std::vector<Mapping>{
            {.range = {Vpn(100), Vpn(110)},
             .kind = MappingKind::kShared,
             .path = "/dev/shm/ring",
             .file = FilePlace{.device = 1, .inode = inode_, .offset = PageCount(0)}}};
      },
      clock_};
};

TEST_F(LiveMappingsTest, AReadingServesForAMillisecond) {
  EXPECT_EQ(FileAt(Pid(10)), (FilePlace{.device = 1, .inode = 7, .offset = PageCount(3)}));
  inode_ = 8;
  clock_.now += milliseconds(1) - std::chrono::nanoseconds(1);
  EXPECT_EQ(FileAt(Pid(10))->inode, 7U);
  clock_.now += std::chrono::nanoseconds(1);
  EXPECT_EQ(FileAt(Pid(10))->inode, 8U);
  EXPECT_EQ(reads_, 2);
}

TEST_F(LiveMappingsTest, ADearReadingServesForAHundredTimesAsLong) {
  takes_ = milliseconds(2);
  FileAt(Pid(10));
  clock_.now += milliseconds(197);
  FileAt(Pid(10));
  EXPECT_EQ(reads_, 1);
  clock_.now += milliseconds(1);
  FileAt(Pid(10));
  EXPECT_EQ(reads_, 2);
}

TEST_F(LiveMappingsTest, AnotherProcessIsReadByItself) {
  FileAt(Pid(10));
  FileAt(Pid(11));
  EXPECT_EQ(reads_, 2);
}

TEST_F(LiveMappingsTest, MappingsThatCannotBeReadAreUnknown) {
  FileAt(Pid(10));
  clock_.now += milliseconds(1);
  is_gone_ = true;
  EXPECT_EQ(FileAt(Pid(10)), std::nullopt);
  is_gone_ = false;
  EXPECT_NE(FileAt(Pid(10)), std::nullopt) << "the refusal is not remembered";
}

}  // namespace live_mappings_test
}  // namespace tmprof
