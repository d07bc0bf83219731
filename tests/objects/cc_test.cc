// SPDX-License-Identifier: Apache-2.0
// Programs that `tmprof cc` builds count what was counted by hand.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "objects/commands/cc_arguments.h"
#include "objects/format/objects_file.h"
#include "tests/apps/program.h"
#include "tests/folders.h"

namespace tmprof::test {
namespace cc_test {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Source(const std::string& name) {
  return std::string(TMPROF_SOURCE_DIR) + "/tests/objects/programs/" + name;
}

class CcTest : public ::testing::Test {
 protected:
  // Builds in the folder; `arguments` begin with the compiler.
  Outcome Cc(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"cc", "--"});
    arguments.push_back("-I" TMPROF_SOURCE_DIR "/objects/include");
    return Tmprof(arguments);
  }

  Outcome Run(const std::string& program, const std::vector<std::string>& arguments = {}) const {
    std::vector<std::string> argv = {program};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    const std::string file = File("run.objects");
    return RunProgram(argv, [&file] { ::setenv("TMPROF_OBJECTS", file.c_str(), 1); });
  }

  std::string File(const std::string& name) const { return folder_.File(name); }

  // The parts of a file together.
  static ObjectsPart Read(const std::string& path, ObjectsInfo& info) {
    ObjectsPart all;
    Result<ObjectsReader> reader = ObjectsReader::Open(path);
    EXPECT_TRUE(reader) << reader.error().Message();
    if (!reader) return all;
    info = reader->info();
    ObjectsPart part;
    while (true) {
      const Result<bool> more = reader->Next(part);
      EXPECT_TRUE(more) << more.error().Message();
      if (!more || !*more) break;
      std::ranges::copy(part.modules, std::back_inserter(all.modules));
      std::ranges::copy(part.variables, std::back_inserter(all.variables));
      std::ranges::copy(part.sites, std::back_inserter(all.sites));
      std::ranges::copy(part.objects, std::back_inserter(all.objects));
      all.elsewhere += part.elsewhere;
    }
    EXPECT_TRUE(reader->finished());
    return all;
  }

  static std::uint64_t AccessesTo(const ObjectsPart& part, std::string_view variable) {
    std::uint64_t sum = 0;
    for (const VariableCount& candidate : part.variables) {
      if (candidate.name == variable) sum += candidate.accesses;
    }
    return sum;
  }

  static bool IsInstrumented(const ObjectsPart& part, const std::string& name) {
    const auto module = std::ranges::find_if(part.modules, [&](const LoadedModule& candidate) {
      const std::string file = std::filesystem::path(candidate.path).filename().string();
      return name.empty() ? file.empty() : file.starts_with(name);
    });
    EXPECT_NE(module, part.modules.end()) << name;
    return module != part.modules.end() && module->instrumented;
  }

  TemporaryFolder folder_;
};

// The counts of known.c.
constexpr std::string_view kKnownCounts =
    "array-filled 1000\n"
    "array-summed 2000\n"
    "array-of-structures 400\n"  // 100 of x read, x written, y written, charge read
    "structure-of-arrays-x 50\n"
    "structure-of-arrays-y 50\n"
    "copied-from 13\n"  // words of 100 bytes
    "copied-to 13\n"
    "bumped 20\n"  // read and written 10 times
    "longjmp 1\n"
    "threads 80000\n";  // read and written 10 000 times in 4 threads

class KnownProgramTest : public CcTest, public ::testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Levels, KnownProgramTest, ::testing::Values("-O0", "-O2", "-O3"),
                         [](const auto& level) { return std::string(level.param + 1); });

TEST_P(KnownProgramTest, CountsInCAreThoseMadeByHand) {
  const Outcome built =
      Cc({"clang-19", GetParam(), "-pthread", Source("known.c"), "-o", File("x")});
  ASSERT_EQ(built.status, 0) << built.err;
  const Outcome ran = Run(File("x"));
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.out, kKnownCounts);
}

TEST_F(CcTest, ALimitOfAddressesIsKeptOrToldOf) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's shadow takes more addresses";
#endif
  const Outcome built = Cc({"clang-19", "-O2", "-pthread", Source("known.c"), "-o", File("x")});
  ASSERT_EQ(built.status, 0) << built.err;
  const auto run_within = [&](const std::string& kib) {
    return Run("sh", {"-c", "ulimit -v " + kib + " && exec \"$0\"", File("x")});
  };
  const Outcome kept = run_within("34603008");  // 33 GiB
  EXPECT_EQ(kept.status, 0) << kept.err;
  EXPECT_EQ(kept.out, kKnownCounts);
  const Outcome refused = run_within("1048576");
  EXPECT_NE(refused.status, 0);
  EXPECT_THAT(refused.err, HasSubstr("cannot have the addresses that instrumented code expects"));
}

TEST_P(KnownProgramTest, CountsInCppAreThoseMadeByHand) {
  const Outcome built =
      Cc({"clang++-19", GetParam(), "-pthread", Source("containers.cc"), "-o", File("x")});
  ASSERT_EQ(built.status, 0) << built.err;
  const Outcome ran = Run(File("x"));
  EXPECT_EQ(ran.status, 0) << ran.err;
  // Seven finds in a tree of three levels pass the root, three end at or pass each node of the
  // second.
  EXPECT_EQ(ran.out,
            "vector-filled 1000\n"
            "vector-summed 2000\n"
            "virtual 6\n"  // twice: virtual table read, side read and written
            "exception 2\n"
            "tree-root 13\n"  // key 7 times, child 6 times
            "tree-inner 6\n"  // key 3 times, child twice; and key once to print it
            "tree-leaf 2\n"
            "threads 4000\n");
  ObjectsInfo info;
  const ObjectsPart part = Read(File("run.objects"), info);
  std::uint64_t global = 0;
  for (const VariableCount& variable : part.variables) {
    if (variable.name.find("global_array") != std::string::npos) global += variable.accesses;
  }
  EXPECT_EQ(global, 100U);
}

constexpr const char* kLoops =
    "found 100\n"       // up to the one that is found
    "not-found 1100\n"  // and all
    "backwards 24\n"
    "behind 0\n"
    "which 1000\n"
    "copied-from 100\n"  // each tenth
    "copied-to 100\n"
    "where 1000\n"
    "gathered 1000\n"
    "rows 5\n"
    "row 40\n"  // 20 read and written
    "one 10\n"
    "other 20\n"
    "passed-twice 4\n"  // key and link, twice
    "found-once 3\n"    // key; and key and link
    "last 2\n"
    "first-link 2\n"
    "left-at 3\n"  // key and link; and key
    "before-end 2\n"
    "grown-to 45\n"  // 0 to 9 words
    "grown-from 45\n"
    "called-between 20\n"
    "threads 4000\n"
    "parsed 31\n"  // 12 outside of the brackets, and 9 twice and 1 within
    "steps 30\n"
    "even 20\n"  // before the first a and the b of each "aab"
    "odd 10\n";

class LoopsTest : public CcTest, public ::testing::WithParamInterface<std::vector<std::string>> {};
INSTANTIATE_TEST_SUITE_P(Levels, LoopsTest,
                         ::testing::Values(std::vector<std::string>{"-O0"},
                                           std::vector<std::string>{"-O1"},
                                           std::vector<std::string>{"-O2"},
                                           std::vector<std::string>{"-O3", "-mavx2"}));

