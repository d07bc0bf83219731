// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "base/text/format.h"
#include "base/text/human_units.h"
#include "objects/analysis/object_advice.h"
#include "objects/analysis/objects.h"

namespace tmprof {

std::string_view Name(SiteVerdict verdict) {
  switch (verdict) {
    case SiteVerdict::kHot:
      return "hot";
    case SiteVerdict::kCold:
      return "cold";
    case SiteVerdict::kApart:
      return "apart";
    case SiteVerdict::kStays:
      break;
  }
  return "stays";
}

std::string_view Name(KnownBy known_by) {
  switch (known_by) {
    case KnownBy::kPages:
      return "pages";
    case KnownBy::kAdvice:
      return "advice";
    case KnownBy::kCounts:
      return "counts";
    case KnownBy::kNothing:
      break;
  }
  return "";
}

namespace {

// Spells the share of the site's pages that is its own.
std::string KnownText(const ObjectAdvice::Site& site) {
  if (site.known_by == KnownBy::kCounts) return std::string(Name(site.known_by));
  return site.was_seen ? Percent(site.known_share) : "nothing";
}

std::string NotesOn(const SiteCounts& counts) {
  std::string text;
  if (counts.missing_sites > 0) {
    text += fmt::format("note: not in the trace: {} with accesses\n",
                        CountText(counts.missing_sites, "counted site"));
  }
  if (counts.ambiguous_sites > 0) {
    text += fmt::format(
        "note: counts say nothing of {} with accesses, which may each be one of several\n",
        CountText(counts.ambiguous_sites, "counted site"));
  }
  return text;
}

Json CountsJson(const std::optional<SiteCounts>& counts) {
  if (!counts) return nullptr;
  return {{"accesses", counts->accesses},
          {"found_share", counts->FoundShare()},
          {"missing_sites", counts->missing_sites},
          {"ambiguous_sites", counts->ambiguous_sites}};
}

}  // namespace

std::string ObjectAdviceText(const ObjectAdvice& advice, TextWidth width) {
  using enum TextTable::Align;
  using enum TextTable::Importance;
  std::string text = fmt::format(
      "allocation sites of {}: {} hot, {} cold, {} to be told apart, {} stay\naccesses: {}, by "
      "{}\n",
      Printable(advice.totals.trace), advice.Count(SiteVerdict::kHot),
      advice.Count(SiteVerdict::kCold), advice.Count(SiteVerdict::kApart),
      advice.Count(SiteVerdict::kStays),
      ScoreUnit(advice.totals, advice.options.model, *advice.options.by),
      TextOf(advice.totals.basis));
  TextTable table({{"advice", kLeft, kKey},
                   {"accesses", kRight, kThird},
                   {"share", kRight, kKey},
                   {"peak bytes"},
                   {"accesses a KiB"},
                   {"objects", kRight, kThird},
                   {"known by"},
                   {"site", kLeft, kKey, kShortestSite}});
  for (const ObjectAdvice::Site& site : advice.sites) {
    table.AddRow({std::string(Name(site.verdict)), Significant(site.accesses),
                  Percent(advice.accesses > 0 ? site.accesses / advice.accesses : 0),
                  FormatBytes(static_cast<std::uint64_t>(site.peak_bytes)),
                  Significant(site.AccessesPerByte() * 1024), Grouped(site.objects),
                  KnownText(site), FramesText(site.frames)});
  }
  if (advice.counts) {
    text += fmt::format("counts: {} of {} to what was allocated are of sites of the trace\n",
                        Percent(advice.counts->FoundShare()),
                        CountText(advice.counts->accesses, "access", "accesses"));
  }
  text += table.Text(width);
  const auto advised_count = [](const std::optional<std::uint64_t>& count) {
    return OrUnknown(count, Grouped);
  };
  text += fmt::format("pages that {} of the accesses go to: now {}, with the advice {}; of {}\n",
                      Percent(advice.options.hot_share), Grouped(advice.hot_pages),
                      advised_count(advice.hot_pages_advised), Grouped(advice.pages));
  std::vector<TextTable::Column> columns{{"hit rate, tier 1 : pages accessed", kLeft, kKey}};
  std::vector<std::string> now{"now"};
  std::vector<std::string> advised{"with the advice"};
  for (const ObjectAdvice::HitRate& rate : advice.hit_rates) {
    columns.push_back({ToString(rate.ratio)});
    now.push_back(Percent(rate.now));
    advised.push_back(OrUnknown(rate.advised, Percent));
  }
  TextTable rates(std::move(columns));
  rates.AddRow(std::move(now));
  rates.AddRow(std::move(advised));
  if (!advice.hit_rates.empty()) text += rates.Text(width);
  if (advice.hot_room_bytes) {
    text += fmt::format("hot sites take {} at their peak; their arena has room for {}\n",
                        FormatBytes(advice.hot_bytes), FormatBytes(*advice.hot_room_bytes));
    if (advice.hot_bytes > *advice.hot_room_bytes) {
      text +=
          "note: when it is full, malloc has the rest of their objects; --room makes it larger\n";
    }
  }
  if (!advice.tracked) {
    text += "note: nobody tracked allocations in this trace; record it with --objects\n";
  }
  if (advice.counts) text += NotesOn(*advice.counts);
  if (advice.lost > 0) {
    text += fmt::format(
        "note: lost: {}; what they began or ended is missing here, and "
        "only "
        "sites that were apart are known; --objects-from and --objects-interval tell of fewer\n",
        CountText(advice.lost, "allocation or free", "allocations and frees"));
  }
  if (advice.unplaced > 0) {
    text += fmt::format("note: the file cannot name {}, or has no room: nothing changes there\n",
                        CountText(advice.unplaced, "site"));
  }
  if (advice.Count(SiteVerdict::kApart) > 0) {
    text +=
        "note: sites to be told apart share their pages with others; record again with this "
        "advice, and advise again\n";
  }
  for (const std::string& caveat : Caveats(advice.totals, *advice.options.by)) {
    text += "note: " + caveat + "\n";
  }
  return text;
}

std::string ObjectAdviceJson(const ObjectAdvice& advice) {
  Json sites = Json::array();
  for (const ObjectAdvice::Site& site : advice.sites) {
    sites.push_back({{"advice", Name(site.verdict)},
                     {"accesses", site.accesses},
                     {"peak_bytes", site.peak_bytes},
                     {"objects", site.objects},
                     {"known_by", site.known_by != KnownBy::kNothing ? Json(Name(site.known_by))
                                                                     : Json(nullptr)},
                     {"known_share", site.was_seen ? Json(site.known_share) : Json(nullptr)},
                     {"counted", OrNull(site.counted)},
                     {"frames", FramesJson(site.frames)}});
  }
  Json rates = Json::array();
  for (const ObjectAdvice::HitRate& rate : advice.hit_rates) {
    rates.push_back(
        {{"ratio", ToString(rate.ratio)}, {"now", rate.now}, {"advised", OrNull(rate.advised)}});
  }
  return JsonText(WithEnd({{"trace", advice.totals.trace},
                           {"rank_weight", Name(advice.totals.basis.weight)},
                           {"tracked", advice.tracked},
                           {"lost", advice.lost},
                           {"unplaced", advice.unplaced},
                           {"accesses", advice.accesses},
                           {"pages", advice.pages},
                           {"hot_share", advice.options.hot_share},
                           {"hot_pages", advice.hot_pages},
                           {"hot_pages_advised", OrNull(advice.hot_pages_advised)},
                           {"hot_room_bytes", OrNull(advice.hot_room_bytes)},
                           {"hot_bytes", advice.hot_bytes},
                           {"counts", CountsJson(advice.counts)},
                           {"hit_rates", std::move(rates)},
                           {"sites", std::move(sites)}},
                          advice.totals.end, advice.totals.lost_epochs));
}

std::string ObjectAdviceFile(const ObjectAdvice& advice) {
  std::vector<std::string> comments{
      fmt::format("of {}; arena {} is hot, {} cold, each from {} on one site's that is to be told "
                  "apart",
                  Printable(advice.totals.trace), kHotArena, kColdArena, kFirstApartArena)};
  for (const ObjectAdvice::Site& site : advice.sites) {
    comments.push_back(fmt::format("{} {}", Name(site.verdict), FramesText(site.frames)));
  }
  return AdviceText(advice.advice, comments);
}

}  // namespace tmprof
