// SPDX-License-Identifier: Apache-2.0

#include "mover/page_locator.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace tmprof {
namespace {

// Bits of an entry of /proc/PID/pagemap (Documentation/admin-guide/mm/pagemap.rst).
constexpr std::uint64_t kPresent = std::uint64_t{1} << 63;
constexpr std::uint64_t kMappedOnce = std::uint64_t{1} << 56;
constexpr std::uint64_t kFrameMask = (std::uint64_t{1} << 55) - 1;  // 0 without CAP_SYS_ADMIN
// Bits of an entry of /proc/kpageflags (include/uapi/linux/kernel-page-flags.h).
constexpr std::uint64_t kHugetlb = std::uint64_t{1} << 17;
constexpr std::uint64_t kTransparentHuge = std::uint64_t{1} << 22;

constexpr std::uint64_t kHugeLeafPages = 512;
// Pages that are read and asked for at a time: 128 KiB of entries.
constexpr std::uint64_t kPagesAtATime = 16384;

// PAGEMAP_SCAN, as include/uapi/linux/fs.h defines it since Linux 6.7.
struct ScannedRegion {
  std::uint64_t start;  // addresses
  std::uint64_t end;
  std::uint64_t categories;
};
struct ScanArguments {
  std::uint64_t size;
  std::uint64_t flags;
  std::uint64_t start;
  std::uint64_t end;
  std::uint64_t walk_end;
  std::uint64_t regions;
  std::uint64_t most_regions;
  std::uint64_t most_pages;
  std::uint64_t category_inverted;
  std::uint64_t category_mask;
  std::uint64_t category_anyof_mask;
  std::uint64_t return_mask;
};
constexpr std::uint64_t kIsHuge = std::uint64_t{1} << 6;
constexpr unsigned long kScan = _IOWR('f', 16, ScanArguments);
// Separate parts of one chunk have a base page between them.
constexpr std::size_t kMostHugeParts = kPagesAtATime / kHugeLeafPages;

// Returns the parts that huge entries map. nullopt: the kernel does not report it.
std::optional<std::vector<VpnRange>> HugeParts(int pagemap, VpnRange range) {
  std::array<ScannedRegion, kMostHugeParts> regions;
  ScanArguments arguments{.size = sizeof(ScanArguments),
                          .start = AddressOf(range.start),
                          .end = AddressOf(range.end),
                          .regions = reinterpret_cast<std::uintptr_t>(regions.data()),
                          .most_regions = regions.size(),
                          .category_mask = kIsHuge,
                          .return_mask = kIsHuge};
  const int found = ::ioctl(pagemap, kScan, &arguments);
  if (found < 0) return std::nullopt;
  std::vector<VpnRange> parts;
  for (const ScannedRegion& region : std::span(regions).first(static_cast<std::size_t>(found))) {
    parts.push_back({VpnOfAddress(region.start), VpnOfAddress(region.end)});
  }
  return parts;
}

Error CannotLocate(Pid pid, int system_error) {
  return Refused("find the pages of", "PID " + std::to_string(pid.value()), system_error);
}

}  // namespace

LinuxPageLocator::LinuxPageLocator(MoveCall& call, std::filesystem::path proc_root)
    : call_(&call),
      proc_root_(std::move(proc_root)),
      page_flags_(::open((proc_root_ / "kpageflags").c_str(), O_RDONLY | O_CLOEXEC)) {}

// Precondition: `entries` are those of kHugeLeafPages pages, and the first page is aligned.
bool LinuxPageLocator::IsHugeByFrames(const std::uint64_t* entries) const {
  const std::uint64_t frame = entries[0] & kFrameMask;
  const std::uint64_t last = entries[kHugeLeafPages - 1];
  if (!page_flags_ || frame == 0 || frame % kHugeLeafPages != 0 ||
      (last & kFrameMask) != frame + kHugeLeafPages - 1) {
    return false;
  }
  std::uint64_t flags = 0;
  const auto offset = static_cast<off_t>(frame * sizeof flags);
  if (::pread(page_flags_.get(), &flags, sizeof flags, offset) != sizeof flags) return false;
  return (flags & (kHugetlb | kTransparentHuge)) != 0;
}

