// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include "apps/tmprof/freed_memory.h"
#include "apps/tmprof/manual.h"
#include "apps/tmprof/messages.h"
#include "apps/tmprof/version.h"
#include "apps/tmprofd/config_file.h"
#include "apps/tmprofd/daemon.h"
#include "profiler/procfs.h"

namespace tmprof {
namespace {

constexpr int kBadInput = 2;

struct Options {
  std::optional<std::string> config;
  bool check_config = false;
};

int Report(const Error& error) {
  (void)std::fputs(fmt::format("tmprofd: {}\n", error.Message()).c_str(), stderr);
  return error.ExitStatus();
}

std::string Manual(const CLI::App& app) {
  return InRoff(
      {.name = "tmprofd",
       .section = 8,
       .synopsis = "tmprofd [OPTION]...",
       .body = ".SH CONFIGURATION\nThe file is in protobuf's text format. Its manual is\n"
               ".BR config.proto ,\ninstalled with the documentation beside commented examples.\n",
       .end = ".SH EXIT STATUS\n0 done, 1 the system refused, 2 bad input.\n"
              ".SH SEE ALSO\n.BR tmprof (1)\n"},
      app);
}

std::string Completion(const CLI::App& app) {
  std::string words;
  for (const CLI::Option* option : ShownOptions(app)) {
    for (const std::string& name : option->get_lnames()) words += " --" + name;
  }
  return fmt::format("# bash completion for tmprofd\ncomplete -o default -W \"{}\" tmprofd\n",
                     words.substr(1));
}

int Run(int argc, char** argv) {
  CLI::App app(
      "Keeps the pages that programs access most in the fastest memory: profiles them, ranks their "
      "pages and moves them between NUMA nodes.",
      "tmprofd");
  Options options;
  app.set_version_flag("--version", std::string("tmprofd ") + kVersion);
  app.add_option("-c,--config", options.config,
                 "The configuration, in protobuf's text format; without it every default holds")
      ->type_name("FILE");
  app.add_flag("--check-config", options.check_config,
               "Print the configuration with all its defaults, as a file could have it, and end; "
               "or each of its faults, with its place");
  app.footer(
      "Examples:\n"
      "  tmprofd --config dram-cxl.textproto --check-config\n"
      "  tmprofd --config dram-cxl.textproto\n"
      "SIGTERM ends it, SIGHUP has it read its configuration again.");
  // Works without what is required: all of its work is done before that is asked for.
  const auto generate = [&app](const std::string& what) {
    const Status written = WriteOut(what == "man" ? Manual(app) : Completion(app));
    if (!written) throw CLI::RuntimeError(Report(written.error()));
    throw CLI::Success();
  };
  app.add_option_function<std::string>("--generate", generate, "")
      ->check(CLI::IsMember({"man", "bash"}))
      ->group(std::string(kHidden));

  try {
    app.parse(argc, argv);
  } catch (const CLI::RuntimeError& error) {
    return error.get_exit_code();
  } catch (const CLI::ParseError& error) {
    if (app.exit(error) != 0) return kBadInput;
    const Status shown = WriteOut("");  // help went there
    return shown ? EXIT_SUCCESS : Report(shown.error());
  }
  const Result<Config> config = options.config ? LoadConfig(*options.config) : Config{};
  if (!config) return Report(config.error());
  if (options.check_config) {
    const Status printed = WriteOut(PrintConfig(*config));
    return printed ? EXIT_SUCCESS : Report(printed.error());
  }
  if (const Status own = ProcFs().CheckNamespace(); !own) return Report(own.error());
  KeepFreedMemory();
  return RunDaemon(*config, options.config);
}

}  // namespace
}  // namespace tmprof

int main(int argc, char** argv) { return tmprof::Run(argc, argv); }
