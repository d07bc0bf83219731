// SPDX-License-Identifier: Apache-2.0
#include "driver/core/sample_ring.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <deque>
#include <random>
#include <thread>
#include <vector>

namespace tmprof {
namespace sample_ring_test {

/** A torn one shows: its words no longer follow from the first. */
struct Record {
  std::uint64_t number;
  std::array<std::uint64_t, 6> derived;
};

Record Numbered(std::uint64_t number) {
  Record record{.number = number, .derived = {}};
  for (std::size_t i = 0; i < record.derived.size(); ++i) {
    record.derived[i] = number * 0x9e3779b97f4a7c15 + i;
  }
  return record;
}

bool Whole(const Record& record) { return record.derived == Numbered(record.number).derived; }

class Ring {
 public:
  explicit Ring(std::uint32_t capacity) : records_(capacity) {
    tmprof_ring_init(&ring_, records_.data(), sizeof(Record), capacity);
  }
  tmprof_ring* get() { return &ring_; }

  bool Push(std::uint64_t number) {
    void* slot = tmprof_ring_reserve(&ring_);
    if (!slot) return false;
    *static_cast<Record*>(slot) = Numbered(number);
    tmprof_ring_commit(&ring_);
    return true;
  }

  /** False when there is none. */
  bool Pop(Record& record) {
    const void* slot = tmprof_ring_peek(&ring_);
    if (!slot) return false;
    record = *static_cast<const Record*>(slot);
    tmprof_ring_take(&ring_);
    return true;
  }

 private:
  std::vector<Record> records_;
  tmprof_ring ring_{};
};

TEST(SampleRingTest, AnEmptyRingHasNothingToGive) {
  Ring ring(4);
  EXPECT_EQ(tmprof_ring_peek(ring.get()), nullptr);
  EXPECT_EQ(tmprof_ring_lost(ring.get()), 0U);
}

TEST(SampleRingTest, AFullRingKeepsTheOldestAndCountsWhatItLoses) {
  Ring ring(4);
  for (std::uint64_t i = 0; i < 4; ++i) EXPECT_TRUE(ring.Push(i));
  for (std::uint64_t i = 4; i < 7; ++i) EXPECT_FALSE(ring.Push(i));
  EXPECT_EQ(ring.get()->lost_full, 3U);
  EXPECT_EQ(ring.get()->lost_nested, 0U);
  Record record;
  for (std::uint64_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(ring.Pop(record));
    EXPECT_EQ(record.number, i);
  }
  EXPECT_FALSE(ring.Pop(record));
  EXPECT_TRUE(ring.Push(7)) << "still full after it was emptied";
}

TEST(SampleRingTest, ARecordIsNotSeenBeforeItIsCommitted) {
  Ring ring(4);
  ASSERT_NE(tmprof_ring_reserve(ring.get()), nullptr);
  EXPECT_EQ(tmprof_ring_peek(ring.get()), nullptr);
  tmprof_ring_commit(ring.get());
  EXPECT_NE(tmprof_ring_peek(ring.get()), nullptr);
}

TEST(SampleRingTest, AHandlerThatInterruptsAnotherLosesItsRecordNotTheOthers) {
  Ring ring(4);
  auto* outer = static_cast<Record*>(tmprof_ring_reserve(ring.get()));
  ASSERT_NE(outer, nullptr);
  EXPECT_EQ(tmprof_ring_reserve(ring.get()), nullptr);
  *outer = Numbered(1);
  tmprof_ring_commit(ring.get());
  EXPECT_EQ(ring.get()->lost_nested, 1U);
  EXPECT_EQ(ring.get()->lost_full, 0U);
  EXPECT_EQ(tmprof_ring_lost(ring.get()), 1U);
  Record record;
  ASSERT_TRUE(ring.Pop(record));
  EXPECT_EQ(record.number, 1U);
  EXPECT_FALSE(ring.Pop(record));
  EXPECT_TRUE(ring.Push(2)) << "busy for good";
}

TEST(SampleRingTest, AFullRingIsNotLeftBusy) {
  Ring ring(1);
  EXPECT_TRUE(ring.Push(1));
  EXPECT_FALSE(ring.Push(2));
  EXPECT_FALSE(ring.Push(3));
  EXPECT_EQ(ring.get()->lost_full, 2U);
  EXPECT_EQ(ring.get()->lost_nested, 0U);
}

TEST(SampleRingTest, CountersThatWrapLoseNothing) {
  // Starts just below 2^32, where the numbers of records start over.
  for (const std::uint32_t capacity : {1U, 2U, 8U}) {
    Ring ring(capacity);
    ring.get()->head = ring.get()->tail = 0xffffffffU - 5;
    Record record;
    for (std::uint64_t i = 0; i < 40; ++i) {
      for (std::uint64_t j = 0; j < capacity; ++j) ASSERT_TRUE(ring.Push(i * capacity + j));
      EXPECT_FALSE(ring.Push(999));
      for (std::uint64_t j = 0; j < capacity; ++j) {
        ASSERT_TRUE(ring.Pop(record));
        ASSERT_EQ(record.number, i * capacity + j);
      }
      ASSERT_FALSE(ring.Pop(record));
    }
  }
}

TEST(SampleRingTest, AgreesWithAQueueUnderRandomUse) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::mt19937_64 random(seed);
    const std::uint32_t capacity = 1U << random() % 6;
    Ring ring(capacity);
    std::deque<std::uint64_t> model;
    std::uint64_t lost = 0;
    for (std::uint64_t i = 0; i < 5'000; ++i) {
      if (random() % 2 == 0) {
        const bool pushed = ring.Push(i);
        ASSERT_EQ(pushed, model.size() < capacity);
        if (pushed) {
          model.push_back(i);
        } else {
          ++lost;
        }
      } else {
        Record record;
        ASSERT_EQ(ring.Pop(record), !model.empty());
        if (model.empty()) continue;
        ASSERT_EQ(record.number, model.front());
        model.pop_front();
      }
      ASSERT_EQ(tmprof_ring_lost(ring.get()), lost);
    }
  }
}

