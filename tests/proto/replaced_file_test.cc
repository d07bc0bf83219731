// SPDX-License-Identifier: Apache-2.0

#include "proto/replaced_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/unique_fd.h"
#include "proto/trace_file.h"
#include "tests/apps/program.h"
#include "tests/report/traces.h"

namespace tmprof {
namespace replaced_file_test {

using test::ReadFile;
using test::TemporaryFolder;
using test::WriteFile;

std::size_t FilesIn(const TemporaryFolder& folder) {
  const std::filesystem::directory_iterator files(folder.path());
  return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

TEST(ReplacedFile, LeavesWhatWasThereUntilItIsWhole) {
  const TemporaryFolder folder;
  WriteFile(folder.File("out"), "before");
  ASSERT_EQ(::chmod(folder.File("out").c_str(), 0640), 0);
  {
    Result<ReplacedFile> file = ReplacedFile::Create(folder.File("out"), 0666);
    ASSERT_TRUE(file.has_value()) << file.error().Message();
    ASSERT_TRUE(file->Write("half").has_value());
    EXPECT_EQ(ReadFile(folder.File("out")), "before");
  }
  EXPECT_EQ(ReadFile(folder.File("out")), "before") << "it was given up";
  EXPECT_EQ(FilesIn(folder), 1U) << "and left nothing";
  Result<ReplacedFile> file = ReplacedFile::Create(folder.File("out"), 0666);
  ASSERT_TRUE(file.has_value());
  ASSERT_TRUE(file->Write("whole").has_value());
  ASSERT_TRUE(file->Commit().has_value());
  EXPECT_EQ(ReadFile(folder.File("out")), "whole");
  EXPECT_EQ(FilesIn(folder), 1U);
  struct stat status{};
  ASSERT_EQ(::stat(folder.File("out").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0640U);
}

TEST(ReplacedFile, IsNewWithTheModeAskedFor) {
  const TemporaryFolder folder;
  Result<ReplacedFile> file = ReplacedFile::Create(folder.File("new"), 0600);
  ASSERT_TRUE(file.has_value());
  ASSERT_TRUE(file->Commit().has_value());
  struct stat status{};
  ASSERT_EQ(::stat(folder.File("new").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
}

TEST(ReplacedFile, ReplacesWhatASymbolicLinkPointsTo) {
  const TemporaryFolder folder;
  WriteFile(folder.File("real"), "before");
  std::filesystem::create_symlink("real", folder.File("link"));
  Result<ReplacedFile> file = ReplacedFile::Create(folder.File("link"), 0666);
  ASSERT_TRUE(file.has_value());
  ASSERT_TRUE(file->Write("after").has_value());
  ASSERT_TRUE(file->Commit().has_value());
  EXPECT_EQ(ReadFile(folder.File("real")), "after");
  EXPECT_TRUE(std::filesystem::is_symlink(folder.File("link")));
}

TEST(ReplacedFile, WritesToADeviceAsItIsAndTellsOfItsErrors) {
  Result<ReplacedFile> file = ReplacedFile::Create("/dev/full", 0666);
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ(file->path(), "/dev/full");
  const Status written = file->Write("x");
  ASSERT_FALSE(written.has_value());
  EXPECT_EQ(written.error().system_error, ENOSPC);
}

// After `{ echo head; tmprof …; } > out` the shell goes on with the file that it opened.
TEST(ReplacedFile, AppendsToAFileThatIsStandardOutput) {
  const TemporaryFolder folder;
  WriteFile(folder.File("out"), "head");
  std::fflush(stdout);
  const UniqueFd saved(::dup(STDOUT_FILENO));
  const UniqueFd out(::open(folder.File("out").c_str(), O_WRONLY | O_APPEND));
  ASSERT_TRUE(saved && out);
  ASSERT_EQ(::dup2(out.get(), STDOUT_FILENO), STDOUT_FILENO);
  Result<ReplacedFile> file = ReplacedFile::Create("/dev/stdout", 0666);
  const bool written =
      file.has_value() && file->Write("tail").has_value() && file->Commit().has_value();
  ASSERT_EQ(::dup2(saved.get(), STDOUT_FILENO), STDOUT_FILENO);
  EXPECT_TRUE(written);
  EXPECT_EQ(ReadFile(folder.File("out")), "headtail");
}

TEST(ReplacedFile, RefusesATraceThatIsBeingRecordedAndAFolderThatIsNotThere) {
  const TemporaryFolder folder;
  Result<TraceWriter> writer = TraceWriter::Create(folder.File("t.data"), TraceOf({}).info);
  ASSERT_TRUE(writer.has_value());
  const Result<ReplacedFile> recorded = ReplacedFile::Create(folder.File("t.data"), 0600);
  ASSERT_FALSE(recorded.has_value());
  EXPECT_THAT(recorded.error().Message(), testing::HasSubstr("a recorder still writes it"));
  ASSERT_TRUE(writer->Finish().has_value());
  writer = std::unexpected(Error{});
  EXPECT_TRUE(ReplacedFile::Create(folder.File("t.data"), 0600).has_value());
  const Result<ReplacedFile> nowhere = ReplacedFile::Create(folder.File("no/where"), 0600);
  ASSERT_FALSE(nowhere.has_value());
  EXPECT_EQ(nowhere.error().system_error, ENOENT);
}

}  // namespace replaced_file_test
}  // namespace tmprof
