// SPDX-License-Identifier: Apache-2.0

#include "profiler/machine_verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <string_view>

#include "profiler/source_kind.h"

namespace tmprof {
namespace {

const SourceKind* KindOf(std::string_view name) {
  const auto kind = std::ranges::find(SourceKinds(), name, &SourceKind::name);
  return kind == SourceKinds().end() ? nullptr : &*kind;
}

// "accessed bits by BPF and clock (memory-stall time)".
std::string LabelsOf(const ChosenSources& chosen) {
  std::string text;
  for (const std::string& name : chosen.names) {
    const SourceKind* kind = KindOf(name);
    if (!text.empty()) text += " and ";
    text += kind == nullptr ? std::string_view(name) : kind->label;
  }
  return text;
}

bool Has(const ChosenSources& chosen, const SourceKind& kind) {
  return std::ranges::find(chosen.names, kind.name) != chosen.names.end();
}

bool HasRole(const ChosenSources& chosen, SourceRole role) {
  return std::ranges::any_of(chosen.names, [role](const std::string& name) {
    const SourceKind* kind = KindOf(name);
    return kind != nullptr && kind->role == role;
  });
}

// Returns how to make the first of these probes work that may. If none may, it says why.
std::string HowToGet(std::span<const Probe> probes, const CpuIdentity& cpu,
                     std::span<const std::string_view> names, ProbeJob job) {
  std::string why;
  for (const Probe& probe : probes) {
    if (probe.usable || probe.job != job || std::ranges::find(names, probe.name) == names.end())
      continue;
    const std::string impossible = WhyImpossible(probe, cpu);
    if (impossible.empty()) return probe.fix.empty() ? probe.detail : probe.fix;
    if (!why.contains(impossible)) why += (why.empty() ? "" : ", ") + impossible;
  }
  return why.empty() ? "" : "not possible here: " + why;
}

}  // namespace

std::string WhyImpossible(const Probe& probe, const CpuIdentity& cpu) {
  if (probe.usable) return {};
  if (!probe.impossible.empty()) return probe.impossible;
  if (probe.name == kIbsSource.name && !cpu.vendor.empty() && cpu.vendor != "AuthenticAMD")
    return "no AMD CPU";
  if (probe.name == kPebsSource.name && !cpu.vendor.empty() && cpu.vendor != "GenuineIntel")
    return "no Intel CPU";
  const bool needs_counters =
      probe.job == ProbeJob::kAddressSamples || probe.job == ProbeJob::kGate;
  if (needs_counters && cpu.is_virtual && probe.system_error == ENOENT)
    return "a virtual machine without performance counters";
  return {};
}

MachineVerdict VerdictOf(std::span<const Probe> probes, const ChosenSources& chosen,
                         const CpuIdentity& cpu) {
  static constexpr std::string_view kHardware[] = {kDriverSource.name, kIbsSource.name,
                                                   kPebsSource.name};
  static constexpr std::string_view kBits[] = {kAbitBpfSource.name};
  static constexpr std::string_view kDriver[] = {kDriverSource.name};
  static constexpr std::string_view kClock[] = {kClockSource.name};

  MachineVerdict verdict;
  const bool has_bits = HasRole(chosen, SourceRole::kReferences);
  const bool has_samples = HasRole(chosen, SourceRole::kSamples);
  verdict.is_fine = has_bits && has_samples;
  if (chosen.names.empty()) {
    verdict.text = "Nothing can be recorded here: " + chosen.refusal;
  } else if (verdict.is_fine) {
    verdict.text = fmt::format("You are fine: 'tmprof record' uses {}", LabelsOf(chosen));
  } else {
    verdict.text =
        fmt::format("Recording works in part: 'tmprof record' uses {} alone", LabelsOf(chosen));
  }
  if (has_bits && chosen.ns_per_set.value_or(0) > 0) {
    const double pages = kReachSeconds * kReachOverhead * 1e9 / *chosen.ns_per_set;
    verdict.reach = PageCount(static_cast<std::uint64_t>(std::llround(pages)));
  }
  const auto gain = [&](const char* what, std::span<const std::string_view> names, ProbeJob job) {
    std::string how = HowToGet(probes, cpu, names, job);
    if (!how.empty()) verdict.gains.push_back({what, std::move(how)});
  };
  if (!has_bits)
    gain("accessed bits show every page, not only the hottest", kBits, ProbeJob::kAccessedBits);
  const bool has_memory_samples = std::ranges::any_of(chosen.names, [](const std::string& name) {
    const SourceKind* kind = KindOf(name);
    return kind != nullptr && kind->samples_of == SampleSubject::kMemory;
  });
  if (!has_memory_samples)
    gain("hardware samples show which accesses reach memory", kHardware, ProbeJob::kAddressSamples);
  if (!has_samples) gain("clock samples show where time goes", kClock, ProbeJob::kAddressSamples);
  if (has_bits && !Has(chosen, kDriverSource))
    gain("the kernel module clears shared and locked pages one by one", kDriver,
         ProbeJob::kAccessedBits);
  return verdict;
}

}  // namespace tmprof
