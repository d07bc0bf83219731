// SPDX-License-Identifier: Apache-2.0
// Which part of the memory is accessed how often: the model that a workload both follows and prints
// as its truth.
//
// The footprint is cut into equal *spans*, the unit heat is given to: one page, or 2 MiB where huge
// pages would hide anything finer. Spans are ranked, hottest first; ranks come in *bands* whose
// spans are equally hot. A phase draws a band (alias table), a rank within it, and maps the rank to
// a span (rotation by phase, then an optional shuffle). All of it is arithmetic on a table of at
// most some 10 KiB, so that the generator's own memory stays out of the profile.

#pragma once

#include <bit>
#include <cstdint>
#include <vector>

namespace tmprof::workload {

// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): no table, no bad seed.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t Next() { return Mix(state_ += 0x9e3779b97f4a7c15); }

  static std::uint64_t Mix(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

 private:
  std::uint64_t state_;
};

// 64 bits read as a number in [0, 1), in units of 2^-64.
class Fraction {
 public:
  explicit Fraction(std::uint64_t bits) : bits_(bits) {}

  std::uint64_t bits() const { return bits_; }

  // floor(bound × this); the fractional part stays, and serves the next draw. The bounds taken from
  // one fraction must multiply to far less than 2^64: the bias is their product ÷ 2^64.
  std::uint64_t Take(std::uint64_t bound) {
    const Wide product = static_cast<Wide>(bits_) * bound;
    bits_ = static_cast<std::uint64_t>(product);
    return static_cast<std::uint64_t>(product >> 64);
  }

 private:
  __extension__ using Wide = unsigned __int128;
  std::uint64_t bits_;
};

// A draw from a fixed distribution in constant time without rejection (Walker 1977, Vose 1991).
class AliasTable {
 public:
  // Precondition: not empty, weights of at least 0 with a sum above 0. They need not be normalised.
  explicit AliasTable(const std::vector<double>& weights);

  std::uint32_t Draw(Fraction fraction) const {
    const auto own = static_cast<std::uint32_t>(fraction.Take(columns_.size()));
    const Column& column = columns_[own];
    // Selected by arithmetic: a branch here is a coin toss, and a missed one costs more than a
    // load.
    const std::uint32_t keep = -static_cast<std::uint32_t>(fraction.bits() < column.threshold);
    return column.alias ^ ((own ^ column.alias) & keep);
  }

 private:
  struct Column {
    std::uint64_t threshold;  // below it the column's own index, in units of 2^-64
    std::uint32_t alias;      // the column's own index where the threshold would be 1
  };
  std::vector<Column> columns_;
};

// A fixed bijection of [0, count) that looks random: rounds of xor-shift and odd multiplication on
// the next power of two, walked until the value falls inside (fewer than two steps on average).
// Computed and not a table, which would itself be hot memory.
class Shuffle {
 public:
  Shuffle(std::uint64_t count, std::uint64_t seed);

  std::uint64_t operator()(std::uint64_t i) const {
    do {
      i = Round(Round(i, 0), 1);
    } while (i >= count_);
    return i;
  }

 private:
  std::uint64_t Round(std::uint64_t i, int round) const {
    i = ((i + addends_[round]) * multipliers_[round]) & mask_;
    return i ^ (i >> shift_);
  }

  std::uint64_t count_;
  std::uint64_t mask_;
  int shift_;
  std::uint64_t addends_[2];
  std::uint64_t multipliers_[2];  // odd, so that each round is invertible
};

struct Band {
  std::uint64_t spans = 0;
  double weight = 0;  // of all its spans together
};

struct Pattern {
  std::vector<Band> bands;           // in rank order; at least one span each
  std::uint64_t rotation_spans = 0;  // ranks move on by this many spans from phase to phase
  bool shuffled = true;              // else rank order is address order

  std::uint64_t spans() const;
};

// Every span alike.
Pattern UniformPattern(std::uint64_t spans);
// `hot_share` of the accesses on `hot_spans` spans, which the next phase leaves behind.
// Precondition: 0 < hot_spans < spans.
Pattern HotsetPattern(std::uint64_t spans, std::uint64_t hot_spans, double hot_share);
// Weight of rank k (from 1) proportional to k^-skew: exactly for the first 256 ranks, then the mean
// over bands 2 % wide. Each phase moves on by an eighth of the footprint.
Pattern ZipfPattern(std::uint64_t spans, double skew);
// The first half of the ranks, rounded up, as ZipfPattern; the others have one access in a billion
// together. Phases are alike. Precondition: at least 2 spans.
Pattern HalfIdlePattern(std::uint64_t spans, double skew);
// One of `objects` equal contiguous objects per phase.
// Precondition: objects divides spans, and is at least 2.
Pattern StepsPattern(std::uint64_t spans, std::uint64_t objects);

// Spans [start, end) and their share of a phase's accesses.
struct SpanRange {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  double weight = 0;
};

// A pattern made ready to draw from.
class Heat {
 public:
  Heat(const Pattern& pattern, std::uint64_t seed);

  std::uint64_t spans() const { return spans_; }

  // The values of a phase that Draw needs, hoisted out of the loop.
  struct Phase {
    std::uint64_t offset_spans;
  };
  Phase AtPhase(std::uint64_t phase) const { return {phase * rotation_spans_ % spans_}; }

  std::uint32_t bands() const { return static_cast<std::uint32_t>(band_ranks_.size()); }
  std::uint64_t SpansOf(std::uint32_t band) const { return band_ranks_[band].spans; }

  // A span, by the weights of the phase. Uses `random` twice; what is left of the second draw is
  // put in `rest`. `band` gets the span's band, unless it is null.
  std::uint64_t Draw(Phase phase, Random& random, Fraction& rest,
                     std::uint32_t* band = nullptr) const {
    const std::uint32_t drawn = bands_.Draw(Fraction(random.Next()));
    if (band != nullptr) *band = drawn;
    const Ranks& ranks = band_ranks_[drawn];
    rest = Fraction(random.Next());
    return SpanOf(phase, ranks.start + rest.Take(ranks.spans));
  }

  // The ranges of the phase: ascending, covering [0, spans) without gap or overlap, neighbours of
  // equal heat joined; their weights sum to 1.
  std::vector<SpanRange> Ranges(Phase phase) const { return Ranges(phase, span_weights_); }
  // The same by other weights of one span of each band; neighbours of one band are joined.
  std::vector<SpanRange> Ranges(Phase phase, const std::vector<double>& span_weights) const;

 private:
  struct Ranks {
    std::uint32_t start;
    std::uint32_t spans;
  };

  std::uint64_t SpanOf(Phase phase, std::uint64_t rank) const {
    rank += phase.offset_spans;
    if (rank >= spans_) rank -= spans_;
    return shuffled_ ? shuffle_(rank) : rank;
  }

  std::uint64_t spans_;
  std::uint64_t rotation_spans_;
  bool shuffled_;
  Shuffle shuffle_;
  AliasTable bands_;
  std::vector<Ranks> band_ranks_;
  std::vector<double> span_weights_;  // of one span, by band; sums to 1 over all spans
};

}  // namespace tmprof::workload
