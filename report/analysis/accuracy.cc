// SPDX-License-Identifier: Apache-2.0

#include "report/analysis/accuracy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/text/format.h"
#include "base/text/human_units.h"
#include "proto/frame.h"
#include "rank/known_evidence.h"
#include "rank/total_ranker.h"
#include "report/analysis/rank_correlation.h"

namespace tmprof {
namespace {

using TruthJson = nlohmann::json;

// A zipf of 4 GiB with a range per page takes some 80 MB per phase.
constexpr std::uintmax_t kLargestTruthFile = std::uintmax_t{512} << 20;

constexpr std::array kRanked = {RankSource::kReferences, RankSource::kSamples,
                                RankSource::kCombined};

// Reads fields of one truth text; the first fault is kept and everything after it is skipped.
class TruthReader {
 public:
  explicit TruthReader(std::string_view name) : name_(name) {}

  Result<Truth> Read(const TruthJson& root) {
    Truth truth;
    const std::optional<Pid> pid = ReadPid(root, "");
    if (const TruthJson* of = fault_ ? nullptr : Find(root, "", "of"); of != nullptr) {
      if (*of == "misses") {
        truth.of = RankSource::kMisses;
      } else if (*of != "accesses") {
        Refuse("of", "is neither \"accesses\" nor \"misses\"");
      }
    }
    const TruthJson* phases = Field(root, "", "phases", TruthJson::value_t::array);
    for (std::size_t i = 0; phases != nullptr && i < phases->size() && !fault_; ++i) {
      TruthPhase phase = ReadPhase((*phases)[i], fmt::format("phases[{}]", i), pid);
      if (!truth.phases.empty() && phase.start < truth.phases.back().end) {
        Refuse(fmt::format("phases[{}].t_start_ns", i), "lies before the end of the phase before");
      }
      truth.phases.push_back(std::move(phase));
    }
    if (!fault_ && truth.phases.empty()) Refuse("phases", "is empty");
    if (fault_) return Fail(std::move(*fault_));
    return truth;
  }

 private:
  struct WeightedRange {
    VpnRange range;
    double page_weight;
  };

  void Refuse(const std::string& path, const std::string& reason) {
    if (fault_) return;
    fault_ = BadInput("read truth", name_, path.empty() ? reason : path + ": " + reason);
  }

  const TruthJson* Find(const TruthJson& object, const std::string& path, const char* field) {
    if (!object.is_object()) {
      Refuse(path, "is not an object");
      return nullptr;
    }
    const auto at = object.find(field);
    return at == object.end() ? nullptr : &*at;
  }
  const TruthJson* Field(const TruthJson& object, const std::string& path, const char* field,
                         TruthJson::value_t type) {
    const TruthJson* value = Find(object, path, field);
    if (value == nullptr) {
      Refuse(Join(path, field), "is missing");
      return nullptr;
    }
    const bool fits =
        type == TruthJson::value_t::number_float ? value->is_number() : value->type() == type;
    if (fits) return value;
    const char* wanted = type == TruthJson::value_t::array          ? "a list"
                         : type == TruthJson::value_t::number_float ? "a number"
                                                                    : "a whole number of 0 or more";
    Refuse(Join(path, field), fmt::format("is not {}", wanted));
    return nullptr;
  }
  static std::string Join(const std::string& path, const char* field) {
    return path.empty() ? field : path + "." + field;
  }

  std::uint64_t Unsigned(const TruthJson& object, const std::string& path, const char* field,
                         std::uint64_t most) {
    const TruthJson* value = Field(object, path, field, TruthJson::value_t::number_unsigned);
    if (value == nullptr) return 0;
    const auto number = value->get<std::uint64_t>();
    if (number > most) Refuse(Join(path, field), fmt::format("is above {}", most));
    return number;
  }
  MonotonicTime Time(const TruthJson& object, const std::string& path, const char* field) {
    constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
    return MonotonicTime(std::chrono::nanoseconds(Unsigned(object, path, field, kMost)));
  }
  std::optional<Pid> ReadPid(const TruthJson& object, const std::string& path) {
    if (Find(object, path, "pid") == nullptr) return std::nullopt;
    constexpr std::uint64_t kMost = std::numeric_limits<Pid::rep>::max();
    return Pid(static_cast<Pid::rep>(Unsigned(object, path, "pid", kMost)));
  }

