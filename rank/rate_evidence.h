// SPDX-License-Identifier: Apache-2.0
// The evidence that a rate is estimated from.

#pragma once

namespace tmprof {

// All evidence about one span. Times are CPU time of its target.
struct RateEvidence {
  double pages = 1;                   // base pages of the span
  double first_accesses = 0;          // accessed bits: events …
  double seconds_at_risk = 0;         // … and the time watched for them; 0: no bit was read
  double seconds_to_read = 0;         // Evidence::page_seconds_to_read; 0: not known
  double square_seconds_to_read = 0;  // Evidence::page_square_seconds_to_read
  double first_read_finds = 0;        // Evidence, same name
  double first_read_seconds = 0;
  double fast_looks = 0;
  double fast_found = 0;
  double fast_seconds = 0;
  double fast_earlier = 0;
  double fast_earlier_seconds = 0;
  double samples = 0;
  double seconds_watched = 0;  // time the sampler was on; 0: it was off

  bool looked_at() const { return seconds_at_risk > 0 || first_read_seconds > 0; }
  void Add(const RateEvidence& more);  // adds evidence of the same span
  // Tells of a clock that runs `factor` times as fast.
  void ScaleTimes(double factor);
};

// The relation of a page's samples to its access rate, learned from pages with both bits and
// samples: samples per second = scale * rate^exponent.
struct SampleResponse {
  double scale = 1;
  double exponent = 1;  // 1: in proportion; 0: the samples say nothing about the rate
};

}  // namespace tmprof
