// SPDX-License-Identifier: Apache-2.0
// Epochs and streams of epochs written down by hand, for tests of what reads profiles.

#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/epoch_profile.h"
#include "base/epoch_stream.h"

namespace tmprof {

// The counts of one page or span.
struct Counted {
  std::uint64_t vpn;
  std::uint32_t references = 0;
  std::uint32_t samples = 0;
  std::uint64_t span = 1;
  std::uint32_t target = 0;
};

// `pages` ascending by target and page. Each was looked at, accessed or not.
inline EpochProfile EpochOf(MonotonicTime start, MonotonicTime end,
                            const std::vector<Counted>& pages) {
  EpochProfile epoch;
  epoch.start = start;
  epoch.end = end;
  for (const Counted& page : pages) {
    Append(epoch.pages, {.key = {TargetId(page.target), Vpn(page.vpn)},
                         .span = PageCount(page.span),
                         .looks = 100,
                         .references = page.references,
                         .load_samples = page.samples});
  }
  return epoch;
}

inline Error Damage() { return BadInput("read trace", "x", "damaged"); }

// Delivers `epochs`, then `damage` where there is one, for ever, else the end, by a recorder that
// `finished` tells of.
class FaultyStream final : public EpochStream {
 public:
  explicit FaultyStream(std::vector<EpochProfile> epochs, std::optional<Error> damage = Damage(),
                        std::optional<bool> finished = std::nullopt)
      : inner_(std::move(epochs)), damage_(std::move(damage)), finished_(finished) {}

  Result<bool> Next(EpochProfile& epoch) override {
    const Result<bool> more = inner_.Next(epoch);
    if (!more || *more || !damage_) return more;
    return Fail(*damage_);
  }
  StreamEnd End() const override { return {.finished = finished_}; }

 private:
  VectorEpochStream inner_;
  std::optional<Error> damage_;
  std::optional<bool> finished_;
};

}  // namespace tmprof
