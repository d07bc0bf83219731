// SPDX-License-Identifier: Apache-2.0

#include "rank/parted_evidence.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace tmprof {
namespace {

// Fewer samples of a page than this say no more about it than its region does. A single sample
// falls below it after four half-lives, or after three times as long as rates last.
constexpr double kTellsApart = 1.0 / 16;

// Assumed variation of the rates of a region's pages, relative to their mean, before samples come
// back to any page. A quarter of a page that they should come back to counts as much.
constexpr double kSpreadAssumed = 1;
constexpr double kSpreadBelieved = 0.25;

bool IsRegion(std::uint32_t span_pages) { return !IsOneEntry(span_pages); }

double OfItsOwn(const Evidence& evidence) { return evidence.samples() + evidence.accesses; }

// True if the epoch builder cut these two neighbouring records from one region because of the
// samples of a page: each look and the time at risk of both are the region's.
bool AreOfOneRegion(const PageColumns& pages, std::size_t first, std::size_t second) {
  const bool one_is_a_page = pages.span_pages[first] == 1 || pages.span_pages[second] == 1;
  return one_is_a_page && pages.target[first] == pages.target[second] &&
         pages.vpn[first] + PageCount(pages.span_pages[first]) == pages.vpn[second] &&
         pages.looks[first] > 0 && pages.looks[first] == pages.looks[second] &&
         pages.references[first] == pages.references[second] &&
         pages.time_at_risk[first] == pages.time_at_risk[second];
}

Evidence ShareOf(const Evidence& region, double share) {
  Evidence part;
  part.Add(region, share, share);
  return part;
}

// Walks the pages told apart in step with ascending spans.
class PagesOf {
 public:
  explicit PagesOf(const EvidenceTable& pages) : pages_(&pages) {}

  struct Rows {
    std::size_t begin;
    std::size_t end;
    bool empty() const { return begin == end; }
  };
  Rows Within(const EvidenceTable& spans, std::size_t row) {
    while (at_ < pages_->size() && pages_->key[at_] < spans.key[row]) ++at_;
    Rows rows{at_, at_};
    const PageKey end = EndOf(spans, row);
    while (rows.end < pages_->size() && pages_->key[rows.end] < end) ++rows.end;
    at_ = rows.end;
    return rows;
  }

 private:
  const EvidenceTable* pages_;
  std::size_t at_ = 0;
};

}  // namespace

void PartedEvidence::Take(const EpochProfile& profile, Visits visits) {
  const PageColumns& pages = profile.pages;
  Clear(pages_);
  TakeEvidence(profile, spans_, visits);
  repeats_ = {};
  if (std::ranges::none_of(pages.span_pages, IsRegion)) return;

  // Puts regions together again that the epoch builder has cut.
  std::size_t kept = 0;  // rows
  for (std::size_t i = 0; i < pages.size();) {
    std::size_t end = i + 1;
    bool has_region = IsRegion(pages.span_pages[i]);
    while (end < pages.size() && AreOfOneRegion(pages, end - 1, end)) {
      has_region |= IsRegion(pages.span_pages[end++]);
    }
    std::uint64_t span = 0;
    for (std::size_t j = i; j < end; ++j) span += pages.span_pages[j];
    // The size of a huge page would be taken for one.
    if (end > i + 1 && IsOneEntry(span)) span -= pages.span_pages[--end];
    if (!has_region || IsOneEntry(span)) {
      for (; i < end; ++i, ++kept) {
        spans_.key[kept] = spans_.key[i];
        spans_.span_pages[kept] = spans_.span_pages[i];
        spans_.evidence[kept] = spans_.evidence[i];
      }
      continue;
    }
    Evidence sum;
    const PageKey key = spans_.key[i];
    const bool is_cut = end > i + 1;
    for (; i < end; ++i) {
      Evidence part = spans_.evidence[i];
      if (is_cut && spans_.span_pages[i] == 1 && OfItsOwn(part) > 0) {
        Push(pages_, spans_.key[i], 1, part.TakeOwn());
      }
      sum.Add(part, 1, 1);
    }
    spans_.key[kept] = key;
    spans_.span_pages[kept] = static_cast<std::uint32_t>(span);
    spans_.evidence[kept++] = sum;
  }
  spans_.key.resize(kept);
  spans_.span_pages.resize(kept);
  spans_.evidence.resize(kept);
}

