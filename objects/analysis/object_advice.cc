// SPDX-License-Identifier: Apache-2.0

#include "objects/analysis/object_advice.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "objects/analysis/arena_layout.h"
#include "objects/analysis/site_uses.h"
#include "objects/arena_blocks.h"

namespace tmprof {
namespace {

constexpr double kPageBytes = kBasePageBytes;
// The following values were chosen, not measured; bench/objects_advised shows their effect.
//
// A page is a site's own if this share of its allocated bytes is the site's, and if at least
// kLeastAllocated of the page is allocated. The shares are high because one hot object is enough to
// make a page hot. If not all allocations were recorded, the other bytes may be another site's, and
// kLeastAllocatedOfSome applies.
constexpr double kOwnShare = 0.99;
constexpr double kLeastAllocated = 0.5;
constexpr double kLeastAllocatedOfSome = 0.99;
// A site's heat is known if at least this share of its bytes on accessed pages lies on its own
// pages.
constexpr double kLeastKnownShare = 1.0 / 8;
// A site is cold, and leaves the pages of hot sites, if its accesses a byte are below this part of
// theirs. It is also cold if they are at most this part of the mean over all pages.
constexpr double kColdDensity = 1.0 / 4;
// Smaller sites do not matter to any page.
constexpr double kLeastPlacedBytes = 4 * kPageBytes;

// The shares that the sites of a trace had of a span of pages with these accesses.
struct HeatedSpan {
  std::vector<SiteShare> shares;  // ascending by site, which is its index in the advice
  double accesses = 0;
  double pages = 1;

  double Allocated() const {
    double all = 0;
    for (const SiteShare& share : shares) all += share.recorded;
    return all;
  }
};

// Returns the calls of a stack as the tracker looks them up. Inlined calls are one with their
// callers, and a recursion is one call. Calls beyond one that is in no module cannot be found.
std::vector<AdvisedCall> CallsOf(const std::vector<SourceFrame>& frames) {
  std::vector<AdvisedCall> calls;
  for (const SourceFrame& frame : frames) {
    if (frame.module.empty()) break;
    AdvisedCall call{.module = frame.module, .offset = frame.offset};
    if (calls.empty() || calls.back() != call) calls.push_back(std::move(call));
  }
  return calls;
}

// A run of pages that are equally hot.
struct Heat {
  double accesses = 0;
  double pages = 0;
};

void SortByHeat(std::vector<Heat>& heats) {
  std::ranges::sort(heats, std::greater{},
                    [](const Heat& heat) { return heat.accesses / heat.pages; });
}

// Precondition of both functions: `heats` is sorted.
double ShareOfHottest(const std::vector<Heat>& heats, double pages, double all) {
  double held = 0;
  for (const Heat& heat : heats) {
    if (pages <= 0) break;
    held += heat.accesses * std::min(1.0, pages / heat.pages);
    pages -= heat.pages;
  }
  return all > 0 ? std::min(held / all, 1.0) : 0;
}

std::uint64_t PagesOfShare(const std::vector<Heat>& heats, double share, double all) {
  double left = share * all;
  double pages = 0;
  for (const Heat& heat : heats) {
    if (left <= 0 || heat.accesses <= 0) break;
    pages += heat.pages * std::min(1.0, left / heat.accesses);
    left -= heat.accesses;
  }
  return static_cast<std::uint64_t>(std::ceil(pages));
}

class Adviser {
 public:
  Adviser(const WholeTrace& whole, SiteUses& uses, const ObjectAdviceOptions& options)
      : uses_(uses),
        options_(options),
        all_are_recorded_(uses.all_are_recorded() && whole.totals.lost_epochs == 0) {
    FindSites();
    FindSpans(whole.ranker.table(), whole.ranker.Score(*options.by));
    RecallPlaces();
    Measure();
  }

