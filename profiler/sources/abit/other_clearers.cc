// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/abit/other_clearers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/host/first_line.h"
#include "base/host/procfs.h"
#include "base/parse_integer.h"
#include "base/text/format.h"
#include "base/units.h"

namespace tmprof::abit {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> FoldersIn(const fs::path& folder, std::string_view prefix) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename();
    if (name.starts_with(prefix) && name.find_first_of("0123456789") != std::string::npos &&
        it->is_directory(error))
      found.push_back(it->path());
  }
  return found;
}

std::optional<std::uint64_t> NumberIn(const fs::path& file) {
  const auto line = FirstLine(file);
  return line ? ParseInteger<std::uint64_t>(*line) : std::nullopt;
}

// A part of some memory that a DAMON watches.
struct Watched {
  std::optional<Pid> process;  // nullopt: the machine's memory
  std::uint64_t start = 0;     // bytes
  std::uint64_t end = 0;
  double per_second = 0;  // the share of its pages that is cleared
};

// Returns the parts that a target of a context names. Without any the kernel chooses them. nullopt:
// they cannot be read.
std::optional<std::vector<Watched>> RegionsOf(const fs::path& target, std::uint64_t unit) {
  std::vector<Watched> regions;
  for (const fs::path& region : FoldersIn(target / "regions", "")) {
    const auto start = NumberIn(region / "start");
    const auto end = NumberIn(region / "end");
    if (!start || !end || *end <= *start) return std::nullopt;
    regions.push_back({.start = *start * unit, .end = *end * unit});
  }
  return regions;
}

double SizeOf(const std::vector<Watched>& regions) {
  double bytes = 0;
  for (const Watched& region : regions) bytes += static_cast<double>(region.end - region.start);
  return bytes;
}

// DAMON clears one page of each region in each sampling interval (mm/damon/paddr.c, Linux 6.18).
// The regions of all targets are at most so many. A page of a process that is not present is not
// cleared, and neither is an address without memory. nullopt: the pace, or the size of the memory,
// cannot be read.
std::optional<std::vector<Watched>> WatchedBy(const fs::path& context, const ProcFs& procfs) {
  const auto operations = FirstLine(context / "operations");
  const bool is_physical = operations == "paddr";
  if (!is_physical && operations != "vaddr" && operations != "fvaddr") return std::nullopt;
  const fs::path attributes = context / "monitoring_attrs";
  const auto interval_us = NumberIn(attributes / "intervals" / "sample_us");
  const auto regions = NumberIn(attributes / "nr_regions" / "max");
  if (!interval_us || !regions || *interval_us == 0) return std::nullopt;
  const double clears = static_cast<double>(*regions) * 1e6 / static_cast<double>(*interval_us);
  constexpr std::uint64_t kAllAddresses = std::numeric_limits<std::uint64_t>::max();
  std::vector<Watched> watched;
  double pages = 0;
  std::vector<fs::path> targets = FoldersIn(context / "targets", "");
  if (targets.empty() && is_physical) targets.push_back(context);  // of an older kernel
  for (const fs::path& target : targets) {
    std::optional<Pid> process;
    std::optional<PageCount> memory;
    if (is_physical) {
      memory = procfs.TotalMemory();
    } else {
      const auto pid = NumberIn(target / "pid_target");
      if (!pid || *pid > std::numeric_limits<Pid::rep>::max()) return std::nullopt;
      process = Pid(static_cast<Pid::rep>(*pid));
      const auto stat = procfs.Stat(*process);
      if (stat) memory = stat->resident;
    }
    auto named = RegionsOf(target, NumberIn(context / "addr_unit").value_or(1));
    if (!memory || !named) return std::nullopt;
    double most_pages = static_cast<double>(memory->value());
    if (named->empty()) {
      named->push_back({.start = 0, .end = kAllAddresses});
    } else {
      most_pages = std::min(most_pages, SizeOf(*named) / kBasePageBytes);
    }
    pages += most_pages;
    for (Watched& region : *named) {
      region.process = process;
      watched.push_back(region);
    }
  }
  if (pages <= 0) return std::nullopt;
  for (Watched& region : watched) region.per_second = clears / pages;
  return watched;
}