void PartedEvidence::Join(const PartedEvidence& older, const Keeps& keeps,
                          const PartedEvidence& newer) {
  TMPROF_CHECK(this != &older && this != &newer);
  // Repeats are of all targets together: they fade as the evidence that fades least.
  double keep = keeps.listed().empty() ? keeps.of_others().evidence : 0;
  for (const auto& [target, of_target] : keeps.listed()) keep = std::max(keep, of_target.evidence);
  repeats_ = {.seen = keep * older.repeats_.seen,
              .by_chance = keep * older.repeats_.by_chance,
              .per_spread = keep * older.repeats_.per_spread};
  Clear(apart_);
  tmprof::Join(older.spans_, keeps, newer.spans_, spans_, apart_);
  JoinPages(older, keeps, newer);
}

bool PartedEvidence::AddAlike(const PartedEvidence& newer) {
  return !is_parted() && !newer.is_parted() && tmprof::AddAlike(newer.spans_, spans_);
}

void PartedEvidence::JoinPages(const PartedEvidence& older, const Keeps& keeps,
                               const PartedEvidence& newer) {
  Clear(pages_);
  if (apart_.size() + older.pages_.size() + newer.pages_.size() == 0) return;
  struct Source {
    const EvidenceTable* table;
    const Keeps* keeps;
    bool is_older;
    std::size_t at = 0;
    bool Has() const { return at < table->size(); }
    PageKey key() const { return table->key[at]; }
  };
  // Evidence in `apart_` has faded already.
  const Keeps all;
  Source sources[] = {
      {&older.pages_, &keeps, true}, {&apart_, &all, true}, {&newer.pages_, &all, false}};
  std::size_t row = 0;  // a row of spans_
  struct {
    double told_apart = 0;  // pages, before
    double samples = 0;     // samples of these pages
    double sampled = 0;     // pages, now
  } region;
  const auto end_region = [&] {
    if (region.sampled * region.told_apart > 0 && IsRegion(spans_.span_pages[row])) {
      const double share = region.sampled / spans_.span_pages[row];
      repeats_.by_chance += share * region.told_apart;
      repeats_.per_spread += share * region.samples;
    }
    region = {};
  };
  for (;;) {
    const Source* first = nullptr;
    for (const Source& source : sources) {
      if (source.Has() && (first == nullptr || source.key() < first->key())) first = &source;
    }
    if (first == nullptr) break;
    const PageKey key = first->key();
    Evidence before;
    Evidence now;
    for (Source& source : sources) {
      if (!source.Has() || source.key() != key) continue;
      const Keep& keep = source.keeps->Of(key.target);
      (source.is_older ? before : now)
          .Add(source.table->evidence[source.at++], keep.evidence, keep.accesses);
    }
    while (row < spans_.size() && EndOf(spans_, row) <= key) {
      end_region();
      ++row;
    }
    // Its region is forgotten with it, or before it where it is gone.
    if (row == spans_.size() || key < spans_.key[row]) continue;
    const bool was_told_apart = before.samples() >= kTellsApart;
    if (was_told_apart) {
      region.told_apart += 1;
      region.samples += before.samples();
    }
    if (now.samples() > 0) region.sampled += 1;
    repeats_.seen += was_told_apart && now.samples() > 0 && IsRegion(spans_.span_pages[row]);
    Evidence sum = before;
    sum.Add(now, 1, 1);
    if (IsRegion(spans_.span_pages[row]) && OfItsOwn(sum) >= kTellsApart) {
      Push(pages_, key, 1, sum);
    } else {
      spans_.evidence[row].Add(sum, 1, 1);
    }
  }
  if (row < spans_.size()) end_region();
}

