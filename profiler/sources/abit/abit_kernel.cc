// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/abit/abit_kernel.h"

#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "base/host/capabilities.h"

namespace tmprof::abit {
namespace {

std::string RefusalOf(std::string attempt, std::string object, std::optional<int> system_error,
                      std::span<const Capability> needed) {
  Error error = Refused(std::move(attempt), std::move(object), 0);
  error.system_error = system_error;
  if (system_error == EPERM || system_error == EACCES) error.advice = CapabilityAdvice(needed);
  return error.Message();
}

}  // namespace

ReadResult AbitProcess::ReadPoints(std::span<const Vpn> pages, std::vector<PointEntry>& entries) {
  return ReadOneByOne(pages, entries, [this](VpnRange page, std::vector<TablePart>& parts) {
    return Read(page, PageTableReader::Depth::kEntries, parts);
  });
}

std::vector<ClearOutcome> AbitProcess::ClearEach(std::span<const VpnRange> ranges) {
  std::vector<ClearOutcome> outcomes;
  for (const VpnRange& range : ranges) {
    outcomes.push_back(Clear(range));
    if (outcomes.back() == ClearOutcome::kProcessGone) break;
  }
  outcomes.resize(ranges.size(), ClearOutcome::kProcessGone);
  return outcomes;
}

std::vector<bool> AbitProcess::ClearableAlone(std::span<const Vpn> pages) {
  std::vector<bool> clearable;
  for (const PageStanding standing : Inspect(pages, std::vector<bool>(pages.size(), false)))
    clearable.push_back(standing == PageStanding::kClearable);
  return clearable;
}

std::string ProcessRefusal(std::string attempt, Pid pid, std::optional<int> system_error) {
  return RefusalOf(std::move(attempt), fmt::format("PID {}", pid.value()), system_error,
                   kAccessedBitCapabilities);
}

std::string WholeClearRefusal(Pid pid, std::optional<int> system_error) {
  return RefusalOf("clear accessed bits of shared and locked memory",
                   fmt::format("/proc/{}/clear_refs", pid.value()), system_error,
                   kWholeClearCapabilities);
}

std::string UnopenedTargets(const std::vector<Error>& refusals) {
  return fmt::format("the accessed bits of {} target{} are not seen: {}", refusals.size(),
                     refusals.size() == 1 ? "" : "s", refusals.front().Message());
}

}  // namespace tmprof::abit
