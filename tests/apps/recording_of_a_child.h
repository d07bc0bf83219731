// SPDX-License-Identifier: Apache-2.0
// Tests of `tmprof record` that observe a busy program of known memory.

#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/apps/program.h"
#include "tests/apps/recording.h"

namespace tmprof::test {

// C source of a program that tells where it accesses 8 MiB for a second and a half.
inline constexpr const char* kBusySource = R"(#include <stdio.h>
#include <stdlib.h>
#include <time.h>
int main(void) {
  const size_t size = 8 << 20;
  char* memory = malloc(size);
  printf("%p\n", (void*)memory);
  fflush(stdout);
  struct timespec start, now;
  clock_gettime(CLOCK_MONOTONIC, &start);
  do {
    for (size_t i = 0; i < size; i += 4096) ++memory[i];
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 < 1500);
  return 0;
}
)";

// Records `busy`, or a shell that starts it.
class RecordingOfAChild : public Recording {
 protected:
  // Returns false without that compiler.
  bool Build(const std::string& compiler) {
    WriteFile(folder_.File("busy.c"), kBusySource);
    const std::string command = compiler + " -O1 -o " + busy_ + " " + folder_.File("busy.c");
    return RunProgram({"sh", "-c", command}).status == 0;
  }
  // Returns the pages of each target that were seen accessed, by its name.
  static std::map<std::string, std::uint64_t> PagesSeenOf(const std::string& trace) {
    std::map<std::string, std::uint64_t> pages;
    const auto report = nlohmann::json::parse(
        Tmprof({"report", trace, "--view", "hot", "--limit", "0", "--format", "json"}).out);
    for (const auto& row : report["rows"])
      pages[row["name"].get<std::string>()] += row["span"].get<std::uint64_t>();
    return pages;
  }
  // The share of the pages seen accessed that lie where `busy` said, in its first line, that its
  // memory is.
  static double ShareInItsMemory(const std::string& trace, const std::string& said) {
    const std::uint64_t first = std::stoull(said, nullptr, 16) / 4096;
    const auto report = nlohmann::json::parse(
        Tmprof({"report", trace, "--view", "hot", "--limit", "0", "--format", "json"}).out);
    std::uint64_t inside = 0;
    std::uint64_t all = 0;
    for (const auto& row : report["rows"]) {
      const auto pages = row["span"].get<std::uint64_t>();
      const std::uint64_t page = std::stoull(row["start"].get<std::string>(), nullptr, 16) / 4096;
      all += pages;
      if (first <= page && page + pages <= first + 2049) inside += pages;
    }
    EXPECT_GT(all, 0u);
    return static_cast<double>(inside) / static_cast<double>(std::max(all, std::uint64_t{1}));
  }

  std::string busy_ = folder_.File("busy");
};

}  // namespace tmprof::test
