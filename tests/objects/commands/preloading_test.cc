// SPDX-License-Identifier: Apache-2.0

#include "objects/commands/preloading.h"

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>

#include "tests/apps/program.h"
#include "tests/base/host/proc_tree.h"

namespace tmprof {
namespace preloading_test {

using test::TemporaryFolder;
using test::WriteFile;
using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kOtherLoader = "/lib/ld-musl-x86_64.so.1";

// The loader of this program, as its own file names it.
std::string OwnLoader() {
  std::string loader;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* into) {
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          if (info->dlpi_phdr[i].p_type == PT_INTERP) {
            *static_cast<std::string*>(into) =
                reinterpret_cast<const char*>(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
          }
        }
        return 1;  // the first is the program
      },
      &loader);
  return loader;
}

// The head of an ELF file; `loader` empty: it has none.
std::string ElfFile(const std::string& loader, unsigned char elf_class = ELFCLASS64,
                    Elf64_Half machine = EM_X86_64) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = elf_class;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_machine = machine;
  header.e_phoff = sizeof header;
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = loader.empty() ? 1 : 2;
  Elf64_Phdr code{};
  code.p_type = PT_LOAD;
  Elf64_Phdr interpreter{};
  interpreter.p_type = PT_INTERP;
  interpreter.p_offset = sizeof header + 2 * sizeof(Elf64_Phdr);
  interpreter.p_filesz = loader.size() + 1;
  std::string file(reinterpret_cast<const char*>(&header), sizeof header);
  file.append(reinterpret_cast<const char*>(&code), sizeof code);
  file.append(reinterpret_cast<const char*>(&interpreter), sizeof interpreter);
  return file + loader + '\0';
}

class Preloading : public testing::Test {
 protected:
  Preloading() { WriteFile(library_, ElfFile("")); }

  std::string Program(const std::string& name, const std::string& contents, mode_t mode = 0755) {
    const std::string file = folder_.File(name);
    WriteFile(file, contents);
    EXPECT_EQ(chmod(file.c_str(), mode), 0);
    return file;
  }
  std::optional<NotPreloaded> Why(const std::string& command, const std::string& path = "") const {
    return WhyNotPreloaded(command, path, library_);
  }

  TemporaryFolder folder_;
  std::string library_ = folder_.File("library.so");
};

TEST_F(Preloading, IsDoneByTheLoaderOfThisProgram) {
  ASSERT_NE(OwnLoader(), "");
  EXPECT_FALSE(Why(Program("own", ElfFile(OwnLoader()))));
  EXPECT_FALSE(Why("/proc/self/exe"));
}

TEST_F(Preloading, HasNoEffectOnAStaticProgram) {
  const auto why = Why(Program("static", ElfFile("")));
  ASSERT_TRUE(why);
  EXPECT_TRUE(why->is_harmless);
  EXPECT_THAT(why->why, AllOf(HasSubstr(folder_.File("static")), HasSubstr("statically linked")));
}

TEST_F(Preloading, IsNotAskedOfAnotherCLibrary) {
  const auto why = Why(Program("other", ElfFile(kOtherLoader)));
  ASSERT_TRUE(why);
  EXPECT_FALSE(why->is_harmless);
  EXPECT_THAT(why->why, AllOf(HasSubstr(kOtherLoader), HasSubstr(OwnLoader())));
}

TEST_F(Preloading, IsNotAskedOfAnotherKindOfCpu) {
  for (const std::string& file :
       {ElfFile(OwnLoader(), ELFCLASS32, EM_386), ElfFile(OwnLoader(), ELFCLASS64, EM_AARCH64)}) {
    const auto why = Why(Program("other", file));
    ASSERT_TRUE(why);
    EXPECT_FALSE(why->is_harmless);
    EXPECT_THAT(why->why, HasSubstr("another kind of CPU"));
  }
}

TEST_F(Preloading, TreatsAScriptAsItsInterpreter) {
  const std::string other = Program("other", ElfFile(kOtherLoader));
  const std::string own = Program("own", ElfFile(OwnLoader()));
  const std::string script = Program("script", "#! " + other + " --option\necho\n");
  EXPECT_TRUE(Why(script));
  EXPECT_TRUE(Why(Program("outer", "#!" + script + "\n")));
  EXPECT_FALSE(Why(Program("owns", "#!" + own + "\n")));
  EXPECT_FALSE(Why(Program("itself", "#!" + folder_.File("itself") + "\n"))) << "without end";
}

TEST_F(Preloading, LooksForTheProgramAsAShellDoes) {
  std::filesystem::create_directories(folder_.path() / "first");
  std::filesystem::create_directories(folder_.path() / "second");
  Program("first/tool", ElfFile(OwnLoader()), 0644);  // not executable
  Program("second/tool", ElfFile(kOtherLoader));
  EXPECT_TRUE(Why("tool", folder_.File("first") + ":" + folder_.File("second")));
  EXPECT_FALSE(Why("tool", folder_.File("first")));
  EXPECT_FALSE(Why("tool", ""));
}

