// SPDX-License-Identifier: Apache-2.0
// CPU time that memory takes which several processes map, by processes and pages of each: of an
// epoch in tmprofd ("absorb"), and of a report of eight epochs ("estimate"). With `shared` 0 the
// same pages are each process's own.
//
//   build/release/shared_pages

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>
#include <vector>

#include "rank/rank_model.h"
#include "rank/total_ranker.h"

namespace tmprof {
namespace {

constexpr std::uint64_t kEpochs = 8;
constexpr double kSecondsAtRisk = 0.3;

// Each process looks at all of its pages in each epoch. Page n is accessed 10 000 / n times a
// second of the process's CPU time.
std::vector<EpochProfile> MakeEpochs(std::uint32_t processes, std::uint64_t pages, bool shared) {
  std::mt19937_64 random(1);
  std::vector<EpochProfile> epochs(kEpochs);
  for (std::uint64_t e = 0; e < kEpochs; ++e) {
    EpochProfile& epoch = epochs[e];
    epoch.index = e;
    epoch.start = MonotonicTime(std::chrono::seconds(e));
    epoch.end = MonotonicTime(std::chrono::seconds(e + 1));
    epoch.pages.Reserve(processes * pages);
    for (std::uint32_t id = 0; id < processes; ++id) {
      const Vpn start(0x10000);
      Mapping mapping{.range = {start, start + PageCount(pages)}, .path = "/dev/shm/pages"};
      if (shared) {
        mapping.kind = MappingKind::kShared;
        mapping.file = FilePlace{.device = 1, .inode = 2, .offset = PageCount(0)};
      }
      epoch.targets.push_back(
          {.id = TargetId(id), .cpu_time = std::chrono::milliseconds(300), .mappings = {mapping}});
      for (std::uint64_t page = 0; page < pages; ++page) {
        std::exponential_distribution<double> next(1e4 / static_cast<double>(page + 1));
        const double seconds = next(random);
        const bool found = seconds < kSecondsAtRisk;
        const std::chrono::duration<double> at_risk(std::min(seconds, kSecondsAtRisk));
        Append(epoch.pages, {.key = {TargetId(id), start + PageCount(page)},
                             .looks = 5,
                             .references = found,
                             .first_accesses = found,
                             .time_at_risk = LogDuration::FromNanoseconds(std::max(
                                 std::chrono::nanoseconds(1),
                                 std::chrono::duration_cast<std::chrono::nanoseconds>(at_risk)))});
      }
    }
  }
  return epochs;
}

std::vector<EpochProfile> EpochsOf(const benchmark::State& state) {
  return MakeEpochs(static_cast<std::uint32_t>(state.range(0)),
                    static_cast<std::uint64_t>(state.range(1)), state.range(2) != 0);
}

void BM_Absorb(benchmark::State& state) {
  const std::vector<EpochProfile> epochs = EpochsOf(state);
  Ranker ranker(Ranker::DefaultOptions(RankModel::kRate));
  MonotonicTime end;
  const auto absorb = [&](EpochProfile epoch) {
    epoch.start = end;
    epoch.end = end += std::chrono::seconds(1);
    ranker.Absorb(epoch);
  };
  for (const EpochProfile& epoch : epochs) absorb(epoch);
  std::size_t next = 0;
  for (auto _ : state) absorb(epochs[next++ % epochs.size()]);
}

void BM_Estimate(benchmark::State& state) {
  TotalRanker ranker(RankModel::kRate);
  for (const EpochProfile& epoch : EpochsOf(state)) ranker.Absorb(epoch);
  for (auto _ : state) benchmark::DoNotOptimize(ranker.Estimate(RankSource::kCombined));
}

void Sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"processes", "pages", "shared"})->Unit(benchmark::kMillisecond);
  for (const std::int64_t processes : {2, 8, 30}) {
    for (const std::int64_t shared : {0, 1}) benchmark->Args({processes, 50'000, shared});
  }
}

BENCHMARK(BM_Absorb)->Apply(Sizes);
BENCHMARK(BM_Estimate)->Apply(Sizes);

}  // namespace
}  // namespace tmprof