class SampleRingThreadTest : public testing::TestWithParam<std::uint32_t> {};

TEST_P(SampleRingThreadTest, AConsumerElsewhereSeesWholeRecordsInOrderAndTheRestCounted) {
  constexpr std::uint64_t kRecords = 200'000;
  Ring ring(GetParam());
  std::atomic<bool> done = false;
  std::uint64_t refused = 0;
  std::jthread producer([&] {
    for (std::uint64_t i = 1; i <= kRecords; ++i) refused += !ring.Push(i);
    done.store(true, std::memory_order_release);
  });
  std::uint64_t taken = 0;
  std::uint64_t latest = 0;
  std::uint64_t torn = 0;
  std::uint64_t out_of_order = 0;
  std::uint64_t lost_seen = 0;
  for (bool last_round = false; !last_round;) {
    last_round = done.load(std::memory_order_acquire);
    Record record;
    while (ring.Pop(record)) {
      ++taken;
      torn += !Whole(record);
      out_of_order += record.number <= latest;
      latest = record.number;
    }
    const std::uint64_t lost = tmprof_ring_lost(ring.get());
    EXPECT_GE(lost, lost_seen);
    lost_seen = lost;
    std::this_thread::yield();
  }
  producer.join();
  EXPECT_EQ(torn, 0U);
  EXPECT_EQ(out_of_order, 0U);
  EXPECT_EQ(taken + tmprof_ring_lost(ring.get()), kRecords);
  EXPECT_EQ(tmprof_ring_lost(ring.get()), refused);
  EXPECT_GT(taken, 0U);
}

INSTANTIATE_TEST_SUITE_P(Capacities, SampleRingThreadTest, testing::Values(1U, 2U, 64U, 4096U));

}  // namespace sample_ring_test
}  // namespace tmprof