  // Uses counts by another build. Precondition: Take() was not called.
  Status Count(const ObjectProfiles& profiles, const std::string& trace) {
    std::vector<TracedSite> sites;
    for (const auto& [site, place] : place_of_) {
      sites.push_back({.place = place, .frames = uses_.frames().at(site)});
    }
    Result<SiteCounts> counted = CountSites(profiles, sites, trace);
    if (!counted) return Fail(std::move(counted.error()));
    counts_ = *std::move(counted);
    // The total heat of the sites' pages stays. The counts distribute it among the sites.
    double heat = 0;
    for (const auto& [place, accesses] : counts_->by_place) heat += heats_[place];
    if (heat <= 0) {
      return Fail(BadInput("advise by counts on", trace,
                           "no page of the counted sites was accessed in the trace, so it does not "
                           "tell what their accesses are beside others'",
                           "record the program while it does the work that was counted, or leave "
                           "--counts out"));
    }
    heat_of_count_ = heat / static_cast<double>(counts_->found);
    for (const auto& [place, accesses] : counts_->by_place) {
      ObjectAdvice::Site& site = sites_[place];
      site.counted = accesses;
      site.accesses = heat_of_count_ * static_cast<double>(accesses);
      is_cold_[place] = accesses == 0;
    }
    return {};
  }

  ObjectAdvice Take() {
    FindRoom();
    Judge();
    ObjectAdvice advice{.options = options_,
                        .tracked = uses_.tracked(),
                        .lost = uses_.lost(),
                        .accesses = all_,
                        .hot_room_bytes = hot_room_,
                        .hot_bytes = static_cast<std::uint64_t>(BytesOf(SiteVerdict::kHot)),
                        .unplaced = unplaced_,
                        .counts = counts_};
    Predict(advice);
    Write(advice.advice);
    for (const std::size_t i : order_) advice.sites.push_back(std::move(sites_[i]));
    return advice;
  }

 private:
  // Stacks that a tracker cannot tell apart, such as those of a recursion, are one site.
  void FindSites() {
    std::map<std::vector<AdvisedCall>, std::uint32_t> by_calls;
    for (const auto& [site, use] : uses_.sites()) {
      const auto frames = uses_.frames().find(site);
      if (frames == uses_.frames().end()) continue;
      std::vector<AdvisedCall> calls = CallsOf(frames->second);
      auto place = static_cast<std::uint32_t>(sites_.size());
      if (!calls.empty()) place = by_calls.try_emplace(calls, place).first->second;
      place_of_[site] = place;
      if (place == sites_.size()) {
        sites_.push_back({.frames = frames->second});
        arena_bytes_.push_back(0);
        calls_.push_back(std::move(calls));
      }
      sites_[place].peak_bytes += use.peak_bytes;
      sites_[place].objects += static_cast<std::uint64_t>(std::llround(use.objects));
      arena_bytes_[place] += use.peak_bytes + use.objects_at_peak * kArenaHeaderBytes;
    }
  }

  // Turns shares by site into shares by index in the advice.
  std::vector<SiteShare> SharesByPlace(const SpanUse& use) const {
    std::vector<SiteShare> shares;
    for (SiteShare share : use.shares) {
      const auto place = place_of_.find(share.site);
      share.site = place != place_of_.end() ? place->second : kNoPlace;
      share.recorded /= use.weight;
      share.with_unrecorded /= use.weight;
      AddTo(shares, share);
    }
    return shares;
  }

  void FindSpans(const EvidenceTable& table, const Scores& scores) {
    all_ = std::reduce(scores.begin(), scores.end());
    const std::vector<SpanUse> uses = uses_.TakeSpans();
    const std::vector<double> accesses = SpanAccesses(uses, table, scores);
    spans_.reserve(uses.size());
    for (std::size_t i = 0; i < uses.size(); ++i) {
      spans_.push_back({.shares = SharesByPlace(uses[i]),
                        .accesses = accesses[i],
                        .pages = uses[i].page_count()});
    }
  }

  // Finds the arena in which the recorded program had each site.
  void RecallPlaces() {
    placed_.resize(sites_.size());
    alone_.resize(sites_.size());
    if (!options_.placed_under) return;
    std::map<std::vector<AdvisedCall>, std::optional<std::uint32_t>> arenas;
    std::map<std::uint32_t, std::size_t> inhabitants;
    for (const AdvisedSite& site : options_.placed_under->sites) {
      if (options_.placed_under->IsOfOtherBuild(site, uses_.build_ids())) continue;
      arenas[site.calls] = site.arena;
      if (site.arena) ++inhabitants[*site.arena];
    }
    for (std::size_t i = 0; i < sites_.size(); ++i) {
      const auto known = arenas.find(calls_[i]);
      if (known == arenas.end() || !known->second) continue;
      placed_[i] = known->second;
      alone_[i] = inhabitants[*known->second] == 1;
    }
  }

