// SPDX-License-Identifier: Apache-2.0
// Encode and decode rate of the trace file, and its size per page record:
//   build/release/trace_codec
// `items_per_second` are page records per CPU second of one thread; `bytes_per_record` is the
// whole epoch frame divided by its records.

#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/epoch_profile.h"
#include "base/trace_info.h"
#include "base/unique_fd.h"
#include "proto/trace_file.h"

namespace tmprof {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

constexpr std::uint64_t kHeapStart = 0x7f3a4c000;  // a page number that mmap would give
constexpr std::uint32_t kFootprintPages = 131072;  // 512 MiB
constexpr std::uint32_t kBlockPages = 512;         // 2 MiB

EpochProfile OneTarget() {
  EpochProfile epoch;
  epoch.end = MonotonicTime(std::chrono::seconds(1));
  Target target;
  target.name = "redis-server";
  target.mappings.push_back({.range = {Vpn(kHeapStart), Vpn(kHeapStart + 2 * kFootprintPages)}});
  epoch.targets.push_back(target);
  return epoch;
}

// The exposure ladder's record of one page. The page is read at these delays after the clear, until
// the first read that finds the bit set and at every delay after that.
PageRecord Exposed(PageKey key, double accesses_per_second, std::mt19937_64& random) {
  constexpr std::array kDelays = {microseconds(250),    microseconds(1000),  microseconds(4000),
                                  microseconds(16000),  microseconds(64000), microseconds(256000),
                                  microseconds(1024000)};
  const double first_access_s = std::exponential_distribution<>(accesses_per_second)(random);
  const auto found = std::ranges::find_if(kDelays, [&](microseconds delay) {
    return std::chrono::duration<double>(delay).count() >= first_access_s;
  });
  const bool seen = found != kDelays.end();
  return {.key = key,
          .looks = kDelays.size(),
          .references = static_cast<std::uint32_t>(kDelays.end() - found),
          .first_accesses = seen,
          .time_at_risk = LogDuration::FromNanoseconds(seen ? *found : kDelays.back()),
          .node = NodeId(0)};
}

// The default recorder: about 50 blocks of 2 MiB visited in the epoch, an eighth of their pages
// hot, and 1000 samples from anywhere in the footprint.
EpochProfile LadderEpoch(std::mt19937_64& random) {
  std::bitset<kFootprintPages / kBlockPages> visited;
  std::uniform_int_distribution<std::uint32_t> any_page(0, kFootprintPages - 1);
  while (visited.count() < 50) visited.set(any_page(random) / kBlockPages);
  std::map<std::uint32_t, std::uint32_t> samples;
  for (int i = 0; i < 1000; ++i) ++samples[any_page(random)];

  EpochProfile epoch = OneTarget();
  std::bernoulli_distribution hot(1.0 / 8);
  std::uniform_real_distribution<> log_rate(-3, 3);
  for (std::uint32_t page = 0; page < kFootprintPages; ++page) {
    const PageKey key{TargetId(0), Vpn(kHeapStart + page)};
    const auto sampled = samples.find(page);
    const bool looked = visited[page / kBlockPages];
    if (!looked && sampled == samples.end()) continue;
    PageRecord record{.key = key};
    if (looked) {
      record = Exposed(key, std::pow(10, log_rate(random)) * (hot(random) ? 100 : 0.1), random);
    }
    if (sampled != samples.end()) record.load_samples = sampled->second;
    Append(epoch.pages, record);
  }
  return epoch;
}

// A plain scan that looks once at every page of 1 GiB, a quarter of them referenced.
EpochProfile AllPagesEpoch(std::mt19937_64& random) {
  EpochProfile epoch = OneTarget();
  std::bernoulli_distribution referenced(0.25);
  for (std::uint32_t page = 0; page < 262144; ++page) {
    const bool seen = referenced(random);
    Append(epoch.pages, {.key = {TargetId(0), Vpn(kHeapStart + page)},
                         .looks = 1,
                         .references = seen,
                         .first_accesses = seen,
                         .time_at_risk = LogDuration::FromNanoseconds(std::chrono::seconds(1)),
                         .node = NodeId(0)});
  }
  return epoch;
}

// Two million samples by rank r with weight r^-0.99, shuffled over the pages; a third are stores.
EpochProfile ZipfSamplesEpoch(std::mt19937_64& random) {
  std::vector<double> weight(kFootprintPages);
  for (std::size_t rank = 0; rank < weight.size(); ++rank) {
    weight[rank] = std::pow(static_cast<double>(rank + 1), -0.99);
  }
  std::ranges::shuffle(weight, random);
  std::discrete_distribution<std::uint32_t> page_of(weight.begin(), weight.end());
  std::bernoulli_distribution store(1.0 / 3);
  std::vector<PageRecord> records(kFootprintPages);
  for (int i = 0; i < 2'000'000; ++i) {
    PageRecord& record = records[page_of(random)];
    ++(store(random) ? record.store_samples : record.load_samples);
  }
  EpochProfile epoch = OneTarget();
  for (std::uint32_t page = 0; page < kFootprintPages; ++page) {
    PageRecord& record = records[page];
    if (record.load_samples + record.store_samples == 0) continue;
    record.key = {TargetId(0), Vpn(kHeapStart + page)};
    Append(epoch.pages, record);
  }
  return epoch;
}

// Several different epochs of one shape, so that no branch predictor learns the data.
std::vector<EpochProfile> Epochs(EpochProfile (*make)(std::mt19937_64&)) {
  constexpr int kEpochs = 8;
  std::mt19937_64 random(1);
  std::vector<EpochProfile> epochs;
  for (int i = 0; i < kEpochs; ++i) {
    epochs.push_back(make(random));
    epochs.back().index = static_cast<std::uint64_t>(i);
  }
  return epochs;
}

std::size_t Records(const std::vector<EpochProfile>& epochs) {
  std::size_t records = 0;
  for (const EpochProfile& epoch : epochs) records += epoch.pages.size();
  return records;
}

// A file in memory: the codec is measured, not a disk.
class MemoryFile {
 public:
  MemoryFile() : fd_(::memfd_create("trace", MFD_CLOEXEC)) { TMPROF_CHECK(fd_.valid()); }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_.get()); }

 private:
  UniqueFd fd_;
};

