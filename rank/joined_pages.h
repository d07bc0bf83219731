// SPDX-License-Identifier: Apache-2.0
// The pages that several processes map. The evidence of all mappers fades and is followed together.
// Only rank/ uses it.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "base/epoch_profile.h"
#include "base/shared_pages.h"
#include "rank/ageing.h"
#include "rank/evidence.h"
#include "rank/page_mappers.h"
#include "rank/rate_change.h"
#include "rank/shared_rates.h"
#include "rank/target_times.h"

namespace tmprof {

class JoinedPages {
 public:
  // Evidence by mapper: before this epoch, in this epoch alone, and all of it.
  struct Epoch {
    const EvidenceTable& older;
    const EvidenceTable& latest;
    const EvidenceTable& all;
  };
  // Forgets everything except the mappings.
  void Forget();
  void Take(const EpochProfile& profile, const EvidenceTable& all, const TargetTimes& times);
  enum class Memory : std::uint8_t {
    kOfProcesses,  // evidence fades like that of the processes
    kLearned,      // evidence fades by the learned rate of its file
  };
  // Adds an epoch. `keeps` and `ages` are those of the processes. kLearned needs `follow_changes`.
  void Absorb(const EpochProfile& profile, const Epoch& epoch, const Keeps& keeps, const Ages& ages,
              const TargetTimes& times, bool follow_changes, Memory memory);

  bool empty() const { return pages_.size() == 0; }

  // Returns the rows of `all` that are joined, and their mappers.
  const PageMappers& mappers() const { return mappers_; }
  const SharedRates& rates() const { return rates_; }
  const SharedPages& shared_pages() const { return shared_; }
  // Returns a row for each page of a file, on the file's clock. Ascending by name.
  const EvidenceTable& pages() const { return pages_; }
  const SuspectedChanges& suspected() const { return changes_.suspected(); }

  // A piece of mappers() and the row of pages() that holds it.
  struct Place {
    std::uint32_t piece;
    std::uint32_t page;
  };
  // Returns places, ascending by both.
  const std::vector<Place>& places() const { return places_; }
  // Returns the pages of the file that are in both.
  VpnRange PagesAt(Place place) const;
  // Returns the part of the file's clock that runs for the mappers of a row of pages(); 0: none of
  // it.
  double PartOfClock(std::size_t page) const { return part_of_clock_[page]; }
  // Returns how many of the pages the target maps, whichever mapper's evidence made them known.
  double MappedBy(TargetId target) const;
  double known_pages() const;  // each page once
  // Both return a value for each row of pages(): the file's clock in the last epoch, and the part
  // of the clock that samples watched, as far as it ran for mappers of the row. The second is
  // remembered like the file's evidence.
  std::vector<double> Running() const;
  std::vector<double> Watched() const;

  // Returns the clock of a file of mappers(): in the last epoch, and remembered like the file's
  // evidence.
  TargetTime Clock(std::size_t file) const;

  // Returns `table` with one row for each page, on its file's clock, and adds the clocks to
  // `times`. `all`: the times of all targets that were ever listed.
  EvidenceTable ByPage(EvidenceTable table, const TargetTimes& all, TargetTimes& times) const;

 private:
  bool FollowMappings(const EpochProfile& profile, const EvidenceTable& all);
  // `mappers_hold`: processes map the pages that they mapped before, and the rows are unchanged.
  void LearnRates(const EvidenceTable& all, const TargetTimes& times, bool mappers_hold);
  void FindPlaces();
  PageKey EndOfPiece(std::uint32_t piece) const;
  EvidenceTable Join(const EvidenceTable& table) const;
  double ActivityOf(TargetId file, TargetId target) const;
  void FollowPieces(const EvidenceTable& older);
  void FollowClocks(const EpochProfile& profile, const Keeps& keeps_of_files,
                    const TargetTimes& times);
  // Returns the mean over the pages of each row of pages(), from values by piece.
  std::vector<double> MeanByPage(std::span<const double> by_piece) const;
  // Adds up a time over the mappers of each row of pages(), in terms of the file's clock.
  std::vector<double> OnClock(double TargetTime::* time) const;

  SharedPages shared_;
  std::vector<std::tuple<TargetId, TargetId, Vpn, Vpn, Vpn>> parts_;  // the parts of shared_
  PageMappers mappers_;
  SharedRates rates_;
  EvidenceTable pages_;
  EvidenceTable spare_;
  RateChanges changes_;
  std::vector<Place> places_;
  std::vector<double> part_of_clock_;
  // Keys are file and mapper; remembered times fade as the file's evidence does, which may be
  // sooner or later than the process's other evidence.
  std::map<std::pair<TargetId, TargetId>, TargetTime> times_;
  bool is_fed_ = false;
};

}  // namespace tmprof
