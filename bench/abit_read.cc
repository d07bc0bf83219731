// SPDX-License-Identifier: Apache-2.0
// Price of reading accessed bits through BPF, per page, beside /proc/PID/pagemap, which has none:
//   build/release/abit_read [--json]
// CPU time of this thread, medians of alternating passes over memory of its own.

#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/median.h"
#include "base/unique_fd.h"
#include "profiler/sources/abit/page_table_reader.h"

namespace tmprof {
namespace {

using abit::KernelWay;
using abit::PageTableReader;
using abit::ReadOutcome;
using abit::TablePart;

constexpr std::size_t kHugeBytes = std::size_t{2} << 20;
constexpr int kPasses = 15;
constexpr PageCount kPagesPerRead{32 * 512};  // whose copies stay in a private cache

double ThreadCpuNs() {
  timespec t{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return 1e9 * static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec);
}

// Present and accessed. A fixed length, so that it is vectorised.
std::uint64_t CountAccessed(std::span<const std::uint64_t, 512> entries) {
  std::uint64_t accessed = 0;
  for (const std::uint64_t entry : entries) accessed += entry & entry >> 5 & 1;
  return accessed;
}

// Reads all of `range` and counts the pages with their bit set.
std::uint64_t ReadTables(PageTableReader& reader, VpnRange range, std::vector<TablePart>& parts) {
  std::uint64_t accessed = 0;
  for (Vpn at = range.start; at < range.end;) {
    const auto read = reader.Read(Pid(::getpid()), {at, std::min(range.end, at + kPagesPerRead)},
                                  PageTableReader::Depth::kEntries, parts);
    TMPROF_CHECK(read.outcome == ReadOutcome::kDone);
    for (const TablePart& part : parts) {
      if (part.huge) accessed += part.leaf.accessed() ? part.span.value() : 0;
      if (!part.huge) accessed += CountAccessed(part.entries.first<512>());
    }
    at = read.next;
  }
  return accessed;
}

std::uint64_t ReadPagemap(int fd, VpnRange range, std::vector<std::uint64_t>& buffer) {
  std::uint64_t present = 0;
  for (Vpn at = range.start; at < range.end;) {
    const std::size_t pages = std::min<std::size_t>(buffer.size(), (range.end - at).value());
    const auto offset = static_cast<off_t>(at.value() * sizeof buffer[0]);
    const auto bytes = static_cast<ssize_t>(pages * sizeof buffer[0]);
    TMPROF_CHECK(::pread(fd, buffer.data(), static_cast<std::size_t>(bytes), offset) == bytes);
    for (std::size_t i = 0; i < pages; ++i) present += buffer[i] >> 63;
    at = at + PageCount(pages);
  }
  return present;
}

nlohmann::json Measure(KernelWay way, std::size_t mib, bool thp) {
  auto reader = PageTableReader::Open(way);
  if (!reader) return {{"way", Name(way)}, {"refused", reader.error().Message()}};
  const std::size_t bytes = mib << 20;
  void* raw = ::mmap(nullptr, bytes + kHugeBytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  TMPROF_CHECK(raw != MAP_FAILED);
  ::madvise(raw, bytes + kHugeBytes, thp ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  const auto start =
      (reinterpret_cast<std::uint64_t>(raw) + kHugeBytes - 1) / kHugeBytes * kHugeBytes;
  for (std::size_t i = 0; i < bytes; i += kBasePageBytes)
    reinterpret_cast<volatile char*>(start)[i] = 1;
  const VpnRange range{VpnOfAddress(start), VpnOfAddress(start + bytes)};
  const double pages = static_cast<double>(range.size().value());
  const UniqueFd pagemap(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  std::vector<std::uint64_t> buffer(65536);
  std::vector<TablePart> parts;
  std::vector<double> tables_ns;
  std::vector<double> pagemap_ns;
  for (int pass = 0; pass < kPasses; ++pass) {
    const double begin = ThreadCpuNs();
    TMPROF_CHECK(ReadTables(**reader, range, parts) > 0);
    const double middle = ThreadCpuNs();
    TMPROF_CHECK(ReadPagemap(pagemap.get(), range, buffer) > 0);
    tables_ns.push_back((middle - begin) / pages);
    pagemap_ns.push_back((ThreadCpuNs() - middle) / pages);
  }
  ::munmap(raw, bytes + kHugeBytes);
  const double tables = Median(tables_ns);
  const double by_pagemap = Median(pagemap_ns);
  return {{"way", Name(way)},
          {"mib", mib},
          {"huge_pages", thp},
          {"ns_per_page", tables},
          {"pagemap_ns_per_page", by_pagemap},
          {"times_faster", by_pagemap / tables}};
}

}  // namespace
}  // namespace tmprof

int main(int argc, char** argv) {
  bool json = false;
  CLI::App app("Price of reading accessed bits");
  app.add_flag("--json", json, "Print JSON");
  CLI11_PARSE(app, argc, argv);
  nlohmann::json results = nlohmann::json::array();
  for (const auto way :
       {tmprof::abit::KernelWay::kSyscallProgram, tmprof::abit::KernelWay::kMappingIterator})
    for (const std::size_t mib : {256, 1024})
      for (const bool thp : {false, true}) results.push_back(tmprof::Measure(way, mib, thp));
  if (json) {
    fmt::print("{}\n", nlohmann::json{{"results", results}}.dump(2));
    return 0;
  }
  for (const auto& row : results) {
    if (row.contains("refused")) {
      fmt::print("{}: {}\n", row["way"].get<std::string>(), row["refused"].get<std::string>());
      continue;
    }
    fmt::print(
        "{:17} {:5} MiB {:4} {:8.3f} ns/page, pagemap {:6.2f} ns/page: {:.0f} times faster\n",
        row["way"].get<std::string>(), row["mib"].get<int>(),
        row["huge_pages"].get<bool>() ? "2M" : "4K", row["ns_per_page"].get<double>(),
        row["pagemap_ns_per_page"].get<double>(), row["times_faster"].get<double>());
  }
  return 0;
}
