// SPDX-License-Identifier: Apache-2.0
// A source of epoch profiles in order: a trace file, a live session, or a test's vector.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/epoch_profile.h"
#include "base/result.h"

namespace tmprof {

// Memory of the targets in which accessed bits are not observed, by kind. Pages of all targets
// together, the most at one time. nullopt: unknown.
struct UnobservableMemory {
  std::optional<PageCount> refused;  // the kernel refused to clear the bits; not `device`
  std::optional<PageCount> device;   // mappings of devices, which have no such bits to clear
  // Kinds whose bits the kernel may refuse to clear: sizes of mappings. All of it, a part or none
  // may be `refused`.
  std::optional<PageCount> locked;   // mlock(2), mlockall(2)
  std::optional<PageCount> hugetlb;  // in huge pages of hugetlbfs
  friend bool operator==(const UnobservableMemory&, const UnobservableMemory&) = default;
};

// Live children of targets that the process filter left out, at the time when they were most.
struct FilteredChildren {
  std::uint64_t processes = 0;
  PageCount resident;    // summed: pages that several of them share count for each
  double cpu_share = 0;  // of one CPU, of all of them together; 2 is two CPUs
  friend bool operator==(const FilteredChildren&, const FilteredChildren&) = default;
};

// The recorder's conclusion when it finished. Page counts count a page once, however many epochs
// and processes saw it. nullopt: unknown.
struct RecordingOutcome {
  bool saw_enough = false;  // to rank pages by
  std::string text;         // the line that the recording ended with
  // Pages of which an accessed bit was read after a clear, and those of which any source saw an
  // access. Of regions, all pages count.
  std::optional<PageCount> looked_at;
  std::optional<PageCount> accessed;
  std::optional<PageCount> resident;  // that all targets had together, the most at one time
  UnobservableMemory unobservable;
  std::optional<FilteredChildren> filtered;
  friend bool operator==(const RecordingOutcome&, const RecordingOutcome&) = default;
};

// How reading ended. Neither damage nor a recorder that was stopped takes anything from the epochs
// before.
struct StreamEnd {
  std::optional<Error> damage;               // what stopped the reading early
  std::optional<bool> finished;              // by the recorder; unset: unknown
  std::optional<std::uint64_t> byte_offset;  // of the end of an unfinished file
  std::optional<RecordingOutcome> outcome;   // unset: the recorder has not told
};

class EpochStream {
 public:
  virtual ~EpochStream() = default;

  // Overwrites `epoch` with the next one; false at the end, `epoch` then unspecified. After an
  // error every further call returns the same error: what came before it stands, nothing after it
  // can be trusted.
  virtual Result<bool> Next(EpochProfile& epoch) = 0;

  // After Next() returned false; has no damage.
  virtual StreamEnd End() const { return {}; }
};

// Hands what is left of `stream` to visit(const EpochProfile&), in order.
template <typename Visit>
StreamEnd ReadToEnd(EpochStream& stream, Visit visit) {
  EpochProfile epoch;
  while (true) {
    Result<bool> more = stream.Next(epoch);
    if (!more) {
      return {.damage = std::move(more.error()),
              .finished = std::nullopt,
              .byte_offset = std::nullopt,
              .outcome = std::nullopt};
    }
    if (!*more) return stream.End();
    visit(std::as_const(epoch));
  }
}

class VectorEpochStream final : public EpochStream {
 public:
  explicit VectorEpochStream(std::vector<EpochProfile> epochs) : epochs_(std::move(epochs)) {}

  Result<bool> Next(EpochProfile& epoch) override {
    if (next_ == epochs_.size()) return false;
    epoch = epochs_[next_++];
    return true;
  }

 private:
  std::vector<EpochProfile> epochs_;
  std::size_t next_ = 0;
};

}  // namespace tmprof
