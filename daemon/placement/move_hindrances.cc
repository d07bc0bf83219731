// SPDX-License-Identifier: Apache-2.0

#include "daemon/placement/move_hindrances.h"

#include <utility>

#include "mover/automatic_balancing.h"

namespace tmprof {

MoveHindrances::MoveHindrances(Status may_move_joint, std::function<void(const std::string&)> warn,
                               std::filesystem::path balancing)
    : may_move_joint_(std::move(may_move_joint)),
      warn_(std::move(warn)),
      balancing_(std::move(balancing)) {}

void MoveHindrances::Look(bool decides_moves) {
  std::optional<std::string> rival;
  if (decides_moves) rival = WarningOfAutomaticBalancing(balancing_);
  if (rival && rival != rival_) warn_(*rival);
  rival_ = std::move(rival);
}

void MoveHindrances::Note(const NotMoved& not_moved) {
  if (not_moved.shared == 0 || shared_stay_ || may_move_joint_) return;
  shared_stay_ =
      "pages that several processes map stay where they are: " + may_move_joint_.error().Message();
  warn_(*shared_stay_);
}

std::vector<std::string> MoveHindrances::Warnings() const {
  std::vector<std::string> warnings;
  if (rival_) warnings.push_back(*rival_);
  if (shared_stay_) warnings.push_back(*shared_stay_);
  return warnings;
}

}  // namespace tmprof
