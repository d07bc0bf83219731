// SPDX-License-Identifier: Apache-2.0

#include "report/whole_trace.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "report/format.h"

namespace tmprof {
namespace {

// Adds up one source. A term counts only for epochs in which the source was on.
class SourceSum {
 public:
  explicit SourceSum(const SourceStatus& first) {
    total_.name = first.name;
    total_.role = first.role;
  }

  void Add(const SourceStatus& status, std::chrono::nanoseconds length) {
    total_.label = status.label;
    total_.state = std::min(total_.state, status.state);  // declared from the most to the least
    if (!status.note.empty()) total_.note = status.note;
    if (status.duty_cycle) {
      active_seconds_ += *status.duty_cycle * Seconds(length);
      known_seconds_ += Seconds(length);
    }
    if (status.state == SourceState::kActive) {
      observations_.Add(status.observations);
      lost_.Add(status.lost);
    }
    for (const NamedCount& detail : status.details) {
      const auto known = std::ranges::find(total_.details, detail.name, &NamedCount::name);
      if (known == total_.details.end()) {
        total_.details.push_back(detail);
      } else {
        known->count += detail.count;
      }
    }
  }

  SourceTotal Take() && {
    if (known_seconds_ > 0) total_.active_ratio = active_seconds_ / known_seconds_;
    total_.observations = observations_.value();
    total_.lost = lost_.value();
    return std::move(total_);
  }

 private:
  class OptionalSum {
   public:
    void Add(std::optional<std::uint64_t> term) {
      if (!term) known_ = false;
      sum_ = sum_.value_or(0) + term.value_or(0);
    }
    std::optional<std::uint64_t> value() const { return known_ ? sum_ : std::nullopt; }

   private:
    bool known_ = true;
    std::optional<std::uint64_t> sum_;
  };

  SourceTotal total_;
  double active_seconds_ = 0;
  double known_seconds_ = 0;
  OptionalSum observations_;
  OptionalSum lost_;
};

struct TargetSum {
  TargetTotal total;
  std::chrono::nanoseconds cpu_time_or_length{0};  // the ranker's own rule for unknown CPU time
  bool cpu_time_known = true;

  void Add(const Target& target, std::chrono::nanoseconds length) {
    total.id = target.id;
    total.pid = target.pid;
    total.name = target.name;
    total.command = target.command;
    total.exited = target.exited;
    cpu_time_known = cpu_time_known && target.cpu_time.has_value();
    cpu_time_or_length += target.cpu_time.value_or(length);
  }
};

// A sampler's observations have an address; what it took besides stands in its details.
std::string SampleShares(const SourceTotal& sampler) {
  const std::optional<std::uint64_t> no_address = sampler.Detail("no_address");
  const std::optional<std::uint64_t> kernel_mode = sampler.Detail("kernel_mode");
  if (!sampler.observations || (!no_address && !kernel_mode)) return "";
  const std::uint64_t taken =
      *sampler.observations + no_address.value_or(0) + kernel_mode.value_or(0);
  if (taken == 0) return "";
  const auto share = [taken](std::uint64_t count) {
    return Percent(static_cast<double>(count) / static_cast<double>(taken));
  };
  return fmt::format("of {} samples, {} have no address, {} fell in the kernel", Grouped(taken),
                     OrUnknown(no_address, share), OrUnknown(kernel_mode, share));
}

}  // namespace

std::optional<std::uint64_t> SourceTotal::Detail(std::string_view detail) const {
  const auto found = std::ranges::find(details, detail, &NamedCount::name);
  return found == details.end() ? std::nullopt : std::optional(found->count);
}

const TargetTotal* TraceTotals::FindTarget(TargetId id) const {
  const auto found = std::ranges::lower_bound(targets, id, {}, &TargetTotal::id);
  return found != targets.end() && found->id == id ? &*found : nullptr;
}

bool TraceTotals::Delivered(SourceRole role) const {
  return std::ranges::any_of(sources, [role](const SourceTotal& source) {
    return source.role == role && source.state == SourceState::kActive;
  });
}

bool Accessed(const Evidence& evidence) {
  return evidence.references > 0 || evidence.samples() > 0 || evidence.accesses > 0;
}

Result<WholeTrace> ReadWholeTrace(const Trace& trace, RankModel model, EpochRange epochs) {
  WholeTrace whole{.totals = {.trace = trace.name, .info = trace.info},
                   .ranker = Ranker({.model = model, .memory = Ranker::Memory::kEverything})};
  TraceTotals& totals = whole.totals;
  std::vector<SourceSum> sources;
  std::vector<std::string> source_names;
  std::map<TargetId, TargetSum> targets;
  std::uint64_t next_index = 0;

  Result<ReadEnd> end = ReadEpochs(trace, epochs, [&](const EpochProfile& epoch) {
    if (totals.epochs == 0) {
      totals.start = epoch.start;
      totals.first_index = epoch.index;
    } else if (epoch.index > next_index) {
      totals.lost_epochs += epoch.index - next_index;
    }
    next_index = epoch.index + 1;
    totals.stop = epoch.end;
    ++totals.epochs;
    totals.profiler_cpu_time += epoch.profiler_cpu_time;
    for (const SourceStatus& status : epoch.sources) {
      const auto known = std::ranges::find(source_names, status.name);
      const auto at = static_cast<std::size_t>(known - source_names.begin());
      if (known == source_names.end()) {
        source_names.push_back(status.name);
        sources.emplace_back(status);
      }
      sources[at].Add(status, epoch.length());
    }
    for (const Target& target : epoch.targets) targets[target.id].Add(target, epoch.length());
    whole.ranker.Absorb(epoch);
  });
  if (!end) return Fail(std::move(end.error()));
  totals.end = std::move(*end);

  for (SourceSum& source : sources) totals.sources.push_back(std::move(source).Take());

  // Scores are estimates for the last absorbed epoch: one without evidence that lasts as long as
  // all of them together asks for the whole trace, also on behalf of targets that ended early.
  EpochProfile closing;
  closing.index = next_index;
  closing.start = totals.start;
  closing.end = totals.stop;
  for (auto& [id, target] : targets) {
    if (target.cpu_time_known) target.total.cpu_time = target.cpu_time_or_length;
    Target& all = closing.targets.emplace_back();
    all.id = id;
    all.pid = target.total.pid;
    all.cpu_time = target.cpu_time_or_length;
    totals.targets.push_back(std::move(target.total));
  }
  if (totals.epochs > 0) whole.ranker.Absorb(closing);
  return whole;
}

std::vector<std::string> Caveats(const TraceTotals& totals, RankSource source) {
  std::vector<std::string> caveats;
  if (totals.end.finished == false) {
    caveats.push_back("the recorder was stopped before it could finish this trace");
  }
  if (source == RankSource::kReferences) return caveats;
  for (const SourceTotal& sampler : totals.sources) {
    if (sampler.role != SourceRole::kSamples) continue;
    const std::string shares = SampleShares(sampler);
    if (!shares.empty()) caveats.push_back(Printable(sampler.name) + ": " + shares);
  }
  return caveats;
}

std::string ScoreUnit(const TraceTotals& totals, RankModel model, RankSource source) {
  if (source == RankSource::kTruth) return "accesses";
  if (model == RankModel::kRate) {
    // Only accessed bits tie the scale to accesses (Ranker::Score).
    const bool bits = source != RankSource::kSamples && totals.Delivered(SourceRole::kReferences);
    return bits ? "accesses (estimated)" : "samples (expected)";
  }
  return source == RankSource::kCombined ? "references + samples" : std::string(Name(source));
}

}  // namespace tmprof