  TruthPhase ReadPhase(const TruthJson& json, const std::string& path,
                       std::optional<Pid> file_pid) {
    TruthPhase phase;
    phase.start = Time(json, path, "t_start_ns");
    phase.end = Time(json, path, "t_end_ns");
    if (!fault_ && phase.end <= phase.start) Refuse(path, "ends before it starts");
    std::map<std::optional<Pid>, std::vector<WeightedRange>> by_pid;
    double total = 0;
    const TruthJson* ranges = Field(json, path, "ranges", TruthJson::value_t::array);
    for (std::size_t i = 0; ranges != nullptr && i < ranges->size() && !fault_; ++i) {
      const TruthJson& range = (*ranges)[i];
      const std::string range_path = fmt::format("{}.ranges[{}]", path, i);
      const std::optional<Pid> pid = ReadPid(range, range_path);
      const WeightedRange weighted = ReadRange(range, range_path, total);
      by_pid[pid ? pid : file_pid].push_back(weighted);
    }
    if (!fault_ && !(total > 0 && std::isfinite(total))) {
      Refuse(path + ".ranges", "weigh nothing in all");
    }
    for (auto& [pid, list] : by_pid) {
      phase.processes.push_back({.pid = pid, .spans = Disjoint(std::move(list))});
    }
    return phase;
  }

  WeightedRange ReadRange(const TruthJson& json, const std::string& path, double& total) {
    constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max() - kBasePageBytes;
    const std::uint64_t start = Unsigned(json, path, "start", kMost);
    const std::uint64_t end = Unsigned(json, path, "end", kMost);
    const TruthJson* value = Field(json, path, "weight", TruthJson::value_t::number_float);
    if (fault_) return {};
    const auto weight = value->get<double>();
    if (end <= start) Refuse(path, "ends before it starts");
    if (!(weight >= 0) || !std::isfinite(weight)) {
      Refuse(path + ".weight", "is not a number of 0 or more");
    }
    total += weight;
    const VpnRange range{VpnOfAddress(start), VpnOfAddress(end + kBasePageBytes - 1)};
    return {range, weight / static_cast<double>(range.size().value())};
  }

  // Returns disjoint spans. The weights of overlapping ranges add up. Pages outside of all ranges
  // are in no span.
  static std::vector<TruthSpan> Disjoint(std::vector<WeightedRange> ranges) {
    std::ranges::sort(ranges, {}, [](const WeightedRange& r) { return r.range.start; });
    std::vector<TruthSpan> spans;
    bool overlap = false;
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      overlap |= i > 0 && ranges[i].range.start < ranges[i - 1].range.end;
      spans.push_back({ranges[i].range, ranges[i].page_weight});
    }
    if (!overlap) return spans;

    struct Change {
      Vpn at;
      double weight;
      int ranges;
    };
    std::vector<Change> changes;
    for (const WeightedRange& range : ranges) {
      changes.push_back({range.range.start, range.page_weight, 1});
      changes.push_back({range.range.end, -range.page_weight, -1});
    }
    std::ranges::sort(changes, {}, &Change::at);
    spans.clear();
    double weight = 0;
    int open = 0;
    for (std::size_t i = 0; i < changes.size(); ++i) {
      weight += changes[i].weight;
      open += changes[i].ranges;
      if (open == 0) weight = 0;  // a rest of rounding
      if (open > 0 && changes[i].at < changes[i + 1].at) {
        spans.push_back({{changes[i].at, changes[i + 1].at}, std::max(0.0, weight)});
      }
    }
    return spans;
  }

