// SPDX-License-Identifier: Apache-2.0

#include "profiler/recording_outcome.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tmprof {
namespace recording_outcome_test {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// 64 MiB, of which all is looked at 40 times and half is accessed, and 2 000 samples in ten
// seconds.
RecordingFacts Good() {
  RecordingFacts facts;
  facts.trace = "t.data";
  facts.epochs = 10;
  facts.length = 10s;
  facts.targets = {Pid(4711)};
  facts.cpu_time = 9s;
  facts.resident = PageCount(16'384);
  facts.had_references = true;
  facts.had_samples = true;
  facts.looked_at = PageCount(16'384);
  facts.accessed = PageCount(8'192);
  facts.looks = 16'384 * 40;
  facts.samples = 2'000;
  return facts;
}

// The same program, of which nothing was seen.
RecordingFacts Nothing() {
  RecordingFacts facts = Good();
  facts.looked_at = facts.accessed = PageCount(0);
  facts.looks = facts.samples = 0;
  return facts;
}

std::string LastLine(const RecordingFacts& facts) { return LastLineOf(facts, OutcomeOf(facts)); }

TEST(RecordingOutcome, TellsWhatWasSeenInHowMuchMemoryAndWhatToRunNext) {
  const RecordingOutcome outcome = OutcomeOf(Good());
  EXPECT_TRUE(outcome.saw_enough);
  EXPECT_EQ(outcome.text,
            "10 epochs in 10s; saw accesses to 32 MiB, looked at 64 MiB (64 MiB resident); "
            "confidence high: 40.0 looks at each page, 2 000 samples");
  EXPECT_EQ(LastLine(Good()), "t.data: " + outcome.text + "; next: tmprof report t.data");
}

TEST(RecordingOutcome, QuotesTheNameOfTheTraceForAShell) {
  RecordingFacts facts = Good();
  facts.trace = "my trace's.data";
  EXPECT_THAT(LastLine(facts), EndsWith("next: tmprof report 'my trace'\\''s.data'"));
}

TEST(RecordingOutcome, BeginsWithItsTitleAndNamesTheTraceToRead) {
  RecordingFacts facts = Good();
  facts.title = "process 4711";
  EXPECT_THAT(LastLine(facts), AllOf(StartsWith("process 4711: 10 epochs in 10s; saw"),
                                     EndsWith("next: tmprof report t.data")));
}

TEST(RecordingOutcome, EscapesWhatATerminalWouldObey) {
  RecordingFacts facts = Good();
  facts.trace = "a\x1b[2J";
  EXPECT_THAT(LastLine(facts), Not(HasSubstr("\x1b")));
}

TEST(RecordingOutcome, HasMediumConfidenceInTenLooksAtHalfOfTheMemory) {
  RecordingFacts facts = Good();
  facts.samples = 0;
  facts.looked_at = PageCount(8'192);
  facts.looks = 8'192 * 10;
  EXPECT_THAT(OutcomeOf(facts).text, HasSubstr("confidence medium: 10.0 looks"));
  facts.looks -= 1;
  EXPECT_THAT(OutcomeOf(facts).text, HasSubstr("confidence low"));
  facts.looks += 1;
  facts.resident = PageCount(16'385);
  EXPECT_THAT(OutcomeOf(facts).text, HasSubstr("confidence low"));
}

TEST(RecordingOutcome, TakesItsConfidenceFromSamplesWhereTheseAreMany) {
  RecordingFacts facts = Good();
  facts.had_references = false;
  facts.looked_at = PageCount(0);
  facts.looks = 0;
  facts.samples = 10'000;
  EXPECT_THAT(OutcomeOf(facts).text, HasSubstr("confidence high: 10 000 samples"));
  facts.samples = 9'999;
  EXPECT_THAT(OutcomeOf(facts).text, HasSubstr("confidence medium"));
  facts.samples = 999;
  EXPECT_THAT(OutcomeOf(facts).text, HasSubstr("confidence low"));
  EXPECT_TRUE(OutcomeOf(facts).saw_enough);
}

TEST(RecordingOutcome, GivesAnUpperBoundForRegions) {
  RecordingFacts facts = Good();
  facts.by_regions = true;
  EXPECT_THAT(OutcomeOf(facts).text,
              AllOf(HasSubstr("saw accesses to at most 32 MiB, looked at regions of 64 MiB"),
                    HasSubstr("40.0 looks at each region")));
}

TEST(RecordingOutcome, ExactCountsNeedNoConfidence) {
  RecordingFacts facts = Nothing();
  facts.had_references = facts.had_samples = false;
  facts.had_truth = true;
  facts.accessed = PageCount(2);
  facts.resident.reset();
  const RecordingOutcome outcome = OutcomeOf(facts);
  EXPECT_TRUE(outcome.saw_enough);
  EXPECT_THAT(outcome.text,
              AllOf(HasSubstr("counted all accesses, to 8 KiB"), Not(HasSubstr("confidence"))));
}

TEST(RecordingOutcome, OneSampleIsTooLittle) {
  RecordingFacts facts = Nothing();
  facts.had_references = false;
  facts.samples = 1;
  facts.accessed = PageCount(1);
  const RecordingOutcome outcome = OutcomeOf(facts);
  EXPECT_FALSE(outcome.saw_enough);
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("confidence low: 1 sample;"),
                                  HasSubstr("too little to rank pages by"),
                                  HasSubstr("next: record for longer")));
}

TEST(RecordingOutcome, ATenthOfTheMemoryIsEnoughAndLessIsTooLittle) {
  RecordingFacts facts = Good();
  facts.samples = kFewSamples - 1;
  facts.resident = PageCount(20'000);
  facts.looked_at = PageCount(2'000);
  EXPECT_TRUE(OutcomeOf(facts).saw_enough);
  facts.looked_at = PageCount(1'999);
  EXPECT_FALSE(OutcomeOf(facts).saw_enough);
  facts.samples = kFewSamples;
  EXPECT_TRUE(OutcomeOf(facts).saw_enough);
}

TEST(RecordingOutcome, SaysThatTheMemoryLookedAtIsUnknown) {
  RecordingFacts facts = Good();
  facts.samples = 0;
  facts.resident.reset();
  const RecordingOutcome outcome = OutcomeOf(facts);
  EXPECT_TRUE(outcome.saw_enough);
  EXPECT_THAT(outcome.text,
              AllOf(HasSubstr("(resident memory unknown)"), HasSubstr("confidence low")));
}

TEST(RecordingOutcome, SaysHowToContinueAStoppedTarget) {
  RecordingFacts facts = Nothing();
  facts.stopped_throughout = true;
  facts.cpu_time = 0ns;
  const RecordingOutcome one = OutcomeOf(facts);
  EXPECT_FALSE(one.saw_enough);
  EXPECT_THAT(one.text, AllOf(HasSubstr("saw no access"), HasSubstr("PID 4711 was stopped"),
                              HasSubstr("kill -CONT 4711")));
  facts.targets.push_back(Pid(4712));
  EXPECT_THAT(OutcomeOf(facts).text, HasSubstr("all 2 targets were stopped"));
}

TEST(RecordingOutcome, SaysAfterHowLongATargetEnded) {
  RecordingFacts facts = Nothing();
  facts.all_ended = true;
  facts.length = 12ms;
  const RecordingOutcome outcome = OutcomeOf(facts);
  EXPECT_FALSE(outcome.saw_enough);
  EXPECT_THAT(outcome.text, HasSubstr("PID 4711 ended after 12ms"));
  facts.targets.clear();
  EXPECT_THAT(OutcomeOf(facts).text, HasSubstr("the program ended after 12ms")) << "unseen";
  facts.targets = {Pid(4711)};
  facts.length = 1s;
  EXPECT_THAT(OutcomeOf(facts).text, Not(HasSubstr("ended after")));
}

TEST(RecordingOutcome, SaysThatAnIdleTargetDidNotRun) {
  RecordingFacts facts = Nothing();
  facts.looked_at = PageCount(100);
  facts.looks = 1'000;
  facts.cpu_time = 0ns;
  EXPECT_FALSE(OutcomeOf(facts).saw_enough);
  EXPECT_THAT(OutcomeOf(facts).text, HasSubstr("PID 4711 did not run"));
  facts.cpu_time = 9ms;
  EXPECT_THAT(OutcomeOf(facts).text, HasSubstr("hardly ran, 9ms of 10s"));
  facts.length = 1s;
  EXPECT_THAT(OutcomeOf(facts).text, HasSubstr("hardly ran, 9ms of 1s")) << "its start took them";
  facts.cpu_time = 11ms;
  EXPECT_THAT(OutcomeOf(facts).text, Not(HasSubstr("hardly ran")));
  facts.cpu_time.reset();
  EXPECT_THAT(OutcomeOf(facts).text,
              AllOf(HasSubstr("no source saw an access"), Not(HasSubstr("ran"))));
}

TEST(RecordingOutcome, NamesTheGateIfSourcesWereNeverOn) {
  RecordingFacts facts = Nothing();
  facts.gated_throughout = true;
  EXPECT_THAT(OutcomeOf(facts).text, AllOf(HasSubstr("the gate"), HasSubstr("--gate off")));
}

TEST(RecordingOutcome, NamesMemoryThatCannotBeObservedWithItsSize) {
  RecordingFacts facts = Nothing();
  facts.unobservable = {
      .refused = PageCount(16'000), .locked = PageCount(16'128), .hugetlb = PageCount(512)};
  const RecordingOutcome outcome = OutcomeOf(facts);
  EXPECT_FALSE(outcome.saw_enough);
  EXPECT_THAT(outcome.text,
              AllOf(HasSubstr("not observable by accessed bits here: 62.5 MiB, up to "
                              "62.5 MiB of it locked, up to 2 MiB of it in huge pages "
                              "of hugetlbfs;"),
                    HasSubstr("--source clock")));
  facts.unobservable = {.refused = PageCount(16'000)};
  EXPECT_THAT(OutcomeOf(facts).text, HasSubstr("not observable by accessed bits here: 62.5 MiB;"));
  facts.refusal = "cannot clear: run with CAP_DAC_OVERRIDE";
  EXPECT_THAT(OutcomeOf(facts).text,
              HasSubstr("here: 62.5 MiB (cannot clear: run with CAP_DAC_OVERRIDE);"));
}

TEST(RecordingOutcome, DoesNotNameLockedMemoryThatWasObserved) {
  RecordingFacts facts = Good();
  facts.unobservable = {.refused = PageCount(0), .locked = PageCount(16'128)};
  EXPECT_THAT(OutcomeOf(facts).text, Not(HasSubstr("not observable")));
}

TEST(RecordingOutcome, NamesMappingsOfDevicesBesideMemoryThatTheKernelRefusedToClear) {
  RecordingFacts facts = Good();
  facts.unobservable.device = PageCount(256);
  facts.refusal = "cannot clear";
  EXPECT_THAT(LastLine(facts), HasSubstr("not observable by accessed bits here: 1 MiB, 1 MiB "
                                         "of it mapped from devices; next"));
  facts.unobservable.refused = facts.unobservable.locked = PageCount(256);
  EXPECT_THAT(LastLine(facts),
              HasSubstr("not observable by accessed bits here: 2 MiB, 1 MiB of it mapped from "
                        "devices, up to 1 MiB of it locked (cannot clear); next"));
  facts.had_references = false;
  EXPECT_THAT(LastLine(facts), Not(HasSubstr("not observable"))) << "nobody tried";
}

TEST(RecordingOutcome, SaysWhereSharedMemoryMayCountMoreThanOnce) {
  RecordingFacts facts = Good();
  facts.resident_is_at_most = true;
  EXPECT_THAT(LastLine(facts), HasSubstr("(at most 64 MiB resident)"));
}

TEST(RecordingOutcome, SaysThatOthersMapATenthOfTheMemory) {
  RecordingFacts facts = Good();
  facts.mapped_elsewhere = PageCount(1'639);
  EXPECT_THAT(LastLine(facts),
              HasSubstr("; processes that were not recorded map at least 6.402 MiB of this memory, "
                        "too: their accesses are not in the trace;"));
  facts.mapped_elsewhere = PageCount(1'638);
  EXPECT_THAT(OutcomeOf(facts).text, Not(HasSubstr("not recorded")));
}

TEST(RecordingOutcome, TellsItsNumbersAndThoseThatNobodyKnowsAreNone) {
  RecordingFacts facts = Good();
  facts.unobservable = {.device = PageCount(0), .locked = PageCount(3)};
  RecordingOutcome outcome = OutcomeOf(facts);
  EXPECT_EQ(outcome.looked_at, PageCount(16'384));
  EXPECT_EQ(outcome.accessed, PageCount(8'192));
  EXPECT_EQ(outcome.resident, PageCount(16'384));
  EXPECT_EQ(outcome.unobservable, facts.unobservable);
  facts.had_references = false;
  facts.resident.reset();
  outcome = OutcomeOf(facts);
  EXPECT_EQ(outcome.looked_at, std::nullopt);
  EXPECT_EQ(outcome.resident, std::nullopt);
}

TEST(RecordingOutcome, CountsTheProcessesThatTheCapLeftOut) {
  RecordingFacts facts = Good();
  facts.over_max_targets = 1;
  EXPECT_TRUE(OutcomeOf(facts).saw_enough);
  EXPECT_THAT(OutcomeOf(facts).text, HasSubstr("1 process left out by --max-targets"));
}

TEST(RecordingOutcome, TellsOfTheChildrenThatTheProcessFilterLeftOut) {
  RecordingFacts facts = Good();
  facts.filtered = {.processes = 0};
  EXPECT_THAT(LastLine(facts), Not(HasSubstr("process filter")));
  facts.filtered = {.processes = 1, .resident = PageCount(256), .cpu_share = 0.004003};
  EXPECT_THAT(LastLine(facts),
              HasSubstr("; the process filter left out 1 child (1 MiB resident, 0.4 % of a CPU): "
                        "tmprof record --no-process-filter includes it; next: "));
  facts.filtered->processes = 12;
  EXPECT_THAT(LastLine(facts),
              HasSubstr("left out 12 children (together at most 1 MiB resident, 0.4 % of a CPU): "
                        "tmprof record --no-process-filter includes them; "));
  EXPECT_EQ(OutcomeOf(facts).filtered, facts.filtered);
}

TEST(RecordingOutcome, WithoutTheObjectsThatWereAskedForIsNotEnough) {
  RecordingFacts facts = Good();
  facts.objects_missing = "'./st' is statically linked";
  const RecordingOutcome outcome = OutcomeOf(facts);
  EXPECT_FALSE(outcome.saw_enough);
  EXPECT_THAT(outcome.text,
              EndsWith("; --objects tracked no allocation: './st' is statically linked"));
}

// Three quarters of the accessed memory are of a static program.
RecordingFacts Untracked() {
  RecordingFacts facts = Good();
  facts.untracked = {.processes = 1,
                     .of_processes = 2,
                     .accessed = PageCount(6'144),
                     .of_accessed = PageCount(8'192),
                     .why = "'./st' is statically linked"};
  return facts;
}

TEST(RecordingOutcome, MostlyUntrackedProcessesAreNotEnough) {
  RecordingFacts facts = Untracked();
  const RecordingOutcome outcome = OutcomeOf(facts);
  EXPECT_FALSE(outcome.saw_enough);
  EXPECT_THAT(outcome.text,
              EndsWith("; --objects did not track 1 of 2 processes, with 75 % of the memory "
                       "seen accessed: './st' is statically linked"));
  EXPECT_THAT(LastLine(facts), EndsWith("; next: tmprof report t.data"));
  facts.untracked.accessed = PageCount(4'096);
  EXPECT_TRUE(OutcomeOf(facts).saw_enough) << "half of 8 192";
  facts.untracked.accessed = PageCount(4'097);
  EXPECT_FALSE(OutcomeOf(facts).saw_enough);
}

TEST(RecordingOutcome, CountsTheReasonsThatItDoesNotName) {
  RecordingFacts facts = Untracked();
  facts.untracked.other_reasons = 1;
  EXPECT_THAT(LastLine(facts), HasSubstr("statically linked, and 1 other reason;"));
  facts.untracked.other_reasons = 2;
  EXPECT_THAT(LastLine(facts), HasSubstr("statically linked, and 2 other reasons;"));
}

TEST(RecordingOutcome, SaysOnceThatNothingWasTracked) {
  RecordingFacts facts = Untracked();
  facts.objects_missing = facts.untracked.why;
  EXPECT_THAT(OutcomeOf(facts).text, AllOf(HasSubstr("--objects tracked no allocation: './st'"),
                                           Not(HasSubstr("did not track"))));
}

TEST(RecordingOutcome, TellsHowLongStartingTookIfItTookLong) {
  RecordingFacts facts = Good();
  facts.starting = 14'234ms;
  EXPECT_THAT(OutcomeOf(facts).text,
              StartsWith("10 epochs in 10s (starting took 14.2s); saw accesses"));
  facts.starting = 3'001ms;
  EXPECT_THAT(OutcomeOf(facts).text, HasSubstr("(starting took 3s)"));
  facts.starting = 3s;
  EXPECT_THAT(OutcomeOf(facts).text, Not(HasSubstr("starting")));
}

TEST(RecordingOutcome, NoEpochIsTooLittle) {
  RecordingFacts facts;
  facts.trace = "t.data";
  EXPECT_FALSE(OutcomeOf(facts).saw_enough);
  EXPECT_THAT(OutcomeOf(facts).text, StartsWith("0 epochs in 0ns; saw no access"));
}

}  // namespace recording_outcome_test
}  // namespace tmprof
