// SPDX-License-Identifier: Apache-2.0
// Advises which allocation sites' objects to place together, from a trace that has allocations, and
// estimates the gain.
//
// A page has a heat; its objects do not have one each. A site's heat is therefore known only from
// pages that hold its objects alone. A site with too few such pages must be told apart first: it
// gets an arena of its own, and the next recording knows its heat. Counts by another build of the
// program can replace that. The counts then tell which sites have the accesses
// (objects/analysis/counted_sites.h). The trace tells the callers of these sites, their sizes, and
// the heat of all of them together.
//
// Memory grows with the footprint, some 130 bytes a page, in addition to that of ReadWholeTrace().

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/ratio.h"
#include "base/result.h"
#include "base/text/text_table.h"
#include "base/units.h"
#include "objects/analysis/counted_objects.h"
#include "objects/analysis/counted_sites.h"
#include "objects/format/allocations.h"
#include "objects/format/arena_advice.h"
#include "proto/trace.h"
#include "rank/rank_model.h"
#include "rank/rank_weight.h"
#include "report/analysis/whole_trace.h"

namespace tmprof {

struct ObjectAdviceOptions {
  RankModel model = RankModel::kRate;
  RankWeight weight = RankWeight::kMemory;
  std::optional<RankSource> by;  // one kind of evidence instead of the weight
  // The sites with the most accesses a byte are packed together until they have this share of the
  // known sites' accesses. Sites with far fewer accesses a byte than the first one are left out.
  double hot_share = 0.9;
  // Limit of the hot arena: bytes, or the ratio tier 1 : pages accessed. Sites are hot while there
  // is room. A part of the last one lies elsewhere. Unset: no limit.
  std::optional<std::variant<std::uint64_t, Ratio>> hot_room = std::nullopt;
  std::vector<Ratio> ratios;                // tier 1 : pages accessed
  std::vector<std::uint32_t> cold_nodes;    // empty: the kernel places cold objects
  std::optional<ArenaAdvice> placed_under;  // the advice that the recorded program ran under
  ObjectProfiles counts;                    // counts of other builds of the program; empty: none
};

enum class SiteVerdict : std::uint8_t { kHot, kCold, kApart, kStays };

// The best evidence of a site's heat.
enum class KnownBy : std::uint8_t {
  kNothing,
  kPages,   // the site's own pages, or pages as cold as it
  kAdvice,  // the advice that placed it; its verdict stands
  kCounts,
};

struct ObjectAdvice {
  struct Site {
    SiteVerdict verdict = SiteVerdict::kStays;
    std::vector<SourceFrame> frames;
    // In the unit of ScoreUnit(); its share of its pages' accesses if its heat is not known.
    double accesses = 0;
    bool was_seen = false;  // any of its pages was looked at
    // Share of its bytes on accessed pages whose heat is known to be its own.
    double known_share = 0;
    double peak_bytes = 0;      // most bytes that lived at once
    std::uint64_t objects = 0;  // ever; estimated

    KnownBy known_by = KnownBy::kNothing;
    std::optional<std::uint64_t> counted = std::nullopt;  // accesses, by profiles; unset: unknown

    double AccessesPerByte() const { return peak_bytes > 0 ? accesses / peak_bytes : 0; }
  };
  struct HitRate {
    Ratio ratio;
    double now = 0;
    std::optional<double> advised;  // unset: unknown until sites are told apart
  };
  TraceTotals totals;
  ObjectAdviceOptions options;
  bool tracked = false;     // false: the trace has no allocations
  std::uint64_t lost = 0;   // allocations and frees
  std::vector<Site> sites;  // sorted by verdict, then by accesses a byte, descending
  double accesses = 0;      // accesses to all pages
  std::uint64_t pages = 0;  // accessed pages
  // The fewest pages that have the hot share of all accesses.
  std::uint64_t hot_pages = 0;
  std::optional<std::uint64_t> hot_pages_advised;  // unset: unknown until sites are told apart
  std::vector<HitRate> hit_rates;  // those of the hottest pages over the whole trace, one per ratio
  std::optional<std::uint64_t> hot_room_bytes;  // limit of the hot arena; unset: none
  // Bytes of hot sites' objects in the hot arena at their peak, within its limit.
  std::uint64_t hot_bytes = 0;
  std::uint64_t unplaced = 0;        // sites that an advice file cannot name or has no room for
  std::optional<SiteCounts> counts;  // unset: there are no profiles
  ArenaAdvice advice;

  std::uint64_t Count(SiteVerdict verdict) const;
};

Result<ObjectAdvice> MakeObjectAdvice(const Trace& trace, const ObjectAdviceOptions& options);

std::string_view Name(SiteVerdict verdict);  // "hot", "cold", "apart", "stays"
std::string_view Name(KnownBy known_by);     // "pages", "advice", "counts"; empty for kNothing
std::string ObjectAdviceText(const ObjectAdvice& advice, TextWidth width = {});
std::string ObjectAdviceJson(const ObjectAdvice& advice);
// Makes the file that programs read, with each site's calls spelt out.
std::string ObjectAdviceFile(const ObjectAdvice& advice);

}  // namespace tmprof
