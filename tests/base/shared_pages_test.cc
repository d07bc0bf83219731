// SPDX-License-Identifier: Apache-2.0

#include "base/shared_pages.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tmprof {
namespace shared_pages_test {

constexpr std::uint64_t kShm = 1;  // device 00:01, of memory without a file system

Mapping Shared(std::uint64_t start, std::uint64_t pages, std::uint64_t inode,
               std::uint64_t offset = 0, std::string path = "/dev/zero (deleted)",
               std::uint64_t device = kShm) {
  return {.range = {Vpn(start), Vpn(start + pages)},
          .kind = MappingKind::kShared,
          .path = std::move(path),
          .file = FilePlace{.device = device, .inode = inode, .offset = PageCount(offset)}};
}

Target Maps(std::uint32_t id, std::vector<Mapping> mappings) {
  return {.id = TargetId(id), .mappings = std::move(mappings)};
}

Target Exited(std::uint32_t id, std::vector<Mapping> mappings) {
  Target target = Maps(id, std::move(mappings));
  target.exited = true;
  return target;
}

Mapping Anonymous(std::uint64_t start, std::uint64_t pages) {
  return {.range = {Vpn(start), Vpn(start + pages)}, .kind = MappingKind::kAnonymous};
}

class SharedPagesTest : public testing::Test {
 protected:
  PageKey Name(std::uint32_t target, std::uint64_t vpn, std::uint64_t span = 1) const {
    return pages_.NameOf({TargetId(target), Vpn(vpn)}, PageCount(span));
  }
  bool HasOwnName(std::uint32_t target, std::uint64_t vpn, std::uint64_t span = 1) const {
    return Name(target, vpn, span) == PageKey{TargetId(target), Vpn(vpn)};
  }
  SharedPages pages_;
};

TEST_F(SharedPagesTest, MappersOfOneFileNameItsPagesAlike) {
  pages_.Add({Maps(0, {Shared(100, 10, 7)}), Maps(1, {Shared(500, 10, 7)})});
  EXPECT_EQ(Name(0, 100), Name(1, 500));
  EXPECT_EQ(Name(0, 109), Name(1, 509));
  EXPECT_NE(Name(0, 100), Name(1, 501));
  EXPECT_EQ(Name(0, 100), (PageKey{SharedPages::kFirstFile, Vpn(0)}));
  EXPECT_FALSE(pages_.empty());
}

TEST_F(SharedPagesTest, TellsWhichPlaceOfWhichFileANameIs) {
  pages_.Add({Maps(0, {Shared(100, 10, 7), Shared(200, 10, 8, 4)})});
  EXPECT_EQ(pages_.PlaceOf(Name(0, 203)),
            (FilePlace{.device = kShm, .inode = 8, .offset = PageCount(7)}));
  EXPECT_EQ(pages_.PlaceOf({TargetId(0), Vpn(203)}), std::nullopt) << "an address";
}

TEST_F(SharedPagesTest, TellsWhatAddressesMap) {
  const Vpn pages[] = {Vpn(50), Vpn(99), Vpn(100), Vpn(109), Vpn(110), Vpn(203), Vpn(999)};
  const auto files = SharedFilesAt(
      std::vector{Anonymous(50, 10), Shared(100, 10, 7, 2), Shared(200, 10, 8)}, pages);
  const auto place = [](std::uint64_t inode, std::uint64_t offset) {
    return FilePlace{.device = kShm, .inode = inode, .offset = PageCount(offset)};
  };
  const std::vector<std::optional<FilePlace>> expected{std::nullopt, std::nullopt, place(7, 2),
                                                       place(7, 11), std::nullopt, place(8, 3),
                                                       std::nullopt};
  EXPECT_EQ(files, expected);
}

TEST_F(SharedPagesTest, TellsThePartsOfATargetAndWhichAreSegments) {
  pages_.Add({Maps(0, {Anonymous(50, 10), Shared(100, 10, 7, 4),
                       Shared(200, 5, 8, 0, "/SYSV00000000 (deleted)")}),
              Maps(1, {Anonymous(50, 10)})});
  const auto parts = pages_.PartsOf(TargetId(0));
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[0].range, (VpnRange{Vpn(100), Vpn(110)}));
  EXPECT_EQ(parts[0].name, (PageKey{SharedPages::kFirstFile, Vpn(4)}));
  EXPECT_FALSE(parts[0].is_segment);
  EXPECT_TRUE(parts[1].is_segment);
  EXPECT_TRUE(pages_.PartsOf(TargetId(1)).empty());
  EXPECT_EQ(pages_.Mappers(), std::vector{TargetId(0)});
}

