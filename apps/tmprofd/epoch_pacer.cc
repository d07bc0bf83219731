// SPDX-License-Identifier: Apache-2.0

#include "apps/tmprofd/epoch_pacer.h"

#include <algorithm>

#include "base/check.h"

namespace tmprof {
namespace {

using std::chrono::nanoseconds;

constexpr double kRest = 4;

nanoseconds Times(nanoseconds time, double factor) {
  return nanoseconds(static_cast<nanoseconds::rep>(static_cast<double>(time.count()) * factor));
}

}  // namespace

EpochPacer::EpochPacer(nanoseconds shortest, double cpu_share)
    : shortest_(shortest), cpu_share_(cpu_share), share_now_(cpu_share) {
  TMPROF_CHECK(shortest.count() > 0 && cpu_share > 0);
}

void EpochPacer::Note(nanoseconds epoch_length, nanoseconds cpu_time, bool paid) {
  const nanoseconds most = Times(Longest(), cpu_share_);
  owed_ = std::max(owed_ - Times(epoch_length, share_now_), nanoseconds(0)) + cpu_time;
  overdrawn_ = owed_ > most;
  owed_ = std::min(owed_, most);
  share_now_ = paid ? cpu_share_ : std::max(share_now_ / 2, cpu_share_ / kRest);
}

nanoseconds EpochPacer::Next() const {
  return std::clamp(Times(owed_, 1 / share_now_), shortest_, Longest());
}

nanoseconds EpochPacer::Longest() const { return std::max(shortest_, kLongest); }

}  // namespace tmprof
