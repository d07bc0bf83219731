// SPDX-License-Identifier: Apache-2.0

#include "mover/memory_binding.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/host/capabilities.h"
#include "base/host/node_list.h"
#include "base/unique_fd.h"

namespace tmprof {
namespace {

namespace fs = std::filesystem;
using Destinations = MemoryBinding::Destinations;
using Range = MemoryBinding::Range;

// fs/proc/task_mmu.c, show_numa_map(): a buffer of 64 bytes, its terminator included.
constexpr std::size_t kLongestPolicy = 63;

Result<std::string> ReadWhole(const fs::path& path, const char* attempt) {
  const auto refuse = [&](int reason) {
    return Fail(Refused(attempt, path.string(), reason == ENOENT ? ESRCH : reason));
  };
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return refuse(errno);
  std::string text;
  std::array<char, 16384> piece;
  while (true) {
    const ssize_t got = read(file.get(), piece.data(), piece.size());
    if (got == 0) return text;
    if (got > 0) {
      text.append(piece.data(), static_cast<std::size_t>(got));
    } else if (errno != EINTR) {
      return refuse(errno);
    }
  }
}

template <typename Visit>
void ForEachLine(std::string_view text, Visit visit) {
  while (!text.empty()) {
    const std::size_t newline = std::min(text.find('\n'), text.size());
    visit(text.substr(0, newline));
    text.remove_prefix(std::min(newline + 1, text.size()));
  }
}

// Takes a number off the front of `text`.
std::optional<std::uint64_t> TakeAddress(std::string_view& text) {
  std::uint64_t address = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), address, /*base=*/16);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return address;
}

bool HasWord(std::string_view words, std::string_view wanted) {
  while (!words.empty()) {
    const std::size_t space = std::min(words.find(' '), words.size());
    if (words.substr(0, space) == wanted) return true;
    words.remove_prefix(std::min(space + 1, words.size()));
  }
  return false;
}

// A line of numa_maps. White space in a file's name is escaped there.
struct MappingPolicy {
  Vpn start;
  Destinations destinations;
  bool is_stack = false;
};

std::optional<MappingPolicy> ParsePolicyLine(std::string_view line) {
  const auto start = TakeAddress(line);
  if (!start || !line.starts_with(' ')) return std::nullopt;
  line.remove_prefix(1);
  // Policies whose names have two words let pages stay, and so do those named by the first word
  // alone.
  const std::string_view policy = line.substr(0, line.find(' '));
  return MappingPolicy{.start = VpnOfAddress(*start),
                       .destinations = DestinationsUnder(policy),
                       .is_stack = HasWord(line, "stack")};
}

std::vector<MappingPolicy> ParsePolicies(std::string_view numa_maps) {
  std::vector<MappingPolicy> policies;
  ForEachLine(numa_maps, [&](std::string_view line) {
    if (auto policy = ParsePolicyLine(line)) policies.push_back(*std::move(policy));
  });
  // The kernel lists mappings in order, unless they change meanwhile.
  std::ranges::stable_sort(policies, {}, &MappingPolicy::start);
  return policies;
}

std::vector<VpnRange> ParseMappings(std::string_view maps) {
  std::vector<VpnRange> mappings;
  ForEachLine(maps, [&](std::string_view line) {
    const auto start = TakeAddress(line);
    if (!start || !line.starts_with('-')) return;
    line.remove_prefix(1);
    const auto end = TakeAddress(line);
    if (!end || *end <= *start) return;
    mappings.push_back({VpnOfAddress(*start), VpnOfAddress(*end)});
  });
  std::ranges::stable_sort(mappings, {}, &VpnRange::start);
  return mappings;
}