  // True: an earlier advice judged the site, and no counts know better.
  bool WasJudged(std::size_t i) const {
    return placed_[i] && *placed_[i] < kFirstApartArena && !sites_[i].counted;
  }

  void Measure() {
    struct Sum {
      double heat = 0;   // its share of its pages
      double bytes = 0;  // in accessed pages
      double own_heat = 0;
      double own_bytes = 0;
      double most_heat = 0;  // if it had all accesses of its pages
      double recorded_bytes = 0;
    };
    std::vector<Sum> sums(sites_.size());
    is_cold_.resize(sites_.size());
    heats_.resize(sites_.size());
    for (const HeatedSpan& span : spans_) {
      if (span.accesses > 0) accessed_pages_ += span.pages;
      for (const SiteShare& share : span.shares) {
        if (share.site == kNoPlace) continue;
        Sum& sum = sums[share.site];
        const double bytes = share.with_unrecorded * span.pages * kPageBytes;
        sum.heat += span.accesses * share.with_unrecorded;
        sum.bytes += bytes;
        sum.most_heat += span.accesses;
        sum.recorded_bytes += share.recorded * span.pages * kPageBytes;
        if (!IsOwn(span, share)) continue;
        sum.own_heat += span.accesses * share.with_unrecorded;
        sum.own_bytes += bytes;
      }
    }
    const double mean_density = accessed_pages_ > 0 ? all_ / (accessed_pages_ * kPageBytes) : 0;
    for (std::size_t i = 0; i < sites_.size(); ++i) {
      const Sum& sum = sums[i];
      ObjectAdvice::Site& site = sites_[i];
      site.accesses = heats_[i] = sum.heat;
      site.was_seen = sum.bytes > 0;
      if (!site.was_seen) continue;
      is_cold_[i] = sum.most_heat <= kColdDensity * mean_density * sum.recorded_bytes;
      site.known_share = is_cold_[i] ? 1 : sum.own_bytes / sum.bytes;
      if (!is_cold_[i] && IsKnown(site)) site.accesses = sum.own_heat / site.known_share;
    }
  }

  bool IsOwn(const HeatedSpan& span, const SiteShare& share) const {
    const double allocated = span.Allocated();
    if (share.recorded < kOwnShare * allocated) return false;
    return alone_[share.site] ||
           allocated >= (all_are_recorded_ ? kLeastAllocated : kLeastAllocatedOfSome);
  }

  static bool IsKnown(const ObjectAdvice::Site& site) {
    return site.known_share >= kLeastKnownShare;
  }

  KnownBy WhatKnows(std::size_t i) const {
    if (sites_[i].counted) return KnownBy::kCounts;
    if (WasJudged(i)) return KnownBy::kAdvice;
    return IsKnown(sites_[i]) ? KnownBy::kPages : KnownBy::kNothing;
  }

  void FindRoom() {
    if (!options_.hot_room) return;
    if (const auto* bytes = std::get_if<std::uint64_t>(&*options_.hot_room)) {
      hot_room_ = *bytes;
      return;
    }
    const PageCount pages(static_cast<std::uint64_t>(accessed_pages_));
    hot_room_ = CapacityAt(std::get<Ratio>(*options_.hot_room), pages).value() * kBasePageBytes;
  }

  bool HasRoomBeyond(double arena_bytes) const {
    return !hot_room_ || arena_bytes < static_cast<double>(*hot_room_);
  }

  double BytesOf(SiteVerdict verdict) const {
    double bytes = 0;
    for (std::size_t i = 0; i < sites_.size(); ++i) {
      if (sites_[i].verdict == verdict) bytes += arena_bytes_[i];
    }
    return bytes;
  }