TEST_P(LoopsTest, CountsAreThoseMadeByHand) {
  if (GetParam().size() > 1 && !__builtin_cpu_supports("avx2")) {
    GTEST_SKIP() << "this CPU has no AVX2";
  }
  std::vector<std::string> command = {"clang-19", "-pthread", Source("loops.c"), "-o", File("x")};
  command.insert(command.end(), GetParam().begin(), GetParam().end());
  const Outcome built = Cc(command);
  ASSERT_EQ(built.status, 0) << built.err;
  const Outcome ran = Run(File("x"));
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.out, kLoops);
  ObjectsInfo info;
  const ObjectsPart part = Read(File("run.objects"), info);
  EXPECT_EQ(AccessesTo(part, "counters"), 2000U);
  EXPECT_EQ(AccessesTo(part, "shifted"), 6U);
}

class ToldTest : public CcTest, public ::testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Levels, ToldTest, ::testing::Values("-O0", "-O2"),
                         [](const auto& level) { return std::string(level.param + 1); });

TEST_P(ToldTest, CountsOfALoopAreThereOnceOthersCanKnowOfIt) {
  const Outcome built = Cc({"clang-19", GetParam(), "-pthread", Source("told.c"), "-o", File("x")});
  ASSERT_EQ(built.status, 0) << built.err;
  const Outcome ran = Run(File("x"));
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.out,
            "store there\naddition there\nfence there\npoll there\npoll-by-pointers there\n");
}

class SignalsTest : public CcTest, public ::testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Levels, SignalsTest, ::testing::Values("-O0", "-O2"),
                         [](const auto& level) { return std::string(level.param + 1); });

TEST_P(SignalsTest, AHandlerAmidACountLosesNone) {
  const Outcome built =
      Cc({"clang-19", GetParam(), "-pthread", Source("signals.c"), "-o", File("x")});
  ASSERT_EQ(built.status, 0) << built.err;
  const Outcome ran = Run(File("x"));
  ASSERT_EQ(ran.status, 0) << ran.err;
  std::map<std::string, std::uint64_t> said;
  std::istringstream lines(ran.out);
  std::string name;
  for (std::uint64_t count = 0; lines >> name >> count;) said[name] = count;
  constexpr std::uint64_t kRounds = 10;
  EXPECT_GT(said["steps"], kRounds) << "the processor does not step";
  EXPECT_EQ(said["own"], kRounds + said["steps"]);
  EXPECT_EQ(said["others"], kRounds + said["steps"]);
  EXPECT_EQ(said["elements"], kRounds + said["steps"]);
  ObjectsInfo info;
  EXPECT_EQ(AccessesTo(Read(File("run.objects"), info), "stepped_variable"),
            kRounds + said["steps"]);
}

// The program that the tracker's tests run as it is.
class FaultsTest : public CcTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    const Outcome built = Cc({"clang++-19", "-std=c++20", GetParam(), "-fno-builtin", "-pthread",
                              Source("allocates.cc"), "-o", File("x")});
    ASSERT_EQ(built.status, 0) << built.err;
  }

  struct Made {
    std::uint64_t sites = 0;
    std::uint64_t objects = 0;
    std::uint64_t freed = 0;
  };
  // Sums up the sites whose objects all have so many bytes.
  static Made Of(const ObjectsPart& part, std::uint64_t bytes) {
    Made made;
    for (const AllocationSite& site : part.sites) {
      if (site.objects == 0 || site.bytes != site.objects * bytes) continue;
      ++made.sites;
      made.objects += site.objects;
      made.freed += site.freed_objects;
    }
    return made;
  }
};
INSTANTIATE_TEST_SUITE_P(Levels, FaultsTest, ::testing::Values("-O0", "-O2"),
                         [](const auto& level) { return std::string(level.param + 1); });