  std::string name_;
  std::optional<Error> fault_;
};

// The k heaviest pages of a phase's truth.
struct Ideal {
  PageCount k;
  double threshold = 0;  // weight of the k-th heaviest page
  double relevant = 0;   // pages that weigh at least that, and more than 0
  double weight = 0;     // weight of the k heaviest pages
  double total = 0;      // weight of all pages
};

PageCount PagesOf(const TruthPhase& phase) {
  PageCount pages;
  for (const ProcessTruth& process : phase.processes) {
    for (const TruthSpan& span : process.spans) pages += span.range.size();
  }
  return pages;
}

double WeightOf(const TruthPhase& phase) {
  double weight = 0;
  for (const ProcessTruth& process : phase.processes) {
    for (const TruthSpan& span : process.spans) {
      weight += span.page_weight * static_cast<double>(span.range.size().value());
    }
  }
  return weight;
}

Ideal IdealOf(const TruthPhase& phase, PageCount k) {
  std::vector<TruthSpan> heaviest;
  for (const ProcessTruth& process : phase.processes) {
    heaviest.insert(heaviest.end(), process.spans.begin(), process.spans.end());
  }
  Ideal ideal{.k = k, .total = WeightOf(phase)};
  std::ranges::sort(heaviest, std::greater(), &TruthSpan::page_weight);
  PageCount left = k;
  for (const TruthSpan& span : heaviest) {
    const double weight = span.page_weight;
    if (left > PageCount(0)) {
      const PageCount taken = std::min(left, span.range.size());
      ideal.weight += weight * static_cast<double>(taken.value());
      ideal.threshold = weight;
      left -= taken;
    } else if (weight < ideal.threshold) {
      break;
    }
    if (weight > 0) ideal.relevant += static_cast<double>(span.range.size().value());
  }
  return ideal;
}

// Pages of one address space, as disjoint ranges.
class PageSet {
 public:
  // Adds `range`. Returns those parts of it that are new.
  std::vector<VpnRange> Add(VpnRange range) {
    std::vector<VpnRange> added;
    Vpn start = range.start;
    for (auto at = start_by_end_.upper_bound(range.start);
         at != start_by_end_.end() && at->second < range.end; ++at) {
      if (start < at->second) added.push_back({start, at->second});
      start = at->first;
    }
    if (start < range.end) added.push_back({start, range.end});
    for (const VpnRange& part : added) start_by_end_.emplace(part.end, part.start);
    return added;
  }

 private:
  std::map<Vpn, Vpn> start_by_end_;
};

// Looks up ranked pages in the truth. A page of the truth is found once, even if the truth names no
// process and several targets have a page at its address.
class TruthSearch {
 public:
  explicit TruthSearch(const TruthPhase& phase) : phase_(phase), searched_(phase.processes.size()) {
    for (const ProcessTruth& process : phase.processes) {
      std::vector<double>& left = unfound_.emplace_back();
      for (const TruthSpan& span : process.spans) {
        left.push_back(static_cast<double>(span.range.size().value()));
      }
    }
  }

  // Calls found(page_weight, pages) for those pages of the process that nobody found before.
  template <typename OnFound>
  void Find(std::optional<Pid> pid, VpnRange pages, OnFound found) {
    for (std::size_t i = 0; i < phase_.processes.size(); ++i) {
      const ProcessTruth& process = phase_.processes[i];
      if (process.pid && process.pid != pid) continue;
      for (const VpnRange& part : searched_[i].Add(pages)) FindWithin(i, part, found);
    }
  }

  // Calls unfound(page_weight, pages) for the pages that nobody found.
  template <typename OnUnfound>
  void ForEachUnfound(OnUnfound unfound) const {
    for (std::size_t i = 0; i < phase_.processes.size(); ++i) {
      for (std::size_t j = 0; j < unfound_[i].size(); ++j) {
        if (unfound_[i][j] > 0) unfound(phase_.processes[i].spans[j].page_weight, unfound_[i][j]);
      }
    }
  }

 private:
  template <typename OnFound>
  void FindWithin(std::size_t process, VpnRange range, OnFound& found) {
    const std::vector<TruthSpan>& spans = phase_.processes[process].spans;
    auto span = std::ranges::upper_bound(spans, range.start, {},
                                         [](const TruthSpan& s) { return s.range.end; });
    for (; span != spans.end() && span->range.start < range.end; ++span) {
      const Vpn start = std::max(span->range.start, range.start);
      const Vpn end = std::min(span->range.end, range.end);
      const auto pages = static_cast<double>((end - start).value());
      unfound_[process][static_cast<std::size_t>(span - spans.begin())] -= pages;
      found(span->page_weight, pages);
    }
  }

