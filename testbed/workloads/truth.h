// SPDX-License-Identifier: Apache-2.0
// The true accesses of a workload, for `tmprof score --truth`.

#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <expected>
#include <span>
#include <string>
#include <vector>

#include "testbed/workloads/memory.h"
#include "testbed/workloads/pattern.h"
#include "testbed/workloads/timing.h"

namespace tmprof::workload {

// A stretch of work within one phase, as it was run: every access between start and end followed
// the pattern's phase `index`.
struct PhaseRun {
  std::uint64_t index = 0;
  Instant start{0};
  Instant end{0};
  std::uint64_t accesses = 0;
  std::vector<std::uint64_t> span_accesses;  // counted per span; empty where they were not counted
};

// How often each page of a memory is accessed, as counted by what accesses it.
class PageCounts {
 public:
  // Precondition: whole pages.
  PageCounts(std::uint64_t start_address, std::uint64_t bytes);

  // Precondition: elements lie in the memory, each within one page.
  template <typename T>
  void Add(const T& element, std::uint64_t accesses) {
    counts_[(reinterpret_cast<std::uintptr_t>(&element) - start_address_) / kBasePageBytes] +=
        accesses;
  }
  template <typename T>
  void AddEach(std::span<T> elements, std::uint64_t accesses) {
    for (const T& element : elements) Add(element, accesses);
  }

  std::uint64_t total() const;
  // Ascending, covering the memory, neighbours of equal counts joined; the weights sum to 1.
  // Precondition: something was added.
  std::vector<SpanRange> Ranges() const;

 private:
  std::uint64_t start_address_;
  std::vector<std::uint64_t> counts_;
};

// The phases that every thread ran: each from the last thread's start to the first one's end, the
// accesses summed. `threads` is not empty; a phase that nobody was in alone is left out.
std::vector<PhaseRun> MergePhases(const std::vector<std::vector<PhaseRun>>& threads);

// A file that appears under its name whole or not at all. What Open made is removed unless Commit
// succeeded.
class AtomicFile {
 public:
  static std::expected<AtomicFile, std::string> Open(std::string path);

  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  std::FILE* stream() const { return stream_; }
  std::expected<void, std::string> Commit();

 private:
  AtomicFile(std::string path, std::string temporary, std::FILE* stream);

  std::string path_;
  std::string temporary_;
  std::FILE* stream_;
};

// {"pid", "phases": [{"t_start_ns", "t_end_ns", "accesses", "ranges": [{"start", "end",
// "weight"}]}]}: byte addresses, half-open, covering the footprint; weights of a phase sum to 1.
// Where spans were counted each range has its "accesses" as well.
void WriteTruth(std::FILE* out, std::int64_t pid, std::uint64_t start_address,
                std::uint64_t span_bytes, const Heat& heat, const std::vector<PhaseRun>& phases);
// The misses of a cache in the pattern's first phase, which lasts from `start` to `end`. Weights of
// ranges are parts of all misses, which "of": "misses" says. `of_span`: see SimulatedMisses.
void WriteMissTruth(std::FILE* out, std::int64_t pid, std::uint64_t start_address,
                    std::uint64_t span_bytes, const Heat& heat, const std::vector<double>& of_span,
                    Instant start, Instant end);
// The accesses where all phases are alike.
void WriteTruth(std::FILE* out, std::int64_t pid, std::uint64_t start_address,
                const PageCounts& counts, const std::vector<PhaseRun>& phases);

}  // namespace tmprof::workload
