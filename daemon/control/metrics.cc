// SPDX-License-Identifier: Apache-2.0

#include "daemon/control/metrics.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <prometheus/metric_family.h>

#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/host/signals_blocked.h"
#include "base/text/format.h"
#include "base/units.h"
#include "rank/rank_weight.h"

namespace tmprof {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

using Labels = std::vector<ClientMetric::Label>;

// A scraper that neither asks nor takes its answer for so long is given up, in ms.
constexpr const char* kRequestTimeout = "5000";
constexpr const char* kThreads = "2";

// One family; without a value that is known it is left out.
class Family {
 public:
  Family(MetricType type, std::string name, std::string help) {
    family_.type = type;
    family_.name = std::move(name);
    family_.help = std::move(help);
  }

  Family& Add(std::optional<double> value, Labels labels = {}) {
    if (!value) return *this;
    ClientMetric metric;
    metric.label = std::move(labels);
    if (family_.type == MetricType::Counter) {
      metric.counter.value = *value;
    } else {
      metric.gauge.value = *value;
    }
    family_.metric.push_back(std::move(metric));
    return *this;
  }

  void To(std::vector<MetricFamily>& families) {
    if (!family_.metric.empty()) families.push_back(std::move(family_));
  }

 private:
  MetricFamily family_;
};

Family Counter(std::string name, std::string help) {
  return {MetricType::Counter, std::move(name), std::move(help)};
}
Family Gauge(std::string name, std::string help) {
  return {MetricType::Gauge, std::move(name), std::move(help)};
}

std::string TierLabel(Tier tier) { return std::to_string(tier.value()); }

std::optional<double> Bytes(std::optional<PageCount> pages) {
  if (!pages) return std::nullopt;
  return static_cast<double>(pages->value()) * kBasePageBytes;
}

std::optional<double> Number(std::optional<std::uint64_t> count) {
  return count ? std::optional(static_cast<double>(*count)) : std::nullopt;
}

void CollectMoves(const MoveTotals& totals, std::vector<MetricFamily>& families) {
  Family moved = Counter("tmprof_pages_moved_total", "Pages of 4 KiB that were moved");
  for (const auto& [way, pages] : totals.moved) {
    moved.Add(Number(pages.value()), {{"from", TierLabel(way.from)},
                                      {"to", TierLabel(way.to)},
                                      {"reason", std::string(Name(way.reason))}});
  }
  moved.To(families);
  Family failures = Counter("tmprof_move_failures_total", "Moves that were given up");
  for (const auto& [error, moves] : totals.failures) {
    failures.Add(Number(moves), {{"errno", ErrnoName(error)}});
  }
  failures.To(families);
  Counter("tmprof_ping_pong_moves_total", "Moves that undid another one")
      .Add(Number(totals.ping_pong))
      .To(families);
}

void CollectSources(const DaemonStatus& status, std::vector<MetricFamily>& families) {
  Family lost = Counter("tmprof_samples_lost_total", "Observations that are known to be missed");
  Family active = Gauge("tmprof_source_active_ratio", "Share of the last epoch that it was on");
  for (const auto& [epoch, lost_total] : status.sources) {
    lost.Add(Number(lost_total), {{"source", epoch.name}});
    active.Add(epoch.duty_cycle, {{"source", epoch.name}});
  }
  lost.To(families);
  active.To(families);
}

void CollectTiers(const DaemonStatus& status, std::vector<MetricFamily>& families) {
  Gauge(
      "tmprof_tier_hit_ratio",
      "Estimated share of accesses, or of accesses to memory (tmprof_rank_info), that hit tier 1, "
      "of the last epoch")
      .Add(status.tier1_hit_ratio)
      .To(families);
  Family ranked_by =
      Gauge("tmprof_rank_info",
            "1 for the evidence that pages are ranked by, and what their scores count");
  if (status.ranked_by)
    ranked_by.Add(1, {{"by", std::string(Name(*status.ranked_by))},
                      {"weight", std::string(Name(WeightOf(*status.ranked_by)))}});
  ranked_by.To(families);
  Family capacity = Gauge("tmprof_tier_capacity_bytes", "What the targets may have of it");
  Family used = Gauge("tmprof_tier_used_bytes", "What the targets have of it");
  for (const TierStatus& tier : status.tiers) {
    capacity.Add(Bytes(tier.capacity), {{"tier", TierLabel(tier.tier)}});
    used.Add(Bytes(tier.used), {{"tier", TierLabel(tier.tier)}});
  }
  capacity.To(families);
  used.To(families);
}

void CollectSavings(const DaemonStatus& status, std::vector<MetricFamily>& families) {
  constexpr double kSecondsOfNs = 1e-9;
  Family gaps = Gauge("tmprof_latency_gap_seconds",
                      "How much longer an access takes than in tier 1, the price of an access");
  for (const TierStatus& tier : status.tiers) {
    if (tier.tier == kTier1) continue;
    const LatencyGap gap = status.gaps.Of(tier.tier);
    gaps.Add(gap.ns * kSecondsOfNs,
             {{"tier", TierLabel(tier.tier)}, {"basis", std::string(Name(gap.basis))}});
  }
  gaps.To(families);
  const PromotionSavings& savings = status.savings;
  Counter("tmprof_promotions_checked_total",
          "Promotions of which later evidence tells what they saved")
      .Add(Number(savings.promotions))
      .To(families);
  if (savings.promotions == 0) return;
  Counter(
      "tmprof_promotion_predicted_saved_seconds_total",
      "Memory time that checked promotions were predicted to save in their first 10 s in tier 1")
      .Add(savings.predicted_seconds)
      .To(families);
  Counter(
      "tmprof_promotion_realised_saved_seconds_total",
      "Memory time that checked promotions saved in their first 10 s in tier 1, by later evidence")
      .Add(savings.realised_seconds)
      .To(families);
}

void CollectDecision(const DecisionStatus& decision, std::vector<MetricFamily>& families) {
  Family not_moved = Gauge("tmprof_spans_not_moved",
                           "Spans that the last decision wanted in tier 1 and let stay below");
  for (const auto& [name, count] : kReasonsNotMoved) {
    not_moved.Add(Number(decision.not_moved.*count), {{"reason", std::string(name)}});
  }
  not_moved.To(families);
}

class StatusCollector final : public prometheus::Collectable {
 public:
  explicit StatusCollector(const StatusBoard& board) : board_(&board) {}

