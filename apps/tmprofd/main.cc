// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include "apps/command_line/completion.h"
#include "apps/command_line/help.h"
#include "apps/command_line/manual.h"
#include "apps/command_line/messages.h"
#include "apps/command_line/parse_errors.h"
#include "apps/tmprofd/config_file.h"
#include "apps/tmprofd/daemon.h"
#include "base/host/freed_memory.h"
#include "base/host/procfs.h"
#include "base/text/roff.h"
#include "base/version.h"
#include "daemon/config/config_manual.h"
#include "proto/setting_changes.h"

namespace tmprof {
namespace {

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
       .body = ".SH CONFIGURATION\nThe file is in protobuf's text format. Its manual is\n"
               ".BR tmprofd.conf (5).\nThe empty file is a whole configuration.\n"
               ".SH SIGNALS\n.TP\n.B SIGTERM, SIGINT\nEnd the daemon.\n"
               ".TP\n.B SIGHUP\nReads the configuration again.\n",
       .end = ".SH FILES\n.TP\n.I " + Roff(TMPROFD_CONFIG) +
              "\nThe configuration that the systemd unit names.\n"
              ".TP\n.I /run/tmprofd/control\nThe control socket, which\n.BR tmprof\\-ctl (1)\n"
              "uses.\n"
              ".SH EXIT STATUS\n"
              ".TP\n.B 0\nThe daemon was told to end, or the configuration is right.\n"
              ".TP\n.B 1\nThe system refused something; the message says what.\n"
              ".TP\n.B 2\nThe command line or the configuration is wrong.\n"
              ".SH SEE ALSO\n.BR tmprofd.conf (5),\n.BR tmprof\\-ctl (1),\n.BR tmprof (1)\n"},
      app);
}

// The build asks for one of these with --generate; "changes" is a table of docs/configuration.md.
std::string Generated(const CLI::App& app, const std::string& what) {
  if (what == "bash") return BashCompletion(app);
  if (what == "zsh") return ZshCompletion(app);
  if (what == "fish") return FishCompletion(app);
  if (what == "man") return Manual(app);
  if (what == "changes") return SettingChangeTable();
  std::string proto;  // text of config.proto, on standard input
  for (int c = std::getchar(); c != EOF; c = std::getchar()) proto += static_cast<char>(c);
  return ConfigManual(proto, TMPROFD_CONFIG);
}

int Run(int argc, char** argv) {
  CLI::App app("Keeps the pages that programs access most in the fastest memory", "tmprofd");
  Options options;
  UseHelpText(app);
  app.set_version_flag("-V,--version", std::string("tmprofd ") + kVersion, "Print the version");
  app.add_option("-c,--config", options.config,
                 "Configuration file\n"
                 "It is in protobuf's text format; see tmprofd.conf(5). Without a file, all "
                 "defaults hold.")
      ->type_name("FILE");
  app.add_flag("--check-config", options.check_config,
               "Print the configuration with all defaults, or its faults, and end\n"
               "What is printed can be fed back. Each fault has its place in the file.");
  app.footer(
      "SIGTERM ends the daemon. SIGHUP makes it read its configuration again.\n\n"
      "Examples:\n"
      "  tmprofd --config dram-cxl.textproto --check-config\n"
      "  tmprofd --config dram-cxl.textproto");
  // Works without what is required: all of its work is done before that is asked for.
  const auto generate = [&app](const std::string& what) {
    const Status written = WriteOut(Generated(app, what));
    if (!written) throw CLI::RuntimeError(Report(written.error()));
    throw CLI::Success();
  };
  app.add_option_function<std::string>("--generate", generate, "")
      ->check(OneOf({"man", "conf", "changes", "bash", "zsh", "fish"}))
      ->group(std::string(kHidden));

  const auto print = [](const std::string& text) {
    const Status shown = WriteOut(text);
    return shown ? EXIT_SUCCESS : Report(shown.error());
  };
  try {
    app.parse(argc, argv);
  } catch (const CLI::RuntimeError& error) {
    return error.get_exit_code();
  } catch (const CLI::CallForHelp&) {
    return print(app.help());
  } catch (const CLI::CallForVersion& version) {
    return print(std::string(version.what()) + "\n");
  } catch (const CLI::Success&) {
    return EXIT_SUCCESS;
  } catch (const CLI::ParseError& error) {
    return Report(ExplainParseError(app, {argv + 1, argv + argc}, error));
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
