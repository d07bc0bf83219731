// SPDX-License-Identifier: Apache-2.0

#include "rank/rate_chances.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <span>
#include <utility>

#include "rank/rate_chain.h"

namespace tmprof {
namespace {

// Bounds are found from so many spans. What differs is the prior, not the spans.
constexpr std::size_t kSpansForBounds = 1024;

// Rates may be off by so many points of the grid: half an octave.
constexpr std::size_t kGridError = 2;

// This part of the pages in use may have been taken for idle, or the other way around. It was 0.02
// to 0.09 in recorded programs: docs/design/working-set.md.
constexpr double kModelError = 0.1;

// If no access of a page is seen, it has at most so many expected accesses, with a confidence of 95
// %.
constexpr double kHidden = 3;

// A reading of the grid decides which of its points reach each rate, and how fast they are.
struct Reading {
  std::vector<std::size_t> first_point;  // one per rate asked
  double idle_factor = 1;
};

enum class Asked : std::uint8_t { kAll, kRates, kIdle };

// Low and high leave the lowest and the highest shares of pages that reach a rate.
struct Readings {
  Reading fitted;
  Reading low;
  Reading high;
};

std::size_t FirstReaching(const std::vector<double>& grid, double rate) {
  return static_cast<std::size_t>(std::ranges::lower_bound(grid, rate) - grid.begin());
}

// Rates that no bit shows may be those of the first read's limit, or anything above.
Readings ReadingsOf(const RateFit& fit, const std::vector<double>& rates) {
  const std::vector<double>& grid = fit.mixture.rates();
  Readings readings;
  for (const double rate : rates) {
    const std::size_t first = FirstReaching(grid, rate);
    std::size_t low = std::min(first + kGridError, grid.size());
    std::size_t high = first - std::min(first, kGridError);
    for (const UntoldRates& untold : fit.untold) {
      if (rate > untold.limit) low = grid.size();
      if (rate > untold.from) high = std::min(high, FirstReaching(grid, untold.from));
    }
    readings.fitted.first_point.push_back(first);
    readings.low.first_point.push_back(low);
    readings.high.first_point.push_back(high);
  }
  const double error = grid[std::min(kGridError, grid.size() - 1)] / grid[0];
  readings.low.idle_factor = error;
  readings.high.idle_factor = 1 / error;
  return readings;
}

class Teller {
 public:
  Teller(const ChancesInput& input, const ChanceQuestions& questions, const Mixture& mixture)
      : input_(input),
        questions_(questions),
        grid_(mixture.rates()),
        chain_(mixture, input.kinds.size(), input.steps) {}

  void SetPrior(std::vector<double> prior) {
    // Rates that may be drawn anew in each step are as likely as their neighbours (Mixture).
    if (input_.persistence) prior = Mixture::Smooth(std::move(prior));
    chain_.SetPrior(prior);
  }

  // visit(span, its chances), for each of these.
  template <typename Visit>
  void Tell(const Reading& reading, const std::vector<std::size_t>& spans, Asked asked,
            Visit visit) {
    const std::size_t rates = questions_.rates.size();
    SpanChances chances{.reaches = std::vector<double>(input_.steps * rates),
                        .idle = std::vector<double>(questions_.ages())};
    std::optional<std::uint32_t> target;
    idle_.clear();
    for (const std::size_t i : spans) {
      if (target != input_.spans[i].target) {
        target = input_.spans[i].target;
        if (asked == Asked::kRates) {
          SetPersistence(*target);
        } else {
          BeginTarget(*target, reading.idle_factor);
        }
      }
      const TargetSteps& steps = input_.targets[*target];
      const std::span kinds = std::span(input_.kind_of).subspan(i * input_.steps, input_.steps);
      const auto tell_rates = [&](std::size_t step, const std::vector<float>& weights, float mass) {
        for (std::size_t r = 0; r < rates; ++r) {
          double& reaches = chances.reaches[step * rates + r];
          reaches = steps.cpu_seconds[step] > 0
                        ? RateChain::SumFrom(weights, reading.first_point[r]) / mass
                        : 0;
        }
      };
      if (asked != Asked::kIdle) chain_.Smooth(kinds, tell_rates);
      const double seen = idle_.empty() ? 0 : chain_.Filter(kinds);
      for (std::size_t age = 0; age < idle_.size(); ++age) {
        const double seen_and_idle = chain_.Filter(kinds, idle_[age].data());
        chances.idle[age] = std::min(1.0, std::exp(seen_and_idle - seen));
      }
      visit(i, std::as_const(chances));
    }
  }