TEST_P(FaultsTest, AFailedAllocationIsNoObject) {
  const Outcome ran = Run(File("x"), {"refused"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.out, "bad_alloc\n");
  EXPECT_EQ(ran.err, "");
  ObjectsInfo info;
  const ObjectsPart part = Read(File("run.objects"), info);
  for (const AllocationSite& site : part.sites) EXPECT_LT(site.bytes, std::uint64_t{1} << 40);
  EXPECT_EQ(Of(part, 50'007).objects, 1U);
  EXPECT_EQ(Of(part, 50'007).freed, 1U) << "what could not grow stayed until then";
  EXPECT_EQ(Of(part, 100'007).objects, 1U);
}

TEST_P(FaultsTest, StacksThatAreLeftByJumpsAndExceptionsAreThoseOfTheirCalls) {
  const Outcome ran = Run(File("x"), {"leaves"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  ObjectsInfo info;
  const ObjectsPart part = Read(File("run.objects"), info);
  for (const std::uint64_t bytes : {100'001, 100'002, 100'003}) {
    const Made made = Of(part, bytes);
    EXPECT_EQ(made.sites, 1U) << bytes;
    EXPECT_EQ(made.objects, 100U) << bytes;
    EXPECT_EQ(made.freed, 100U) << bytes;
  }
}

TEST_P(FaultsTest, HoweverAThreadEndsItsObjectsAndCountsStay) {
  const Outcome ran = Run(File("x"), {"ends"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  ObjectsInfo info;
  const ObjectsPart part = Read(File("run.objects"), info);
  EXPECT_EQ(Of(part, 100'031).objects, 3U);
  EXPECT_EQ(Of(part, 100'031).freed, 3U) << "by the last destructor";
  std::vector<std::uint64_t> accesses;
  for (const LiveObject& object : part.objects) {
    if (object.bytes == 100'032) accesses.push_back(object.accesses);
  }
  EXPECT_THAT(accesses, ElementsAre(1, 1, 1)) << "also of one that was cancelled";
}

TEST_P(FaultsTest, AHandlerAmidAnAllocationLosesNone) {
  const Outcome ran = Run(File("x"), {"steps"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const auto steps = std::stoul(ran.out);
  EXPECT_GT(steps, 10 * 100U) << "the processor does not step";
  ObjectsInfo info;
  const ObjectsPart part = Read(File("run.objects"), info);
  EXPECT_EQ(Of(part, 100'041).objects, 11U);
  EXPECT_EQ(Of(part, 100'041).freed, 11U);
  EXPECT_EQ(AccessesTo(part, "_ZN12_GLOBAL__N_15stepsE"), 2 * steps + 1)
      << "read and written in each, and printed";
}

TEST_P(FaultsTest, ChildrenThatBecomeAnotherProgramWriteItsFilesAlone) {
  const std::string pattern = File("run-%p.objects");
  const Outcome ran =
      RunProgram({File("x"), "spawn"}, [&] { ::setenv("TMPROF_OBJECTS", pattern.c_str(), 1); });
  ASSERT_EQ(ran.status, 0) << ran.err;
  std::size_t files = 0;
  std::size_t parents = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    if (!entry.path().filename().string().starts_with("run-")) continue;
    ++files;
    ObjectsInfo info;
    const ObjectsPart part = Read(entry.path(), info);
    EXPECT_EQ(info.forks, 0U) << "each began anew";
    const std::uint64_t is_parent = Of(part, 100'021).objects;
    parents += is_parent;
    EXPECT_EQ(Of(part, 100'022).objects, is_parent);
    EXPECT_EQ(Of(part, 100'001).objects, 1 - is_parent);
  }
  EXPECT_EQ(files, 4U) << "itself, and by fork(2), vfork(2) and posix_spawn(3)";
  EXPECT_EQ(parents, 1U);
}

TEST_F(CcTest, CountsAccessesBeforeWritesThatOthersMayWaitFor) {
  const Outcome built =
      Cc({"clang-19", "-O1", Source("steps.ll"), Source("steps.c"), "-o", File("x")});
  ASSERT_EQ(built.status, 0) << built.err;
  EXPECT_EQ(Run(File("x")).out,
            "publish 1 2 3\n"
            "walk 1 1\n"  // of each next node its key
            "walk-late 0 1\n");
}

TEST_F(CcTest, AVariableOfUnknownSizeElsewhereIsOne) {
  WriteFile(File("table.c"), "int table[100];\n");
  WriteFile(File("reads.c"),
            "extern volatile int table[];\n"
            "int NAME(void) { return table[0]; }\n");
  WriteFile(File("main.c"),
            "extern int table[];\n"
            "int before(void);\n"
            "int after(void);\n"
            "__attribute__((noinline)) static int sum(const volatile int* all) {\n"
            "  int total = 0;\n"
            "  for (int i = 0; i < 100; ++i) total += all[i];\n"
            "  return total;\n"
            "}\n"
            "static int* volatile by_pointer = table;\n"
            "int main(void) { return before() + after() + sum(by_pointer); }\n");
  ASSERT_EQ(Cc({"clang-19", "-c", "-DNAME=before", File("reads.c"), "-o", File("before.o")}).status,
            0);
  ASSERT_EQ(Cc({"clang-19", "-c", "-DNAME=after", File("reads.c"), "-o", File("after.o")}).status,
            0);
  const Outcome built = Cc({"clang-19", "-O1", File("before.o"), File("table.c"), File("main.c"),
                            File("after.o"), "-o", File("x")});
  ASSERT_EQ(built.status, 0) << built.err;
  ASSERT_EQ(Run(File("x")).status, 0);
  ObjectsInfo info;
  EXPECT_EQ(AccessesTo(Read(File("run.objects"), info), "table"), 102U);
}

TEST_F(CcTest, LinkTimeOptimisationIsLeftOut) {
  const Outcome built =
      Cc({"clang-19", "-O2", "-flto=thin", "-pthread", Source("known.c"), "-c", "-o", File("x.o")});
  ASSERT_EQ(built.status, 0) << built.err;
  EXPECT_TRUE(ReadFile(File("x.o"))
                  .starts_with("\x7f"
                               "ELF"));
}

TEST_F(CcTest, SharedLibrariesCountWhereTheyAreInstrumentedAndAreListedWhereNot) {
  const std::vector<std::string> whole = {
      "clang-19",        "-O2",
      Source("whole.c"), "-o",
      File("x"),         "-L" + folder_.path().string(),
      "-lpart",          "-Wl,-rpath," + folder_.path().string()};
  const std::vector<std::string> part = {"clang-19",       "-O2", "-fPIC",           "-shared",
                                         Source("part.c"), "-o",  File("libpart.so")};
  ASSERT_EQ(Cc(part).status, 0);
  const Outcome built = Cc(whole);
  ASSERT_EQ(built.status, 0) << built.err;
  EXPECT_EQ(Run(File("x")).out, "library 40\n");
  ObjectsInfo info;
  const ObjectsPart counted = Read(File("run.objects"), info);
  EXPECT_TRUE(IsInstrumented(counted, "libpart.so"));
  EXPECT_TRUE(IsInstrumented(counted, ""));
  EXPECT_FALSE(IsInstrumented(counted, "libc.so"));
  EXPECT_EQ(AccessesTo(counted, "part_calls"), 3U);
  EXPECT_EQ(AccessesTo(counted, "whole_calls"), 1U);

  ASSERT_EQ(RunProgram(part).status, 0);
  EXPECT_EQ(Run(File("x")).out, "library 0\n");
  EXPECT_FALSE(IsInstrumented(Read(File("run.objects"), info), "libpart.so"));
}

// whole.c and a static library of part.c and another, of which each may have been built before.
class StaticLibraryTest : public CcTest {
 protected:
  void MakeLibrary(const std::vector<std::string>& counted,
                   const std::vector<std::string>& others) {
    WriteFile(File("other.c"), "int other_calls;\nvoid other(void) { ++other_calls; }\n");
    std::vector<std::string> archive = {"ar", "rcs", File("libpart.a")};
    for (const std::vector<std::string>* sources : {&counted, &others}) {
      for (const std::string& source : *sources) {
        const std::string object = File(std::filesystem::path(source).stem().string() + ".o");
        const std::vector<std::string> command = {"clang-19", "-O2", "-fPIC", "-c",
                                                  source,     "-o",  object};
        const Outcome built = sources == &counted ? Cc(command) : RunProgram(command);
        ASSERT_EQ(built.status, 0) << built.err;
        archive.push_back(object);
      }
    }
    ASSERT_EQ(RunProgram(archive).status, 0);
  }

  Outcome Link(const std::vector<std::string>& library) const {
    std::vector<std::string> command = {"clang-19", "-Werror",         "-O2", "-g",     "-std=c11",
                                        "-DX=1",    Source("whole.c"), "-o",  File("x")};
    command.insert(command.end(), library.begin(), library.end());
    return Cc(command);
  }

  nlohmann::json UncountedParts() const {
    const Outcome reported =
        Tmprof({"report", File("run.objects"), "--view", "objects", "--format", "json"});
    EXPECT_EQ(reported.status, 0) << reported.err;
    return nlohmann::json::parse(reported.out)["uncounted_parts"];
  }
};

TEST_F(StaticLibraryTest, CountsWhereItWasBuiltToAndNobodySaysAnything) {
  ASSERT_NO_FATAL_FAILURE(MakeLibrary({Source("part.c"), File("other.c")}, {}));
  const Outcome built = Link({File("libpart.a")});
  ASSERT_EQ(built.status, 0) << built.err;
  EXPECT_EQ(built.err, "");
  EXPECT_EQ(Run(File("x")).out, "library 40\n");
  ObjectsInfo info;
  EXPECT_EQ(AccessesTo(Read(File("run.objects"), info), "part_calls"), 3U);
  EXPECT_TRUE(UncountedParts().empty());
}

TEST_F(StaticLibraryTest, ThatWasPrebuiltIsSaidWhenItIsLinkedAndInTheProfile) {
  ASSERT_NO_FATAL_FAILURE(MakeLibrary({}, {Source("part.c"), File("other.c")}));
  for (const std::vector<std::string>& way :
       {std::vector<std::string>{File("libpart.a")},
        std::vector<std::string>{"-L" + File(""), "-lpart"},
        std::vector<std::string>{"-L" + File(""), "-Wl,-Bstatic,-lpart,-Bdynamic"}}) {
    std::filesystem::remove(File("x"));
    const Outcome built = Link(way);
    ASSERT_EQ(built.status, 0) << built.err;
    EXPECT_EQ(built.err, "tmprof: not counted, as 'tmprof cc' did not build it: libpart.a\n");
    EXPECT_EQ(Run(File("x")).out, "library 0\n");
    EXPECT_THAT(UncountedParts(), ElementsAre("libpart.a of x"));
    const Outcome text = Tmprof({"report", File("run.objects"), "--view", "objects"});
    EXPECT_THAT(text.out, HasSubstr(", libpart.a of x\n"));
    ObjectsInfo info;
    const ObjectsPart counted = Read(File("run.objects"), info);
    EXPECT_TRUE(IsInstrumented(counted, ""));
    EXPECT_EQ(AccessesTo(counted, "whole_calls"), 1U);
  }
}

TEST_F(StaticLibraryTest, NamesThePartThatWasPrebuilt) {
  ASSERT_NO_FATAL_FAILURE(MakeLibrary({Source("part.c")}, {File("other.c")}));
  WriteFile(File("by_hand.S"),
            "  .globl by_hand\nby_hand:\n  ret\n"
            "  .section .note.GNU-stack,\"\",@progbits\n");
  WriteFile(File("link"), File("libpart.a") + " '" + File("by_hand.S") + "'");
  const Outcome built = Link({"@" + File("link")});
  ASSERT_EQ(built.status, 0) << built.err;
  EXPECT_THAT(built.err, HasSubstr(": libpart.a(other.o), by_hand.S\n"));
  EXPECT_EQ(Run(File("x")).out, "library 40\n");
  EXPECT_THAT(UncountedParts(), ElementsAre("libpart.a(other.o) of x", "by_hand.S of x"));
}

TEST_F(StaticLibraryTest, InASharedLibraryIsListedAsAPartOfThat) {
  ASSERT_NO_FATAL_FAILURE(MakeLibrary({}, {File("other.c")}));
  const Outcome library =
      Cc({"clang-19", "-O2", "-fPIC", "-shared", Source("part.c"), "-o", File("libshared.so"),
          "-Wl,--whole-archive", File("libpart.a"), "-Wl,--no-whole-archive"});
  ASSERT_EQ(library.status, 0) << library.err;
  EXPECT_THAT(library.err, HasSubstr("libpart.a"));
  const Outcome built = Link({File("libshared.so")});
  ASSERT_EQ(built.status, 0) << built.err;
  EXPECT_EQ(built.err, "") << "a shared library tells of itself";
  EXPECT_EQ(Run(File("x")).out, "library 40\n");
  EXPECT_THAT(UncountedParts(), ElementsAre("libpart.a of libshared.so"));
}

// Its objects lie in a mapping, which is nobody's; variables and what else it does count.
TEST_F(CcTest, AProgramWithAnAllocatorOfItsOwnKeepsIt) {
  const Outcome built =
      Cc({"clang-19", "-O1", "-fno-builtin", Source("own_allocator.c"), "-o", File("x")});
  ASSERT_EQ(built.status, 0) << built.err;
  const Outcome ran = Run(File("x"));
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.out, "100 of its own\n");
  EXPECT_EQ(ran.err, "");
  ObjectsInfo info;
  const ObjectsPart counted = Read(File("run.objects"), info);
  EXPECT_TRUE(IsInstrumented(counted, ""));
  EXPECT_EQ(counted.elsewhere, 100U) << "a byte of each";
  EXPECT_GT(AccessesTo(counted, "used"), 100U);
  for (const LiveObject& object : counted.objects) EXPECT_NE(object.bytes, 100'001U);
}

// The program's own allocations count, because the runtime is linked before the library.
TEST_F(CcTest, CountsObjectsOfAProgramWithAnAllocatorInALibrary) {
  ASSERT_EQ(RunProgram({"clang-19", "-O1", "-fPIC", "-shared", "-fno-builtin",
                        Source("own_allocator.c"), "-o", File("libown.so")})
                .status,
            0);
  WriteFile(File("uses.c"),
            "#include <stdlib.h>\n"
            "int main(void) {\n"
            "  char* made = malloc(100002);\n"
            "  for (int i = 0; i < 10; ++i) ((volatile char*)made)[i] = 1;\n"
            "  made = realloc(made, 200004);\n"
            "  ((volatile char*)made)[200003] = 1;\n"
            "  return made[9] - 1;\n"
            "}\n");
  const Outcome built = Cc({"clang-19", "-O1", "-fno-builtin", File("uses.c"), "-L" + File(""),
                            "-lown", "-Wl,-rpath," + File(""), "-o", File("x")});
  ASSERT_EQ(built.status, 0) << built.err;
  const Outcome ran = Run(File("x"));
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  ObjectsInfo info;
  const ObjectsPart counted = Read(File("run.objects"), info);
  EXPECT_FALSE(IsInstrumented(counted, "libown.so"));
  const auto object = std::ranges::find(counted.objects, 200'004U, &LiveObject::bytes);
  ASSERT_NE(object, counted.objects.end());
  EXPECT_EQ(object->accesses, 12U) << "10 written, 1 more, 1 read";
}

TEST_F(CcTest, SourcesCountWhateverTheyAreCalled) {
  for (const std::string name : {"x.CC", "x.CXX", "x.C++", "x.cp", "x.c++"}) {
    WriteFile(File(name),
              "int table[10];\n"
              "int main() {\n"
              "  for (int i = 0; i < 10; ++i) *(volatile int*)&table[i] = i;\n"
              "}\n");
    WriteFile(File("arguments"), "-O2\n" + File(name) + "\n-o " + File("x"));
    const Outcome built = Cc({"clang++-19", "@" + File("arguments")});
    ASSERT_EQ(built.status, 0) << built.err;
    ASSERT_EQ(Run(File("x")).status, 0);
    ObjectsInfo info;
    EXPECT_EQ(AccessesTo(Read(File("run.objects"), info), "table"), 10U) << name;
  }
}

// A program of `tmprof cc` that loads libraries, each of which tells a digit when it is entered.
class LoadsTest : public CcTest {
 protected:
  void SetUp() override {
    WriteFile(File("loads.c"),
              "#include <dlfcn.h>\n"
              "#include <stdio.h>\n"
              "#include <string.h>\n"
              "int main(int count, char** words) {\n"
              "  const int keeps_last = strcmp(words[1], \"keep\") == 0;\n"
              "  int entered = 0;\n"
              "  for (int i = 2; i < count; ++i) {\n"
              "    void* library = dlopen(words[i], RTLD_NOW);\n"
              "    if (library == NULL) return 2;\n"
              "    entered = entered * 10 + ((int (*)(void))dlsym(library, \"enter\"))();\n"
              "    if (i + 1 == count && keeps_last) break;\n"
              "    if (dlclose(library) != 0) return 3;\n"
              "  }\n"
              "  printf(\"%d\\n\", entered);\n"
              "  return 0;\n"
              "}\n");
    const Outcome built = Cc({"clang-19", "-O1", File("loads.c"), "-o", File("x")});
    ASSERT_EQ(built.status, 0) << built.err;
    WriteFile(File("library.c"),
              "#include <stdlib.h>\n"
              "int VARIABLE;\n"
              "int room[ROOM] = {1};\n"
              "int enter(void) {\n"
              "  int* volatile made = malloc(sizeof(int));\n"
              "  *made = ++VARIABLE;\n"
              "  const int entered = *made;\n"
              "  free(made);\n"
              "  return entered;\n"
              "}\n");
  }

  // Returns the command that builds a library that counts in the variable of_NAME, alone or after
  // `tmprof cc`.
  std::vector<std::string> Library(const std::string& name, int room = 1) const {
    return {"clang-19",
            "-O1",
            "-fPIC",
            "-shared",
            "-DVARIABLE=of_" + name,
            "-DROOM=" + std::to_string(room),
            File("library.c"),
            "-o",
            File(name)};
  }
  // Loads and closes each in turn, of which the last one may stay.
  Outcome Load(bool keeps_last, const std::vector<std::string>& names) const {
    std::vector<std::string> words = {keeps_last ? "keep" : "close"};
    for (const std::string& name : names) words.push_back(File(name));
    return Run(File("x"), words);
  }
};

TEST_F(LoadsTest, ALibraryWhereAnInstrumentedOneWasIsNotCalledInstrumented) {
  ASSERT_EQ(Cc(Library("first")).status, 0);
  // Large enough to lie where the first one's part of the runtime was.
  ASSERT_EQ(RunProgram(Library("second", 200)).status, 0);
  // The second library comes to the place where the first one was for the third time. The first
  // one's counts stay, and its variable begins anew.
  const Outcome ran = Load(true, {"first", "first", "first", "second"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.out, "1111\n");
  ObjectsInfo info;
  const ObjectsPart counted = Read(File("run.objects"), info);
  EXPECT_FALSE(IsInstrumented(counted, "second"));
  EXPECT_TRUE(IsInstrumented(counted, ""));
  EXPECT_EQ(AccessesTo(counted, "of_first"), 6U) << "read and written three times";
  EXPECT_EQ(AccessesTo(counted, "of_second"), 0U);

  ASSERT_EQ(Load(true, {"second", "first"}).status, 0);
  EXPECT_TRUE(IsInstrumented(Read(File("run.objects"), info), "first"));
}

TEST_F(LoadsTest, LibrariesThatWereClosedAreListedAsTheOthers) {
  ASSERT_EQ(Cc(Library("counted")).status, 0);
  ASSERT_EQ(RunProgram(Library("prebuilt")).status, 0);
  const auto states = [&](const std::string& name) {
    ObjectsInfo info;
    std::multiset<std::pair<bool, bool>> found;  // closed, instrumented
    for (const LoadedModule& module : Read(File("run.objects"), info).modules) {
      if (module.path == File(name)) found.emplace(module.closed, module.instrumented);
    }
    return found;
  };
  using States = std::multiset<std::pair<bool, bool>>;
  ASSERT_EQ(Load(false, {"counted"}).out, "1\n");
  EXPECT_EQ(states("counted"), (States{{true, true}}));
  ASSERT_EQ(Load(false, {"prebuilt"}).out, "1\n");
  EXPECT_EQ(states("prebuilt"), (States{{true, false}}));
  EXPECT_EQ(states("x"), States()) << "the program has no path";
}

TEST_F(CcTest, ForksDoNotWaitForeverForWhoClosesALibrary) {
  WriteFile(File("library.c"), "int entered;\n");
  WriteFile(File("forks.c"),
            "#define _GNU_SOURCE\n"
            "#include <dlfcn.h>\n"
            "#include <link.h>\n"
            "#include <pthread.h>\n"
            "#include <stdatomic.h>\n"
            "#include <stdlib.h>\n"
            "#include <sys/wait.h>\n"
            "#include <unistd.h>\n"
            "static atomic_int is_over;\n"
            "static void* closes(void* name) {\n"
            "  while (!is_over) dlclose(dlopen(name, RTLD_NOW));\n"
            "  return NULL;\n"
            "}\n"
            // Large enough for the lock that all threads' memory is under.
            "static int allocate(struct dl_phdr_info* info, size_t size, void* unused) {\n"
            "  void* volatile made = malloc(1 << 20);\n"
            "  free(made);\n"
            "  return 0;\n"
            "}\n"
            "static void* allocates(void* unused) {\n"
            "  while (!is_over) dl_iterate_phdr(allocate, NULL);\n"
            "  return NULL;\n"
            "}\n"
            "int main(int count, char** names) {\n"
            "  alarm(600);\n"  // ends a program that waits forever
            "  pthread_t threads[2];\n"
            "  pthread_create(&threads[0], NULL, closes, names[1]);\n"
            "  pthread_create(&threads[1], NULL, allocates, NULL);\n"
            "  for (int i = 0; i < 300; ++i) {\n"
            "    const pid_t child = fork();\n"
            "    if (child == 0) _exit(0);\n"
            "    if (child < 0 || waitpid(child, NULL, 0) != child) return 2;\n"
            "  }\n"
            "  is_over = 1;\n"
            "  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);\n"
            "  return 0;\n"
            "}\n");
  ASSERT_EQ(
      RunProgram({"clang-19", "-O1", "-fPIC", "-shared", File("library.c"), "-o", File("library")})
          .status,
      0);
  ASSERT_EQ(Cc({"clang-19", "-O1", "-pthread", File("forks.c"), "-o", File("x")}).status, 0);
  EXPECT_EQ(Run(File("x"), {File("library")}).status, 0);
}

TEST_F(CcTest, AnExecEndsWhatWasCountedAndTheNextProgramBegins) {
  WriteFile(File("becomes.c"),
            "#include <unistd.h>\n"
            "int counted;\n"
            "int main(int count, char** next) {\n"
            "  for (int i = 0; i < count; ++i) ++*(volatile int*)&counted;\n"
            "  if (count > 1) execv(next[1], next + 1);\n"
            "  return count;\n"
            "}\n");
  ASSERT_EQ(Cc({"clang-19", "-O1", File("becomes.c"), "-o", File("x")}).status, 0);
  EXPECT_EQ(Run(File("x"), {File("x"), File("x")}).status, 1);
  ObjectsInfo info;
  EXPECT_EQ(AccessesTo(Read(File("run.objects"), info), "counted"), 2U) << "of the last one alone";
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    files += entry.path().filename().string().starts_with("run.objects") ? 1 : 0;
  }
  EXPECT_EQ(files, 1U);
}

TEST_F(CcTest, CmakeBuildsAProgramAndItsLibrary) {
  if (RunProgram({"cmake", "--version"}).status != 0) GTEST_SKIP() << "there is no cmake";
  WriteFile(File("CMakeLists.txt"),
            "cmake_minimum_required(VERSION 3.20)\n"
            "project(known C CXX)\n"
            "set(CMAKE_BUILD_TYPE Release)\n"
            "add_library(part SHARED \"" +
                Source("part.c") +
                "\")\n"
                "add_executable(whole \"" +
                Source("whole.c") +
                "\")\n"
                "target_include_directories(whole PRIVATE \"" TMPROF_SOURCE_DIR
                "/objects/include\")\n"
                "target_include_directories(part PRIVATE \"" TMPROF_SOURCE_DIR
                "/objects/include\")\n"
                "target_link_libraries(whole PRIVATE part)\n");
  const std::string tmprof = std::string(TMPROF_BINARY_DIR) + "/tmprof cc -- ";
  const Outcome configured =
      RunProgram({"cmake", "-S", folder_.path().string(), "-B", File("built")}, [&] {
        ::setenv("CC", (tmprof + "clang-19").c_str(), 1);
        ::setenv("CXX", (tmprof + "clang++-19").c_str(), 1);
      });
  ASSERT_EQ(configured.status, 0) << configured.out << configured.err;
  const Outcome built = RunProgram({"cmake", "--build", File("built")});
  ASSERT_EQ(built.status, 0) << built.out << built.err;
  EXPECT_EQ(Run(File("built/whole")).out, "library 40\n");
  ObjectsInfo info;
  const ObjectsPart counted = Read(File("run.objects"), info);
  EXPECT_TRUE(IsInstrumented(counted, "libpart.so"));
  EXPECT_TRUE(IsInstrumented(counted, ""));
  EXPECT_EQ(AccessesTo(counted, "part_calls"), 3U);
}

TEST_F(CcTest, AReportNamesFunctionsAndLinesThatAllocated) {
  WriteFile(File("sites.c"),
            "#include <stdlib.h>\n"
            "static inline __attribute__((always_inline)) int* make(void) {\n"
            "  return calloc(4, sizeof(int));\n"
            "}\n"
            "__attribute__((noinline)) int* outer(void) {\n"
            "  int* made = make();\n"
            "  *(volatile int*)made = 1;\n"
            "  return made;\n"
            "}\n"
            "int main(void) {\n"
            "  int* volatile kept = 0;\n"
            "  for (int i = 0; i < 3; ++i) kept = outer();\n"
            "  return kept == 0;\n"
            "}\n");
  ASSERT_EQ(Cc({"clang-19", "-O1", "-g", File("sites.c"), "-o", File("x")}).status, 0);
  ASSERT_EQ(Run(File("x")).status, 0);
  const Outcome reported = Tmprof({"report", File("run.objects"), "--view", "objects", "--format",
                                   "json", "--folded", File("folded")});
  ASSERT_EQ(reported.status, 0) << reported.err;
  const auto report = nlohmann::json::parse(reported.out);
  const auto row = std::ranges::find_if(report["rows"], [](const nlohmann::json& candidate) {
    return candidate["kind"] == "heap" && candidate["objects"] == 3;
  });
  ASSERT_NE(row, report["rows"].end()) << reported.out;
  EXPECT_EQ((*row)["accesses"], 3);
  EXPECT_EQ((*row)["bytes"], 48);
  const nlohmann::json& frames = (*row)["frames"];
  EXPECT_EQ(frames[0]["function"], "make");
  EXPECT_EQ(frames[0]["line"], 3);
  EXPECT_EQ(frames[0]["file"], File("sites.c"));
  EXPECT_EQ(frames[1]["function"], "outer");
  EXPECT_EQ(frames[1]["line"], 6);
  EXPECT_EQ(frames[2]["function"], "main");
  EXPECT_EQ(frames[2]["line"], 12);
  EXPECT_THAT(ReadFile(File("folded")), HasSubstr(";main;outer;make 3\n"));

  const Outcome named =
      Tmprof({"convert", File("run.objects"), "--to", "objects", "-o", File("named.objects")});
  ASSERT_EQ(named.status, 0) << named.err;
  EXPECT_EQ(named.out, File("named.objects") + "\n");
  const auto shown = [&] {
    const Outcome outcome =
        Tmprof({"report", File("named.objects"), "--view", "objects", "--format", "json"});
    auto json = nlohmann::json::parse(outcome.out);
    json.erase("objects");  // the file's name
    json.erase("without_names");
    return json;
  };
  const auto with_files = shown();
  EXPECT_EQ(with_files["rows"], report["rows"]);
  EXPECT_EQ(with_files["finished"], true);

  std::filesystem::remove(File("x"));
  EXPECT_EQ(shown(), with_files);
  // A name that can no longer be found is kept.
  ASSERT_EQ(
      Tmprof({"convert", File("named.objects"), "--to", "objects", "-o", File("twice")}).status, 0);
  std::filesystem::rename(File("twice"), File("named.objects"));
  EXPECT_EQ(shown(), with_files);
  EXPECT_EQ(
      Tmprof({"convert", File("run.objects"), "--to", "objects", "-o", File("run.objects")}).status,
      2);
  const Outcome without = Tmprof({"report", File("run.objects"), "--view", "objects"});
  EXPECT_EQ(without.status, 0) << without.err;
  EXPECT_THAT(without.out, HasSubstr("files are gone or have changed: x"));

  const Outcome by_samples =
      Tmprof({"report", File("run.objects"), "--view", "objects", "--by", "samples"});
  EXPECT_EQ(by_samples.status, 2);
  EXPECT_THAT(by_samples.err, HasSubstr("by site, type or object"));
}

// Functions of the stack that allocated objects of so many bytes, of one site alone, innermost
// first.
class StackTest : public CcTest {
 protected:
  nlohmann::json SiteOf(std::uint64_t bytes, std::uint64_t objects) const {
    const Outcome reported = Tmprof(
        {"report", File("run.objects"), "--view", "objects", "--limit", "0", "--format", "json"});
    EXPECT_EQ(reported.status, 0) << reported.err;
    nlohmann::json found;
    const auto report = nlohmann::json::parse(reported.out);
    for (const nlohmann::json& row : report["rows"]) {
      if (row["kind"] != "heap" || row["objects"] != objects || row["bytes"] != bytes * objects) {
        continue;
      }
      EXPECT_TRUE(found.is_null()) << "two sites of " << bytes << " bytes";
      found = row;
    }
    EXPECT_FALSE(found.is_null()) << reported.out;
    return found;
  }

  // Up to main().
  static std::vector<std::string> Functions(const nlohmann::json& site) {
    std::vector<std::string> functions;
    for (const nlohmann::json& frame : site["frames"]) {
      functions.push_back(frame["function"].is_null() ? "" : frame["function"]);
      if (functions.back() == "main") break;
    }
    return functions;
  }

  // prebuilt.c as others build it.
  void BuildLibrary(const std::vector<std::string>& options) const {
    std::vector<std::string> command = {
        "clang-19", "-O2", "-fomit-frame-pointer", "-fPIC",
        "-shared",  "-o",  File("libprebuilt.so"), Source("prebuilt.c")};
    command.insert(command.end(), options.begin(), options.end());
    const Outcome built = RunProgram(command);
    ASSERT_EQ(built.status, 0) << built.err;
  }
  Outcome BuildCaller(std::vector<std::string> options) const {
    options.insert(options.begin(),
                   {"clang-19", "-O2", "-g", Source("calls_prebuilt.c"), "-L" + File(""),
                    "-lprebuilt", "-Wl,-rpath," + File(""), "-o", File("x")});
    return Cc(options);
  }
};

class PrebuiltTest : public StackTest, public ::testing::WithParamInterface<const char*> {};
// The tables exist by default, and not without unwind tables: code of tmprof cc has frame pointers.
INSTANTIATE_TEST_SUITE_P(Tables, PrebuiltTest,
                         ::testing::Values("-fasynchronous-unwind-tables",
                                           "-fno-asynchronous-unwind-tables"),
                         [](const auto& option) {
                           return std::string(option.param).starts_with("-fno") ? "Without"
                                                                                : "With";
                         });

TEST_P(PrebuiltTest, StacksLeadThroughCodeWithoutFramePointers) {
  ASSERT_NO_FATAL_FAILURE(BuildLibrary({}));
  const Outcome built = BuildCaller({GetParam()});
  ASSERT_EQ(built.status, 0) << built.err;
  ASSERT_EQ(Run(File("x")).status, 0);
  const auto site = SiteOf(1001, 3);
  EXPECT_THAT(Functions(site), ElementsAre("prebuilt_make", "plainly", "main"));
  EXPECT_EQ(site["stack_cut"], false);
  EXPECT_THAT(Functions(SiteOf(1002, 3)), ElementsAre("prebuilt_make_busy", "busily", "main"));
  EXPECT_THAT(Functions(SiteOf(1003, 3)), ElementsAre("prebuilt_make_false", "falsely", "main"));
  EXPECT_THAT(Functions(SiteOf(1004, 3)), ElementsAre("back", "prebuilt_call", "forth", "main"));
}

TEST_F(StackTest, AStackWithAnUnknownCallerIsCutAndSaysSo) {
  ASSERT_NO_FATAL_FAILURE(BuildLibrary({"-fno-asynchronous-unwind-tables", "-fno-unwind-tables"}));
  ASSERT_EQ(BuildCaller({}).status, 0);
  ASSERT_EQ(Run(File("x")).status, 0);
  const std::pair<std::uint64_t, std::vector<std::string>> stacks[] = {
      {1001, {"prebuilt_make"}},
      {1002, {"prebuilt_make_busy"}},
      {1003, {"prebuilt_make_false"}},
      {1004, {"back", "prebuilt_call"}}};
  for (const auto& [bytes, functions] : stacks) {
    const auto site = SiteOf(bytes, 3);
    EXPECT_EQ(Functions(site), functions) << bytes;
    EXPECT_EQ(site["stack_cut"], true) << bytes;
  }
}

TEST_F(StackTest, StacksOfStringsLeadToTheFunctionThatMakesThem) {
  WriteFile(File("strings.cc"),
            "#include <string>\n"
            "__attribute__((noinline)) void grow(std::string& text) {\n"
            "  text.resize(5000, 'x');\n"
            "  __asm__ volatile(\"\");\n"
            "}\n"
            "__attribute__((noinline)) void copy(const std::string& text) {\n"
            "  volatile char last = std::string(text).back();\n"
            "  (void)last;\n"
            "}\n"
            "int main() {\n"
            "  for (int i = 0; i < 7; ++i) {\n"
            "    std::string text;\n"
            "    grow(text);\n"
            "    copy(text);\n"
            "  }\n"
            "}\n");
  ASSERT_EQ(Cc({"clang++-19", "-O1", "-g", File("strings.cc"), "-o", File("x")}).status, 0);
  ASSERT_EQ(Run(File("x")).status, 0);
  const Outcome folded = Tmprof({"report", File("run.objects"), "--view", "objects", "--folded",
                                 File("folded"), "--format", "json", "--limit", "0"});
  ASSERT_EQ(folded.status, 0) << folded.err;
  int grown = 0;
  int copied = 0;
  const auto report = nlohmann::json::parse(folded.out);
  for (const nlohmann::json& row : report["rows"]) {
    if (row["kind"] != "heap" || row["objects"] != 7) continue;
    const std::vector<std::string> functions = Functions(row);
    if (functions.size() < 2 || functions.back() != "main") continue;
    const std::string& caller = functions[functions.size() - 2];
    grown += caller.starts_with("grow") ? 1 : 0;
    copied += caller.starts_with("copy") ? 1 : 0;
    EXPECT_EQ(row["stack_cut"], false);
  }
  EXPECT_EQ(grown, 1) << folded.out;
  EXPECT_EQ(copied, 1) << folded.out;
}

// A library is closed, and another one comes to where it lay.
TEST_F(StackTest, StacksOfALibraryAtAnothersOldAddressesAreItsOwn) {
  const auto library = [&](const std::string& name, const std::string& body) {
    WriteFile(File(name + ".c"), "#include <alloca.h>\n#include <stdlib.h>\n" + body);
    const Outcome built = RunProgram({"clang-19", "-O1", "-fomit-frame-pointer", "-fPIC", "-shared",
                                      File(name + ".c"), "-o", File(name + ".so")});
    ASSERT_EQ(built.status, 0) << built.err;
  };
  // The same call, of frames that differ: return addresses are alike, what lies between is not.
  library("one",
          "void* make(long n) { long a[1]; a[0] = n; __asm__ volatile(\"\" :: \"r\"(a) : "
          "\"memory\"); void* p = malloc(a[0]); __asm__ volatile(\"\"); return p; }\n");
  library("two",
          "void* make(long n) { long a[9]; a[0] = n; __asm__ volatile(\"\" :: \"r\"(a) : "
          "\"memory\"); void* p = malloc(a[0]); __asm__ volatile(\"\"); return p; }\n");
  WriteFile(File("loads.c"),
            "#include <dlfcn.h>\n"
            "static void* volatile kept;\n"
            "__attribute__((noinline)) int use(const char* path, long bytes) {\n"
            "  void* library = dlopen(path, RTLD_NOW);\n"
            "  if (!library) return 1;\n"
            "  void* (*make)(long) = (void* (*)(long))dlsym(library, \"make\");\n"
            "  kept = make(bytes);\n"
            "  return dlclose(library);\n"
            "}\n"
            "int main(int count, char** of) {\n"
            "  (void)count;\n"
            "  return use(of[1], 2001) + use(of[2], 2002);\n"
            "}\n");
  ASSERT_EQ(Cc({"clang-19", "-O1", "-g", File("loads.c"), "-o", File("x")}).status, 0);
  ASSERT_EQ(Run(File("x"), {File("one.so"), File("two.so")}).status, 0);
  for (const std::uint64_t bytes : {2001, 2002}) {
    const auto site = SiteOf(bytes, 1);
    const std::vector<std::string> functions = Functions(site);
    ASSERT_EQ(functions.size(), 3U) << site;
    EXPECT_EQ(functions[1], "use");
    EXPECT_EQ(functions[2], "main");
    EXPECT_EQ(site["stack_cut"], false);
  }
}

// A stack that the C library gave to nobody: the innermost call alone is known.
TEST_F(StackTest, OnAStackOfTheProgramsOwnTheInnermostCallIsKnown) {
  WriteFile(File("coroutine.c"),
            "#include <stdlib.h>\n"
            "#include <ucontext.h>\n"
            "static ucontext_t own, other;\n"
            "static void* volatile kept;\n"
            "static char stack[1 << 16];\n"
            "static void body(void) {\n"
            "  kept = malloc(3001);\n"
            "  swapcontext(&other, &own);\n"
            "}\n"
            "int main(void) {\n"
            "  if (getcontext(&other)) return 1;\n"
            "  other.uc_stack.ss_sp = stack;\n"
            "  other.uc_stack.ss_size = sizeof stack;\n"
            "  makecontext(&other, body, 0);\n"
            "  return swapcontext(&own, &other);\n"
            "}\n");
  ASSERT_EQ(Cc({"clang-19", "-O1", "-g", File("coroutine.c"), "-o", File("x")}).status, 0);
  ASSERT_EQ(Run(File("x")).status, 0);
  const auto site = SiteOf(3001, 1);
  EXPECT_THAT(Functions(site), ElementsAre("body"));
  EXPECT_EQ(site["stack_cut"], true);
}

TEST_F(CcTest, OptionsOfTracesAreRefusedOfItsProfile) {
  WriteFile(File("x.c"), "int main(void) { return 0; }\n");
  ASSERT_EQ(Cc({"clang-19", File("x.c"), "-o", File("x")}).status, 0);
  ASSERT_EQ(Run(File("x")).status, 0);
  std::vector<std::string> words = {"report", File("run.objects"), "--view", "objects"};
  EXPECT_EQ(Tmprof(words).status, 0);
  for (const auto& [option, value] :
       {std::pair("--pid", "1"), {"--epochs", "0:1"}, {"--page", "0x1000"}, {"--tier2", "1"}}) {
    std::vector<std::string> with = words;
    with.insert(with.end(), {option, value});
    const Outcome refused = Tmprof(with);
    EXPECT_EQ(refused.status, 2) << option;
    EXPECT_THAT(refused.err, HasSubstr(option));
    EXPECT_THAT(refused.err, HasSubstr("tmprof record --objects"));
  }
}

TEST_F(CcTest, AForkedChildWritesAFileOfItsOwn) {
  ASSERT_EQ(Cc({"clang-19", "-O2", Source("whole.c"), Source("part.c"), "-o", File("x")}).status,
            0);
  ASSERT_EQ(Run(File("x")).status, 0);
  ObjectsInfo parent;
  const ObjectsPart parents = Read(File("run.objects"), parent);
  EXPECT_EQ(AccessesTo(parents, "whole_calls"), 1U);
  EXPECT_EQ(parent.forks, 0U);
  std::vector<std::string> children;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    const std::string name = entry.path().filename();
    if (name.starts_with("run.objects.")) children.push_back(entry.path());
  }
  ASSERT_EQ(children.size(), 1U);
  ObjectsInfo child;
  EXPECT_EQ(AccessesTo(Read(children.front(), child), "whole_calls"), 2U)
      << "the parent's, and its own";
  EXPECT_EQ(child.forks, 1U);
  EXPECT_EQ(child.parent, parent.pid);
}

TEST_F(CcTest, LeavesCodeThatDoesNotCompileToTheCompiler) {
  const Outcome version = Tmprof({"cc", "--", "clang-19", "--version"});
  EXPECT_EQ(version.status, 0);
  EXPECT_THAT(version.out, HasSubstr("clang version 19"));
  WriteFile(File("broken.c"), "int f( {");
  const Outcome broken = Cc({"clang-19", "-c", File("broken.c"), "-o", File("broken.o")});
  EXPECT_EQ(broken.status, 1);
  EXPECT_THAT(broken.err, HasSubstr("error:"));
}

// Configure scripts test the compiler in this way, and libtool links C++ libraries so.
TEST_F(CcTest, AddsNoOptionThatClangWarnsOf) {
  WriteFile(File("empty.c"), "int main(void) { return 0; }\n");
  WriteFile(File("empty.S"), ".section .note.GNU-stack\n");
  const std::vector<std::vector<std::string>> commands = {
      {"-E", File("empty.c"), "-o", File("empty.i")},
      {"-fsyntax-only", File("empty.c")},
      {"-c", File("empty.S"), "-o", File("assembled.o")},
      {"-c", "-flto", File("empty.c"), "-o", File("empty.o")},
      {"-S", File("empty.c"), "-o", File("empty.s")},
      {File("empty.o"), File("assembled.o"), "-o", File("x")},
      {"-shared", "-nostdlib", File("empty.o"), "-lc", "-o", File("empty.so")},
  };
  for (const std::vector<std::string>& command : commands) {
    std::vector<std::string> checked = {"clang-19", "-Werror"};
    checked.insert(checked.end(), command.begin(), command.end());
    const Outcome outcome = Cc(checked);
    EXPECT_EQ(outcome.status, 0) << command.front();
    EXPECT_EQ(outcome.err, "") << command.front();
  }
  EXPECT_EQ(Run(File("x")).status, 0);
  EXPECT_EQ(
      Cc({"clang-19", "-Werror", "-fno-such-option", "-c", File("empty.c"), "-o", File("empty.o")})
          .status,
      1);
}

TEST_F(CcTest, RefusesUninstrumentableInputByName) {
  const Outcome gcc = Tmprof({"cc", "--", "gcc", "-c", "x.c"});
  EXPECT_EQ(gcc.status, 2);
  EXPECT_THAT(gcc.err, HasSubstr("'gcc': it does not load plugins of clang; use clang-19"));
  const Outcome fixed = Tmprof({"cc", "--", "clang-19", "-static", "x.c"});
  EXPECT_EQ(fixed.status, 2);
  EXPECT_THAT(fixed.err, HasSubstr("'-static': the runtime is a shared library"));
  EXPECT_EQ(Tmprof({"cc"}).status, 2);
}

Result<std::vector<std::string>> Instrumented(std::vector<std::string> command) {
  return InstrumentedCommand(command, "/p.so", "/lib");
}

TEST(CcArgumentsTest, ThePluginIsAddedToWhatCompilesAndTheRuntimeToWhatLinks) {
  EXPECT_THAT(*Instrumented({"clang-19", "-c", "x.c", "-o", "x.o"}),
              ElementsAre("clang-19", "-fpass-plugin=/p.so", "-c", "x.c", "-o", "x.o"));
  EXPECT_THAT(
      *Instrumented({"clang-19", "x.o", "-lm"}),
      ElementsAre("clang-19", "-L/lib", "-Wl,-rpath,/lib",
                  "-Wl,--push-state,--no-as-needed,-ltmprof_objects,--pop-state", "x.o", "-lm"));
}

TEST(CcArgumentsTest, ACommandThatGeneratesNoCodeGetsNoPlugin) {
  const std::vector<std::string> preprocess = {"clang-19", "-E", "x.c"};
  EXPECT_EQ(*Instrumented(preprocess), preprocess);
  const std::vector<std::string> assemble = {"clang-19", "-c", "x.S"};
  EXPECT_EQ(*Instrumented(assemble), assemble);
  EXPECT_THAT(*Instrumented({"clang-19", "-c", "-x", "c", "x.in"}),
              Contains("-fpass-plugin=/p.so"));
}

TEST(CcArgumentsTest, AllThatClangCompilesGetsThePlugin) {
  for (const char* source : {"x.c", "x.cc", "x.cp", "x.cpp", "x.cxx", "x.c++", "x.C", "x.CC",
                             "x.CPP", "x.CXX", "x.C++", "x.ccm", "x.cxxm", "x.c++m", "x.ii"}) {
    EXPECT_THAT(*Instrumented({"clang++-19", "-c", source}), Contains("-fpass-plugin=/p.so"))
        << source;
  }
  const std::vector<std::string> assemble = {"clang-19", "-c", "-xassembler-with-cpp", "x.c"};
  EXPECT_EQ(*Instrumented(assemble), assemble);
  EXPECT_THAT(*Instrumented({"clang-19", "-c", "-x", "assembler", "a", "-x", "none", "x.c"}),
              Contains("-fpass-plugin=/p.so"));
}

class ResponseFileTest : public ::testing::Test {
 protected:
  std::string Written(const std::string& name, const std::string& text) const {
    WriteFile(folder_.File(name), text);
    return "@" + folder_.File(name);
  }
  TemporaryFolder folder_;
};

TEST_F(ResponseFileTest, ArgumentsInTheFileAreTakenLikeGivenOnes) {
  const std::string compile = Written("compile", "-c\n -o x.o 'x y.CC'");
  EXPECT_THAT(*Instrumented({"clang++-19", compile}),
              ElementsAre("clang++-19", "-fpass-plugin=/p.so", compile));
  const std::string nested = Written("nested", "-O2 " + compile);
  EXPECT_THAT(*Instrumented({"clang++-19", nested}), Contains("-fpass-plugin=/p.so"));
  const std::string link = Written("link", "x.o -lm");
  EXPECT_THAT(*Instrumented({"clang++-19", link}), Contains("-Wl,-rpath,/lib"));
  const std::string late = Written("late", "-flto -c x.c");
  EXPECT_THAT(*Instrumented({"clang-19", late}),
              ElementsAre("clang-19", "-fpass-plugin=/p.so", late, "-fno-lto"));
  const auto refused = Instrumented({"clang-19", Written("static", "x.c -static")});
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().Message(), HasSubstr("'-static'"));
  const std::vector<std::string> version = {"clang-19", Written("version", "--version")};
  EXPECT_EQ(*Instrumented(version), version);
}

TEST_F(ResponseFileTest, WordsAreThoseThatClangReads) {
  const std::string file = Written(
      "words", "-DA=\\\"b\\\"\t'-D C=d e'\n\"f\\\"g\" h\\ i.c @" + folder_.File("none") + "\n");
  EXPECT_THAT(ParseCompilerCommand({"clang-19", file}).arguments,
              ElementsAre("-DA=\"b\"", "-D C=d e", "f\"g", "h i.c", "@" + folder_.File("none")));
}

TEST(CcArgumentsTest, InputsOfTheLinkerAreThoseItIsGiven) {
  const CompilerCommand command = ParseCompilerCommand(
      {"clang-19", "a.o", "-L/one", "-L", "/two", "-Wl,-Bstatic,--whole-archive,b.a", "-lc",
       "-Wl,-Bdynamic", "-l", "d", "e.S", "-Xlinker", "-lf", "--", "g.c"});
  std::vector<std::string> said;
  for (const CompilerInput& input : command.inputs) {
    said.push_back(std::to_string(static_cast<int>(input.kind)) + input.name +
                   (input.prefers_archive ? " archive" : ""));
  }
  EXPECT_THAT(said, ElementsAre("2a.o", "2b.a", "3c archive", "3d", "1e.S", "3f", "0g.c"));
  EXPECT_THAT(command.library_folders, ElementsAre("/one", "/two"));
  EXPECT_TRUE(command.links);
}

TEST(CcArgumentsTest, LinkTimeOptimisationIsTakenBack) {
  EXPECT_THAT(
      *Instrumented({"clang-19", "-flto=thin", "-c", "x.c"}),
      ElementsAre("clang-19", "-fpass-plugin=/p.so", "-flto=thin", "-fno-lto", "-c", "x.c"));
}

TEST(CcArgumentsTest, WithoutAnInputNothingIsAdded) {
  const std::vector<std::string> command = {"clang-19", "-v", "-o", "x", "-I", "folder"};
  EXPECT_EQ(*Instrumented(command), command);
}

}  // namespace cc_test
}  // namespace tmprof::test
