// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "apps/command_line/parse_errors.h"
#include "apps/command_line/terminal.h"
#include "apps/tmprof/cli.h"
#include "base/text/format.h"
#include "mover/joint_moves.h"
#include "profiler/probe.h"
#include "profiler/session_sources.h"

namespace tmprof {
namespace {

Json Rows(std::span<const Probe> probes) {
  Json rows = Json::array();
  for (const Probe& probe : probes) {
    rows.push_back({{"name", probe.name},
                    {"job", Name(probe.job)},
                    {"usable", probe.usable},
                    {"label", probe.label},
                    {"error", probe.system_error ? Json(ErrnoText(*probe.system_error)) : Json()},
                    {"detail", probe.detail},
                    {"fix", probe.fix}});
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

std::string AsText(const std::vector<Probe>& probes) {
  std::string text;
  std::string job;
  for (const Probe& probe : probes) {
    if (job != Name(probe.job)) {
      job = Name(probe.job);
      text += fmt::format("{}{}\n", text.empty() ? "" : "\n", job);
    }
    text += fmt::format("  {:<10} {:<8} {}\n", probe.name, probe.usable ? "usable" : "refused",
                        probe.label);
    if (probe.system_error)
      text += fmt::format("  {:<19} {}\n", "", ErrnoText(*probe.system_error));
    if (!probe.detail.empty()) text += fmt::format("  {:<19} {}\n", "", probe.detail);
    if (!probe.fix.empty()) text += fmt::format("  {:<19} fix: {}\n", "", probe.fix);
  }
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
  command->callback([format, &exit_status] {
    std::vector<Probe> probes = ProbeSources();
    const Probe moves = ProbeJointMoves();
    Json json{{"sources", Rows(probes)}, {"moves", Rows({&moves, 1})}};
    probes.push_back(moves);
    const Status status =
        WriteOut(*format == "json" ? JsonText(json) : Fitted(AsText(probes), OutputWidth()));
    exit_status = status ? kDone : ReportError(status.error());
  });
}

}  // namespace tmprof
