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

class EachLayout : public Recording, public ::testing::WithParamInterface<Layout> {};

// The recordings get longer until the pages are seen, for a host that gives them little time.
TEST_P(EachLayout, IsSeenByReferencesAsAWhole) {
  const Json row = DoctorRow("abit-bpf");
  if (!row["usable"].get<bool>()) GTEST_SKIP() << row["detail"].get<std::string>();
  const std::string pages = std::to_string(GetParam().pages);
  const std::string script =
      Workload("tests/layouts") + " " + GetParam().name + " " + pages +
      " & target=$!; sleep 0.2; kill -0 $target || { wait $target; exit $?; }; "
      "for seconds in 2 10 60 240; do " +
      TmprofPath() + " record --source abit-bpf --duration ${seconds}s -o " + trace_ +
      " -p $target; status=$?; [ $status -eq 0 ] || [ $status -eq 3 ] || { kill $target; exit 90; "
      "}; references=$(" +
      TmprofPath() + " report " + trace_ +
      " --view summary --format json | sed -n 's/.*\"references\": *\\([0-9]*\\).*/\\1/p' | head "
      "-n 1); [ \"$references\" -ge " +
      pages + " ] && break; done; kill $target; exit 0";
  const Outcome outcome = RunProgram({"bash", "-c", script});
  if (outcome.status == kNoSuchMemory) GTEST_SKIP() << outcome.err;
  ASSERT_EQ(outcome.status, 0) << outcome.err;
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

class EachUnobservableLayout : public Recording, public ::testing::WithParamInterface<Layout> {};

TEST_P(EachUnobservableLayout, IsNamedWithItsSizeAtTheEnd) {
  const Json row = DoctorRow("abit-bpf");
  if (!row["usable"].get<bool>()) GTEST_SKIP() << row["detail"].get<std::string>();
  const std::string script = Workload("tests/layouts") + " " + GetParam().name + " " +
                             std::to_string(GetParam().pages) +
                             " & target=$!; sleep 0.2; kill -0 $target || { wait $target; exit $?; "
                             "}; " +
                             TmprofPath() + " record --source abit-bpf --duration 2s -o " + trace_ +
                             " -p $target; status=$?; kill $target; [ $status -eq 0 ] || [ $status "
                             "-eq 3 ] || exit 90";
  const Outcome outcome = RunProgram({"bash", "-c", script});
  if (outcome.status == kNoSuchMemory) GTEST_SKIP() << outcome.err;
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Json told = Summary(trace_)["outcome"];
  EXPECT_THAT(told["text"].get<std::string>(), HasSubstr("not observable by accessed bits here"));
  EXPECT_GE(told["not_observable"][GetParam().unobservable].get<std::uint64_t>(),
            GetParam().pages * 4096);
}

INSTANTIATE_TEST_SUITE_P(All, EachUnobservableLayout,
                         ::testing::Values(Layout{"hugetlb", 1'024, "refused"},
                                           Layout{"device", 256, "device"}),
                         [](const auto& layout) { return layout.param.name; });

}  // namespace layouts_smoke_test
}  // namespace tmprof::test