void PartedEvidence::Part() {
  if (!is_parted()) return;
  Clear(parted_);
  span_of_.clear();
  PagesOf pages(pages_);
  for (std::size_t row = 0; row < spans_.size(); ++row) {
    const auto push = [&](PageKey key, std::uint64_t span, const Evidence& evidence) {
      Push(parted_, key, static_cast<std::uint32_t>(span), evidence);
      span_of_.push_back(static_cast<std::uint32_t>(row));
    };
    const PagesOf::Rows told_apart = pages.Within(spans_, row);
    if (told_apart.empty()) {
      push(spans_.key[row], spans_.span_pages[row], spans_.evidence[row]);
      continue;
    }
    const Evidence& region = spans_.evidence[row];
    const double span = spans_.span_pages[row];
    PageKey next = spans_.key[row];
    const auto push_until = [&](Vpn end) {
      std::uint64_t left = (end - next.vpn).value();
      // Part of a region that has the size of a huge page would be taken for one.
      if (left > 1 && IsOneEntry(left)) {
        push(next, left / 2, ShareOf(region, static_cast<double>(left / 2) / span));
        next.vpn = next.vpn + PageCount(left / 2);
        left -= left / 2;
      }
      if (left > 0) push(next, left, ShareOf(region, static_cast<double>(left) / span));
    };
    for (std::size_t i = told_apart.begin; i < told_apart.end; ++i) {
      const PageKey page = pages_.key[i];
      push_until(page.vpn);
      Evidence evidence = ShareOf(region, 1 / span);
      evidence.Add(pages_.evidence[i], 1, 1);
      push(page, 1, evidence);
      next = {page.target, page.vpn + PageCount(1)};
    }
    push_until(EndOf(spans_, row).vpn);
  }
}

EvidenceTable PartedEvidence::WholeSpans() const {
  EvidenceTable whole = spans_;
  PagesOf pages(pages_);
  for (std::size_t row = 0; row < whole.size(); ++row) {
    const PagesOf::Rows told_apart = pages.Within(whole, row);
    for (std::size_t i = told_apart.begin; i < told_apart.end; ++i) {
      whole.evidence[row].Add(pages_.evidence[i], 1, 1);
    }
  }
  return whole;
}

// The squared coefficient of variation of the rates of a region's pages, by how often samples come
// back to pages that had some.
double PartedEvidence::Spread() const {
  return std::max(0.0, (repeats_.seen - repeats_.by_chance + kSpreadBelieved * kSpreadAssumed) /
                           (repeats_.per_spread + kSpreadBelieved));
}

void PartedEvidence::ShareOut(By by, std::vector<double>& scores,
                              std::vector<double>* relative_sd) const {
  TMPROF_CHECK(is_parted() && scores.size() == spans_.size());
  const double spread = by == By::kPagesAndSamples ? Spread() : 0;
  std::vector<double> shared(parted_.size());
  std::vector<double> sd(relative_sd ? parted_.size() : 0);
  double of_regions = 0;
  double of_their_pages = 0;
  PagesOf pages(pages_);
  for (std::size_t row = 0; row < parted_.size();) {
    const std::uint32_t span = span_of_[row];
    const double density = scores[span] / spans_.span_pages[span];
    const PagesOf::Rows told_apart = pages.Within(spans_, span);
    double all = 0;
    for (std::size_t i = told_apart.begin; i < told_apart.end; ++i) {
      all += pages_.evidence[i].samples();
    }
    const double on_average = 1 + spread * all / spans_.span_pages[span];
    if (IsRegion(spans_.span_pages[span])) of_regions += scores[span];
    std::size_t next = told_apart.begin;
    for (; row < parted_.size() && span_of_[row] == span; ++row) {
      double shape = 1;  // knowledge of a page's rate, as a count of events
      shared[row] = density * parted_.span_pages[row];
      if (next < told_apart.end && pages_.key[next] == parted_.key[row]) {
        shape += spread * pages_.evidence[next++].samples();
        shared[row] *= std::max(1.0, shape / on_average);
      }
      if (IsRegion(spans_.span_pages[span])) of_their_pages += shared[row];
      if (!relative_sd) continue;
      const double of_span = (*relative_sd)[span];
      sd[row] = told_apart.empty()
                    ? of_span
                    : std::sqrt(of_span * of_span + spread / (shape * parted_.span_pages[row]));
    }
  }
  // Pages without a sample of their own are all alike. Otherwise pages of regions with many such
  // pages would fall behind those of equally hot regions that happen to have few.
  const double rest = of_their_pages > 0 ? of_regions / of_their_pages : 1;
  for (std::size_t row = 0; row < parted_.size(); ++row) {
    if (IsRegion(spans_.span_pages[span_of_[row]])) shared[row] *= rest;
  }
  scores = std::move(shared);
  if (relative_sd) *relative_sd = std::move(sd);
}

}  // namespace tmprof