 private:
  void SetPersistence(std::uint32_t target) {
    if (!input_.persistence) return;
    chain_.SetPersistence(*input_.persistence, input_.targets[target].middles);
  }
  // Finds how likely each rate leaves a page alone in the time asked for.
  void BeginTarget(std::uint32_t target, double factor) {
    SetPersistence(target);
    idle_.assign(questions_.ages(), std::vector<float>(input_.steps * chain_.width()));
    for (std::size_t age = 0; age < idle_.size(); ++age) {
      for (std::size_t step = 0; step < input_.steps; ++step) {
        const double seconds = factor * questions_.idle_cpu_seconds[target][age][step];
        float* column = &idle_[age][step * chain_.width()];
        // The value is not quite 0: evidence that leaves fast rates alone must stay possible.
        for (std::size_t j = 0; j < grid_.size(); ++j) {
          column[j] = static_cast<float>(std::max(1e-30, std::exp(-grid_[j] * seconds)));
        }
      }
    }
  }

  const ChancesInput& input_;
  const ChanceQuestions& questions_;
  const std::vector<double>& grid_;
  RateChain chain_;
  std::vector<std::vector<float>>
      idle_;  // one per age, empty if not asked: row-major, a row of rates for each step
};

struct Shares {
  std::vector<double> reaches;
  std::vector<double> idle;
};

Shares SharesOf(Teller& teller, const Reading& reading, const ChancesInput& input,
                const ChanceQuestions& questions, const std::vector<std::size_t>& spans,
                Asked asked) {
  const std::size_t rates = questions.rates.size();
  Shares shares{.reaches = std::vector<double>(input.steps * rates),
                .idle = std::vector<double>(questions.ages())};
  std::vector<double> ran(input.steps);
  double pages = 0;
  teller.Tell(reading, spans, asked, [&](std::size_t span, const SpanChances& chances) {
    const auto& [target, weight] = input.spans[span];
    pages += weight;
    for (std::size_t step = 0; step < input.steps; ++step) {
      if (input.targets[target].cpu_seconds[step] > 0) ran[step] += weight;
      for (std::size_t r = 0; r < rates; ++r) {
        shares.reaches[step * rates + r] += weight * chances.reaches[step * rates + r];
      }
    }
    for (std::size_t age = 0; age < shares.idle.size(); ++age) {
      shares.idle[age] += weight * chances.idle[age];
    }
  });
  for (std::size_t i = 0; i < shares.reaches.size(); ++i) {
    if (ran[i / rates] > 0) shares.reaches[i] /= ran[i / rates];
  }
  for (double& share : shares.idle) share /= pages;
  return shares;
}

std::vector<ShareBounds> Bounds(const std::vector<double>& values) {
  std::vector<ShareBounds> bounds;
  for (const double value : values) bounds.push_back({.value = value, .low = value, .high = value});
  return bounds;
}

// Both kinds of error may go the same way.
void Widen(ShareBounds& bounds, double share) {
  const double apart = share - bounds.value;
  bounds.low = std::max(0.0, bounds.low + std::min(0.0, apart));
  bounds.high = std::min(1.0, bounds.high + std::max(0.0, apart));
}

void WidenByModelError(double in_use, ShareBounds& bounds) {
  Widen(bounds, bounds.value - kModelError * in_use);
  Widen(bounds, bounds.value + kModelError * in_use);
}

// Returns the highest possible rate of a span's base pages in each step, given the time in which
// they were watched, whatever rates other pages have. It is infinite if they were not watched.
// Evidence of another step counts with the probability that the rate was the same there.
std::vector<double> HighestRates(const ChancesInput& input, std::size_t span) {
  const std::span kinds = std::span(input.kind_of).subspan(span * input.steps, input.steps);
  const std::vector<double>& middles = input.targets[input.spans[span].target].middles;
  std::vector<double> highest(input.steps);
  for (std::size_t step = 0; step < input.steps; ++step) {
    double accesses = 0;
    double page_seconds = 0;
    for (std::size_t other = 0; other < input.steps; ++other) {
      const double apart = std::abs(middles[step] - middles[other]);
      const double weight = input.persistence ? std::exp(-apart / *input.persistence) : 1;
      const RateEvidence& seen = input.kinds[kinds[other]].mean;
      accesses += weight * (seen.first_accesses + seen.first_read_finds);
      page_seconds += weight * seen.pages * (seen.seconds_at_risk + seen.first_read_seconds);
    }
    const double hidden = accesses + kHidden * std::sqrt(accesses + 1);
    highest[step] =
        page_seconds > 0 ? hidden / page_seconds : std::numeric_limits<double>::infinity();
  }
  return highest;
}

// The fit takes pages that were watched shortly for pages like others. They may be in use instead.
void WidenByUnwatched(const ChancesInput& input, const ChanceQuestions& questions,
                      const std::vector<std::size_t>& spans, ChanceBounds& bounds) {
  const std::size_t rates = questions.rates.size();
  Shares shares{.reaches = std::vector<double>(input.steps * rates),
                .idle = std::vector<double>(questions.ages())};
  std::vector<double> ran(input.steps);
  double pages = 0;
  for (const std::size_t i : spans) {
    const auto& [target, weight] = input.spans[i];
    const std::vector<double> highest = HighestRates(input, i);
    pages += weight;
    for (std::size_t step = 0; step < input.steps; ++step) {
      if (input.targets[target].cpu_seconds[step] <= 0) continue;
      ran[step] += weight;
      for (std::size_t r = 0; r < rates; ++r) {
        if (highest[step] >= questions.rates[r]) shares.reaches[step * rates + r] += weight;
      }
    }
    for (std::size_t age = 0; age < shares.idle.size(); ++age) {
      double accesses = 0;
      for (std::size_t step = 0; step < input.steps; ++step) {
        const double seconds = questions.idle_cpu_seconds[target][age][step];
        if (seconds > 0) accesses += seconds * highest[step];
      }
      shares.idle[age] += weight * std::exp(-accesses);
    }
  }
  for (std::size_t i = 0; i < bounds.reaches.size(); ++i) {
    if (ran[i / rates] <= 0) continue;
    bounds.reaches[i].high = std::max(bounds.reaches[i].high, shares.reaches[i] / ran[i / rates]);
  }
  for (std::size_t age = 0; age < shares.idle.size(); ++age) {
    bounds.idle[age].low = std::min(bounds.idle[age].low, shares.idle[age] / pages);
  }
}

// Returns the CPU time of that age, averaged over pages. One column over the grid stands for all.
double MeanIdleSeconds(const ChancesInput& input, const ChanceQuestions& questions,
                       std::size_t age) {
  double sum = 0;
  double pages = 0;
  for (const auto& [target, weight] : input.spans) {
    if (!questions.is_asked[target]) continue;
    for (const double seconds : questions.idle_cpu_seconds[target][age]) sum += weight * seconds;
    pages += weight;
  }
  return sum / pages;
}

// Returns a rate whose pages reach no rate asked for, and are idle in each time asked for.
double SlowestAsked(const ChancesInput& input, const ChanceQuestions& questions) {
  constexpr double kMargin = 4;
  constexpr double kIdle = 0.1;  // accesses in that time
  double slowest = std::numeric_limits<double>::infinity();
  for (const double rate : questions.rates) slowest = std::min(slowest, rate / kMargin);
  for (std::size_t age = 0; age < questions.ages(); ++age) {
    const double seconds = MeanIdleSeconds(input, questions, age);
    if (seconds > 0) slowest = std::min(slowest, kIdle / seconds);
  }
  return slowest;
}

// Multiples of the golden ratio are spread evenly, and in step with no pattern of the pages: each
// sixteenth page may be hot.
std::vector<std::size_t> SomeOf(const std::vector<std::size_t>& spans) {
  if (spans.size() <= kSpansForBounds) return spans;
  std::vector<std::size_t> some;
  double whole = 0;
  for (std::size_t i = 0; i < kSpansForBounds; ++i) {
    const double share = std::modf(static_cast<double>(i) * std::numbers::phi, &whole);
    some.push_back(spans[static_cast<std::size_t>(share * static_cast<double>(spans.size()))]);
  }
  std::ranges::sort(some);
  return some;
}

// Returns the column, and 1 minus it.
std::pair<std::vector<double>, std::vector<double>> WithRest(std::vector<double> column) {
  std::vector<double> rest;
  for (const double value : column) rest.push_back(1 - value);
  return {std::move(column), std::move(rest)};
}

}  // namespace

ChanceBounds EstimateChances(const ChancesInput& input, const ChanceQuestions& questions,
                             const VisitChances& visit) {
  ChanceBounds bounds{.is_steady = !input.persistence};
  std::vector<std::size_t> asked;
  for (std::size_t i = 0; i < input.spans.size(); ++i) {
    if (questions.is_asked[input.spans[i].target]) asked.push_back(i);
  }
  if (asked.empty()) {
    bounds.reaches.resize(input.steps * questions.rates.size());
    bounds.idle.resize(questions.ages());
    return bounds;
  }
  RateFit fit = FitRates(input.kinds, SlowestAsked(input, questions));
  Mixture& mixture = fit.mixture;
  const bool any_bits = std::ranges::any_of(input.kinds, &RateKind::looked_at);
  const std::vector<double> near = mixture.prior();
  mixture.FitPrior(input.kinds, any_bits, near, Rare::kKept);
  const Readings readings = ReadingsOf(fit, questions.rates);
  const std::vector<double>& grid = mixture.rates();

  Teller teller(input, questions, mixture);
  teller.SetPrior(mixture.prior());
  teller.Tell(readings.fitted, asked, Asked::kAll, visit);

  const std::vector<std::size_t> some = SomeOf(asked);
  const auto shares_by = [&](const Reading& reading, Asked of = Asked::kAll) {
    return SharesOf(teller, reading, input, questions, some, of);
  };
  const Shares fitted = shares_by(readings.fitted);
  bounds.reaches = Bounds(fitted.reaches);
  bounds.idle = Bounds(fitted.idle);
  const auto widen_all = [](std::vector<ShareBounds>& all, const std::vector<double>& shares) {
    for (std::size_t i = 0; i < all.size(); ++i) Widen(all[i], shares[i]);
  };
  for (const Reading* reading : {&readings.low, &readings.high}) {
    const Shares shares = shares_by(*reading);
    widen_all(bounds.reaches, shares.reaches);
    widen_all(bounds.idle, shares.idle);
  }

  const auto shares_towards = [&](const std::vector<double>& column, Asked of) {
    teller.SetPrior(mixture.PriorTowards(input.kinds, any_bits, column));
    return shares_by(readings.fitted, of);
  };
  const std::size_t rates = questions.rates.size();
  for (std::size_t r = 0; r < rates; ++r) {
    std::vector<double> reaching(grid.size());
    std::fill(reaching.begin() + static_cast<std::ptrdiff_t>(readings.fitted.first_point[r]),
              reaching.end(), 1.0);
    const auto [column, rest] = WithRest(std::move(reaching));
    for (const auto* towards : {&column, &rest}) {
      const Shares shares = shares_towards(*towards, Asked::kRates);
      for (std::size_t step = 0; step < input.steps; ++step) {
        Widen(bounds.reaches[step * rates + r], shares.reaches[step * rates + r]);
      }
    }
  }
  for (std::size_t age = 0; age < questions.ages(); ++age) {
    const double seconds = MeanIdleSeconds(input, questions, age);
    std::vector<double> idle;
    for (const double rate : grid) idle.push_back(std::exp(-rate * seconds));
    const auto [column, rest] = WithRest(std::move(idle));
    for (const auto* towards : {&column, &rest}) {
      Widen(bounds.idle[age], shares_towards(*towards, Asked::kIdle).idle[age]);
    }
  }
  for (ShareBounds& reaches : bounds.reaches) WidenByModelError(reaches.value, reaches);
  for (ShareBounds& idle : bounds.idle) WidenByModelError(1 - idle.value, idle);
  WidenByUnwatched(input, questions, some, bounds);
  return bounds;
}

}  // namespace tmprof
