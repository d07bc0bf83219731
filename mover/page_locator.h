// SPDX-License-Identifier: Apache-2.0
// Finds the nodes on which the pages of a process are now.

#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "base/units.h"
#include "mover/page_mover.h"
#include "mover/placement_map.h"

namespace tmprof {

class PageLocator {
 public:
  virtual ~PageLocator() = default;
  // Returns runs within `range`, ascending. Pages outside of the runs are not in memory, or may not
  // be moved. The latter are pages that are mapped more than once and not whole within a part of
  // `joint`, for instance the text of a library. `joint` ascends, and its parts do not touch. Fails
  // with ESRCH if the process is gone.
  virtual Result<std::vector<PlacedRun>> Locate(Pid pid, VpnRange range,
                                                std::span<const VpnRange> joint) = 0;
};

// Finds present pages by /proc/PID/pagemap and their nodes by move_pages(2). Leaves are found by
// pagemap since Linux 6.7 (PAGEMAP_SCAN(2const)), and by /proc/kpageflags, which takes
// CAP_SYS_ADMIN. Else pages are taken for base pages.
class LinuxPageLocator final : public PageLocator {
 public:
  explicit LinuxPageLocator(MoveCall& call, std::filesystem::path proc_root = "/proc");

  Result<std::vector<PlacedRun>> Locate(Pid pid, VpnRange range,
                                        std::span<const VpnRange> joint) override;

 private:
  struct Leaf {
    Vpn first;
    PageCount pages;
    bool joint;
  };

  bool IsHugeByFrames(const std::uint64_t* entries) const;
  // Removes parts from `joint` that end before the last entry.
  void FindLeaves(int pagemap, Vpn first, const std::vector<std::uint64_t>& entries,
                  std::span<const VpnRange>& joint, std::vector<Leaf>& leaves) const;

  MoveCall* call_;
  std::filesystem::path proc_root_;
  UniqueFd page_flags_;  // closed if /proc/kpageflags cannot be read
};

}  // namespace tmprof
