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

// Memory of the targets in which accessed bits are not observed, by kind. The numbers are pages of
// all targets together, the most at any time. nullopt: unknown.
struct UnobservableMemory {
  std::optional<PageCount> refused;  // the kernel refused to clear the bits; not `device`
  std::optional<PageCount> device;   // mappings of devices, which have no such bits to clear
  // Kinds whose bits the kernel may refuse to clear: sizes of mappings. All, some or none of them
  // may be in `refused`.
  std::optional<PageCount> locked;   // mlock(2), mlockall(2)
  std::optional<PageCount> hugetlb;  // in huge pages of hugetlbfs
  friend bool operator==(const UnobservableMemory&, const UnobservableMemory&) = default;
};

// Live children of targets that the process filter left out, at the time when there were most.
struct FilteredChildren {
  std::uint64_t processes = 0;
  PageCount resident;    // summed; a page that several of them share counts for each
  double cpu_share = 0;  // sum over all of them, in CPUs; 2 is two CPUs
  friend bool operator==(const FilteredChildren&, const FilteredChildren&) = default;
};

// The recorder's conclusion when it finished. A page counts once, however many epochs and processes
// saw it. nullopt: unknown.
struct RecordingOutcome {
  bool saw_enough = false;  // enough to rank pages
  std::string text;         // the last line of the recording
  // Pages whose accessed bit was read after a clear, and pages in which any source saw an access.
  // All pages of a region count.
  std::optional<PageCount> looked_at;
  std::optional<PageCount> accessed;
  std::optional<PageCount> resident;  // sum over all targets, the most at any time
  UnobservableMemory unobservable;
  std::optional<FilteredChildren> filtered;
  friend bool operator==(const RecordingOutcome&, const RecordingOutcome&) = default;
};

// The way in which reading ended. Epochs before damage, or before the recorder was stopped, remain
// valid.
struct StreamEnd {
  std::optional<Error> damage;               // it stopped the reading early
  std::optional<bool> finished;              // the recorder finished the file; unset: unknown
  std::optional<std::uint64_t> byte_offset;  // end of an unfinished file
  std::optional<RecordingOutcome> outcome;   // unset: the recorder did not write one
};

class EpochStream {
 public:
  virtual ~EpochStream() = default;

  // Overwrites `epoch` with the next one. Returns false at the end, and `epoch` is then
  // unspecified. After an error every further call returns that error: earlier epochs remain valid,
  // and no later data can be trusted.
  virtual Result<bool> Next(EpochProfile& epoch) = 0;

  // Precondition: Next() returned false. The result has no damage.
  virtual StreamEnd End() const { return {}; }
};

// Hands the rest of `stream` to visit(const EpochProfile&), in order.
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
