// SPDX-License-Identifier: Apache-2.0
// Lists the pages of a table, each once, however many rows have it.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/shared_pages.h"
#include "base/units.h"
#include "rank/evidence.h"
#include "rank/page_mappers.h"

namespace tmprof {

// A span is the pages of one row. If several processes map pages, a span is a piece of them with
// all rows that hold it. A row's span has the row's number. Pieces are numbered behind all rows of
// the table.
class PageSpans {
 public:
  // Precondition: the table does not change while the spans are used.
  PageSpans(const EvidenceTable& table, const SharedPages& shared)
      : rows_(table.size()), mappers_(table.key, table.span_pages, shared) {}

  PageCount PagesOf(const EvidenceTable& table, std::size_t span) const {
    return PageCount(span < rows_ ? table.span_pages[span] : mappers_.pieces()[span - rows_].pages);
  }

  // Visits the spans of these rows, which ascend: first those of one row, then the others.
  template <typename Rows, typename Visit>
  void ForEach(const Rows& rows, Visit visit) const {
    std::vector<bool> has_rows(mappers_.pieces().size());
    auto shared = mappers_.rows().begin();
    for (const std::size_t row : rows) {
      while (shared != mappers_.rows().end() && shared->row < row) ++shared;
      if (shared == mappers_.rows().end() || shared->row != row) {
        visit(row);
        continue;
      }
      for (std::uint32_t piece = shared->first_piece; piece < shared->end_piece; ++piece) {
        has_rows[piece] = true;
      }
    }
    for (std::size_t piece = 0; piece < has_rows.size(); ++piece) {
      if (has_rows[piece]) visit(rows_ + piece);
    }
  }

  // Calls visit(row, part of the row's pages that the span has, start of the span in the row's
  // process).
  template <typename Visit>
  void ForEachRow(const EvidenceTable& table, std::size_t span, Visit visit) const {
    if (span < rows_) {
      visit(span, 1.0, table.key[span].vpn);
      return;
    }
    const PageMappers::Piece& piece = mappers_.pieces()[span - rows_];
    for (const std::uint32_t at : mappers_.RowsOf(span - rows_)) {
      const PageMappers::Row& held = mappers_.rows()[at];
      const PageMappers::Piece& first = mappers_.pieces()[held.first_piece];
      visit(std::size_t{held.row}, static_cast<double>(piece.pages) / table.span_pages[held.row],
            table.key[held.row].vpn + (piece.name.vpn - first.name.vpn));
    }
  }

 private:
  std::size_t rows_;
  PageMappers mappers_;
};

}  // namespace tmprof
