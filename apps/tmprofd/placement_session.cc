// SPDX-License-Identifier: Apache-2.0

#include "apps/tmprofd/placement_session.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "apps/tmprof/version.h"
#include "mover/automatic_balancing.h"
#include "mover/node_memory.h"
#include "mover/node_topology.h"
#include "profiler/recorder.h"

namespace tmprof {
namespace {

// Reading what binds memory walks all of its page tables (mover/memory_binding.h), and policies are
// set at a program's start.
constexpr std::chrono::seconds kBindingAge{60};
// ... or so many times what reading took, where that is more: whoever maps in the target waits for
// it, some 2 s where 100 GiB are mapped by base pages.
constexpr int kBindingRarity = 1000;
constexpr std::chrono::minutes kLongestBindingAge{10};
// Of the hit ratio: moves that would raise it by less are not worth ranking all pages for.
constexpr double kGainWorthLooking = 0.01;
// Of the pages in use, those that must have been looked at before it is believed that none of them
// would be worth a move.
constexpr double kEnoughLookedAt = 0.9;
// What becomes hot is then found some seconds later.
constexpr int kActiveSecondOf = 4;

TargetRules RulesOf(const TargetConfig& config) {
  TargetRules rules{.commands = config.commands,
                    .executables = config.executables,
                    .cgroups = config.cgroups,
                    .pids = config.pids};
  if (config.Everything()) rules.any = config.tracking.filter;
  return rules;
}

PlacerOptions OptionsOf(const Config& config, const Tiers& tiers) {
  return {.tiers = tiers,
          .capacity = config.tiers.capacity,
          .lower_capacities = config.tiers.lower_capacities,
          .reserve = config.tiers.reserve,
          .ranker = config.placement.ranker,
          .rank = config.placement.rank,
          .policy = config.placement.policy,
          .most_pages = config.mover.most_pages_per_epoch,
          .hysteresis = config.mover.hysteresis,
          .cool_down_epochs = config.mover.cool_down_epochs,
          .cost_of_move = config.mover.cost_of_move};
}

std::string Text(const Tiers& tiers) {
  std::string text;
  for (std::size_t number = 1; number <= tiers.size(); ++number) {
    text += fmt::format("{}tier {}:", number == 1 ? "" : "; ", number);
    for (const NodeId node : tiers.NodesOf(Tier(static_cast<Tier::rep>(number)))) {
      text += fmt::format(" node {}", node.value());
    }
  }
  return text;
}

// Whether any source could be attached to any target.
bool Observed(const EpochProfile& epoch) {
  return std::ranges::any_of(epoch.sources,
                             [](const SourceStatus& source) {
                               return source.state != SourceState::kUnavailable;
                             }) &&
         std::ranges::any_of(epoch.targets, [](const Target& target) { return !target.exited; });
}

// "12 (active 50 %)", of the source that has accessed bits; "unknown" without one.
std::string ReferencesOf(const EpochProfile& epoch) {
  for (const SourceStatus& source : epoch.sources) {
    if (source.role != SourceRole::kReferences) continue;
    return fmt::format(
        "{} (active {})", source.observations ? fmt::format("{}", *source.observations) : "unknown",
        source.duty_cycle ? fmt::format("{:.0f} %", 100 * *source.duty_cycle) : "unknown");
  }
  return "unknown";
}

}  // namespace

Result<std::unique_ptr<PlacementSession>> PlacementSession::Open(Config config, const Log& log,
                                                                 DaemonStatus& status,
                                                                 StatusBoard& board) {
  std::optional<Tiers> tiers = config.tiers.given;
  if (!tiers) {
    const auto topology = ReadNodeTopology();
    if (!topology) return Fail(topology.error());
    auto discovered = DiscoverTiers(*topology);
    if (!discovered) return Fail(discovered.error());
    log(LogLevel::kInfo, fmt::format("{}, by {}", Text(discovered->tiers), discovered->evidence));
    tiers = std::move(discovered->tiers);
  }
  auto sources = OpenSources(config.profile.sources);
  if (!sources) return Fail(sources.error());
  if (!config.placement.track_only) {
    if (auto rival = WarningOfAutomaticBalancing()) sources->warnings.push_back(*std::move(rival));
  }
  for (const std::string& warning : sources->warnings) log(LogLevel::kWarning, warning);
  std::unique_ptr<PlacementSession> session(new PlacementSession(
      std::move(config), *std::move(tiers), *std::move(sources), log, status, board));
  for (const Pid pid : session->finder_.missing()) {
    log(LogLevel::kWarning, fmt::format("no process has the number {}", pid.value()));
  }
  return session;
}

PlacementSession::PlacementSession(Config config, Tiers tiers, SessionSources sources,
                                   const Log& log, DaemonStatus& status, StatusBoard& board)
    : config_(std::move(config)),
      tiers_(std::move(tiers)),
      sources_(std::move(sources)),
      log_(log),
      status_(status),
      board_(board),
      pacer_(config_.profile.epoch, config_.profile.max_cpu_share),
      finder_(procfs_, ProcessCpuTime, RulesOf(config_.targets), Pid(::getpid())),
      placer_(OptionsOf(config_, tiers_), locator_, cpu_clock_),
      mover_(std::make_unique<MoveThread>(config_.mover.limits, call_, clock_,
                                          [this](TargetId target) { return live_.Find(target); })) {
  status_.warnings = sources_.warnings;
}

Status PlacementSession::BeginLedger() {
  utsname system{};
  uname(&system);
  auto ledger = LedgerKeeper::Begin(
      config_.ledger,
      {.tool_version = std::string("tmprof ") + kVersion,
       .kernel_release = system.release,
       .wall_start = std::chrono::time_point_cast<std::chrono::system_clock::duration>(
           std::chrono::system_clock::now()),
       .start = clock_.Now(),
       .epoch_length = config_.profile.epoch,
       .tiers = tiers_,
       .rank_model = std::string(Name(config_.placement.ranker.model)),
       .policy = std::string(config_.placement.policy->name),
       .dry_run = config_.mover.limits.dry_run,
       .warnings = sources_.warnings});
  if (!ledger) return Fail(ledger.error());
  ledger_ = *std::move(ledger);
  return {};
}

Status PlacementSession::Run(const std::function<bool()>& stop_requested,
                             std::vector<int> stop_fds) {
  TargetTracker::Options tracking = config_.targets.tracking;
  tracking.observer = Pid(::getpid());
  if (config_.targets.Everything()) tracking.follow_children = false;  // the finder finds them, too
  TargetTracker tracker(procfs_, ProcessCpuTime, tracking);
  PollWaiter waiter;
  Recorder recorder(
      {.epoch = config_.profile.epoch, .wait_for_targets = true},
      {.clock = clock_,
       .waiter = waiter,
       .targets = tracker,
       .own_cpu_time = OwnCpuTime,
       .stop_requested = stop_requested,
       .stop_fds = std::move(stop_fds),
       .gate = [this](GateLook look,
                      std::optional<double> stall_share) { return Gate(look, stall_share); },
       .epoch_length = [this] { return pacer_.Next(); },
       .find_targets = [&](MonotonicTime now) { FindTargets(tracker, now); },
       .on_targets = [this](const std::vector<TrackedProcess>& now) { FollowTargets(now); },
       .on_source_failure =
           [this](const Error& error) { log_(LogLevel::kWarning, error.Message()); }},
      std::move(sources_.sources), std::move(sources_.unavailable));
  const auto ended = recorder.Run([this](const EpochProfile& epoch) { return EndEpoch(epoch); });
  EndMoving();
  if (!ended) return Fail(ended.error());
  return {};
}

// By whole seconds, in which the ladder of exposures gets some way.
GateVerdict PlacementSession::Gate(GateLook look, std::optional<double> memory_stall_share) {
  GateVerdict verdict = sources_.gate ? sources_.gate(look, memory_stall_share) : GateVerdict{};
  if (!may_rest_ || !pacer_.futile() || !verdict.references_active) return verdict;
  const auto now = std::chrono::floor<std::chrono::seconds>(clock_.Now().time_since_epoch());
  if (now.count() % kActiveSecondOf == 0) return verdict;
  verdict.references_active = false;
  verdict.references_basis =
      fmt::format("active one second of {}, as no moves that pay are found", kActiveSecondOf);
  return verdict;
}

// What was moved since the last epoch's end has been moved, too.
void PlacementSession::EndMoving() {
  mover_->Pause();
  const std::uint64_t dropped = mover_->Replace({}).size();
  std::vector<MoveOutcome> outcomes = mover_->TakeOutcomes();
  CountMoves(outcomes, placer_.Learn(outcomes, status_.epoch ? status_.epoch->index + 1 : 0));
  if (const Status status = ledger_->End(std::move(outcomes), dropped); !status) {
    log_(LogLevel::kError, status.error().Message());
  }
}

void PlacementSession::FindTargets(TargetTracker& tracker, MonotonicTime now) {
  const TargetFinder::Findings found = finder_.Look(now);
  for (const Error& error : tracker.Follow(found.targets)) {
    log_(LogLevel::kWarning, error.Message());
  }
}

void PlacementSession::FollowTargets(const std::vector<TrackedProcess>& targets) {
  own_cpus_.MakeWayFor(targets);
  live_.Follow(targets);
  tracked_ = targets;
}

const MemoryBinding* PlacementSession::BindingOf(TargetId target, Pid pid) {
  const MonotonicTime now = clock_.Now();
  const auto known = bindings_.find(target);
  if (known == bindings_.end() || now >= known->second.stale) {
    auto memory = ReadMemoryBinding(pid);
    if (!memory) {
      log_(LogLevel::kDebug, memory.error().Message());
    }
    const std::chrono::nanoseconds took = clock_.Now() - now;
    const std::chrono::nanoseconds age =
        memory ? std::clamp<std::chrono::nanoseconds>(took * kBindingRarity, kBindingAge,
                                                      kLongestBindingAge)
               : kBindingAge;
    bindings_[target] = {memory ? std::optional(*std::move(memory)) : std::nullopt, now + age};
  }
  const std::optional<MemoryBinding>& memory = bindings_[target].memory;
  return memory ? &*memory : nullptr;
}

// Those that are alive now. A number that has become another's in between tells nothing that is
// used: what moves asks for the process itself.
std::vector<PlacedTarget> PlacementSession::PlacedTargets() {
  std::vector<PlacedTarget> placed;
  for (const TrackedProcess& target : tracked_) {
    if (!live_.Find(target.id)) continue;
    PlacedTarget& added = placed.emplace_back(target.id, target.pid);
    for (const Mapping& mapping : target.mappings) {
      if (mapping.kind != MappingKind::kSpecial) added.mapped.push_back(mapping.range);
    }
    added.binding = BindingOf(target.id, target.pid);
  }
  std::erase_if(bindings_, [&placed](const auto& binding) {
    return !std::ranges::binary_search(placed, binding.first, {}, &PlacedTarget::id);
  });
  return placed;
}

Status PlacementSession::EndEpoch(const EpochProfile& epoch) {
  has_observed_ = has_observed_ || Observed(epoch);
  const MonotonicTime before = cpu_clock_.Now();
  const bool paid = Place(epoch);
  pacer_.Note(epoch.length(), cpu_clock_.Now() - before, paid);
  if (pacer_.overdrawn() && !std::exchange(told_overdrawn_, true)) {
    log_(LogLevel::kWarning,
         fmt::format("ranking and deciding take more than profile.max_cpu_share, {}, of a CPU even "
                     "in epochs of a minute",
                     config_.profile.max_cpu_share));
  }
  return {};
}

bool PlacementSession::Place(const EpochProfile& epoch) {
  // Nothing moves while it is decided what is to: all that was moved is known.
  const std::uint64_t replaced = mover_->Replace({}).size();
  std::vector<MoveOutcome> outcomes = mover_->TakeOutcomes();
  CountMoves(outcomes, placer_.Learn(outcomes, epoch.index));
  std::vector<NodeMemory> memory;
  if (auto read = ReadNodeMemory()) {
    memory = *std::move(read);
  } else {
    log_(LogLevel::kError, read.error().Message() + "; no node is taken to have room meanwhile");
  }
  const std::vector<PlacedTarget> targets = PlacedTargets();
  PlacementDecision decision = placer_.Decide(epoch, targets, memory);
  const bool paid =
      !decision.gain || *decision.gain >= kGainWorthLooking || decision.not_moved.over_quota > 0;
  may_rest_ = !config_.placement.track_only && decision.looked_at >= kEnoughLookedAt;
  if (!config_.placement.track_only) {
    LogDecision(epoch, targets.size(), decision, outcomes.size());
    mover_->Replace(decision.moves);
  }
  std::vector<TargetId> observed;
  for (const TrackedProcess& target : tracked_) observed.push_back(target.id);
  const Status kept = ledger_->Note(epoch, observed, decision.not_moved, replaced,
                                    std::move(outcomes), placer_.table(), placer_.scores());
  if (!kept) {
    status_.warnings.push_back(kept.error().Message() + "; moving goes on without a ledger");
    log_(LogLevel::kError, status_.warnings.back());
  }
  UpdateStatus(epoch, memory, targets, decision);
  return paid;
}

void PlacementSession::LogDecision(const EpochProfile& epoch, std::size_t targets,
                                   const PlacementDecision& decision, std::size_t over) const {
  const std::string text = fmt::format(
      "epoch {}: {} targets, {} pages wanted of {}, {} moves decided, for {:.3f} of the accesses, "
      "{} over; {:.2f} of the pages were looked at lately, references {}",
      epoch.index, targets, decision.wanted.value(), decision.capacity.value(),
      decision.moves.size(), decision.gain.value_or(0), over, decision.looked_at,
      ReferencesOf(epoch));
  log_({.level = LogLevel::kDebug,
        .text = text,
        .figures = {{"epoch", epoch.index},
                    {"targets", targets},
                    {"wanted_pages", decision.wanted.value()},
                    {"capacity_pages", decision.capacity.value()},
                    {"moves", decision.moves.size()},
                    {"gain", OrNull(decision.gain)},
                    {"moves_over", over},
                    {"looked_at", decision.looked_at}}});
}

DaemonState PlacementSession::StateNow() const {
  if (config_.placement.track_only) return DaemonState::kTrackOnly;
  if (mover_->paused()) return DaemonState::kPaused;
  return config_.mover.limits.dry_run ? DaemonState::kDryRun : DaemonState::kRunning;
}

void PlacementSession::PublishState() {
  const std::scoped_lock lock(publishing_);
  board_.Amend([state = StateNow()](DaemonStatus& status) { status.state = state; });
}

void PlacementSession::CountMoves(const std::vector<MoveOutcome>& outcomes, std::uint64_t undone) {
  for (const MoveOutcome& outcome : outcomes) status_.totals.Add(outcome, tiers_);
  status_.totals.ping_pong += undone;
}

void PlacementSession::UpdateStatus(const EpochProfile& epoch, std::span<const NodeMemory> memory,
                                    const std::vector<PlacedTarget>& targets,
                                    const PlacementDecision& decision) {
  status_.epoch = EpochStatus{.index = epoch.index, .length = epoch.length()};
  ++status_.epochs_total;
  status_.targets.clear();
  for (const PlacedTarget& target : targets) {
    TargetStatus& added = status_.targets.emplace_back(target.id, target.pid);
    PageCount placed;
    for (const auto& [start, run] : placer_.map().RunsOf(target.id)) placed += run.pages.size();
    added.tracked = placed;
    added.in_tier1 = placer_.map().PagesIn(target.id, tiers_, kTier1);
    const auto known = std::ranges::find(epoch.targets, target.id, &Target::id);
    if (known == epoch.targets.end()) continue;
    added.name = known->name;
    added.cpu_time = known->cpu_time;
  }
  status_.tiers.clear();
  for (std::size_t number = 1; number <= tiers_.size(); ++number) {
    TierStatus& tier = status_.tiers.emplace_back(Tier(static_cast<Tier::rep>(number)));
    const std::span<const NodeId> nodes = tiers_.NodesOf(tier.tier);
    tier.nodes.assign(nodes.begin(), nodes.end());
    if (tier.tier == kTier1) {
      tier.capacity = decision.capacity;
    } else if (number - 2 < decision.lower_capacities.size()) {
      tier.capacity = decision.lower_capacities[number - 2];
    }
    PageCount used;
    for (const PlacedTarget& target : targets) {
      used += placer_.map().PagesIn(target.id, tiers_, tier.tier);
    }
    tier.used = used;
    for (const NodeMemory& node : memory) {
      if (tiers_.TierOf(node.id) != tier.tier) continue;
      tier.free = tier.free.value_or(PageCount(0)) + node.free;
    }
  }
  std::vector<ObservingSource> sources;
  for (const SourceStatus& source : epoch.sources) {
    const auto before = std::ranges::find_if(status_.sources, [&](const ObservingSource& known) {
      return known.last_epoch.name == source.name && known.last_epoch.role == source.role;
    });
    std::optional<std::uint64_t> lost =
        before == status_.sources.end() ? std::optional<std::uint64_t>(0) : before->lost_total;
    lost = lost && source.lost ? std::optional(*lost + *source.lost) : std::nullopt;
    sources.push_back({source, lost});
  }
  status_.sources = std::move(sources);
  status_.decision = DecisionStatus{
      .wanted = decision.wanted, .moves = decision.moves.size(), .not_moved = decision.not_moved};
  status_.pending_moves = mover_->pending();
  status_.own_cpu_time = OwnCpuTime();
  status_.tier1_hit_ratio = decision.hit_ratio;
  const std::scoped_lock lock(publishing_);
  status_.state = StateNow();
  board_.Publish(status_);
}

}  // namespace tmprof
