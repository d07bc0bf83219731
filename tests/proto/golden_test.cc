// SPDX-License-Identifier: Apache-2.0
// The promise of docs/trace-format.md: a trace that any version wrote is read, today and by every
// later version, as exactly this. The files are from make_golden.cc and are not made again.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/trace_file.h"
#include "tests/folders.h"

namespace tmprof {
namespace golden_test {

using std::chrono::nanoseconds;

constexpr const char* kGolden = TMPROF_SOURCE_DIR "/tests/golden/v1.tmprof.data";
constexpr const char* kGolden2 = TMPROF_SOURCE_DIR "/tests/golden/v2.tmprof.data";

TEST(GoldenTrace, HeaderOfVersion1IsReadAsItWas) {
  const Result<TraceReader> reader = TraceReader::Open(kGolden);
  ASSERT_TRUE(reader) << reader.error().Message();
  const TraceInfo& info = reader->info();
  EXPECT_EQ(info.tool_version, "tmprof 0.1.0");
  EXPECT_EQ(info.kernel_release, "6.12.9");
  EXPECT_EQ(info.cpu_model, "Golden CPU @ 2.50GHz");
  EXPECT_EQ(info.cpus, 4u);
  // 2026-01-01 00:00:00 UTC.
  EXPECT_EQ(info.wall_start.time_since_epoch(), nanoseconds(1'767'225'600'000'000'000));
  EXPECT_EQ(info.start.time_since_epoch(), nanoseconds(500'000'000'000));
  EXPECT_EQ(info.epoch_length, nanoseconds(1'000'000'000));
  EXPECT_EQ(info.calibration.ns_per_set, 170.0);
  EXPECT_EQ(info.calibration.ns_per_look, 11000.5);
  EXPECT_EQ(info.calibration.ns_per_sample, std::nullopt);
  EXPECT_THAT(info.settings,
              testing::ElementsAre(Setting{"max-overhead", "1%"}, Setting{"abit", "ladder"}));
  EXPECT_THAT(info.tiers, testing::IsEmpty()) << "unknown";
  EXPECT_THAT(info.warnings, testing::ElementsAre("numa_balancing is on"));
}

TEST(GoldenTrace, FirstEpochOfVersion1IsReadAsItWas) {
  Result<TraceReader> reader = TraceReader::Open(kGolden);
  ASSERT_TRUE(reader) << reader.error().Message();
  EpochProfile epoch;
  ASSERT_TRUE(reader->Next(epoch).value());
  EXPECT_EQ(epoch.index, 0u);
  EXPECT_EQ(epoch.start.time_since_epoch(), nanoseconds(500'000'000'000));
  EXPECT_EQ(epoch.end.time_since_epoch(), nanoseconds(501'001'000'000));
  EXPECT_EQ(epoch.profiler_cpu_time, nanoseconds(2'500'000));
  EXPECT_EQ(epoch.pages.new_visits, std::nullopt) << "unknown";
  EXPECT_THAT(epoch.rungs, testing::IsEmpty());

  ASSERT_EQ(epoch.sources.size(), 3u);
  const SourceStatus& abit = epoch.sources[0];
  EXPECT_EQ(abit.name, "abit-bpf");
  EXPECT_EQ(abit.label, "accessed bits (ladder)");
  EXPECT_EQ(abit.role, SourceRole::kReferences);
  EXPECT_EQ(abit.state, SourceState::kActive);
  EXPECT_EQ(abit.duty_cycle, 1.0);
  EXPECT_EQ(abit.samples_of, std::nullopt);
  EXPECT_EQ(abit.observations, 3591u);
  EXPECT_EQ(abit.lost, 0u);
  EXPECT_THAT(abit.details,
              testing::ElementsAre(NamedCount{"clears", 2}, NamedCount{"tlb_stale", 1}));
  const SourceStatus& clock = epoch.sources[1];
  EXPECT_EQ(clock.role, SourceRole::kSamples);
  EXPECT_EQ(clock.samples_of, SampleSubject::kTime) << "by its name";
  EXPECT_EQ(clock.accesses_per_sample, std::nullopt);
  EXPECT_EQ(clock.state, SourceState::kGated);
  EXPECT_EQ(clock.duty_cycle, 0.0);
  EXPECT_EQ(clock.observations, std::nullopt);
  EXPECT_EQ(clock.lost, std::nullopt);
  const SourceStatus& exact = epoch.sources[2];
  EXPECT_EQ(exact.role, SourceRole::kTruth);
  EXPECT_EQ(exact.state, SourceState::kUnavailable);
  EXPECT_EQ(exact.duty_cycle, std::nullopt);
  EXPECT_EQ(exact.note, "not asked for");

  ASSERT_EQ(epoch.targets.size(), 2u);
  const Target& server = epoch.targets[0];
  EXPECT_EQ(server.id, TargetId(0));
  EXPECT_EQ(server.pid, Pid(1234));
  EXPECT_EQ(server.start_time_ticks, 49'000u);
  EXPECT_EQ(server.name, "server");
  EXPECT_EQ(server.command, "server --port 1");
  EXPECT_FALSE(server.exited);
  EXPECT_EQ(server.cpu_time, nanoseconds(950'000'000));
  EXPECT_THAT(server.mappings,
              testing::ElementsAre(
                  Mapping{{Vpn(0x55555), Vpn(0x55600)}, MappingKind::kFile, "/bin/server"},
                  Mapping{{Vpn(0x55600), Vpn(0x55700)}, MappingKind::kHeap, ""},
                  Mapping{{Vpn(0x7f0000000), Vpn(0x7f0000800)}, MappingKind::kAnonymous, ""},
                  Mapping{{Vpn(0x7f0001000), Vpn(0x7f0001100)}, MappingKind::kShared, "/shm"},
                  Mapping{{Vpn(0x7ffff0000), Vpn(0x7ffff0020)}, MappingKind::kStack, ""},
                  Mapping{{Vpn(0x7ffff0030), Vpn(0x7ffff0032)}, MappingKind::kSpecial, "[vdso]"}));
  const Target& child = epoch.targets[1];
  EXPECT_EQ(child.id, TargetId(1));
  EXPECT_EQ(child.name, "caf\xe9");
  EXPECT_TRUE(child.exited);
  EXPECT_EQ(child.cpu_time, std::nullopt);
  EXPECT_TRUE(child.mappings.empty());
}

TEST(GoldenTrace, PagesOfVersion1AreReadAsTheyWere) {
  Result<TraceReader> reader = TraceReader::Open(kGolden);
  ASSERT_TRUE(reader) << reader.error().Message();
  EpochProfile epoch;
  ASSERT_TRUE(reader->Next(epoch).value());
  const PageColumns& pages = epoch.pages;
  ASSERT_EQ(pages.size(), 515u);

  EXPECT_EQ(pages.key(0), (PageKey{TargetId(0), Vpn(0x55600)}));
  EXPECT_EQ(pages.looks[0], 0u);
  EXPECT_EQ(pages.load_samples[0], 300u);
  EXPECT_EQ(pages.node[0], std::nullopt);

  for (std::uint32_t page = 0; page < 512; ++page) {
    const std::size_t i = 1 + page;
    SCOPED_TRACE(page);
    EXPECT_EQ(pages.key(i), (PageKey{TargetId(0), Vpn(0x7f0000000 + page)}));
    EXPECT_EQ(pages.span_pages[i], 1u);
    EXPECT_EQ(pages.looks[i], 7u);
    EXPECT_EQ(pages.references[i], page % 8);
    EXPECT_EQ(pages.first_accesses[i], page % 8 == 0 ? 0u : 1u);
    // 16 codes per octave, two octaves per reference, downwards from 1.02 s.
    constexpr std::uint16_t kCodes[] = {479, 447, 415, 383, 351, 319, 287, 255};
    EXPECT_EQ(pages.time_at_risk[i].code(), kCodes[page % 8]);
    EXPECT_EQ(pages.load_samples[i], 0u);
    EXPECT_EQ(pages.store_samples[i], page == 100 ? 2u : 0u);
    EXPECT_EQ(pages.node[i], NodeId(0));
  }

  EXPECT_EQ(pages.key(513), (PageKey{TargetId(0), Vpn(0x7f0000200)}));
  EXPECT_EQ(pages.span_pages[513], 512u);
  EXPECT_EQ(pages.looks[513], 7u);
  EXPECT_EQ(pages.references[513], 6u);
  EXPECT_EQ(pages.first_accesses[513], 1u);
  EXPECT_EQ(pages.time_at_risk[513].code(), 320);  // 1 + round(16 log2(10^6)) = 1 + round(318.9)
  EXPECT_EQ(pages.node[513], NodeId(1));

  EXPECT_EQ(pages.key(514), (PageKey{TargetId(1), Vpn(0x55600)}));
  EXPECT_EQ(pages.load_samples[514], 1u);
}

TEST(GoldenTrace, SecondEpochOfVersion1CarriesTheMappings) {
  Result<TraceReader> reader = TraceReader::Open(kGolden);
  ASSERT_TRUE(reader) << reader.error().Message();
  EpochProfile epoch;
  ASSERT_TRUE(reader->Next(epoch).value());
  const std::vector<Mapping> mappings = epoch.targets[0].mappings;
  ASSERT_TRUE(reader->Next(epoch).value());
  EXPECT_EQ(epoch.index, 2u);
  ASSERT_EQ(epoch.targets.size(), 1u);
  EXPECT_EQ(epoch.targets[0].cpu_time, std::nullopt);
  EXPECT_EQ(epoch.targets[0].mappings, mappings);
  ASSERT_EQ(epoch.pages.size(), 1u);
  EXPECT_EQ(epoch.pages.key(0), (PageKey{TargetId(0), Vpn(0x7f0001000)}));
  EXPECT_EQ(epoch.pages.references[0], 1u);
  EXPECT_FALSE(reader->Next(epoch).value());
  EXPECT_TRUE(reader->finished());
}

std::vector<EpochProfile> EpochsOf(const char* path) {
  Result<TraceReader> reader = TraceReader::Open(path);
  std::vector<EpochProfile> epochs;
  EpochProfile epoch;
  while (reader && reader->Next(epoch).value_or(false)) epochs.push_back(epoch);
  EXPECT_TRUE(reader && reader->finished());
  return epochs;
}

TEST(GoldenTrace, FieldsThatVersion2AddedAreReadAsTheyWere) {
  const std::vector<EpochProfile> epochs = EpochsOf(kGolden2);
  ASSERT_EQ(epochs.size(), 2u);
  const Target& server = epochs[0].targets[0];
  EXPECT_EQ(server.resident_pages, PageCount(4321));
  EXPECT_EQ(epochs[0].targets[1].resident_pages, std::nullopt);
  EXPECT_EQ(epochs[1].targets[0].resident_pages, std::nullopt);
  for (const EpochProfile& epoch : epochs) {
    const std::vector<Mapping>& mappings = epoch.targets[0].mappings;
    ASSERT_EQ(mappings.size(), 6u);
    EXPECT_EQ(mappings[0].file,
              (FilePlace{.device = 0x800001, .inode = 131, .offset = PageCount(0)}));
    EXPECT_EQ(mappings[1].file, std::nullopt);
    EXPECT_EQ(mappings[3].file, (FilePlace{.device = 1, .inode = 7, .offset = PageCount(0x80)}));
  }

  const PageColumns& pages = epochs[0].pages;
  ASSERT_TRUE(pages.fast_tries);
  ASSERT_EQ(pages.size(), 515u);
  for (std::uint32_t i = 0; i < 515; ++i) {
    SCOPED_TRACE(i);
    const std::uint32_t page = i - 1;
    const bool tried = 1 <= i && i <= 512 && page % 8 == 7;
    EXPECT_EQ(pages.fast_tries->looks[i], tried ? 3u : 0u);
    EXPECT_EQ(pages.fast_tries->found[i], tried ? page % 3 : 0u);
    // 1 + round(16 log2(12 000)) = 1 + round(216.8)
    EXPECT_EQ(pages.fast_tries->time[i].code(), tried ? 218 : 0);
  }
  EXPECT_EQ(epochs[1].pages.fast_tries, std::nullopt);
}

TEST(GoldenTrace, Version2IsReadAsVersion1ButForWhatItAdded) {
  std::vector<EpochProfile> epochs = EpochsOf(kGolden2);
  for (EpochProfile& epoch : epochs) {
    epoch.pages.fast_tries.reset();
    for (Target& target : epoch.targets) {
      target.resident_pages.reset();
      for (Mapping& mapping : target.mappings) mapping.file.reset();
    }
  }
  EXPECT_EQ(epochs, EpochsOf(kGolden));
  EXPECT_EQ(TraceReader::Open(kGolden2)->info(), TraceReader::Open(kGolden)->info());
}

}  // namespace golden_test
}  // namespace tmprof
