// SPDX-License-Identifier: Apache-2.0

#include "policy/replay/shared_rows.h"

#include <algorithm>

namespace tmprof {

void SharedRows::Cut() {
  std::vector<std::uint64_t> cuts;
  cuts.reserve(2 * mappers_.size());
  for (const Mapper& mapper : mappers_) {
    cuts.push_back(mapper.first);
    cuts.push_back(mapper.first + mapper.pages);
  }
  std::ranges::sort(cuts);
  cuts.erase(std::ranges::unique(cuts).begin(), cuts.end());

  std::ranges::sort(mappers_, {}, &Mapper::first);
  pieces_.clear();
  std::uint64_t mapped_end = 0;
  auto next = mappers_.begin();
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    for (; next != mappers_.end() && next->first <= cuts[i]; ++next)
      mapped_end = std::max(mapped_end, next->first + next->pages);
    if (cuts[i] < mapped_end) pieces_.push_back({cuts[i], cuts[i + 1] - cuts[i]});
  }
}

std::size_t SharedRows::PieceAt(std::uint64_t first) const {
  return static_cast<std::size_t>(std::ranges::lower_bound(pieces_, first, {}, &Piece::first) -
                                  pieces_.begin());
}

void SharedRows::AppendScores(std::vector<double>& score) const {
  const std::size_t before = score.size();
  score.resize(before + pieces_.size());
  for (const Mapper& mapper : mappers_) {
    const double of_page = score[mapper.row] / static_cast<double>(mapper.pages);
    const std::uint64_t end = mapper.first + mapper.pages;
    for (std::size_t i = PieceAt(mapper.first); i < pieces_.size() && pieces_[i].first < end; ++i)
      score[before + i] += of_page * static_cast<double>(pieces_[i].pages);
  }
}

}  // namespace tmprof
