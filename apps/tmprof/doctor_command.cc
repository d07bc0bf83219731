// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "apps/command_line/parse_errors.h"
#include "apps/command_line/terminal.h"
#include "apps/tmprof/cli.h"
#include "apps/tmprof/components.h"
#include "base/host/cpu_identity.h"
#include "base/text/format.h"
#include "mover/joint_moves.h"
#include "profiler/machine_verdict.h"
#include "profiler/probe.h"
#include "profiler/probe_text.h"
#include "profiler/session_sources.h"

namespace tmprof {
namespace {

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

// Empty if all components are there.
std::string NotBuilt() {
  std::string text;
  for (const std::string& component : MissingComponents()) {
    text += fmt::format("  {:<10} {:<8} {}\n", component, "missing", LacksComponent(component));
  }
  return text.empty() ? text : "\ncomponents\n" + text;
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
                       {"sources", ProbesJson(probes, cpu)},
                       {"moves", ProbesJson({&moves, 1}, cpu)},
                       {"missing_components", MissingComponents()}});
    } else {
      probes.push_back(moves);
      text = Fitted(VerdictText(verdict) + ProbesText(probes, cpu, *shows_all) + NotBuilt(),
                    OutputWidth());
    }
    const Status status = WriteOut(text);
    exit_status = status ? kDone : ReportError(status.error());
  });
}

}  // namespace tmprof