std::vector<Range> RangesUnlike(const Destinations& own, std::vector<MappingPolicy> policies,
                                const std::vector<VpnRange>& mappings) {
  std::vector<Range> ranges;
  for (std::size_t i = 0; i < policies.size(); ++i) {
    const Vpn start = policies[i].start;
    const auto after = std::ranges::upper_bound(mappings, start, {}, &VpnRange::start);
    if (after == mappings.begin() || !std::prev(after)->Contains(start)) continue;
    Vpn end = std::prev(after)->end;
    if (i + 1 < policies.size()) end = std::min(end, policies[i + 1].start);
    if (policies[i].destinations == own || start == end) continue;
    if (!ranges.empty() && ranges.back().pages.end == start &&
        ranges.back().destinations == policies[i].destinations) {
      ranges.back().pages.end = end;
    } else {
      ranges.push_back(
          {.pages = {start, end}, .destinations = std::move(policies[i].destinations)});
    }
  }
  return ranges;
}

Result<Destinations> ReadCpusetIn(const fs::path& folder) {
  constexpr const char* kAttempt = "read the nodes allowed to a process";
  constexpr std::string_view kField = "Mems_allowed_list:";
  const fs::path path = folder / "status";
  const Result<std::string> status = ReadWhole(path, kAttempt);
  if (!status) return Fail(status.error());
  std::optional<std::string_view> list;
  ForEachLine(*status, [&](std::string_view line) {
    if (line.starts_with(kField)) list = line.substr(kField.size());
  });
  if (!list) return Destinations();  // the kernel was built without CONFIG_CPUSETS
  Destinations nodes = ParseNodeList(*list);
  if (!nodes) {
    return Fail(BadInput(kAttempt, path.string(), "not a list of nodes: " + std::string(*list)));
  }
  return nodes;
}

// A main thread that exited before the others shows no memory. The other threads do.
std::vector<fs::path> FoldersOfThreads(const fs::path& process) {
  std::vector<fs::path> folders{process};
  std::error_code stopped;
  for (fs::directory_iterator entry(process / "task", stopped), end; !stopped && entry != end;
       entry.increment(stopped)) {
    folders.push_back(entry->path());
  }
  return folders;
}

bool Allows(const Destinations& destinations, NodeId node) {
  return !destinations || std::ranges::binary_search(*destinations, node);
}

}  // namespace

Destinations DestinationsUnder(std::string_view policy) {
  if (policy == "default" || policy == "local") return std::nullopt;
  const std::vector<NodeId> nowhere_else;
  const std::string_view mode = policy.substr(0, policy.find_first_of("=:"));
  const std::size_t colon = policy.find(':');
  if (mode != "bind" || colon == std::string_view::npos || policy.size() >= kLongestPolicy) {
    return nowhere_else;
  }
  return ParseNodeList(policy.substr(colon + 1)).value_or(nowhere_else);
}

MemoryBinding::MemoryBinding(Destinations cpuset, Destinations otherwise,
                             std::vector<Range> exceptions)
    : cpuset_(std::move(cpuset)),
      otherwise_(std::move(otherwise)),
      exceptions_(std::move(exceptions)) {
  const auto overlap = std::ranges::adjacent_find(
      exceptions_,
      [](const Range& range, const Range& next) { return range.pages.end > next.pages.start; });
  TMPROF_CHECK(overlap == exceptions_.end());
}

std::vector<Range>::const_iterator MemoryBinding::FirstBehind(Vpn vpn) const {
  return std::ranges::upper_bound(exceptions_, vpn, {},
                                  [](const Range& range) { return range.pages.end; });
}

bool MemoryBinding::MayMove(VpnRange pages, NodeId from, NodeId to) const {
  if (from == to) return true;
  if (!Allows(cpuset_, to)) return false;
  Vpn done = pages.start;
  for (auto range = FirstBehind(done); range != exceptions_.end() && done < pages.end; ++range) {
    if (range->pages.start >= pages.end) break;
    if (done < range->pages.start && !Allows(otherwise_, to)) return false;
    if (!Allows(range->destinations, to)) return false;
    done = range->pages.end;
  }
  return done >= pages.end || Allows(otherwise_, to);
}

bool MemoryBinding::HasUnread(VpnRange pages) const {
  for (auto range = FirstBehind(pages.start);
       range != exceptions_.end() && range->pages.start < pages.end; ++range) {
    if (range->unread) return true;
  }
  return false;
}

