// SPDX-License-Identifier: Apache-2.0

#include "objects/analysis/traced_objects.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/epoch_profile.h"
#include "base/text/first_rows.h"
#include "base/text/format.h"
#include "base/text/human_units.h"
#include "rank/known_evidence.h"
#include "rank/rank_weight.h"
#include "rank/total_ranker.h"
#include "report/analysis/hit_rate_text.h"
#include "report/analysis/observed_pages.h"
#include "report/analysis/span_uses.h"

namespace tmprof {
namespace {

using std::chrono::nanoseconds;
using Kind = TracedKind;

using Row = TracedObjects::Row;

// A row, before its frames are looked up.
struct Found {
  Row row;
  std::uint32_t site = kUnknownSite;
};

double HeatOf(const Row& row) { return row.references.value_or(0) + row.samples.value_or(0); }

struct FoundBefore {
  bool operator()(const Found& a, const Found& b) const {
    return std::tuple(b.row.ranked, b.row.accesses, HeatOf(b.row), b.row.bytes) <
           std::tuple(a.row.ranked, a.row.accesses, HeatOf(a.row), a.row.bytes);
  }
};

// Adds a value if it is known.
void AddKnown(std::optional<double>& sum, const std::optional<double>& more) {
  if (more) sum = sum.value_or(0) + *more;
}

void AddHeats(std::vector<double>& heats, const std::vector<double>& more) {
  heats.resize(std::max(heats.size(), more.size()));
  for (std::size_t node = 0; node < more.size(); ++node) heats[node] += more[node];
}

// Stacks of threads with one name are one type, and so are data of one name in several files.
std::string TypeOf(const Row& row) {
  if (row.kind == Kind::kAllocated || row.kind == Kind::kMapped) return TypeText(row.site.frames);
  return row.site.name.empty() ? "unknown" : row.site.name;
}

// Makes one row of each type and kind instead of rows of sites.
std::vector<Row> ByType(const std::vector<Row>& sites) {
  std::map<std::pair<Kind, std::string>, Row> types;
  for (const Row& site : sites) {
    std::string name = TypeOf(site);
    Row& type = types[{site.kind, name}];
    type.kind = site.kind;
    type.type = std::move(name);
    const double objects = type.objects + site.objects;
    if (objects > 0) {
      const double lived = static_cast<double>(type.lifetime.count()) * type.objects +
                           static_cast<double>(site.lifetime.count()) * site.objects;
      type.lifetime = nanoseconds(std::llround(lived / objects));
    }
    type.objects = objects;
    type.bytes += site.bytes;
    type.live_bytes += site.live_bytes;
    type.estimated = type.estimated || site.estimated;
    AddKnown(type.references, site.references);
    AddKnown(type.samples, site.samples);
    AddKnown(type.accesses, site.accesses);
    AddKnown(type.ranked, site.ranked);
    AddHeats(type.heats, site.heats);
    type.tiers.tier1 += site.tiers.tier1;
    type.tiers.tier2 += site.tiers.tier2;
    type.final_bytes += site.final_bytes;
    type.observed_bytes += site.observed_bytes;
  }
  std::vector<Row> rows;
  for (auto& [key, type] : types) rows.push_back(std::move(type));
  return rows;
}

std::string FoldedSite(Kind kind, const ObjectSite& site) {
  const std::string stack = kind == Kind::kAllocated || kind == Kind::kMapped
                                ? FoldedFrames(site.frames)
                                : FoldedElement(SiteText(kind, site));
  return fmt::format("{};{}", NameOf(kind), stack);
}

bool HasSampler(const EpochProfile& epoch) {
  return std::ranges::any_of(epoch.sources, [](const auto& source) {
    return source.role == SourceRole::kSamples && source.state == SourceState::kActive;
  });
}

// Tells which pages are in tier 2 or below.
class SlowNodes {
 public:
  // Takes the tiers of the recorded machine (TraceInfo), unless nodes are given.
  SlowNodes(const std::vector<std::vector<NodeId>>& tiers,
            const std::optional<std::vector<NodeId>>& given) {
    if (given) {
      slow_ = *given;
    } else if (tiers.empty()) {
      return;
    } else {
      fast_ = tiers.front();
      slow_.emplace();
      for (const auto& tier : std::span(tiers).subspan(1)) {
        slow_->insert(slow_->end(), tier.begin(), tier.end());
      }
    }
    std::ranges::sort(*slow_);
    slow_->erase(std::ranges::unique(*slow_).begin(), slow_->end());
  }

  // Ascending; nullopt: unknown.
  const std::optional<std::vector<NodeId>>& nodes() const { return slow_; }
  // nullopt: unknown.
  std::optional<bool> Holds(std::optional<NodeId> node) const {
    if (!slow_ || !node) return std::nullopt;
    if (std::ranges::binary_search(*slow_, *node)) return true;
    const bool is_fast = !fast_ || std::ranges::find(*fast_, *node) != fast_->end();
    return is_fast ? std::optional(false) : std::nullopt;
  }

 private:
  std::optional<std::vector<NodeId>> slow_;
  std::optional<std::vector<NodeId>> fast_;  // unset: all others
};

// Evidence of all chosen epochs together.
class Observed {
 public:
  // `llc_bytes` is that of Trace.
  explicit Observed(std::optional<std::uint64_t> llc_bytes)
      : llc_bytes_(llc_bytes),
        ranker_(RankModel::kRate, llc_bytes),
        known_(llc_bytes.has_value()) {}

  void See(const EpochProfile& epoch) {
    ranker_.Absorb(epoch);
    known_.Look(epoch);
    spans_.See(epoch);
    has_looks_ =
        has_looks_ || std::ranges::any_of(epoch.pages.looks, [](auto looks) { return looks > 0; });
    has_samplers_ = has_samplers_ || HasSampler(epoch);
  }

