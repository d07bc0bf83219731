// SPDX-License-Identifier: Apache-2.0

#include "report/analysis/summary.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/report/traces.h"

namespace tmprof {
namespace summary_test {

using std::chrono::milliseconds;

// Epochs 0, 1 and 3: one was lost. The sampler is gated in the last.
Trace ThreeEpochs() {
  std::vector<EpochProfile> epochs;
  for (const std::uint64_t index : {0, 1, 3}) {
    epochs.push_back(MakeEpoch(index, {MakeTarget(0, 4711, "redis")}));
    EpochProfile& epoch = epochs.back();
    epoch.sources[0].observations = 100;
    epoch.sources[0].details = {{"clears", 50}};
    epoch.sources[1].observations = 10;
    epoch.sources[1].details = {{"no_address", 2}, {"kernel_mode", 5}};
    See(epoch, 0, {{.vpn = 1, .looks = 1, .references = 1}, {.vpn = 2 + index, .loads = 1}});
  }
  epochs[0].sources[0].note = "2 targets could not be opened: EMFILE";
  epochs[0].sources[1].note = "100 samples per second of CPU time";
  epochs[2].sources[1].note = "99 samples per second of CPU time";
  epochs[2].sources[1].state = SourceState::kGated;
  epochs[2].sources[1].duty_cycle = 0;
  epochs[2].sources[1].observations = std::nullopt;
  epochs[2].sources[1].details.clear();
  Trace trace = TraceOf(std::move(epochs), std::nullopt, true);
  trace.info.calibration.ns_per_set = 170.5;
  trace.info.calibration.ns_per_look = 0;  // measured as free
  trace.info.settings = {{"max-overhead", "1%"}};
  trace.info.warnings = {"another scanner clears bits"};
  return trace;
}

TEST(SummaryTest, IsWhatJsonReadersExpect) {
  const auto json = nlohmann::json::parse(SummaryJson(*MakeSummary(ThreeEpochs())));
  EXPECT_EQ(json["epochs"], 3);
  EXPECT_EQ(json["lost_epochs"], 1);
  EXPECT_EQ(json["duration_s"], 4.0);
  EXPECT_EQ(json["finished"], true);
  EXPECT_TRUE(json["damage"].is_null());
  EXPECT_EQ(json["footprint_pages"], 4);
  EXPECT_EQ(json["pages_seen"]["references"], 1);
  EXPECT_EQ(json["pages_seen"]["samples"], 3);
  EXPECT_EQ(json["pages_seen"]["both"], 0);
  EXPECT_EQ(json["pages_seen"]["either"], 4);
  ASSERT_EQ(json["targets"].size(), 1u);
  EXPECT_EQ(json["targets"][0]["pid"], 4711);
  EXPECT_EQ(json["targets"][0]["name"], "redis");
  EXPECT_EQ(json["targets"][0]["cpu_s"], 3.0);
  ASSERT_EQ(json["sources"].size(), 2u);
  EXPECT_EQ(json["sources"][0]["name"], "abit-bpf");
  EXPECT_EQ(json["sources"][0]["active_ratio"], 1.0);
  EXPECT_EQ(json["sources"][0]["observations"], 300);
  EXPECT_EQ(json["sources"][0]["lost"], 0);
  EXPECT_TRUE(json["sources"][0]["samples_of"].is_null());
  EXPECT_EQ(json["sources"][1]["samples_of"], "time");
  EXPECT_DOUBLE_EQ(json["sources"][1]["active_ratio"], 2.0 / 3);
  EXPECT_EQ(json["sources"][1]["observations"], 20);  // gated: delivered none, which is known
  EXPECT_EQ(json["overhead"]["calibrated_ns_per_bit"], 170.5);
  EXPECT_EQ(json["overhead"]["calibrated_ns_per_look"], 0);
  EXPECT_TRUE(json["overhead"]["calibrated_ns_per_sample"].is_null());
  EXPECT_EQ(json["overhead"]["clears"], 150);
  EXPECT_DOUBLE_EQ(json["overhead"]["own_cpu_s"], 0.015);
  EXPECT_EQ(json["settings"]["max-overhead"], "1%");
  EXPECT_EQ(json["warnings"][0], "another scanner clears bits");
}

TEST(SummaryTest, TellsWhichTiersTheMachineHadWhereThatIsKnown) {
  Trace trace = ThreeEpochs();
  EXPECT_EQ(SummaryText(*MakeSummary(trace)).find("tiers"), std::string::npos);
  const auto unknown = nlohmann::json::parse(SummaryJson(*MakeSummary(trace)));
  EXPECT_TRUE(unknown["host"]["tiers"].is_null());
  trace.info.tiers = {{NodeId(0)}, {NodeId(2), NodeId(3)}};
  EXPECT_NE(SummaryText(*MakeSummary(trace)).find(" 1 is node 0, 2 is nodes 2 3\n"),
            std::string::npos);
  const auto json = nlohmann::json::parse(SummaryJson(*MakeSummary(trace)));
  EXPECT_EQ(json["host"]["tiers"], nlohmann::json::parse("[[0], [2, 3]]"));
}

// A price that was measured is distinguished from one that was assumed, and either from none.
TEST(SummaryTest, TellsWhatAPageClearedByItselfCosts) {
  Trace trace = ThreeEpochs();
  EXPECT_EQ(SummaryText(*MakeSummary(trace)).find("cleared by itself"), std::string::npos);
  trace.info.calibration.assumed_ns_per_point = 12'000;
  EXPECT_NE(SummaryText(*MakeSummary(trace))
                .find("sample, 12us a page of a region that is cleared by itself (assumed)\n"),
            std::string::npos);
  auto json = nlohmann::json::parse(SummaryJson(*MakeSummary(trace)));
  EXPECT_TRUE(json["overhead"]["calibrated_ns_per_point"].is_null());
  EXPECT_EQ(json["overhead"]["assumed_ns_per_point"], 12'000);

  trace.info.calibration.assumed_ns_per_point.reset();
  trace.info.calibration.ns_per_point = 3400;
  EXPECT_NE(SummaryText(*MakeSummary(trace))
                .find("sample, 3.4us a page of a region that is cleared by itself (measured)\n"),
            std::string::npos);
  json = nlohmann::json::parse(SummaryJson(*MakeSummary(trace)));
  EXPECT_EQ(json["overhead"]["calibrated_ns_per_point"], 3400);
  EXPECT_TRUE(json["overhead"]["assumed_ns_per_point"].is_null());
  EXPECT_NE(SummaryCsv(*MakeSummary(trace)).find("overhead.calibrated_ns_per_point,3400\n"),
            std::string::npos);
}

TEST(SummaryTest, ReadsLikeAPage) {
  EXPECT_EQ(
      SummaryText(*MakeSummary(ThreeEpochs())),
      "trace         test.data (complete)\n"
      "recorded      1970-01-01T00:00:00Z by tmprof 0.1.0\n"
      "host          Linux 6.18.0, 2 CPUs, Test CPU\n"
      "epochs        3 in 4.000 s, 1 lost\n"
      "footprint     4 pages (16 KiB)\n"
      "pages seen    by references 1, by samples 3, by both 0\n"
      "looked at     1 page\n"
      "cost          150 accessed bits cleared; own CPU 0.015 s (0.375 % of one CPU)\n"
      "target pays   171ns a bit that is set again, 0ns a 2 MiB block read, unknown a clock "
      "sample\n"
      "warning       another scanner clears bits\n"
      "note          clock: of 34 samples, 11.8 % have no address, 29.4 % fell in the kernel\n"
      "\n"
      "source                     state   active  observations  lost  details\n"
      "accessed bits              active   100 %           300     0  clears 150\n"
      "clock (memory-stall time)  active  66.7 %            20     0  no_address 4, "
      "kernel_mode 10\n"
      "abit-bpf: 2 targets could not be opened: EMFILE (epoch 0)\n"
      "clock: 99 samples per second of CPU time (2 of the epochs 0 to 3)\n"
      "\n"
      " pid  target  pages  CPU s  state  command\n"
      "4711  redis       4   3.00         /usr/bin/redis\n"
      "\n"
      "setting       value\n"
      "max-overhead  1%\n");
}

TEST(SummaryTest, KeepsUnknownApartFromZero) {
  EpochProfile epoch = MakeEpoch(0, {MakeTarget(0, 1, "x")});
  epoch.targets[0].cpu_time = std::nullopt;
  epoch.sources[0].lost = std::nullopt;
  epoch.sources[1].duty_cycle = std::nullopt;
  const Result<Summary> summary = MakeSummary(TraceOf({epoch}));
  ASSERT_TRUE(summary.has_value());
  const auto json = nlohmann::json::parse(SummaryJson(*summary));
  EXPECT_TRUE(json["sources"][0]["lost"].is_null());
  EXPECT_TRUE(json["sources"][1]["active_ratio"].is_null());
  EXPECT_TRUE(json["overhead"]["calibrated_ns_per_bit"].is_null());
  EXPECT_TRUE(json["overhead"]["clears"].is_null());
  EXPECT_TRUE(json["targets"][0]["cpu_s"].is_null());
  EXPECT_TRUE(json["finished"].is_null());
  EXPECT_EQ(json["footprint_pages"], 0);
  EXPECT_NE(SummaryText(*summary).find("unknown accessed bits cleared"), std::string::npos);
  EXPECT_NE(SummaryText(*summary).find("unknown a bit that is set again"), std::string::npos);
  const std::string csv = SummaryCsv(*summary);
  EXPECT_NE(csv.find("overhead.clears,\n"), std::string::npos);
  EXPECT_NE(csv.find("footprint_pages,0\n"), std::string::npos);
}

TEST(SummaryTest, OneUnknownTermMakesASumUnknown) {
  EpochProfile one = MakeEpoch(0, {});
  EpochProfile two = MakeEpoch(1, {});
  two.sources[1].observations = std::nullopt;
  const auto json = nlohmann::json::parse(SummaryJson(*MakeSummary(TraceOf({one, two}))));
  EXPECT_TRUE(json["sources"][1]["observations"].is_null());
}

TEST(SummaryTest, TellsWhatASampleStandsForIfAllEpochsAgree) {
  std::vector<EpochProfile> epochs;
  for (const std::uint64_t index : {0, 1, 2}) {
    EpochProfile& epoch = epochs.emplace_back(MakeEpoch(index, {}));
    epoch.sources[1].samples_of = SampleSubject::kMemory;
    epoch.sources[1].accesses_per_sample = 4096;
  }
  epochs[2].sources[1].state = SourceState::kUnavailable;
  epochs[2].sources[1].accesses_per_sample = std::nullopt;
  const auto json = nlohmann::json::parse(SummaryJson(*MakeSummary(TraceOf(epochs))));
  EXPECT_EQ(json["sources"][1]["samples_of"], "memory");
  EXPECT_EQ(json["sources"][1]["accesses_per_sample"], 4096);
  EXPECT_NE(
      SummaryCsv(*MakeSummary(TraceOf(epochs))).find("sources.clock.accesses_per_sample,4096\n"),
      std::string::npos);
  epochs[1].sources[1].accesses_per_sample = 2048;
  const auto differ = nlohmann::json::parse(SummaryJson(*MakeSummary(TraceOf(epochs))));
  EXPECT_TRUE(differ["sources"][1]["accesses_per_sample"].is_null());
}

TEST(SummaryTest, ASourceThatDiesIsOffFromThenOn) {
  std::vector<EpochProfile> epochs;
  for (const std::uint64_t index : {0, 1, 2, 3}) epochs.push_back(MakeEpoch(index, {}));
  for (const std::size_t dead : {1, 2, 3}) {
    epochs[dead].sources[0].state = SourceState::kUnavailable;
    epochs[dead].sources[0].duty_cycle = std::nullopt;
    epochs[dead].sources[0].observations = std::nullopt;
    epochs[dead].sources[0].note = "cannot read 'x': EIO";
  }
  const auto json = nlohmann::json::parse(SummaryJson(*MakeSummary(TraceOf(epochs))));
  EXPECT_EQ(json["sources"][0]["state"], "active");
  EXPECT_EQ(json["sources"][0]["active_ratio"], 0.25);
  EXPECT_NE(SummaryText(*MakeSummary(TraceOf(epochs))).find("EIO (epochs 1 to 3)\n"),
            std::string::npos);
}

TEST(SummaryTest, ALaterNoteDoesNotHideAnEarlierOne) {
  std::vector<EpochProfile> epochs;
  for (const std::uint64_t index : {0, 1, 2, 3}) epochs.push_back(MakeEpoch(index, {}));
  epochs[0].sources[0].note = "4 threads unfollowed: EMFILE";
  epochs[1].sources[0].note = "12 threads unfollowed: EMFILE";
  epochs[2].sources[0].note = "gate: 3 misses";
  epochs[3].sources[0].note = "gate: 4 hits";
  const auto json = nlohmann::json::parse(SummaryJson(*MakeSummary(TraceOf(epochs))));
  const auto& notes = json["sources"][0]["notes"];
  ASSERT_EQ(notes.size(), 3u);
  EXPECT_EQ(notes[0]["text"], "12 threads unfollowed: EMFILE");
  EXPECT_EQ(notes[0]["first_epoch"], 0);
  EXPECT_EQ(notes[0]["last_epoch"], 1);
  EXPECT_EQ(notes[0]["epochs"], 2);
  EXPECT_EQ(notes[1]["text"], "gate: 3 misses");
  EXPECT_EQ(notes[2]["text"], "gate: 4 hits");
}

TEST(SummaryTest, ANumberOfPagesThatStandsInEveryEpochIsNotAddedUp) {
  std::vector<EpochProfile> epochs;
  for (const std::uint64_t index : {0, 1, 2}) epochs.push_back(MakeEpoch(index, {}));
  const std::uint64_t standing[] = {500, 512, 490};
  for (std::size_t i = 0; i < 3; ++i) {
    epochs[i].sources[0].details = {{"unclearable_pages", standing[i]},
                                    {"shared_pages", 10},
                                    {"regions", 100 + standing[i]},
                                    {"region_bytes", 44 * standing[i]}};
  }
  const auto json = nlohmann::json::parse(SummaryJson(*MakeSummary(TraceOf(epochs))));
  EXPECT_EQ(json["sources"][0]["details"]["unclearable_pages"], 512);
  EXPECT_EQ(json["sources"][0]["details"]["regions"], 612);
  EXPECT_EQ(json["sources"][0]["details"]["region_bytes"], 22'528);
  EXPECT_EQ(json["sources"][0]["details"]["shared_pages"], 30);  // met anew in each epoch
}

TEST(SummaryTest, TellsOfTheEpochsBeforeTheDamageAndOfTheDamage) {
  Trace trace = TraceOf({MakeEpoch(0, {})}, BadInput("read trace", "x.data", "checksum differs"));
  const Result<Summary> summary = MakeSummary(trace);
  ASSERT_TRUE(summary.has_value());
  EXPECT_EQ(summary->coverage.totals.epochs, 1u);
  ASSERT_TRUE(summary->coverage.totals.end.damage.has_value());
  const auto json = nlohmann::json::parse(SummaryJson(*summary));
  EXPECT_NE(json["damage"].get<std::string>().find("checksum differs"), std::string::npos);
}

TEST(SummaryTest, FailsWithTheReasonIfTheTraceCannotBeOpened) {
  Trace trace = TraceOf({});
  trace.open = []() -> Result<std::unique_ptr<EpochStream>> {
    return Fail(Refused("open trace file", "gone.data", 2));
  };
  const Result<Summary> summary = MakeSummary(trace);
  ASSERT_FALSE(summary.has_value());
  EXPECT_EQ(summary.error().object, "gone.data");
}

TEST(SummaryTest, NoNameReachesTheTerminalUnescaped) {
  EpochProfile epoch = MakeEpoch(0, {MakeTarget(0, 1, "\x1b]0;owned\x07")});
  epoch.sources[0].note = "\x1b[2J";
  Trace trace = TraceOf({epoch});
  trace.name = "\x1b[31m";
  trace.info.warnings = {"\x1b[5m"};
  trace.info.settings = {{"\x1b[1m", "\x1b[1m"}};
  EXPECT_EQ(SummaryText(*MakeSummary(trace)).find('\x1b'), std::string::npos);
}

}  // namespace summary_test
}  // namespace tmprof
