// SPDX-License-Identifier: Apache-2.0
// Makes as many accesses as it is told to, and says how fast it got through them. For bench/exact.
//
// Usage: access_loops random-loads|random-updates|stream FOOTPRINT_MIB ACCESSES
// random-loads: of 8-byte words all over the footprint, a power of two; random-updates:
// read-modify-writes of such words, each a load and a store, so two accesses at one place; stream:
// loads of successive words, again and again. Nothing else in the loop touches memory.

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <string_view>

namespace {

// Knuth, MMIX.
constexpr std::uint64_t kMultiplier = 6364136223846793005u;
constexpr std::uint64_t kIncrement = 1442695040888963407u;

std::uint64_t* RandomWord(std::uint64_t* words, std::uint64_t mask, std::uint64_t& state) {
  state = state * kMultiplier + kIncrement;
  return words + (state >> 24 & mask);
}

void RandomLoads(std::uint64_t* words, std::uint64_t mask, std::uint64_t accesses) {
  std::uint64_t state = 1;
  for (std::uint64_t i = 0; i < accesses; ++i) {
    std::uint64_t word = 0;
    __asm__ volatile("movq (%1), %0" : "=r"(word) : "r"(RandomWord(words, mask, state)));
  }
}

void RandomUpdates(std::uint64_t* words, std::uint64_t mask, std::uint64_t accesses) {
  std::uint64_t state = 1;
  for (std::uint64_t i = 0; i < accesses / 2; ++i) {
    std::uint64_t* const word = RandomWord(words, mask, state);
    __asm__ volatile("xorq %0, (%1)" : : "r"(state), "r"(word) : "memory");
  }
}

void Stream(std::uint64_t* words, std::uint64_t mask, std::uint64_t accesses) {
  for (std::uint64_t i = 0; i < accesses; ++i) {
    std::uint64_t word = 0;
    __asm__ volatile("movq (%1), %0" : "=r"(word) : "r"(words + (i & mask)));
  }
}

// CPU time of the whole process: also of an emulator or a tool that the loop runs in.
double CpuSeconds() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
}

struct Pattern {
  std::string_view name;
  void (*run)(std::uint64_t* words, std::uint64_t mask, std::uint64_t accesses);
};

constexpr std::array kPatterns = {Pattern{"random-loads", RandomLoads},
                                  Pattern{"random-updates", RandomUpdates},
                                  Pattern{"stream", Stream}};

}  // namespace

int main(int argc, char** argv) {
  const auto* const pattern =
      argc == 4 ? std::ranges::find(kPatterns, std::string_view(argv[1]), &Pattern::name)
                : kPatterns.end();
  if (pattern == kPatterns.end()) {
    fmt::print(stderr,
               "usage: access_loops random-loads|random-updates|stream FOOTPRINT_MIB ACCESSES\n");
    return 2;
  }
  const std::size_t bytes = std::strtoull(argv[2], nullptr, 10) << 20;
  const std::uint64_t accesses = std::strtoull(argv[3], nullptr, 10);
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED || bytes == 0) return 1;
  auto* const words = static_cast<std::uint64_t*>(memory);
  constexpr std::size_t kPageWords = 4096 / sizeof(std::uint64_t);
  for (std::size_t i = 0; i < bytes / sizeof(std::uint64_t); i += kPageWords) words[i] = i;

  const std::uint64_t mask = bytes / sizeof(std::uint64_t) - 1;
  const double start = CpuSeconds();
  pattern->run(words, mask, accesses);
  fmt::print("{{\"accesses\": {}, \"cpu_seconds\": {}}}\n", accesses, CpuSeconds() - start);
  return 0;
}
