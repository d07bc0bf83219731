// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/command_line/parse_errors.h"
#include "apps/tmprof/cli.h"
#include "apps/tmprof/components.h"
#include "apps/tmprof/record_session.h"
#include "apps/tmprof/recorded_objects.h"
#include "base/text/human_units.h"
#include "profiler/source_choice.h"
#include "profiler/source_kind.h"

namespace tmprof {
namespace {

// An option that takes one of these names; the first is the default, and `value` holds it.
template <typename Value>
CLI::Option* AddChoice(CLI::App& command, const std::string& flag, Value& value,
                       const std::vector<std::pair<std::string, Value>>& choices,
                       const std::string& description) {
  std::vector<std::string> names;
  for (const auto& [name, choice] : choices) names.push_back(name);
  const auto read = [&value, choices](const std::string& word) {
    const auto chosen = std::ranges::find(choices, word, &std::pair<std::string, Value>::first);
    value = chosen->second;  // the check comes first
  };
  return command.add_option_function<std::string>(flag, read, description)
      ->check(OneOf(names))
      ->default_str(names.front());
}

Status Validate(const RecordOptions& options, const IsGiven& given) {
  if (auto status = CheckTracing(options); !status) return status;
  if (auto status = CheckEffects(options, given); !status) return status;
  if (options.pids.empty() == options.command.empty()) {
    return Fail(BadInput(
        "record", "",
        options.command.empty() ? "no target was given" : "both -p and a program were given",
        "name a program to start, as in 'tmprof record ./program', or running processes: -p "
        "PID,..."));
  }
  if (options.objects.objects && (options.command.empty() || options.is_exact())) {
    return Fail(BadInput("use option", "--objects",
                         options.is_exact() ? "a program traced exactly preloads nothing"
                                            : "a program that already runs preloads nothing",
                         "let tmprof start it: tmprof record --objects PROGRAM"));
  }
  if (!options.objects.advice.empty() && options.command.empty()) {
    return Fail(BadInput("use option", "--advice", "a program that already runs preloads nothing",
                         "let tmprof start it: tmprof record --advice FILE PROGRAM"));
  }
  if (auto status = CheckObjectRecording(options.objects); !status) return status;
  return CheckRecording(options);
}

// Which pages, and how, to read accessed bits of.
void AddAbitOptions(CLI::App& command, RecordOptions& options) {
  const std::string group = "Accessed bits";
  const auto read_abit = [&options](const std::string& words) {
    const auto parsed = ParseAbit(words);
    if (!parsed) throw CLI::ValidationError("--abit", parsed.error().Message());
    options.sources.abit = *parsed;
  };
  command
      .add_option_function<std::string>(
          "--abit", read_abit,
          "Pages to look at (full, regions or auto), and how (ladder or plain)\n"
          "'full' looks at every page, and 'regions' at one page of each region, at a bounded "
          "cost. "
          "'auto' looks at every page until that takes too long, and then at regions. 'ladder' "
          "reads several times after each clear, at growing delays. 'plain' reads once, after the "
          "scan interval or, of regions, the monitoring interval. Give both words as in "
          "regions,plain. 'regions' alone is plain in the driver's own thread where the driver is "
          "loaded, else ladder. The first line of a recording says which was chosen.")
      ->type_name("WORDS")
      ->default_str(AbitText({}))
      ->group(group);
  AddDuration(command, "--scan-interval", options.sources.scan_interval,
              "With --abit full,plain: time between scans")
      ->group(group);
  AddDuration(command, "--region-monitoring", options.sources.regions.monitoring,
              "With --abit regions: least time between looks at all regions")
      ->group(group);
  AddDuration(command, "--region-aggregation", options.sources.regions.aggregation,
              "With --abit regions: least time between changes of regions\n"
              "It is at least 10 monitoring intervals.")
      ->group(group);
  AddDuration(command, "--region-update", options.sources.regions.update,
              "With --abit regions: least time between looks at the mappings\n"
              "It is at least one aggregation interval.")
      ->group(group);
  command
      .add_option("--min-regions", options.sources.regions.min_regions,
                  "With --abit regions: fewest regions of a process, 3 to 1000")
      ->type_name("N")
      ->check(WholeNumber(1))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--max-regions", options.sources.regions.max_regions,
                  "With --abit regions: most regions of a process\n"
                  "A monitoring interval has at least 1us for each of them.")
      ->type_name("N")
      ->check(WholeNumber(1))
      ->capture_default_str()
      ->group(group);
  std::vector<std::pair<std::string, abit::AgeingUse>> ageing_uses;
  for (const abit::AgeingUse use : abit::kAgeingUses) ageing_uses.emplace_back(Name(use), use);
  AddChoice(command, "--ageing", options.sources.ageing, ageing_uses,
            "Memory cgroups to age, for shared memory that cannot be cleared")
      ->group(group);
}

void AddExactOptions(CLI::App& command, RecordOptions& options) {
  const std::string group = "Exact tracing (--source exact)";
  command
      .add_option("--epoch-instructions", options.tracing.epoch_instructions,
                  "Length of an epoch in executed instructions")
      ->type_name("N")
      ->check(WholeNumber(1))
      ->group(group);
  AddBytes(command, "--exact-llc", options.tracing.llc_bytes,
           "Model a last-level cache of this size, and count its misses")
      ->group(group);
  AddBytes(command, "--exact-l2", options.tracing.l2_bytes,
           "With --exact-llc: each thread has an L2 cache of this size")
      ->group(group);
  command
      .add_option("--exact-prefetch", options.tracing.prefetch_lines,
                  "With --exact-llc: model a prefetcher that runs N lines ahead\n"
                  "Misses that it would hide are counted apart.")
      ->type_name("N")
      ->check(WholeNumber(1))
      ->group(group);
  const auto read_stalls = [&options](const std::string& word) {
    const auto parsed = ParseDuration(word);
    if (!parsed) throw CLI::ValidationError("--exact-stalls", parsed.error().Message());
    options.tracing.stall = *parsed;
  };
  command
      .add_option_function<std::string>(
          "--exact-stalls", read_stalls,
          "With --exact-llc: model waiting loads, at this memory latency\n"
          "The latency needs a unit, as in 100ns.")
      ->type_name("TIME")
      ->group(group);
}

}  // namespace

