// SPDX-License-Identifier: Apache-2.0

#include "rank/streams.h"

#include <algorithm>
#include <iterator>
#include <optional>

namespace tmprof {
namespace {

// Fewer pages of a block say little of whether they were found together.
constexpr std::size_t kFewestPages = 16;
// Visits from which the pages' own rates are learned before any is predicted.
constexpr std::uint64_t kVisitsToLearn = 3;
// Blocks to either side that are evidence about a block, too.
constexpr std::uint64_t kNeighbours = 2;
// Predicted visits, and first accesses in them, without which no share is given.
constexpr double kFewestScored = 4;
constexpr double kFewestFinds = 64;
// A page is found soon if that takes at most this part of the mean time between accesses. A stream
// comes back after its period, and is found so soon by chance alone. Pages of a burst are found so
// soon nearly always, as the visits during it begin in it.
constexpr double kSoon = 1.0 / 32;
// Chance has some finds soon. These are parts of the others that come soon: from the first one on a
// block is taken to be used in bursts, from the second one on in nothing else.
constexpr double kSoonOfStreams = 0.25;
constexpr double kSoonOfBursts = 0.75;
// If chance has more of the finds soon, visits are too short to decide.
constexpr double kMostSoonByChance = 0.75;
// Older visits weigh half after so many.
constexpr std::uint64_t kVisitsKept = 64;
// A block is forgotten with the rows of evidence of its pages (kForgotten, evidence.cc).
constexpr double kLeastKept = 1.0 / 1024;

PageKey BlockOf(PageKey page) {
  return {page.target, Vpn(page.vpn.value() / kStreamBlock * kStreamBlock)};
}

bool Tells(const PageColumns& pages, std::size_t i) {
  return pages.span_pages[i] == 1 && pages.looks[i] > 0 && pages.time_at_risk[i].seconds() > 0;
}

}  // namespace

void Streams::Scored::Add(const Scored& more) {
  visits += more.visits;
  finds += more.finds;
  soon_finds += more.soon_finds;
  soon_by_chance += more.soon_by_chance;
  excess += more.excess;
  excess_of_one += more.excess_of_one;
}

void Streams::Scored::Halve() {
  for (double* each : {&visits, &finds, &soon_finds, &soon_by_chance, &excess, &excess_of_one}) {
    *each /= 2;
  }
}

double Streams::Scored::Share() const {
  if (visits < kFewestScored || finds < kFewestFinds || excess_of_one <= 0) return 0;
  if (soon_by_chance > kMostSoonByChance * finds) return 0;
  const double together = std::clamp(excess / excess_of_one, 0.0, 1.0);
  const double soon = (soon_finds - soon_by_chance) / (finds - soon_by_chance);
  const double in_bursts =
      std::clamp((soon - kSoonOfStreams) / (kSoonOfBursts - kSoonOfStreams), 0.0, 1.0);
  return together * (1 - in_bursts);
}

void Streams::Block::Fade() {
  for (float& each : finds) each /= 2;
  for (float& each : seconds) each /= 2;
  all_finds /= 2;
  all_seconds /= 2;
  visits /= 2;
  scored.Halve();
}

void Streams::Look(const EpochProfile& epoch) {
  const PageColumns& pages = epoch.pages;
  for (std::size_t begin = 0; begin < pages.size();) {
    const PageKey block = BlockOf(pages.key(begin));
    std::size_t end = begin;
    std::size_t telling = 0;
    for (; end < pages.size() && BlockOf(pages.key(end)) == block; ++end) {
      telling += Tells(pages, end) ? 1 : 0;
      if (pages.span_pages[end] > 1 && pages.looks[end] > 0)
        ForgetWithin(pages.key(end), PageCount(pages.span_pages[end]));
    }
    if (telling >= kFewestPages) LookAtBlock(pages, begin, end);
    begin = end;
  }
}

void Streams::ForgetWithin(PageKey first, PageCount pages) {
  const PageKey end{first.target, first.vpn + pages};
  blocks_.erase(blocks_.lower_bound(BlockOf(first)), blocks_.lower_bound(end));
}

void Streams::Age(const Keeps& keeps) {
  std::optional<TargetId> target;
  double keep = 1;
  for (auto block = blocks_.begin(); block != blocks_.end();) {
    if (target != block->first.target) {
      target = block->first.target;
      keep = keeps.Of(*target).evidence;
    }
    block->second.kept *= keep;
    block = block->second.kept < kLeastKept ? blocks_.erase(block) : std::next(block);
  }
}

void Streams::ForgetAllBut(std::span<const TargetId> live) {
  std::erase_if(blocks_, [live](const auto& block) {
    return !std::ranges::binary_search(live, block.first.target);
  });
}

void Streams::LookAtBlock(const PageColumns& pages, std::size_t begin, std::size_t end) {
  const PageKey first = BlockOf(pages.key(begin));
  Block& block = blocks_[first];
  const bool predicts = block.visits >= kVisitsToLearn && block.all_finds > 0;
  const double seconds_of_find = predicts ? block.all_seconds / block.all_finds : 0;
  double finds = 0;
  double predicted = 0;
  double looked_at = 0;
  for (std::size_t i = begin; i < end; ++i) {
    if (!Tells(pages, i)) continue;
    const auto page = static_cast<std::size_t>((pages.vpn[i] - first.vpn).value());
    const auto found = static_cast<double>(pages.first_accesses[i]);
    const double seconds = pages.time_at_risk[i].seconds();
    if (predicts) {
      // The page's own rate, drawn to the block's by as much as one find is worth.
      const double rate = (block.finds[page] + 1) / (block.seconds[page] + seconds_of_find);
      predicted += rate * seconds;
      looked_at += 1;
      finds += found;
      block.scored.soon_by_chance += std::min(rate * seconds, kSoon);
      if (found > 0 && seconds * rate < kSoon * found) block.scored.soon_finds += found;
    }
    block.finds[page] += static_cast<float>(found);
    block.seconds[page] += static_cast<float>(seconds);
    block.all_finds += found;
    block.all_seconds += seconds;
  }
  ++block.visits;
  block.kept = 1;
  if (predicts) {
    const double off = finds - predicted;
    block.scored.Add({.visits = 1,
                      .finds = finds,
                      .excess = off * off - finds,
                      .excess_of_one = finds * (looked_at - 1)});
  }
  if (block.visits >= kVisitsKept) block.Fade();
}

StreamShares Streams::Shares() const {
  StreamShares shares;
  for (auto block = blocks_.begin(); block != blocks_.end(); ++block) {
    const PageKey first = block->first;
    const std::uint64_t reach = std::min(kNeighbours * kStreamBlock, first.vpn.value());
    Scored sum;
    for (auto near = blocks_.lower_bound({first.target, Vpn(first.vpn.value() - reach)});
         near != blocks_.end() && near->first.target == first.target &&
         near->first.vpn <= first.vpn + PageCount(kNeighbours * kStreamBlock);
         ++near) {
      sum.Add(near->second.scored);
    }
    if (const double share = sum.Share(); share > 0) shares.blocks_.push_back({first, share});
  }
  return shares;
}

double StreamShares::Of(PageKey first, PageCount pages) const {
  const Vpn end = first.vpn + pages;
  double sum = 0;
  for (auto block = std::ranges::lower_bound(blocks_, BlockOf(first), {}, &OfBlock::first);
       block != blocks_.end() && block->first < PageKey{first.target, end}; ++block) {
    const Vpn from = std::max(block->first.vpn, first.vpn);
    const Vpn to = std::min(block->first.vpn + PageCount(kStreamBlock), end);
    sum += block->share * static_cast<double>((to - from).value());
  }
  return sum / static_cast<double>(pages.value());
}

}  // namespace tmprof