  void Judge() {
    std::vector<std::size_t> known;
    std::vector<std::size_t> unknown;
    for (std::size_t i = 0; i < sites_.size(); ++i) {
      ObjectAdvice::Site& site = sites_[i];
      site.known_by = WhatKnows(i);
      const bool matters =
          WasJudged(i) || ((site.was_seen || site.counted) && site.peak_bytes >= kLeastPlacedBytes);
      if (!matters || calls_[i].empty()) continue;
      (site.known_by != KnownBy::kNothing ? known : unknown).push_back(i);
    }
    std::ranges::stable_sort(known, std::greater{},
                             [&](std::size_t i) { return sites_[i].AccessesPerByte(); });
    JudgeKnown(known);
    std::ranges::stable_sort(unknown, std::greater{},
                             [&](std::size_t i) { return sites_[i].accesses; });
    all_are_known_ = unknown.empty();
    unknown.resize(std::min<std::size_t>(unknown.size(), kArenas - kFirstApartArena));
    for (const std::size_t i : unknown) sites_[i].verdict = SiteVerdict::kApart;
    FitRoom();
  }

  // Judges sites in the order of `known`, most accesses a byte first.
  void JudgeKnown(const std::vector<std::size_t>& known) {
    double of_known = 0;
    for (const std::size_t i : known) of_known += sites_[i].accesses;
    double hot = 0;
    double hot_bytes = 0;
    double in_arena = 0;
    for (const std::size_t i : known) {
      ObjectAdvice::Site& site = sites_[i];
      if (WasJudged(i)) {
        // The site shares its pages with others of its verdict, so that they are no evidence about
        // it. The earlier verdict stands.
        site.verdict = SiteVerdict::kCold;
        if (*placed_[i] == kHotArena) {
          site.verdict = HasRoomBeyond(in_arena) ? SiteVerdict::kHot : SiteVerdict::kStays;
        }
      } else if (is_cold_[i] || site.accesses * hot_bytes < kColdDensity * hot * site.peak_bytes) {
        site.verdict = SiteVerdict::kCold;
      } else if (hot < options_.hot_share * of_known && HasRoomBeyond(in_arena)) {
        site.verdict = SiteVerdict::kHot;
      }
      if (site.verdict == SiteVerdict::kHot) {
        hot += site.accesses;
        hot_bytes += site.peak_bytes;
        in_arena += arena_bytes_[i];
      }
    }
  }

  void FitRoom() {
    order_.resize(sites_.size());
    std::iota(order_.begin(), order_.end(), 0);
    SortByVerdict();
    AdviceRoom room;
    has_room_.resize(sites_.size());
    for (const std::size_t i : order_) {
      has_room_[i] = room.Take(calls_[i]);
      if (has_room_[i]) continue;
      ++unplaced_;
      sites_[i].verdict = SiteVerdict::kStays;
    }
    SortByVerdict();
    const double hot_bytes = BytesOf(SiteVerdict::kHot);
    if (!HasRoomBeyond(hot_bytes)) packed_of_hot_ = static_cast<double>(*hot_room_) / hot_bytes;
  }

  void SortByVerdict() {
    std::ranges::sort(order_, {}, [&](std::size_t i) {
      return std::tuple(sites_[i].verdict, -sites_[i].AccessesPerByte(), i);
    });
  }

  void Predict(ObjectAdvice& advice) const {
    std::vector<Heat> now;
    std::vector<Heat> left;
    double all_left = 0;
    for (const HeatedSpan& span : spans_) {
      if (span.accesses <= 0) continue;
      now.push_back({.accesses = span.accesses, .pages = span.pages});
      double leaves = 0;
      for (const SiteShare& share : span.shares) leaves += PackedShare(share.site) * share.recorded;
      if (leaves > 0 && leaves >= kOwnShare * span.Allocated()) continue;
      left.push_back(
          {.accesses = span.accesses * (1 - std::min(leaves, 1.0)), .pages = span.pages});
      all_left += left.back().accesses;
    }
    std::vector<Heat> advised = ArenaHeats();
    double all_advised = 0;
    for (const Heat& arena : advised) all_advised += arena.accesses;
    // Pages of which only some objects were recorded have lost more than these objects.
    const double kept = all_left > 0 ? std::max(all_ - all_advised, 0.0) / all_left : 0;
    for (Heat heat : left) {
      heat.accesses *= kept;
      all_advised += heat.accesses;
      advised.push_back(heat);
    }
    SortByHeat(now);
    SortByHeat(advised);
    const bool is_known = advice.tracked && all_are_known_;
    advice.pages = static_cast<std::uint64_t>(accessed_pages_);
    advice.hot_pages = PagesOfShare(now, options_.hot_share, all_);
    if (is_known) advice.hot_pages_advised = PagesOfShare(advised, options_.hot_share, all_advised);
    for (const Ratio ratio : options_.ratios) {
      const auto room = static_cast<double>(CapacityAt(ratio, PageCount(advice.pages)).value());
      advice.hit_rates.push_back(
          {.ratio = ratio, .now = ShareOfHottest(now, room, all_), .advised = std::nullopt});
      if (is_known) advice.hit_rates.back().advised = ShareOfHottest(advised, room, all_advised);
    }
  }

