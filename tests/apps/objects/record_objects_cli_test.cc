// SPDX-License-Identifier: Apache-2.0
// `tmprof record --objects` and `--advice`.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <ostream>
#include <string>

#include "tests/apps/program.h"
#include "tests/apps/recording.h"
#include "tests/apps/recording_of_a_child.h"

namespace tmprof::test {
namespace record_objects_cli_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// The shell is tracked.
class RecordingBelowAShell : public RecordingOfAChild {
 protected:
  Outcome RecordBelowAShell(const std::string& command) const {
    return Tmprof({"record", "--objects", "--gate", "off", "--epoch", "200ms", "-o", trace_, "--",
                   "sh", "-c", command + "; exit 0"});
  }
};

TEST_F(Recording, TracksObjectsOnlyOfWhatItStarts) {
  const Outcome outcome = Tmprof({"record", "--objects", "-p", std::to_string(::getpid())});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("tmprof record --objects PROGRAM"));
}

TEST_F(Recording, SaysWhyAStaticProgramHasNoTrackedAllocations) {
  const Outcome outcome =
      Tmprof({"record", "--objects", "-o", trace_, "--", Workload("tests/exact_known")});
  EXPECT_EQ(outcome.status, 7);  // the program's own
  EXPECT_THAT(outcome.err, HasSubstr("--objects tracked no allocation"));
  EXPECT_THAT(outcome.err, HasSubstr("exact_known' is statically linked"));
  EXPECT_EQ(Summary(trace_)["outcome"]["saw_enough"], false);
}

TEST_F(Recording, RunsAProgramOfAnotherCLibraryAndItsChildrenAsIfNothingWerePreloaded) {
  const std::string source = folder_.File("p.c");
  const std::string program = folder_.File("p");
  WriteFile(source, "int main(void) { return 5; }\n");
  if (RunProgram({"sh", "-c", "musl-gcc -o " + program + " " + source}).status != 0)
    GTEST_SKIP() << "no musl-gcc here (Debian package musl-tools)";
  const Outcome direct = Tmprof({"record", "--objects", "-o", trace_, "--", program});
  EXPECT_EQ(direct.status, 5);
  EXPECT_THAT(direct.err,
              AllOf(HasSubstr("another C library's loader"), Not(HasSubstr("Error relocating"))));
  const Outcome child =
      Tmprof({"record", "--objects", "-o", trace_, "--", "sh", "-c", program + "; exit $?"});
  EXPECT_EQ(child.status, 5);
  EXPECT_THAT(child.err, Not(HasSubstr("Error relocating")));
}

// A way to start `busy` so that it is not tracked.
struct UntrackedChild {
  std::string name;
  std::string compiler;
  std::string before = {};  // the program, in the command
  std::string why;
  bool has_privileges = false;
};

void PrintTo(const UntrackedChild& child, std::ostream* out) { *out << child.name; }

class RecordingOfAnUntrackedChild : public RecordingBelowAShell,
                                    public ::testing::WithParamInterface<UntrackedChild> {};

TEST_P(RecordingOfAnUntrackedChild, SaysThatItWasNotTrackedAndWhy) {
  const UntrackedChild& child = GetParam();
  if (child.compiler == "musl-gcc" && RunProgram({"sh", "-c", "command -v musl-gcc"}).status != 0)
    GTEST_SKIP() << "no musl-gcc here (Debian package musl-tools)";
  ASSERT_TRUE(Build(child.compiler));
  if (RunProgram({"sh", "-c", child.before + "true"}).status != 0)
    GTEST_SKIP() << "'" << child.before << "' is refused here";
  if (child.has_privileges) {
    if (chown(busy_.c_str(), 65534, static_cast<gid_t>(-1)) != 0 ||
        chmod(busy_.c_str(), 04755) != 0)
      GTEST_SKIP() << "only root can give a file to another user";
    ASSERT_EQ(chmod(folder_.path().c_str(), 0755), 0);
  }
  const Outcome outcome = RecordBelowAShell(child.before + busy_);
  EXPECT_EQ(outcome.status, 3) << outcome.err;
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("--objects did not track 1 of "),
                                 HasSubstr("'" + busy_ + "' " + child.why)));
  EXPECT_EQ(Summary(trace_)["outcome"]["saw_enough"], false);
}

INSTANTIATE_TEST_SUITE_P(
    All, RecordingOfAnUntrackedChild,
    ::testing::Values(
        UntrackedChild{.name = "Static", .compiler = "cc -static", .why = "is statically linked"},
        UntrackedChild{.name = "OfAnotherCLibrary",
                       .compiler = "musl-gcc",
                       .why = "runs by another C library's loader"},
        UntrackedChild{.name = "WithThePrivilegesOfAnother",
                       .compiler = "cc",
                       .why = "runs with more privileges",
                       .has_privileges = true},
        UntrackedChild{.name = "WithAClearedEnvironment",
                       .compiler = "cc",
                       .before = "env -i ",
                       .why = "was started without the tracker in LD_PRELOAD"},
        UntrackedChild{.name = "InAPidNamespaceOfItsOwn",
                       .compiler = "cc",
                       .before = "unshare --pid --fork ",
                       .why = "runs in a PID namespace of its own"}),
    [](const auto& child) { return child.param.name; });

TEST_F(RecordingBelowAShell, ThatIsTrackedSaysNothingOfUntrackedOnes) {
  ASSERT_TRUE(Build("cc"));
  const Outcome outcome = RecordBelowAShell(busy_);
  EXPECT_TRUE(Recorded(outcome));
  EXPECT_THAT(outcome.err, Not(HasSubstr("track")));
}

TEST_F(Recording, PlacesObjectsOnlyByAdviceThatItUnderstandsAndOfWhatItStarts) {
  const Outcome missing = Tmprof({"record", "--advice", "/nowhere/advice", "--", "true"});
  EXPECT_EQ(missing.status, 1);
  EXPECT_THAT(missing.err, HasSubstr("/nowhere/advice"));
  const std::string advice = trace_ + ".advice";
  WriteFile(advice, "tmprof-advice 1\nplace 3\n");
  const Outcome wrong = Tmprof({"record", "--advice", advice, "--", "true"});
  EXPECT_EQ(wrong.status, 2);
  EXPECT_THAT(wrong.err, HasSubstr("line 2"));
  const Outcome running = Tmprof({"record", "--advice", advice, "-p", std::to_string(::getpid())});
  EXPECT_EQ(running.status, 2);
  EXPECT_THAT(running.err, HasSubstr("tmprof record --advice FILE PROGRAM"));
}

}  // namespace record_objects_cli_test
}  // namespace tmprof::test
