// SPDX-License-Identifier: Apache-2.0

#include "objects/commands/own_libraries.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/apps/program.h"

namespace tmprof {
namespace own_libraries_test {

namespace fs = std::filesystem;
using test::TemporaryFolder;
using testing::HasSubstr;

// A folder of programs, ROOT/bin, with libraries below ROOT.
class LibrarySearch : public testing::Test {
 protected:
  void Add(const std::string& library) const {
    fs::create_directories((folder_.path() / library).parent_path());
    test::WriteFile(folder_.File(library), "");
  }

  Result<fs::path> Find(std::initializer_list<const char*> names) const {
    return FindLibrariesOf(folder_.path() / "bin" / "tmprof", "tmprof cc", names);
  }

  std::string Refusal(std::initializer_list<const char*> names) const {
    const Result<fs::path> found = Find(names);
    EXPECT_FALSE(found) << *found;
    return found ? "" : found.error().Message();
  }

  TemporaryFolder folder_;
};

TEST_F(LibrarySearch, FindsTheFolderLibOfABuild) {
  Add("bin/lib/a.so");
  EXPECT_EQ(Find({"a.so"}), folder_.path() / "bin/lib");
}

TEST_F(LibrarySearch, FindsAnInstallationAndItsPathHasNoDots) {
  Add("lib/tmprof/a.so");
  fs::create_directory(folder_.path() / "bin");
  EXPECT_EQ(Find({"a.so"}), folder_.path() / "lib/tmprof");
}

TEST_F(LibrarySearch, PrefersTheBuildToAnInstallation) {
  Add("bin/lib/a.so");
  Add("lib/tmprof/a.so");
  EXPECT_EQ(Find({"a.so"}), folder_.path() / "bin/lib");
}

TEST_F(LibrarySearch, SkipsAFolderThatLacksOneOfThem) {
  Add("bin/lib/a.so");
  Add("lib/tmprof/a.so");
  Add("lib/tmprof/b.so");
  EXPECT_EQ(Find({"a.so", "b.so"}), folder_.path() / "lib/tmprof");
}

TEST_F(LibrarySearch, DoesNotCombineTwoFolders) {
  Add("bin/lib/a.so");
  Add("lib/tmprof/b.so");
  EXPECT_THAT(Refusal({"a.so", "b.so"}), HasSubstr("there is no lib/"));
}

TEST_F(LibrarySearch, NamesTheFirstMissingLibraryItsUserAndTheProgram) {
  Add("bin/lib/a.so");
  EXPECT_EQ(Refusal({"a.so", "b.so", "c.so"}),
            "cannot find the libraries of 'tmprof cc' beside '" + folder_.File("bin/tmprof") +
                "': there is no lib/b.so; build tmprof by the preset 'release', which makes all "
                "of them");
}

TEST_F(LibrarySearch, NamesAMissingLibraryThoughNoFolderIsThere) {
  EXPECT_THAT(Refusal({"a.so", "b.so"}), HasSubstr("there is no lib/a.so"));
}

TEST(OwnLibrarySearch, StartsAtThisProgram) {
  const fs::path program = fs::read_symlink("/proc/self/exe");
  const Result<fs::path> found = FindOwnLibraries("this test", {"no_such_library.so"});
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().Message(), HasSubstr(program.string()));
}

}  // namespace own_libraries_test
}  // namespace tmprof
