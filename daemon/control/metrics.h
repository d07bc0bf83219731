// SPDX-License-Identifier: Apache-2.0
// The status as metrics, for Prometheus to scrape.

#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "daemon/control/daemon_status.h"

namespace tmprof {

class MetricsServer {
 public:
  // Serves http://host:port/metrics, made of `board` at each scrape; `board` must outlive the
  // server. `host` in numbers, IPv6 without brackets; refused unless it is of the loopback
  // interface. Port 0: any that is free.
  static Result<std::unique_ptr<MetricsServer>> Start(const std::string& host, std::uint16_t port,
                                                      const StatusBoard& board);
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  std::uint16_t port() const;

 private:
  class Exposition;
  explicit MetricsServer(std::unique_ptr<Exposition> exposition);

  std::unique_ptr<Exposition> exposition_;
};

}  // namespace tmprof
