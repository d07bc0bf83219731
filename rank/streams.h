// SPDX-License-Identifier: Apache-2.0
// Tells memory that is streamed through from memory that is accessed here and there. Prefetchers
// hide the latency of streams, so that placing them gains less. Only rank/ uses it.
//
// A stream finds the pages of a 2 MiB block together or not at all, because it accesses them within
// the milliseconds in which it passes. Pages of one rate that are accessed at random are found
// independently of each other. The statistic is the number of first accesses that one epoch finds
// in a block, minus the number that the pages' own rates predict for the time watched. It scatters
// far more for a stream. For independent pages its square is on average the number of first
// accesses (a counting process less its compensator; Andersen, Borgan, Gill and Keiding,
// Statistical Models Based on Counting Processes, II.4). If all of R pages are always found
// together, it is R times as much.
//
// Three cases are not decided: streams that come back within every visit, which part of a huge page
// or region is a stream, and the order in which pages of a block are accessed. A block may have
// pages that are all used at random, in bursts with long rests between. How soon its pages are
// found again distinguishes it from a stream.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "base/epoch_profile.h"
#include "base/page_key.h"
#include "base/units.h"
#include "rank/ageing.h"

namespace tmprof {

// The part of a stream's accesses to memory whose latency is hidden. A prefetcher that stops at the
// end of a page fetches all of its 64 lines but the three that tell it the direction
// (profiler/sources/exact/plugin/stream_prefetcher.h).
inline constexpr double kHiddenOfStream = 61.0 / 64;

inline constexpr std::size_t kStreamBlock = 512;  // pages that are found together or not at all

// The shares of accesses that are of streams, as they were estimated at some time.
class StreamShares {
 public:
  // Returns that of the accesses to these pages, in [0, 1]; 0 if there is no evidence.
  double Of(PageKey first, PageCount pages) const;

 private:
  friend class Streams;
  struct OfBlock {
    PageKey first;
    double share;  // > 0
  };
  std::vector<OfBlock> blocks_;  // ascending
};

class Streams {
 public:
  // Epochs come oldest first. Records without time are no evidence. A huge page or region is no
  // evidence about its pages, and what was known of their blocks is forgotten.
  void Look(const EpochProfile& epoch);

  // Evidence from before the next epoch keeps so much of its weight. A block is forgotten if next
  // to nothing is left of evidence as old as its last visit.
  void Age(const Keeps& keeps);
  // Forgets all other targets. Precondition: `live` ascends.
  void ForgetAllBut(std::span<const TargetId> live);

  // Returns those of each block, estimated from it and its neighbours: an array is mostly larger
  // than one block.
  StreamShares Shares() const;
  std::size_t blocks() const { return blocks_.size(); }  // remembered blocks

 private:
  // Sums over visits whose outcome was predicted.
  struct Scored {
    double visits = 0;
    double finds = 0;
    double soon_finds = 0;      // finds far sooner than the page's rate predicts
    double soon_by_chance = 0;  // number expected if no accesses come in bursts
    double excess = 0;          // squares of what was not predicted, less the finds
    double excess_of_one = 0;   // the same if all pages were always found together

    void Add(const Scored& more);
    void Halve();
    double Share() const;
  };
  struct Block {
    std::array<float, kStreamBlock> finds{};    // first accesses of each page
    std::array<float, kStreamBlock> seconds{};  // watched before these
    double all_finds = 0;
    double all_seconds = 0;
    std::uint64_t visits = 0;
    double kept = 1;  // weight of evidence as old as the last visit
    Scored scored;

    void Fade();
  };
  void ForgetWithin(PageKey first, PageCount pages);
  void LookAtBlock(const PageColumns& pages, std::size_t begin, std::size_t end);

  std::map<PageKey, Block> blocks_;  // key: the first page
};

}  // namespace tmprof
