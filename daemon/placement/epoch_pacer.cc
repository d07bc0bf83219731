// SPDX-License-Identifier: Apache-2.0

#include "daemon/placement/epoch_pacer.h"

#include <algorithm>

#include "base/check.h"

namespace tmprof {
namespace {

using std::chrono::nanoseconds;

// A change is found later by this factor.
constexpr double kMostStretch = 4;
// Unevenly accessed pages gain a little in each of many epochs, as evidence comes in. Resting after
// two such epochs cost zipf a sixth of its hits in 20 s (bench/closed_loop).
constexpr std::uint64_t kFutileEpochs = 8;

nanoseconds Times(nanoseconds time, double factor) {
  return nanoseconds(static_cast<nanoseconds::rep>(static_cast<double>(time.count()) * factor));
}

}  // namespace

EpochPacer::EpochPacer(nanoseconds shortest, double cpu_share) { Configure(shortest, cpu_share); }

void EpochPacer::Configure(nanoseconds shortest, double cpu_share) {
  TMPROF_CHECK(shortest.count() > 0 && cpu_share > 0);
  shortest_ = shortest;
  cpu_share_ = cpu_share;
}

void EpochPacer::Note(nanoseconds epoch_length, nanoseconds cpu_time, bool paid) {
  const nanoseconds most = Times(Longest(), cpu_share_);
  owed_ = std::max(owed_ - Times(epoch_length, cpu_share_), nanoseconds(0)) + cpu_time;
  overdrawn_ = owed_ > most;
  owed_ = std::min(owed_, most);
  stretch_ = paid ? 1 : std::min(2 * stretch_, kMostStretch);
  futile_epochs_ = paid ? 0 : futile_epochs_ + 1;
}

bool EpochPacer::futile() const { return futile_epochs_ >= kFutileEpochs; }

nanoseconds EpochPacer::Next() const {
  return std::clamp(Times(owed_, stretch_ / cpu_share_), shortest_, Longest());
}

nanoseconds EpochPacer::Longest() const { return std::max(shortest_, kLongest); }

}  // namespace tmprof
