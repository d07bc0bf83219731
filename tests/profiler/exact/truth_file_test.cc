// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/exact/truth_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/profiler/exact/stream_bytes.h"

namespace tmprof::exact {
namespace truth_file_test {

using testing::HasSubstr;

class TruthFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string folder = testing::TempDir() + "/truth_file.XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path path() const { return folder_ / "truth"; }
  Result<TruthFile> Open(const std::string& bytes, PagesOf pages = PagesOf::kProcesses) {
    std::ofstream(path(), std::ios::binary) << bytes;
    return TruthFile::Open(path(), pages);
  }

  std::filesystem::path folder_;
};

// One epoch of 4 accesses to page 9 and one of none.
StreamBytes TwoEpochs() {
  return StreamBytes()
      .Header("a model")
      .Target(0, 42, "cmd")
      .Pages({PageEntry(9, 3, 1, 2)})
      .End(4, 100, 200, 3, 1, 0, 2)
      .End(5, 200, 300, 0, 0);
}

std::vector<EpochProfile> ReadAll(TruthFile& file, std::optional<Error>* error = nullptr) {
  std::vector<EpochProfile> epochs;
  for (EpochProfile epoch;;) {
    const Result<bool> more = file.Next(epoch);
    if (!more && error != nullptr) *error = more.error();
    EXPECT_TRUE(more.has_value() || error != nullptr) << more.error().Message();
    if (!more || !*more) return epochs;
    epochs.push_back(epoch);
  }
}

TEST_F(TruthFileTest, GivesTheEpochsOfAWholeStream) {
  Result<TruthFile> file = Open(TwoEpochs().Finish(2).bytes);
  ASSERT_TRUE(file.has_value()) << file.error().Message();
  EXPECT_EQ(file->origin().llc_model, "a model");
  const std::vector<EpochProfile> epochs = ReadAll(*file);
  ASSERT_EQ(epochs.size(), 2u);
  EXPECT_EQ(epochs[0].index, 4u);
  EXPECT_EQ(epochs[0].targets[0].pid, Pid(42));
  ASSERT_EQ(epochs[0].pages.size(), 1u);
  EXPECT_EQ(RecordAt(epochs[0].pages, 0).accesses,
            (AccessCounts{.loads = 3, .stores = 1, .llc_misses = 2}));
  EXPECT_EQ(epochs[0].sources[0].name, "exact");
  EXPECT_TRUE(epochs[1].pages.empty());
  EXPECT_EQ(file->End().finished, true);
  EXPECT_EQ(file->End().byte_offset, std::nullopt);
}

TEST_F(TruthFileTest, NamesTheVirtualMachineAsItsSource) {
  std::string bytes = TwoEpochs().bytes;
  reinterpret_cast<tmprof_truth_header*>(bytes.data())->maker = TMPROF_TRUTH_MAKER_TIERSIM;
  Result<TruthFile> file = Open(bytes);
  ASSERT_TRUE(file.has_value()) << file.error().Message();
  EXPECT_EQ(ReadAll(*file)[0].sources[0].name, "tiersim");
}

TEST_F(TruthFileTest, ReadsAVirtualMachinesFileByPageFrame) {
  tmprof_truth_page page = PageEntry(9, 3, 1);
  page.pfn = 0x123;
  page.flags = TMPROF_TRUTH_PAGE_KNOWS_PFN;
  std::string bytes =
      StreamBytes().Header().Target(0, 42, "cmd").Pages({page}).End(4, 100, 200, 3, 1).bytes;
  EXPECT_THAT(Open(bytes, PagesOf::kPhysicalMemory).error().Message(),
              HasSubstr("its program ran in no virtual machine"));
  reinterpret_cast<tmprof_truth_header*>(bytes.data())->maker = TMPROF_TRUTH_MAKER_TIERSIM;
  Result<TruthFile> file = Open(bytes, PagesOf::kPhysicalMemory);
  ASSERT_TRUE(file.has_value()) << file.error().Message();
  const std::vector<EpochProfile> epochs = ReadAll(*file);
  ASSERT_EQ(epochs.size(), 1u);
  EXPECT_EQ(epochs[0].targets[0].name, "memory");
  ASSERT_EQ(epochs[0].pages.size(), 1u);
  EXPECT_EQ(RecordAt(epochs[0].pages, 0).key.vpn, Vpn(0x123));
}

TEST_F(TruthFileTest, ThatWasCutEndsWithItsLastWholeEpochAndSaysWhere) {
  const std::string whole = TwoEpochs().bytes;
  Result<TruthFile> file = Open(whole + TwoEpochs().bytes.substr(0, 4));
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ(ReadAll(*file).size(), 2u);
  EXPECT_EQ(file->End().finished, false);
  EXPECT_EQ(file->End().byte_offset, whole.size());
}

TEST_F(TruthFileTest, ThatIsDamagedGivesTheEpochsBeforeAndThenTheErrorForEver) {
  const std::string whole = TwoEpochs().bytes;
  StreamBytes damaged = TwoEpochs();
  damaged.Add(tmprof_truth_record{.type = 1, .bytes = 12});
  Result<TruthFile> file = Open(damaged.bytes);
  ASSERT_TRUE(file.has_value());
  std::optional<Error> error;
  EXPECT_EQ(ReadAll(*file, &error).size(), 2u);
  ASSERT_TRUE(error.has_value());
  EXPECT_THAT(error->Message(), HasSubstr("a record of 12 bytes"));
  EXPECT_THAT(error->Message(), HasSubstr(path().string()));
  EpochProfile epoch;
  EXPECT_FALSE(file->Next(epoch).has_value());
}

TEST_F(TruthFileTest, LongerThanOneReadIsWhole) {
  StreamBytes stream = StreamBytes().Header().Target(0, 42, "cmd");
  constexpr std::uint64_t kEpochs = 2000;
  for (std::uint64_t i = 0; i < kEpochs; ++i)
    stream.Pages({PageEntry(9, 1, 0)}).End(i, i, i + 1, 1, 0);
  Result<TruthFile> file = Open(stream.Finish(kEpochs).bytes);
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ(ReadAll(*file).size(), kEpochs);
  EXPECT_EQ(file->End().finished, true);
}

TEST_F(TruthFileTest, ThatIsNoneIsRefused) {
  EXPECT_THAT(Open("{}").error().Message(), HasSubstr("it is not a truth stream"));
  EXPECT_THAT(Open(StreamBytes().Header().bytes.substr(0, 20)).error().Message(),
              HasSubstr("ends within its header"));
  EXPECT_THAT(Open("").error().Message(), HasSubstr("ends within its header"));
  EXPECT_EQ(TruthFile::Open(folder_ / "none", PagesOf::kProcesses).error().system_error, ENOENT);
}

}  // namespace truth_file_test
}  // namespace tmprof::exact
