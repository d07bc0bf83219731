// SPDX-License-Identifier: Apache-2.0

#include "testbed/workloads/truth.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <span>
#include <utility>

#include "testbed/workloads/print.h"

namespace tmprof::workload {
namespace {

std::unexpected<std::string> FileRefused(std::string_view attempt, std::string_view path) {
  return std::unexpected(fmt::format("cannot {} '{}': {} ({})", attempt, path,
                                     strerrorname_np(errno), std::strerror(errno)));
}

template <typename RangesOf>
void WritePhases(std::FILE* out, std::int64_t pid, std::uint64_t start_address,
                 std::uint64_t span_bytes, const std::vector<PhaseRun>& phases, RangesOf ranges_of,
                 std::string_view of = {}) {
  Print(out, R"({{"pid":{},)", pid);
  if (!of.empty()) Print(out, R"("of":"{}",)", of);
  Print(out, R"("phases":[)");
  const char* before_phase = "";
  for (const PhaseRun& phase : phases) {
    Print(out, R"({}
{{"t_start_ns":{},"t_end_ns":{},"accesses":{},"ranges":[)",
          std::exchange(before_phase, ","), phase.start.count(), phase.end.count(), phase.accesses);
    const char* before_range = "";
    for (const SpanRange& range : ranges_of(phase)) {
      // Nine digits: a million ranges still sum to 1 within 1e-9.
      Print(out, R"({}{{"start":{},"end":{},"weight":{:.9g})", std::exchange(before_range, ",\n"),
            start_address + range.start * span_bytes, start_address + range.end * span_bytes,
            range.weight);
      if (!phase.span_accesses.empty()) {
        const auto counts = phase.span_accesses.begin();
        Print(out, R"(,"accesses":{})",
              std::accumulate(counts + static_cast<std::ptrdiff_t>(range.start),
                              counts + static_cast<std::ptrdiff_t>(range.end), std::uint64_t{0}));
      }
      Print(out, "}}");
    }
    Print(out, "]}}");
  }
  Print(out, "\n]}}\n");
}

}  // namespace

PageCounts::PageCounts(std::uint64_t start_address, std::uint64_t bytes)
    : start_address_(start_address), counts_(bytes / kBasePageBytes) {}

std::uint64_t PageCounts::total() const {
  return std::accumulate(counts_.begin(), counts_.end(), std::uint64_t{0});
}

std::vector<SpanRange> PageCounts::Ranges() const {
  const auto all = static_cast<double>(total());
  std::vector<SpanRange> ranges;
  for (std::uint64_t start = 0; start < counts_.size();) {
    std::uint64_t end = start;
    while (end < counts_.size() && counts_[end] == counts_[start]) ++end;
    const auto accesses = static_cast<double>(counts_[start] * (end - start));
    ranges.push_back({.start = start, .end = end, .weight = accesses / all});
    start = end;
  }
  return ranges;
}

std::vector<PhaseRun> MergePhases(const std::vector<std::vector<PhaseRun>>& threads) {
  std::size_t common = threads.front().size();
  for (const auto& phases : threads) common = std::min(common, phases.size());
  std::vector<PhaseRun> merged;
  for (std::size_t i = 0; i < common; ++i) {
    PhaseRun all = threads.front()[i];
    for (const auto& phases : std::span(threads).subspan(1)) {
      all.start = std::max(all.start, phases[i].start);
      all.end = std::min(all.end, phases[i].end);
      all.accesses += phases[i].accesses;
    }
    if (all.start < all.end) merged.push_back(std::move(all));
  }
  return merged;
}

AtomicFile::AtomicFile(std::string path, std::string temporary, std::FILE* stream)
    : path_(std::move(path)), temporary_(std::move(temporary)), stream_(stream) {}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      stream_(std::exchange(other.stream_, nullptr)) {}

AtomicFile::~AtomicFile() {
  if (stream_ == nullptr) return;
  std::fclose(stream_);
  ::unlink(temporary_.c_str());
}

std::expected<AtomicFile, std::string> AtomicFile::Open(std::string path) {
  std::string temporary = fmt::format("{}.{}.tmp", path, ::getpid());
  std::FILE* stream = std::fopen(temporary.c_str(), "wxe");
  if (stream == nullptr) return FileRefused("create", temporary);
  return AtomicFile(std::move(path), std::move(temporary), stream);
}

std::expected<void, std::string> AtomicFile::Commit() {
  const bool written = std::ferror(stream_) == 0 && std::fflush(stream_) == 0;
  if (!written || std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    return FileRefused("write", path_);
  }
  std::fclose(std::exchange(stream_, nullptr));
  return {};
}

void WriteTruth(std::FILE* out, std::int64_t pid, std::uint64_t start_address,
                std::uint64_t span_bytes, const Heat& heat, const std::vector<PhaseRun>& phases) {
  WritePhases(out, pid, start_address, span_bytes, phases,
              [&](const PhaseRun& phase) { return heat.Ranges(heat.AtPhase(phase.index)); });
}

void WriteMissTruth(std::FILE* out, std::int64_t pid, std::uint64_t start_address,
                    std::uint64_t span_bytes, const Heat& heat, const std::vector<double>& of_span,
                    Instant start, Instant end) {
  WritePhases(
      out, pid, start_address, span_bytes,
      {{.index = 0, .start = start, .end = end, .accesses = 0, .span_accesses = {}}},
      [&](const PhaseRun&) { return heat.Ranges(heat.AtPhase(0), of_span); }, "misses");
}

void WriteTruth(std::FILE* out, std::int64_t pid, std::uint64_t start_address,
                const PageCounts& counts, const std::vector<PhaseRun>& phases) {
  const std::vector<SpanRange> ranges = counts.Ranges();
  WritePhases(out, pid, start_address, kBasePageBytes, phases,
              [&](const PhaseRun&) { return ranges; });
}

}  // namespace tmprof::workload
