// SPDX-License-Identifier: Apache-2.0

#include "daemon/control/metrics.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <string>

#include "base/unique_fd.h"
#include "tests/base/fake_clock.h"
#include "tests/daemon/control/statuses.h"

namespace tmprof::test {
namespace metrics_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Returns the answer of the server at 127.0.0.1, with its header.
std::string Get(std::uint16_t port, const std::string& path) {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return std::strerror(errno);
  const std::string request = "GET " + path + " HTTP/1.0\r\n\r\n";
  EXPECT_EQ(::send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL), std::ssize(request));
  std::string answer;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::recv(fd.get(), buffer, sizeof buffer, 0)) > 0;)
    answer.append(buffer, static_cast<std::size_t>(got));
  return answer;
}

class MetricsTest : public ::testing::Test {
 protected:
  explicit MetricsTest(DaemonStatus status = FullStatus()) : board_(clock_, std::move(status)) {
    auto server = MetricsServer::Start("127.0.0.1", 0, board_);
    EXPECT_TRUE(server.has_value()) << server.error().Message();
    if (server) server_ = *std::move(server);
  }
  std::string Scrape() { return Get(server_->port(), "/metrics"); }

  const FakeClock clock_{kDaemonStart};
  StatusBoard board_;
  std::unique_ptr<MetricsServer> server_;
};

TEST_F(MetricsTest, HasAllThatIsKnown) {
  const std::string scraped = Scrape();
  EXPECT_THAT(scraped, StartsWith("HTTP/1.1 200"));
  for (const char* line : {"# TYPE tmprof_pages_moved_total counter",
                           "tmprof_pages_moved_total{from=\"2\",to=\"1\",reason=\"wanted\"} 90",
                           "tmprof_pages_moved_total{from=\"1\",to=\"2\",reason=\"room\"} 80",
                           "tmprof_move_failures_total{errno=\"EBUSY\"} 4",
                           "tmprof_ping_pong_moves_total 2",
                           "tmprof_samples_lost_total{source=\"clock\"} 30",
                           "# TYPE tmprof_source_active_ratio gauge",
                           "tmprof_source_active_ratio{source=\"clock\"} 0.25",
                           "tmprof_tier_hit_ratio 0.875",
                           "tmprof_rank_info{by=\"memory\",weight=\"memory\"} 1",
                           "tmprof_latency_gap_seconds{tier=\"2\",basis=\"firmware\"} 1.7e-07",
                           "tmprof_promotions_checked_total 90",
                           "tmprof_promotion_predicted_saved_seconds_total 2",
                           "tmprof_promotion_realised_saved_seconds_total 1.5",
                           "tmprof_tier_capacity_bytes{tier=\"1\"} 2097152",
                           "tmprof_tier_used_bytes{tier=\"1\"} 1048576",
                           "tmprof_tier_used_bytes{tier=\"2\"} 3145728",
                           "tmprof_targets 1",
                           "tmprof_epochs_total 8",
                           "tmprof_own_cpu_seconds_total 12.5",
                           "tmprof_paused 0",
                           "tmprof_spans_not_moved{reason=\"bound\"} 1",
                           "tmprof_spans_not_moved{reason=\"binding_unknown\"} 7",
                           "tmprof_spans_not_moved{reason=\"shared\"} 9",
                           "tmprof_spans_not_moved{reason=\"mapped_elsewhere\"} 10",
                           "tmprof_spans_not_moved{reason=\"backoff\"} 8"}) {
    EXPECT_THAT(scraped, HasSubstr(std::string("\n") + line + "\n"));
  }
  // The second tier has no capacity of its own.
  EXPECT_THAT(scraped, Not(HasSubstr("tmprof_tier_capacity_bytes{tier=\"2\"}")));
}

TEST_F(MetricsTest, LeavesOutSavingsBeforeAnyIsKnown) {
  DaemonStatus next = FullStatus();
  next.savings = {};
  board_.Publish(next);
  const std::string scraped = Scrape();
  EXPECT_THAT(scraped, HasSubstr("\ntmprof_promotions_checked_total 0\n"));
  EXPECT_THAT(scraped, Not(HasSubstr("saved_seconds")));
}

TEST_F(MetricsTest, FollowsTheBoard) {
  DaemonStatus next = FullStatus();
  next.state = DaemonState::kPaused;
  next.epochs_total = 9;
  board_.Publish(next);
  EXPECT_THAT(Scrape(),
              AllOf(HasSubstr("\ntmprof_paused 1\n"), HasSubstr("\ntmprof_epochs_total 9\n")));
}

TEST_F(MetricsTest, NamesNoProcess) {
  EXPECT_THAT(Scrape(), AllOf(Not(HasSubstr("redis")), Not(HasSubstr("4711"))));
}

TEST_F(MetricsTest, ServesNothingElse) {
  for (const char* path : {"/", "/etc/passwd", "/../../../../etc/passwd"}) {
    EXPECT_THAT(Get(server_->port(), path), AllOf(HasSubstr(" 404 "), Not(HasSubstr("root:"))));
  }
}

TEST_F(MetricsTest, RefusesAPortThatIsTaken) {
  const auto second = MetricsServer::Start("127.0.0.1", server_->port(), board_);
  ASSERT_FALSE(second.has_value());
  EXPECT_THAT(second.error().Message(), HasSubstr("127.0.0.1:" + std::to_string(server_->port())));
}

class NewMetricsTest : public MetricsTest {
 protected:
  NewMetricsTest() : MetricsTest(NewStatus()) {}
};

TEST_F(NewMetricsTest, LeavesOutWhatIsUnknown) {
  const std::string scraped = Scrape();
  EXPECT_THAT(scraped, HasSubstr("\ntmprof_epochs_total 0\n"));
  for (const char* name : {"tmprof_tier", "tmprof_source", "tmprof_samples", "tmprof_pages",
                           "tmprof_move_failures", "tmprof_spans"}) {
    EXPECT_THAT(scraped, Not(HasSubstr(name)));
  }
}

TEST(MetricsServer, ServesThisMachineAlone) {
  const FakeClock clock{kDaemonStart};
  const StatusBoard board(clock, NewStatus());
  for (const char* host : {"0.0.0.0", "192.0.2.1", "::", "localhost", "", "127.0.0.1:1,0.0.0.0"}) {
    const auto server = MetricsServer::Start(host, 0, board);
    ASSERT_FALSE(server.has_value()) << host;
    EXPECT_EQ(server.error().kind, ErrorKind::kBadInput);
    EXPECT_THAT(server.error().Message(), HasSubstr("loopback"));
  }
}

}  // namespace metrics_test
}  // namespace tmprof::test
