// SPDX-License-Identifier: Apache-2.0

#include "rank/judged_samples.h"

#include <algorithm>
#include <cmath>

namespace tmprof {
namespace {

HitRate ShareOf(double hits, double samples) {
  const double share = hits / samples;
  const double squares = kDeviationsOf90 * kDeviationsOf90 / samples;
  const double middle = (share + squares / 2) / (1 + squares);
  const double off = kDeviationsOf90 / (1 + squares) *
                     std::sqrt(share * (1 - share) / samples + squares / (4 * samples));
  return {.value = share,
          .low = std::clamp(middle - off, 0.0, share),
          .high = std::clamp(middle + off, share, 1.0)};
}

}  // namespace

void JudgedSamples::Add(const EvidenceTable& epoch, const ChosenSpans& chosen) {
  if (chosen.key.empty()) return;
  const auto end_of = [&](std::size_t at) {
    return PageKey{chosen.key[at].target, chosen.key[at].vpn + PageCount(chosen.span_pages[at])};
  };
  std::size_t at = 0;
  for (std::size_t row = 0; row < epoch.size(); ++row) {
    const double samples = epoch.evidence[row].samples();
    if (samples <= 0) continue;
    samples_ += samples;
    const PageKey begin = epoch.key[row];
    const PageKey end = EndOf(epoch, row);
    while (at < chosen.key.size() && end_of(at) <= begin) ++at;
    // The samples of a span are spread evenly over its pages.
    for (std::size_t with = at; with < chosen.key.size() && chosen.key[with] < end; ++with) {
      const Vpn from = std::max(begin, chosen.key[with]).vpn;
      const Vpn to = std::min(end, end_of(with)).vpn;
      const double part = static_cast<double>((to - from).value()) / epoch.span_pages[row];
      for (std::size_t choice = chosen.first_choice[with]; choice < hits_.size(); ++choice)
        hits_[choice] += part * samples;
    }
  }
}

std::vector<std::optional<HitRate>> JudgedSamples::Estimate() const {
  std::vector<std::optional<HitRate>> result(hits_.size());
  if (samples_ <= 0) return result;
  for (std::size_t choice = 0; choice < hits_.size(); ++choice)
    result[choice] = ShareOf(hits_[choice], samples_);
  return result;
}

}  // namespace tmprof
