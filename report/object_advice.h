// SPDX-License-Identifier: Apache-2.0
// Which allocation sites' objects to place together, from a trace that has allocations, and what
// that would gain.
//
// A page tells how hot it is, not which of its objects are. So a site's heat is known from pages
// that hold its objects alone; a site that has too few of them is to be told apart first: it gets
// an arena of its own, and the next recording knows. Or another build of the program counted its
// accesses by itself: then its counts say which sites have them (report/counted_sites.h), and the
// trace where these are called from, what they hold and how hot all of it is.
//
// Memory follows the footprint, some 130 bytes a page, beside that of ReadWholeTrace().

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/allocations.h"
#include "base/ratio.h"
#include "base/result.h"
#include "base/units.h"
#include "proto/arena_advice.h"
#include "rank/rank_model.h"
#include "rank/rank_weight.h"
#include "report/counted_objects.h"
#include "report/counted_sites.h"
#include "report/trace.h"
#include "report/whole_trace.h"

namespace tmprof {

struct ObjectAdviceOptions {
  RankModel model = RankModel::kRate;
  RankWeight weight = RankWeight::kMemory;
  std::optional<RankSource> by;  // one kind of evidence instead of the weight
  // The sites of most accesses a byte that have this share of the known sites' accesses are packed
  // together, without those that have far fewer a byte than the first.
  double hot_share = 0.9;
  // Of the hot arena: bytes, or tier 1 : pages accessed. Sites are hot while there is some left; of
  // the last one a part lies elsewhere. Unset: as much as they take.
  std::optional<std::variant<std::uint64_t, Ratio>> hot_room = std::nullopt;
  std::vector<Ratio> ratios;                // tier 1 : pages accessed
  std::vector<std::uint32_t> cold_nodes;    // empty: cold objects lie where the kernel has them
  std::optional<ArenaAdvice> placed_under;  // what the recorded program was placed by
  ObjectProfiles counts;                    // of other builds of it; empty: none
};

enum class SiteVerdict : std::uint8_t { kHot, kCold, kApart, kStays };

// What a site's heat is known by, the best there is.
enum class KnownBy : std::uint8_t {
  kNothing,
  kPages,   // that are its own, or as cold as they are
  kAdvice,  // that placed it: what it was judged stands
  kCounts,
};

struct ObjectAdvice {
  struct Site {
    SiteVerdict verdict = SiteVerdict::kStays;
    std::vector<SourceFrame> frames;
    double accesses = 0;        // as ScoreUnit() says; of its share of its pages, where not known
    bool was_seen = false;      // any page of it was looked at
    double known_share = 0;     // of its bytes in such pages, those by which its heat is known
    double peak_bytes = 0;      // that lived at once
    std::uint64_t objects = 0;  // ever, by estimate

    KnownBy known_by = KnownBy::kNothing;
    std::optional<std::uint64_t> counted = std::nullopt;  // accesses, by profiles; unset: unknown

    double AccessesPerByte() const { return peak_bytes > 0 ? accesses / peak_bytes : 0; }
  };
  struct HitRate {
    Ratio ratio;
    double now = 0;
    std::optional<double> advised;  // unset: not known before sites are told apart
  };
  TraceTotals totals;
  ObjectAdviceOptions options;
  bool tracked = false;     // false: nobody told of allocations in this trace
  std::uint64_t lost = 0;   // allocations and frees
  std::vector<Site> sites;  // by verdict, then accesses a byte, descending
  double accesses = 0;      // of all pages
  std::uint64_t pages = 0;  // accessed
  // Pages that the hot share of all accesses goes to, at least.
  std::uint64_t hot_pages = 0;
  std::optional<std::uint64_t> hot_pages_advised;  // as HitRate::advised
  std::vector<HitRate> hit_rates;  // of the hottest pages over the whole trace, by ratio
  std::optional<std::uint64_t> hot_room_bytes;  // of the hot arena; unset: it has no bound
  std::uint64_t hot_bytes = 0;  // that hot sites' objects take there at their peak, if they may
  std::uint64_t unplaced = 0;   // sites that an advice file cannot name, or has no room for
  std::optional<SiteCounts> counts;  // unset: there are no profiles
  ArenaAdvice advice;

  std::uint64_t Count(SiteVerdict verdict) const;
};

Result<ObjectAdvice> MakeObjectAdvice(const Trace& trace, const ObjectAdviceOptions& options);

std::string_view Name(SiteVerdict verdict);  // "hot", "cold", "apart", "stays"
std::string_view Name(KnownBy known_by);     // "pages", "advice", "counts"; empty: by nothing
std::string ObjectAdviceText(const ObjectAdvice& advice);
std::string ObjectAdviceJson(const ObjectAdvice& advice);
// For programs to read, with each site's calls spelt out.
std::string ObjectAdviceFile(const ObjectAdvice& advice);

}  // namespace tmprof
