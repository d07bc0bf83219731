// SPDX-License-Identifier: Apache-2.0
// The file by which the kernel's multi-generational LRU reports its generations and is made to age
// them: /sys/kernel/debug/lru_gen (Documentation/admin-guide/mm/multigen_lru.rst, Linux 6.1).

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace tmprof::abit {

// Holds the memory of one memory cgroup, without that of the memory cgroups below it.
struct LruGenGroup {
  struct Node {
    std::int32_t number = 0;
    std::uint64_t youngest = 0;  // number of the youngest generation
  };
  std::uint64_t id = 0;
  std::string path;  // relative to the root of the hierarchy, which is "/"
  std::vector<Node> nodes;
  // Pages of all nodes.
  PageCount anonymous{0};  // shared memory included
  PageCount file{0};
};

// Returns the groups in the order of their paths. Lines that are cut off or malformed are left out,
// and so are nodes without generations. If one path stands twice, the first of its cgroups has been
// removed: the second counts.
std::vector<LruGenGroup> ParseLruGen(std::string_view text);

// Returns the group that is charged for what processes of this cgroup allocate: its own, or that of
// the nearest cgroup above that has one. Null: there is none. `groups`: in the order of their
// paths.
const LruGenGroup* ChargedGroup(const std::vector<LruGenGroup>& groups, std::string_view cgroup);

class LruGenFile {
 public:
  virtual ~LruGenFile() = default;
  virtual Result<std::string> Read() = 0;
  virtual int Write(std::string_view command) = 0;  // errno, or 0
};

// Makes the kernel age all nodes of a group by one generation, which clears the accessed bits that
// its page-table walk reaches. A node that another thread of the kernel has aged more than once
// meanwhile is asked for again, a few times. If that thread has aged it exactly once, the file
// looks as after an ageing of ours: success is no proof, so that the caller looks at some bits.
//
// Fails with ENOENT if there is no such group, or with what the kernel says. Some nodes may have
// been aged all the same.
Status AgeGroup(LruGenFile& file, std::string_view path);

}  // namespace tmprof::abit