  // Returns the heat of the hot and of the cold arena. Without counts all pages of an arena are
  // alike.
  std::vector<Heat> ArenaHeats() const {
    Heat hot;
    Heat cold;
    for (std::size_t i = 0; i < sites_.size(); ++i) {
      if (!IsPackedAt(i)) continue;
      Heat& arena = sites_[i].verdict == SiteVerdict::kHot ? hot : cold;
      arena.accesses += sites_[i].accesses * PackedShareAt(i);
      arena.pages += arena_bytes_[i] * PackedShareAt(i) / kPageBytes;
    }
    hot.pages = std::ceil(hot.pages);
    cold.pages = std::ceil(cold.pages);
    std::vector<Heat> heats = PartsOf(hot);
    if (cold.pages > 0) heats.push_back(cold);
    return heats;
  }

  // Objects that lived to the end of the profiles lie in the hot arena in the order of their
  // births, evenly over its pages. The rest of its heat, which includes freed objects, is spread
  // evenly over all pages.
  std::vector<Heat> PartsOf(const Heat& hot) const {
    if (hot.pages == 0) return {};
    if (!counts_) return {hot};
    const std::vector<ArenaPart> parts = LayOut(
        options_.counts.Sites(),
        [&](std::size_t profile, std::uint32_t site) {
          const auto place = counts_->places[profile].find(site);
          return place != counts_->places[profile].end() &&
                 sites_[place->second].verdict == SiteVerdict::kHot;
        },
        hot.pages);
    if (parts.empty()) return {hot};
    double bytes = 0;
    double counted = 0;
    const double heat_of_count = heat_of_count_ * packed_of_hot_;
    for (const ArenaPart& part : parts) {
      bytes += part.bytes;
      counted += part.accesses * heat_of_count;
    }
    const double rest = std::max(hot.accesses - counted, 0.0);
    std::vector<Heat> heats;
    for (const ArenaPart& part : parts) {
      heats.push_back({.accesses = part.accesses * heat_of_count + rest * part.bytes / bytes,
                       .pages = hot.pages * part.bytes / bytes});
    }
    return heats;
  }

  bool IsPackedAt(std::size_t i) const {
    return sites_[i].verdict == SiteVerdict::kHot || sites_[i].verdict == SiteVerdict::kCold;
  }
  double PackedShareAt(std::size_t i) const {
    if (!IsPackedAt(i)) return 0;
    return sites_[i].verdict == SiteVerdict::kHot ? packed_of_hot_ : 1;
  }
  double PackedShare(std::uint32_t place) const {
    return place != kNoPlace ? PackedShareAt(place) : 0;
  }

  void Write(ArenaAdvice& advice) const {
    std::uint32_t apart = kFirstApartArena;
    for (const std::size_t i : order_) {
      if (!has_room_[i]) continue;
      AdvisedSite site{.arena = std::nullopt, .calls = calls_[i]};
      switch (sites_[i].verdict) {
        case SiteVerdict::kHot:
          site.arena = kHotArena;
          break;
        case SiteVerdict::kCold:
          site.arena = kColdArena;
          break;
        case SiteVerdict::kApart:
          site.arena = apart++;
          break;
        case SiteVerdict::kStays:
          break;
      }
      advice.sites.push_back(std::move(site));
    }
    for (const AdvisedSite& site : advice.sites) {
      for (const AdvisedCall& call : site.calls) {
        const auto build = uses_.build_ids().find(call.module);
        if (build != uses_.build_ids().end()) advice.build_ids.insert(*build);
      }
    }
    if (options_.placed_under) Keep(*options_.placed_under, advice);
    if (!options_.cold_nodes.empty()) advice.nodes[kColdArena] = options_.cold_nodes;
    if (hot_room_) advice.room_bytes[kHotArena] = *hot_room_;
  }

