// SPDX-License-Identifier: Apache-2.0
// Tells how much fast memory a program needs: the hit rate of tier 1 by its capacity.

#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/text/format.h"
#include "base/text/text_table.h"
#include "base/units.h"
#include "rank/hit_rates.h"
#include "rank/rank_model.h"
#include "rank/rank_weight.h"
#include "report/analysis/whole_trace.h"

namespace tmprof {

struct CapacityCurveOptions {
  RankWeight weight = RankWeight::kMemory;
  std::optional<RankSource> by;  // one kind of evidence instead of the weight
  EpochRange epochs;
  // Its cache is the trace's. Precondition: it has the rate model.
  Ranker::Options ranker = Ranker::DefaultOptions(RankModel::kRate);
};

struct CapacityCurve {
  // They are ascending parts of the whole.
  static constexpr std::array kShares = {0.01, 0.02, 0.03, 0.05, 0.07, 0.10, 0.15, 0.20, 0.25,
                                         0.30, 0.40, 0.50, 0.60, 0.70, 0.80, 0.90, 1.00};
  // The hit rates that a reader asks the capacity for.
  static constexpr std::array kWanted = {0.5, 0.8, 0.9};

  struct Point {
    double share = 0;  // share of size()
    // `rates` are those of a capacity of this share of size(). Known hit rates do not fall when the
    // capacity grows. At the whole they are 1, except for history. With exact counts only `oracle`
    // is known.
    HitRates rates;
  };
  struct Capacity {
    PageCount pages;
    // Less may do, because no smaller capacity is known.
    bool is_bound = false;
    friend bool operator==(const Capacity&, const Capacity&) = default;
  };

  TraceTotals totals;
  CapacityCurveOptions options;
  bool is_exact = false;
  // Pages that were looked at or sampled; exact: also those that were accessed.
  PageCount whole;
  // All memory that the programs have, if it is more than `whole`. A page that several processes
  // map counts once. nullopt: it is no more, or unknown.
  std::optional<PageCount> resident;
  std::string why_no_resident;  // set if it is unknown
  std::vector<Point> points;    // ascending; shares of less than a page are left out
  std::string why_unknown;      // set if no hit rate is known

  // The memory that capacities are shares of.
  PageCount size() const { return resident.value_or(whole); }
  // True if any point has such a hit rate, told or not.
  bool Knows(std::optional<HitRate> HitRates::* rate) const;
  // True if enough was seen to know all there are.
  bool IsAllTold(std::optional<HitRate> HitRates::* rate) const;
  // The hit rate that CapacityFor() goes by: this ranking's, if it is known.
  std::optional<HitRate> HitRates::* rate_of_capacity() const;
  // Returns the smallest capacity that is known to have this hit rate: from a line between known
  // points, or that of SureCapacityFor(). nullopt: only the whole is known to have it.
  std::optional<Capacity> CapacityFor(double hit_rate) const;
  // Returns the smallest capacity of a point whose interval lies at this hit rate or above.
  // nullopt: none but the whole is known to be enough, or the curve is exact.
  std::optional<PageCount> SureCapacityFor(double hit_rate) const;

 private:
  std::optional<Capacity> CapacityBetweenTold(double hit_rate) const;
};

// The hit rates of a point, as every format names them.
struct CapacitySeries {
  const char* key;
  const char* title;
  std::optional<HitRate> HitRates::* rate;
};
inline constexpr CapacitySeries kCapacitySeries[] = {
    {"best", "best placement", &HitRates::oracle},
    {"ranked", "this ranking", &HitRates::attainable},
    {"history", "an epoch later", &HitRates::history},
};

// A page that several processes map counts once. Refuses to estimate accesses from samples alone,
// and what ChooseBasis() refuses. Reads the trace up to five times.
Result<CapacityCurve> MakeCapacityCurve(const Trace& trace, const CapacityCurveOptions& options);

std::string CapacityCurveText(const CapacityCurve& curve, TextWidth width = {});
std::string CapacityCurveJson(const CapacityCurve& curve);
std::string CapacityCurveCsv(const CapacityCurve& curve);
// Spell the curves of several traces: an array, and one table with the column `trace` first.
Json CapacityCurvesJson(std::span<const CapacityCurve> curves);
std::string CapacityCurvesCsv(std::span<const CapacityCurve> curves);
Result<std::string> CapacityCurvePng(const CapacityCurve& curve);  // the bytes of a PNG file

// Says which pages the whole is made of: "looked at or sampled".
std::string_view HowWholeIsKnown(const CapacityCurve& curve);
// Names the memory that capacities are shares of: "36.2 MiB (9 272 pages) that were looked at".
std::string WholeText(const CapacityCurve& curve);

}  // namespace tmprof
