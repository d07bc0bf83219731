// SPDX-License-Identifier: Apache-2.0

#include "daemon/placement/placed_targets.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace tmprof {

PlacedTargets::PlacedTargets(LiveTargets& live, const ProcFs& procfs, LiveBindings& bindings,
                             std::function<void(const std::string&)> warn)
    : live_(&live), procfs_(&procfs), bindings_(&bindings), warn_(std::move(warn)) {}

void PlacedTargets::Follow(std::vector<TrackedProcess> targets) {
  live_->Follow(targets);
  tracked_ = std::move(targets);
}

std::vector<TargetId> PlacedTargets::observed() const {
  std::vector<TargetId> ids;
  for (const TrackedProcess& target : tracked_) ids.push_back(target.id);
  return ids;
}

LiveBindings::Shared PlacedTargets::BindingOf(TargetId target, Pid pid) {
  auto binding = bindings_->ForDeciding(target, pid);
  if (binding) {
    unreadable_.erase(target);
    return *std::move(binding);
  }
  const Error& refusal = binding.error();
  if (refusal.system_error != ESRCH && unreadable_.insert(target).second) {
    warn_(refusal.Message() + "; none of its pages is moved meanwhile");
  }
  return nullptr;
}

bool PlacedTargets::JoinsSegments(const TrackedProcess& target) const {
  const bool has_segment = std::ranges::any_of(target.mappings, [](const Mapping& mapping) {
    return mapping.kind == MappingKind::kShared && mapping.path.starts_with("/SYSV");
  });
  if (!has_segment) return true;
  return target.ipc_namespace && target.ipc_namespace == procfs_->IpcNamespace(Pid(::getpid()));
}

std::vector<PlacedTarget> PlacedTargets::Now() {
  std::vector<PlacedTarget> placed;
  std::vector<TargetId> ids;
  referred_.clear();
  for (const TrackedProcess& target : tracked_) {
    if (!live_->Find(target.id)) continue;
    ids.push_back(target.id);
    PlacedTarget& added = placed.emplace_back(target.id, target.pid);
    for (const Mapping& mapping : target.mappings) {
      if (mapping.kind != MappingKind::kSpecial) added.mapped.push_back(mapping.range);
    }
    if (const auto stat = procfs_->Stat(target.pid)) added.resident = stat->resident;
    added.joins_segments = JoinsSegments(target);
    added.binding = referred_.emplace_back(BindingOf(target.id, target.pid)).get();
  }
  bindings_->KeepOnly(ids);
  std::erase_if(unreadable_,
                [&ids](TargetId known) { return !std::ranges::binary_search(ids, known); });
  return placed;
}

}  // namespace tmprof