  // Keeps the verdicts of sites that were judged before and not seen this time.
  void Keep(const ArenaAdvice& before, ArenaAdvice& advice) const {
    if (const auto nodes = before.nodes.find(kColdArena); nodes != before.nodes.end()) {
      advice.nodes.insert(*nodes);
    }
    AdviceRoom room;
    for (const AdvisedSite& site : advice.sites) room.Take(site.calls);
    for (const AdvisedSite& site : before.sites) {
      if (site.arena && *site.arena >= kFirstApartArena) continue;
      if (before.IsOfOtherBuild(site, uses_.build_ids())) continue;
      const bool is_there = std::ranges::find(calls_, site.calls) != calls_.end();
      if (is_there || !room.Take(site.calls)) continue;
      advice.sites.push_back(site);
      for (const AdvisedCall& call : site.calls) {
        const auto build = before.build_ids.find(call.module);
        if (build != before.build_ids.end()) advice.build_ids.insert(*build);
      }
    }
  }

  static constexpr std::uint32_t kNoPlace = std::numeric_limits<std::uint32_t>::max();

  SiteUses& uses_;
  ObjectAdviceOptions options_;
  bool all_are_recorded_ = false;
  double all_ = 0;
  double accessed_pages_ = 0;
  std::optional<std::uint64_t> hot_room_;  // bytes
  double packed_of_hot_ =
      1;  // share of the hot sites' objects in their arena, which takes them as they come
  std::vector<HeatedSpan> spans_;
  std::vector<ObjectAdvice::Site> sites_;
  std::vector<double> arena_bytes_;                  // at their peak
  std::map<std::uint32_t, std::uint32_t> place_of_;  // key: site
  std::vector<std::vector<AdvisedCall>> calls_;
  std::vector<std::optional<std::uint32_t>> placed_;
  std::vector<bool> alone_;
  // The share, by bytes, of the heat of its pages.
  std::vector<double> heats_;
  std::vector<bool> is_cold_;  // even if it had all accesses of its pages, or by counts
  std::optional<SiteCounts> counts_;
  double heat_of_count_ = 0;  // heat of one counted access
  std::vector<bool> has_room_;
  std::vector<std::size_t> order_;
  std::uint64_t unplaced_ = 0;
  bool all_are_known_ = true;  // all sites that matter
};

}  // namespace

std::uint64_t ObjectAdvice::Count(SiteVerdict verdict) const {
  return static_cast<std::uint64_t>(std::ranges::count(sites, verdict, &Site::verdict));
}

Result<ObjectAdvice> MakeObjectAdvice(const Trace& trace, const ObjectAdviceOptions& wanted) {
  ObjectAdviceOptions options = wanted;
  Result<WholeTrace> whole = ReadWholeTrace(trace, options.model, {});
  if (!whole) return Fail(std::move(whole.error()));
  if (Status chosen = ChooseBasis(*whole, {options.weight, options.by}, "advise on objects");
      !chosen) {
    return Fail(std::move(chosen.error()));
  }
  options.by = whole->totals.basis.source;
  SiteUses uses;
  const Result<StreamEnd> end =
      ReadEpochs(trace, {}, [&](const EpochProfile& epoch) { uses.See(epoch); });
  if (!end) return Fail(end.error());
  Adviser adviser(*whole, uses, options);
  if (!options.counts.empty()) {
    if (Status counted = adviser.Count(options.counts, trace.name); !counted) {
      return Fail(std::move(counted.error()));
    }
  }
  ObjectAdvice advice = adviser.Take();
  advice.totals = std::move(whole->totals);
  return advice;
}

}  // namespace tmprof
