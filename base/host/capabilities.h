// SPDX-License-Identifier: Apache-2.0
// The capabilities(7) that observing takes: one list for refusals, notes and doctor alike.

#pragma once

#include <linux/capability.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tmprof {

struct Capability {
  int number;
  std::string_view name;
  bool other_users_only;  // not needed to observe processes of one's own
};

// perf_event_open(2) and BPF tracing; before Linux 5.8, CAP_SYS_ADMIN.
inline constexpr Capability kCapPerfmon{CAP_PERFMON, "CAP_PERFMON", false};
// Whatever looks into another user's process passes ptrace(2)'s access check.
inline constexpr Capability kCapSysPtrace{CAP_SYS_PTRACE, "CAP_SYS_PTRACE", true};

// bpf(2); process_madvise(2), and a scanner that is woken on time.
inline constexpr std::array kAccessedBitCapabilities{
    Capability{CAP_BPF, "CAP_BPF", false}, kCapPerfmon,
    Capability{CAP_SYS_NICE, "CAP_SYS_NICE", false}, kCapSysPtrace};
// Files of other users' processes that only the owner may write.
inline constexpr std::array kWholeClearCapabilities{
    Capability{CAP_DAC_OVERRIDE, "CAP_DAC_OVERRIDE", true}};
inline constexpr std::array kAddressSampleCapabilities{kCapPerfmon, kCapSysPtrace};

// A bit for each capability that is in effect in this thread.
std::uint64_t EffectiveCapabilities();

// "CAP_BPF, CAP_SYS_NICE": those of `needed` that are not in effect.
std::string MissingCapabilities(std::span<const Capability> needed, std::uint64_t effective);

// "run as root or with CAP_PERFMON, and CAP_SYS_PTRACE for other users' processes (missing here:
// CAP_PERFMON)". If none is missing, it says who may refuse nonetheless.
std::string CapabilityAdvice(std::span<const Capability> needed,
                             std::uint64_t effective = EffectiveCapabilities());

// "run as root or as the owner of the process", for that `owner`. Root itself is referred to what
// may refuse it.
std::string OwnerAdvice(std::string_view owner, bool is_root = ::geteuid() == 0);

}  // namespace tmprof