void AddRecordCommand(CLI::App& app, const std::vector<std::string>& launched, int& exit_status) {
  CLI::App* command = app.add_subcommand("record", "Records which pages a program accesses");
  auto options = std::make_shared<RecordOptions>();
  options->output = kDefaultTrace;
  command
      ->add_option("-o,--output", options->output,
                   "Trace file to write\nAn existing file is kept as FILE.old.")
      ->type_name("FILE")
      ->capture_default_str();
  command
      ->add_option("-p,--pid", options->pids, "Running processes to observe, with their children")
      ->type_name("PID,...")
      ->delimiter(',')
      ->check(WholeNumber(1));
  AddDuration(*command, "-d,--duration", options->duration,
              "Stop after this time\n"
              "A recording ends when its processes end, or at Ctrl-C, even before this time. A "
              "program that this command started goes on, and the command waits for it.");
  AddDuration(*command, "--epoch", options->epoch, "Length of an epoch, which has one profile");
  std::vector<std::string> source_names{"auto"};
  for (const SourceKind& kind : SourceKinds()) source_names.emplace_back(kind.name);
  command
      ->add_option("--source", options->sources.names,
                   "Sources to observe with\n"
                   "'auto' takes the best source of each kind that works here; 'tmprof doctor' "
                   "lists them. Give several with commas between.")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(OneOf(source_names))
      ->capture_default_str();
  AddShare(*command, "--max-overhead", options->sources.max_overhead,
           "Most CPU time that profiling may cost the targets\n"
           "The first pass over all pages may use the budget of 5 s in advance. A program that "
           "ends earlier does not get it back.");
  AddChoice<unsigned>(*command, "--sample-rate", options->sources.sample_rate,
                      {{"1x", 1}, {"4x", 4}, {"8x", 8}},
                      "Rate of the hardware sampler\n"
                      "At 1x, one in 16384 accesses to memory is sampled.");
  command
      ->add_option("--gate", options->sources.gate,
                   "Counters that turn sources off in quiet periods: auto, off, llc, tlb or "
                   "llc,tlb")
      ->type_name("WORDS")
      ->capture_default_str();
  command->add_flag("!--no-children", options->follow_children,
                    "Leave children of the processes out");
  command->add_flag("!--no-process-filter", options->process_filter,
                    "Observe all children, not only those that do most of the work");
  command
      ->add_option("--max-targets", options->max_targets,
                   "Observe at most this many processes, the busiest")
      ->type_name("N")
      ->check(WholeNumber(1));
  command->add_flag("--calibrate", options->sources.calibrates,
                    "Measure again what accessed bits and samples cost a program here\n"
                    "Otherwise figures of an earlier start are used, at most an hour old.");
  command
      ->add_option("--seed", options->sources.seed,
                   "Seed of the order of scans and of the choice of pages\n"
                   "0 lets the driver choose pages of regions at random.")
      ->type_name("N")
      ->check(WholeNumber(0))
      ->capture_default_str();
  command->add_flag("-q,--quiet", options->quiet,
                    "Print nothing if the recording saw enough\n"
                    "The progress line and the line at the end are left out.");
  AddAbitOptions(*command, *options);
  AddObjectRecordingOptions(*command, options->objects);
  AddExactOptions(*command, *options);
  command->footer(std::string("Usage:\n"
                              "  tmprof record [OPTION]... [--] PROGRAM [ARGUMENT]...\n"
                              "  tmprof record [OPTION]... -p PID,...\n\n"
                              "The first word that is no option of tmprof's starts the program. A "
                              "TIME is a number with "
                              "ns, us, ms, s, m or h behind it; a bare number is seconds.\n\n"
                              "Examples:\n"
                              "  tmprof record ./program --its-own-options\n"
                              "  tmprof record -d 30 -o server.data -p $(pidof redis-server)\n") +
                  (HasObjects() ? "  tmprof record --objects ./program\n" : "") +
                  "  tmprof record --abit regions --max-overhead 2% ./program-of-many-gigabytes\n"
                  "  tmprof record --source exact --exact-llc 8MiB ./program");
  command->callback([command, options, &launched, &exit_status] {
    options->command = launched;
    const auto given = [command](const char* option) { return command->count(option) > 0; };
    if (auto status = Validate(*options, given); !status) {
      exit_status = ReportError(status.error());
      return;
    }
    exit_status = Record(*options);
  });
}

}  // namespace tmprof
