// SPDX-License-Identifier: Apache-2.0
// Page records per second through a replay of all three policies at the paper's five ratios, by
// pages per epoch, under the `sum` and the `rate` model; `sum` by ordered maps, too. Traces are in
// memory, so that neither disk nor decoder enters; both of the replay's passes do.
//
//   build/release/bench_replay

#include "policy/replay/replay.h"

#include <benchmark/benchmark.h>

#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "base/check.h"
#include "naive_replay.h"

namespace tmprof {
namespace {

constexpr std::size_t kEpochs = 16;
constexpr Ratio kRatios[] = {{1, 8}, {1, 16}, {1, 32}, {1, 64}, {1, 128}};

// Counts as A-bits and samples give them: a skew of about 1 over pages, most counts 0 to 3. The
// heat drifts by 1/32 of the pages each epoch.
std::vector<EpochProfile> MakeTrace(std::size_t pages) {
  std::mt19937_64 random(1);
  std::vector<std::size_t> heat_place(pages);
  for (std::size_t i = 0; i < pages; ++i) heat_place[i] = i;
  for (std::size_t i = pages; i > 1; --i) std::swap(heat_place[i - 1], heat_place[random() % i]);
  std::vector<EpochProfile> epochs(kEpochs);
  for (std::size_t e = 0; e < kEpochs; ++e) {
    EpochProfile& epoch = epochs[e];
    epoch.index = e;
    epoch.start = MonotonicTime(std::chrono::seconds(e));
    epoch.end = MonotonicTime(std::chrono::seconds(e + 1));
    epoch.pages.Reserve(pages);
    for (std::size_t i = 0; i < pages; ++i) {
      const std::size_t place = (heat_place[i] + e * pages / 32) % pages;
      const double heat = static_cast<double>(pages) / 8 / static_cast<double>(place + 1);
      const double noise = static_cast<double>(random() >> 11) * 0x1p-53;
      const auto samples = static_cast<std::uint32_t>(std::floor(heat + noise));
      const auto references = static_cast<std::uint32_t>(std::min(7.0, 4 * heat + 2 * noise));
      Append(epoch.pages, {.key = {TargetId(0), Vpn(0x10000 + i)},
                           .looks = 7,
                           .references = references,
                           .load_samples = samples});
    }
  }
  return epochs;
}

// Lends its epochs instead of copying them for each replay.
class LentStream final : public EpochStream {
 public:
  explicit LentStream(std::vector<EpochProfile>& epochs) : epochs_(epochs) {}
  Result<bool> Next(EpochProfile& epoch) override {
    if (next_ > 0) std::swap(epoch, epochs_[next_ - 1]);  // back again
    if (next_ == epochs_.size()) return false;
    std::swap(epoch, epochs_[next_++]);
    return true;
  }

 private:
  std::vector<EpochProfile>& epochs_;
  std::size_t next_ = 0;
};

ReplayOptions Options(RankModel model) {
  return {.policies = {*FindPolicy("first_touch"), *FindPolicy("history"), *FindPolicy("oracle")},
          .ranks = {RankSource::kCombined},
          .ratios = {std::begin(kRatios), std::end(kRatios)},
          .ranker = Ranker::DefaultOptions(model)};
}

void SetRate(benchmark::State& state) {
  state.SetItemsProcessed(state.iterations() * state.range(0) * static_cast<std::int64_t>(kEpochs));
}

void BM_Replay(benchmark::State& state, RankModel model) {
  std::vector<EpochProfile> epochs = MakeTrace(static_cast<std::size_t>(state.range(0)));
  const OpenTrace open = [&epochs]() -> Result<std::unique_ptr<EpochStream>> {
    return std::make_unique<LentStream>(epochs);
  };
  const ReplayOptions options = Options(model);
  for (auto _ : state) {
    auto outcome = Replay(open, options);
    TMPROF_CHECK(outcome.has_value());
    benchmark::DoNotOptimize(outcome);
  }
  SetRate(state);
}
BENCHMARK_CAPTURE(BM_Replay, sum, RankModel::kSum)
    ->RangeMultiplier(8)
    ->Range(1 << 14, 1 << 20)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_Replay, rate, RankModel::kRate)
    ->RangeMultiplier(8)
    ->Range(1 << 14, 1 << 17)
    ->Unit(benchmark::kMillisecond);

void BM_NaiveReplay(benchmark::State& state) {
  const std::vector<EpochProfile> epochs = MakeTrace(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    for (const char* policy : {"first_touch", "history", "oracle"}) {
      for (const Ratio ratio : kRatios) {
        benchmark::DoNotOptimize(
            NaiveReplay(epochs, policy, NaiveCount::kCombined, NaiveCount::kCombined, ratio));
      }
    }
  }
  SetRate(state);
}
BENCHMARK(BM_NaiveReplay)->Arg(1 << 14)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tmprof
