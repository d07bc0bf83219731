// SPDX-License-Identifier: Apache-2.0

#include "rank/page_mappers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/rank/profiles.h"
#include "tests/rank/shared_memory.h"

namespace tmprof {
namespace page_mappers_test {

using testing::ElementsAre;
using testing::IsEmpty;

// A table with rows, and who maps what.
struct Rows {
  std::vector<PageKey> key;
  std::vector<std::uint32_t> pages;
  SharedPages shared;

  PageMappers Join() const { return PageMappers(key, pages, shared); }
};

// "first page of the file, pages, rows of the table".
using PieceWithRows = std::tuple<std::uint64_t, std::uint32_t, std::vector<std::uint32_t>>;

std::vector<PieceWithRows> PiecesOf(const PageMappers& mappers) {
  std::vector<PieceWithRows> pieces;
  for (std::size_t piece = 0; piece < mappers.pieces().size(); ++piece) {
    std::vector<std::uint32_t> rows;
    for (const std::uint32_t at : mappers.RowsOf(piece)) rows.push_back(mappers.rows()[at].row);
    pieces.emplace_back(mappers.pieces()[piece].name.vpn.value(), mappers.pieces()[piece].pages,
                        rows);
  }
  return pieces;
}

TEST(PageMappers, JoinRowsOfOnePageAtDifferentAddresses) {
  Rows rows{.key = {Key(0, 5), Key(0, 100), Key(0, 101), Key(1, 500), Key(1, 502)},
            .pages = {1, 1, 1, 1, 1}};
  rows.shared.Add({Maps(0, {Shared(100, 10)}), Maps(1, {Shared(500, 10)})});
  EXPECT_THAT(
      PiecesOf(rows.Join()),
      ElementsAre(PieceWithRows(0, 1, {1, 3}), PieceWithRows(1, 1, {2}), PieceWithRows(2, 1, {4})));
}

TEST(PageMappers, LeaveFilesOfASingleMappingAlone) {
  Rows rows{.key = {Key(0, 100), Key(1, 500)}, .pages = {1, 1}};
  rows.shared.Add({Maps(0, {Shared(100, 10, 7)}), Maps(1, {Shared(500, 10, 8)})});
  EXPECT_TRUE(rows.Join().empty());
}

// Target 1 maps pages 4 to 8 of the file. Page 2 is of target 0 alone.
TEST(PageMappers, JoinSegmentsOfOneKnownIpcNamespace) {
  const auto segment = [](std::uint32_t id, std::uint64_t start,
                          std::optional<std::uint64_t> ipc_namespace) {
    Mapping mapping = Shared(start, 10);
    mapping.path = "/SYSV00000007 (deleted)";
    Target target = Maps(id, {mapping});
    target.ipc_namespace = ipc_namespace;
    return target;
  };
  Rows rows{.key = {Key(0, 100), Key(1, 500)}, .pages = {1, 1}};
  rows.shared.Add({segment(0, 100, 1), segment(1, 500, 1)});
  EXPECT_THAT(PiecesOf(rows.Join()), ElementsAre(PieceWithRows(0, 1, {0, 1})));
  rows.shared.Add({segment(1, 500, 2)});
  EXPECT_TRUE(rows.Join().empty());
  rows.shared.Add({segment(0, 100, std::nullopt), segment(1, 500, std::nullopt)});
  EXPECT_TRUE(rows.Join().empty()) << "they may be of two namespaces";
}

TEST(PageMappers, LeavePagesThatASingleMappingShowsAlone) {
  Rows rows{.key = {Key(0, 102), Key(0, 104), Key(1, 500)}, .pages = {1, 1, 1}};
  rows.shared.Add({Maps(0, {Shared(100, 10)}), Maps(1, {Shared(500, 4, 7, 4)})});
  EXPECT_THAT(PiecesOf(rows.Join()), ElementsAre(PieceWithRows(4, 1, {1, 2})));
}

TEST(PageMappers, CutSpansWhereOneOfThemBeginsOrEnds) {
  Rows rows{.key = {Key(0, 100), Key(1, 502), Key(1, 504)}, .pages = {6, 1, 6}};
  rows.shared.Add({Maps(0, {Shared(100, 20)}), Maps(1, {Shared(500, 20)})});
  EXPECT_THAT(
      PiecesOf(rows.Join()),
      ElementsAre(PieceWithRows(0, 2, {0}), PieceWithRows(2, 1, {0, 1}), PieceWithRows(3, 1, {0}),
                  PieceWithRows(4, 2, {0, 2}), PieceWithRows(6, 4, {2})));
}

TEST(PageMappers, CutAHugePageWhereAMappingBegins) {
  Rows rows{.key = {Key(0, 512)}, .pages = {512}};
  rows.shared.Add({Maps(0, {Shared(512, 1024)}), Maps(1, {Shared(4096, 100, 7, 200)})});
  EXPECT_THAT(PiecesOf(rows.Join()),
              ElementsAre(PieceWithRows(0, 200, {0}), PieceWithRows(200, 100, {0}),
                          PieceWithRows(300, 212, {0})));
}

TEST(PageMappers, CutNoRegionToTheSizeOfAHugePage) {
  Rows rows{.key = {Key(0, 0), Key(1, 10'512)}, .pages = {1024, 100}};
  rows.shared.Add({Maps(0, {Shared(0, 2048)}), Maps(1, {Shared(10'000, 2048)})});
  EXPECT_THAT(PiecesOf(rows.Join()),
              ElementsAre(PieceWithRows(0, 256, {0}), PieceWithRows(256, 256, {0}),
                          PieceWithRows(512, 100, {0, 1}), PieceWithRows(612, 412, {0})));
}

TEST(PageMappers, JoinBothRowsOfAProcessThatMapsAFileTwice) {
  Rows rows{.key = {Key(0, 100), Key(0, 500)}, .pages = {1, 1}};
  rows.shared.Add({Maps(0, {Shared(100, 10), Shared(500, 10)})});
  const PageMappers mappers = rows.Join();
  EXPECT_THAT(PiecesOf(mappers), ElementsAre(PieceWithRows(0, 1, {0, 1})));
  EXPECT_EQ(mappers.mappers().size(), 1u);
}

TEST(PageMappers, AreNoneWithoutSharedFiles) {
  const Rows rows{.key = {Key(0, 100)}, .pages = {1}};
  EXPECT_THAT(rows.Join().rows(), IsEmpty());
}

}  // namespace page_mappers_test
}  // namespace tmprof
