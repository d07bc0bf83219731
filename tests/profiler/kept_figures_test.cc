// SPDX-License-Identifier: Apache-2.0

#include "profiler/kept_figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>

#include "tests/base/host/proc_tree.h"

namespace tmprof {
namespace kept_figures_test {

namespace fs = std::filesystem;
using std::chrono::hours;
using std::chrono::seconds;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::Optional;

constexpr MonotonicTime kMeasured{hours(100)};
const KeptFigures::Figures kFigures{{"ns-per-set", 123.456789012345678}, {"loss", -2e-7}};

class KeptFiguresTest : public testing::Test {
 protected:
  std::optional<KeptFigures::Figures> Load(MonotonicTime now = kMeasured) const {
    auto kept = KeptFigures(directory(), "boot 1").Load("bits", now);
    return kept ? std::optional(std::move(kept->figures)) : std::nullopt;
  }
  Status Keep() const {
    return KeptFigures(directory(), "boot 1").Keep("bits", kFigures, kMeasured);
  }
  fs::path directory() const { return tree_.root() / "run"; }
  fs::path file() const { return directory() / "bits"; }
  std::string Text() const {
    std::ifstream in(file());
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void Write(const std::string& text) const { std::ofstream(file()) << text; }

 private:
  const ProcTree tree_;
};

TEST_F(KeptFiguresTest, AreLoadedAsTheyWereKept) {
  ASSERT_TRUE(Keep());
  EXPECT_THAT(Load(), Optional(kFigures));
  EXPECT_EQ(std::distance(fs::directory_iterator(directory()), {}), 1) << "nothing else is left";
}

TEST_F(KeptFiguresTest, HaveAnAge) {
  ASSERT_TRUE(Keep());
  const auto kept = KeptFigures(directory(), "boot 1").Load("bits", kMeasured + seconds(7));
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->age, seconds(7));
}

TEST_F(KeptFiguresTest, AreReplacedByNewOnes) {
  ASSERT_TRUE(Keep());
  const KeptFigures again(directory(), "boot 1");
  ASSERT_TRUE(again.Keep("bits", {{"ns-per-set", 5}}, kMeasured));
  EXPECT_THAT(Load(), Optional(KeptFigures::Figures{{"ns-per-set", 5}}));
}

TEST_F(KeptFiguresTest, AreOfOneMachineOfOneSetAndOfOneDay) {
  ASSERT_TRUE(Keep());
  EXPECT_FALSE(KeptFigures(directory(), "boot 2").Load("bits", kMeasured));
  EXPECT_FALSE(KeptFigures(directory(), "boot 1").Load("clock", kMeasured));
  EXPECT_TRUE(Load(kMeasured + kFiguresAreKeptFor));
  EXPECT_FALSE(Load(kMeasured + kFiguresAreKeptFor + seconds(1)));
  EXPECT_FALSE(Load(kMeasured - seconds(1))) << "they are of the future";
}

TEST_F(KeptFiguresTest, WhoeverMeasuresAgainRemovesTheSetFirst) {
  ASSERT_TRUE(Keep());
  const KeptFigures again(directory(), "boot 1", KeptFigures::Use::kMeasureAgain);
  EXPECT_FALSE(again.Load("bits", kMeasured));
  EXPECT_FALSE(Load())
      << "the new figures may not be worth keeping, and the old ones are distrusted";
  ASSERT_TRUE(again.Keep("bits", {{"ns-per-set", 5}}, kMeasured));
  EXPECT_THAT(Load(), Optional(KeptFigures::Figures{{"ns-per-set", 5}}));
}

TEST_F(KeptFiguresTest, PartsOfAMachineHaveFiguresOfTheirOwn) {
  const KeptFigures one = KeptFigures(directory(), "boot 1").Of("reader one");
  ASSERT_TRUE(one.Keep("bits", kFigures, kMeasured));
  EXPECT_TRUE(one.Load("bits", kMeasured));
  EXPECT_FALSE(Load());
  EXPECT_FALSE(KeptFigures(directory(), "boot 1").Of("reader two").Load("bits", kMeasured));
  EXPECT_FALSE(KeptFigures(directory(), "").Of("reader one").Keep("bits", kFigures, kMeasured));
}

TEST_F(KeptFiguresTest, ATimeThatCannotBeIsNoSet) {
  ASSERT_TRUE(Keep());
  const std::string whole = Text();
  const std::string time = std::to_string(kMeasured.time_since_epoch().count());
  for (const char* bad : {"-9223372036854775808", "9223372036854775807", "-1", "x"}) {
    std::string text = whole;
    text.replace(text.find(time), time.size(), bad);
    Write(text);
    EXPECT_FALSE(Load()) << bad;
  }
}

TEST_F(KeptFiguresTest, AnyCutOfTheFileIsNoSet) {
  ASSERT_TRUE(Keep());
  const std::string whole = Text();
  for (std::size_t size = 0; size + 1 < whole.size(); ++size) {
    Write(whole.substr(0, size));
    EXPECT_FALSE(Load()) << whole.substr(0, size);
  }
}

TEST_F(KeptFiguresTest, FiguresThatAreNoNumbersAreNoSet) {
  ASSERT_TRUE(Keep());
  const std::string whole = Text();
  for (const char* bad : {"nan", "inf", "", "1x", "1 2"}) {
    std::string text = whole;
    text.replace(text.find("-2e-07"), 6, bad);
    Write(text);
    EXPECT_FALSE(Load()) << bad;
  }
}

TEST_F(KeptFiguresTest, ThoseThatOthersMayHaveWrittenAreNotLoaded) {
  ASSERT_TRUE(Keep());
  ASSERT_EQ(::chmod(file().c_str(), 0666), 0);
  EXPECT_FALSE(Load());
  ASSERT_EQ(::chmod(file().c_str(), 0644), 0);
  ASSERT_TRUE(Load());
  ASSERT_EQ(::chmod(directory().c_str(), 0777), 0);
  EXPECT_FALSE(Load());
  const Status kept = Keep();
  ASSERT_FALSE(kept);
  EXPECT_THAT(kept.error().Message(), HasSubstr("EPERM"));
}

TEST_F(KeptFiguresTest, SymbolicLinksAreNotFollowed) {
  ASSERT_TRUE(Keep());
  const fs::path elsewhere = directory().parent_path() / "elsewhere";
  fs::rename(file(), elsewhere);
  fs::create_symlink(elsewhere, file());
  EXPECT_FALSE(Load());
  ASSERT_TRUE(KeptFigures(directory(), "boot 1").Keep("bits", {{"ns-per-set", 5}}, kMeasured));
  EXPECT_FALSE(fs::is_symlink(file())) << "the link is replaced, and what it named is not touched";
  std::ifstream in(elsewhere);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  EXPECT_THAT(text, HasSubstr("123.45"));
}

TEST_F(KeptFiguresTest, WithoutADirectoryNothingIsKept) {
  EXPECT_FALSE(Load());
  const KeptFigures nowhere(directory() / "a" / "b", "boot 1");
  const Status kept = nowhere.Keep("bits", kFigures, kMeasured);
  ASSERT_FALSE(kept);
  EXPECT_THAT(kept.error().Message(), HasSubstr("ENOENT"));
}

TEST_F(KeptFiguresTest, WithoutABootNothingIsKept) {
  const KeptFigures unknown(directory(), "");
  EXPECT_FALSE(unknown.Keep("bits", kFigures, kMeasured));
  EXPECT_FALSE(unknown.Load("bits", kMeasured));
}

TEST(ThisMachine, IsOneLineThatStaysTheSame) {
  const std::string machine = ThisMachine();
  if (machine.empty()) GTEST_SKIP() << "the kernel does not say which boot this is";
  EXPECT_THAT(machine, HasSubstr("boot "));
  EXPECT_THAT(machine, HasSubstr("program "));
  EXPECT_EQ(machine.find('\n'), std::string::npos);
  EXPECT_EQ(machine, ThisMachine());
}

}  // namespace kept_figures_test
}  // namespace tmprof
