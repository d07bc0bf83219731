// SPDX-License-Identifier: Apache-2.0
// Tests where a trace may be written to: modes, locks, devices, full disks, forbidden folders.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/frame.h"
#include "tests/proto/trace_fixture.h"

namespace tmprof {
namespace trace_output_test {

using testing::AllOf;
using testing::HasSubstr;

class TraceOutput : public TraceTest {
 protected:
  static mode_t ModeOf(const std::filesystem::path& file) {
    struct stat status{};
    EXPECT_EQ(::stat(file.c_str(), &status), 0);
    return status.st_mode & 07777;
  }
  // The file's mode after a trace was written over it.
  mode_t ModeAfterWriting(mode_t before) {
    WriteFile(path(), "something else");
    EXPECT_EQ(::chmod(path().c_str(), before), 0);
    WriteTrace(path(), SmallInfo(), SmallEpochs());
    return ModeOf(path());
  }
  static std::string CreateError(const std::filesystem::path& file) {
    const Result<TraceWriter> writer = TraceWriter::Create(file, SmallInfo());
    return writer ? "" : writer.error().Message();
  }
};

TEST_F(TraceOutput, NewTraceIsForItsOwnerOnly) {
  const mode_t umask = ::umask(0);
  WriteTrace(path(), SmallInfo(), {});
  ::umask(umask);
  EXPECT_EQ(ModeOf(path()), 0600u);
}

TEST_F(TraceOutput, ModeOfAnExistingFileIsNarrowedAndNeverWidened) {
  EXPECT_EQ(ModeAfterWriting(0666), 0600u);
  EXPECT_EQ(ModeAfterWriting(0755), 0600u);
  EXPECT_EQ(ModeAfterWriting(0600), 0600u);
  EXPECT_EQ(ModeAfterWriting(0200), 0200u);
}

TEST_F(TraceOutput, OldContentsAreReplaced) {
  WriteFile(path(), std::string(100'000, 'x'));
  WriteTrace(path(), SmallInfo(), SmallEpochs());
  EXPECT_EQ(ReadTrace(path()).epochs, SmallEpochs());
}

TEST_F(TraceOutput, SymbolicLinkIsFollowed) {
  const std::filesystem::path file = folder() / "file";
  std::filesystem::create_symlink(file, path());
  WriteTrace(path(), SmallInfo(), SmallEpochs());
  EXPECT_TRUE(std::filesystem::is_symlink(path()));
  EXPECT_EQ(ReadTrace(file).epochs, SmallEpochs());
}

TEST_F(TraceOutput, ChildProgramsDoNotInheritTheFile) {
  const Result<TraceWriter> writer = TraceWriter::Create(path(), SmallInfo());
  ASSERT_TRUE(writer);
  int seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (std::filesystem::read_symlink(entry, gone) != path()) continue;
    ++seen;
    EXPECT_NE(::fcntl(std::stoi(entry.path().filename()), F_GETFD) & FD_CLOEXEC, 0);
  }
  EXPECT_EQ(seen, 1);
}

TEST_F(TraceOutput, FileThatAnotherRecorderWritesIsLeftAlone) {
  Result<TraceWriter> first = TraceWriter::Create(path(), SmallInfo());
  ASSERT_TRUE(first && first->Write(SmallEpochs()[0]));
  EXPECT_THAT(CreateError(path()),
              AllOf(HasSubstr(path().string()), HasSubstr("another recorder")));
  ASSERT_TRUE(first->Finish());
  EXPECT_TRUE(ReadTrace(path()).finished);
}

TEST_F(TraceOutput, FullDeviceSaysSoAndWhatToDo) {
  EXPECT_THAT(CreateError("/dev/full"),
              AllOf(HasSubstr("'/dev/full'"), HasSubstr("ENOSPC"), HasSubstr("free some space")));
}

TEST_F(TraceOutput, PipesAndDevicesTakeATraceToo) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  WriteTrace("/proc/self/fd/" + std::to_string(ends[1]), SmallInfo(), SmallEpochs());
  ::close(ends[1]);
  const ReadBack back = ReadTrace("/proc/self/fd/" + std::to_string(ends[0]));
  ::close(ends[0]);
  EXPECT_EQ(back.epochs, SmallEpochs()) << back.error;
  EXPECT_TRUE(back.finished);
  WriteTrace("/dev/null", SmallInfo(), SmallEpochs());
}

TEST_F(TraceOutput, DashIsNotAFileName) {
  const Result<TraceWriter> writer = TraceWriter::Create("-", SmallInfo());
  ASSERT_FALSE(writer);
  EXPECT_THAT(writer.error().Message(), HasSubstr("/dev/stdout"));
  EXPECT_EQ(writer.error().ExitStatus(), 2);
}

TEST_F(TraceOutput, FoldersAndMissingFoldersAreNamed) {
  EXPECT_THAT(CreateError(folder()), AllOf(HasSubstr("EISDIR"), HasSubstr("name a file")));
  EXPECT_THAT(CreateError(folder() / "none" / "t"),
              AllOf(HasSubstr("ENOENT"), HasSubstr("none/t")));
}

TEST_F(TraceOutput, UnwritableFolderIsRefused) {
  ASSERT_EQ(::chmod(folder().c_str(), 0555), 0);
  constexpr uid_t kNobody = 65534;
  const bool privileged = ::geteuid() == 0;
  if (privileged && ::seteuid(kNobody) != 0) GTEST_SKIP() << "root cannot become nobody here";
  const std::string error = CreateError(path());
  if (privileged) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  EXPECT_THAT(error, AllOf(HasSubstr("EACCES"), HasSubstr(path().string()),
                           HasSubstr("folder that you may write to")));
}

TEST_F(TraceOutput, FailedWriteIsCutBackAndSticks) {
  const std::vector<EpochProfile> epochs = SmallEpochs();
  Result<TraceWriter> writer = TraceWriter::Create(path(), SmallInfo());
  ASSERT_TRUE(writer && writer->Write(epochs[0]));
  const std::uint64_t good = writer->bytes_written();
  Status refused;
  {
    const FileSizeLimit limit(good + 10);  // the next frame is written in part
    refused = writer->Write(epochs[1]);
  }
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().Message(), AllOf(HasSubstr("write epoch 1"), HasSubstr("EFBIG")));
  EXPECT_EQ(refused.error().ExitStatus(), 1);
  EXPECT_EQ(std::filesystem::file_size(path()), good);
  EXPECT_EQ(writer->bytes_written(), good);

  const Status again = writer->Write(epochs[2]);  // although there is room by now
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().Message(), refused.error().Message());
  const Status finish = writer->Finish();
  ASSERT_FALSE(finish);
  EXPECT_EQ(finish.error().Message(), refused.error().Message());

  const ReadBack back = ReadTrace(path());
  EXPECT_EQ(back.error, "");
  EXPECT_THAT(back.epochs, testing::ElementsAre(epochs[0]));
  EXPECT_FALSE(back.finished);
}

TEST_F(TraceOutput, MissingTraceIsNamed) {
  const Result<TraceReader> reader = TraceReader::Open(folder() / "none");
  ASSERT_FALSE(reader);
  EXPECT_THAT(reader.error().Message(),
              AllOf(HasSubstr("ENOENT"), HasSubstr("none"), HasSubstr("tmprof record")));
  const Result<TraceReader> directory = TraceReader::Open(folder());
  ASSERT_FALSE(directory);
  EXPECT_THAT(directory.error().Message(), HasSubstr("EISDIR"));
}

}  // namespace trace_output_test
}  // namespace tmprof
