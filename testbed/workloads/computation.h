// SPDX-License-Identifier: Apache-2.0
// Shared parts of the workloads that compute something: options, memory, the loop and its reports.
// They have one thread. Their data decide how often each page is accessed; some workloads count
// accesses by their data.

#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <new>
#include <span>
#include <string>

#include "testbed/workloads/memory.h"
#include "testbed/workloads/program.h"
#include "testbed/workloads/truth.h"

namespace tmprof::workload {

// The bytes that Arena takes for an array: whole pages.
template <typename T>
constexpr std::uint64_t ArrayBytes(std::uint64_t count) {
  return (count * sizeof(T) + kBasePageBytes - 1) / kBasePageBytes * kBasePageBytes;
}

// Cuts arrays out of a zeroed memory, one after another, each on pages of its own.
// Precondition: the memory is aligned to pages and holds ArrayBytes of all that is taken.
class Arena {
 public:
  explicit Arena(void* memory) : next_(static_cast<std::byte*>(memory)) {}

  template <typename T>
  std::span<T> Take(std::uint64_t count) {
    T* array = std::launder(reinterpret_cast<T*>(next_));
    std::uninitialized_default_construct_n(array, count);
    next_ += ArrayBytes<T>(count);
    return {array, count};
  }

 private:
  std::byte* next_;
};

struct Progress {
  std::uint64_t units = 0;     // completed
  std::uint64_t accesses = 0;  // loads and stores of elements of the arrays
};

class Computation {
 public:
  virtual ~Computation() = default;

  virtual std::string name() const = 0;
  virtual std::string description() const = 0;
  // The unit of work, in the plural; also an option's name.
  virtual std::string unit() const = 0;
  virtual void AddOptions(CLI::App& app) = 0;

  // Chooses the largest problem within `footprint_bytes`, or the one that the options ask for:
  // the bytes it needs, or why there is none.
  virtual std::expected<std::uint64_t, std::string> Fit(std::uint64_t footprint_bytes) = 0;

  // Makes the problem in zeroed memory of the size that Fit said. Once.
  virtual void Build(Arena arena, std::uint64_t seed) = 0;

  // Goes on for some 10 to 1000 us, and completes at most `most_units`, which is above 0.
  virtual Progress Step(std::uint64_t most_units) = 0;

  // True if CountUnit() can be called.
  virtual bool Counts() const { return false; }
  // Completes what is under way, and counts the accesses of one unit by page, of loads and stores
  // of elements as Step() does. All units are alike, or nearly so.
  virtual void CountUnit(PageCounts& counts) { (void)counts; }

  // Checksum of all results so far.
  virtual std::uint64_t checksum() const = 0;

  // Further figures of the workload, as members of a JSON object: `"scale":20`.
  virtual std::string Figures() const = 0;
};

// The whole program. Exit status: 0 done (also when SIGINT or SIGTERM ended it early), 2 bad input,
// 1 the system refused something.
int RunComputation(Computation& computation, int argc, char** argv);

}  // namespace tmprof::workload
