// SPDX-License-Identifier: Apache-2.0

#include <memory>
#include <string>

#include <fmt/format.h>

#include "apps/command_line/parse_errors.h"
#include "apps/tmprof/advice_request.h"
#include "apps/tmprof/advised_locks.h"
#include "apps/tmprof/advised_objects.h"
#include "apps/tmprof/cli.h"
#include "apps/tmprof/components.h"
#include "base/text/format.h"

namespace tmprof {
namespace {

struct AdviseOptions {
  AdviceRequest request;
  AdvisedObjects objects;
  AdvisedLocks locks;
  std::string weight;  // empty: none was given
};

// Says what can be asked for.
std::string Kinds() {
  if (!HasObjects()) return "--mlock advises on which memory to lock";
  const std::string objects = "--objects advises on which allocations to place together";
  return HasLocking() ? objects + ", --mlock on which memory to lock" : objects;
}

std::string Examples() {
  std::string text = "Examples:";
  if (HasObjects()) {
    text =
        "A page tells how hot it is, but not which of its objects are hot. Sites that share their "
        "pages are set apart first, and are known from the second recording on; or from the first "
        "one, by what another build of the program counted (--counts).\n\n"
        "Examples:\n"
        "  tmprof record --objects --objects-interval 4KiB -o first.data ./program\n"
        "  tmprof advise --objects first.data -o first.advice\n"
        "  tmprof record --objects --advice first.advice -o second.data ./program\n"
        "  tmprof advise --objects second.data --advice first.advice -o last.advice\n"
        "  tmprof record --advice last.advice ./program\n"
        "  tmprof advise --objects first.data --counts tmprof-4711.objects";
  }
  if (HasLocking()) {
    text +=
        "\n"
        "  tmprof record --abit regions -d 10 -p 4711\n"
        "  tmprof advise --mlock --limit 30% --apply";
  }
  return text;
}

Result<int> Advise(AdviseOptions& options) {
  if (!options.weight.empty()) options.request.rank.weight = options.weight;
  if (!options.objects.is_wanted() && !options.locks.is_wanted()) {
    return Fail(BadInput("advise", "", "it was not said on what", Kinds()));
  }
  const Result<Format> format = ParseFormat(options.request.format);
  if (!format) return Fail(format.error());
  return options.locks.is_wanted() ? options.locks.Advise(options.request, *format)
                                   : options.objects.Advise(options.request, *format);
}

}  // namespace

void AddAdviseCommand(CLI::App& app, int& exit_status) {
  if (!HasObjects() && !HasLocking()) {
    return AddMissingCommand(app, "advise", "objects, and the component locking", exit_status);
  }
  CLI::App* command = app.add_subcommand(
      "advise", fmt::format("Advises what to {}, and estimates the gain",
                            !HasObjects()   ? "lock in memory"
                            : !HasLocking() ? "place together"
                                            : "place together or to lock in memory"));
  auto options = std::make_shared<AdviseOptions>();
  AdviceRequest& request = options->request;
  command
      ->add_option("FILE,-i,--input", request.trace,
                   HasObjects()
                       ? "Trace file\nWith --objects, it is a trace of 'tmprof record --objects'."
                       : "Trace file")
      ->capture_default_str();
  CLI::Option* objects = options->objects.AddFlag(*command);
  CLI::Option* locks = options->locks.AddOptions(*command, objects);
  options->objects.AddOptions(*command, objects, locks);
  CLI::Option* weight =
      AddRankWeight(*command, options->weight,
                    HasObjects() && HasLocking() ? "default memory; with --mlock accesses"
                    : HasObjects()               ? "default memory"
                                                 : "default accesses");
  command->add_option("--by", request.rank.by, "Evidence to use, instead of --rank-weight")
      ->check(OneOf({"references", "samples", "combined", "memory", "truth", "misses", "stall"}))
      ->excludes(weight);
  AddLlc(*command, request.llc_bytes);
  AddRankModel(*command, request.rank.model);
  command->add_option("--format", request.format, "Format of the output")
      ->check(OneOf({"text", "json"}))
      ->capture_default_str();
  AddWide(*command, request.wide);
  command->footer(Examples());
  command->callback([options, &exit_status] { exit_status = ExitStatusOf(Advise(*options)); });
}

}  // namespace tmprof
