// SPDX-License-Identifier: Apache-2.0
// Evidence about spans: the counts and times of one epoch, or of several added up.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/epoch_profile.h"
#include "base/page_key.h"
#include "rank/ageing.h"

namespace tmprof {

// All evidence about one span, possibly summed over epochs with weights below one. A field is a
// total over the span's base pages, so that evidence can be split and joined with them.
struct Evidence {
  double looks = 0;  // A-bit reads of each base page, added up
  double references = 0;
  // First accesses that were found after the first read of a visit, or for which it is unknown
  // which read found them.
  double first_accesses = 0;
  // Target CPU time of each base page watched for these, added up. A visit that ended with a find
  // counts up to the middle between the read that found and the one before.
  double page_seconds_at_risk = 0;
  // Times from that middle to the read, of first accesses that later reads found, and their
  // squares.
  double page_seconds_to_read = 0;
  double page_square_seconds_to_read = 0;
  // First accesses that the first read after a clear found, and half of the time between. A page
  // that each first read finds may be of any rate above the reads' own.
  double first_read_finds = 0;
  double first_read_page_seconds = 0;
  // Fast tries (PageColumns::FastTries), those that found an access, and target CPU time waited.
  double fast_looks = 0;
  double fast_found = 0;
  double fast_seconds = 0;
  double fast_earlier = 0;  // all of them found one
  double fast_earlier_seconds = 0;
  double load_samples = 0;
  double store_samples = 0;
  double accesses = 0;  // exact
  double misses = 0;    // accesses that missed the modelled LLC; 0, too, if none was modelled
  double stall_ns = 0;  // time for which accesses stalled the program; 0, too, if none was modelled

  double samples() const { return load_samples + store_samples; }
  double all_page_seconds_at_risk() const { return page_seconds_at_risk + first_read_page_seconds; }

  // Returns a part of the evidence by accessed bits, and nothing else.
  Evidence Bits(double part) const;
  // Replaces its bits by those of `bits`.
  void ReplaceBits(const Evidence& bits);

  // Adds a part of `more`; exact counts may have another part.
  void Add(const Evidence& more, double part, double part_of_accesses);
  // Converts to a clock that runs `factor` times as fast. Without a clock, looks stand for times.
  void ScaleTimes(double factor);
  // Moves out samples and exact counts: even in a region each belongs to the page where it was
  // seen.
  Evidence TakeOwn();
};

// Spans with evidence, strictly ascending by key, not overlapping.
struct EvidenceTable {
  std::vector<PageKey> key;
  std::vector<std::uint32_t> span_pages;
  std::vector<Evidence> evidence;

  std::size_t size() const { return key.size(); }
};

void Clear(EvidenceTable& table);  // keeps its memory

// Adds up the samples of spans whose accessed bits were read.
double SamplesOfLookedAt(const EvidenceTable& table);
// Returns the pages whose accessed bits were read, for each of these targets separately.
PageCount PagesLookedAt(const EvidenceTable& table, const std::function<bool(TargetId)>& counts);

inline PageKey EndOf(const EvidenceTable& table, std::size_t row) {
  return {table.key[row].target, table.key[row].vpn + PageCount(table.span_pages[row])};
}

// Precondition: `key` is at or past the end of the last span.
void Push(EvidenceTable& table, PageKey key, std::uint32_t span_pages, const Evidence& evidence);

enum class Visits : std::uint8_t {
  kAll,
  kNew,  // their first read was in the epoch (PageColumns::NewVisits)
};

// Returns the visits that no earlier epoch has evidence of, as far as `pages` tells when visits
// began: kNew, or kAll.
Visits VisitsToJudgeBy(const PageColumns& pages);

// Overwrites `table`, in its own memory. Precondition: `visits` is kAll, or it is known which are
// new. A page that no new visit has timed evidence of then counts as not looked at.
void TakeEvidence(const EpochProfile& profile, EvidenceTable& table, Visits visits = Visits::kAll);

// Overwrites `joined` with the sum of both. If a newer span overlaps older spans with other bounds
// (a huge page split or collapsed), the old evidence is spread evenly over its pages and follows
// them. If the newer span is a region, evidence that belongs to single older pages is appended to
// `apart`. Faded evidence is dropped when next to nothing of it is left.
void Join(const EvidenceTable& older, const Keeps& keeps, const EvidenceTable& newer,
          EvidenceTable& joined, EvidenceTable& apart);

// Adds `newer` to `sum` and returns true if each of its spans is also one of `sum`; else changes
// nothing. The result is that of Join(), at the cost of the newer spans alone.
bool AddAlike(const EvidenceTable& newer, EvidenceTable& sum);

// Walks a table in step with ascending ranges of pages, and hands out shares of its evidence. The
// table and the keeps must outlive the walk.
class EvidenceWalk {
 public:
  // `keeps` null: all evidence is kept.
  explicit EvidenceWalk(const EvidenceTable& table, const Keeps* keeps = nullptr)
      : table_(&table), keeps_(keeps) {}

  // Leaves out the evidence before `until`.
  void SkipBefore(PageKey until);
  // Moves evidence before `until` to `out` as rows of its own, if enough of it is left.
  void EmitBefore(PageKey until, EvidenceTable& out);
  // Adds evidence within [key, key + span_pages) to `evidence`. Evidence of single pages goes to
  // `apart` unless that is null. Precondition: no evidence lies before.
  void AddWithin(PageKey key, std::uint64_t span_pages, Evidence& evidence,
                 EvidenceTable* apart = nullptr);

 private:
  bool AtEnd() const { return row_ == table_->size(); }
  PageKey Start() const {
    return {table_->key[row_].target, table_->key[row_].vpn + PageCount(taken_)};
  }
  std::uint64_t PagesLeft() const { return table_->span_pages[row_] - taken_; }
  void Take(std::uint64_t pages, Evidence& to);
  const Keep& KeepOfRow();

  const EvidenceTable* table_;
  const Keeps* keeps_;
  Keep keep_;                       // how much of the evidence of `target_` is kept
  std::optional<TargetId> target_;  // target of the last row asked for
  std::size_t row_ = 0;
  std::uint64_t taken_ = 0;  // pages of that row already handed out
};

}  // namespace tmprof
