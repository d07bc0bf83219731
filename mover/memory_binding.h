// SPDX-License-Identifier: Apache-2.0
// Tells where memory policies and cpusets let the pages of a process be.

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
  // The nodes that pages may be moved to, ascending; nullopt: any node. Empty: the pages stay where
  // they are.
  using Destinations = std::optional<std::vector<NodeId>>;
  struct Range {
    VpnRange pages;
    Destinations destinations;
    bool unread = false;  // the policy there is unknown, and the pages must stay
    friend bool operator==(const Range&, const Range&) = default;
  };

  // Precondition: `exceptions` ascend and do not overlap. `otherwise` holds for all other pages.
  MemoryBinding(Destinations cpuset, Destinations otherwise, std::vector<Range> exceptions);

  // True if neither the cpuset nor the policy of any of these pages forbids the move. Pages may
  // always be where they are. O(log n) for n ranges, plus the number of ranges that the pages lie
  // in.
  bool MayMove(VpnRange pages, NodeId from, NodeId to) const;
  // True if the policy of some of these pages is unknown.
  bool HasUnread(VpnRange pages) const;
  // False: all pages may be moved to all of these nodes.
  bool Binds(std::span<const NodeId> nodes) const;

  // Returns a copy in which these ranges are unread. They ascend and do not overlap.
  MemoryBinding WithUnread(std::span<const VpnRange> ranges) const;

  // Returns the ranges whose policy is not the process's own, ascending. Adjoining ranges differ.
  const std::vector<Range>& exceptions() const { return exceptions_; }

 private:
  std::vector<Range>::const_iterator FirstBehind(Vpn vpn) const;

  Destinations cpuset_;
  Destinations otherwise_;
  std::vector<Range> exceptions_;
};

// Reads the current bindings from numa_maps, maps and status in /proc/PID (proc(5)). The policies
// are those of mempolicy(7):
// - default and local bind nothing.
// - bind leaves its nodes to choose from.
// - interleave and prefer with their variants, and unknown policies, are the user's own placement:
//   such pages stay where they are.
//
// numa_maps reports the policy of a mapping, or the main thread's if the mapping has none. Memory
// that it does not list, such as later mappings, is taken to be bound like the main thread's stack.
// For files and shared memory with policies by range it reports the first policy. It truncates long
// lists of nodes; such pages stay, too.
//
// The kernel walks all page tables for it. That takes some 70 ns for each resident page, 18 ms for
// 1 GiB, or 3.5 ns a page if huge pages map it (Linux 6.18 in a virtual machine on an AMD EPYC,
// reading /proc/self/numa_maps of 1 GiB, the best of 7). Threads of the process that map or unmap
// memory wait meanwhile, for one mapping at a time.
//
// Fails with ESRCH if the process or its memory is gone, and with EACCES if ptrace access is
// refused. The caller has to check, after the call, that the PID still names the process.
Result<MemoryBinding> ReadMemoryBinding(Pid pid, const std::filesystem::path& proc_root = "/proc");

// Reads the current mappings of a process, in the order of addresses and without joining any. The
// kernel walks no page table for it. Fails as ReadMemoryBinding() does.
Result<std::vector<VpnRange>> ReadMappings(Pid pid,
                                           const std::filesystem::path& proc_root = "/proc");

// Reads the nodes that the cpuset of a process allows. Fails as ReadMemoryBinding() does.
Result<MemoryBinding::Destinations> ReadCpuset(Pid pid,
                                               const std::filesystem::path& proc_root = "/proc");

// Returns the parts of `now` that are in no surviving mapping of `before`. A mapping survives whole
// or as a part of a larger one, and mbind(2) of a part splits it. Both arguments are as
// ReadMappings() returns them.
std::vector<VpnRange> NewerThan(std::span<const VpnRange> before, std::span<const VpnRange> now);

// Returns the nodes to which a policy lets pages be moved. `policy` is as the kernel prints it:
// "bind=static:0-1".
MemoryBinding::Destinations DestinationsUnder(std::string_view policy);

}  // namespace tmprof
