// SPDX-License-Identifier: Apache-2.0

#include "report/analysis/capacity_curve.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include "base/text/format.h"
#include "base/text/human_units.h"
#include "rank/hit_rate_teller.h"
#include "rank/memory_worth.h"
#include "report/analysis/hit_rate_text.h"
#include "report/analysis/hottest_pages.h"

namespace tmprof {
namespace {

// A product of doubles may be off by this many pages: 0.07 * 100 is more than 7, 0.29 * 100 is less
// than 29.
constexpr double kRounding = 1e-6;

std::uint64_t CapacityBytes(PageCount pages) { return pages.value() * kBasePageBytes; }

PageCount ShareOf(PageCount pages, double share) {
  return PageCount(static_cast<std::uint64_t>(
      std::floor(share * static_cast<double>(pages.value()) + kRounding)));
}

std::vector<CapacityCurve::Point> PointsOf(const CapacityCurve& curve) {
  std::vector<CapacityCurve::Point> points;
  for (const double share : CapacityCurve::kShares) {
    const PageCount capacity = ShareOf(curve.size(), share);
    if (capacity == PageCount(0)) continue;
    points.push_back({.share = share, .rates = {.capacity = capacity, .pages = curve.whole}});
  }
  return points;
}

// Makes hit rates rise with the capacity: a larger tier 1 holds all pages of a smaller one. Hit
// rates of two capacities are estimated apart, and a falling one is an error. Hit rates that are
// not known well enough are left out.
void LetRise(std::vector<CapacityCurve::Point>& points, std::optional<HitRate> HitRates::* rate) {
  HitRate most{.value = 0, .low = 0, .high = 0};
  for (CapacityCurve::Point& point : points) {
    std::optional<HitRate>& told = point.rates.*rate;
    if (!told || !told->is_told()) continue;
    most = {.value = std::max(most.value, told->value),
            .low = std::max(most.low, told->low),
            .high = std::max(most.high, told->high)};
    told = most;
  }
}

HitRate ExactHitRate(double value) { return {.value = value, .low = value, .high = value}; }

bool IsKnownPage(const Evidence& evidence) { return evidence.looks > 0 || Accessed(evidence); }

void TellExact(const WholeTrace& whole, CapacityCurve& curve) {
  const DistinctPages pages(whole, IsKnownPage);
  curve.whole = pages.size();
  const HottestPages hottest(pages, whole.ranker.Score(*curve.options.by));
  curve.points = PointsOf(curve);
  if (hottest.total_score() <= 0) {
    curve.why_unknown = curve.options.by == RankSource::kMisses  ? "no access missed the cache"
                        : curve.options.by == RankSource::kStall ? "no access stalled the program"
                                                                 : "no access was counted";
    return;
  }
  std::vector<double> capacities;
  for (const CapacityCurve::Point& point : curve.points)
    capacities.push_back(static_cast<double>(point.rates.capacity.value()));
  const std::vector<double> shares = hottest.SharesHeldBy(capacities);
  for (std::size_t i = 0; i < shares.size(); ++i)
    curve.points[i].rates.oracle = ExactHitRate(shares[i]);
}

std::string WhyNotEstimated(const CapacityCurve& curve) {
  if (*curve.options.by != RankSource::kMemory) return "no process used CPU time";
  if (curve.totals.modelled_llc_bytes) {
    return fmt::format("the pages fit in a last-level cache of {}, or no process used CPU time",
                       FormatBytes(*curve.totals.modelled_llc_bytes));
  }
  return fmt::format(
      "too few accesses to memory were sampled; it takes {} to pages whose accessed bits were read",
      MemoryWorth::kFewestSamples);
}

// The pages that are ranked at the end of a trace are known only there. A first pass finds them,
// and a second one computes the hit rates.
Status TellEstimated(const Trace& trace, CapacityCurve& curve) {
  const RankSource by = *curve.options.by;
  Ranker::Options options = curve.options.ranker;
  options.llc_bytes = trace.llc_bytes;
  Ranker ranker(options);
  const Result<StreamEnd> end = ReadEpochs(
      trace, curve.options.epochs, [&](const EpochProfile& epoch) { ranker.Absorb(epoch); });
  if (!end) return Fail(end.error());
  curve.whole = ranker.PagesOfHitRates(by);
  const PageCount unknown = SizeOf(ranker.PagesUnknown(by));
  curve.resident = unknown > PageCount(0) ? std::optional(curve.whole + unknown) : std::nullopt;
  if (!curve.resident && !curve.totals.most_resident)
    curve.why_no_resident = "the trace does not tell how much memory was resident";
  curve.points = PointsOf(curve);
  if (curve.points.empty()) {
    curve.why_unknown = fmt::format("no page was {}", HowWholeIsKnown(curve));
    return {};
  }
  std::vector<PageCount> capacities;
  for (const CapacityCurve::Point& point : curve.points) capacities.push_back(point.rates.capacity);
  HitRateTeller teller(options, by, capacities);
  const Result<StreamEnd> again = ReadEpochs(
      trace, curve.options.epochs, [&](const EpochProfile& epoch) { teller.Absorb(epoch); });
  if (!again) return Fail(again.error());
  const std::vector<HitRates> rates = teller.Tell();
  for (std::size_t i = 0; i < rates.size(); ++i) curve.points[i].rates = rates[i];
  if (!curve.Knows(&HitRates::oracle)) {
    curve.why_unknown = WhyNotEstimated(curve);
    return {};
  }
  for (const CapacitySeries& series : kCapacitySeries) LetRise(curve.points, series.rate);
  // A tier 1 for the whole holds all pages, whatever is known of them.
  HitRates& last = curve.points.back().rates;
  last.oracle = last.attainable = ExactHitRate(1);
  return {};
}

}  // namespace

bool CapacityCurve::Knows(std::optional<HitRate> HitRates::* rate) const {
  return std::ranges::any_of(
      points, [rate](const Point& point) { return (point.rates.*rate).has_value(); });
}

bool CapacityCurve::IsAllTold(std::optional<HitRate> HitRates::* rate) const {
  return std::ranges::all_of(points, [rate](const Point& point) {
    const std::optional<HitRate>& each = point.rates.*rate;
    return !each || each->is_told();
  });
}

std::optional<HitRate> HitRates::* CapacityCurve::rate_of_capacity() const {
  return Knows(&HitRates::attainable) ? &HitRates::attainable : &HitRates::oracle;
}

std::optional<CapacityCurve::Capacity> CapacityCurve::CapacityFor(double hit_rate) const {
  const std::optional<Capacity> between = CapacityBetweenTold(hit_rate);
  const std::optional<PageCount> sure = SureCapacityFor(hit_rate);
  if (!sure || (between && between->pages <= *sure)) return between;
  return Capacity{.pages = *sure, .is_bound = true};
}

std::optional<CapacityCurve::Capacity> CapacityCurve::CapacityBetweenTold(double hit_rate) const {
  const std::optional<HitRate> HitRates::* rate = rate_of_capacity();
  const auto told = [rate](const Point& point) {
    return point.rates.*rate && (point.rates.*rate)->is_told();
  };
  for (std::size_t i = 0; i < points.size(); ++i) {
    const HitRates& here = points[i].rates;
    if (!told(points[i]) || (here.*rate)->value < hit_rate) continue;
    if (i == 0 || !told(points[i - 1])) {
      // The whole is always enough.
      if (here.capacity == size()) return std::nullopt;
      return Capacity{.pages = here.capacity, .is_bound = true};
    }
    const HitRates& before = points[i - 1].rates;
    // No ranking decides which unknown page is the next.
    if (rate == &HitRates::attainable && here.capacity > whole) return std::nullopt;
    const double part =
        (hit_rate - (before.*rate)->value) / ((here.*rate)->value - (before.*rate)->value);
    const auto more = static_cast<double>((here.capacity - before.capacity).value());
    const auto pages = static_cast<std::uint64_t>(std::ceil(part * more - kRounding));
    return Capacity{.pages = before.capacity + PageCount(pages)};
  }
  return std::nullopt;
}

std::optional<PageCount> CapacityCurve::SureCapacityFor(double hit_rate) const {
  if (is_exact) return std::nullopt;
  for (const Point& point : points) {
    const std::optional<HitRate>& rate = point.rates.*rate_of_capacity();
    if (rate && rate->low >= hit_rate && point.rates.capacity < size()) return point.rates.capacity;
  }
  return std::nullopt;
}

std::string_view HowWholeIsKnown(const CapacityCurve& curve) {
  if (curve.is_exact) return "looked at, sampled or accessed";
  return *curve.options.by == RankSource::kReferences ? "looked at" : "looked at or sampled";
}

std::string WholeText(const CapacityCurve& curve) {
  const std::string known =
      fmt::format("{} ({}) that {} {}", HumanSize(curve.whole), CountText(curve.whole),
                  curve.whole == PageCount(1) ? "was" : "were", HowWholeIsKnown(curve));
  if (!curve.resident) return known;
  return fmt::format("{} of resident memory, with {}", HumanSize(*curve.resident), known);
}

Result<CapacityCurve> MakeCapacityCurve(const Trace& trace, const CapacityCurveOptions& options) {
  Result<WholeTrace> whole = ReadWholeTrace(trace, RankModel::kRate, options.epochs);
  if (!whole) return Fail(whole.error());
  if (Status chosen = ChooseBasis(*whole, {options.weight, options.by}, "tell hit rates"); !chosen)
    return Fail(chosen.error());
  const RankSource by = whole->totals.basis.source;
  if (Status known = RequireAccesses(*whole, by, "tell hit rates by samples"); !known)
    return Fail(known.error());
  CapacityCurve curve{.totals = whole->totals, .options = options, .is_exact = IsExact(by)};
  curve.options.by = by;
  if (curve.is_exact) {
    TellExact(*whole, curve);
    return curve;
  }
  if (Status told = TellEstimated(trace, curve); !told) return Fail(told.error());
  // The ranking may remember fewer samples than the trace has.
  if (!curve.why_unknown.empty() && by == RankSource::kMemory && !options.by &&
      !curve.totals.modelled_llc_bytes) {
    curve.totals.basis = {.source = whole->known.Best(),
                          .weight = RankWeight::kAccesses,
                          .why_not = std::exchange(curve.why_unknown, "")};
    curve.options.by = curve.totals.basis.source;
    if (Status told = TellEstimated(trace, curve); !told) return Fail(told.error());
  }
  return curve;
}

namespace {

std::string HowKnown(const CapacityCurve& curve) {
  switch (*curve.options.by) {
    case RankSource::kReferences:
      return "estimated from accessed bits";
    case RankSource::kSamples:
    case RankSource::kCombined:
      return "estimated from accessed bits and samples";
    case RankSource::kMemory:
      if (curve.totals.modelled_llc_bytes)
        return "estimated from accessed bits and a model of the cache";
      return "estimated from accessed bits and samples of misses";
    case RankSource::kTruth:
      return "all were counted";
    case RankSource::kMisses:
      return "all misses of a modelled cache were counted";
    case RankSource::kStall:
      return "stalls were modelled for all accesses";
  }
  return "";
}

std::string PointsText(const CapacityCurve& curve, TextWidth width) {
  using enum TextTable::Align;
  using enum TextTable::Importance;
  std::vector<TextTable::Column> columns = {{"capacity", kRight, kKey}, {"of the whole"}};
  for (const CapacitySeries& series : kCapacitySeries) {
    if (curve.Knows(series.rate)) columns.push_back({series.title});
  }
  TextTable table(columns);
  bool all_told = true;
  for (const CapacityCurve::Point& point : curve.points) {
    std::vector<std::string> cells = {HumanSize(point.rates.capacity), Percent(point.share)};
    for (const CapacitySeries& series : kCapacitySeries) {
      if (!curve.Knows(series.rate)) continue;
      const std::optional<HitRate>& rate = point.rates.*series.rate;
      cells.push_back(curve.is_exact ? Percent(rate->value) : WithInterval(rate));
    }
    table.AddRow(std::move(cells));
  }
  std::string text = table.Text(width);
  for (const CapacitySeries& series : kCapacitySeries)
    all_told = all_told && curve.IsAllTold(series.rate);
  if (!all_told) text += "?: too little was seen to tell\n";
  text += "best placement: no choice of pages serves more\n";
  if (curve.Knows(&HitRates::attainable))
    text += "this ranking: the pages that this trace ranks best at its end\n";
  if (curve.Knows(&HitRates::history))
    text += "an epoch later: the pages ranked best before each epoch, judged by that epoch\n";
  return text;
}

// " (to be sure: 12 MiB)". Empty for an exact curve, and if this is the capacity itself.
std::string SureText(const CapacityCurve& curve, double wanted, PageCount capacity) {
  if (curve.is_exact) return "";
  const std::optional<PageCount> sure = curve.SureCapacityFor(wanted);
  if (sure == capacity) return "";
  return fmt::format(" (to be sure: {})", sure ? HumanSize(*sure) : "the whole");
}

// "This ranking needs 3 MiB of fast memory to serve 50 % of the accesses (to be sure: 5 MiB), 6 MiB
// or less to serve 80 % (to be sure: 8 MiB) and 9 MiB to serve 90 % (to be sure: the whole)."
std::string NeedsText(const CapacityCurve& curve) {
  struct Need {
    double wanted;
    CapacityCurve::Capacity capacity;
  };
  std::vector<Need> needs;
  for (const double wanted : CapacityCurve::kWanted) {
    const std::optional<CapacityCurve::Capacity> enough = curve.CapacityFor(wanted);
    if (!enough) continue;
    // Two hit rates may have one bound. The higher one says all.
    if (!needs.empty() && needs.back().capacity == *enough) needs.pop_back();
    needs.push_back({wanted, *enough});
  }
  if (needs.empty()) {
    return fmt::format("Only the whole is known to serve {} of the {}{}.\n",
                       Percent(CapacityCurve::kWanted.front()), AccessesOf(*curve.options.by),
                       curve.points.front().rates.unknown > PageCount(0)
                           ? ": a longer recording looks at more of it"
                           : "");
  }
  std::string text;
  for (std::size_t i = 0; i < needs.size(); ++i) {
    const auto& [wanted, capacity] = needs[i];
    if (i > 0) text += i + 1 < needs.size() ? ", " : " and ";
    text += fmt::format("{}{}{} to serve {}{}{}", HumanSize(capacity.pages),
                        capacity.is_bound ? " or less" : "", i == 0 ? " of fast memory" : "",
                        Percent(wanted),
                        i == 0 ? fmt::format(" of the {}", AccessesOf(*curve.options.by)) : "",
                        SureText(curve, wanted, capacity.pages));
  }
  const bool by_best = curve.rate_of_capacity() == &HitRates::oracle;
  text = fmt::format("{} needs {}.\n", by_best ? "The best placement" : "This ranking", text);
  if (curve.is_exact) return text;
  return text + "to be sure: the lower end of the 90 % interval serves as much\n";
}

std::string NoteOfTheRest(const CapacityCurve& curve) {
  if (!curve.resident || !curve.why_unknown.empty()) return "";
  const HitRates& rates = curve.points.front().rates;
  return rates.unknown > PageCount(0) ? NoteOfUnknown(rates)
                                      : "samples tell of the memory that was not looked at, too\n";
}

// Returns the number of unknown pages that the hit rates account for. nullopt: there is none.
std::optional<std::uint64_t> UnknownPagesOf(const CapacityCurve& curve) {
  if (curve.points.empty()) return std::nullopt;
  return curve.points.front().rates.unknown.value();
}

}  // namespace

std::string CapacityCurveText(const CapacityCurve& curve, TextWidth width) {
  const RankSource by = *curve.options.by;
  std::string text = fmt::format(
      "Hit rate of tier 1, the fast memory, by its capacity: the share of the\n"
      "{} that it serves{}\n"
      "by {}: {}\n"
      "whole: {}\n",
      AccessesOf(by), curve.is_exact ? "" : ", with 90 % intervals", TextOf(curve.totals.basis),
      HowKnown(curve), WholeText(curve));
  text += NoteOfTheRest(curve);
  if (!curve.why_no_resident.empty()) {
    text +=
        fmt::format("Memory that was not looked at is in no figure: {}.\n", curve.why_no_resident);
  }
  if (curve.why_unknown.empty()) {
    text += "\n" + PointsText(curve, width) + "\n" + NeedsText(curve);
  } else {
    text += fmt::format("No hit rate is known: {}.\n", curve.why_unknown);
  }
  for (const std::string& caveat : Caveats(curve.totals, by)) text += "note: " + caveat + "\n";
  return text;
}

namespace {

Json AsJson(const CapacityCurve& curve) {
  const RankSource by = *curve.options.by;
  Json points = Json::array();
  for (const CapacityCurve::Point& point : curve.points) {
    Json& row = points.emplace_back(Json{{"share", point.share},
                                         {"capacity_pages", point.rates.capacity.value()},
                                         {"capacity_bytes", CapacityBytes(point.rates.capacity)}});
    for (const CapacitySeries& series : kCapacitySeries)
      row[series.key] = HitRateJson(point.rates.*series.rate);
  }
  Json needs = Json::array();
  for (const double wanted : CapacityCurve::kWanted) {
    const std::optional<CapacityCurve::Capacity> enough = curve.CapacityFor(wanted);
    const std::optional<PageCount> sure = curve.SureCapacityFor(wanted);
    needs.push_back(
        {{"hit_rate", wanted},
         {"capacity_pages", OrNull(enough ? std::optional(enough->pages.value()) : std::nullopt)},
         {"capacity_bytes",
          OrNull(enough ? std::optional(CapacityBytes(enough->pages)) : std::nullopt)},
         {"less_may_do", OrNull(enough ? std::optional(enough->is_bound) : std::nullopt)},
         {"sure_capacity_bytes",
          OrNull(sure ? std::optional(CapacityBytes(*sure)) : std::nullopt)}});
  }
  return WithEnd(
      {{"view", "curve"},
       {"trace", curve.totals.trace},
       {"epochs", curve.totals.epochs},
       {"by", Name(by)},
       {"rank_weight", Name(curve.totals.basis.weight)},
       {"of", AccessesOf(by)},
       {"whole", HowWholeIsKnown(curve)},
       {"whole_pages", curve.whole.value()},
       {"whole_bytes", CapacityBytes(curve.whole)},
       {"resident_pages", curve.resident ? Json(curve.resident->value()) : Json(nullptr)},
       {"unknown_pages", OrNull(UnknownPagesOf(curve))},
       {"shares_of", curve.resident ? "resident" : "whole"},
       {"why_no_resident",
        curve.why_no_resident.empty() ? Json(nullptr) : Json(curve.why_no_resident)},
       {"notes", Caveats(curve.totals, by)},
       {"why_unknown", curve.why_unknown.empty() ? Json(nullptr) : Json(curve.why_unknown)},
       {"points", std::move(points)},
       {"needs_of", curve.rate_of_capacity() == &HitRates::oracle ? "best" : "ranked"},
       {"needs", std::move(needs)}},
      curve.totals.end, curve.totals.lost_epochs);
}

std::vector<std::string> CsvHeader() {
  std::vector<std::string> header = {"by", "of", "share", "capacity_pages", "capacity_bytes"};
  for (const CapacitySeries& series : kCapacitySeries) {
    for (const char* part : {"", "_low", "_high"}) header.push_back(std::string(series.key) + part);
  }
  return header;
}

std::vector<std::vector<std::string>> CsvRows(const CapacityCurve& curve) {
  std::vector<std::vector<std::string>> rows;
  for (const CapacityCurve::Point& point : curve.points) {
    std::vector<std::string> cells = {std::string(Name(*curve.options.by)),
                                      std::string(AccessesOf(*curve.options.by)),
                                      Exact(point.share), kPlain(point.rates.capacity),
                                      kPlain(CapacityBytes(point.rates.capacity))};
    for (const CapacitySeries& series : kCapacitySeries) {
      const std::optional<HitRate>& rate = point.rates.*series.rate;
      cells.push_back(rate && rate->is_told() ? Exact(rate->value) : "");
      cells.push_back(rate ? Exact(rate->low) : "");
      cells.push_back(rate ? Exact(rate->high) : "");
    }
    rows.push_back(std::move(cells));
  }
  return rows;
}

}  // namespace

std::string CapacityCurveJson(const CapacityCurve& curve) { return JsonText(AsJson(curve)); }

Json CapacityCurvesJson(std::span<const CapacityCurve> curves) {
  Json array = Json::array();
  for (const CapacityCurve& curve : curves) array.push_back(AsJson(curve));
  return array;
}

std::string CapacityCurveCsv(const CapacityCurve& curve) {
  std::string csv = CsvLine(CsvHeader());
  for (const std::vector<std::string>& row : CsvRows(curve)) csv += CsvLine(row);
  return csv;
}

std::string CapacityCurvesCsv(std::span<const CapacityCurve> curves) {
  std::vector<std::string> header = CsvHeader();
  header.insert(header.begin(), "trace");
  std::string csv = CsvLine(header);
  for (const CapacityCurve& curve : curves) {
    for (std::vector<std::string>& row : CsvRows(curve)) {
      row.insert(row.begin(), curve.totals.trace);
      csv += CsvLine(row);
    }
  }
  return csv;
}

}  // namespace tmprof
