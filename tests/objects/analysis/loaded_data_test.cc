// SPDX-License-Identifier: Apache-2.0
// Reads this test program itself, and a library that it loads.

#include "objects/analysis/loaded_data.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/host/procfs.h"
#include "base/unique_fd.h"
#include "tests/apps/program.h"
#include "tests/folders.h"

// C names are not mangled.
extern "C" {
alignas(4096) volatile char tmprof_test_table[3 * 4096] = {1};
extern volatile char tmprof_test_again[3 * 4096] __attribute__((alias("tmprof_test_table")));
alignas(4096) volatile char tmprof_test_zeros[2 * 4096];
}

namespace tmprof {
namespace loaded_data_test {

using ::testing::EndsWith;
using ::testing::IsEmpty;

const std::string kLibrary = std::string(TMPROF_BINARY_DIR) + "/lib/libobjects_made.so";
constexpr TargetId kTarget(0);

std::vector<Mapping> OwnMappings() {
  const auto mappings = ProcFs().Mappings(Pid(::getpid()));
  EXPECT_TRUE(mappings);
  return mappings.value_or(std::vector<Mapping>());
}

std::uint64_t AddressOf(const volatile void* variable) {
  return reinterpret_cast<std::uint64_t>(variable);
}

VpnRange PageOf(std::uint64_t address) {
  return {VpnOfAddress(address), VpnOfAddress(address) + PageCount(1)};
}

std::vector<LoadedData::Change> See(LoadedData& loaded, const std::vector<Mapping>& mappings,
                                    std::uint64_t address) {
  const VpnRange accessed = PageOf(address);
  return loaded.See(kTarget, mappings, {&accessed, 1});
}

const LoadedData::Change* Named(const std::vector<LoadedData::Change>& changes,
                                const std::string& name) {
  const auto found = std::ranges::find_if(
      changes, [&](const LoadedData::Change& change) { return change.datum.name == name; });
  return found != changes.end() ? &*found : nullptr;
}

TEST(LoadedData, TellsOnceOfTheVariableOnAnAccessedPage) {
  LoadedData loaded;
  const std::vector<Mapping> mappings = OwnMappings();
  const auto changes = See(loaded, mappings, AddressOf(&tmprof_test_table[5000]));
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].datum.name, "tmprof_test_again") << "of two, the shorter or first one";
  EXPECT_EQ(changes[0].datum.kind, FixedKind::kVariable);
  EXPECT_EQ(changes[0].start, AddressOf(tmprof_test_table));
  EXPECT_GE(changes[0].datum.bytes, sizeof(tmprof_test_table)) << "a sanitizer adds to it";
  EXPECT_THAT(changes[0].file, EndsWith("object_analysis_test"));
  EXPECT_FALSE(changes[0].ends);
  EXPECT_THAT(See(loaded, mappings, AddressOf(&tmprof_test_table[0])), IsEmpty());
}

TEST(LoadedData, KnowsVariablesThatAreInNoFilesPages) {
  tmprof_test_zeros[0] = 1;
  LoadedData loaded;
  const auto changes = See(loaded, OwnMappings(), AddressOf(&tmprof_test_zeros[4096]));
  ASSERT_NE(Named(changes, "tmprof_test_zeros"), nullptr);
  EXPECT_EQ(Named(changes, "tmprof_test_zeros")->start, AddressOf(tmprof_test_zeros));
}

TEST(LoadedData, WithoutAccessesTellsNothing) {
  LoadedData loaded;
  EXPECT_THAT(loaded.See(kTarget, OwnMappings(), {}), IsEmpty());
}

TEST(LoadedData, EndsWhatWasToldOfALibraryThatIsClosed) {
  void* library = ::dlopen(kLibrary.c_str(), RTLD_NOW);
  ASSERT_NE(library, nullptr) << ::dlerror();
  const std::uint64_t table = AddressOf(::dlsym(library, "library_table"));
  LoadedData loaded;
  const std::vector<Mapping> with = OwnMappings();
  const auto begun = See(loaded, with, table + 8192);
  ASSERT_NE(Named(begun, "library_table"), nullptr);
  EXPECT_EQ(Named(begun, "library_table")->start, table);
  EXPECT_EQ(Named(begun, "library_table")->file, kLibrary);
  std::vector<Mapping> without = with;
  std::erase_if(without, [](const Mapping& mapping) { return mapping.path == kLibrary; });
  const auto ended = See(loaded, without, table + 8192);
  ASSERT_EQ(ended.size(), begun.size());
  for (const LoadedData::Change& change : ended) EXPECT_TRUE(change.ends);
  EXPECT_EQ(See(loaded, with, table + 8192).size(), begun.size()) << "loaded again";
  EXPECT_EQ(loaded.Forget(kTarget).size(), begun.size());
  EXPECT_THAT(loaded.Forget(kTarget), IsEmpty());
  ::dlclose(library);
}