  const TruthPhase& phase_;
  std::vector<PageSet> searched_;             // per process of the truth
  std::vector<std::vector<double>> unfound_;  // pages, per process and span
};

// The epochs of one phase, summed.
class PhaseSum {
 public:
  explicit PhaseSum(RankModel model) : ranker_(model) {}

  void Add(const EpochProfile& epoch) {
    ranker_.Absorb(epoch);
    ++epochs_;
    for (const Target& target : epoch.targets) pids_.try_emplace(target.id, target.pid);
  }

  std::uint64_t epochs() const { return epochs_; }
  const TotalRanker& ranker() const { return ranker_; }
  std::optional<Pid> PidOf(TargetId id) const {
    const auto at = pids_.find(id);
    return at == pids_.end() ? std::nullopt : std::optional(at->second);
  }

 private:
  TotalRanker ranker_;
  std::map<TargetId, Pid> pids_;
  std::uint64_t epochs_ = 0;
};

struct PhaseAccuracy {
  std::optional<double> precision;
  double recall = 0;
  double coverage = 0;
  double coverage_of_ideal = 0;
  std::optional<RankCorrelation> correlation;
};

// Rows with a score, best first.
class RankedRows {
 public:
  RankedRows(const PhaseSum& sum, RankSource source)
      : sum_(sum), table_(sum.ranker().table()), scores_(sum.ranker().Score(source)) {
    for (std::uint32_t row = 0; row < table_.size(); ++row) {
      if (scores_[row] > 0) rows_.push_back(row);
    }
    std::ranges::sort(rows_, [this](std::uint32_t a, std::uint32_t b) {
      return Density(a) != Density(b) ? Density(a) > Density(b) : a < b;
    });
  }

  // Calls row(pid, pages, score per page) for each row until it returns false.
  template <typename OnRow>
  void ForEach(OnRow on_row) const {
    for (const std::uint32_t row : rows_) {
      const PageKey key = table_.key[row];
      const VpnRange pages{key.vpn, key.vpn + PageCount(table_.span_pages[row])};
      if (!on_row(sum_.PidOf(key.target), pages, Density(row))) return;
    }
  }

 private:
  double Density(std::uint32_t row) const { return scores_[row] / table_.span_pages[row]; }

  const PhaseSum& sum_;
  const EvidenceTable& table_;
  Scores scores_;
  std::vector<std::uint32_t> rows_;
};

// Covers every page of the truth. A page that is not ranked has the score 0: a policy cannot tell
// such pages apart either.
std::optional<RankCorrelation> CorrelationOf(const RankedRows& ranked, const TruthPhase& phase) {
  std::vector<ScoredPages> pairs;
  TruthSearch search(phase);
  ranked.ForEach([&](std::optional<Pid> pid, VpnRange pages, double score) {
    search.Find(pid, pages, [&](double weight, double found) {
      pairs.push_back({.truth = weight, .score = score, .pages = found});
    });
    return true;
  });
  search.ForEachUnfound([&](double weight, double unfound) {
    pairs.push_back({.truth = weight, .score = 0, .pages = unfound});
  });
  return Correlate(std::move(pairs));
}

// The pages ranked best, up to k.
class Listed {
 public:
  Listed(const TruthPhase& phase, const Ideal& ideal)
      : search_(phase), ideal_(&ideal), left_(static_cast<double>(ideal.k.value())) {}

  bool full() const { return left_ <= 0; }
  double pages() const { return static_cast<double>(ideal_->k.value()) - left_; }
  double relevant() const { return relevant_; }
  double weight() const { return weight_; }

  void Add(std::optional<Pid> pid, VpnRange pages) {
    const auto whole = static_cast<double>(pages.size().value());
    if (whole > left_) pages.end = pages.start + PageCount(static_cast<std::uint64_t>(left_));
    search_.Find(pid, pages,
                 [this](double page_weight, double found) { Count(page_weight, found); });
    left_ -= std::min(whole, left_);
  }

