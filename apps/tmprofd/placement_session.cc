// SPDX-License-Identifier: Apache-2.0

#include "apps/tmprofd/placement_session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <utility>

#include "apps/tmprofd/config_file.h"
#include "base/check.h"
#include "base/host/node_memory.h"
#include "base/host/node_topology.h"
#include "daemon/placement/observation.h"
#include "mover/joint_moves.h"
#include "mover/policy_iterator.h"

namespace tmprof {
namespace {

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

StatusReporter::Mode ModeOf(const Config& config) {
  return {.track_only = config.placement.track_only, .dry_run = config.mover.limits.dry_run};
}

}  // namespace

Result<std::unique_ptr<PlacementSession>> PlacementSession::Open(Config config, const Log& log,
                                                                 DaemonStatus& status,
                                                                 StatusBoard& board) {
  auto tiers = SessionTiersOf(config.tiers.given, config.mover.latency_gap_ns.has_value(),
                              ReadNodeTopology());
  if (!tiers) return Fail(tiers.error());
  if (!tiers->found.empty()) log(LogLevel::kInfo, tiers->found);
  if (!tiers->warning.empty()) log(LogLevel::kWarning, tiers->warning);
  // A daemon starts rarely and uses its figures for as long as it runs.
  SourceChoice choice = config.profile.sources;
  choice.calibrates = true;
  auto sources = OpenSources(choice);
  if (!sources) return Fail(sources.error());
  for (const std::string& warning : sources->warnings) log(LogLevel::kWarning, warning);
  auto [policies, why_slower] = OpenPolicyReader();
  if (!why_slower.empty()) log(LogLevel::kInfo, why_slower);
  return std::unique_ptr<PlacementSession>(
      new PlacementSession(std::move(config), *std::move(tiers), *std::move(sources),
                           std::move(policies), log, status, board));
}

PlacementSession::PlacementSession(Config config, SessionTiers tiers, SessionSources sources,
                                   std::unique_ptr<PolicyReader> policies, const Log& log,
                                   DaemonStatus& status, StatusBoard& board)
    : config_(std::move(config)),
      tiers_(std::move(tiers)),
      sources_(std::move(sources)),
      log_(log),
      warn_([this](const std::string& warning) { log_(LogLevel::kWarning, warning); }),
      policies_(std::move(policies)),
      found_(procfs_, ProcessCpuTime, RulesOf(config_.targets), TrackingOf(config_.targets)),
      placed_(live_, procfs_, bindings_, warn_),
      hindrances_(MayMoveJointPages(), warn_),
      decider_(DecidingBy(config_), locator_, cpu_clock_),
      mover_(
          config_.mover.limits, call_, clock_,
          [this](TargetId target) { return live_.Find(target); },
          MoveThread::Bindings{
              .find = [this](TargetId target) { return bindings_.ForMoving(target); },
              .read =
                  [this](TargetId target) {
                    if (const auto pid = live_.Find(target)) bindings_.Read(target, *pid);
                  }},
          [this](Pid pid, std::span<const Vpn> pages) {
            return live_mappings_.FilesAt(pid, pages);
          }),
      ledger_([this](const std::string& error) { log_(LogLevel::kError, error); }),
      reporter_(
          tiers_.tiers, ModeOf(config_), [this] { return mover_.paused(); }, log_, status, board) {
  const LatencyGaps gaps = GapsBy(config_);
  for (const std::string& text : GapTexts(gaps, tiers_.tiers)) log_(LogLevel::kInfo, text);
  hindrances_.Look(!config_.placement.track_only);
  reporter_.Begin(gaps, AllWarnings());
  WarnOfMissing();
}

LatencyGaps PlacementSession::GapsBy(const Config& config) const {
  return GapsOf(tiers_.latencies, config.mover.latency_gap_ns);
}

DeciderOptions PlacementSession::DecidingBy(const Config& config) const {
  return {.placer = {.tiers = tiers_.tiers,
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
                     .gaps = GapsBy(config),
                     .dry_run = config.mover.limits.dry_run,
                     .moves_joint = hindrances_.moves_joint()},
          .shortest_epoch = config.profile.epoch,
          .max_cpu_share = config.profile.max_cpu_share,
          .track_only = config.placement.track_only};
}

LedgerInfo PlacementSession::LedgerInfoFor(const Config& config) const {
  LedgerInfo info = NewLedgerInfo(tiers_.tiers, clock_.Now());
  info.epoch_length = config.profile.epoch;
  info.rank_model = Name(config.placement.ranker.model);
  info.policy = config.placement.policy->name;
  info.dry_run = config.mover.limits.dry_run;
  info.settings = SettingsOf(GapsBy(config), tiers_.tiers.size());
  info.warnings = Warnings();
  return info;
}

std::vector<std::string> PlacementSession::Warnings() const {
  std::vector<std::string> warnings = sources_.warnings;
  for (std::string& warning : hindrances_.Warnings()) warnings.push_back(std::move(warning));
  return warnings;
}

std::vector<std::string> PlacementSession::AllWarnings() const {
  std::vector<std::string> warnings = Warnings();
  if (ledger_.without()) warnings.push_back(*ledger_.without());
  return warnings;
}

void PlacementSession::WarnOfMissing() const {
  for (const Pid pid : found_.missing()) {
    warn_(fmt::format("no process has the number {}", pid.value()));
  }
}

Status PlacementSession::BeginLedger() {
  return ledger_.Begin(config_.ledger, LedgerInfoFor(config_));
}

Status PlacementSession::Adopt(Config config) {
  TMPROF_CHECK(ObserveAlike(config_, config));
  // Decisions until now were made by the configuration in force, so they are in no ledger of the
  // next one.
  const bool moves_alike = config.mover.limits.dry_run == config_.mover.limits.dry_run &&
                           config.placement.track_only == config_.placement.track_only;
  std::vector<Move> pending;
  if (!moves_alike) pending = orders_.Withdraw();
  if (Status renewed = ledger_.Renew(config.ledger, LedgerInfoFor(config),
                                     [this] { return Learn(orders_.Settle()); });
      !renewed) {
    if (!moves_alike) orders_.Order(std::move(pending));
    return renewed;
  }
  orders_.Drop(pending);
  const Config before = std::exchange(config_, std::move(config));
  if (config_.targets != before.targets) {
    found_.Configure(RulesOf(config_.targets), TrackingOf(config_.targets));
    WarnOfMissing();
  }
  decider_.Configure(DecidingBy(config_));
  mover_.Configure(config_.mover.limits);
  hindrances_.Look(!config_.placement.track_only);
  reporter_.Configure(ModeOf(config_), GapsBy(config_), AllWarnings());
  return {};
}

// Targets are observed by sources, which the gate turns on and off; each epoch's profile leads to a
// decision, which is moved and reported.
Status PlacementSession::Run(const std::function<bool()>& stop_requested,
                             std::vector<int> stop_fds) {
  PollWaiter waiter;
  Recorder recorder(
      {.epoch = config_.profile.epoch, .wait_for_targets = true},
      {.clock = clock_,
       .waiter = waiter,
       .targets = found_.tracker(),
       .own_cpu_time = OwnCpuTime,
       .stop_requested = stop_requested,
       .stop_fds = std::move(stop_fds),
       .gate = [this](GateLook look,
                      std::optional<double> stall_share) { return Gate(look, stall_share); },
       .epoch_length = [this] { return decider_.NextEpoch(); },
       .find_targets = [this](MonotonicTime now) { FindTargets(now); },
       .on_targets = [this](const auto& now) { FollowTargets(now); },
       .on_source_failure = [this](const Error& error) { warn_(error.Message()); },
       .open_frames = [](const Target& target) { return OpenPagemap(target); }},
      std::move(sources_.sources), std::move(sources_.unavailable));
  const auto ended = recorder.Run([this](const EpochProfile& epoch) -> Status {
    EndEpoch(epoch);
    return {};
  });
  ledger_.End(Learn(orders_.End()));  // moves since the last epoch's end are reported, too
  if (!ended) return Fail(ended.error());
  return {};
}

void PlacementSession::FindTargets(MonotonicTime now) {
  for (const Error& error : found_.Look(now)) warn_(error.Message());
}

void PlacementSession::FollowTargets(const std::vector<TrackedProcess>& targets) {
  own_cpus_.MakeWayFor(targets);
  placed_.Follow(targets);
}

GateVerdict PlacementSession::Gate(GateLook look, std::optional<double> memory_stall_share) const {
  GateVerdict verdict = sources_.gate ? sources_.gate(look, memory_stall_share) : GateVerdict{};
  if (decider_.may_rest()) verdict.holds_until_samples = false;
  if (!verdict.references_active || !decider_.RestsAt(clock_.Now())) return verdict;
  verdict.references_active = false;
  verdict.may_come_on_early =
      !verdict.samples_active;  // whole seconds are no matter of early looks
  verdict.references_basis =
      fmt::format("active one second of {}, as no moves that pay are found", Rest::kActiveSecondOf);
  return verdict;
}

void PlacementSession::EndEpoch(const EpochProfile& epoch) {
  has_observed_ = has_observed_ || IsObserved(epoch);
  const MonotonicTime before = cpu_clock_.Now();
  Place(epoch);
  if (decider_.Pace(epoch.length(), cpu_clock_.Now() - before)) {
    warn_(
        fmt::format("ranking and deciding take more than profile.max_cpu_share, {}, of a CPU even "
                    "in epochs of a minute",
                    config_.profile.max_cpu_share));
  }
}

void PlacementSession::Place(const EpochProfile& epoch) {
  next_epoch_ = epoch.index;
  SettledMoves settled = Learn(orders_.Stop());
  const std::size_t moves_over = settled.outcomes.size();
  decider_.Watch(settled.outcomes, epoch.index);
  const std::vector<NodeMemory> memory = MemoryNow();
  const std::vector<PlacedTarget> targets = placed_.Now();
  PlacementDecision decision = decider_.Decide(epoch, targets, memory);
  decided_ = {.index = epoch.index, .length = epoch.length()};
  ranked_model_ = config_.placement.ranker.model;
  EpochReport report = ReportOf(epoch, targets, memory, decision);
  report.moves_over = moves_over;
  if (!config_.placement.track_only) {
    reporter_.LogDecision(report);
    hindrances_.Note(decision.not_moved);
    orders_.Order(std::move(decision.moves));
  }
  ledger_.Note(epoch, placed_.observed(), std::move(settled), decision, decider_.placer());
  hindrances_.Look(!config_.placement.track_only);
  report.pending_moves = mover_.pending();
  report.own_cpu_time = OwnCpuTime();
  report.warnings = AllWarnings();
  reporter_.Publish(report);
  next_epoch_ = epoch.index + 1;
}

Result<HotList> PlacementSession::Hottest(std::size_t most) {
  // Scores of another rank model are none of this one's.
  if (!decided_ || ranked_model_ != config_.placement.ranker.model) {
    return Fail(Error{.kind = ErrorKind::kRefused,
                      .attempt = "list the hottest spans",
                      .object = "",
                      .reason = "no epoch has ended yet that this configuration ranked",
                      .advice = "ask again in some seconds"});
  }
  return HotList{.epoch = decided_->index,
                 .epoch_length = decided_->length,
                 .model = ranked_model_,
                 .by = decider_.placer().ranked_by(),
                 .ranked = decider_.placer().ranked_spans(),
                 .spans = decider_.Hottest(most),
                 .processes = {}};
}

std::vector<NodeMemory> PlacementSession::MemoryNow() const {
  auto read = ReadNodeMemory();
  if (read) return *std::move(read);
  log_(LogLevel::kError, read.error().Message() + "; no node is taken to have room meanwhile");
  return {};
}

SettledMoves PlacementSession::Learn(SettledMoves settled) {
  reporter_.CountMoves(settled.outcomes, decider_.Learn(settled.outcomes, next_epoch_));
  return settled;
}

EpochReport PlacementSession::ReportOf(const EpochProfile& epoch,
                                       std::span<const PlacedTarget> targets,
                                       std::span<const NodeMemory> memory,
                                       const PlacementDecision& decision) const {
  EpochReport report{.epoch = epoch,
                     .map = decider_.placer().map(),
                     .memory = memory,
                     .targets = {},
                     .capacities = {decision.capacity},
                     .decision = {.wanted = decision.wanted,
                                  .moves = decision.moves.size(),
                                  .saved_per_second = decision.saved_per_second,
                                  .not_moved = decision.not_moved},
                     .rank = decision.rank,
                     .gain = decision.gain,
                     .hit_ratio = decision.hit_ratio,
                     .looked_at = decision.looked_at,
                     .savings = decider_.savings(),
                     .warnings = {}};
  for (const PlacedTarget& target : targets) report.targets.emplace_back(target.id, target.pid);
  for (const auto& capacity : decision.lower_capacities) report.capacities.push_back(capacity);
  return report;
}

}  // namespace tmprof