// Returns the largest share that is cleared of any of these parts, which are of one memory.
double LargestShare(const std::vector<Watched>& parts) {
  double largest = 0;
  for (const Watched& at : parts) {
    double here = 0;
    for (const Watched& part : parts)
      here += part.start <= at.start && at.start < part.end ? part.per_second : 0;
    largest = std::max(largest, here);
  }
  return largest;
}

// Returns the largest share of some memory that is cleared in a second. A page of a process is one
// of the machine's, too.
double LargestShareOfAny(const std::vector<Watched>& watched) {
  std::map<std::optional<Pid>, std::vector<Watched>> by_memory;
  for (const Watched& part : watched) by_memory[part.process].push_back(part);
  double of_machine = 0;
  double of_process = 0;
  for (const auto& [process, parts] : by_memory) {
    double& largest = process ? of_process : of_machine;
    largest = std::max(largest, LargestShare(parts));
  }
  return of_machine + of_process;
}

std::optional<OtherClearer> Lru(const fs::path& root) {
  if (!MultiGenerationalLruRuns(root)) return std::nullopt;
  return OtherClearer{
      .text = "multi-generational LRU is enabled and clears accessed bits during reclaim",
      .how_to_stop = "echo n > /sys/kernel/mm/lru_gen/enabled"};
}

// A kernel thread of DAMON.
struct Damon {
  std::string name;
  fs::path folder;                              // its parameters
  std::optional<std::vector<Watched>> watched;  // nullopt: unknown
};

// Those that the kernel starts by itself, such as damon_reclaim, are in no folder.
std::vector<Damon> RunningDamons(const fs::path& root) {
  const ProcFs procfs(root / "proc");
  const std::vector<fs::path> admin = FoldersIn(root / "sys/kernel/mm/damon/admin/kdamonds", "");
  std::vector<Damon> running;
  for (const fs::path& process : FoldersIn(root / "proc", "")) {
    const auto name = FirstLine(process / "comm");
    if (!name || !name->starts_with("kdamond")) continue;
    Damon& damon = running.emplace_back(Damon{.name = *name});
    for (const fs::path& kdamond : admin) {
      if (FirstLine(kdamond / "pid") != process.filename()) continue;
      damon.folder = kdamond;
      const std::vector<fs::path> contexts = FoldersIn(kdamond / "contexts", "");
      if (!contexts.empty()) damon.watched.emplace();
      for (const fs::path& context : contexts) {
        auto watched = WatchedBy(context, procfs);
        if (!watched || !damon.watched) {
          damon.watched.reset();
        } else {
          damon.watched->insert(damon.watched->end(), watched->begin(), watched->end());
        }
      }
    }
  }
  std::ranges::sort(running, {}, &Damon::name);
  return running;
}

OtherClearer Describe(std::span<const Damon> damons, const fs::path& root) {
  std::string names;
  std::string states;
  for (const Damon& damon : damons) {
    names += (names.empty() ? "" : ", ") + damon.name;
    if (damon.folder.empty()) continue;
    states += fmt::format("{}/{}", states.empty() ? "" : " ",
                          (damon.folder / "state").lexically_relative(root).string());
  }
  OtherClearer found{.text = fmt::format("DAMON is running ({}) and clears accessed bits", names)};
  if (!states.empty()) {
    found.how_to_stop = damons.size() == 1 ? fmt::format("echo off > {}", states)
                                           : fmt::format("echo off | tee {}", states);
  }
  return found;
}

}  // namespace

bool MultiGenerationalLruRuns(const fs::path& root) {
  const auto enabled = FirstLine(root / "sys/kernel/mm/lru_gen/enabled");
  return enabled && !enabled->empty() && *enabled != "0x0000";
}

std::optional<OtherClearer> OtherAccessedBitClearer(const fs::path& root) {
  if (std::optional<OtherClearer> lru = Lru(root)) return lru;
  const std::vector<Damon> damons = RunningDamons(root);
  if (damons.empty()) return std::nullopt;
  std::vector<Watched> watched;
  for (const Damon& damon : damons) {
    if (!damon.watched) return Describe({&damon, 1}, root);
    watched.insert(watched.end(), damon.watched->begin(), damon.watched->end());
  }
  OtherClearer found = Describe(damons, root);
  const double share = LargestShareOfAny(watched);
  found.text += fmt::format(": at most {} of the pages that {} a second", Percent(share),
                            damons.size() == 1 ? "it watches" : "they watch together");
  found.is_harmless = share <= kHarmlessClears;
  return found;
}

}  // namespace tmprof::abit
