// SPDX-License-Identifier: Apache-2.0
// Warns of settings of this machine that hinder moves.

#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/move.h"
#include "base/result.h"

namespace tmprof {

class MoveHindrances {
 public:
  // `may_move_joint` is MayMoveJointPages(), which does not change while a process runs. `warn` is
  // told of each hindrance when it begins. `balancing` is the setting of
  // WarningOfAutomaticBalancing().
  MoveHindrances(Status may_move_joint, std::function<void(const std::string&)> warn,
                 std::filesystem::path balancing = "/proc/sys/kernel/numa_balancing");

  // Looks if the kernel moves pages, too: operators turn that on and off while the daemon runs. If
  // no moves are decided, nothing is in their way.
  void Look(bool decides_moves);
  // Takes what a decision did not move.
  void Note(const NotMoved& not_moved);

  bool moves_joint() const { return may_move_joint_.has_value(); }
  // Returns a warning for each of them that there is now.
  std::vector<std::string> Warnings() const;

 private:
  Status may_move_joint_;
  std::function<void(const std::string&)> warn_;
  std::filesystem::path balancing_;
  std::optional<std::string> rival_;        // nullopt: the kernel moves no page
  std::optional<std::string> shared_stay_;  // nullopt: no shared page was to be moved
};

}  // namespace tmprof