void LinuxPageLocator::FindLeaves(int pagemap, Vpn first, const std::vector<std::uint64_t>& entries,
                                  std::span<const VpnRange>& joint,
                                  std::vector<Leaf>& leaves) const {
  bool asked = false;
  std::optional<std::vector<VpnRange>> huge;
  const auto is_huge = [&](Vpn vpn, const std::uint64_t* of_leaf) {
    if (!std::exchange(asked, true)) {
      huge = HugeParts(pagemap, {first, first + PageCount(entries.size())});
    }
    const auto holds = [vpn](const VpnRange& part) {
      return part.start <= vpn && vpn + PageCount(kHugeLeafPages) <= part.end;
    };
    // A huge page that base entries map moves whole, too.
    return (huge && std::ranges::any_of(*huge, holds)) || IsHugeByFrames(of_leaf);
  };
  leaves.clear();
  for (std::size_t i = 0; i < entries.size();) {
    const Vpn vpn = first + PageCount(i);
    while (!joint.empty() && joint.front().end <= vpn) joint = joint.subspan(1);
    if ((entries[i] & kPresent) == 0) {
      ++i;
      continue;
    }
    const bool may_be_huge =
        vpn.value() % kHugeLeafPages == 0 && i + kHugeLeafPages <= entries.size();
    const PageCount pages(may_be_huge && is_huge(vpn, &entries[i]) ? kHugeLeafPages : 1);
    const std::span<const std::uint64_t> of_leaf(&entries[i], pages.value());
    const bool is_joint = std::ranges::any_of(of_leaf, [](std::uint64_t entry) {
      return (entry & kPresent) != 0 && (entry & kMappedOnce) == 0;
    });
    // If another mapping owns a part of a leaf, the leaf would move whole, with that part.
    const bool may_be_joint =
        !joint.empty() && joint.front().start <= vpn && vpn + pages <= joint.front().end;
    if (!is_joint || may_be_joint) leaves.push_back({vpn, pages, is_joint});
    i += pages.value();
  }
}

Result<std::vector<PlacedRun>> LinuxPageLocator::Locate(Pid pid, VpnRange range,
                                                        std::span<const VpnRange> joint) {
  const auto pagemap_path = proc_root_ / std::to_string(pid.value()) / "pagemap";
  const UniqueFd pagemap(::open(pagemap_path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!pagemap) return Fail(CannotLocate(pid, errno == ENOENT ? ESRCH : errno));
  std::vector<PlacedRun> runs;
  std::vector<std::uint64_t> entries;
  std::vector<Leaf> leaves;
  std::vector<Vpn> asked;
  std::vector<int> status;
  Vpn from = range.start;
  while (from < range.end) {
    // Chunks end where huge pages may end.
    const std::uint64_t aligned_end = (from.value() / kPagesAtATime + 1) * kPagesAtATime;
    const Vpn until(std::min(aligned_end, range.end.value()));
    entries.resize((until - from).value());
    const std::span<std::byte> bytes = std::as_writable_bytes(std::span(entries));
    const ssize_t read = ::pread(pagemap.get(), bytes.data(), bytes.size(),
                                 static_cast<off_t>(from.value() * sizeof(entries[0])));
    if (read < 0) return Fail(CannotLocate(pid, errno));
    if (read == 0) return Fail(CannotLocate(pid, ESRCH));  // the process's memory is gone
    entries.resize(static_cast<std::size_t>(read) / sizeof(entries[0]));
    FindLeaves(pagemap.get(), from, entries, joint, leaves);
    asked.clear();
    for (const Leaf& leaf : leaves) asked.push_back(leaf.first);
    status.assign(asked.size(), -ENOENT);
    if (!asked.empty()) {
      const int refused = (*call_)(pid, asked, {}, status, MoveScope::kMappedOnce);
      if (refused < 0) return Fail(CannotLocate(pid, -refused));
    }
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      if (status[i] < 0) continue;
      Append(runs, {{leaves[i].first, leaves[i].first + leaves[i].pages},
                    NodeId(static_cast<NodeId::rep>(status[i])),
                    leaves[i].pages,
                    leaves[i].joint});
    }
    from = until;
  }
  return runs;
}

}  // namespace tmprof
