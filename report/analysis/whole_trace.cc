// SPDX-License-Identifier: Apache-2.0

#include "report/analysis/whole_trace.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/text/format.h"
#include "rank/memory_traffic.h"
#include "report/analysis/hit_rate_text.h"

namespace tmprof {
namespace {

// Those SourceStatus::details that are a state at the end of an epoch and not a number of events in
// it. The same pages are counted again in the next epoch.
constexpr std::string_view kLevels[] = {"unclearable_pages", "regions", "region_bytes"};

// True if two texts differ only in their numbers.
bool SameButForNumbers(std::string_view a, std::string_view b) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  auto in_a = a.begin();
  auto in_b = b.begin();
  while (in_a != a.end() && in_b != b.end()) {
    if (is_digit(*in_a) && is_digit(*in_b)) {
      in_a = std::find_if_not(in_a, a.end(), is_digit);
      in_b = std::find_if_not(in_b, b.end(), is_digit);
    } else if (*in_a++ != *in_b++) {
      return false;
    }
  }
  return in_a == a.end() && in_b == b.end();
}

// Adds up one source. A term counts only for epochs in which the source was on.
class SourceSum {
 public:
  explicit SourceSum(const SourceStatus& first) {
    total_.name = first.name;
    total_.role = first.role;
    total_.samples_of = first.samples_of;
  }

