// SPDX-License-Identifier: Apache-2.0

#include "locking/lock_advice.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "base/text/format.h"
#include "base/text/human_units.h"

namespace tmprof {
namespace {

// The grain grows by this factor from one attempt to the next while there are too many ranges, up
// to all of an address space.
constexpr std::uint64_t kCoarser = 4;
constexpr std::uint64_t kCoarsest = std::uint64_t{1} << 36;

double PagesIn(VpnRange range) { return static_cast<double>(range.size().value()); }

// Returns blocks that begin and end at multiples of `grain`, clipped to known pages. Blocks that
// lie in one range are joined.
std::vector<HeatedRange> BlocksOf(std::span<const HeatedRange> known, std::uint64_t grain) {
  std::vector<HeatedRange> blocks;
  std::optional<std::uint64_t> last_cell;  // cell of the last block, if it is one cell
  for (const HeatedRange& range : known) {
    const double density = range.accesses / PagesIn(range.pages);
    for (Vpn start = range.pages.start; start < range.pages.end;) {
      const std::uint64_t cell = start.value() / grain;
      const bool whole = start.value() % grain == 0 && range.pages.end.value() / grain > cell;
      const Vpn end(whole ? range.pages.end.value() / grain * grain
                          : std::min(range.pages.end.value(), (cell + 1) * grain));
      const double accesses = density * PagesIn({start, end});
      if (!whole && last_cell == cell) {
        blocks.back().pages.end = end;
        blocks.back().accesses += accesses;
      } else {
        blocks.push_back({{start, end}, accesses});
      }
      last_cell = whole ? std::nullopt : std::optional(cell);
      start = end;
    }
  }
  return blocks;
}

LockChoice ChooseBlocks(std::vector<HeatedRange> blocks, PageCount limit, std::uint64_t grain) {
  const auto density = [](const HeatedRange& block) {
    return block.accesses / PagesIn(block.pages);
  };
  std::erase_if(blocks, [](const HeatedRange& block) { return !(block.accesses > 0); });
  std::ranges::sort(blocks, [&](const HeatedRange& a, const HeatedRange& b) {
    return density(a) != density(b) ? density(a) > density(b) : a.pages.start < b.pages.start;
  });
  LockChoice choice{.grain = PageCount(grain)};
  PageCount room = limit;
  for (HeatedRange& block : blocks) {
    if (room == PageCount(0)) break;
    const PageCount taken = std::min(block.pages.size(), room);
    block.accesses *= static_cast<double>(taken.value()) / PagesIn(block.pages);
    block.pages.end = block.pages.start + taken;
    room -= taken;
    choice.ranges.push_back(block);
  }
  std::ranges::sort(choice.ranges, {}, [](const HeatedRange& range) { return range.pages.start; });
  std::vector<HeatedRange> joined;
  for (const HeatedRange& range : choice.ranges) {
    if (!joined.empty() && joined.back().pages.end == range.pages.start) {
      joined.back().pages.end = range.pages.end;
      joined.back().accesses += range.accesses;
    } else {
      joined.push_back(range);
    }
  }
  choice.ranges = std::move(joined);
  return choice;
}

PageCount LimitOf(const LockAdviceOptions& options, PageCount accessed) {
  if (const auto* bytes = std::get_if<std::uint64_t>(&options.limit))
    return PageCount(*bytes / kBasePageBytes);
  return PageCount(static_cast<std::uint64_t>(std::get<double>(options.limit) *
                                              static_cast<double>(accessed.value())));
}

std::string BytesOf(PageCount pages) { return FormatBytes(pages.value() * kBasePageBytes); }

}  // namespace

PageCount LockChoice::size() const {
  PageCount sum;
  for (const HeatedRange& range : ranges) sum += range.pages.size();
  return sum;
}

double LockChoice::accesses() const {
  double sum = 0;
  for (const HeatedRange& range : ranges) sum += range.accesses;
  return sum;
}

LockChoice ChooseLocked(std::span<const HeatedRange> known, PageCount limit,
                        std::size_t most_ranges) {
  for (std::uint64_t grain = 1;; grain *= kCoarser) {
    LockChoice choice = ChooseBlocks(BlocksOf(known, grain), limit, grain);
    if (choice.ranges.size() <= most_ranges || grain >= kCoarsest) return choice;
  }
}

std::optional<double> LockAdvice::CoveredShare() const {
  if (!(accesses > 0)) return std::nullopt;
  return choice.accesses() / accesses;
}

Result<LockAdvice> MakeLockAdvice(const Trace& trace, const LockAdviceOptions& options) {
  Result<WholeTrace> whole = ReadWholeTrace(trace, options.model, {});
  if (!whole) return Fail(std::move(whole.error()));
  if (Status chosen = ChooseBasis(*whole, {options.weight, options.by}, "advise"); !chosen) {
    return Fail(std::move(chosen.error()));
  }
  const RankSource by = whole->totals.basis.source;
  LockAdvice advice{.totals = whole->totals, .options = options};
  advice.options.by = by;
  const EvidenceTable& table = whole->ranker.table();
  const Scores scores = whole->ranker.Score(by);
  std::map<TargetId, double> accesses;
  for (std::size_t i = 0; i < table.size(); ++i)
    if (advice.totals.IsOf(table.key[i].target, options.pid))
      accesses[table.key[i].target] += scores[i];
  const auto most = std::ranges::max_element(
      accesses, {}, [](const auto& of_target) { return of_target.second; });
  if (most == accesses.end() || !(most->second > 0)) {
    return Fail(BadInput("advise what to lock", trace.name,
                         options.pid
                             ? fmt::format("it has no accesses of PID {}", options.pid->value())
                             : "no page was seen accessed",
                         "record for longer, or a program that runs"));
  }
  const TargetId id = most->first;
  if (const TargetTotal* target = advice.totals.FindTarget(id)) advice.target = *target;
  advice.accesses = most->second;
  std::vector<HeatedRange> known;
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (table.key[i].target != id) continue;
    const PageCount pages(table.span_pages[i]);
    known.push_back({{table.key[i].vpn, table.key[i].vpn + pages}, scores[i]});
    if (Accessed(table.evidence[i])) advice.accessed += pages;
  }
  advice.limit = LimitOf(options, advice.accessed);
  advice.choice = ChooseLocked(known, advice.limit, kMostLockedRanges);
  return advice;
}