  // True: accessed bits were read. Nothing else ties the scale to accesses.
  bool has_looks() const { return has_looks_; }
  bool has_samplers() const { return has_samplers_; }
  // Chooses the basis without exact counts. Refuses what KnownEvidence::Choose() refuses, and
  // stalls.
  Result<RankBasis> Basis(RankWeight weight, const std::string& trace) const {
    Result<RankBasis> basis =
        known_.Choose({.weight = weight}, RankModel::kRate, RankUse::kPlace, "list objects", trace);
    if (!basis || !IsExact(basis->source)) return basis;
    if (basis->weight == RankWeight::kStall) {
      return Fail(BadInput("list objects by stall", trace,
                           "objects go by accessed bits and samples, not by modelled stalls",
                           "use --rank-weight memory"));
    }
    RankBasis instead{.source = RankSource::kCombined,
                      .weight = RankWeight::kAccesses,
                      .why_not = std::move(basis->why_not)};
    if (basis->weight == RankWeight::kMemory)
      instead.why_not = "objects go by accessed bits and samples, not by exact counts";
    return instead;
  }
  // nullopt: samples show accesses to memory.
  std::optional<std::uint64_t> modelled_llc_bytes() const {
    return known_.SamplesTellMemory() ? std::nullopt : llc_bytes_;
  }
  // Takes accesses as this source has them.
  EpochAccesses Accesses(RankSource source) const {
    SpanUses spans = spans_;
    return {spans, ranker_.table(), ranker_.Score(source)};
  }

 private:
  std::optional<std::uint64_t> llc_bytes_;
  TotalRanker ranker_;
  KnownEvidence known_;
  SpanUses spans_;
  bool has_looks_ = false;
  bool has_samplers_ = false;
};

class Tally : public ObjectMap::Visitor {
 public:
  Tally(const TracedObjectsOptions& options, SlowNodes slow, const Observed& observed,
        const RankBasis& basis)
      : options_(options),
        slow_(std::move(slow)),
        has_looks_(observed.has_looks()),
        is_ranked_(has_looks_ && basis.weight != RankWeight::kAccesses),
        accesses_(observed.Accesses(RankSource::kCombined)) {
    if (is_ranked_) {
      ranked_ = observed.Accesses(basis.source);
      result_.ranked = 0;
    }
    if (is_ranked_ && basis.source == RankSource::kMemory)
      result_.modelled_llc_bytes = observed.modelled_llc_bytes();
    result_.basis = basis;
    result_.tier2 = slow_.nodes();
    if (has_looks_) result_.references = result_.accesses = 0;
    if (observed.has_samplers()) result_.samples = 0;
  }

  void See(const EpochProfile& epoch) {
    const bool is_shown = options_.epochs.Contains(epoch.index);
    if (const Allocations* allocations = AllocationsOf(epoch)) {
      result_.tracked = true;
      for (const ObjectSite& site : allocations->sites) sites_[site.id] = site;
      if (is_shown) result_.lost += allocations->lost;
    }
    if (is_shown) {
      if (result_.epochs > 0 && epoch.index > next_index_)
        result_.lost_epochs += epoch.index - next_index_;
      next_index_ = epoch.index + 1;
      ++result_.epochs;
      last_ = epoch.end;
      NoteSampler(epoch);
      for (const Target& target : epoch.targets) {
        const TracedObjects::Seen seen{.start = epoch.start, .end = epoch.end};
        result_.seen.try_emplace(target.pid, seen).first->second.end = epoch.end;
      }
      AddTotals(epoch);
      if (!was_shown_) map_.Each([&](const TracedObject& object) { Count(object); });
      was_shown_ = true;
    }
    map_.See(epoch, is_shown);
  }

  TracedObjects Take(std::string name) {
    map_.Each([&](const TracedObject& object) {
      sums_[object.label].row.live_bytes += static_cast<double>(object.bytes) * object.weight;
      AddLife(object, last_);
    });
    for (std::size_t label = 0; label < sums_.size(); ++label) {
      if (sums_[label].is_used) Finish(sums_[label]);
    }
    std::vector<Row> rows;
    for (Found& found : found_.Take()) {
      found.row.site = SiteOf(found.site);
      rows.push_back(std::move(found.row));
    }
    result_.all_rows = found_.all();
    result_.rows = options_.by == ObjectsBy::kType ? FirstTypes(ByType(rows)) : std::move(rows);
    for (const auto& [where, heat] : heat_of_sites_) {
      if (options_.by == ObjectsBy::kType) break;
      result_.stacks[FoldedSite(where.first, SiteOf(where.second))] += heat;
    }
    result_.elsewhere = Elsewhere();
    result_.trace = std::move(name);
    result_.options = options_;
    SortNodes();
    return std::move(result_);
  }

  bool Follows(const Target& target) override {
    return !options_.pid || target.pid == *options_.pid;
  }

  void Begin(const Target& target, TracedObject& object) override {
    object.label = LabelOf(target, object);
    if (was_shown_) Count(object);
  }

  void End(const TracedObject& object, MonotonicTime end) override {
    if (was_shown_) AddLife(object, end);
    // A mapping that lost a part may have other parts.
    if (IsByObject() && object.kind != Kind::kMapped) ended_.push_back(object.label);
  }

  void Resize(const TracedObject& before, const TracedObject& after) override {
    if (!was_shown_) return;
    Sum& sum = sums_[after.label];
    sum.row.bytes += static_cast<double>(after.bytes) - static_cast<double>(before.bytes);
    sum.is_at_page = sum.is_at_page || (options_.page && Holds(after, *options_.page));
  }

  // Objects that ended had their shares until now.
  void EndEpoch(const EpochProfile& /*epoch*/) override {
    for (const std::size_t label : ended_) {
      Finish(sums_[label]);
      sums_[label] = Sum();
      unused_.push_back(label);
    }
    ended_.clear();
  }