TEST_F(Preloading, SaysNothingOfWhatItCannotRead) {
  EXPECT_FALSE(Why(folder_.File("absent")));
  EXPECT_FALSE(Why(folder_.path().string()));
  EXPECT_FALSE(Why(Program("text", "hello")));
  EXPECT_FALSE(Why(Program("cut", ElfFile(kOtherLoader).substr(0, 100))));
  std::filesystem::remove(library_);
  EXPECT_FALSE(Why(Program("other", ElfFile(kOtherLoader))));
}

TEST_F(Preloading, HasNoEffectOnAProgramWithThePrivilegesOfAnother) {
  const std::string program = Program("own", ElfFile(OwnLoader()));
  if (chown(program.c_str(), getuid() + 1, static_cast<gid_t>(-1)) != 0)
    GTEST_SKIP() << "only root can give a file to another user";
  ASSERT_EQ(chmod(program.c_str(), 04755), 0);
  const auto why = Why(program);
  ASSERT_TRUE(why);
  EXPECT_TRUE(why->is_harmless);
  EXPECT_THAT(why->why, HasSubstr("more privileges"));
}

// Adds a process that runs a program, in a /proc of its own.
class PreloadingOfAProcess : public Preloading {
 protected:
  std::optional<NotPreloaded> WhyOf(const std::string& program, std::uint64_t secure = 0,
                                    const std::string& preload = "/x/library.so") const {
    tree_.Put({.pid = 10, .executable = program});
    const std::array<Elf64_auxv_t, 2> values{
        {{.a_type = AT_PAGESZ, .a_un = {4096}}, {.a_type = AT_SECURE, .a_un = {secure}}}};
    tree_.Write("10/auxv", {reinterpret_cast<const char*>(values.data()), sizeof values});
    const std::string end(1, '\0');
    tree_.Write("10/environ", "A=B" + end + "LD_PRELOAD=" + preload + end + "C=library.so" + end);
    return WhyNow();
  }
  std::optional<NotPreloaded> WhyNow(std::uint64_t start_time_ticks = 100) const {
    return WhyNotPreloadedBy(ProcFs(tree_.root()), {Pid(10), start_time_ticks}, library_);
  }

  ProcTree tree_;
};

TEST_F(PreloadingOfAProcess, IsToBeExpectedOfAProgramOfThisLoader) {
  EXPECT_FALSE(WhyOf(Program("own", ElfFile(OwnLoader()))));
}

TEST_F(PreloadingOfAProcess, IsNotDoneForAStaticProgramOrAnotherCLibrary) {
  EXPECT_THAT(WhyOf(Program("static", ElfFile("")))->why,
              AllOf(HasSubstr(folder_.File("static")), HasSubstr("statically linked")));
  EXPECT_THAT(WhyOf(Program("other", ElfFile(kOtherLoader)))->why, HasSubstr(kOtherLoader));
}

TEST_F(PreloadingOfAProcess, IsNotDoneForAProgramWithMorePrivileges) {
  const auto why = WhyOf(Program("own", ElfFile(OwnLoader())), 1);
  ASSERT_TRUE(why);
  EXPECT_THAT(why->why, AllOf(HasSubstr(folder_.File("own")), HasSubstr("more privileges")));
}

TEST_F(PreloadingOfAProcess, IsNotDoneForAProgramWhoseEnvironmentLostTheRequest) {
  const std::string own = Program("own", ElfFile(OwnLoader()));
  const auto why = WhyOf(own, 0, "/x/another.so");
  ASSERT_TRUE(why);
  EXPECT_THAT(why->why, HasSubstr("was started without the tracker in LD_PRELOAD"));
  EXPECT_FALSE(WhyOf(own, 0, "/x/another.so:/y/library.so"));
}

TEST_F(PreloadingOfAProcess, IsNotJudgedOnceTheProcessIsGone) {
  ASSERT_TRUE(WhyOf(Program("static", ElfFile(""))));
  EXPECT_FALSE(WhyNow(101)) << "another process has its number";
  tree_.Remove(10);
  EXPECT_FALSE(WhyNow());
}

TEST_F(PreloadingOfAProcess, IsNotJudgedByTheEnvironmentWhileAnExecGoesOn) {
  const std::string own = Program("own", ElfFile(OwnLoader()));
  ASSERT_TRUE(WhyOf(own, 0, "/x/another.so"));
  tree_.Write("10/environ", "");
  EXPECT_TRUE(WhyNow()) << "it was started without any";
  tree_.Put({.pid = 10, .executable = own, .environment_end = 0});
  EXPECT_FALSE(WhyNow());
}

TEST_F(Preloading, NamesTheLibraryAsOnlyGlibcReadsItWhereThatWasPrepared) {
  EXPECT_EQ(PreloadName(folder_.path(), "library.so"), library_);
  std::filesystem::create_directory(folder_.path() / "preload");
  EXPECT_EQ(PreloadName(folder_.path(), "library.so"), folder_.File("preload/$LIB/library.so"));
}

}  // namespace preloading_test
}  // namespace tmprof
