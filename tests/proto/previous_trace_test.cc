// SPDX-License-Identifier: Apache-2.0
// Tests the fate of the trace that had the name of a new recording's.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "proto/trace_output.h"
#include "tests/apps/program.h"

namespace tmprof {
namespace previous_trace_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Output = ::tmprof::TraceOutput;

class PreviousTraceTest : public testing::Test {
 protected:
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_.File(name)) << text;
  }
  // The text of a file; "-" if there is none.
  std::string Text(const std::string& name) const {
    std::ifstream file(folder_.File(name));
    if (!file) return "-";
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  Result<Output> Prepare(const std::string& name = "t") {
    return Output::Prepare(folder_.File(name),
                           [this](const std::string& warning) { warnings_.push_back(warning); });
  }
  std::size_t Files() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(folder_.File("")), {}));
  }

  test::TemporaryFolder folder_;
  std::vector<std::string> warnings_;
};

TEST_F(PreviousTraceTest, IsKeptOnceWhereTheRecordingBegins) {
  Write("t", "previous");
  Write("t.old", "the one before");
  auto output = Prepare();
  ASSERT_TRUE(output) << output.error().Message();
  EXPECT_EQ(Text("t"), "-");
  Write("t", "new");
  output->Keep();
  EXPECT_EQ(Text("t"), "new");
  EXPECT_EQ(Text("t.old"), "previous");
  EXPECT_EQ(Files(), 2U);
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(PreviousTraceTest, IsPutBackWhereTheRecordingFails) {
  Write("t", "previous");
  Write("t.old", "the one before");
  auto output = Prepare();
  ASSERT_TRUE(output) << output.error().Message();
  Write("t", "new");
  output->Restore();
  EXPECT_EQ(Text("t"), "previous");
  EXPECT_EQ(Text("t.old"), "the one before");
  EXPECT_EQ(Files(), 2U);
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(PreviousTraceTest, ANewFileIsRemovedWhereTheRecordingFails) {
  auto output = Prepare();
  ASSERT_TRUE(output) << output.error().Message();
  Write("t", "new");
  output->Restore();
  EXPECT_EQ(Files(), 0U);
}

TEST_F(PreviousTraceTest, StaysWhereAnotherRecorderWritesIt) {
  Write("t", "previous");
  const UniqueFd other(::open(folder_.File("t").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::flock(other.get(), LOCK_EX), 0);
  const auto output = Prepare();
  ASSERT_FALSE(output);
  EXPECT_THAT(output.error().Message(), HasSubstr("another recorder writes this file"));
  EXPECT_EQ(Text("t"), "previous");
  EXPECT_EQ(Files(), 1U);
}

TEST_F(PreviousTraceTest, OfASymbolicLinkIsThatOfItsTarget) {
  Write("target", "previous");
  std::filesystem::create_symlink("target", folder_.File("t"));
  auto output = Prepare();
  ASSERT_TRUE(output) << output.error().Message();
  EXPECT_EQ(output->path().filename(), "target");
  EXPECT_EQ(Text("target.old"), "previous");
}

TEST_F(PreviousTraceTest, ThatCannotBePutBackIsTold) {
  Write("t", "previous");
  auto output = Prepare();
  ASSERT_TRUE(output) << output.error().Message();
  std::filesystem::create_directories(folder_.File("t/in"));  // a folder has its name by now
  output->Restore();
  EXPECT_THAT(warnings_,
              ElementsAre(HasSubstr("t.old' is the previous trace and could not be moved back: ")));
}

}  // namespace previous_trace_test
}  // namespace tmprof
