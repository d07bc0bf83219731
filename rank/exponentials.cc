// SPDX-License-Identifier: Apache-2.0

#include "rank/exponentials.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numbers>

namespace tmprof {

void Exponentiate(std::span<double> x) {
  // Of 2^f - 1 = f * (c[0] + f * (c[1] + ...)): ln(2)^(n + 1) / (n + 1)!
  constexpr double c[] = {6.931471805599453e-01, 2.402265069591007e-01, 5.550410866482158e-02,
                          9.618129107628477e-03, 1.333355814642844e-03, 1.540353039338161e-04,
                          1.525273380405984e-05, 1.321548679014431e-06, 1.017808600923970e-07};
  // A double that large has no room for fractions: adding it rounds, and leaves the whole number in
  // its last bits.
  constexpr double kRounds = 0x1.8p52;
  constexpr int kMantissaBits = std::numeric_limits<double>::digits - 1;
  constexpr double kLeast = -700;  // less is no double but a denormal one
  // A loop of its own: a comparison that might trap keeps a loop from the processor's lanes.
  for (double& value : x) value = std::max(value, kLeast);
  double* const values = x.data();
#pragma omp simd
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double octaves = values[i] * std::numbers::log2e;
    const double rounded = octaves + kRounds;
    const double f = octaves - (rounded - kRounds);
    double power = c[8];
    power = power * f + c[7];
    power = power * f + c[6];
    power = power * f + c[5];
    power = power * f + c[4];
    power = power * f + c[3];
    power = power * f + c[2];
    power = power * f + c[1];
    power = power * f + c[0];
    power = power * f + 1;
    values[i] = std::bit_cast<double>(std::bit_cast<std::uint64_t>(power) +
                                      (std::bit_cast<std::uint64_t>(rounded) << kMantissaBits));
  }
}

}  // namespace tmprof
