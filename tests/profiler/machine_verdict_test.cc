// SPDX-License-Identifier: Apache-2.0

#include "profiler/machine_verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <vector>

#include "profiler/source_kind.h"

namespace tmprof {
namespace machine_verdict_test {

using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const CpuIdentity kIntel{.vendor = "GenuineIntel", .model = "Xeon", .is_virtual = false};
const CpuIdentity kIntelGuest{.vendor = "GenuineIntel", .model = "Xeon", .is_virtual = true};

Probe Refused(const SourceKind& kind, int error, const std::string& fix) {
  return Unusable(kind, tmprof::Refused("open", std::string(kind.name), error, fix));
}

std::vector<Probe> ProbesOfGuest() {
  Probe driver = Refused(kDriverSource, ENOENT, "");
  driver.impossible = "a kernel without loadable modules";
  return {driver, Usable(kAbitBpfSource, ""), Refused(kIbsSource, ENOENT, "buy AMD"),
          Refused(kPebsSource, ENOENT, "buy Intel"), Usable(kClockSource, "")};
}

TEST(MachineVerdict, IsFineWithAccessedBitsAndSamples) {
  const MachineVerdict verdict =
      VerdictOf(ProbesOfGuest(), {.names = {"abit-bpf", "clock"}, .ns_per_set = 1000}, kIntelGuest);
  EXPECT_TRUE(verdict.is_fine);
  EXPECT_EQ(
      verdict.text,
      "You are fine: 'tmprof record' uses accessed bits by BPF and clock (memory-stall time)");
  // 1 % of 30 s pays for 300 000 bits of 1 us.
  EXPECT_EQ(verdict.reach, PageCount(300'000));
}

TEST(MachineVerdict, SaysWhatIsNotPossibleHere) {
  const MachineVerdict verdict =
      VerdictOf(ProbesOfGuest(), {.names = {"abit-bpf", "clock"}}, kIntelGuest);
  EXPECT_EQ(verdict.reach, std::nullopt) << "the price is unknown";
  EXPECT_THAT(
      verdict.gains,
      ElementsAre(Field(&MachineVerdict::Gain::how,
                        "not possible here: no AMD CPU, a virtual machine without performance "
                        "counters"),
                  Field(&MachineVerdict::Gain::how,
                        "not possible here: a kernel without loadable modules")));
}

TEST(MachineVerdict, NamesTheStepThatHelpsWhereOneDoes) {
  std::vector<Probe> probes = ProbesOfGuest();
  probes[1] = Refused(kAbitBpfSource, EPERM, "run as root");
  const MachineVerdict verdict = VerdictOf(probes, {.names = {"clock"}}, kIntel);
  EXPECT_FALSE(verdict.is_fine);
  EXPECT_THAT(verdict.text, HasSubstr("clock (memory-stall time) alone"));
  ASSERT_THAT(verdict.gains, SizeIs(2));
  EXPECT_EQ(verdict.gains[0].how, "run as root");
  // This is no guest, so PEBS may be had.
  EXPECT_EQ(verdict.gains[1].how, "buy Intel");
}

TEST(MachineVerdict, SaysWhyNothingCanBeRecorded) {
  const MachineVerdict verdict = VerdictOf({}, {.refusal = "run as root"}, kIntel);
  EXPECT_FALSE(verdict.is_fine);
  EXPECT_EQ(verdict.text, "Nothing can be recorded here: run as root");
  EXPECT_THAT(verdict.gains, IsEmpty());
}

TEST(MachineVerdict, AsksForNothingMoreWhereTheBestSourcesAre) {
  const MachineVerdict verdict =
      VerdictOf(ProbesOfGuest(), {.names = {"driver", "pebs"}, .ns_per_set = 500}, kIntel);
  EXPECT_TRUE(verdict.is_fine);
  EXPECT_THAT(verdict.gains, IsEmpty());
}

TEST(MachineVerdict, CallsACounterImpossibleOnlyWhereItsAbsenceIsOfTheMachine) {
  Probe llc{.name = "llc", .job = ProbeJob::kGate, .system_error = ENOENT};
  EXPECT_EQ(WhyImpossible(llc, kIntelGuest), "a virtual machine without performance counters");
  EXPECT_EQ(WhyImpossible(llc, kIntel), "");
  llc.system_error = EACCES;
  EXPECT_EQ(WhyImpossible(llc, kIntelGuest), "") << "a permission may be given";
  EXPECT_EQ(WhyImpossible(Usable(kIbsSource, ""), kIntel), "");
  EXPECT_EQ(WhyImpossible(Refused(kIbsSource, ENOENT, ""), CpuIdentity{}), "")
      << "the vendor is unknown";
}

}  // namespace machine_verdict_test
}  // namespace tmprof
