// SPDX-License-Identifier: Apache-2.0
// Against sums over single pages.

#include "report/analysis/span_uses.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "tests/report/traces.h"

namespace tmprof {
namespace span_uses_test {

constexpr std::uint64_t kPages = 300;

// Makes as many bounds of regions as pages allow: each epoch has others. Few epochs see much, many
// next to nothing.
std::vector<EpochProfile> Regions(int count) {
  std::mt19937_64 random(7);
  std::vector<EpochProfile> epochs;
  for (int i = 0; i < count; ++i) {
    EpochProfile& epoch =
        epochs.emplace_back(MakeEpoch(static_cast<std::uint64_t>(i), {MakeTarget(3, 42, "p")}));
    for (std::uint64_t page = random() % 8; page < kPages;) {
      const std::uint64_t span = std::min(1 + random() % 40, kPages - page);
      const bool is_hot = random() % 4 == 0;
      See(epoch, 3,
          {{.vpn = page,
            .looks = 1'000'000,
            .references = is_hot ? 1'000'000U : 0U,
            .span = span}});
      page += span + random() % 3;
    }
  }
  return epochs;
}

TEST(SpanUses, PartsHaveOfEachSpanWhatIsTheirs) {
  struct Page {
    double weight = 0;
    std::map<std::uint32_t, double> recorded;  // key: site
  };
  std::map<std::uint64_t, Page> expected;
  SpanUses spans;
  for (const EpochProfile& epoch : Regions(50)) {
    spans.See(epoch);
    const PageColumns& pages = epoch.pages;
    for (std::size_t i = 0; i < pages.size(); ++i) {
      const std::uint32_t site = 1 + static_cast<std::uint32_t>(i + epoch.index) % 5;
      AddTo(spans.Of(pages, i).shares, {.site = site, .recorded = 12, .with_unrecorded = 24});
      for (std::uint64_t page = 0; page < pages.span_pages[i]; ++page) {
        Page& of = expected[pages.vpn[i].value() + page];
        of.weight += EvidenceOf(pages, i) / pages.span_pages[i];
        of.recorded[site] += 12.0 / pages.span_pages[i];
      }
    }
  }
  std::uint64_t seen = 0;
  Vpn reached(0);
  for (const SpanUse& part : spans.Take()) {
    EXPECT_EQ(part.target, TargetId(3));
    EXPECT_GE(part.pages.start, reached);
    reached = part.pages.end;
    for (Vpn page = part.pages.start; page < part.pages.end; page = page + PageCount(1)) {
      ++seen;
      const Page& of = expected.at(page.value());
      EXPECT_NEAR(part.weight / part.page_count(), of.weight, 1e-12 * of.weight) << page.value();
      ASSERT_EQ(part.shares.size(), of.recorded.size()) << page.value();
      for (const SiteShare& share : part.shares) {
        const double recorded = of.recorded.at(share.site);
        EXPECT_NEAR(share.recorded / part.page_count(), recorded, 1e-12 * recorded);
        EXPECT_NEAR(share.with_unrecorded / part.page_count(), 2 * recorded, 2e-12 * recorded);
      }
    }
  }
  EXPECT_EQ(seen, expected.size());
}

// The spans include one that was never seen accessed beside one that always was.
TEST(SpanUses, AnEpochHasOfEachPageThePartThatItsEvidenceIs) {
  const std::vector<EpochProfile> epochs = Regions(50);
  SpanUses spans;
  std::vector<double> weight(kPages);
  for (const EpochProfile& epoch : epochs) {
    spans.See(epoch);
    for (std::size_t i = 0; i < epoch.pages.size(); ++i) {
      for (std::uint64_t page = 0; page < epoch.pages.span_pages[i]; ++page) {
        weight[epoch.pages.vpn[i].value() + page] +=
            EvidenceOf(epoch.pages, i) / epoch.pages.span_pages[i];
      }
    }
  }
  // 100 accesses to each of the first 90 pages, 3 to each of the others.
  constexpr std::uint64_t kHotPages = 90;
  EvidenceTable table;
  Push(table, {TargetId(3), Vpn(0)}, kHotPages, {});
  Push(table, {TargetId(3), Vpn(kHotPages)}, kPages - kHotPages, {});
  const EpochAccesses accesses(spans, table, {100.0 * kHotPages, 3.0 * (kPages - kHotPages)});
  double all = 0;
  for (const EpochProfile& epoch : epochs) {
    for (std::size_t i = 0; i < epoch.pages.size(); ++i) {
      double expected = 0;
      for (std::uint64_t page = 0; page < epoch.pages.span_pages[i]; ++page) {
        const std::uint64_t at = epoch.pages.vpn[i].value() + page;
        expected += (at < kHotPages ? 100 : 3) / weight[at] * EvidenceOf(epoch.pages, i) /
                    epoch.pages.span_pages[i];
      }
      const double found = accesses.Of(epoch.pages, i);
      EXPECT_NEAR(found, expected, 1e-9 * expected) << epoch.index << " " << i;
      all += found;
    }
  }
  double total = 0;
  for (std::uint64_t page = 0; page < kPages; ++page) {
    if (weight[page] > 0) total += page < kHotPages ? 100 : 3;
  }
  EXPECT_NEAR(all, total, 1e-9 * total);
}

}  // namespace span_uses_test
}  // namespace tmprof