TEST_F(SharedPagesTest, TellsSegmentsOfTwoIpcNamespacesApart) {
  const auto maps = [](std::uint32_t id, std::optional<std::uint64_t> ipc_namespace) {
    Target target = Maps(id, {Shared(100, 10, 0, 0, "/SYSV00000000 (deleted)"), Shared(200, 1, 7)});
    target.ipc_namespace = ipc_namespace;
    return target;
  };
  pages_.Add({maps(0, 1), maps(1, 1), maps(2, 2), maps(3, std::nullopt)});
  EXPECT_EQ(Name(0, 100), Name(1, 100));
  EXPECT_NE(Name(0, 100), Name(2, 100));
  EXPECT_NE(Name(0, 100), Name(3, 100));
  EXPECT_EQ(Name(0, 200), Name(2, 200)) << "no segment";
  EXPECT_FALSE(pages_.PartsOf(TargetId(2))[0].may_be_another);
  EXPECT_TRUE(pages_.PartsOf(TargetId(3))[0].may_be_another);
  EXPECT_FALSE(pages_.PartsOf(TargetId(3))[1].may_be_another);
}

TEST_F(SharedPagesTest, ForgetsTargetsAndWithTheLastOfThemAnUnlinkedFile) {
  pages_.Add({Maps(0, {Shared(100, 10, 7)}), Maps(1, {Shared(500, 10, 7)})});
  const PageKey before = Name(1, 500);
  pages_.KeepOnly(std::vector{TargetId(1)});
  EXPECT_TRUE(HasOwnName(0, 100));
  EXPECT_EQ(Name(1, 500), before);
  pages_.KeepOnly({});
  EXPECT_TRUE(pages_.empty());
  pages_.Add({Maps(2, {Shared(900, 10, 7)})});
  EXPECT_NE(Name(2, 900), before) << "another file that got the inode";
}

TEST_F(SharedPagesTest, ForgetsFilesThatNoTargetLeftMaps) {
  pages_.Add({Maps(0, {Shared(100, 10, 7, 0, "/srv/a"), Shared(200, 10, 8, 0, "/srv/b")}),
              Maps(1, {Shared(500, 10, 7, 0, "/srv/a")})});
  const PageKey kept = Name(0, 100);
  const PageKey forgotten = Name(0, 200);
  pages_.KeepOnly(std::vector{TargetId(1)});
  pages_.Add({Maps(2, {Shared(100, 10, 7, 0, "/srv/a"), Shared(200, 10, 8, 0, "/srv/b")})});
  EXPECT_EQ(Name(2, 100), kept);
  EXPECT_NE(Name(2, 200), forgotten) << "numbers would pile up in a daemon";
}

TEST_F(SharedPagesTest, OverlappingPartsOfAFileMeetWhereTheyAreTheSamePages) {
  pages_.Add({Maps(0, {Shared(100, 10, 7, 0)}), Maps(1, {Shared(500, 10, 7, 4)})});
  EXPECT_EQ(Name(0, 104), Name(1, 500));
  EXPECT_EQ(Name(0, 109), Name(1, 505));
  EXPECT_EQ(Name(1, 509), (PageKey{SharedPages::kFirstFile, Vpn(13)}));
}

TEST_F(SharedPagesTest, OneProcessMayMapAFileTwice) {
  pages_.Add({Maps(0, {Shared(100, 10, 7, 0), Shared(110, 10, 7, 5)})});
  EXPECT_EQ(Name(0, 105), Name(0, 110));
  EXPECT_NE(Name(0, 100), Name(0, 110));
}

TEST_F(SharedPagesTest, DeviceInodeAndPathTogetherTellFilesApart) {
  pages_.Add({Maps(
      0, {Shared(100, 1, 7, 0, "/a"), Shared(101, 1, 8, 0, "/a"), Shared(102, 1, 7, 0, "/a", 0),
          Shared(103, 1, 7, 0, "/snapshot/a"), Shared(104, 1, 7, 0, "/a")})});
  EXPECT_NE(Name(0, 100), Name(0, 101));
  EXPECT_NE(Name(0, 100), Name(0, 102)) << "device 0 is one like any other";
  EXPECT_NE(Name(0, 100), Name(0, 103)) << "subvolumes of btrfs show one device, and repeat inodes";
  EXPECT_EQ(Name(0, 100), Name(0, 104));
}

