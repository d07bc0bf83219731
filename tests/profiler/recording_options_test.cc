// SPDX-License-Identifier: Apache-2.0

#include "profiler/recording_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "profiler/recording_settings.h"

namespace tmprof {
namespace recording_options_test {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::HasSubstr;

IsGiven Only(std::string_view option) {
  return [option](const char* each) { return each == option; };
}

TEST(CheckRecording, RefusesWhatNothingCanBeRecordedWith) {
  EXPECT_TRUE(CheckRecording({}));
  EXPECT_THAT(CheckRecording({.epoch = 9ms}).error().Message(), HasSubstr("--epoch 9ms"));
  EXPECT_THAT(CheckRecording({.duration = 0ns}).error().Message(), HasSubstr("in no time"));
  EXPECT_THAT(CheckRecording({.max_targets = 0}).error().Message(), HasSubstr("of no process"));
  RecordingOptions options;
  options.sources.max_overhead = 1e-7;
  EXPECT_THAT(CheckRecording(options).error().Message(), HasSubstr("--max-overhead"));
}

TEST(CheckTracing, RefusesItsOptionsWithoutTheExactTracer) {
  RecordingOptions options;
  options.tracing.llc_bytes = 1 << 20;
  EXPECT_THAT(CheckTracing(options).error().Message(), HasSubstr("it is for --source exact"));
  options.sources.names = {"exact"};
  EXPECT_TRUE(options.is_exact());
  EXPECT_TRUE(CheckTracing(options));
  options.pids = {1};
  EXPECT_THAT(CheckTracing(options).error().Message(), HasSubstr("already runs"));
}

TEST(CheckTracing, RefusesAnL2CacheWithoutAnLlc) {
  RecordingOptions options;
  options.sources.names = {"exact"};
  options.tracing.l2_bytes = 1 << 20;
  EXPECT_THAT(CheckTracing(options).error().Message(), HasSubstr("it needs a modelled cache"));
}

TEST(CheckEffects, RefusesOptionsThatChangeNothing) {
  const RecordingOptions full;
  EXPECT_TRUE(CheckEffects(full, Only("")));
  EXPECT_THAT(CheckEffects(full, Only("--min-regions")).error().Message(),
              HasSubstr("has no regions"));
  EXPECT_THAT(CheckEffects(full, Only("--scan-interval")).error().Message(),
              HasSubstr("makes no scan at an interval"));
  RecordingOptions clock;
  clock.sources.names = {"clock"};
  EXPECT_THAT(CheckEffects(clock, Only("--abit")).error().Message(),
              HasSubstr("no source of --source clock reads accessed bits"));
}

TEST(SettingsInForce, HaveThoseOfObjectsBeforeTheCapOfTargets) {
  RecordingOptions options;
  options.duration = 3s;
  options.max_targets = 4;
  const auto settings = SettingsInForce(options, {}, {{"objects", "on"}});
  std::string names;
  for (const Setting& setting : settings) names += setting.name + " ";
  EXPECT_THAT(names, HasSubstr(" duration objects max-targets "));
  EXPECT_THAT(settings, Contains(Setting{"epoch", "1s"}));
  EXPECT_THAT(SettingsLine(settings, {}), HasSubstr("recording: source=auto abit=full,ladder "));
}

TEST(TracingSettingsInForce, HaveInstructionsInsteadOfTime) {
  RecordingOptions options;
  options.tracing.epoch_instructions = 5000;
  const auto settings = TracingSettingsInForce(options, {});
  EXPECT_THAT(settings, Contains(Setting{"epoch-instructions", "5000"}));
  EXPECT_THAT(settings, Contains(Setting{"source", "exact"}));
  EXPECT_EQ(settings.size(), 2u);
}

}  // namespace recording_options_test
}  // namespace tmprof
