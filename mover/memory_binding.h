// SPDX-License-Identifier: Apache-2.0
// Where memory policies and cpusets let the pages of a process be.

#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace tmprof {

class MemoryBinding {
 public:
  // The nodes that pages may be moved to, ascending; nullopt: any. With none they stay where they
  // are.
  using Destinations = std::optional<std::vector<NodeId>>;
  struct Range {
    VpnRange pages;
    Destinations destinations;
    bool unread = false;  // what holds there is not known: to be moved nowhere
    friend bool operator==(const Range&, const Range&) = default;
  };

  // Precondition: `exceptions` ascend and do not overlap. `otherwise` holds for all other pages.
  MemoryBinding(Destinations cpuset, Destinations otherwise, std::vector<Range> exceptions);

  // Whether neither the cpuset nor the policy of any of these pages' mappings is against it. Pages
  // may always be where they are. O(log n) for n ranges, and as many more as the pages lie in.
  bool MayMove(VpnRange pages, NodeId from, NodeId to) const;
  // True if nobody knows the policy of some of these pages.
  bool HasUnread(VpnRange pages) const;
  // False: all pages may be moved to all of these nodes.
  bool Binds(std::span<const NodeId> nodes) const;

  // The same, but for these ranges, of which nothing is known any more. They ascend and do not
  // overlap.
  MemoryBinding WithUnread(std::span<const VpnRange> ranges) const;

  // Those in which the policy is not the process's own, ascending; ranges that touch differ.
  const std::vector<Range>& exceptions() const { return exceptions_; }

 private:
  std::vector<Range>::const_iterator FirstBehind(Vpn vpn) const;

  Destinations cpuset_;
  Destinations otherwise_;
  std::vector<Range> exceptions_;
};

// As of now, of numa_maps, maps and status in /proc/PID (proc(5)); the policies of mempolicy(7):
// - default and local bind nothing;
// - bind leaves its nodes to choose from;
// - interleave and prefer, with their variants, and whatever else may come are the user's own
//   placement: such pages stay where they are.
// numa_maps tells the policy of a mapping, and where that has none the main thread's. What it does
// not tell of, as what is mapped later, is taken to be bound as the main thread's stack is. Of a
// file's or shared memory's policies by range it tells the first. Where nodes are many it cuts
// their list off: such pages stay, too.
//
// The kernel walks all page tables for it: some 70 ns for each resident page, 18 ms for 1 GiB (3.5
// ns where huge pages map it; Linux 6.18 in a virtual machine on an AMD EPYC, reading
// /proc/self/numa_maps of 1 GiB, the best of 7). Meanwhile whoever maps or unmaps in the process
// waits, a mapping at a time.
//
// Fails with ESRCH where the process or its memory is gone, with EACCES where ptrace access is
// refused. Whose number it is now is the caller's to check, after the call.
Result<MemoryBinding> ReadMemoryBinding(Pid pid, const std::filesystem::path& proc_root = "/proc");

// The mappings of a process, as of now: each by itself, in the order of addresses. No page table is
// walked for them. Fails as ReadMemoryBinding() does.
Result<std::vector<VpnRange>> ReadMappings(Pid pid,
                                           const std::filesystem::path& proc_root = "/proc");

// Nodes that the cpuset of a process allows. Fails likewise.
Result<MemoryBinding::Destinations> ReadCpuset(Pid pid,
                                               const std::filesystem::path& proc_root = "/proc");

// What is in `now` and in no mapping of `before` that is still there, whole or as a part of a
// larger one: mbind(2) of a part of a mapping splits it. Both as ReadMappings() has them.
std::vector<VpnRange> NewerThan(std::span<const VpnRange> before, std::span<const VpnRange> now);

// Where a policy lets pages be moved, as the kernel prints it: "bind=static:0-1".
MemoryBinding::Destinations DestinationsUnder(std::string_view policy);

}  // namespace tmprof