TEST_F(SharedPagesTest, UnlinkingAMappedFileKeepsItsName) {
  pages_.Add({Maps(0, {Shared(100, 10, 7, 0, "/srv/a")})});
  const PageKey name = Name(0, 100);
  pages_.Add({Maps(0, {Shared(100, 10, 7, 0, "/srv/a (deleted)")})});
  EXPECT_EQ(Name(0, 100), name);
}

TEST_F(SharedPagesTest, SystemVSegmentIsNotTheUnlinkedFileWithItsNumber) {
  pages_.Add({Maps(0, {Shared(100, 1, 3, 0, "/SYSV00000000 (deleted)"),
                       Shared(101, 1, 3, 0, "/memfd:ring (deleted)")}),
              Maps(1, {Shared(200, 1, 3, 0, "/SYSV00000000 (deleted)")})});
  EXPECT_NE(Name(0, 100), Name(0, 101));
  EXPECT_EQ(Name(0, 100), Name(1, 200));
}

TEST_F(SharedPagesTest, PrivateMappingsAndMemoryWithoutAFileKeepTheirOwnNames) {
  Mapping copy = Shared(100, 10, 7, 0, "/srv/data");
  copy.kind = MappingKind::kFile;
  Mapping old = Shared(200, 10, 7);
  old.file.reset();  // version 1 of the trace has it so
  pages_.Add({Maps(0, {copy, old}), Maps(1, {copy, old})});
  EXPECT_TRUE(HasOwnName(0, 100));
  EXPECT_TRUE(HasOwnName(1, 200));
  EXPECT_TRUE(HasOwnName(2, 100)) << "a target without mappings";
  EXPECT_TRUE(pages_.empty());
}

TEST_F(SharedPagesTest, InodesThatManyObjectsShareNameNoPage) {
  pages_.Add({Maps(
      0, {Shared(100, 1, 7, 0, "anon_inode:[io_uring]"), Shared(101, 1, 7, 0, "/dev/dri/card0"),
          Shared(102, 1, 7, 0, "/dev/shm/x"), Shared(103, 1, 9, 0, "/dev/dax0.0")})});
  EXPECT_TRUE(HasOwnName(0, 100));
  EXPECT_TRUE(HasOwnName(0, 101));
  EXPECT_FALSE(HasOwnName(0, 102));
  EXPECT_FALSE(HasOwnName(0, 103));
}

TEST_F(SharedPagesTest, SpanThatLeavesItsMappingKeepsItsOwnName) {
  pages_.Add({Maps(0, {Shared(100, 10, 7)})});
  EXPECT_FALSE(HasOwnName(0, 100, 10));
  EXPECT_TRUE(HasOwnName(0, 100, 11));
  EXPECT_TRUE(HasOwnName(0, 99, 2));
  EXPECT_TRUE(HasOwnName(0, 110));
}

TEST_F(SharedPagesTest, NameStaysWhenMappersComeAndGo) {
  pages_.Add({Maps(0, {Shared(100, 10, 6)}), Maps(1, {Shared(500, 10, 7)})});
  const PageKey name = Name(1, 500);
  pages_.Add({Maps(1, {Anonymous(500, 10)}), Maps(2, {Shared(900, 10, 7)})});
  EXPECT_EQ(Name(2, 900), name);
  EXPECT_TRUE(HasOwnName(1, 500)) << "it maps the file no longer";
  EXPECT_FALSE(HasOwnName(0, 100)) << "a target that is not listed keeps its mappings";
}

TEST_F(SharedPagesTest, TargetListedWithoutMappingsKeepsTheLastKnown) {
  pages_.Add({Maps(0, {Shared(100, 10, 7)})});
  const PageKey name = Name(0, 100);
  pages_.Add({Maps(0, {})});
  EXPECT_EQ(Name(0, 100), name) << "it was not observed in this epoch";
  pages_.Add({Maps(1, {Shared(500, 10, 7)})});
  EXPECT_EQ(Name(1, 500), name) << "the file still has a mapper";
}

TEST_F(SharedPagesTest, UnlinkedFileEndsWithItsLastMapper) {
  pages_.Add({Maps(0, {Shared(100, 10, 7)}), Maps(1, {Shared(500, 10, 7)})});
  const PageKey old = Name(0, 100);
  pages_.Add({Exited(0, {Shared(100, 10, 7)}), Maps(1, {Anonymous(500, 10)})});
  EXPECT_EQ(Name(0, 100), old) << "evidence of it still names the old file";
  pages_.Add({Maps(2, {Shared(900, 10, 7)})});
  EXPECT_NE(Name(2, 900), old) << "another file has got its inode";
  EXPECT_EQ(Name(0, 100), old);
}