TEST(LoadedData, AFileThatIsReadThroughAMappingIsNotLoaded) {
  const UniqueFd file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  struct stat status{};
  ASSERT_EQ(::fstat(file.get(), &status), 0);
  const auto bytes = static_cast<std::size_t>(status.st_size);
  void* read = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file.get(), 0);
  ASSERT_NE(read, MAP_FAILED);
  std::vector<Mapping> mappings = OwnMappings();
  std::erase_if(mappings, [&](const Mapping& mapping) {
    return !mapping.range.Contains(VpnOfAddress(AddressOf(read)));
  });
  ASSERT_EQ(mappings.size(), 1U);
  LoadedData loaded;
  EXPECT_THAT(loaded.See(kTarget, mappings, {&mappings[0].range, 1}), IsEmpty());
  ::munmap(read, bytes);
}

TEST(ElfData, IsDisjointAndWithinWhatIsLoaded) {
  const auto file = ReadElfData(std::filesystem::read_symlink("/proc/self/exe"));
  ASSERT_TRUE(file) << file.error().Message();
  ASSERT_GT(file->data.size(), 1U);
  for (std::size_t i = 1; i < file->data.size(); ++i) {
    EXPECT_LE(file->data[i - 1].end(), file->data[i].start);
  }
  EXPECT_GE(file->data.front().start, file->segments.front().start);
  EXPECT_LE(file->data.back().end(), file->segments.back().end);
}

TEST(ElfData, HasSectionsOfAStrippedFileAndVariablesWithItsDebugFile) {
  test::TemporaryFolder folder;
  const std::string built = folder.File("built.so");
  const std::string stripped = folder.File("stripped.so");
  const std::string debug = folder.File(".build-id/ab/cdef.debug");
  std::filesystem::create_directories(folder.path() / ".build-id/ab");
  const auto run = [](const std::vector<std::string>& arguments) {
    const test::Outcome outcome = test::RunProgram(arguments);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
  };
  // A build ID that is known: of its note, after the header and the name, 16 bytes.
  test::WriteFile(folder.File("note"),
                  std::string("\4\0\0\0\3\0\0\0\3\0\0\0GNU\0\xab\xcd\xef\0", 20));
  run({"objcopy", "--update-section=.note.gnu.build-id=" + folder.File("note"), kLibrary, built});
  run({"objcopy", "--only-keep-debug", built, debug});
  run({"objcopy", "--strip-all", built, stripped});
  const auto named = [&](const std::string& path, const std::string& name,
                         const std::string& debug_folder = "/nowhere") -> FileDatum {
    const Result<ElfData> file = ReadElfData(path, debug_folder);
    if (!file) return {};
    const auto found = std::ranges::find(file->data, name, &FileDatum::name);
    return found != file->data.end() ? *found : FileDatum();
  };
  EXPECT_EQ(named(stripped, "hidden_table").bytes, 0U) << "it is in no dynamic symbol table";
  EXPECT_EQ(named(stripped, "library_table").bytes, 4U << 20);
  EXPECT_EQ(named(stripped, ".bss").kind, FixedKind::kData);
  EXPECT_GE(named(stripped, ".bss").bytes, 1U << 16);
  EXPECT_EQ(named(stripped, "hidden_table", folder.path().string()).bytes, 1U << 16);
}

TEST(ElfData, FailsOnAFileThatIsNotElf) {
  test::TemporaryFolder folder;
  test::WriteFile(folder.File("text"), "no ELF");
  const auto read = ReadElfData(folder.File("text"));
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().Message(), ::testing::HasSubstr("text"));
  EXPECT_FALSE(ReadElfData(folder.File("missing")));
}

}  // namespace loaded_data_test
}  // namespace tmprof
