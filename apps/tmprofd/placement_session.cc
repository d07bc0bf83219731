// SPDX-License-Identifier: Apache-2.0

#include "apps/tmprofd/placement_session.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <utility>

#include "apps/tmprofd/config_file.h"
#include "base/check.h"
#include "base/host/node_memory.h"
#include "base/host/node_topology.h"
#include "base/version.h"
#include "mover/automatic_balancing.h"
#include "mover/joint_moves.h"
#include "mover/policy_iterator.h"
#include "profiler/recorder.h"
#include "rank/rank_weight.h"

namespace tmprof {
namespace {

// Gain in the hit ratio below which moves are not worth ranking all pages for.
constexpr double kGainWorthLooking = 0.01;
// Share of the pages in use that must have been looked at before it is believed that none of them
// would be worth a move.
constexpr double kEnoughLookedAt = 0.9;
// Pages that become hot are then found some seconds later.
constexpr int kActiveSecondOf = 4;

TargetRules RulesOf(const TargetConfig& config) {
  TargetRules rules{.commands = config.commands,
                    .executables = config.executables,
                    .cgroups = config.cgroups,
                    .pids = config.pids};
  if (config.Everything()) rules.any = config.tracking.filter;
  return rules;
}

TargetTracker::Options TrackingOf(const TargetConfig& config) {
  TargetTracker::Options tracking = config.tracking;
  tracking.observer = Pid(::getpid());
  if (config.Everything()) tracking.follow_children = false;  // the finder finds them, too
  return tracking;
}

PlacerOptions OptionsOf(const Config& config, const Tiers& tiers, const LatencyGaps& gaps,
                        bool moves_joint) {
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
          .cost_of_move = config.mover.cost_of_move,
          .gaps = gaps,
          .dry_run = config.mover.limits.dry_run,
          .moves_joint = moves_joint};
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

std::vector<std::vector<NodeId>> NodesByTierOf(const Tiers& tiers) {
  std::vector<std::vector<NodeId>> nodes;
  for (std::size_t number = 1; number <= tiers.size(); ++number) {
    const std::span<const NodeId> of_tier = tiers.NodesOf(Tier(static_cast<Tier::rep>(number)));
    nodes.emplace_back(of_tier.begin(), of_tier.end());
  }
  return nodes;
}

void LogGaps(const Log& log, const LatencyGaps& gaps, const Tiers& tiers) {
  for (std::size_t number = 2; number <= tiers.size(); ++number) {
    const LatencyGap gap = gaps.Of(Tier(static_cast<Tier::rep>(number)));
    log(LogLevel::kInfo,
        fmt::format("an access takes {:.0f} ns longer in tier {} than in tier 1 ({})", gap.ns,
                    number, Name(gap.basis)));
  }
}

std::unique_ptr<PolicyReader> OpenPolicyReader(const Log& log) {
  auto iterator = OpenPolicyIterator();
  if (iterator) return *std::move(iterator);
  log(LogLevel::kInfo, iterator.error().Message() + "; /proc/PID/numa_maps is read instead");
  return std::make_unique<NumaMapsReader>();
}

// True: a source could be attached to a target.
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
  const auto topology = ReadNodeTopology();
  if (!tiers) {
    if (!topology) return Fail(topology.error());
    auto discovered = DiscoverTiers(*topology);
    if (!discovered) return Fail(discovered.error());
    log(LogLevel::kInfo, fmt::format("{}, by {}", Text(discovered->tiers), discovered->evidence));
    tiers = std::move(discovered->tiers);
  }
  std::vector<std::optional<double>> latencies;
  if (topology) {
    latencies = LatenciesOf(*topology, NodesByTierOf(*tiers));
  } else if (!config.mover.latency_gap_ns) {
    log(LogLevel::kWarning, topology.error().Message() + "; latency gaps are assumed");
  }
  // A daemon starts rarely and uses its figures for as long as it runs.
  SourceChoice choice = config.profile.sources;
  choice.calibrates = true;
  auto sources = OpenSources(choice);
  if (!sources) return Fail(sources.error());
  for (const std::string& warning : sources->warnings) log(LogLevel::kWarning, warning);
  std::unique_ptr<PolicyReader> policies = OpenPolicyReader(log);
  std::unique_ptr<PlacementSession> session(
      new PlacementSession(std::move(config), *std::move(tiers), std::move(latencies),
                           *std::move(sources), std::move(policies), log, status, board));
  return session;
}

PlacementSession::PlacementSession(Config config, Tiers tiers,
                                   std::vector<std::optional<double>> latencies,
                                   SessionSources sources, std::unique_ptr<PolicyReader> policies,
                                   const Log& log, DaemonStatus& status, StatusBoard& board)
    : config_(std::move(config)),
      tiers_(std::move(tiers)),
      latencies_(std::move(latencies)),
      sources_(std::move(sources)),
      log_(log),
      status_(status),
      board_(board),
      pacer_(config_.profile.epoch, config_.profile.max_cpu_share),
      policies_(std::move(policies)),
      tracker_(procfs_, ProcessCpuTime, TrackingOf(config_.targets)),
      may_move_joint_(MayMoveJointPages()),
      placer_(OptionsOf(config_, tiers_, GapsBy(config_), may_move_joint_.has_value()), locator_,
              cpu_clock_),
      mover_(std::make_unique<MoveThread>(
          config_.mover.limits, call_, clock_,
          [this](TargetId target) { return live_.Find(target); },
          MoveThread::Bindings{
              .find = [this](TargetId target) { return bindings_.ForMoving(target); },
              .read =
                  [this](TargetId target) {
                    if (const auto pid = live_.Find(target)) {
                      bindings_.Read(target, *pid);
                    }
                  }},
          [this](Pid pid, std::span<const Vpn> pages) {
            return live_mappings_.FilesAt(pid, pages);
          })) {
  status_.gaps = GapsBy(config_);
  LogGaps(log_, status_.gaps, tiers_);
  LookForRival();
  FindBy(config_.targets);
}

LatencyGaps PlacementSession::GapsBy(const Config& config) const {
  return GapsOf(latencies_, config.mover.latency_gap_ns);
}

void PlacementSession::FindBy(const TargetConfig& targets) {
  finder_.emplace(procfs_, ProcessCpuTime, RulesOf(targets), Pid(::getpid()));
  for (const Pid pid : finder_->missing()) {
    log_(LogLevel::kWarning, fmt::format("no process has the number {}", pid.value()));
  }
}

// Operators set it while the daemon runs.
void PlacementSession::LookForRival() {
  std::optional<std::string> rival;
  if (!config_.placement.track_only) rival = WarningOfAutomaticBalancing();
  if (rival && rival != rival_) log_(LogLevel::kWarning, *rival);
  rival_ = std::move(rival);
  status_.warnings = Warnings();
  if (without_ledger_) status_.warnings.push_back(*without_ledger_);
}

std::vector<std::string> PlacementSession::Warnings() const {
  std::vector<std::string> warnings = sources_.warnings;
  if (rival_) warnings.push_back(*rival_);
  if (shared_stay_) warnings.push_back(*shared_stay_);
  return warnings;
}

void PlacementSession::GoOnWithoutLedger(const Error& error) {
  without_ledger_ = error.Message() + "; moving goes on without a ledger";
  log_(LogLevel::kError, *without_ledger_);
}

LedgerInfo PlacementSession::LedgerInfoFor(const Config& config) const {
  utsname system{};
  uname(&system);
  return {.tool_version = std::string("tmprof ") + kVersion,
          .kernel_release = system.release,
          .wall_start = std::chrono::time_point_cast<std::chrono::system_clock::duration>(
              std::chrono::system_clock::now()),
          .start = clock_.Now(),
          .epoch_length = config.profile.epoch,
          .tiers = tiers_,
          .rank_model = std::string(Name(config.placement.ranker.model)),
          .policy = std::string(config.placement.policy->name),
          .dry_run = config.mover.limits.dry_run,
          .settings = SettingsOf(GapsBy(config), tiers_.size()),
          .warnings = Warnings()};
}

Status PlacementSession::BeginLedger() {
  auto ledger = LedgerKeeper::Begin(config_.ledger, LedgerInfoFor(config_));
  if (!ledger) return Fail(ledger.error());
  ledger_ = *std::move(ledger);
  without_ledger_.reset();
  return {};
}

// If a new ledger cannot be begun, one for the configuration that is in force is begun anew.
Status PlacementSession::RenewLedger(const Config& config) {
  LedgerInfo info = LedgerInfoFor(config);
  const LedgerInfo before = LedgerInfoFor(config_);
  info.wall_start = before.wall_start;
  info.start = before.start;
  if (info == before && config.ledger == config_.ledger) return {};
  std::optional<LedgerKeeper> another;
  // Beside the one that is written, where it is another file: what cannot be written ends nothing.
  if (config.ledger.file != config_.ledger.file) {
    auto begun = LedgerKeeper::Begin(config.ledger, info);
    if (!begun) return Fail(begun.error());
    another = *std::move(begun);
  }
  std::vector<MoveOutcome> outcomes = mover_->TakeOutcomes();
  CountMoves(outcomes, placer_.Learn(outcomes, status_.epoch ? status_.epoch->index + 1 : 0));
  if (const Status ended = ledger_->End(std::move(outcomes), std::exchange(dropped_, 0)); !ended) {
    log_(LogLevel::kError, ended.error().Message());
  }
  if (another) {
    ledger_ = *std::move(another);
    without_ledger_.reset();
    return {};
  }
  auto begun = LedgerKeeper::Begin(config.ledger, std::move(info));
  if (begun) {
    ledger_ = *std::move(begun);
    without_ledger_.reset();
    return {};
  }
  if (const Status again = BeginLedger(); !again) GoOnWithoutLedger(again.error());
  return Fail(begun.error());
}

Status PlacementSession::Adopt(Config config) {
  TMPROF_CHECK(ObserveAlike(config_, config));
  // Decisions until now were made by the configuration in force, so they are in no ledger of the
  // next one.
  const bool moves_alike = config.mover.limits.dry_run == config_.mover.limits.dry_run &&
                           config.placement.track_only == config_.placement.track_only;
  std::vector<Move> pending;
  if (!moves_alike) pending = mover_->Replace({});
  if (Status renewed = RenewLedger(config); !renewed) {
    if (!moves_alike) mover_->Replace(std::move(pending));
    return renewed;
  }
  dropped_ += pending.size();
  const Config before = std::exchange(config_, std::move(config));
  if (config_.targets != before.targets) {
    FindBy(config_.targets);
    tracker_.Configure(TrackingOf(config_.targets));
  }
  pacer_.Configure(config_.profile.epoch, config_.profile.max_cpu_share);
  told_overdrawn_ = false;
  placer_.Configure(OptionsOf(config_, tiers_, GapsBy(config_), may_move_joint_.has_value()));
  status_.gaps = GapsBy(config_);
  mover_->Configure(config_.mover.limits);
  LookForRival();
  const std::scoped_lock lock(publishing_);
  board_.Amend([this](DaemonStatus& status) {
    status.state = StateNow();
    status.warnings = status_.warnings;
  });
  return {};
}

Status PlacementSession::Run(const std::function<bool()>& stop_requested,
                             std::vector<int> stop_fds) {
  PollWaiter waiter;
  Recorder recorder(
      {.epoch = config_.profile.epoch, .wait_for_targets = true},
      {.clock = clock_,
       .waiter = waiter,
       .targets = tracker_,
       .own_cpu_time = OwnCpuTime,
       .stop_requested = stop_requested,
       .stop_fds = std::move(stop_fds),
       .gate = [this](GateLook look,
                      std::optional<double> stall_share) { return Gate(look, stall_share); },
       .epoch_length = [this] { return pacer_.Next(); },
       .find_targets = [this](MonotonicTime now) { FindTargets(now); },
       .on_targets = [this](const std::vector<TrackedProcess>& now) { FollowTargets(now); },
       .on_source_failure =
           [this](const Error& error) { log_(LogLevel::kWarning, error.Message()); }},
      std::move(sources_.sources), std::move(sources_.unavailable));
  const auto ended = recorder.Run([this](const EpochProfile& epoch) { return EndEpoch(epoch); });
  EndMoving();
  if (!ended) return Fail(ended.error());
  return {};
}

// Rests for whole seconds, in which the ladder of exposures gets some way.
GateVerdict PlacementSession::Gate(GateLook look, std::optional<double> memory_stall_share) {
  GateVerdict verdict = sources_.gate ? sources_.gate(look, memory_stall_share) : GateVerdict{};
  if (!may_rest_ || !pacer_.futile() || !verdict.references_active) return verdict;
  const auto now = std::chrono::floor<std::chrono::seconds>(clock_.Now().time_since_epoch());
  if (now.count() % kActiveSecondOf == 0) return verdict;
  verdict.references_active = false;
  verdict.may_come_on_early =
      !verdict.samples_active;  // whole seconds are no matter of early looks
  verdict.references_basis =
      fmt::format("active one second of {}, as no moves that pay are found", kActiveSecondOf);
  return verdict;
}

// Moves since the last epoch's end are reported, too.
void PlacementSession::EndMoving() {
  mover_->Pause();
  const std::uint64_t dropped = mover_->Replace({}).size() + dropped_;
  std::vector<MoveOutcome> outcomes = mover_->TakeOutcomes();
  CountMoves(outcomes, placer_.Learn(outcomes, status_.epoch ? status_.epoch->index + 1 : 0));
  if (const Status status = ledger_->End(std::move(outcomes), dropped); !status) {
    log_(LogLevel::kError, status.error().Message());
  }
}

void PlacementSession::FindTargets(MonotonicTime now) {
  const TargetFinder::Findings found = finder_->Look(now);
  for (const Error& error : tracker_.Follow(found.targets)) {
    log_(LogLevel::kWarning, error.Message());
  }
}

void PlacementSession::FollowTargets(const std::vector<TrackedProcess>& targets) {
  own_cpus_.MakeWayFor(targets);
  live_.Follow(targets);
  tracked_ = targets;
}

LiveBindings::Shared PlacementSession::BindingOf(TargetId target, Pid pid) {
  auto binding = bindings_.ForDeciding(target, pid);
  if (binding) {
    unreadable_.erase(target);
    return *std::move(binding);
  }
  const Error& refusal = binding.error();
  if (refusal.system_error != ESRCH && unreadable_.insert(target).second) {
    log_(LogLevel::kWarning, refusal.Message() + "; none of its pages is moved meanwhile");
  }
  return nullptr;
}

bool PlacementSession::JoinsSegments(const TrackedProcess& target) const {
  const bool has_segment = std::ranges::any_of(target.mappings, [](const Mapping& mapping) {
    return mapping.kind == MappingKind::kShared && mapping.path.starts_with("/SYSV");
  });
  if (!has_segment) return true;
  return target.ipc_namespace && target.ipc_namespace == procfs_.IpcNamespace(Pid(::getpid()));
}

// Those that are alive now. A number that has become another's in between gives no figure that is
// used: what moves asks for the process itself.
std::vector<PlacedTarget> PlacementSession::PlacedTargets() {
  std::vector<PlacedTarget> placed;
  decided_by_.clear();
  for (const TrackedProcess& target : tracked_) {
    if (!live_.Find(target.id)) continue;
    PlacedTarget& added = placed.emplace_back(target.id, target.pid);
    for (const Mapping& mapping : target.mappings) {
      if (mapping.kind != MappingKind::kSpecial) added.mapped.push_back(mapping.range);
    }
    if (const auto stat = procfs_.Stat(target.pid)) added.resident = stat->resident;
    added.joins_segments = JoinsSegments(target);
    added.binding = decided_by_.emplace_back(BindingOf(target.id, target.pid)).get();
  }
  std::vector<TargetId> ids;
  for (const PlacedTarget& target : placed) ids.push_back(target.id);
  bindings_.KeepOnly(ids);
  std::erase_if(unreadable_,
                [&ids](TargetId known) { return !std::ranges::binary_search(ids, known); });
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
  // No page moves while the next moves are decided, so the outcomes of all earlier ones are known.
  const std::uint64_t replaced = mover_->Replace({}).size() + std::exchange(dropped_, 0);
  std::vector<MoveOutcome> outcomes = mover_->TakeOutcomes();
  CountMoves(outcomes, placer_.Learn(outcomes, epoch.index));
  WatchPromotions(outcomes, epoch.index);
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
  CheckPromotions(epoch, targets, decision);
  if (!config_.placement.track_only) {
    LogDecision(epoch, targets.size(), decision, outcomes.size());
    WarnOfSharedPages(decision.not_moved);
    mover_->Replace(decision.moves);
  }
  std::vector<TargetId> observed;
  for (const TrackedProcess& target : tracked_) observed.push_back(target.id);
  const Status kept =
      ledger_->Note(epoch, observed, decision.not_moved, replaced, std::move(outcomes),
                    decision.rank, placer_.table(), placer_.scores(), placer_.owners());
  if (!kept) GoOnWithoutLedger(kept.error());
  LookForRival();
  UpdateStatus(epoch, memory, targets, decision);
  return paid;
}

void PlacementSession::LogDecision(const EpochProfile& epoch, std::size_t targets,
                                   const PlacementDecision& decision, std::size_t over) const {
  const std::string text = fmt::format(
      "epoch {}: {}, {} wanted of {}, {} decided, for {:.3f} of the {}, "
      "{} over, predicted to save {} s of memory time a second; {:.2f} of the pages were "
      "looked "
      "at lately, references {}",
      epoch.index, CountText(targets, "target"), CountText(decision.wanted),
      Grouped(decision.capacity.value()), CountText(decision.moves.size(), "move"),
      decision.gain.value_or(0), AccessesOf(decision.rank), over,
      decision.saved_per_second ? fmt::format("{:.3g}", *decision.saved_per_second) : "unknown",
      decision.looked_at, ReferencesOf(epoch));
  log_({.level = LogLevel::kDebug,
        .text = text,
        .figures = {{"epoch", epoch.index},
                    {"targets", targets},
                    {"wanted_pages", decision.wanted.value()},
                    {"capacity_pages", decision.capacity.value()},
                    {"moves", decision.moves.size()},
                    {"gain", OrNull(decision.gain)},
                    {"ranked_by", Name(decision.rank)},
                    {"rank_weight", Name(WeightOf(decision.rank))},
                    {"predicted_saved_s_per_s", OrNull(decision.saved_per_second)},
                    {"promotions_checked", status_.savings.promotions},
                    {"predicted_saved_s", status_.savings.predicted_seconds},
                    {"realised_saved_s", status_.savings.realised_seconds},
                    {"moves_over", over},
                    {"looked_at", decision.looked_at}}});
}

void PlacementSession::WarnOfSharedPages(const NotMoved& not_moved) {
  if (not_moved.shared == 0 || shared_stay_ || may_move_joint_) return;
  shared_stay_ =
      "pages that several processes map stay where they are: " + may_move_joint_.error().Message();
  log_(LogLevel::kWarning, *shared_stay_);
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

// A dry run's promotions are as good: what they would save follows from the pages' accesses.
void PlacementSession::WatchPromotions(const std::vector<MoveOutcome>& outcomes,
                                       std::uint64_t epoch) {
  if (!decided_over_ || decided_over_->count() <= 0) return;
  // Scores that are no accesses predict no time.
  if (!status_.decision || !status_.decision->saved_per_second) return;
  for (const MoveOutcome& outcome : outcomes) {
    const Move& move = outcome.move;
    const bool is_supposed = config_.mover.limits.dry_run && outcome.error == ECANCELED;
    if (outcome.error != 0 && !is_supposed) continue;
    const std::optional<Tier> from = tiers_.TierOf(move.from);
    if (tiers_.TierOf(move.to) == kTier1 && from && *from != kTier1) {
      calibration_.Promoted(move, *decided_over_, status_.gaps.Of(*from).ns, epoch);
    } else {
      calibration_.Moved(move);
    }
  }
}

void PlacementSession::CheckPromotions(const EpochProfile& epoch,
                                       const std::vector<PlacedTarget>& targets,
                                       const PlacementDecision& decision) {
  std::vector<TargetId> known = placer_.owners().Files();
  for (const PlacedTarget& target : targets) known.push_back(target.id);
  std::ranges::sort(known);
  for (const TargetId before : std::exchange(calibrated_, std::move(known))) {
    if (!std::ranges::binary_search(calibrated_, before)) calibration_.Forget(before);
  }
  if (status_.ranked_by && *status_.ranked_by != decision.rank) calibration_.ForgetAll();
  if (calibration_.watches_any()) {
    calibration_.Observe(epoch.index, epoch.length(),
                         SeenSpansOf(epoch, placer_.table(), placer_.scores(), placer_.owners()),
                         WhatNoRecordMeans(epoch));
  }
  decided_over_ = epoch.length();
  status_.savings = calibration_.savings();
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
  status_.decision = DecisionStatus{.wanted = decision.wanted,
                                    .moves = decision.moves.size(),
                                    .saved_per_second = decision.saved_per_second,
                                    .not_moved = decision.not_moved};
  status_.pending_moves = mover_->pending();
  status_.own_cpu_time = OwnCpuTime();
  status_.tier1_hit_ratio = decision.hit_ratio;
  if (status_.ranked_by && *status_.ranked_by != decision.rank) {
    log_(LogLevel::kInfo, fmt::format("pages are ranked by {} from now on: {}",
                                      AccessesOf(decision.rank), Name(decision.rank)));
  }
  status_.ranked_by = decision.rank;
  const std::scoped_lock lock(publishing_);
  status_.state = StateNow();
  board_.Publish(status_);
}

}  // namespace tmprof
