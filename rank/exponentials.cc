// SPDX-License-Identifier: Apache-2.0

#include "rank/exponentials.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numbers>
#include <vector>

namespace tmprof {

void Exponentiate(std::span<double> x) {
  // Coefficients of 2^f - 1 = f * (c[0] + f * (c[1] + ...)): ln(2)^(n + 1) / (n + 1)!
  constexpr double c[] = {6.931471805599453e-01, 2.402265069591007e-01, 5.550410866482158e-02,
                          9.618129107628477e-03, 1.333355814642844e-03, 1.540353039338161e-04,
                          1.525273380405984e-05, 1.321548679014431e-06, 1.017808600923970e-07};
  // A double that large has no room for fractions: adding it rounds, and leaves the whole number in
  // its last bits.
  constexpr double kRounds = 0x1.8p52;
  constexpr int kMantissaBits = std::numeric_limits<double>::digits - 1;
  constexpr double kLeast = -700;  // less is no double but a denormal one
  // The loop is separate because a comparison that might trap keeps a loop from being vectorised.
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

namespace {

// Table of log(1 - e^-(e^u)) by u. Below the least it is u, above the most 0, to within 1e-7.
constexpr double kLeastLog = -16;
constexpr double kMostLog = 3;
constexpr double kStepsPerLog = 256;

const std::vector<double>& LogChanceTable() {
  static const std::vector<double> table = [] {
    std::vector<double> values;
    const int steps = static_cast<int>((kMostLog - kLeastLog) * kStepsPerLog);
    for (int i = 0; i <= steps + 1; ++i)
      values.push_back(std::log(-std::expm1(-std::exp(kLeastLog + i / kStepsPerLog))));
    return values;
  }();
  return table;
}

}  // namespace

void AddLogChances(std::span<const double> log_rates, double log_seconds, double times,
                   double* sum) {
  const double* const table = LogChanceTable().data();
  for (std::size_t i = 0; i < log_rates.size(); ++i) {
    const double u = log_rates[i] + log_seconds;
    const double place = (std::clamp(u, kLeastLog, kMostLog) - kLeastLog) * kStepsPerLog;
    const auto step = static_cast<std::size_t>(place);
    const double between = place - static_cast<double>(step);
    const double chance = table[step] + between * (table[step + 1] - table[step]);
    sum[i] += times * (u < kLeastLog ? u : chance);
  }
}

}  // namespace tmprof
