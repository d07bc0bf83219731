// SPDX-License-Identifier: Apache-2.0

#include "profiler/probe_text.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <vector>

namespace tmprof {
namespace probe_text_test {

std::vector<Probe> Probes() {
  return {{.name = "clock",
           .job = ProbeJob::kAddressSamples,
           .usable = true,
           .label = "clock (memory-stall time)"},
          {.name = "ibs",
           .job = ProbeJob::kAddressSamples,
           .usable = false,
           .label = "AMD IBS",
           .system_error = ENOENT,
           .detail = "this CPU has none",
           .fix = "use another"},
          {.name = "shared", .job = ProbeJob::kMoves, .usable = true, .label = "moves"}};
}

const CpuIdentity kIntel{.vendor = "GenuineIntel", .model = "Xeon", .is_virtual = false};

TEST(ProbesText, HasAParagraphForEachJobAndTheFixOfWhatIsRefused) {
  EXPECT_EQ(ProbesText(Probes(), kIntel, /*shows_all=*/true),
            "\naddress samples\n"
            "  clock      usable   clock (memory-stall time)\n"
            "  ibs        refused  AMD IBS\n"
            "                      ENOENT (No such file or directory)\n"
            "                      this CPU has none\n"
            "                      fix: use another\n"
            "\nmoves\n"
            "  shared     usable   moves\n");
}

TEST(ProbesText, SumsUpWhatIsImpossibleHere) {
  EXPECT_EQ(ProbesText(Probes(), kIntel, /*shows_all=*/false),
            "\naddress samples\n"
            "  clock      usable   clock (memory-stall time)\n"
            "\nmoves\n"
            "  shared     usable   moves\n"
            "\nnot possible on this machine (--all shows more)\n"
            "  no AMD CPU: ibs (address samples)\n");
}

TEST(ProbesJson, HasAnErrorOnlyWhereTheSystemGaveOne) {
  const Json json = ProbesJson(Probes(), kIntel);
  EXPECT_TRUE(json[0]["error"].is_null());
  EXPECT_EQ(json[1]["error"], "ENOENT (No such file or directory)");
  EXPECT_EQ(json[1]["usable"], false);
  EXPECT_EQ(json[1]["fix"], "use another");
  EXPECT_TRUE(json[0]["impossible"].is_null());
  EXPECT_EQ(json[1]["impossible"], "no AMD CPU");
}

}  // namespace probe_text_test
}  // namespace tmprof
