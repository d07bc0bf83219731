// SPDX-License-Identifier: Apache-2.0
// Finds the rows of a table that are about the same memory: each process that maps a page of a
// shared file has a row of its own.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/page_key.h"
#include "base/shared_pages.h"
#include "base/units.h"

namespace tmprof {

// Pages that one mapping alone shows are no pages of mappers: their rows stand for themselves. So
// do rows of System V segments of an unknown IPC namespace.
class PageMappers {
 public:
  // A process with its mappings of one file.
  struct Mapper {
    TargetId target;
    std::size_t file;  // index of files()
  };
  struct File {
    TargetId name;
    std::size_t first_mapper;  // index into mappers()
    std::size_t end_mapper;
    std::size_t first_piece;  // index into pieces()
    std::size_t end_piece;
  };
  // Pages with the same rows and mappings. A row or mapping holds all of a piece or none of it.
  struct Piece {
    PageKey name;
    std::uint32_t pages;
  };
  struct Row {
    std::uint32_t row;  // row of the table
    std::uint32_t mapper;
    std::uint32_t first_piece;
    std::uint32_t end_piece;
  };

  PageMappers() = default;
  // Rows of the table ascend by key.
  PageMappers(std::span<const PageKey> key, std::span<const std::uint32_t> span_pages,
              const SharedPages& shared);

  bool empty() const { return pieces_.empty(); }
  const std::vector<File>& files() const { return files_; }        // ascending by name
  const std::vector<Mapper>& mappers() const { return mappers_; }  // ascending by target in a file
  const std::vector<Piece>& pieces() const { return pieces_; }     // ascending by name
  const std::vector<Row>& rows() const { return rows_; }           // ascending by row
  // Returns true if the row of the table is one of rows(). Rows are asked for in ascending order:
  // `next` is where the last call left it, and 0 at first.
  bool IsShared(std::size_t row, std::size_t& next) const {
    while (next < rows_.size() && rows_[next].row < row) ++next;
    return next < rows_.size() && rows_[next].row == row;
  }
  // An index of mappers().
  std::optional<std::size_t> Find(TargetId file, TargetId target) const;
  // Indexes of rows(): those that hold the piece, ascending.
  std::span<const std::uint32_t> RowsOf(std::size_t piece) const {
    return std::span(row_of_).subspan(first_row_of_[piece],
                                      first_row_of_[piece + 1] - first_row_of_[piece]);
  }

 private:
  struct Named {
    PageKey name;
    std::uint32_t pages;
    std::uint32_t row;
    std::uint32_t at;  // index into rows_
  };

  // `edges`: where mappings begin or end, by file.
  void CutPieces(const std::vector<Named>& named,
                 const std::map<TargetId, std::vector<Vpn>>& edges);
  void FindRows(const std::vector<Named>& named);
  void FindMappers(std::span<const PageKey> key);

  std::vector<File> files_;
  std::vector<Mapper> mappers_;
  std::vector<Piece> pieces_;
  std::vector<Row> rows_;
  std::vector<std::uint32_t> first_row_of_;  // one per piece, and one more: places in row_of_
  std::vector<std::uint32_t> row_of_;
};

}  // namespace tmprof
