// SPDX-License-Identifier: Apache-2.0

#include "profiler/probe_text.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "base/result.h"

namespace tmprof {
namespace {

std::string ProbeText(const Probe& probe) {
  std::string text = fmt::format("  {:<10} {:<8} {}\n", probe.name,
                                 probe.usable ? "usable" : "refused", probe.label);
  if (probe.system_error) text += fmt::format("  {:<19} {}\n", "", ErrnoText(*probe.system_error));
  if (!probe.detail.empty()) text += fmt::format("  {:<19} {}\n", "", probe.detail);
  if (!probe.fix.empty()) text += fmt::format("  {:<19} fix: {}\n", "", probe.fix);
  return text;
}

}  // namespace

Json ProbesJson(std::span<const Probe> probes, const CpuIdentity& cpu) {
  Json rows = Json::array();
  for (const Probe& probe : probes) {
    const std::string impossible = WhyImpossible(probe, cpu);
    rows.push_back({{"name", probe.name},
                    {"job", Name(probe.job)},
                    {"usable", probe.usable},
                    {"label", probe.label},
                    {"error", probe.system_error ? Json(ErrnoText(*probe.system_error)) : Json()},
                    {"detail", probe.detail},
                    {"fix", probe.fix},
                    {"impossible", impossible.empty() ? Json() : Json(impossible)}});
  }
  return rows;
}

std::string ProbesText(std::span<const Probe> probes, const CpuIdentity& cpu, bool shows_all) {
  std::string text;
  std::string job;
  std::map<std::string, std::string> names_by_reason;
  for (const Probe& probe : probes) {
    const std::string why = shows_all ? "" : WhyImpossible(probe, cpu);
    if (!why.empty()) {
      std::string& names = names_by_reason[why];
      names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", probe.name, Name(probe.job));
      continue;
    }
    if (job != Name(probe.job)) {
      job = Name(probe.job);
      text += fmt::format("\n{}\n", job);
    }
    text += ProbeText(probe);
  }
  if (!names_by_reason.empty()) text += "\nnot possible on this machine (--all shows more)\n";
  for (const auto& [reason, names] : names_by_reason)
    text += fmt::format("  {}: {}\n", reason, names);
  return text;
}

Json VerdictJson(const MachineVerdict& verdict, const ChosenSources& chosen) {
  Json gains = Json::array();
  for (const auto& [what, how] : verdict.gains) gains.push_back({{"what", what}, {"how", how}});
  return {{"fine", verdict.is_fine},
          {"text", verdict.text},
          {"sources", chosen.names},
          {"ns_per_set", OrNull(chosen.ns_per_set)},
          {"reach_bytes", verdict.reach ? Json(verdict.reach->value() * kBasePageBytes) : Json()},
          {"gains", std::move(gains)}};
}

std::string VerdictText(const MachineVerdict& verdict) {
  std::string text = verdict.text + ".\n";
  if (verdict.reach) {
    text += fmt::format(
        "  reach  {}: so much memory of a busy program is looked at once in {} s, "
        "at {} overhead\n",
        HumanSize(*verdict.reach), kReachSeconds, Percent(kReachOverhead));
  }
  for (const auto& [what, how] : verdict.gains)
    text += fmt::format("  gain   {} ({})\n", what, how);
  return text;
}

}  // namespace tmprof
