// SPDX-License-Identifier: Apache-2.0
// On which nodes the pages of a process are now.

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
  // Runs within `range`, ascending. What is in none of them is in no memory, or is mapped more than
  // once and not whole in a part of `joint`, as a library's text is: it then is nobody's to be
  // moved. `joint` ascends, and its parts do not touch. Fails with ESRCH where the process is gone.
  virtual Result<std::vector<PlacedRun>> Locate(Pid pid, VpnRange range,
                                                std::span<const VpnRange> joint) = 0;
};

// By /proc/PID/pagemap, which tells what is there, and move_pages(2), which tells where. Leaves are
// told by pagemap, too, since Linux 6.7 (PAGEMAP_SCAN(2const)), and by /proc/kpageflags, which
// takes CAP_SYS_ADMIN; what neither tells of is taken for base pages.
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
  // Takes those off `joint` that end before the last entry.
  void FindLeaves(int pagemap, Vpn first, const std::vector<std::uint64_t>& entries,
                  std::span<const VpnRange>& joint, std::vector<Leaf>& leaves) const;

  MoveCall* call_;
  std::filesystem::path proc_root_;
  UniqueFd page_flags_;  // may be none
};

}  // namespace tmprof
