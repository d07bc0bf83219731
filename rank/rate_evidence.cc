// SPDX-License-Identifier: Apache-2.0

#include "rank/rate_evidence.h"

namespace tmprof {

void RateEvidence::Add(const RateEvidence& more) {
  first_accesses += more.first_accesses;
  seconds_at_risk += more.seconds_at_risk;
  seconds_to_read += more.seconds_to_read;
  square_seconds_to_read += more.square_seconds_to_read;
  first_read_finds += more.first_read_finds;
  first_read_seconds += more.first_read_seconds;
  fast_looks += more.fast_looks;
  fast_found += more.fast_found;
  fast_seconds += more.fast_seconds;
  fast_earlier += more.fast_earlier;
  fast_earlier_seconds += more.fast_earlier_seconds;
  samples += more.samples;
  seconds_watched += more.seconds_watched;
}

void RateEvidence::ScaleTimes(double factor) {
  seconds_at_risk *= factor;
  seconds_to_read *= factor;
  square_seconds_to_read *= factor * factor;
  first_read_seconds *= factor;
  fast_seconds *= factor;
  fast_earlier_seconds *= factor;
  seconds_watched *= factor;
}

}  // namespace tmprof