  void Share(const PageColumns& pages, std::size_t record, const TracedObject& object,
             double share) override {
    if (!IsShown(pages, record)) return;
    if (options_.page && !Holds(object, *options_.page)) return;
    Sum& sum = sums_[object.label];
    // The objects that this one stands for lie elsewhere.
    const double counted = share * (options_.page ? 1 : object.weight);
    const double heat = (pages.references[record] + SamplesOf(pages, record)) * counted;
    const double accesses = has_looks_ ? AccessesOf(pages, record) * counted : 0;
    const double ranked = is_ranked_ ? ranked_.Of(pages, record) * counted : 0;
    if (pages.looks[record] > 0) {
      AddKnown(sum.row.references, pages.references[record] * counted);
      in_objects_.references += pages.references[record] * counted;
    }
    if (is_sampled_) {
      AddKnown(sum.row.samples, SamplesOf(pages, record) * counted);
      in_objects_.samples += SamplesOf(pages, record) * counted;
    }
    if (has_looks_ && IsObserved(pages, record)) {
      AddKnown(sum.row.accesses, accesses);
      in_objects_.accesses += accesses;
      if (is_ranked_) AddKnown(sum.row.ranked, ranked);
      in_objects_.ranked += ranked;
    }
    in_objects_.estimated = in_objects_.estimated || counted > share;
    if (heat > 0) {
      const std::size_t node = node_of_.at(pages.node[record]);
      sum.row.heats.resize(std::max(sum.row.heats.size(), node + 1));
      sum.row.heats[node] += heat;
    }
    const double weight = is_ranked_ ? ranked : has_looks_ ? accesses : heat;
    if (heat > 0 || weight > 0) {
      heat_of_sites_[{object.kind, object.site}] += weight;
      AddByTier(pages.node[record], weight, sum.row.tiers);
      AddByTier(pages.node[record], weight, in_objects_.tiers);
    }
  }

 private:
  // The sums of a site or of an object.
  struct Sum {
    Row row;
    std::uint32_t site = kUnknownSite;
    std::size_t number = 0;  // in order of appearance
    double age_ns = 0;
    bool is_at_page = false;
    bool was_sampled = false;  // a sampler was on while it lived
    bool is_used = false;
  };
  struct Times {
    MonotonicTime start;
    MonotonicTime end;
  };

  bool IsByObject() const { return options_.by == ObjectsBy::kObject; }

  static bool Holds(const TracedObject& object, Vpn page) {
    return object.start < (page.value() + 1) * kBasePageBytes &&
           object.end() > page.value() * kBasePageBytes;
  }

  bool IsShown(const PageColumns& pages, std::size_t record) const {
    return !options_.page ||
           (pages.vpn[record] <= *options_.page &&
            options_.page->value() < pages.vpn[record].value() + pages.span_pages[record]);
  }

  // False: it is unknown if the page was accessed.
  static bool IsObserved(const PageColumns& pages, std::size_t record) {
    return pages.looks[record] > 0 || SamplesOf(pages, record) > 0;
  }

  double AccessesOf(const PageColumns& pages, std::size_t record) const {
    return accesses_.Of(pages, record);
  }

  void AddByTier(std::optional<NodeId> node, double weight, TracedObjects::TierWeight& sum) const {
    const std::optional<bool> is_slow = slow_.Holds(node);
    if (!is_slow) return;
    (*is_slow ? sum.tier2 : sum.tier1) += weight;
  }

  void AddTotals(const EpochProfile& epoch) {
    const PageColumns& pages = epoch.pages;
    for (std::size_t i = 0; i < pages.size(); ++i) {
      const auto target = std::ranges::lower_bound(epoch.targets, pages.target[i], {}, &Target::id);
      if (!Follows(*target) || !IsShown(pages, i)) continue;
      if (has_looks_ && IsObserved(pages, i)) {
        observed_.See(pages.key(i), PageCount(pages.span_pages[i]), epoch.end);
      }
      result_.page_observed = result_.page_observed || (options_.page && IsObserved(pages, i));
      if (has_looks_) {
        if (pages.looks[i] > 0) *result_.references += pages.references[i];
        *result_.accesses += AccessesOf(pages, i);
      }
      const double ranked = is_ranked_ ? ranked_.Of(pages, i) : 0;
      if (is_ranked_) *result_.ranked += ranked;
      if (is_sampled_) *result_.samples += SamplesOf(pages, i);
      const double heat = pages.references[i] + SamplesOf(pages, i);
      const double weight = is_ranked_ ? ranked : has_looks_ ? AccessesOf(pages, i) : heat;
      AddByTier(pages.node[i], weight, result_.tiers);
      if (heat > 0) {
        const auto [node, is_new] = node_of_.try_emplace(pages.node[i], result_.nodes.size());
        if (is_new) result_.nodes.push_back(pages.node[i]);
      }
    }
  }

  TracedObjects::Elsewhere Elsewhere() const {
    const auto left = [](const std::optional<double>& all, double taken) -> std::optional<double> {
      constexpr double kRounding = 1e-9;
      if (!all || *all - taken < -kRounding * *all) return std::nullopt;
      return *all - taken > kRounding * *all ? *all - taken : 0;
    };
    const std::optional<double> tier1 = left(result_.tiers.tier1, in_objects_.tiers.tier1);
    const std::optional<double> tier2 = left(result_.tiers.tier2, in_objects_.tiers.tier2);
    TracedObjects::Elsewhere rest{.references = left(result_.references, in_objects_.references),
                                  .samples = left(result_.samples, in_objects_.samples),
                                  .accesses = left(result_.accesses, in_objects_.accesses),
                                  .ranked = left(result_.ranked, in_objects_.ranked),
                                  .tiers = std::nullopt,
                                  .estimated = in_objects_.estimated};
    if (tier1 && tier2) rest.tiers = {.tier1 = *tier1, .tier2 = *tier2};
    return rest;
  }

  // Orders the columns of each row by node.
  void SortNodes() {
    std::vector<std::size_t> order(result_.nodes.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, {}, [&](std::size_t node) {
      const std::optional<NodeId> id = result_.nodes[node];
      return std::tuple(!id, id);
    });
    std::vector<std::optional<NodeId>> nodes;
    for (const std::size_t node : order) nodes.push_back(result_.nodes[node]);
    result_.nodes = std::move(nodes);
    for (Row& row : result_.rows) {
      row.heats.resize(order.size());
      std::vector<double> heats;
      for (const std::size_t node : order) heats.push_back(row.heats[node]);
      row.heats = std::move(heats);
    }
  }

