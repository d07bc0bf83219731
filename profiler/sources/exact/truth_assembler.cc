// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/exact/truth_assembler.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "profiler/epoch_builder.h"

namespace tmprof::exact {

TargetId TruthAssembler::IdOf(const TruthTarget& target, std::size_t stream) {
  // A process keeps its id when it connects anew; one without a name is its stream's.
  const Process process = target.pid
                              ? Process{target.pid, target.start_time_ticks.value_or(0), 0, 0}
                              : Process{std::nullopt, 0, stream, target.number};
  return ids_.try_emplace(process, TargetId(static_cast<TargetId::rep>(ids_.size()))).first->second;
}

void TruthAssembler::Add(const TruthOrigin& origin, std::size_t stream, TruthEpoch epoch) {
  Join(origin, stream, std::move(epoch));
}

void TruthAssembler::AddUnended(const TruthOrigin& origin, std::size_t stream, TruthEpoch open) {
  std::vector<std::string> names;
  for (const TruthTarget& target : open.targets) {
    const std::string pid = target.pid ? fmt::format("process {}", target.pid->value())
                                       : fmt::format("target {}", target.number);
    names.push_back(
        fmt::format("{} ({})", pid, target.command.empty() ? target.name : target.command));
  }
  Pending& pending = Join(origin, stream, std::move(open));
  std::ranges::move(names, std::back_inserter(pending.unended));
}

TruthAssembler::Pending& TruthAssembler::Join(const TruthOrigin& origin, std::size_t stream,
                                              TruthEpoch epoch) {
  if (models_.empty()) {
    if (!origin.llc_model.empty()) models_ += "; modelled LLC: " + origin.llc_model;
    if (!origin.l2_model.empty()) models_ += "; modelled L2: " + origin.l2_model;
    if (!origin.dtlb_model.empty()) models_ += "; modelled dTLB: " + origin.dtlb_model;
    if (!origin.prefetcher_model.empty())
      models_ += "; modelled prefetcher: " + origin.prefetcher_model;
    if (!origin.stall_model.empty()) models_ += "; modelled stalls: " + origin.stall_model;
  }
  const std::uint64_t index = last_built_ ? std::max(epoch.index, *last_built_ + 1) : epoch.index;
  Pending& pending = pending_[index];
  pending.start = pending.start ? std::min(*pending.start, epoch.start) : epoch.start;
  pending.end = pending.end ? std::max(*pending.end, epoch.end) : epoch.end;

  std::map<std::uint32_t, TargetId> ids;
  for (TruthTarget& target : epoch.targets) {
    const TargetId id = IdOf(target, stream);
    ids[target.number] = id;
    pending.targets[id] = {.id = id,
                           .pid = target.pid.value_or(Pid(0)),
                           .start_time_ticks = target.start_time_ticks.value_or(0),
                           .name = std::move(target.name),
                           .command = std::move(target.command),
                           .exited = target.exited,
                           .cpu_time = std::nullopt,
                           .mappings = std::move(target.mappings)};
  }
  SourceStatus& status = pending.truth.status;
  std::uint64_t accesses = 0;
  pending.truth.accesses.reserve(pending.truth.accesses.size() + epoch.pages.size());
  for (const TruthPage& page : epoch.pages) {
    pending.truth.accesses.push_back(
        {.key = {ids.at(page.target), page.vpn}, .counts = page.counts, .node = page.node});
    accesses += page.counts.loads + page.counts.stores;
  }
  status.observations = status.observations.value_or(0) + accesses;
  status.lost = status.lost.value_or(0) + epoch.lost_accesses;
  pending.instructions += epoch.instructions;
  pending.counts_instructions &= origin.counts_instructions;
  pending.processes_not_followed += epoch.processes_not_followed;
  for (std::string& why : epoch.not_followed) {
    if (std::ranges::find(pending.not_followed, why) == pending.not_followed.end())
      pending.not_followed.push_back(std::move(why));
  }
  return pending;
}

std::optional<std::uint64_t> TruthAssembler::Waiting() const {
  if (pending_.empty()) return std::nullopt;
  return pending_.begin()->first;
}

EpochProfile TruthAssembler::Build(std::chrono::nanoseconds profiler_cpu_time) {
  TMPROF_CHECK(!pending_.empty());
  auto [index, pending] = std::move(*pending_.begin());
  pending_.erase(pending_.begin());
  SourceStatus& status = pending.truth.status;
  status.name = std::string(kind_.name);
  status.label = std::string(kind_.label) + models_;
  status.role = kind_.role;
  status.state = SourceState::kActive;
  status.duty_cycle = 1.0;
  if (pending.counts_instructions) status.details.push_back({"instructions", pending.instructions});
  if (pending.processes_not_followed > 0) {
    status.details.push_back({"processes_not_followed", pending.processes_not_followed});
    for (const std::string& why : pending.not_followed)
      status.note += (status.note.empty() ? "not followed: " : "; ") + why;
  }
  if (!pending.unended.empty()) {
    status.lost = std::nullopt;
    for (const std::string& process : pending.unended) {
      status.note +=
          (status.note.empty() ? "" : "; ") + process +
          " ended its stream early, as when killed: its accesses since its last epoch are lost";
    }
  }

  EpochFrame frame{.index = index,
                   .start = std::max(*pending.start, last_end_),
                   .end = std::max(*pending.end, last_end_),
                   .profiler_cpu_time = profiler_cpu_time};
  for (auto& [id, target] : pending.targets) frame.targets.push_back(std::move(target));
  last_built_ = index;
  last_end_ = frame.end;
  std::vector<SourceEpoch> sources;
  sources.push_back(std::move(pending.truth));
  return BuildEpoch(std::move(frame), std::move(sources));
}

}  // namespace tmprof::exact
