// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/abit/other_scanners.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/base/host/proc_tree.h"

namespace tmprof::abit {
namespace other_scanners_test {

using ::testing::HasSubstr;
using ::testing::Optional;

constexpr Pid kSelf{50};

class OtherScannerTest : public ::testing::Test {
 protected:
  void PutRecorder(int pid, const std::string& thread, int watched) {
    const std::string folder = std::to_string(pid);
    proc_.Write(folder + "/comm", "tmprof\n");
    proc_.Write(folder + "/task/" + folder + "/comm", "tmprof\n");
    proc_.Write(folder + "/task/" + std::to_string(pid + 1) + "/comm", thread + "\n");
    proc_.Write(folder + "/fdinfo/3", "pos:\t0\nflags:\t02000002\nmnt_id:\t15\n");
    proc_.Write(folder + "/fdinfo/4", "pos:\t0\nflags:\t02000002\nmnt_id:\t15\nino:\t9\nPid:\t" +
                                          std::to_string(watched) + "\nNSpid:\t" +
                                          std::to_string(watched) + "\n");
  }
  std::optional<std::string> Other() const {
    return OtherScannerOf({Pid(7), Pid(8)}, kSelf, proc_.root());
  }

  ProcTree proc_;
};

TEST_F(OtherScannerTest, IsFoundWhereItWatchesOneOfTheTargets) {
  PutRecorder(60, "tmprof-abit", 8);
  EXPECT_THAT(Other(), Optional(HasSubstr("PID 60 (tmprof) clears")));
}

TEST_F(OtherScannerTest, IgnoresScannersOfOtherProcesses) {
  PutRecorder(60, "tmprof-abit", 88);
  EXPECT_EQ(Other(), std::nullopt);
}

TEST_F(OtherScannerTest, IsNotTheCaller) {
  PutRecorder(kSelf.value(), "tmprof-abit", 8);
  EXPECT_EQ(Other(), std::nullopt);
}

TEST_F(OtherScannerTest, IsNotARecorderWithoutAccessedBits) {
  PutRecorder(60, "tmprof-other", 8);
  EXPECT_EQ(Other(), std::nullopt);
}

TEST_F(OtherScannerTest, IsFoundBehindOneOfOtherProcesses) {
  PutRecorder(60, "tmprof-abit", 88);
  PutRecorder(70, "tmprof-abit", 7);
  EXPECT_THAT(Other(), Optional(HasSubstr("PID 70")));
}

}  // namespace other_scanners_test
}  // namespace tmprof::abit
