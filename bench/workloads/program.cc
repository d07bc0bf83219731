// SPDX-License-Identifier: Apache-2.0

#include "bench/workloads/program.h"

#include <cstdio>

#include "bench/workloads/print.h"

namespace tmprof::workload {

int RunProgram(CLI::App& app, int argc, char** argv, const std::function<Ended()>& body) {
  app.set_help_flag("--help", "Print this help and exit");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  Ended ended = body();
  const bool printed = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (ended && !printed) ended = Refused("cannot write to standard output");
  if (ended) return 0;
  Print(stderr, "{}: {}\n", app.get_name(), ended.error().why);
  return ended.error().exit_status;
}

}  // namespace tmprof::workload