TEST_F(SharedPagesTest, UnlinkedFileEndsWhenItsLastMapperExitsUnobserved) {
  pages_.Add({Maps(0, {Shared(100, 10, 7)})});
  const PageKey old = Name(0, 100);
  pages_.Add({Exited(0, {})});
  pages_.Add({Maps(1, {Shared(500, 10, 7)})});
  EXPECT_EQ(Name(0, 100), old);
  EXPECT_NE(Name(1, 500), old);
}

TEST_F(SharedPagesTest, FileWithALinkOutlivesItsMappers) {
  pages_.Add({Maps(0, {Shared(100, 10, 7, 0, "/srv/a")})});
  const PageKey name = Name(0, 100);
  pages_.Add({Exited(0, {Shared(100, 10, 7, 0, "/srv/a")})});
  pages_.Add({Maps(1, {Shared(500, 10, 7, 0, "/srv/a")})});
  EXPECT_EQ(Name(1, 500), name);
}

// An epoch in which two processes have one page at each of these addresses.
EpochProfile Forked(std::vector<Target> targets, std::uint64_t start, std::uint32_t pages) {
  EpochProfile epoch{.targets = std::move(targets)};
  std::vector<std::uint32_t> same_as;
  for (std::uint32_t target = 0; target < 2; ++target) {
    for (std::uint32_t page = 0; page < pages; ++page) {
      Append(epoch.pages, {.key = {TargetId(target), Vpn(start + page)}, .looks = 1});
      same_as.push_back(page);
    }
  }
  epoch.pages.same_as = same_as;
  return epoch;
}

TEST_F(SharedPagesTest, ForkedPagesHaveOneNameWhileTheyAreMapped) {
  pages_.AddEpoch(Forked({Maps(0, {Anonymous(100, 10)}), Maps(1, {Anonymous(100, 10)})}, 102, 4));
  EXPECT_EQ(Name(0, 102), Name(1, 102));
  EXPECT_EQ(Name(1, 105), (PageKey{SharedPages::kFirstForked, Vpn(105)}));
  EXPECT_TRUE(HasOwnName(1, 106));
  EXPECT_EQ(SharedPages::LastingName(Name(1, 105)), (PageKey{TargetId(0), Vpn(105)}));
  EXPECT_EQ(SharedPages::LastingName(Name(1, 106)), (PageKey{TargetId(1), Vpn(106)}));
  EXPECT_EQ(pages_.PlaceOf(Name(1, 105)), std::nullopt);

  // A target that is listed without mappings keeps its pages.
  pages_.Add({Maps(1, {})});
  EXPECT_EQ(Name(0, 102), Name(1, 102));
  pages_.Add({Maps(1, {Anonymous(100, 3), Anonymous(105, 1)})});
  EXPECT_EQ(Name(0, 102), Name(1, 102));
  EXPECT_TRUE(HasOwnName(1, 103));
  EXPECT_EQ(Name(0, 105), Name(1, 105));
  const TargetId first(0);
  pages_.KeepOnly(std::span(&first, 1));
  EXPECT_TRUE(HasOwnName(1, 102));
}

TEST_F(SharedPagesTest, ForkedPagesStandBetweenThoseOfFiles) {
  pages_.AddEpoch(Forked({Maps(0, {Shared(100, 2, 7), Anonymous(102, 2), Shared(104, 2, 8)}),
                          Maps(1, {Shared(100, 2, 7), Anonymous(102, 2), Shared(104, 2, 8)})},
                         100, 6));
  const auto parts = pages_.PartsOf(TargetId(1));
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0].name, (PageKey{SharedPages::kFirstFile, Vpn(0)}));
  EXPECT_EQ(parts[1].range, (VpnRange{Vpn(102), Vpn(104)}));
  EXPECT_EQ(parts[1].name, (PageKey{SharedPages::kFirstForked, Vpn(102)}));
  EXPECT_EQ(parts[2].range, (VpnRange{Vpn(104), Vpn(106)}));
}

// The numbers of such targets leave no room for the names of their pages.
TEST_F(SharedPagesTest, ForkedPagesOfTargetsBeyondTheirNumbersStayApart) {
  EpochProfile epoch = Forked({Maps(0, {Anonymous(0, 9)}), Maps(1, {Anonymous(0, 9)})}, 0, 1);
  for (Target& target : epoch.targets) target.id = TargetId(target.id.value() + (1u << 30));
  for (TargetId& target : epoch.pages.target) target = TargetId(target.value() + (1u << 30));
  pages_.AddEpoch(epoch);
  EXPECT_TRUE(HasOwnName((1u << 30) + 1, 0));
}

}  // namespace shared_pages_test
}  // namespace tmprof
