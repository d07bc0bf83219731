// SPDX-License-Identifier: Apache-2.0
// Finds the pages that processes share since fork(2): those with equal frames.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/epoch_profile.h"
#include "base/forked_pages.h"
#include "base/units.h"
#include "profiler/source.h"

namespace tmprof {

// Processes are compared with their parents, children and siblings only, and pages only at the same
// address of private mappings. Most frames come with the looks at accessed bits. Each is as of the
// last look at its page in the epoch: a write after that is seen with a later look.
//
// Relatives without a look at a page in the epoch are asked for its frame, if it would tell
// something new: the page may be the same, or may no longer be. A page that turns out to be so gets
// a record without evidence.
//
// Comparisons take at most 0.5 % of a CPU: epochs in between do not compare. One comparison takes
// at most `most_records` records, because it delays the end of the epoch. Families take turns, and
// so do the addresses of a larger family. bench/forked_pages measures the prices.
class FrameComparison {
 public:
  // At 97 ns each some 50 ms.
  static constexpr std::size_t kMostRecords = 500'000;

  FrameComparison();
  // `cpu_clock` shows the CPU time of the caller's thread, and must stay.
  explicit FrameComparison(const Clock& cpu_clock, std::size_t most_records = kMostRecords)
      : cpu_clock_(&cpu_clock), most_records_(most_records) {}

  using ParentOf = std::function<std::optional<Pid>(TargetId)>;
  // Returns the present frames of these base pages of a process. nullopt: the frame is hidden.
  // Empty: they could not be read.
  using ReadFrames = std::move_only_function<std::vector<std::optional<SeenFrame>>(VpnRange)>;
  // Returns an empty function if the frames of a process cannot be read.
  using OpenFrames = std::function<ReadFrames(const Target&)>;

  struct Outcome {
    std::uint64_t not_compared = 0;  // records of relatives that have to wait for their turn
    bool are_frames_hidden = false;  // relatives are asked no more, because they hide their frames
  };

  // Sets PageColumns::same_as if there is anything to compare, and it is time to. `frames` are
  // those of the records (BuildEpoch()). Nobody is asked if `open_frames` is empty, or if there are
  // more records than one comparison takes.
  Outcome Compare(EpochProfile& profile, std::span<const std::optional<SeenFrame>> frames,
                  const ParentOf& parent_of, const OpenFrames& open_frames);

 private:
  const Clock* cpu_clock_;
  std::size_t most_records_ = kMostRecords;
  MonotonicTime next_;
  ForkedPages told_;  // the joined pages, as the profiles so far tell of them
  bool are_frames_hidden_ = false;
  // The next comparison begins with the family of this root, at this address.
  Pid next_root_;
  Vpn next_page_;
};

// Opens /proc/PID/pagemap. The function is empty if it cannot be opened, or if the process is not
// the target any more. The kernel hides frames without CAP_SYS_ADMIN.
FrameComparison::ReadFrames OpenPagemap(const Target& target,
                                        const std::filesystem::path& proc = "/proc");

}  // namespace tmprof
