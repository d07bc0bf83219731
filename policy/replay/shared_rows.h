// SPDX-License-Identifier: Apache-2.0
// Turns records of pages that several processes map into rows of their own. Such a page is placed
// once, and its score is the sum of its mappers' scores.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tmprof {

class SharedRows {
 public:
  void Clear() { mappers_.clear(); }
  bool empty() const { return mappers_.empty(); }

  // Notes that row `row` is a mapper of the footprint's pages [first, first + pages).
  void Take(std::size_t row, std::uint64_t first, std::uint64_t pages) {
    mappers_.push_back({row, first, pages});
  }

  // Cuts the pages of all mappers at each begin and end of a mapper. Pieces ascend.
  void Cut();
  struct Piece {
    std::uint64_t first = 0;
    std::uint64_t pages = 0;
  };
  const std::vector<Piece>& pieces() const { return pieces_; }
  // Appends the score of each piece. `score` has those of the mappers' rows, which are spread
  // evenly over their pages. Precondition: Cut() was called.
  void AppendScores(std::vector<double>& score) const;

 private:
  struct Mapper {
    std::size_t row = 0;
    std::uint64_t first = 0;
    std::uint64_t pages = 0;
  };
  std::size_t PieceAt(std::uint64_t first) const;

  std::vector<Mapper> mappers_;
  std::vector<Piece> pieces_;
};

}  // namespace tmprof
