// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/abit/other_clearers.h"

#include <fmt/format.h>

#include <cstdint>
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

std::optional<double> NumberIn(const fs::path& file) {
  const auto line = FirstLine(file);
  if (!line) return std::nullopt;
  const auto number = ParseInteger<std::uint64_t>(*line);
  return number ? std::optional(static_cast<double>(*number)) : std::nullopt;
}

// DAMON clears one page of each region in each sampling interval (mm/damon/paddr.c, Linux 6.18).
// nullopt: it observes the addresses of processes, whose memory may be small, or its parameters
// cannot be read.
std::optional<double> ClearsPerSecond(const fs::path& kdamond) {
  double clears = 0;
  const std::vector<fs::path> contexts = FoldersIn(kdamond / "contexts", "");
  if (contexts.empty()) return std::nullopt;
  for (const fs::path& context : contexts) {
    if (FirstLine(context / "operations") != "paddr") return std::nullopt;
    const fs::path attributes = context / "monitoring_attrs";
    const auto interval_us = NumberIn(attributes / "intervals" / "sample_us");
    const auto regions = NumberIn(attributes / "nr_regions" / "max");
    if (!interval_us || !regions || *interval_us <= 0) return std::nullopt;
    clears += *regions * 1e6 / *interval_us;
  }
  return clears;
}

std::optional<OtherClearer> Lru(const fs::path& root) {
  const auto enabled = FirstLine(root / "sys/kernel/mm/lru_gen/enabled");
  if (!enabled || enabled->empty() || *enabled == "0x0000") return std::nullopt;
  return OtherClearer{
      .text = "multi-generational LRU is enabled and clears accessed bits during reclaim",
      .how_to_stop = "echo n > /sys/kernel/mm/lru_gen/enabled"};
}

// One kernel thread of DAMON.
OtherClearer Describe(const std::string& name, const fs::path& root, const fs::path& kdamond,
                      std::optional<PageCount> memory) {
  OtherClearer found{.text = fmt::format("DAMON is running ({}) and clears accessed bits", name),
                     .how_to_stop = fmt::format(
                         "echo off > /{}", (kdamond / "state").lexically_relative(root).string())};
  const auto clears = ClearsPerSecond(kdamond);
  if (!clears || !memory || *memory == PageCount(0)) return found;
  const double share = *clears / static_cast<double>(memory->value());
  found.text += fmt::format(": at most {} of all pages a second", Percent(share));
  found.is_harmless = share <= kHarmlessClears;
  return found;
}

}  // namespace

std::optional<OtherClearer> OtherAccessedBitClearer(const fs::path& root) {
  std::optional<OtherClearer> worst = Lru(root);
  const std::optional<PageCount> memory = ProcFs(root / "proc").TotalMemory();
  const std::vector<fs::path> admin = FoldersIn(root / "sys/kernel/mm/damon/admin/kdamonds", "");
  for (const fs::path& process : FoldersIn(root / "proc", "")) {
    const auto name = FirstLine(process / "comm");
    if (!name || !name->starts_with("kdamond")) continue;
    // Those that the kernel starts by itself, such as damon_reclaim, are in no folder.
    OtherClearer found{.text =
                           fmt::format("DAMON is running ({}) and clears accessed bits", *name)};
    for (const fs::path& kdamond : admin) {
      if (FirstLine(kdamond / "pid") != process.filename()) continue;
      found = Describe(*name, root, kdamond, memory);
    }
    if (!worst || (worst->is_harmless && !found.is_harmless)) worst = std::move(found);
  }
  return worst;
}

}  // namespace tmprof::abit