  // Adds those of the pages that the truth has.
  void AddKnown(std::optional<Pid> pid, VpnRange pages) {
    search_.Find(pid, pages, [this](double page_weight, double found) {
      const double listed = std::min(found, left_);
      Count(page_weight, listed);
      left_ -= listed;
    });
  }

 private:
  void Count(double page_weight, double pages) {
    weight_ += pages * page_weight;
    if (page_weight >= ideal_->threshold && page_weight > 0) relevant_ += pages;
  }

  TruthSearch search_;
  const Ideal* ideal_;
  double left_;
  double relevant_ = 0;
  double weight_ = 0;
};

PhaseAccuracy Judge(const PhaseSum& sum, RankSource source, const TruthPhase& phase,
                    const Ideal& ideal, bool among_truth) {
  const RankedRows ranked(sum, source);
  Listed best(phase, ideal);
  ranked.ForEach([&](std::optional<Pid> pid, VpnRange pages, double /*score*/) {
    if (best.full()) return false;
    if (among_truth) {
      best.AddKnown(pid, pages);
    } else {
      best.Add(pid, pages);
    }
    return true;
  });
  const auto k = static_cast<double>(ideal.k.value());
  PhaseAccuracy accuracy{.recall = best.relevant() / std::min(k, ideal.relevant),
                         .coverage = best.weight() / ideal.total,
                         .coverage_of_ideal = best.weight() / ideal.weight,
                         .correlation = CorrelationOf(ranked, phase)};
  if (best.pages() > 0) accuracy.precision = best.relevant() / best.pages();
  return accuracy;
}

// Adds up the phases for the rows.
class Averages {
 public:
  explicit Averages(const AccuracyOptions& options) : options_(options) {
    for (std::size_t i = 0; i < kRanked.size(); ++i) rows_[i].rank = kRanked[i];
  }

  void Add(const PhaseSum& sum, const TruthPhase& phase) {
    if (sum.epochs() == 0) return;
    const Ideal ideal = IdealOf(phase, CapacityAt(options_.k_ratio, PagesOf(phase)));
    for (std::size_t i = 0; i < kRanked.size(); ++i) {
      const PhaseAccuracy accuracy = Judge(sum, kRanked[i], phase, ideal, options_.among_truth);
      AccuracyRow& row = rows_[i];
      if (row.phases++ == 0) row.k = ideal.k;
      if (accuracy.precision) {
        row.precision = row.precision.value_or(0) + *accuracy.precision;
        ++phases_with_precision_[i];
      }
      if (accuracy.correlation) {
        row.spearman_rho = row.spearman_rho.value_or(0) + accuracy.correlation->spearman_rho;
        row.kendall_tau_b = row.kendall_tau_b.value_or(0) + accuracy.correlation->kendall_tau_b;
        ++phases_with_correlation_[i];
      }
      row.recall += accuracy.recall;
      row.coverage += accuracy.coverage;
      row.coverage_of_ideal += accuracy.coverage_of_ideal;
    }
  }

  std::uint64_t phases() const { return rows_[0].phases; }

  std::vector<AccuracyRow> Take() {
    std::vector<AccuracyRow> rows;
    for (std::size_t i = 0; i < kRanked.size(); ++i) {
      AccuracyRow row = rows_[i];
      const auto phases = static_cast<double>(row.phases);
      if (row.precision) *row.precision /= static_cast<double>(phases_with_precision_[i]);
      if (row.spearman_rho) *row.spearman_rho /= static_cast<double>(phases_with_correlation_[i]);
      if (row.kendall_tau_b) *row.kendall_tau_b /= static_cast<double>(phases_with_correlation_[i]);
      row.recall /= phases;
      row.coverage /= phases;
      row.coverage_of_ideal /= phases;
      rows.push_back(row);
    }
    return rows;
  }

