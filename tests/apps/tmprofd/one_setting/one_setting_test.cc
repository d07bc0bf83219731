// SPDX-License-Identifier: Apache-2.0
// The configuration with one more setting, which took the edits in apply.py and no others. It is
// read, checked, printed, set and described like the rest.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "apps/tmprofd/config_file.h"
#include "apps/tmprofd/setting_rows.h"
#include "daemon/config/config_manual.h"
#include "proto/setting_changes.h"
#include "tests/apps/program.h"
#include "tests/folders.h"

namespace tmprof::test {
namespace one_setting_test {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

TEST(OneSetting, IsReadFromFilesAndPrintedAgain) {
  const auto config = ParseConfig("mover { example_pause_ms: 7 }", "c");
  ASSERT_TRUE(config) << config.error().Message();
  EXPECT_EQ(config->mover.example_pause, 7ms);
  EXPECT_THAT(PrintConfig(*config), HasSubstr("  example_pause_ms: 7\n"));
  EXPECT_THAT(PrintConfig(Config{}), HasSubstr("  example_pause_ms: 40\n"));
}

TEST(OneSetting, IsRefusedAtItsPlaceWithWhatItTakes) {
  const auto config = ParseConfig("mover {\n  example_pause_ms: 0\n}", "c");
  ASSERT_FALSE(config);
  EXPECT_THAT(config.error().Message(),
              HasSubstr("c:2:21: mover.example_pause_ms: a whole number from 1 to 1000 is needed, "
                        "not '0'"));
  const auto other = ParseConfig("mover { pause: 1 }", "c");
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().Message(), HasSubstr(", latency_gap_ns, example_pause_ms"));
}

TEST(OneSetting, IsSetWhileTheDaemonRuns) {
  const auto config = WithSettings({}, {{"mover.example_pause_ms", "900"}});
  ASSERT_TRUE(config) << config.error().Message();
  EXPECT_EQ(config->mover.example_pause, 900ms);
  EXPECT_TRUE(ObserveAlike(Config{}, *config));
  const auto back = WithSettings(*config, {{"mover.example_pause_ms", "default"}});
  EXPECT_EQ(back->mover.example_pause, 40ms);
  const auto slip = WithSettings({}, {{"mover.exmple_pause_ms", "9"}});
  ASSERT_FALSE(slip);
  EXPECT_THAT(slip.error().Message(), HasSubstr("did you mean 'mover.example_pause_ms'?"));
}

// Else the documents would need an edit, too.
TEST(OneSetting, ChangesLikeTheOthersOfItsGroup) {
  EXPECT_THAT(ReadFile(std::string(TMPROF_SOURCE_DIR) + "/docs/configuration.md"),
              HasSubstr(SettingChangeTable()));
}

TEST(OneSetting, IsInTheManualPage) {
  EXPECT_THAT(ConfigManual(ReadFile(TMPROF_WITH_ONE_SETTING "/proto/config.proto"), "/x.textproto"),
              HasSubstr(".TP\n.B example_pause_ms\nIn ms: an example. Default: 40.\n"
                        "From 1 to 1000.\n"));
}

}  // namespace one_setting_test
}  // namespace tmprof::test
