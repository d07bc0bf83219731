// SPDX-License-Identifier: Apache-2.0
// Clears of accessed bits by ageing: the kernel's multi-generational LRU walks the page tables of
// all processes of a memory cgroup and clears the bits of pages that are charged to it.

#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/units.h"

namespace tmprof::abit {

// Tells if a walk of a page's table by the ageing of a group clears its bit.
enum class AgeingReach : std::uint8_t {
  kYes,
  kNo,       // the page is charged elsewhere, locked, or off the LRU's lists
  kUnknown,  // the page is charged to the group, or to one below that was removed
};

class MemcgAgeing {
 public:
  struct Member {
    Pid pid;
    PageCount resident;
  };
  struct Group {
    std::string path;             // "/": the root
    std::vector<Member> members;  // processes with memory, without this one
    PageCount file{0};            // page cache that is charged to the group
    // Anonymous and shared memory that is charged to it, without what this process has resident.
    PageCount held{0};
    bool is_root() const { return path == "/"; }
  };
  struct Present {
    std::set<Pid> inside;  // processes whose bits the group's ageing clears
    std::set<Pid> outside;
    PageCount held{0};  // see Group
  };

  virtual ~MemcgAgeing() = default;

  // Returns the group whose ageing clears this process's bits, as it was some seconds ago at most.
  // A target that came since is a member, too. Null: the process is gone, or it is not known yet
  // who else is there. Valid until the next call.
  virtual const Group* GroupOf(Pid pid) = 0;

  // Tells why GroupOf() returns no group at all until it looks again. nullopt: there is no reason.
  virtual std::optional<std::string> Trouble() const = 0;

  // GroupOf() is not to return this group before it has looked again. It does so within
  // kSurveyLasts, or later if a look takes long.
  virtual void Distrust(const std::string& path) = 0;
  static constexpr std::chrono::nanoseconds kSurveyLasts = std::chrono::seconds(5);

  // Tells which of the processes the group's ageing reaches now. Processes that are gone are
  // neither inside nor outside.
  virtual Result<Present> PresentIn(const std::string& path, std::span<const Pid> pids) = 0;

  // Returns the anonymous and shared memory of a process, as it was when it was first asked for
  // after the look of GroupOf(). A page that several processes map counts in parts.
  virtual std::optional<PageCount> ProportionalOf(Pid pid) = 0;

  // Clears the bits of all processes of the group, node by node. It passes by locked mappings and
  // hugetlb, pages of another group, a process whose mmap_lock is held for writing at that moment,
  // and a page table whose lock is held. It flushes nothing. It holds the mmap_lock for reading. If
  // it fails, some bits may have been cleared.
  virtual Status Age(const std::string& path) = 0;

  // Tells why bits are not to be cleared while processes of the group wait for memory. nullopt:
  // they do not wait, or the kernel does not report it.
  virtual std::optional<std::string> Pressure(const std::string& path) = 0;

  virtual std::vector<AgeingReach> ReachOf(const std::string& path,
                                           std::span<const std::uint64_t> frames) = 0;

  // Each memory node is walked by itself. nullopt: the frame's node is unknown.
  virtual std::optional<NodeId> NodeOf(std::uint64_t frame) const = 0;
};

// Returns the most that an ageing of the group walks: the entries of its processes' page tables,
// and the page cache.
PageCount WalkedBy(const MemcgAgeing::Group& group);

// The scanner does nothing else while a group is aged. The kernel holds a lock that reclaim waits
// for, too. 50 ms are some 700 000 pages.
inline constexpr std::chrono::nanoseconds kLongestAgeing = std::chrono::milliseconds(50);

// Returns the largest share of a group's memory that may belong to others than `ours`: members that
// are not among them, or files that nobody maps. `ours` holds each one's proportional memory.
double ForeignShare(const MemcgAgeing::Group& group, const std::map<Pid, PageCount>& ours);

// Tests have trees of their own.
struct AgeingFiles {
  std::string lru_gen = "/sys/kernel/debug/lru_gen";
  std::string lru_gen_enabled = "/sys/kernel/mm/lru_gen/enabled";
  std::string lru_gen_min_ttl = "/sys/kernel/mm/lru_gen/min_ttl_ms";
  std::string cgroups = "/sys/fs/cgroup";
  std::string proc = "/proc";
  std::string sys = "/sys";
};

// Fails where this kernel or this process cannot age memory, and says why.
Result<std::shared_ptr<MemcgAgeing>> OpenMemcgAgeing(
    const AgeingFiles& files = {},
    std::shared_ptr<const Clock> clock = std::make_shared<SystemClock>());

}  // namespace tmprof::abit