  std::vector<MetricFamily> Collect() const override {
    const auto reading = board_->Read();
    const DaemonStatus& status = *reading.status;
    std::vector<MetricFamily> families;
    CollectMoves(status.totals, families);
    if (status.decision) CollectDecision(*status.decision, families);
    CollectSources(status, families);
    CollectTiers(status, families);
    CollectSavings(status, families);
    Gauge("tmprof_targets", "Processes whose memory is placed")
        .Add(Number(status.targets.size()))
        .To(families);
    Counter("tmprof_epochs_total", "Epochs that are over")
        .Add(Number(status.epochs_total))
        .To(families);
    Counter("tmprof_own_cpu_seconds_total", "CPU time of the daemon, user and system")
        .Add(Seconds(status.own_cpu_time))
        .To(families);
    Gauge("tmprof_paused", "1 while the operator has moves paused")
        .Add(status.state == DaemonState::kPaused ? 1 : 0)
        .To(families);
    return families;
  }

 private:
  const StatusBoard* board_;
};

// "127.0.0.1:9101", "[::1]:9101"; nothing where others than this machine could reach it.
std::optional<std::string> LoopbackAddress(const std::string& host, std::uint16_t port) {
  in_addr v4{};
  in6_addr v6{};
  if (::inet_pton(AF_INET, host.c_str(), &v4) == 1 &&
      ntohl(v4.s_addr) >> IN_CLASSA_NSHIFT == IN_LOOPBACKNET) {
    return fmt::format("{}:{}", host, port);
  }
  if (::inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6))
    return fmt::format("[{}]:{}", host, port);
  return std::nullopt;
}

}  // namespace

class MetricsServer::Exposition {
 public:
  Exposition(const std::string& address, const StatusBoard& board)
      : collector_(std::make_shared<StatusCollector>(board)),
        exposer_({"listening_ports", address, "num_threads", kThreads, "request_timeout_ms",
                  kRequestTimeout}) {
    exposer_.RegisterCollectable(collector_);
  }

  std::uint16_t port() const {
    return static_cast<std::uint16_t>(exposer_.GetListeningPorts().front());
  }

 private:
  std::shared_ptr<StatusCollector> collector_;
  prometheus::Exposer exposer_;
};

Result<std::unique_ptr<MetricsServer>> MetricsServer::Start(const std::string& host,
                                                            std::uint16_t port,
                                                            const StatusBoard& board) {
  const auto address = LoopbackAddress(host, port);
  if (!address) {
    return Fail(BadInput("serve metrics at", host, "it is not an address of the loopback interface",
                         "use 127.0.0.1 or ::1"));
  }
  const SignalsBlocked blocked;
  try {
    auto exposition = std::make_unique<Exposition>(*address, board);
    return std::unique_ptr<MetricsServer>(new MetricsServer(std::move(exposition)));
  } catch (const std::exception&) {  // it does not say why
    return Fail(Error{.kind = ErrorKind::kRefused,
                      .attempt = "serve metrics at",
                      .object = *address,
                      .reason = "the port could not be had",
                      .advice = "is another program there ('ss -ltnp')?"});
  }
}

MetricsServer::MetricsServer(std::unique_ptr<Exposition> exposition)
    : exposition_(std::move(exposition)) {}
MetricsServer::~MetricsServer() = default;

std::uint16_t MetricsServer::port() const { return exposition_->port(); }

}  // namespace tmprof
