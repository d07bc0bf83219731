// SPDX-License-Identifier: Apache-2.0
#include "profiler/sources/perf/perf_ring.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

#include "base/host/capabilities.h"

namespace tmprof {

Result<PerfRing> PerfRing::Create(PerfApi& api, CpuId cpu, std::size_t data_bytes) {
  NamedEvent owner{.name = "dummy event for a ring"};
  owner.attr.size = sizeof owner.attr;
  owner.attr.type = PERF_TYPE_SOFTWARE;
  owner.attr.config = PERF_COUNT_SW_DUMMY;
  owner.attr.disabled = 1;
  owner.attr.exclude_kernel = 1;
  owner.attr.exclude_hv = 1;
  // SET_OUTPUT refuses events of another clock (kernel/events/core.c, perf_event_set_output()).
  owner.attr.use_clockid = 1;
  owner.attr.clockid = CLOCK_MONOTONIC;
  owner.attr.watermark = 1;
  owner.attr.wakeup_watermark = static_cast<std::uint32_t>(data_bytes / 4);
  auto fd = OpenEvent(api, owner, Tid(::gettid()), cpu);
  if (!fd) return std::unexpected(fd.error());
  const auto memory = api.Map(fd->get(), data_bytes);
  if (!memory) {
    return Fail(Refused(
        "map perf ring", fmt::format("{} KiB for CPU {}", data_bytes / 1024, cpu.value()),
        memory.error(),
        memory.error() == EPERM
            ? "raise kernel.perf_event_mlock_kb, or " + CapabilityAdvice(kAddressSampleCapabilities)
            : ""));
  }
  return PerfRing(api, std::move(*fd), *memory);
}

PerfRing::~PerfRing() {
  if (memory_.control != nullptr) api_->Unmap(memory_);
}

}  // namespace tmprof
