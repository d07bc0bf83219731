// SPDX-License-Identifier: Apache-2.0
// Unit types of the vocabulary. Ranges are half-open [start, end).

#pragma once

#include <chrono>
#include <cstdint>

#include "base/strong_int.h"

namespace tmprof {

inline constexpr int kBasePageShift = 12;
inline constexpr std::uint64_t kBasePageBytes = std::uint64_t{1} << kBasePageShift;

// Number of base pages.
using PageCount = StrongInt<struct PageCountTag, std::uint64_t>;
constexpr PageCount operator+(PageCount a, PageCount b) { return PageCount(a.value() + b.value()); }
constexpr PageCount operator-(PageCount a, PageCount b) { return PageCount(a.value() - b.value()); }
constexpr PageCount& operator+=(PageCount& a, PageCount b) { return a = a + b; }
constexpr PageCount& operator-=(PageCount& a, PageCount b) { return a = a - b; }

// Virtual page number: virtual address >> kBasePageShift.
using Vpn = StrongInt<struct VpnTag, std::uint64_t>;
constexpr Vpn operator+(Vpn a, PageCount n) { return Vpn(a.value() + n.value()); }
// Precondition: b <= a.
constexpr PageCount operator-(Vpn a, Vpn b) { return PageCount(a.value() - b.value()); }

constexpr Vpn VpnOfAddress(std::uint64_t address) { return Vpn(address >> kBasePageShift); }
constexpr std::uint64_t AddressOf(Vpn vpn) { return vpn.value() << kBasePageShift; }

struct VpnRange {
  Vpn start;
  Vpn end;

  constexpr PageCount size() const { return end - start; }
  constexpr bool Contains(Vpn vpn) const { return start <= vpn && vpn < end; }
  friend constexpr bool operator==(const VpnRange&, const VpnRange&) = default;
};

// NUMA node number, as in /sys/devices/system/node/nodeN.
using NodeId = StrongInt<struct NodeIdTag, std::uint16_t>;

// Process and thread numbers in the initial PID namespace. The kernel reuses them, so that a Pid
// names a process only together with its start time.
using Pid = StrongInt<struct PidTag, std::int32_t>;
using Tid = StrongInt<struct TidTag, std::int32_t>;
using CpuId = StrongInt<struct CpuIdTag, std::int32_t>;

// A tracked process within one trace: dense, in order of registration, never reused.
using TargetId = StrongInt<struct TargetIdTag, std::uint32_t>;

// The time of CLOCK_MONOTONIC, in nanoseconds since boot. Every timestamp of a trace uses it.
struct MonotonicLine {
  using rep = std::int64_t;
  using period = std::nano;
  using duration = std::chrono::nanoseconds;
  using time_point = std::chrono::time_point<MonotonicLine>;
  static constexpr bool is_steady = true;
};
using MonotonicTime = MonotonicLine::time_point;

constexpr double Seconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

// Returns a / b, rounded up. Preconditions: b > 0, and a + b - 1 fits.
constexpr std::uint64_t CeilDivide(std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; }

}  // namespace tmprof
