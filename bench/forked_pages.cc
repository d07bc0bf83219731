// SPDX-License-Identifier: Apache-2.0
// Cost of finding the pages that processes share after fork(2), for each record of a page: of the
// comparison of frames in a recorder ("compare"), of following the joined pages in a reader
// ("follow"), and of a read of a frame from /proc/PID/pagemap ("pagemap"), by which the comparison
// asks for pages that no look read.
//
//   build/release/forked_pages

#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "base/forked_pages.h"
#include "base/unique_fd.h"
#include "profiler/frame_comparison.h"

namespace tmprof {
namespace {

constexpr std::uint64_t kStart = 0x10000;

// A process and its children, which have written to every 16th page.
struct Family {
  EpochProfile epoch;
  std::vector<std::optional<SeenFrame>> frames;
};

Family FamilyOf(const benchmark::State& state) {
  const auto processes = static_cast<std::uint32_t>(state.range(0));
  const auto pages = static_cast<std::uint64_t>(state.range(1));
  Family family;
  family.epoch.pages.Reserve(processes * pages);
  for (std::uint32_t id = 0; id < processes; ++id) {
    family.epoch.targets.push_back({.id = TargetId(id),
                                    .pid = Pid(static_cast<std::int32_t>(100 + id)),
                                    .mappings = {{.range = {Vpn(kStart), Vpn(kStart + pages)},
                                                  .kind = MappingKind::kAnonymous}}});
    for (std::uint64_t page = 0; page < pages; ++page) {
      Append(family.epoch.pages, {.key = {TargetId(id), Vpn(kStart + page)}, .looks = 1});
      const bool is_copy = id > 0 && page % 16 == 0;
      family.frames.push_back(
          SeenFrame{.number = 1 + page + (is_copy ? id * pages : 0), .is_shareable = !is_copy});
    }
  }
  return family;
}

void Compare(Family& family) {
  FrameComparison().Compare(family.epoch, family.frames, [](TargetId) { return Pid(50); }, {});
}

void CountRecords(benchmark::State& state) {
  const std::int64_t records = state.range(0) * state.range(1);
  state.counters["ns_per_record"] = benchmark::Counter(
      static_cast<double>(records) * 1e-9,
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void BM_Compare(benchmark::State& state) {
  Family family = FamilyOf(state);
  for (auto _ : state) Compare(family);
  CountRecords(state);
}

void BM_Follow(benchmark::State& state) {
  Family family = FamilyOf(state);
  Compare(family);
  ForkedPages forked;
  for (auto _ : state) forked.Add(family.epoch.pages);
  CountRecords(state);
}

void BM_Pagemap(benchmark::State& state) {
  const auto pages = static_cast<std::size_t>(state.range(1));
  const std::size_t bytes = pages * kBasePageBytes;
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  const UniqueFd pagemap(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  if (memory == MAP_FAILED || !pagemap) {
    state.SkipWithError("no memory, or /proc/self/pagemap cannot be opened");
    return;
  }
  constexpr std::size_t kAtOnce = 512;
  std::vector<std::uint64_t> entries(kAtOnce);
  const auto first = reinterpret_cast<std::uint64_t>(memory) / kBasePageBytes;
  for (auto _ : state) {
    for (std::size_t page = 0; page < pages; page += kAtOnce) {
      const auto at = static_cast<off_t>((first + page) * sizeof entries[0]);
      benchmark::DoNotOptimize(
          ::pread(pagemap.get(), entries.data(), kAtOnce * sizeof entries[0], at));
    }
  }
  CountRecords(state);
  ::munmap(memory, bytes);
}

BENCHMARK(BM_Compare)->Args({2, 16'384})->Args({11, 16'384})->Args({2, 262'144});
BENCHMARK(BM_Follow)->Args({2, 16'384})->Args({11, 16'384})->Args({2, 262'144});
BENCHMARK(BM_Pagemap)->Args({1, 16'384});

}  // namespace
}  // namespace tmprof