std::uint64_t WriteTrace(const std::string& path, const std::vector<EpochProfile>& epochs) {
  Result<TraceWriter> writer = TraceWriter::Create(path, TraceInfo{});
  TMPROF_CHECK(writer.has_value());
  const std::uint64_t header_bytes = writer->bytes_written();
  for (const EpochProfile& epoch : epochs) TMPROF_CHECK(writer->Write(epoch).has_value());
  const std::uint64_t epoch_bytes = writer->bytes_written() - header_bytes;
  TMPROF_CHECK(writer->Finish().has_value());
  return epoch_bytes;
}

void BM_Encode(benchmark::State& state, EpochProfile (*make)(std::mt19937_64&)) {
  const std::vector<EpochProfile> epochs = Epochs(make);
  const std::size_t records = Records(epochs);
  const MemoryFile file;
  std::uint64_t bytes = 0;
  for (auto _ : state) bytes = WriteTrace(file.path(), epochs);
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(records));
  state.counters["bytes_per_record"] = static_cast<double>(bytes) / static_cast<double>(records);
}

void BM_Decode(benchmark::State& state, EpochProfile (*make)(std::mt19937_64&)) {
  const std::vector<EpochProfile> epochs = Epochs(make);
  const std::size_t records = Records(epochs);
  const MemoryFile file;
  const std::uint64_t bytes = WriteTrace(file.path(), epochs);
  EpochProfile epoch;
  for (auto _ : state) {
    Result<TraceReader> reader = TraceReader::Open(file.path());
    TMPROF_CHECK(reader.has_value());
    while (true) {
      const Result<bool> more = reader->Next(epoch);
      TMPROF_CHECK(more.has_value());
      if (!*more) break;
      benchmark::DoNotOptimize(epoch.pages.vpn.data());
      benchmark::ClobberMemory();
    }
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(records));
  state.counters["bytes_per_record"] = static_cast<double>(bytes) / static_cast<double>(records);
}

BENCHMARK_CAPTURE(BM_Encode, ladder, LadderEpoch);
BENCHMARK_CAPTURE(BM_Encode, all_pages, AllPagesEpoch);
BENCHMARK_CAPTURE(BM_Encode, zipf_samples, ZipfSamplesEpoch);
BENCHMARK_CAPTURE(BM_Decode, ladder, LadderEpoch);
BENCHMARK_CAPTURE(BM_Decode, all_pages, AllPagesEpoch);
BENCHMARK_CAPTURE(BM_Decode, zipf_samples, ZipfSamplesEpoch);

}  // namespace
}  // namespace tmprof