  // Counts an object in a chosen epoch.
  void Count(const TracedObject& object) {
    Sum& sum = sums_[object.label];
    sum.row.objects += object.weight;
    sum.row.bytes += static_cast<double>(object.bytes) * object.weight;
    sum.row.estimated = sum.row.estimated || object.weight > 1;
    sum.is_at_page = sum.is_at_page || (options_.page && Holds(object, *options_.page));
  }

  // Notes if a sampler is on, before the events of a chosen epoch are handled.
  void NoteSampler(const EpochProfile& epoch) {
    const bool was_sampled = is_sampled_;
    is_sampled_ = HasSampler(epoch);
    if (!is_sampled_) return;
    if (was_sampled) {
      sampled_.back().end = epoch.end;
    } else {
      sampled_.push_back({.start = epoch.start, .end = epoch.end});
    }
  }

  bool WasSampled(MonotonicTime start, MonotonicTime end) const {
    const auto after = std::ranges::lower_bound(sampled_, end, {}, &Times::start);
    return after != sampled_.begin() && start < std::prev(after)->end;
  }

  void AddLife(const TracedObject& object, MonotonicTime end) {
    Sum& sum = sums_[object.label];
    sum.was_sampled = sum.was_sampled || WasSampled(object.birth, end);
    // Times of two threads may be out of order by some us.
    const nanoseconds age = std::max(end - object.birth, nanoseconds(0));
    sum.age_ns += static_cast<double>(age.count()) * object.weight;
    if (has_looks_) AddObserved(object, sum.row);
  }

  // Adds the observed bytes of an object that ends now, or that lived until the last epoch ended.
  void AddObserved(const TracedObject& object, Row& row) const {
    std::uint64_t start = object.start;
    std::uint64_t end = object.end();
    if (options_.page) {
      if (!Holds(object, *options_.page)) return;
      start = std::max(start, AddressOf(*options_.page));
      end = std::min(end, AddressOf(*options_.page + PageCount(1)));
    }
    const std::uint64_t observed = observed_.BytesSince(object.target, start, end, object.birth);
    row.final_bytes += static_cast<double>(end - start) * object.weight;
    row.observed_bytes += static_cast<double>(observed) * object.weight;
  }

  std::size_t LabelOf(const Target& target, const TracedObject& object) {
    if (!IsByObject()) {
      const auto [label, is_new] = label_of_.try_emplace({object.kind, object.site}, sums_.size());
      if (!is_new) return label->second;
    }
    std::size_t label = sums_.size();
    if (unused_.empty()) {
      sums_.emplace_back();
    } else {
      label = unused_.back();
      unused_.pop_back();
    }
    Sum& sum = sums_[label];
    sum.is_used = true;
    sum.number = next_number_++;
    sum.site = object.site;
    sum.row.kind = object.kind;
    if (IsByObject()) {
      sum.row.start = object.start;
      sum.row.birth = object.birth;
      sum.row.pid = target.pid;
    }
    return label;
  }

  void Finish(Sum& sum) {
    Row& row = sum.row;
    if (row.objects <= 0 || (options_.page && !sum.is_at_page)) return;
    row.lifetime = nanoseconds(std::llround(sum.age_ns / row.objects));
    // A sampler looks everywhere. No sample means that there was none.
    if (sum.was_sampled) row.samples = row.samples.value_or(0);
    found_.Add({.row = std::move(row), .site = sum.site}, sum.number);
  }

  std::vector<Row> FirstTypes(std::vector<Row> types) {
    FirstRows<Found, FoundBefore> first(options_.limit);
    for (std::size_t i = 0; i < types.size(); ++i) {
      result_.stacks[fmt::format("{};{}", NameOf(types[i].kind), Printable(types[i].type))] +=
          is_ranked_   ? types[i].ranked.value_or(0)
          : has_looks_ ? types[i].accesses.value_or(0)
                       : HeatOf(types[i]);
      first.Add({.row = std::move(types[i])}, i);
    }
    result_.all_rows = first.all();
    std::vector<Row> rows;
    for (Found& found : first.Take()) rows.push_back(std::move(found.row));
    return rows;
  }

  ObjectSite SiteOf(std::uint32_t id) const {
    const auto found = sites_.find(id);
    return found != sites_.end() ? found->second : ObjectSite();
  }

