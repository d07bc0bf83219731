// SPDX-License-Identifier: Apache-2.0

#include "mover/payback.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <map>
#include <random>

namespace tmprof {
namespace payback_test {

using Elsewhere = Payback::Elsewhere;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr NodeId kFast{0};
constexpr NodeId kSlow{1};

PageKey Key(std::uint64_t vpn, std::uint32_t target = 1) { return {TargetId(target), Vpn(vpn)}; }

MoveOutcome Promotion(PageKey key, PageCount span = PageCount(1), int error = 0) {
  return {.move = {.key = key, .span = span, .from = kSlow, .to = kFast},
          .error = error,
          .attempts = 1};
}

MoveOutcome Demotion(PageKey key) {
  MoveOutcome outcome = Promotion(key);
  std::swap(outcome.move.from, outcome.move.to);
  return outcome;
}

SeenSpan Seen(PageKey key, double seen, double score, PageCount span = PageCount(1)) {
  return {.key = key, .span = span, .seen = seen, .score = score};
}

TEST(PaybackTest, WatchesASharedPageByItsNameAndSettlesItByItsMove) {
  const PageKey name = Key(40, std::uint32_t{1} << 31);
  const auto shared = [name](PageKey key) {
    MoveOutcome outcome = Promotion(key);
    outcome.move.shared_page = name;
    return outcome;
  };
  Payback payback(10);
  payback.Note(shared(Key(5, 1)), 0);
  payback.Observe(1, {{Seen(Key(5, 1), 7, 7), Seen(name, 2, 20)}}, Elsewhere::kUnknown);
  payback.Forget(TargetId(1));
  EXPECT_THAT(payback.TakeSettled(), IsEmpty()) << "other targets map the page";
  EXPECT_TRUE(payback.Watches(TargetId(1)));
  payback.Observe(2, {{Seen(name, 3, 30)}}, Elsewhere::kUnknown);
  payback.Note(shared(Key(9, 2)), 3);  // through another mapping
  const std::vector<SettledMove> settled = payback.TakeSettled();
  ASSERT_THAT(settled, SizeIs(1));
  EXPECT_EQ(settled[0].key, Key(5, 1));
  EXPECT_EQ(settled[0].cause, SettledCause::kMoved);
  EXPECT_EQ(settled[0].seen, 5);
  EXPECT_EQ(settled[0].epochs_known, 2U);
  EXPECT_FALSE(payback.Watches(TargetId(1)));
  payback.Forget(name.target);
  EXPECT_THAT(payback.TakeSettled(), SizeIs(1)) << "nobody maps the file any more";
  EXPECT_FALSE(payback.Watches(TargetId(2)));
}

TEST(PaybackTest, AddsUpTheWholeEpochsBetweenAMoveAndTheNext) {
  Payback payback(10);
  payback.Note(Promotion(Key(5)), 3);
  payback.Observe(3, {{Seen(Key(5), 100, 1000)}}, Elsewhere::kUnknown);  // its own epoch
  payback.Observe(4, {{Seen(Key(5), 2, 20)}}, Elsewhere::kUnknown);
  payback.Observe(6, {{Seen(Key(5), 1, 7)}}, Elsewhere::kUnknown);  // epoch 5 was lost
  EXPECT_THAT(payback.TakeSettled(), IsEmpty());
  payback.Note(Demotion(Key(5)), 7);
  payback.Observe(7, {{Seen(Key(5), 100, 1000)}}, Elsewhere::kUnknown);
  EXPECT_THAT(payback.TakeSettled(), testing::ElementsAre(SettledMove{.key = Key(5),
                                                                      .from = kSlow,
                                                                      .to = kFast,
                                                                      .moved_in = 3,
                                                                      .cause = SettledCause::kMoved,
                                                                      .epochs = 2,
                                                                      .epochs_known = 2,
                                                                      .seen = 3,
                                                                      .weight = 27}));
  EXPECT_EQ(payback.watched(), 1U) << "the demotion";
  EXPECT_THAT(payback.TakeSettled(), IsEmpty());
}

TEST(PaybackTest, UnknownIsNotUnseen) {
  Payback payback(10);
  payback.Note(Promotion(Key(5)), 0);
  payback.Observe(1, {{Seen(Key(4), 9, 9)}}, Elsewhere::kUnknown);
  payback.Observe(2, {}, Elsewhere::kUnseen);
  payback.Observe(3, {{Seen(Key(5), 0, 0.5)}}, Elsewhere::kUnknown);
  payback.End();
  const std::vector<SettledMove> settled = payback.TakeSettled();
  ASSERT_THAT(settled, SizeIs(1));
  EXPECT_EQ(settled[0].epochs, 3U);
  EXPECT_EQ(settled[0].epochs_known, 2U);
  EXPECT_EQ(settled[0].seen, 0);
  EXPECT_EQ(settled[0].weight, 0.5);
  EXPECT_EQ(settled[0].cause, SettledCause::kEnd);
}

TEST(PaybackTest, PagesThatDidNotMoveStayWatchedWhereTheyAre) {
  Payback payback(10);
  payback.Note(Promotion(Key(5)), 0);
  payback.Note(Promotion(Key(5), PageCount(1), EBUSY), 1);
  payback.Note(Promotion(Key(6), PageCount(1), ECANCELED), 1);
  EXPECT_THAT(payback.TakeSettled(), IsEmpty());
  EXPECT_EQ(payback.watched(), 1U);
}

TEST(PaybackTest, SpansOfOtherBoundsCountByPages) {
  Payback payback(10);
  payback.Note(Promotion(Key(512), PageCount(512)), 0);
  payback.Note(Promotion(Key(1024)), 0);
  // 256 of its pages, all of a page, and one page each of a span that holds both.
  payback.Observe(1,
                  {{Seen(Key(0), 4, 40, PageCount(768)), Seen(Key(800), 3, 30),
                    Seen(Key(1023), 2, 20, PageCount(2))}},
                  Elsewhere::kUnknown);
  payback.End();
  const std::vector<SettledMove> settled = payback.TakeSettled();
  ASSERT_THAT(settled, SizeIs(2));
  EXPECT_DOUBLE_EQ(settled[0].seen, 4.0 / 3 + 3 + 1);
  EXPECT_DOUBLE_EQ(settled[0].weight, 40.0 / 3 + 30 + 10);
  EXPECT_DOUBLE_EQ(settled[1].seen, 1);
}

TEST(PaybackTest, AMoveOfAPartSettlesTheWhole) {
  Payback payback(10);
  payback.Note(Promotion(Key(512), PageCount(512)), 0);
  payback.Note(Promotion(Key(1024)), 0);
  payback.Note(Demotion(Key(1023)), 1);
  const std::vector<SettledMove> settled = payback.TakeSettled();
  ASSERT_THAT(settled, SizeIs(1));
  EXPECT_EQ(settled[0].key, Key(512));
  EXPECT_EQ(settled[0].epochs, 0U);
  EXPECT_EQ(settled[0].epochs_known, 0U);
}

TEST(PaybackTest, ATargetThatIsGoneIsSettledAndNoOther) {
  Payback payback(10);
  for (const std::uint32_t target : {1, 2, 3}) payback.Note(Promotion(Key(5, target)), 0);
  payback.Forget(TargetId(2));
  const std::vector<SettledMove> settled = payback.TakeSettled();
  ASSERT_THAT(settled, SizeIs(1));
  EXPECT_EQ(settled[0].key, Key(5, 2));
  EXPECT_EQ(settled[0].cause, SettledCause::kGone);
  EXPECT_EQ(payback.watched(), 2U);
}

TEST(PaybackTest, TheOldestGivesWayAndSaysSo) {
  Payback payback(2);
  payback.Note(Promotion(Key(9)), 0);
  payback.Note(Promotion(Key(1)), 1);
  payback.Observe(1, {{Seen(Key(9), 5, 6)}}, Elsewhere::kUnknown);
  payback.Note(Promotion(Key(4)), 2);
  const std::vector<SettledMove> settled = payback.TakeSettled();
  ASSERT_THAT(settled, SizeIs(1));
  EXPECT_EQ(settled[0].key, Key(9));
  EXPECT_EQ(settled[0].cause, SettledCause::kForgotten);
  EXPECT_EQ(settled[0].seen, 5) << "what was seen so far is kept";
  EXPECT_EQ(payback.watched(), 2U);
}

// A second way to it: each page by itself.
TEST(PaybackTest, AgreesWithCountingPageByPage) {
  std::mt19937 random(11);
  Payback payback(10'000);
  std::size_t compared = 0;
  std::map<std::pair<std::uint64_t, std::uint64_t>, double> seen_of;  // key: epoch and page
  constexpr std::uint64_t kPages = 64;
  for (std::uint64_t epoch = 0; epoch < 60; ++epoch) {
    // Aligned spans of 1 or 4 pages, so that those that overlap hold one another.
    for (int i = 0; i < 4; ++i) {
      const std::uint64_t span = random() % 2 == 0 ? 1 : 4;
      const std::uint64_t first = random() % (kPages / span) * span;
      payback.Note(Promotion(Key(first), PageCount(span)), epoch);
    }
    std::vector<SeenSpan> spans;
    for (std::uint64_t at = 0; at < kPages;) {
      const std::uint64_t span = 1 + random() % 6;
      if (random() % 2 == 0) {
        spans.push_back(Seen(Key(at), static_cast<double>(random() % 5), 0, PageCount(span)));
      }
      at += span;
    }
    payback.Observe(epoch, spans, Elsewhere::kUnseen);
    for (const SettledMove& settled : payback.TakeSettled()) {
      double seen = 0;
      for (std::uint64_t page = settled.key.vpn.value();
           page < settled.key.vpn.value() + settled.span.value(); ++page) {
        for (const auto& [when, what] : seen_of) {
          if (when.second == page && when.first > settled.moved_in && when.first < epoch) {
            seen += what;
          }
        }
      }
      EXPECT_NEAR(settled.seen, seen, 1e-9);
      if (seen > 0) ++compared;
      if (settled.moved_in < epoch) {
        EXPECT_EQ(settled.epochs, epoch - settled.moved_in - 1);
      } else {
        EXPECT_EQ(settled.epochs, 0U);
      }
    }
    for (const SeenSpan& span : spans) {
      for (std::uint64_t i = 0; i < span.span.value(); ++i) {
        seen_of[{epoch, span.key.vpn.value() + i}] =
            span.seen / static_cast<double>(span.span.value());
      }
    }
  }
  EXPECT_GT(compared, 50U) << "or nothing was compared";
}

}  // namespace payback_test
}  // namespace tmprof
