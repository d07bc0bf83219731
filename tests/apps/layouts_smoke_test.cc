// SPDX-License-Identifier: Apache-2.0
// Memory of every kind is scanned as a whole, however long that takes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>

#include "tests/apps/program.h"
#include "tests/apps/recording.h"

namespace tmprof::test {
namespace layouts_smoke_test {

using ::testing::HasSubstr;
using Json = nlohmann::json;

struct Layout {
  std::string name;
  std::uint64_t pages = 0;
  // Its name in `not_observable`, if its accessed bits are never observed; empty: they are.
  std::string unobservable = {};
};

// The layouts program has no such memory on this machine.
constexpr int kNoSuchMemory = 77;

void PrintTo(const Layout& layout, std::ostream* out) { *out << layout.name; }

class RecordingOfALayout : public Recording, public ::testing::WithParamInterface<Layout> {
 protected:
  void SetUp() override {
    Recording::SetUp();
    if (IsSkipped()) return;
    const Json row = DoctorRow("abit-bpf");
    if (!row["usable"].get<bool>()) GTEST_SKIP() << row["detail"].get<std::string>();
  }
  // Runs the script beside the program, which is $target. Skips if there is no such memory.
  void RunBesideTheProgram(const std::string& script) const {
    const Outcome outcome = RunProgram(
        {"bash", "-c",
         "coproc " + Workload("tests/layouts") + " " + GetParam().name + " " +
             std::to_string(GetParam().pages) +
             "; target=$COPROC_PID; read -r -u ${COPROC[0]} || { wait $target; exit $?; }\n" +
             // A program that has ended of itself is an error.
             script + "\nkill $target"});
    if (outcome.status == kNoSuchMemory) GTEST_SKIP() << outcome.err;
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.err.find("kill"), std::string::npos) << outcome.err;
  }
  // The overhead decides how long it takes to look at each page, not if one is looked at.
  std::string Record(const std::string& options) const {
    return TmprofPath() + " record --source abit-bpf --max-overhead 20% -o " + trace_ +
           " -p $target " + options;
  }
};

class EachLayout : public RecordingOfALayout {};

// Records until the pages were seen, four minutes at most.
TEST_P(EachLayout, IsSeenByReferencesAsAWhole) {
  const std::string pages = std::to_string(GetParam().pages);
  RunBesideTheProgram(Record("--epoch 200ms --duration 240s") +
                      " & recorder=$!\n"
                      "while kill -0 $recorder 2>/dev/null; do sleep 0.2; [ -e " +
                      trace_ +
                      " ] || continue; "
                      "references=$(" +
                      TmprofPath() + " report " + trace_ +
                      " --view summary --format json 2>/dev/null | "
                      "sed -n 's/.*\"references\": *\\([0-9]*\\).*/\\1/p' | head -n 1)\n"
                      "[ \"${references:-0}\" -ge " +
                      pages +
                      " ] && break; done\n"
                      "kill -INT $recorder 2>/dev/null; wait $recorder; status=$?; "
                      "[ $status -eq 0 ] || [ $status -eq 3 ] || { kill $target; exit 90; }");
  if (IsSkipped() || HasFatalFailure()) return;
  EXPECT_GE(Summary(trace_)["pages_seen"]["references"].get<std::uint64_t>(), GetParam().pages);
}

// Shared and locked pages are more than a CPU holds translations of: it does not set the bits of
// the others.
INSTANTIATE_TEST_SUITE_P(All, EachLayout,
                         ::testing::Values(Layout{"guards", 2'000}, Layout{"statics", 256},
                                           Layout{"mappings", 8'000}, Layout{"sparse", 1'000},
                                           Layout{"shared", 16'000}, Layout{"forked", 16'000},
                                           Layout{"locked", 16'000}, Layout{"memfd", 2'000},
                                           Layout{"sysv", 2'000}, Layout{"file", 2'000},
                                           Layout{"lazyfree", 2'000}, Layout{"uffd", 2'000},
                                           Layout{"merged", 2'000}, Layout{"huge", 16'000}),
                         [](const auto& layout) { return layout.param.name; });

class EachUnobservableLayout : public RecordingOfALayout {};

// The recordings get longer until all of it was tried, for a host that gives them little time.
TEST_P(EachUnobservableLayout, IsNamedWithItsSizeAtTheEnd) {
  const std::uint64_t bytes = GetParam().pages * 4096;
  const auto told = [&] {
    const Json sizes = Summary(trace_)["outcome"]["not_observable"];
    const auto found = sizes.find(GetParam().unobservable);
    return found != sizes.end() ? found->get<std::uint64_t>() : 0;
  };
  for (const char* duration : {"500ms", "2s", "10s", "60s"}) {
    RunBesideTheProgram(Record("--epoch 200ms --duration ") + duration +
                        "; status=$?; [ $status -eq 0 ] || [ $status -eq 3 ] || "
                        "{ kill $target; exit 90; }");
    if (IsSkipped() || HasFatalFailure()) return;
    if (told() >= bytes) break;
  }
  EXPECT_GE(told(), bytes);
  EXPECT_THAT(Summary(trace_)["outcome"]["text"].get<std::string>(),
              HasSubstr("not observable by accessed bits here"));
}

INSTANTIATE_TEST_SUITE_P(All, EachUnobservableLayout,
                         ::testing::Values(Layout{"hugetlb", 1'024, "refused"},
                                           Layout{"device", 256, "device"}),
                         [](const auto& layout) { return layout.param.name; });

}  // namespace layouts_smoke_test
}  // namespace tmprof::test
