// SPDX-License-Identifier: Apache-2.0

#include "rank/evidence.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>

#include "base/epoch_profile.h"
#include "base/log_duration.h"
#include "profiles.h"

namespace tmprof {
namespace evidence_test {

using std::chrono::microseconds;

constexpr double kCodeError = 0.022;  // error of a LogDuration

// Three first accesses in so many microseconds, two of them found by first reads 400 us after their
// clears.
PageRecord FoundByFirstReads(std::uint64_t span, microseconds at_risk, microseconds later) {
  PageRecord record = Visited(0, 3, at_risk);
  record.span = PageCount(span);
  record.first_read_finds = 2;
  record.first_read_time = LogDuration::FromNanoseconds(microseconds(800));
  record.later_read_time = LogDuration::FromNanoseconds(later);
  return record;
}

Evidence Of(const PageRecord& record) {
  EvidenceTable table;
  TakeEvidence(Epoch(0, {record}), table);
  EXPECT_EQ(table.size(), 1u);
  return table.evidence.front();
}

// 400 us for the finds of first reads, and 1000 + 3000 / 2 for the other one.
TEST(TakeEvidence, TellsApartWhatFirstReadsFound) {
  for (const std::uint64_t span : {1, 512}) {
    const Evidence evidence = Of(FoundByFirstReads(span, microseconds(2900), microseconds(3000)));
    const double pages = static_cast<double>(span);
    EXPECT_EQ(evidence.first_read_finds, 2);
    EXPECT_NEAR(evidence.first_read_page_seconds, 400e-6 * pages, 400e-6 * pages * kCodeError);
    EXPECT_EQ(evidence.first_accesses, 1);
    EXPECT_NEAR(evidence.page_seconds_at_risk, 2500e-6 * pages, 3300e-6 * pages * kCodeError);
    EXPECT_NEAR(evidence.page_seconds_to_read, 1500e-6 * pages, 1500e-6 * pages * kCodeError);
    EXPECT_NEAR(evidence.page_square_seconds_to_read,
                evidence.page_seconds_to_read * evidence.page_seconds_to_read,
                1e-12 * pages * pages);
  }
}

// The codes of equal times may tell of times some per cent apart.
TEST(TakeEvidence, TakesLaterReadsOfARecordForEquallyFarFromTheOnesBefore) {
  PageRecord record = FoundByFirstReads(1, microseconds(8000), microseconds(6000));
  record.first_accesses = record.references = 5;
  const Evidence evidence = Of(record);
  EXPECT_EQ(evidence.first_accesses, 3);
  EXPECT_NEAR(evidence.page_square_seconds_to_read, 3 * 1e-6, 3 * 1e-6 * 2 * kCodeError);
}

TEST(TakeEvidence, SeesNoOtherTimeWhereFirstReadsFoundAll) {
  for (int us = 250; us < 1000; us += 7) {
    PageRecord record = Visited(0, 4, std::chrono::nanoseconds(2'040 * us));
    record.first_read_finds = 4;
    record.first_read_time = LogDuration::FromNanoseconds(microseconds(4 * us));
    const Evidence evidence = Of(record);
    EXPECT_EQ(evidence.first_accesses, 0) << us;
    EXPECT_EQ(evidence.page_seconds_at_risk, 0) << us;
  }
}

TEST(TakeEvidence, LeavesFirstAccessesAsTheyAreWhereNobodyToldWhichReadsFound) {
  const Evidence evidence = Of(Visited(0, 3, microseconds(2900)));
  EXPECT_EQ(evidence.first_accesses, 3);
  EXPECT_EQ(evidence.first_read_finds, 0);
  EXPECT_EQ(evidence.page_seconds_to_read, 0);
}

// A recorder does not write such records.
TEST(TakeEvidence, TakesTimesThatContradictOneAnotherForTheLongest) {
  const Evidence shorter = Of(FoundByFirstReads(1, microseconds(10), microseconds(3000)));
  EXPECT_NEAR(shorter.page_seconds_at_risk, 1500e-6, 1500e-6 * kCodeError);
  PageRecord timeless = FoundByFirstReads(1, microseconds(2900), microseconds(0));
  timeless.first_read_time = LogDuration();
  EXPECT_EQ(Of(timeless).first_accesses, 3);
  EXPECT_EQ(Of(timeless).first_read_finds, 0);
}

}  // namespace evidence_test
}  // namespace tmprof
