// SPDX-License-Identifier: Apache-2.0

#include "objects/runtime/loaded_file.h"

#include <dlfcn.h>
#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <link.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

namespace tmprof::objtrace {
namespace loaded_file_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::size_t kPage = 4096;

// A file as it is loaded: a page of headers, and one of notes.
class Image {
 public:
  Image() {
    std::memcpy(bytes_->header.e_ident, ELFMAG, SELFMAG);
    bytes_->header.e_phoff = offsetof(Bytes, segment);
  }

  ElfW(Ehdr) & header() { return bytes_->header; }
  const void* start() const { return bytes_.get(); }
  std::uint64_t bias() const { return reinterpret_cast<std::uint64_t>(start()); }

  void AddSegment(std::uint32_t type, std::uint64_t at, std::uint64_t bytes) {
    bytes_->segment[bytes_->header.e_phnum++] = {.p_type = type,
                                                 .p_flags = PF_R,
                                                 .p_offset = at,
                                                 .p_vaddr = at,
                                                 .p_paddr = at,
                                                 .p_filesz = bytes,
                                                 .p_memsz = bytes,
                                                 .p_align = 4};
  }
  // A segment of these notes.
  void AddNotes(std::string_view notes) {
    std::memcpy(bytes_->notes + used_, notes.data(), notes.size());
    AddSegment(PT_NOTE, offsetof(Bytes, notes) + used_, notes.size());
    used_ += notes.size();
  }
  Segments segments() const { return SegmentsOf(start()); }
  std::span<const std::uint8_t> build_id() const { return BuildIdOf(segments(), bias()); }

 private:
  struct alignas(kPage) Bytes {
    ElfW(Ehdr) header;
    ElfW(Phdr) segment[8];
    alignas(kPage) char notes[kPage];
  };

  std::unique_ptr<Bytes> bytes_ = std::make_unique<Bytes>();
  std::size_t used_ = 0;
};

// Three little-endian words, the name and what it holds, each filled up to a multiple of 4.
std::string Note(std::uint32_t type, std::string name, std::string contents) {
  const auto word = [](std::size_t value) {
    return std::string{static_cast<char>(value), static_cast<char>(value >> 8), '\0', '\0'};
  };
  std::string note = word(name.size()) + word(contents.size()) + word(type);
  for (std::string* part : {&name, &contents}) {
    while (part->size() % 4 != 0) part->push_back('\x55');
    note += *part;
  }
  return note;
}

const std::string kGnu("GNU\0", 4);

TEST(LoadedFile, HasTheSegmentsOfItsHeaders) {
  Image image;
  EXPECT_THAT(image.segments(), IsEmpty());
  image.AddSegment(PT_LOAD, 0, 100);
  image.AddSegment(PT_NOTE, 16, 20);
  ASSERT_EQ(image.segments().size(), 2U);
  EXPECT_EQ(image.segments()[1].p_type, static_cast<std::uint32_t>(PT_NOTE));
  EXPECT_EQ(image.segments()[1].p_vaddr, 16U);
  image.header().e_ident[0] = 'E';
  EXPECT_THAT(image.segments(), IsEmpty()) << "no ELF file";
}

TEST(LoadedFile, HasNoSegmentsIfItsHeadersAreBeyondTheFirstPage) {
  Image image;
  image.AddSegment(PT_LOAD, 0, 100);
  image.header().e_phoff = kPage - sizeof(ElfW(Phdr));
  EXPECT_EQ(image.segments().size(), 1U) << "up to the end of the page";
  ++image.header().e_phoff;
  EXPECT_THAT(image.segments(), IsEmpty());
  image.header().e_phoff = ~std::uint64_t{0} - 10;
  EXPECT_THAT(image.segments(), IsEmpty()) << "not even where the sum wraps around";
}

TEST(LoadedFile, HasTheBuildIdOfTheNoteThatIsOne) {
  Image image;
  EXPECT_THAT(image.build_id(), IsEmpty());
  image.AddSegment(PT_LOAD, 0, 100);
  image.AddNotes(Note(NT_GNU_ABI_TAG, kGnu, "abcde"));
  EXPECT_THAT(image.build_id(), IsEmpty());
  image.AddNotes(Note(NT_GNU_BUILD_ID, std::string("Go\0", 3), "wrong") +
                 Note(NT_GNU_BUILD_ID, std::string("XYZ\0", 4), "wrong") +
                 Note(NT_GNU_ABI_TAG, "", "") + Note(NT_GNU_BUILD_ID, kGnu, "\x01\x80\xff"));
  EXPECT_THAT(image.build_id(), ElementsAre(0x01, 0x80, 0xff));
}

TEST(LoadedFile, DoesNotReadNotesThatEndBeyondTheirSegment) {
  const std::string whole = Note(NT_GNU_BUILD_ID, kGnu, "abcd");
  for (std::size_t bytes = 0; bytes <= whole.size(); ++bytes) {
    Image image;
    image.AddNotes(whole.substr(0, bytes));
    EXPECT_EQ(image.build_id().size(), bytes == whole.size() ? 4U : 0U) << bytes;
  }
  Image image;
  std::string endless = Note(NT_GNU_ABI_TAG, kGnu, "abcd");
  std::memset(endless.data(), 0xff, 8);
  image.AddNotes(endless + whole);
  EXPECT_THAT(image.build_id(), IsEmpty()) << "of 4 GiB each";
}

// The program itself, whose linker was told to write one.
TEST(LoadedFile, IsAsTheDynamicLinkerHasIt) {
  dl_find_object file{};
  ASSERT_EQ(_dl_find_object(reinterpret_cast<void*>(&Note), &file), 0);
  const Segments own = SegmentsOf(file.dlfo_map_start);
  struct Linked {
    const ElfW(Phdr) * segments;
    std::size_t count;
  } linked{};
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* into) {
        *static_cast<Linked*>(into) = {info->dlpi_phdr, info->dlpi_phnum};
        return 1;  // the program comes first
      },
      &linked);
  EXPECT_EQ(own.data(), linked.segments);
  EXPECT_EQ(own.size(), linked.count);
  const std::uint64_t bias = file.dlfo_link_map->l_addr;
  EXPECT_EQ(BuildIdOf(own, bias).size(), 20U) << "a SHA-1";
}

}  // namespace loaded_file_test
}  // namespace tmprof::objtrace