 private:
  AccuracyOptions options_;
  std::array<AccuracyRow, kRanked.size()> rows_;
  std::array<std::uint64_t, kRanked.size()> phases_with_precision_{};
  std::array<std::uint64_t, kRanked.size()> phases_with_correlation_{};
};

Error NoWholeEpoch(const Truth& truth, std::uint64_t epochs, std::chrono::nanoseconds shortest) {
  if (epochs == 0) {
    return BadInput("score against truth", "the trace", "it holds no complete epoch");
  }
  std::chrono::nanoseconds longest{0};
  for (const TruthPhase& phase : truth.phases) longest = std::max(longest, phase.end - phase.start);
  return BadInput("score against truth", "the trace",
                  fmt::format("none of {} lies whole within one of {} of the truth: the "
                              "longest phase is {}, the shortest epoch {}",
                              CountText(epochs, "epoch"), CountText(truth.phases.size(), "phase"),
                              FormatDuration(longest), FormatDuration(shortest)),
                  "record while the workload runs, with a shorter --epoch");
}

}  // namespace

Result<Truth> ParseTruth(std::string_view json, std::string_view name) {
  TruthJson root;
  try {
    root = TruthJson::parse(json);
  } catch (const TruthJson::parse_error& error) {
    return Fail(BadInput("read truth", std::string(name),
                         fmt::format("not JSON from byte {} on", error.byte)));
  } catch (const TruthJson::exception&) {
    return Fail(BadInput("read truth", std::string(name), "holds a number out of range"));
  }
  return TruthReader(name).Read(root);
}