bool MemoryBinding::Binds(std::span<const NodeId> nodes) const {
  return !exceptions_.empty() || std::ranges::any_of(nodes, [this](NodeId node) {
    return !Allows(cpuset_, node) || !Allows(otherwise_, node);
  });
}

MemoryBinding MemoryBinding::WithUnread(std::span<const VpnRange> ranges) const {
  std::vector<Range> all;
  for (const Range& known : exceptions_) {
    Vpn from = known.pages.start;
    for (const VpnRange& unread : ranges) {
      if (unread.end <= from || unread.start >= known.pages.end) continue;
      if (from < unread.start)
        all.push_back({{from, unread.start}, known.destinations, known.unread});
      from = std::min(unread.end, known.pages.end);
    }
    if (from < known.pages.end)
      all.push_back({{from, known.pages.end}, known.destinations, known.unread});
  }
  for (const VpnRange& unread : ranges) {
    if (unread.start < unread.end) all.push_back({unread, std::vector<NodeId>{}, true});
  }
  std::ranges::sort(all, {}, [](const Range& range) { return range.pages.start; });
  return {cpuset_, otherwise_, std::move(all)};
}

std::vector<VpnRange> NewerThan(std::span<const VpnRange> before, std::span<const VpnRange> now) {
  std::vector<VpnRange> newer;
  auto known = before.begin();
  for (const VpnRange& mapping : now) {
    while (known != before.end() && known->start < mapping.start) ++known;
    Vpn from = mapping.start;
    for (; known != before.end() && known->end <= mapping.end; ++known) {
      if (from < known->start) newer.push_back({from, known->start});
      from = known->end;
    }
    if (from < mapping.end) newer.push_back({from, mapping.end});
  }
  return newer;
}

Result<MemoryBinding> ReadMemoryBinding(Pid pid, const fs::path& proc_root) {
  constexpr const char* kAttempt = "read memory policies";
  const fs::path process = proc_root / std::to_string(pid.value());
  Error refusal = Refused(kAttempt, process.string(), ESRCH);
  for (const fs::path& folder : FoldersOfThreads(process)) {
    const Result<std::string> numa_maps = ReadWhole(folder / "numa_maps", kAttempt);
    if (!numa_maps && numa_maps.error().system_error != ESRCH) {
      refusal = numa_maps.error();
      if (refusal.system_error == EACCES) refusal.advice = OwnerAdvice("the owner of the process");
      break;
    }
    if (!numa_maps || numa_maps->empty()) continue;
    // Mappings are read last: a mapping that is gone has no pages to move.
    const Result<std::string> maps = ReadWhole(folder / "maps", kAttempt);
    if (!maps) return Fail(maps.error());
    Result<Destinations> cpuset = ReadCpusetIn(folder);
    if (!cpuset) return Fail(cpuset.error());

    std::vector<MappingPolicy> policies = ParsePolicies(*numa_maps);
    const auto stack = std::ranges::find(policies, true, &MappingPolicy::is_stack);
    const Destinations own = stack == policies.end() ? std::nullopt : stack->destinations;
    return MemoryBinding(*std::move(cpuset), own,
                         RangesUnlike(own, std::move(policies), ParseMappings(*maps)));
  }
  return Fail(std::move(refusal));
}

Result<std::vector<VpnRange>> ReadMappings(Pid pid, const fs::path& proc_root) {
  constexpr const char* kAttempt = "read mappings";
  const fs::path process = proc_root / std::to_string(pid.value());
  for (const fs::path& folder : FoldersOfThreads(process)) {
    const Result<std::string> maps = ReadWhole(folder / "maps", kAttempt);
    if (!maps && maps.error().system_error != ESRCH) return Fail(maps.error());
    if (maps && !maps->empty()) return ParseMappings(*maps);
  }
  return Fail(Refused(kAttempt, process.string(), ESRCH));
}

Result<Destinations> ReadCpuset(Pid pid, const fs::path& proc_root) {
  return ReadCpusetIn(proc_root / std::to_string(pid.value()));
}

}  // namespace tmprof
