// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "apps/command_line/parse_errors.h"
#include "apps/command_line/terminal.h"
#include "apps/tmprof/cli.h"
#include "base/host/cpu_identity.h"
#include "base/text/format.h"
#include "mover/joint_moves.h"
#include "profiler/machine_verdict.h"
#include "profiler/probe.h"
#include "profiler/session_sources.h"

namespace tmprof {
namespace {

Json Rows(std::span<const Probe> probes, const CpuIdentity& cpu) {
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

// Pages that one process maps are moved by whoever may trace it.
Probe ProbeJointMoves() {
  const Status may = MayMoveJointPages();
  Probe probe{.name = "shared",
              .job = ProbeJob::kMoves,
              .usable = may.has_value(),
              .label = "tmprofd moves pages that several of its targets map"};
  if (may) return probe;
  probe.system_error = may.error().system_error;
  probe.detail = may.error().Fact() + ": such pages stay where they are";
  probe.fix = may.error().advice;
  return probe;
}

// Opens what `tmprof record` would open. The first time, that measures prices for a second or two.
ChosenSources Choose() {
  const auto session = OpenSources({});
  if (!session) return {.names = {}, .refusal = session.error().Message(), .ns_per_set = {}};
  ChosenSources chosen{.names = {}, .refusal = {}, .ns_per_set = session->calibration.ns_per_set};
  for (const auto& source : session->sources) chosen.names.emplace_back(source->name());
  return chosen;
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

std::string ProbeText(const Probe& probe) {
  std::string text = fmt::format("  {:<10} {:<8} {}\n", probe.name,
                                 probe.usable ? "usable" : "refused", probe.label);
  if (probe.system_error) text += fmt::format("  {:<19} {}\n", "", ErrnoText(*probe.system_error));
  if (!probe.detail.empty()) text += fmt::format("  {:<19} {}\n", "", probe.detail);
  if (!probe.fix.empty()) text += fmt::format("  {:<19} fix: {}\n", "", probe.fix);
  return text;
}

// What nothing makes work here is summed up, a line for each reason, unless `shows_all`.
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

}  // namespace

void AddDoctorCommand(CLI::App& app, int& exit_status) {
  CLI::App* command = app.add_subcommand(
      "doctor", "Tells which sources and page moves work here, and how to fix the others");
  auto format = std::make_shared<std::string>("text");
  command->add_option("--format", *format, "Format of the output")
      ->check(OneOf({"text", "json"}))
      ->capture_default_str();
  auto shows_all = std::make_shared<bool>(false);
  command->add_flag("--all", *shows_all, "In text, show what nothing makes work on this machine");
  command->callback([format, shows_all, &exit_status] {
    std::vector<Probe> probes = ProbeSources();
    const Probe moves = ProbeJointMoves();
    const CpuIdentity cpu = ReadCpuIdentity();
    const ChosenSources chosen = Choose();
    const MachineVerdict verdict = VerdictOf(probes, chosen, cpu);
    std::string text;
    if (*format == "json") {
      text = JsonText({{"verdict", VerdictJson(verdict, chosen)},
                       {"sources", Rows(probes, cpu)},
                       {"moves", Rows({&moves, 1}, cpu)}});
    } else {
      probes.push_back(moves);
      text = Fitted(VerdictText(verdict) + ProbesText(probes, cpu, *shows_all), OutputWidth());
    }
    const Status status = WriteOut(text);
    exit_status = status ? kDone : ReportError(status.error());
  });
}

}  // namespace tmprof
