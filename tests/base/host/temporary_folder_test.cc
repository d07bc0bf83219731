// SPDX-License-Identifier: Apache-2.0

#include "base/host/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>

#include "base/host/delayed_stops.h"

namespace tmprof {
namespace temporary_folder_test {

TEST(TemporaryFolder, IsRemovedWithAllThatIsInIt) {
  std::filesystem::path path;
  {
    auto folder = TemporaryFolder::Make("tmprof-test");
    ASSERT_TRUE(folder) << folder.error().Message();
    path = folder->path();
    EXPECT_THAT(path.filename().string(), testing::StartsWith("tmprof-test-"));
    std::ofstream(path / "file") << "text";
    const TemporaryFolder moved = *std::move(folder);
    EXPECT_EQ(moved.path(), path);
    EXPECT_TRUE(std::filesystem::is_directory(path));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

volatile std::sig_atomic_t interrupted = 0;

TEST(DelayedStops, HoldASignalBackUntilTheyGo) {
  interrupted = 0;
  const auto before = std::signal(SIGINT, [](int) { interrupted = 1; });
  std::optional<DelayedStops> delayed(std::in_place);
  std::raise(SIGINT);
  EXPECT_EQ(interrupted, 0);
  delayed.reset();
  EXPECT_EQ(interrupted, 1);
  std::signal(SIGINT, before);
}

}  // namespace temporary_folder_test
}  // namespace tmprof