  void Add(const SourceStatus& status, const EpochProfile& epoch) {
    ++total_.epochs;
    total_.label = status.label;
    // Declared from the most to the least active.
    total_.state = std::min(total_.state, status.state);
    if (!status.note.empty()) AddNote(status.note, epoch.index);
    const bool is_off = status.state == SourceState::kUnavailable;
    if (status.duty_cycle || is_off) {
      active_seconds_ += status.duty_cycle.value_or(0) * Seconds(epoch.length());
      known_seconds_ += Seconds(epoch.length());
    }
    if (!is_off) {
      if (!opened_) total_.accesses_per_sample = status.accesses_per_sample;
      if (total_.accesses_per_sample != status.accesses_per_sample)
        total_.accesses_per_sample.reset();
      opened_ = true;
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
        const bool is_level = std::ranges::find(kLevels, detail.name) != std::end(kLevels);
        known->count =
            is_level ? std::max(known->count, detail.count) : known->count + detail.count;
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

  void AddNote(const std::string& text, std::uint64_t index) {
    auto known = std::ranges::find_if(total_.notes, [&text](const SourceNote& note) {
      return SameButForNumbers(note.text, text);
    });
    if (known == total_.notes.end()) {
      known = total_.notes.insert(known, {.text = text, .first_index = index});
    }
    known->text = text;
    known->last_index = index;
    ++known->epochs;
  }

  SourceTotal total_;
  bool opened_ = false;  // it was not unavailable in some epoch
  double active_seconds_ = 0;
  double known_seconds_ = 0;
  OptionalSum observations_;
  OptionalSum lost_;
};

struct TargetSum {
  TargetTotal total;
  std::chrono::nanoseconds cpu_time_sum{0};
  bool cpu_time_known = true;

  void Add(const Target& target) {
    total.id = target.id;
    total.pid = target.pid;
    total.start_time_ticks = target.start_time_ticks;
    total.name = target.name;
    total.command = target.command;
    total.exited = target.exited;
    cpu_time_known = cpu_time_known && target.cpu_time.has_value();
    cpu_time_sum += target.cpu_time.value_or(std::chrono::nanoseconds(0));
  }
};

// Describes a sampler's observations, which have an address, and the other samples in its details.
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
  return fmt::format("of {}, {} have no address, {} fell in the kernel", CountText(taken, "sample"),
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

TargetTotal TraceTotals::TargetOf(TargetId id) const {
  const TargetTotal* target = FindTarget(id);
  return target != nullptr ? *target : TargetTotal{.id = id};
}

bool TraceTotals::IsOf(TargetId id, std::optional<Pid> pid) const {
  if (!pid) return true;
  const TargetTotal* target = FindTarget(id);
  return target != nullptr && target->pid == *pid;
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
  WholeTrace whole{.totals = {.trace = trace.name, .info = trace.info, .notes = trace.notes},
                   .ranker = TotalRanker(model, trace.llc_bytes),
                   .known = KnownEvidence(trace.llc_bytes.has_value())};
  TraceTotals& totals = whole.totals;
  std::vector<SourceSum> sources;
  std::vector<std::string> source_names;
  std::map<TargetId, TargetSum> targets;
  std::uint64_t next_index = 0;
  std::vector<std::chrono::nanoseconds> lengths;

  SampleScale scale;
  Result<StreamEnd> end = ReadEpochs(trace, epochs, [&](const EpochProfile& epoch) {
    scale.Look(epoch);
    if (totals.epochs == 0) {
      totals.start = epoch.start;
      totals.first_index = epoch.index;
    } else if (epoch.index > next_index) {
      totals.lost_epochs += epoch.index - next_index;
    }
    next_index = epoch.index + 1;
    totals.stop = epoch.end;
    lengths.push_back(epoch.length());
    ++totals.epochs;
    totals.profiler_cpu_time += epoch.profiler_cpu_time;
    totals.most_resident = std::max(totals.most_resident, ResidentPages(epoch));
    for (const SourceStatus& status : epoch.sources) {
      const auto known = std::ranges::find(source_names, status.name);
      const auto at = static_cast<std::size_t>(known - source_names.begin());
      if (known == source_names.end()) {
        source_names.push_back(status.name);
        sources.emplace_back(status);
      }
      sources[at].Add(status, epoch);
    }
    for (const Target& target : epoch.targets) targets[target.id].Add(target);
    for (std::size_t i = 0; i < epoch.pages.size(); ++i) {
      if (epoch.pages.looks[i] > 0 && !IsOneEntry(epoch.pages.span_pages[i])) {
        targets[epoch.pages.target[i]].total.by_regions = true;
      }
    }
    whole.ranker.Absorb(epoch);
    whole.known.Look(epoch);
  });
  if (!end) return Fail(std::move(end.error()));
  totals.end = std::move(*end);
  totals.accesses_per_sample = scale.accesses_per_sample();
  if (!whole.known.SamplesTellMemory()) totals.modelled_llc_bytes = trace.llc_bytes;

  if (!lengths.empty()) {
    const auto tenth = lengths.begin() + static_cast<std::ptrdiff_t>(lengths.size() / 10);
    std::ranges::nth_element(lengths, tenth);
    totals.short_epoch = *tenth;
  }

  for (SourceSum& source : sources) totals.sources.push_back(std::move(source).Take());

  for (auto& [id, target] : targets) {
    if (target.cpu_time_known) target.total.cpu_time = target.cpu_time_sum;
    totals.targets.push_back(std::move(target.total));
  }
  return whole;
}

Status ChooseBasis(WholeTrace& whole, const RankChoice& asked, std::string attempted) {
  const RankModel model = whole.ranker.model();
  Result<RankBasis> basis =
      whole.known.Choose(asked, model, RankUse::kShow, std::move(attempted), whole.totals.trace);
  if (!basis) return Fail(std::move(basis.error()));
  whole.totals.basis = *std::move(basis);
  whole.totals.llc_is_refuted = whole.totals.basis.source == RankSource::kMemory &&
                                whole.totals.modelled_llc_bytes && whole.ranker.CacheIsRefuted();
  return {};
}

Status RequireAccesses(const WholeTrace& whole, RankSource by, std::string attempted) {
  const auto has = [&whole](auto what) {
    return std::ranges::any_of(whole.ranker.table().evidence, what);
  };
  const bool samples_alone = by == RankSource::kCombined &&
                             !has([](const Evidence& of) { return of.looks > 0; }) &&
                             has([](const Evidence& of) { return of.samples() > 0; });
  if (by != RankSource::kSamples && !samples_alone) return {};
  return Fail(BadInput(std::move(attempted), whole.totals.trace,
                       "how many accesses a sample stands for is unknown without accessed bits",
                       "go by accessed bits, 'references' or 'combined', of a trace with some; "
                       "'tmprof doctor' tells which sources can record them"));
}

std::vector<std::string> Caveats(const TraceTotals& totals, RankSource source) {
  std::vector<std::string> caveats = totals.notes;
  if (totals.end.finished == false) {
    caveats.push_back("the recorder was stopped before it could finish this trace");
  }
  if (source == totals.basis.source && !totals.basis.why_not.empty()) {
    caveats.push_back("all accesses count because those to memory are unknown: " +
                      totals.basis.why_not);
  }
  if (source == RankSource::kMemory && totals.modelled_llc_bytes) {
    caveats.push_back(totals.llc_is_refuted ? CacheIsRefuted(*totals.modelled_llc_bytes)
                                            : ByModelOfCache(*totals.modelled_llc_bytes));
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
  if (source == RankSource::kMisses) return "misses";
  if (source == RankSource::kStall) return "ns of stall time";
  if (model == RankModel::kRate) {
    if (source == RankSource::kMemory) {
      if (totals.modelled_llc_bytes && !totals.llc_is_refuted)
        return "accesses to memory (by a model of the cache)";
      return totals.accesses_per_sample || totals.llc_is_refuted ? "accesses to memory (estimated)"
                                                                 : "samples (expected)";
    }
    // Only accessed bits tie the scale to accesses (Ranker::Score).
    const bool bits = source != RankSource::kSamples && totals.Delivered(SourceRole::kReferences);
    return bits ? "accesses (estimated)" : "samples (expected)";
  }
  return source == RankSource::kCombined ? "references + samples" : std::string(Name(source));
}

}  // namespace tmprof
