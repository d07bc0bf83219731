// SPDX-License-Identifier: Apache-2.0

#include "rank/page_mappers.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "base/epoch_profile.h"
#include "base/merge_runs.h"

namespace tmprof {
namespace {

struct PartOfFile {
  TargetId target;
  VpnRange pages;  // pages of the file
};

VpnRange ShownBy(const SharedPages::Part& part) {
  return {part.name.vpn, part.name.vpn + part.range.size()};
}

// The parts of each file.
std::map<TargetId, std::vector<PartOfFile>> PartsByFile(const SharedPages& shared) {
  std::map<TargetId, std::vector<PartOfFile>> files;
  for (const TargetId target : shared.Mappers()) {
    for (const SharedPages::Part& part : shared.PartsOf(target)) {
      if (part.may_be_another) continue;
      files[part.name.target].push_back({target, ShownBy(part)});
    }
  }
  return files;
}

// The pages that more than one part shows, ascending and apart.
std::vector<VpnRange> ShownTwice(const std::vector<PartOfFile>& parts) {
  std::vector<std::pair<Vpn, int>> changes;
  for (const PartOfFile& part : parts) {
    changes.emplace_back(part.pages.start, 1);
    changes.emplace_back(part.pages.end, -1);
  }
  std::ranges::sort(changes);  // ends come before starts
  std::vector<VpnRange> twice;
  int depth = 0;
  for (const auto& [at, change] : changes) {
    if (change > 0 && depth == 1) {
      if (twice.empty() || twice.back().end != at) {
        twice.push_back({at, at});
      }
    } else if (change < 0 && depth == 2) {
      twice.back().end = at;
    }
    depth += change;
  }
  return twice;
}

// Returns the places where parts begin or end, ascending.
std::vector<Vpn> EdgesOf(const std::vector<PartOfFile>& parts) {
  std::vector<Vpn> edges;
  for (const PartOfFile& part : parts)
    edges.insert(edges.end(), {part.pages.start, part.pages.end});
  std::ranges::sort(edges);
  const auto repeated = std::ranges::unique(edges);
  edges.erase(repeated.begin(), repeated.end());
  return edges;
}

bool Overlaps(const std::vector<VpnRange>& ranges, VpnRange range) {
  const auto after = std::ranges::upper_bound(ranges, range.start, {}, &VpnRange::end);
  return after != ranges.end() && after->start < range.end;
}

}  // namespace

PageMappers::PageMappers(std::span<const PageKey> key, std::span<const std::uint32_t> span_pages,
                         const SharedPages& shared) {
  if (shared.empty() || key.empty()) return;
  std::map<TargetId, std::vector<PartOfFile>> parts_of = PartsByFile(shared);
  std::map<TargetId, std::vector<VpnRange>> twice_of;
  for (const auto& [file, parts] : parts_of) {
    if (std::vector<VpnRange> twice = ShownTwice(parts); !twice.empty()) {
      twice_of.emplace(file, std::move(twice));
    }
  }
  if (twice_of.empty()) return;

  // Rows are met in ascending order, and those of a part have ascending names.
  std::vector<Named> named;
  for (const TargetId target : shared.Mappers()) {
    for (const SharedPages::Part& part : shared.PartsOf(target)) {
      const auto twice = twice_of.find(part.name.target);
      if (part.may_be_another || twice == twice_of.end()) continue;
      auto row = static_cast<std::size_t>(
          std::ranges::lower_bound(key, PageKey{target, part.range.start}) - key.begin());
      for (; row < key.size() && key[row].target == target && key[row].vpn < part.range.end;
           ++row) {
        const PageCount pages(span_pages[row]);
        if (part.range.end < key[row].vpn + pages) break;
        const Vpn first = part.name.vpn + (key[row].vpn - part.range.start);
        if (!Overlaps(twice->second, {first, first + pages})) continue;
        named.push_back({.name = {part.name.target, first},
                         .pages = span_pages[row],
                         .row = static_cast<std::uint32_t>(row),
                         .at = static_cast<std::uint32_t>(named.size())});
      }
    }
  }
  if (named.empty()) return;
  MergeRuns(named, {}, [](const Named& each) { return std::tuple(each.name, each.row); });
  std::map<TargetId, std::vector<Vpn>> edges;
  for (const auto& [file, twice] : twice_of) edges.emplace(file, EdgesOf(parts_of.at(file)));
  CutPieces(named, edges);

  for (std::size_t piece = 0; piece < pieces_.size();) {
    const TargetId name = pieces_[piece].name.target;
    const std::size_t file = files_.size();
    std::vector<PartOfFile>& parts = parts_of.at(name);
    std::ranges::stable_sort(parts, {}, &PartOfFile::target);
    File& of = files_.emplace_back(File{.name = name,
                                        .first_mapper = mappers_.size(),
                                        .end_mapper = mappers_.size(),
                                        .first_piece = piece,
                                        .end_piece = piece});
    for (const PartOfFile& part : parts) {
      if (mappers_.size() == of.first_mapper || mappers_.back().target != part.target) {
        mappers_.push_back({.target = part.target, .file = file});
      }
    }
    of.end_mapper = mappers_.size();
    while (piece < pieces_.size() && pieces_[piece].name.target == name) ++piece;
    of.end_piece = piece;
  }
  FindRows(named);
  FindMappers(key);
}

std::optional<std::size_t> PageMappers::Find(TargetId file, TargetId target) const {
  const auto of_file = std::ranges::lower_bound(files_, file, {}, &File::name);
  if (of_file == files_.end() || of_file->name != file) return std::nullopt;
  const auto first = mappers_.begin() + static_cast<std::ptrdiff_t>(of_file->first_mapper);
  const auto end = mappers_.begin() + static_cast<std::ptrdiff_t>(of_file->end_mapper);
  const auto mapper = std::ranges::lower_bound(first, end, target, {}, &Mapper::target);
  if (mapper == end || mapper->target != target) return std::nullopt;
  return static_cast<std::size_t>(mapper - mappers_.begin());
}

// Spans are cut where a mapping or a span that overlaps them begins or ends.
void PageMappers::CutPieces(const std::vector<Named>& named,
                            const std::map<TargetId, std::vector<Vpn>>& edges) {
  const auto push = [this](PageKey name, std::uint64_t pages, bool is_whole) {
    // Part of a region that has the size of a huge page would be taken for one.
    if (!is_whole && pages > 1 && IsOneEntry(pages)) {
      const std::uint64_t half = pages / 2;
      pieces_.push_back({name, static_cast<std::uint32_t>(half)});
      name.vpn = name.vpn + PageCount(half);
      pages -= half;
    }
    pieces_.push_back({name, static_cast<std::uint32_t>(pages)});
  };
  std::vector<Vpn> cuts;
  std::optional<TargetId> file;
  std::vector<Vpn>::const_iterator edge;
  for (std::size_t i = 0; i < named.size();) {
    const PageKey first = named[i].name;
    if (file != first.target) edge = edges.at(*(file = first.target)).begin();
    const auto last_edge = edges.at(*file).end();
    while (edge != last_edge && *edge <= first.vpn) ++edge;
    Vpn end = first.vpn + PageCount(named[i].pages);
    bool alike = true;
    std::size_t next = i + 1;
    for (; next < named.size() && named[next].name.target == first.target &&
           named[next].name.vpn < end;
         ++next) {
      alike &= named[next].name == first && named[next].pages == named[i].pages;
      end = std::max(end, named[next].name.vpn + PageCount(named[next].pages));
    }
    if (alike && (edge == last_edge || end <= *edge)) {
      push(first, named[i].pages, /*is_whole=*/true);
      i = next;
      continue;
    }
    cuts.clear();
    for (std::size_t each = i; each < next; ++each) {
      cuts.push_back(named[each].name.vpn);
      cuts.push_back(named[each].name.vpn + PageCount(named[each].pages));
    }
    for (; edge != last_edge && *edge < end; ++edge) cuts.push_back(*edge);
    std::ranges::sort(cuts);
    const auto repeated = std::ranges::unique(cuts);
    cuts.erase(repeated.begin(), repeated.end());
    std::size_t each = i;
    for (std::size_t cut = 0; cut + 1 < cuts.size(); ++cut) {
      const PageCount pages = cuts[cut + 1] - cuts[cut];
      bool is_whole = false;
      for (; each < next && named[each].name.vpn == cuts[cut]; ++each) {
        is_whole |= named[each].pages == pages.value();
      }
      push({first.target, cuts[cut]}, pages.value(), is_whole);
    }
    i = next;
  }
}

void PageMappers::FindRows(const std::vector<Named>& named) {
  std::vector<std::uint32_t> rows_of_piece(pieces_.size() + 1);
  std::uint32_t piece = 0;
  rows_.resize(named.size());
  for (const Named& each : named) {
    while (pieces_[piece].name < each.name) ++piece;
    std::uint32_t end = piece;
    for (std::uint64_t left = each.pages; left > 0; ++end) {
      left -= pieces_[end].pages;
      ++rows_of_piece[end + 1];
    }
    rows_[each.at] = {.row = each.row, .mapper = 0, .first_piece = piece, .end_piece = end};
  }
  for (std::size_t i = 1; i < rows_of_piece.size(); ++i) rows_of_piece[i] += rows_of_piece[i - 1];
  first_row_of_ = rows_of_piece;
  row_of_.resize(rows_of_piece.back());
  for (std::uint32_t at = 0; at < rows_.size(); ++at) {
    for (std::uint32_t p = rows_[at].first_piece; p < rows_[at].end_piece; ++p) {
      row_of_[rows_of_piece[p]++] = at;
    }
  }
}

void PageMappers::FindMappers(std::span<const PageKey> key) {
  std::optional<std::size_t> mapper;
  for (Row& row : rows_) {
    const TargetId file = pieces_[row.first_piece].name.target;
    const TargetId target = key[row.row].target;
    if (!mapper || mappers_[*mapper].target != target ||
        files_[mappers_[*mapper].file].name != file) {
      mapper = Find(file, target);
    }
    row.mapper = static_cast<std::uint32_t>(*mapper);
  }
}

}  // namespace tmprof