Result<Truth> ReadTruth(const std::filesystem::path& path) {
  std::error_code unknown_size;
  const std::uintmax_t bytes = std::filesystem::file_size(path, unknown_size);
  if (!unknown_size && bytes > kLargestTruthFile) {
    return Fail(BadInput(
        "read truth", path.string(),
        fmt::format("{} bytes are more than the {} that are read", bytes, kLargestTruthFile)));
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return Fail(Refused("read truth", path.string(), errno));
  std::ostringstream text;
  text << file.rdbuf();
  if (file.bad() || (unknown_size && text.view().empty())) {
    return Fail(Refused("read truth", path.string(), unknown_size ? unknown_size.value() : EIO));
  }
  return ParseTruth(text.view(), path.string());
}

bool IsTraceOrLedger(const std::filesystem::path& path) {
  std::array<char, kMagicBytes> begin{};
  std::ifstream file(path, std::ios::binary);
  if (!file.read(begin.data(), begin.size())) return false;
  const std::string_view magic(begin.data(), begin.size());
  return magic == kTraceFormat.magic || magic == kLedgerFormat.magic;
}

Result<Truth> TruthOfEpochs(EpochStream& epochs, std::string_view name,
                            std::optional<std::chrono::nanoseconds> phase, RankSource by) {
  TMPROF_CHECK(IsExact(by));
  Truth truth{.phases = {}, .of = by};
  KnownEvidence known;
  TotalRanker ranker(RankModel::kSum);
  std::map<TargetId, Pid> pids;
  std::optional<MonotonicTime> start;
  MonotonicTime end;
  const auto close = [&] {
    TruthPhase closed{.start = *start, .end = end, .processes = {}};
    std::map<std::optional<Pid>, std::vector<TruthSpan>> by_pid;
    const EvidenceTable& table = ranker.table();
    double total = 0;
    for (std::size_t row = 0; row < table.size(); ++row) {
      const Evidence& evidence = table.evidence[row];
      if (evidence.accesses == 0) continue;
      const double weight = by == RankSource::kMisses  ? evidence.misses
                            : by == RankSource::kStall ? evidence.stall_ns
                                                       : evidence.accesses;
      total += weight;
      const PageKey key = table.key[row];
      // A stream that does not know a target's pid says 0.
      const Pid pid = pids.at(key.target);
      by_pid[pid == Pid(0) ? std::nullopt : std::optional(pid)].push_back(
          {.range = {key.vpn, key.vpn + PageCount(table.span_pages[row])},
           .page_weight = weight / table.span_pages[row]});
    }
    for (auto& [pid, spans] : by_pid) {
      // Two targets may have had one pid, and pages at the same addresses.
      std::ranges::sort(spans, {}, [](const TruthSpan& span) { return span.range.start; });
      std::vector<TruthSpan> joined;
      for (const TruthSpan& span : spans) {
        if (!joined.empty() && span.range.start < joined.back().range.end) {
          joined.back().page_weight += span.page_weight;
        } else {
          joined.push_back(span);
        }
      }
      closed.processes.push_back({.pid = pid, .spans = std::move(joined)});
    }
    if (total > 0) truth.phases.push_back(std::move(closed));
    ranker = TotalRanker(RankModel::kSum);
    start.reset();
  };
  const StreamEnd ended = ReadToEnd(epochs, [&](const EpochProfile& epoch) {
    if (!start) start = epoch.start;
    end = epoch.end;
    ranker.Absorb(epoch);
    known.Look(epoch);
    for (const Target& target : epoch.targets) pids[target.id] = target.pid;
    if (phase && end - *start >= *phase) close();
  });
  if (auto status = known.Require(by, fmt::format("read {}", Name(by)), std::string(name));
      !status) {
    return Fail(std::move(status.error()));
  }
  if (start) close();
  if (truth.phases.empty()) {
    return Fail(ended.damage
                    ? *ended.damage
                    : BadInput("read truth", std::string(name),
                               by == RankSource::kMisses
                                   ? "no access of it missed the modelled cache"
                               : by == RankSource::kStall ? "no access of it stalled the program"
                                                          : "no epoch of it holds exact accesses"));
  }
  truth.end = ended;
  return truth;
}

Truth TruthWithin(Truth truth, std::span<const VpnRange> ranges) {
  for (TruthPhase& phase : truth.phases) {
    for (ProcessTruth& process : phase.processes) {
      std::vector<TruthSpan> within;
      for (const TruthSpan& span : process.spans) {
        PageSet seen;
        for (const VpnRange& range : ranges) {
          const VpnRange both{std::max(span.range.start, range.start),
                              std::min(span.range.end, range.end)};
          if (both.start >= both.end) continue;
          for (const VpnRange& part : seen.Add(both))
            within.push_back({.range = part, .page_weight = span.page_weight});
        }
      }
      std::ranges::sort(within, {}, [](const TruthSpan& span) { return span.range.start; });
      process.spans = std::move(within);
    }
  }
  std::erase_if(truth.phases, [](const TruthPhase& phase) { return WeightOf(phase) <= 0; });
  return truth;
}

double ShareOf(const TruthPhase& phase, std::span<const PagesOfProcess> pages) {
  double weight = 0;
  TruthSearch search(phase);
  for (const PagesOfProcess& each : pages) {
    search.Find(each.pid, each.pages,
                [&](double page_weight, double found) { weight += page_weight * found; });
  }
  return weight / WeightOf(phase);
}

double BestShare(const TruthPhase& phase, PageCount k) {
  const Ideal ideal = IdealOf(phase, k);
  return ideal.weight / ideal.total;
}

Result<AccuracyOutcome> ScoreAgainstTruth(EpochStream& trace, const Truth& truth,
                                          const AccuracyOptions& options) {
  TMPROF_CHECK(!truth.phases.empty());
  AccuracyOutcome outcome;
  Averages averages(options);
  auto phase = truth.phases.begin();
  PhaseSum sum(options.model);
  std::uint64_t epochs = 0;
  std::chrono::nanoseconds shortest = std::chrono::nanoseconds::max();
  outcome.end = ReadToEnd(trace, [&](const EpochProfile& epoch) {
    ++epochs;
    shortest = std::min(shortest, epoch.length());
    while (phase != truth.phases.end() && phase->end < epoch.end) {
      averages.Add(sum, *phase++);
      sum = PhaseSum(options.model);
    }
    if (phase != truth.phases.end() && phase->start <= epoch.start) sum.Add(epoch);
  });
  if (phase != truth.phases.end()) averages.Add(sum, *phase);
  if (averages.phases() == 0) {
    return Fail(outcome.end.damage ? std::move(*outcome.end.damage)
                                   : NoWholeEpoch(truth, epochs, shortest));
  }
  outcome.rows = averages.Take();
  return outcome;
}

}  // namespace tmprof
