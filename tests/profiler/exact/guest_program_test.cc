// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/exact/plugin/format/guest_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace guest_program_test {

class GuestProgram : public testing::Test {
 protected:
  GuestProgram() {
    std::string name = (std::filesystem::temp_directory_path() / "guest-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~GuestProgram() override { std::filesystem::remove_all(folder_); }

  tmprof_guest_verdict Look(const std::string& contents, mode_t mode = 0755) {
    path_ = folder_ / "program";
    std::ofstream(path_, std::ios::binary) << contents;
    chmod(path_.c_str(), mode);
    return tmprof_guest_look(path_.c_str(), &program_);
  }

  std::filesystem::path folder_;
  std::filesystem::path path_;
  tmprof_guest_program program_;
};

std::string Elf(unsigned char bits, Elf64_Half machine) {
  Elf64_Ehdr header{};
  header.e_ident[0] = 0x7f;
  header.e_ident[1] = 'E';
  header.e_ident[2] = 'L';
  header.e_ident[3] = 'F';
  header.e_ident[EI_CLASS] = bits;
  header.e_machine = machine;
  return std::string(reinterpret_cast<const char*>(&header), sizeof header);
}

TEST_F(GuestProgram, IsAnElfFileForX86InSixtyFourBits) {
  EXPECT_EQ(Look(Elf(ELFCLASS64, EM_X86_64)), TMPROF_GUEST_RUNS);
  EXPECT_EQ(program_.path, path_.string());
  EXPECT_STREQ(program_.script, "");
  EXPECT_EQ(Look(Elf(ELFCLASS64, EM_AARCH64)), TMPROF_GUEST_OTHER_MACHINE);
  EXPECT_EQ(Look(Elf(ELFCLASS32, EM_X86_64)), TMPROF_GUEST_OTHER_MACHINE) << "x32";
}

TEST_F(GuestProgram, TheProgramOfAScriptIsItsInterpreterWithOneArgument) {
  EXPECT_EQ(Look("#! /bin/sh  -e -x \t\necho\n"), TMPROF_GUEST_RUNS);
  EXPECT_STREQ(program_.path, "/bin/sh");
  EXPECT_STREQ(program_.script_argument, "-e -x");
  EXPECT_EQ(program_.script, path_.string());
  EXPECT_EQ(Look("#!/bin/sh"), TMPROF_GUEST_RUNS);
  EXPECT_STREQ(program_.path, "/bin/sh");
  EXPECT_STREQ(program_.script_argument, "");
}

TEST_F(GuestProgram, IsRefusedAsTheKernelDoes) {
  EXPECT_EQ(Look("text\n"), TMPROF_GUEST_REFUSED);
  EXPECT_EQ(errno, ENOEXEC);
  EXPECT_EQ(Look("#!\n"), TMPROF_GUEST_REFUSED);
  EXPECT_EQ(errno, ENOEXEC);
  EXPECT_EQ(Look(Elf(ELFCLASS64, EM_X86_64), 0644), TMPROF_GUEST_REFUSED);
  EXPECT_EQ(errno, EACCES);
  EXPECT_EQ(tmprof_guest_look((folder_ / "none").c_str(), &program_), TMPROF_GUEST_REFUSED);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(tmprof_guest_look(folder_.c_str(), &program_), TMPROF_GUEST_REFUSED);
  EXPECT_EQ(errno, EACCES);
  EXPECT_EQ(tmprof_guest_look(std::string(5000, 'a').c_str(), &program_), TMPROF_GUEST_REFUSED);
  EXPECT_EQ(errno, ENAMETOOLONG);
}

TEST_F(GuestProgram, WithAnotherUsersRightsIsNotForAnEmulator) {
  EXPECT_EQ(Look(Elf(ELFCLASS64, EM_X86_64), 04755), TMPROF_GUEST_RUNS) << "the rights are ours";
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file to another user";
  ASSERT_EQ(chown(path_.c_str(), 65534, 0), 0);
  ASSERT_EQ(chmod(path_.c_str(), 04755), 0);
  EXPECT_EQ(tmprof_guest_look(path_.c_str(), &program_), TMPROF_GUEST_OTHER_RIGHTS);
}

}  // namespace guest_program_test