  TracedObjectsOptions options_;
  SlowNodes slow_;
  bool has_looks_ = false;
  bool is_sampled_ = false;     // in the last chosen epoch
  std::vector<Times> sampled_;  // times of chosen epochs with a sampler; successive ones are joined
  bool is_ranked_;              // rows are ordered by something else than all accesses
  EpochAccesses accesses_;
  EpochAccesses ranked_;  // if is_ranked_
  ObservedPages observed_;
  ObjectMap map_{*this};
  TracedObjects result_;
  MonotonicTime last_;
  std::uint64_t next_index_ = 0;  // index behind the last chosen epoch
  bool was_shown_ = false;        // any epoch was chosen
  struct {
    double references = 0;
    double samples = 0;
    double accesses = 0;
    double ranked = 0;
    TracedObjects::TierWeight tiers;
    bool estimated = false;
  } in_objects_;
  std::map<std::uint32_t, ObjectSite> sites_;
  std::map<std::optional<NodeId>, std::size_t> node_of_;  // its index in `nodes`
  std::vector<Sum> sums_;                                 // index: label
  std::vector<std::size_t> unused_;
  std::vector<std::size_t> ended_;  // labels that ended in this epoch
  std::size_t next_number_ = 0;
  std::map<std::pair<Kind, std::uint32_t>, std::size_t> label_of_;  // key: kind and site
  std::map<std::pair<Kind, std::uint32_t>, double> heat_of_sites_;  // for TracedObjects::stacks
  FirstRows<Found, FoundBefore> found_{options_.by == ObjectsBy::kType ? std::nullopt
                                                                       : options_.limit};
};

double ShareOf(double part, double all) { return all > 0 ? part / all : 0; }

std::optional<double> ShareOf(const std::optional<double>& part, const std::optional<double>& all) {
  if (!part || !all) return std::nullopt;
  return ShareOf(*part, *all);
}

// True: the row's references and accesses are of its observed part alone.
bool IsObservedInPart(const Row& row) { return row.ObservedShare().value_or(1) < 1; }

// Marks an estimate; a value of 0 is none.
std::string Marked(bool is_estimated, double value, std::string text) {
  return is_estimated && value > 0 ? "~" + std::move(text) : text;
}

// Stands beside the names of kinds.
constexpr std::string_view kElsewhere = "elsewhere";

// "nodes 2, 3"
std::string NodeNames(const std::vector<NodeId>& nodes) {
  std::string text = nodes.size() == 1 ? "node" : "nodes";
  for (const NodeId node : nodes) {
    text += fmt::format("{} {}", node == nodes.front() ? "" : ",", node.value());
  }
  return text;
}

Json NodeNumbers(const std::optional<std::vector<NodeId>>& nodes) {
  if (!nodes) return nullptr;
  Json json = Json::array();
  for (const NodeId node : *nodes) json.push_back(node.value());
  return json;
}

std::string Title(const std::optional<NodeId>& node) {
  return node ? fmt::format("node {}", node->value()) : "node unknown";
}

// Refuses a node that the recorded machine does not have: a share of 0 would hide the slip. A node
// may have been added after the recording began; then it has pages.
Status RequireNodes(const Trace& trace, const TracedObjects& objects) {
  if (!objects.options.tier2 || trace.info.tiers.empty()) return {};
  std::vector<NodeId> there;
  for (const std::optional<NodeId>& node : objects.nodes) {
    if (node) there.push_back(*node);
  }
  for (const std::vector<NodeId>& tier : trace.info.tiers) {
    there.insert(there.end(), tier.begin(), tier.end());
  }
  std::ranges::sort(there);
  there.erase(std::ranges::unique(there).begin(), there.end());
  for (const NodeId node : *objects.options.tier2) {
    if (std::ranges::binary_search(there, node)) continue;
    return Fail(BadInput(
        "take tier 2 as given for", trace.name,
        fmt::format("the machine that was recorded has no memory on node {}", node.value()),
        fmt::format("it has some on {}", NodeNames(there))));
  }
  return {};
}

}  // namespace

std::optional<double> TracedObjects::Row::AccessesPerByte() const {
  return accesses && bytes > 0 ? std::optional(*accesses / bytes) : std::nullopt;
}

std::optional<double> TracedObjects::CountedShare(const Row& row) const {
  if (!row.counted || counted->accesses == 0) return std::nullopt;
  return static_cast<double>(*row.counted) / static_cast<double>(counted->accesses);
}

std::optional<double> TracedObjects::InTier2(const std::optional<TierWeight>& weight) const {
  if (!tier2 || !weight || weight->known() <= 0) return std::nullopt;
  return weight->tier2 / weight->known();
}

namespace {

// Returns the weight of a row, or of `elsewhere`; nullopt: unknown.
std::optional<double> WeightOf(const TracedObjects& objects, const auto& row) {
  if (objects.ranked) return row.ranked;
  if (objects.accesses) return row.accesses;
  if (!row.references && !row.samples) return std::nullopt;
  return row.references.value_or(0) + row.samples.value_or(0);
}

std::optional<double> ShareOfTier2(const TracedObjects& objects, const auto& row,
                                   const std::optional<TracedObjects::TierWeight>& weight) {
  if (!objects.tier2 || !weight || objects.tiers.tier2 <= 0) return std::nullopt;
  const bool is_known = weight->known() > 0 || WeightOf(objects, row) == 0.0;
  return is_known ? std::optional(weight->tier2 / objects.tiers.tier2) : std::nullopt;
}

}  // namespace

std::optional<double> TracedObjects::OfTier2(const Row& row) const {
  return ShareOfTier2(*this, row, row.tiers);
}

std::optional<double> TracedObjects::OfTier2(const Elsewhere& rest) const {
  return ShareOfTier2(*this, rest, rest.tiers);
}

std::optional<double> TracedObjects::Row::ObservedShare() const {
  return final_bytes > 0 ? std::optional(observed_bytes / final_bytes) : std::nullopt;
}

std::optional<double> TracedObjects::Row::ShareOnNode(std::size_t node) const {
  const double all = references.value_or(0) + samples.value_or(0);
  return all > 0 ? std::optional(heats[node] / all) : std::nullopt;
}

Result<TracedObjects> MakeTracedObjects(const Trace& trace, const TracedObjectsOptions& options) {
  Observed observed(trace.llc_bytes);
  const Result<StreamEnd> seen =
      ReadEpochs(trace, options.epochs, [&](const EpochProfile& epoch) { observed.See(epoch); });
  if (!seen) return Fail(seen.error());
  const Result<RankBasis> basis = observed.Basis(options.weight, trace.name);
  if (!basis) return Fail(basis.error());
  Tally tally(options, SlowNodes(trace.info.tiers, options.tier2), observed, *basis);
  // Objects that live in the chosen epochs may be older.
  const EpochRange until{.first = 0, .end = options.epochs.end};
  Result<StreamEnd> end =
      ReadEpochs(trace, until, [&](const EpochProfile& epoch) { tally.See(epoch); });
  if (!end) return Fail(end.error());
  TracedObjects objects = tally.Take(trace.name);
  objects.end = *std::move(end);
  if (auto known = RequireNodes(trace, objects); !known) return Fail(std::move(known.error()));
  return objects;
}

namespace {

// Names `ranked`.
std::string_view RankedName(const TracedObjects& objects) {
  return objects.basis.weight == RankWeight::kMemory ? "accesses to memory"
                                                     : "accesses by accessed bits";
}

// Returns `ranked` of a row or of all if it counts this weight.
std::optional<double> IfCounts(const TracedObjects& objects, RankWeight weight,
                               const std::optional<double>& ranked) {
  return objects.basis.weight == weight ? ranked : std::nullopt;
}

std::optional<double> ShareIfCounts(const TracedObjects& objects, RankWeight weight,
                                    const std::optional<double>& ranked) {
  return ShareOf(IfCounts(objects, weight, ranked), IfCounts(objects, weight, objects.ranked));
}

}  // namespace

std::string TracedObjectsText(const TracedObjects& objects, TextWidth width) {
  using enum TextTable::Align;
  using enum TextTable::Importance;
  std::string text = fmt::format(
      "objects in {}, by {}: {} of {}\n", CountText(objects.epochs, "epoch"), TextOf(objects.basis),
      objects.ranked     ? fmt::format("{} (estimated)", RankedName(objects))
      : objects.accesses ? "accesses (estimated)"
                         : "references and samples",
      objects.options.page ? fmt::format("page {}", Address(*objects.options.page))
                           : "their pages");
  // The first of these that is known is the measure of an object's heat.
  const TextTable::Importance accesses = objects.ranked ? kThird : kKey;
  const TextTable::Importance evidence = objects.ranked || objects.accesses ? kThird : kKey;
  std::vector<TextTable::Column> columns;
  if (objects.ranked)
    columns = {{std::string(RankedName(objects)), kRight, kKey}, {.title = "share", .joins = true}};
  if (objects.accesses) {
    columns.insert(
        columns.end(),
        {{"accesses", kRight, accesses}, {.title = "share", .joins = true}, {"accesses per byte"}});
  }
  columns.insert(columns.end(), {{"references", kRight, evidence},
                                 {.title = "share", .joins = true},
                                 {"samples", kRight, evidence},
                                 {.title = "share", .joins = true}});
  if (objects.counted) {
    columns.insert(columns.end(), {{"counted accesses"}, {.title = "share", .joins = true}});
    text += fmt::format(
        "counted by the programs themselves, in all their runs: {}, {} of them in rows\n",
        CountText(objects.counted->accesses, "access", "accesses"),
        Percent(ShareOf(static_cast<double>(objects.counted->in_rows),
                        static_cast<double>(objects.counted->accesses))));
  }
  if (objects.tier2 && !objects.tier2->empty()) {
    text +=
        fmt::format("in tier 2, or below, {}: {} of {} whose tier is known\n",
                    NodeNames(*objects.tier2), OrUnknown(objects.InTier2(objects.tiers), Percent),
                    objects.ranked     ? fmt::format("the {}", RankedName(objects))
                    : objects.accesses ? "the accesses"
                                       : "references and samples");
  }
  columns.push_back({"bytes"});
  const bool has_parts = std::ranges::any_of(objects.rows, IsObservedInPart);
  if (has_parts) columns.push_back({"observed", kRight, kThird});
  columns.insert(columns.end(),
                 {{"objects"}, {"live bytes", kRight, kThird}, {"lifetime", kRight, kThird}});
  const std::size_t nodes = objects.nodes.size() > 1 ? objects.nodes.size() : 0;
  for (std::size_t node = 0; node < nodes; ++node)
    columns.push_back({Title(objects.nodes[node]), kRight, kThird});
  const bool has_tier2 = objects.tier2 && !objects.tier2->empty();
  if (has_tier2) columns.insert(columns.end(), {{"in tier 2"}, {"of tier 2"}});
  columns.push_back({"kind", kLeft});
  columns.push_back({std::string(NameOf(objects.options.by)), kLeft, kKey, kShortestSite});
  const std::size_t column_count = columns.size();
  TextTable table(std::move(columns));
  const auto add_tiers = [&](std::vector<std::string>& cells, const auto& row) {
    if (!has_tier2) return;
    const auto share = [&](double count) {
      return Marked(row.estimated && !objects.options.page, count, Percent(count));
    };
    cells.push_back(OrUnknown(objects.InTier2(row.tiers), share));
    cells.push_back(OrUnknown(objects.OfTier2(row), share));
  };
  const auto add_heat = [&](std::vector<std::string>& cells, const std::optional<double>& heat,
                            const std::optional<double>& all, bool is_estimated) {
    cells.push_back(OrUnknown(heat, [&](double count) {
      // Sums for one page leave out the objects that others stand for.
      return Marked(is_estimated && !objects.options.page, count, Significant(count));
    }));
    cells.push_back(OrUnknown(ShareOf(heat, all), Percent));
  };
  for (const Row& row : objects.rows) {
    const auto bytes = [&](double count) {
      return Marked(row.estimated, count, FormatBytes(static_cast<std::uint64_t>(count)));
    };
    std::vector<std::string> cells;
    if (objects.ranked) add_heat(cells, row.ranked, objects.ranked, row.estimated);
    if (objects.accesses) {
      add_heat(cells, row.accesses, objects.accesses, row.estimated);
      cells.push_back(OrUnknown(row.AccessesPerByte(), Significant));
    }
    add_heat(cells, row.references, objects.references, row.estimated);
    add_heat(cells, row.samples, objects.samples, row.estimated);
    if (objects.counted) {
      cells.push_back(OrUnknown(row.counted, Grouped));
      cells.push_back(OrUnknown(objects.CountedShare(row), Percent));
    }
    cells.push_back(bytes(row.bytes));
    if (has_parts) cells.push_back(OrUnknown(row.ObservedShare(), Percent));
    cells.push_back(
        Marked(row.estimated, row.objects, Grouped(static_cast<std::uint64_t>(row.objects + 0.5))));
    cells.push_back(bytes(row.live_bytes));
    cells.push_back(fmt::format("{:.3f} s", Seconds(row.lifetime)));
    for (std::size_t node = 0; node < nodes; ++node) {
      cells.push_back(OrUnknown(row.ShareOnNode(node), Percent));
    }
    add_tiers(cells, row);
    cells.emplace_back(NameOf(row.kind));
    std::string what = row.type.empty() ? SiteText(row.kind, row.site) : Printable(row.type);
    if (row.start) what = fmt::format("{:#x} {}", *row.start, what);
    cells.push_back(std::move(what));
    table.AddRow(std::move(cells));
  }
  if (objects.tracked) {
    const TracedObjects::Elsewhere& elsewhere = objects.elsewhere;
    std::vector<std::string> cells;
    if (objects.ranked) add_heat(cells, elsewhere.ranked, objects.ranked, elsewhere.estimated);
    if (objects.accesses) {
      add_heat(cells, elsewhere.accesses, objects.accesses, elsewhere.estimated);
      cells.emplace_back();
    }
    add_heat(cells, elsewhere.references, objects.references, elsewhere.estimated);
    add_heat(cells, elsewhere.samples, objects.samples, elsewhere.estimated);
    cells.resize(column_count - (has_tier2 ? 4 : 2));
    add_tiers(cells, elsewhere);
    cells.emplace_back(kElsewhere);
    cells.emplace_back("in no object that is known");
    table.AddRow(std::move(cells));
  }
  text += table.Text(width);
  if (objects.rows.size() < objects.all_rows) {
    text += fmt::format("{} of {}; --limit 0 shows all\n", Grouped(objects.rows.size()),
                        CountText(objects.all_rows, "row"));
  }
  if (objects.ranked && objects.modelled_llc_bytes) {
    text += "note: " + ByModelOfCache(*objects.modelled_llc_bytes) + "\n";
  }
  if (!objects.basis.why_not.empty()) {
    text += fmt::format("note: all accesses count because those to memory are unknown: {}\n",
                        objects.basis.why_not);
  }
  if (objects.counted && objects.counted->freed_accesses > 0) {
    text += fmt::format(
        "note: to objects that were freed since: {}\n",
        CountText(objects.counted->freed_accesses, "counted access", "counted accesses"));
  }
  if (objects.options.page && !objects.page_observed) {
    text +=
        "note: the page was not observed in these epochs: none of its accessed bits was read, and "
        "no sample fell there\n";
  }
  if (!objects.tracked) {
    text += "note: nobody tracked allocations in this trace; record it with --objects\n";
  }
  if (objects.lost > 0) {
    text += fmt::format(
        "note: lost: {}; what they began or ended is "
        "missing, or lives too long\n",
        CountText(objects.lost, "allocation or free", "allocations and frees"));
  }
  return text;
}

std::string TracedObjectsJson(const TracedObjects& objects) {
  using enum RankWeight;
  const TracedObjects::Elsewhere& elsewhere = objects.elsewhere;
  Json rows = Json::array();
  for (const TracedObjects::Row& row : objects.rows) {
    Json nodes = Json::array();
    for (std::size_t node = 0; node < objects.nodes.size(); ++node) {
      const std::optional<NodeId> id = objects.nodes[node];
      nodes.push_back({{"node", id ? Json(id->value()) : Json(nullptr)},
                       {"share", OrNull(row.ShareOnNode(node))}});
    }
    rows.push_back(
        {{"kind", NameOf(row.kind)},
         {"name", row.site.name.empty() ? Json(nullptr) : Json(row.site.name)},
         {"thread", row.site.thread ? Json(row.site.thread->value()) : Json(nullptr)},
         {"type", row.type.empty() ? Json(nullptr) : Json(row.type)},
         {"pid", row.pid ? Json(row.pid->value()) : Json(nullptr)},
         {"start", row.start ? Json(*row.start) : Json(nullptr)},
         {"references", OrNull(row.references)},
         {"references_share", OrNull(ShareOf(row.references, objects.references))},
         {"samples", OrNull(row.samples)},
         {"samples_share", OrNull(ShareOf(row.samples, objects.samples))},
         {"accesses", OrNull(row.accesses)},
         {"accesses_share", OrNull(ShareOf(row.accesses, objects.accesses))},
         {"accesses_per_byte", OrNull(row.AccessesPerByte())},
         {"memory_accesses", OrNull(IfCounts(objects, kMemory, row.ranked))},
         {"memory_accesses_share", OrNull(ShareIfCounts(objects, kMemory, row.ranked))},
         {"reference_accesses", OrNull(IfCounts(objects, kReferences, row.ranked))},
         {"reference_accesses_share", OrNull(ShareIfCounts(objects, kReferences, row.ranked))},
         {"counted", OrNull(row.counted)},
         {"counted_share", OrNull(objects.CountedShare(row))},
         {"nodes", std::move(nodes)},
         {"observed_share", OrNull(row.ObservedShare())},
         {"in_tier2_share", OrNull(objects.InTier2(row.tiers))},
         {"of_tier2_share", OrNull(objects.OfTier2(row))},
         {"objects", row.objects},
         {"bytes", row.bytes},
         {"live_bytes", row.live_bytes},
         {"estimated", row.estimated},
         {"lifetime_s", Seconds(row.lifetime)},
         {"frames", FramesJson(row.site.frames)}});
  }
  return JsonText(WithEnd(
      {{"view", "objects"},
       {"trace", objects.trace},
       {"by", NameOf(objects.options.by)},
       {"epochs", objects.epochs},
       {"tracked", objects.tracked},
       {"references", OrNull(objects.references)},
       {"samples", OrNull(objects.samples)},
       {"accesses", OrNull(objects.accesses)},
       {"memory_accesses", OrNull(IfCounts(objects, kMemory, objects.ranked))},
       {"reference_accesses", OrNull(IfCounts(objects, kReferences, objects.ranked))},
       {"rank_weight", Name(objects.basis.weight)},
       {"modelled_llc_bytes", OrNull(objects.modelled_llc_bytes)},
       {"elsewhere",
        {{"references", OrNull(elsewhere.references)},
         {"references_share", OrNull(ShareOf(elsewhere.references, objects.references))},
         {"samples", OrNull(elsewhere.samples)},
         {"samples_share", OrNull(ShareOf(elsewhere.samples, objects.samples))},
         {"accesses", OrNull(elsewhere.accesses)},
         {"accesses_share", OrNull(ShareOf(elsewhere.accesses, objects.accesses))},
         {"memory_accesses", OrNull(IfCounts(objects, kMemory, elsewhere.ranked))},
         {"memory_accesses_share", OrNull(ShareIfCounts(objects, kMemory, elsewhere.ranked))},
         {"reference_accesses", OrNull(IfCounts(objects, kReferences, elsewhere.ranked))},
         {"reference_accesses_share",
          OrNull(ShareIfCounts(objects, kReferences, elsewhere.ranked))},
         {"in_tier2_share", OrNull(objects.InTier2(elsewhere.tiers))},
         {"of_tier2_share", OrNull(objects.OfTier2(elsewhere))},
         {"estimated", elsewhere.estimated}}},
       {"tier2_nodes", NodeNumbers(objects.tier2)},
       {"in_tier2_share", OrNull(objects.InTier2(objects.tiers))},
       {"page_observed", objects.options.page ? Json(objects.page_observed) : Json(nullptr)},
       {"counted", objects.counted ? Json(objects.counted->accesses) : Json(nullptr)},
       {"counted_freed", objects.counted ? Json(objects.counted->freed_accesses) : Json(nullptr)},
       {"lost", objects.lost},
       {"all_rows", objects.all_rows},
       {"rows", std::move(rows)}},
      objects.end, objects.lost_epochs));
}

std::string TracedObjectsCsv(const TracedObjects& objects) {
  using enum RankWeight;
  std::vector<std::string> columns{"kind",
                                   "pid",
                                   "start",
                                   "references",
                                   "references_share",
                                   "samples",
                                   "samples_share",
                                   "objects",
                                   "bytes",
                                   "live_bytes",
                                   "estimated",
                                   "lifetime_s",
                                   "what",
                                   "accesses",
                                   "accesses_share",
                                   "accesses_per_byte",
                                   "counted",
                                   "counted_share",
                                   "in_tier2_share",
                                   "of_tier2_share",
                                   "observed_share",
                                   "memory_accesses",
                                   "memory_accesses_share",
                                   "reference_accesses",
                                   "reference_accesses_share"};
  for (const std::optional<NodeId>& node : objects.nodes) {
    columns.push_back(node ? fmt::format("node_{}_share", node->value()) : "node_unknown_share");
  }
  std::string csv = CsvLine(columns);
  for (const TracedObjects::Row& row : objects.rows) {
    std::vector<std::string> cells{
        std::string(NameOf(row.kind)),
        row.pid ? fmt::format("{}", row.pid->value()) : "",
        row.start ? fmt::format("{:#x}", *row.start) : "",
        OrEmpty(row.references, Exact),
        OrEmpty(ShareOf(row.references, objects.references), Exact),
        OrEmpty(row.samples, Exact),
        OrEmpty(ShareOf(row.samples, objects.samples), Exact),
        Exact(row.objects),
        Exact(row.bytes),
        Exact(row.live_bytes),
        row.estimated ? "true" : "false",
        Exact(Seconds(row.lifetime)),
        row.type.empty() ? SiteText(row.kind, row.site, row.site.frames.size()) : row.type};
    cells.push_back(OrEmpty(row.accesses, Exact));
    cells.push_back(OrEmpty(ShareOf(row.accesses, objects.accesses), Exact));
    cells.push_back(OrEmpty(row.AccessesPerByte(), Exact));
    cells.push_back(OrEmpty(row.counted, [](std::uint64_t n) { return fmt::format("{}", n); }));
    cells.push_back(OrEmpty(objects.CountedShare(row), Exact));
    cells.push_back(OrEmpty(objects.InTier2(row.tiers), Exact));
    cells.push_back(OrEmpty(objects.OfTier2(row), Exact));
    cells.push_back(OrEmpty(row.ObservedShare(), Exact));
    for (const RankWeight weight : {kMemory, kReferences}) {
      cells.push_back(OrEmpty(IfCounts(objects, weight, row.ranked), Exact));
      cells.push_back(OrEmpty(ShareIfCounts(objects, weight, row.ranked), Exact));
    }
    for (std::size_t node = 0; node < objects.nodes.size(); ++node) {
      cells.push_back(OrEmpty(row.ShareOnNode(node), Exact));
    }
    csv += CsvLine(cells);
  }
  if (objects.tracked) {
    const TracedObjects::Elsewhere& elsewhere = objects.elsewhere;
    std::map<std::string_view, std::string> cell_of = {
        {"kind", std::string(kElsewhere)},
        {"references", OrEmpty(elsewhere.references, Exact)},
        {"references_share", OrEmpty(ShareOf(elsewhere.references, objects.references), Exact)},
        {"samples", OrEmpty(elsewhere.samples, Exact)},
        {"samples_share", OrEmpty(ShareOf(elsewhere.samples, objects.samples), Exact)},
        {"estimated", elsewhere.estimated ? "true" : "false"},
        {"accesses", OrEmpty(elsewhere.accesses, Exact)},
        {"accesses_share", OrEmpty(ShareOf(elsewhere.accesses, objects.accesses), Exact)},
        {"memory_accesses", OrEmpty(IfCounts(objects, kMemory, elsewhere.ranked), Exact)},
        {"memory_accesses_share",
         OrEmpty(ShareIfCounts(objects, kMemory, elsewhere.ranked), Exact)},
        {"reference_accesses", OrEmpty(IfCounts(objects, kReferences, elsewhere.ranked), Exact)},
        {"reference_accesses_share",
         OrEmpty(ShareIfCounts(objects, kReferences, elsewhere.ranked), Exact)},
        {"in_tier2_share", OrEmpty(objects.InTier2(elsewhere.tiers), Exact)},
        {"of_tier2_share", OrEmpty(objects.OfTier2(elsewhere), Exact)}};
    std::vector<std::string> cells;
    for (const std::string& column : columns) cells.push_back(cell_of[column]);
    csv += CsvLine(cells);
  }
  return csv;
}

std::string TracedObjectsFolded(const TracedObjects& objects) {
  std::string text;
  for (const auto& [stack, heat] : objects.stacks) {
    if (heat >= 0.5) text += fmt::format("{} {}\n", stack, std::llround(heat));
  }
  return text;
}

}  // namespace tmprof
