// SPDX-License-Identifier: Apache-2.0

#include "rank/evidence.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"

namespace tmprof {
namespace {

// Evidence that has decayed below this many looks and observations per page is dropped, so that
// memory unmapped long ago does not stay for ever. That takes ten half-lives after a single look,
// or seven times as long as rates last.
constexpr double kForgotten = 1.0 / 1024;

constexpr PageKey kPastAll{TargetId(std::numeric_limits<TargetId::rep>::max()),
                           Vpn(std::numeric_limits<Vpn::rep>::max())};

// LogDuration has 1025 codes; an exp2 per record would be most of the work of absorbing one.
double SecondsOf(LogDuration duration) {
  static const std::vector<double> seconds = [] {
    std::vector<double> table;
    for (std::uint16_t code = 0;; ++code) {
      const LogDuration of_code = LogDuration::FromCode(code);
      if (of_code.code() != code) return table;
      table.push_back(of_code.seconds());
    }
  }();
  return seconds[duration.code()];
}

// Two equal times may differ by 4.4 % after coding.
constexpr double kRounding = 0.05;

// Moves first accesses that first reads found to their own fields.
void TellFirstReadsApart(const PageColumns& pages, std::size_t i, LogDuration later_time,
                         Evidence& evidence) {
  if (pages.finding_reads) {
    const double span = pages.span_pages[i];
    const double finds = pages.finding_reads->first_reads[i];
    const double first_seconds = SecondsOf(pages.finding_reads->first_time[i]) * span / 2;
    const double to_reads = SecondsOf(later_time) * span / 2;
    if (finds > 0 && first_seconds > 0) {
      const double others = std::max(evidence.page_seconds_at_risk - first_seconds, 0.0);
      evidence.first_read_finds = finds;
      evidence.first_read_page_seconds = first_seconds;
      evidence.first_accesses -= finds;
      // A read that found nothing would have taken about as long as the mean of those that did.
      const bool none_left = evidence.first_accesses <= 0 &&
                             others < std::min(kRounding * first_seconds, first_seconds / finds);
      evidence.page_seconds_at_risk = none_left ? 0 : others;
    }
    if (evidence.first_accesses > 0) {
      evidence.page_seconds_at_risk = std::max(evidence.page_seconds_at_risk, to_reads);
      evidence.page_seconds_to_read = to_reads;
      evidence.page_square_seconds_to_read = to_reads * to_reads / evidence.first_accesses;
    }
    if (finds > 0 || to_reads > 0) return;
  }
  // It is unknown which reads found them. A first read finds every page that a fast try found. A
  // page that no try found may have been hit by chance, and another visit of the epoch may have
  // waited long for it.
  if (evidence.fast_found > 0 && evidence.page_seconds_at_risk > 0 && evidence.first_accesses > 0) {
    evidence.first_read_finds = std::exchange(evidence.first_accesses, 0);
    evidence.first_read_page_seconds = std::exchange(evidence.page_seconds_at_risk, 0);
  }
}

// Replaces bits of all visits by those of the new ones.
void LeaveOutOlderVisits(const PageColumns& pages, std::size_t i, Evidence& evidence) {
  const PageColumns::NewVisits& visits = *pages.new_visits;
  evidence.first_accesses = visits.first_accesses[i];
  evidence.page_seconds_at_risk = SecondsOf(visits.time_at_risk[i]) * pages.span_pages[i];
  if (evidence.first_accesses + evidence.page_seconds_at_risk > 0) return;
  evidence.looks = evidence.references = 0;
}

Evidence EvidenceAt(const PageColumns& pages, std::size_t i, Visits visits) {
  const double span = pages.span_pages[i];
  Evidence evidence{.looks = pages.looks[i] * span,
                    .references = static_cast<double>(pages.references[i]),
                    .first_accesses = static_cast<double>(pages.first_accesses[i]),
                    .page_seconds_at_risk = SecondsOf(pages.time_at_risk[i]) * span,
                    .load_samples = static_cast<double>(pages.load_samples[i]),
                    .store_samples = static_cast<double>(pages.store_samples[i])};
  if (pages.fast_tries && SecondsOf(pages.fast_tries->time[i]) > 0) {
    evidence.fast_looks = pages.fast_tries->looks[i];
    evidence.fast_found = pages.fast_tries->found[i];
    evidence.fast_seconds = SecondsOf(pages.fast_tries->time[i]);
    if (SecondsOf(pages.fast_tries->earlier_time[i]) > 0) {
      evidence.fast_earlier = pages.fast_tries->earlier[i];
      evidence.fast_earlier_seconds = SecondsOf(pages.fast_tries->earlier_time[i]);
    }
  }
  LogDuration later_time = pages.finding_reads ? pages.finding_reads->later_time[i] : LogDuration();
  if (visits == Visits::kNew) {
    LeaveOutOlderVisits(pages, i, evidence);
    later_time = pages.new_visits->later_time[i];
  }
  TellFirstReadsApart(pages, i, later_time, evidence);
  if (pages.accesses) {
    evidence.accesses = static_cast<double>(pages.accesses->loads[i]) +
                        static_cast<double>(pages.accesses->stores[i]);
    if (pages.accesses->llc_misses) {
      evidence.misses = static_cast<double>((*pages.accesses->llc_misses)[i]);
    }
    if (pages.accesses->stall_ns) {
      evidence.stall_ns = static_cast<double>((*pages.accesses->stall_ns)[i]);
    }
  }
  return evidence;
}

}  // namespace

void Evidence::Add(const Evidence& more, double part, double part_of_accesses) {
  looks += part * more.looks;
  references += part * more.references;
  first_accesses += part * more.first_accesses;
  page_seconds_at_risk += part * more.page_seconds_at_risk;
  page_seconds_to_read += part * more.page_seconds_to_read;
  page_square_seconds_to_read += part * more.page_square_seconds_to_read;
  first_read_finds += part * more.first_read_finds;
  first_read_page_seconds += part * more.first_read_page_seconds;
  fast_looks += part * more.fast_looks;
  fast_found += part * more.fast_found;
  fast_seconds += part * more.fast_seconds;
  fast_earlier += part * more.fast_earlier;
  fast_earlier_seconds += part * more.fast_earlier_seconds;
  load_samples += part * more.load_samples;
  store_samples += part * more.store_samples;
  accesses += part_of_accesses * more.accesses;
  misses += part_of_accesses * more.misses;
  stall_ns += part_of_accesses * more.stall_ns;
}

Evidence Evidence::Bits(double part) const {
  Evidence bits;
  bits.Add(*this, part, 0);
  bits.load_samples = bits.store_samples = 0;
  return bits;
}

void Evidence::ReplaceBits(const Evidence& bits) {
  const Evidence own = TakeOwn();
  *this = bits.Bits(1);
  Add(own, 1, 1);
}

void Evidence::ScaleTimes(double factor) {
  if (all_page_seconds_at_risk() <= 0) looks *= factor;
  page_seconds_at_risk *= factor;
  page_seconds_to_read *= factor;
  page_square_seconds_to_read *= factor * factor;
  first_read_page_seconds *= factor;
  fast_seconds *= factor;
  fast_earlier_seconds *= factor;
}

Evidence Evidence::TakeOwn() {
  return {.load_samples = std::exchange(load_samples, 0),
          .store_samples = std::exchange(store_samples, 0),
          .accesses = std::exchange(accesses, 0),
          .misses = std::exchange(misses, 0),
          .stall_ns = std::exchange(stall_ns, 0)};
}

double SamplesOfLookedAt(const EvidenceTable& table) {
  double sum = 0;
  for (const Evidence& evidence : table.evidence) {
    if (evidence.looks > 0) sum += evidence.samples();
  }
  return sum;
}

PageCount PagesLookedAt(const EvidenceTable& table, const std::function<bool(TargetId)>& counts) {
  PageCount pages;
  bool is_counted = false;
  for (std::size_t row = 0; row < table.size(); ++row) {
    if (row == 0 || table.key[row].target != table.key[row - 1].target)
      is_counted = counts(table.key[row].target);
    if (is_counted && table.evidence[row].looks > 0) pages += PageCount(table.span_pages[row]);
  }
  return pages;
}

void Clear(EvidenceTable& table) {
  table.key.clear();
  table.span_pages.clear();
  table.evidence.clear();
}

void Push(EvidenceTable& table, PageKey key, std::uint32_t span_pages, const Evidence& evidence) {
  table.key.push_back(key);
  table.span_pages.push_back(span_pages);
  table.evidence.push_back(evidence);
}

Visits VisitsToJudgeBy(const PageColumns& pages) {
  // Without a clock of the targets no visit has timed evidence.
  const bool timed = std::ranges::any_of(pages.time_at_risk,
                                         [](LogDuration time) { return time > LogDuration(); });
  return pages.new_visits && timed ? Visits::kNew : Visits::kAll;
}

void TakeEvidence(const EpochProfile& profile, EvidenceTable& table, Visits visits) {
  const PageColumns& pages = profile.pages;
  TMPROF_CHECK(visits == Visits::kAll || pages.new_visits);
  table.key.resize(pages.size());
  table.span_pages.resize(pages.size());
  table.evidence.resize(pages.size());
  for (std::size_t i = 0; i < pages.size(); ++i) {
    table.key[i] = pages.key(i);
    table.span_pages[i] = pages.span_pages[i];
    table.evidence[i] = EvidenceAt(pages, i, visits);
  }
}

void Join(const EvidenceTable& older, const Keeps& keeps, const EvidenceTable& newer,
          EvidenceTable& joined, EvidenceTable& apart) {
  const std::size_t rows = older.size() + newer.size();
  joined.key.clear();
  joined.key.reserve(rows);
  joined.span_pages.clear();
  joined.span_pages.reserve(rows);
  joined.evidence.clear();
  joined.evidence.reserve(rows);
  EvidenceWalk old(older, &keeps);
  for (std::size_t i = 0; i < newer.size(); ++i) {
    Evidence evidence = newer.evidence[i];
    old.EmitBefore(newer.key[i], joined);
    const bool is_region = !IsOneEntry(newer.span_pages[i]);
    old.AddWithin(newer.key[i], newer.span_pages[i], evidence, is_region ? &apart : nullptr);
    Push(joined, newer.key[i], newer.span_pages[i], evidence);
  }
  old.EmitBefore(kPastAll, joined);
}

bool AddAlike(const EvidenceTable& newer, EvidenceTable& sum) {
  std::vector<std::uint32_t> rows;
  rows.reserve(newer.size());
  std::size_t at = 0;
  for (std::size_t i = 0; i < newer.size(); ++i) {
    // The next span is usually near the last one: the search reaches ever further.
    std::size_t reach = 1;
    while (at + reach < sum.size() && sum.key[at + reach] <= newer.key[i]) reach *= 2;
    const auto end =
        sum.key.begin() + static_cast<std::ptrdiff_t>(std::min(sum.size(), at + reach));
    const auto found =
        std::lower_bound(sum.key.begin() + static_cast<std::ptrdiff_t>(at), end, newer.key[i]);
    if (found == sum.key.end() || *found != newer.key[i]) return false;
    at = static_cast<std::size_t>(found - sum.key.begin());
    if (sum.span_pages[at] != newer.span_pages[i]) return false;
    rows.push_back(static_cast<std::uint32_t>(at));
  }
  for (std::size_t i = 0; i < newer.size(); ++i) sum.evidence[rows[i]].Add(newer.evidence[i], 1, 1);
  return true;
}

void EvidenceWalk::SkipBefore(PageKey until) {
  if (AtEnd() || until <= Start()) return;
  const auto after = std::upper_bound(table_->key.begin() + static_cast<std::ptrdiff_t>(row_),
                                      table_->key.end(), until);
  row_ = static_cast<std::size_t>(after - table_->key.begin());
  taken_ = 0;
  if (row_ == 0 || EndOf(*table_, row_ - 1) <= until) return;
  --row_;
  taken_ = (until.vpn - table_->key[row_].vpn).value();
}

void EvidenceWalk::EmitBefore(PageKey until, EvidenceTable& out) {
  while (!AtEnd() && Start() < until) {
    const std::uint64_t pages = until.target == Start().target
                                    ? std::min(PagesLeft(), (until.vpn - Start().vpn).value())
                                    : PagesLeft();
    Evidence rest;
    const PageKey key = Start();
    const bool is_faded = KeepOfRow().evidence != 1;
    Take(pages, rest);
    const double left = rest.looks + rest.references + rest.samples() + rest.accesses;
    if (!is_faded || left >= kForgotten * static_cast<double>(pages)) {
      Push(out, key, static_cast<std::uint32_t>(pages), rest);
    }
  }
}

void EvidenceWalk::AddWithin(PageKey key, std::uint64_t span_pages, Evidence& evidence,
                             EvidenceTable* apart) {
  const Vpn end = key.vpn + PageCount(span_pages);
  while (!AtEnd() && Start().target == key.target && Start().vpn < end) {
    const std::uint64_t pages = std::min(PagesLeft(), (end - Start().vpn).value());
    if (apart == nullptr || table_->span_pages[row_] > 1) {
      Take(pages, evidence);
      continue;
    }
    const PageKey page = Start();
    Evidence of_page;
    Take(pages, of_page);
    const Evidence own = of_page.TakeOwn();
    if (own.samples() + own.accesses > 0) Push(*apart, page, 1, own);
    evidence.Add(of_page, 1, 1);
  }
}

void EvidenceWalk::Take(std::uint64_t pages, Evidence& to) {
  const double share = static_cast<double>(pages) / table_->span_pages[row_];
  const Keep& keep = KeepOfRow();
  to.Add(table_->evidence[row_], share * keep.evidence, share * keep.accesses);
  taken_ += pages;
  if (taken_ == table_->span_pages[row_]) {
    ++row_;
    taken_ = 0;
  }
}

const Keep& EvidenceWalk::KeepOfRow() {
  const TargetId target = table_->key[row_].target;
  if (keeps_ != nullptr && target_ != target) keep_ = keeps_->Of(target);
  target_ = target;
  return keep_;
}

}  // namespace tmprof