std::string LockAdviceText(const LockAdvice& advice, TextWidth width) {
  using enum TextTable::Align;
  using enum TextTable::Importance;
  std::string text = fmt::format(
      "memory of PID {} ({}) worth locking: {} of {} accessed, in {}, with {} of the "
      "accesses\naccesses: {}, by {}\n",
      advice.target.pid.value(), Printable(advice.target.name), BytesOf(advice.choice.size()),
      BytesOf(advice.accessed), CountText(advice.choice.ranges.size(), "range"),
      OrUnknown(advice.CoveredShare(), Percent),
      ScoreUnit(advice.totals, advice.options.model, *advice.options.by),
      TextOf(advice.totals.basis));
  std::vector<double> accesses;
  for (const HeatedRange& range : advice.choice.ranges) accesses.push_back(range.accesses);
  const ColumnScale scale(accesses);
  TextTable table({{"start", kRight, kKey},
                   {"end", kRight, kThird},
                   {"size", kRight, kKey},
                   {scale.Title("accesses")},
                   {"share"}});
  for (const HeatedRange& range : advice.choice.ranges) {
    table.AddRow({Address(range.pages.start), Address(range.pages.end),
                  HumanSize(range.pages.size()), scale(range.accesses),
                  Percent(range.accesses / advice.accesses)});
  }
  text += table.Text(width);
  if (advice.applied) {
    const LockAdvice::Applied& applied = *advice.applied;
    text += fmt::format("{} {} in PID {}\n", applied.locked ? "locked" : "unlocked",
                        BytesOf(applied.changed), advice.target.pid.value());
    for (const auto& refusal : applied.refused) {
      text += fmt::format("refused: {} to {}: {}\n", Address(refusal.range.start),
                          Address(refusal.range.end), ErrnoText(refusal.system_error));
    }
    if (applied.raised_limit) {
      text += fmt::format("note: its RLIMIT_MEMLOCK was raised to {}\n",
                          FormatBytes(*applied.raised_limit));
    }
  }
  if (advice.choice.grain > PageCount(1)) {
    text += fmt::format(
        "note: hot pages lie scattered: they were taken in blocks of {}, so that no more than {} "
        "ranges are locked\n",
        BytesOf(advice.choice.grain), Grouped(kMostLockedRanges));
  }
  for (const std::string& caveat : Caveats(advice.totals, *advice.options.by))
    text += "note: " + caveat + "\n";
  return text;
}

std::string LockAdviceJson(const LockAdvice& advice) {
  Json ranges = Json::array();
  for (const HeatedRange& range : advice.choice.ranges) {
    ranges.push_back({{"start", Address(range.pages.start)},
                      {"end", Address(range.pages.end)},
                      {"bytes", range.pages.size().value() * kBasePageBytes},
                      {"accesses", range.accesses},
                      {"share", range.accesses / advice.accesses}});
  }
  Json applied = nullptr;
  if (advice.applied) {
    Json refused = Json::array();
    for (const auto& refusal : advice.applied->refused) {
      refused.push_back({{"start", Address(refusal.range.start)},
                         {"end", Address(refusal.range.end)},
                         {"errno", ErrnoName(refusal.system_error)}});
    }
    applied = {{"locked", advice.applied->locked},
               {"bytes", advice.applied->changed.value() * kBasePageBytes},
               {"refused", std::move(refused)},
               {"raised_limit_bytes", OrNull(advice.applied->raised_limit)}};
  }
  return JsonText(
      WithEnd({{"trace", advice.totals.trace},
               {"pid", advice.target.pid.value()},
               {"name", advice.target.name},
               {"score_unit", ScoreUnit(advice.totals, advice.options.model, *advice.options.by)},
               {"by", Name(*advice.options.by)},
               {"rank_weight", Name(advice.totals.basis.weight)},
               {"accessed_bytes", advice.accessed.value() * kBasePageBytes},
               {"accesses", advice.accesses},
               {"limit_bytes", advice.limit.value() * kBasePageBytes},
               {"bytes", advice.choice.size().value() * kBasePageBytes},
               {"covered_share", OrNull(advice.CoveredShare())},
               {"grain_bytes", advice.choice.grain.value() * kBasePageBytes},
               {"notes", Caveats(advice.totals, *advice.options.by)},
               {"ranges", std::move(ranges)},
               {"applied", std::move(applied)}},
              advice.totals.end, advice.totals.lost_epochs));
}

}  // namespace tmprof
