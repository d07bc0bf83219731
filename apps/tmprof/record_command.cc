// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/tmprof/cli.h"
#include "apps/tmprof/record_session.h"
#include "apps/tmprof/source_choice.h"
#include "base/human_units.h"
#include "profiler/source_kind.h"
#include "proto/arena_advice.h"

namespace tmprof {
namespace {

// Distances between sampled bytes are drawn with it as their mean, in 63 bits.
constexpr std::uint64_t kMostObjectsInterval = std::uint64_t{1} << 48;

// An option that takes one of these names; the first is the default, and `value` holds it.
template <typename Value>
void AddChoice(CLI::App& command, const std::string& flag, Value& value,
               const std::vector<std::pair<std::string, Value>>& choices,
               const std::string& description) {
  std::vector<std::string> names;
  for (const auto& [name, choice] : choices) names.push_back(name);
  const auto read = [&value, choices](const std::string& word) {
    const auto chosen = std::ranges::find(choices, word, &std::pair<std::string, Value>::first);
    value = chosen->second;  // the check comes first
  };
  command.add_option_function<std::string>(flag, read, description)
      ->check(CLI::IsMember(names))
      ->default_str(names.front());
}

Status ValidateExact(const RecordOptions& options) {
  if (!options.exact()) {
    for (const auto& [option, given] :
         {std::pair("--epoch-instructions", options.epoch_instructions.has_value()),
          std::pair("--exact-llc", options.exact_llc_bytes.has_value()),
          std::pair("--exact-l2", options.exact_l2_bytes.has_value()),
          std::pair("--exact-prefetch", options.exact_prefetch_lines.has_value()),
          std::pair("--exact-stalls", options.exact_stall.has_value())}) {
      if (given) return Fail(BadInput("use option", option, "it is for --source exact"));
    }
    return {};
  }
  if (options.sources.names.size() > 1) {
    return Fail(BadInput("use option", "--source exact",
                         "it runs the program in its own way, and no other source with it"));
  }
  if (!options.pids.empty()) {
    return Fail(BadInput("use option", "--source exact",
                         "a program that already runs cannot be traced exactly",
                         "let tmprof start it: tmprof record --source exact -- CMD ARGS..."));
  }
  for (const auto& [option, given] :
       {std::pair("--exact-l2", options.exact_l2_bytes.has_value()),
        std::pair("--exact-prefetch", options.exact_prefetch_lines.has_value()),
        std::pair("--exact-stalls", options.exact_stall.has_value())}) {
    if (given && !options.exact_llc_bytes) {
      return Fail(BadInput("use option", option, "it needs a modelled cache",
                           "give the last-level cache's size: --exact-llc SIZE"));
    }
  }
  return {};
}

// What would change nothing is refused: who gives it expects that it does. `given`: whether an
// option stands on the command line.
Status ValidateEffect(const RecordOptions& options,
                      const std::function<bool(const char* option)>& given) {
  const auto names_any = [&](std::initializer_list<std::string_view> names) {
    return std::ranges::any_of(options.sources.names, [&](const std::string& name) {
      return name == "auto" || std::ranges::find(names, name) != names.end();
    });
  };
  const auto refuse = [](std::string option, std::string reason, std::string fix) {
    return Fail(BadInput("use option", std::move(option), std::move(reason), std::move(fix)));
  };
  constexpr std::array kOfRegions = {"--region-monitoring", "--region-aggregation",
                                     "--region-update", "--min-regions", "--max-regions"};
  const AbitChoice& abit = options.sources.abit;
  if (!names_any({kAbitBpfSource.name, kDriverSource.name})) {
    std::vector<const char*> of_bits{"--abit", "--scan-interval", "--ageing"};
    of_bits.insert(of_bits.end(), kOfRegions.begin(), kOfRegions.end());
    for (const char* option : of_bits) {
      if (!given(option)) continue;
      return refuse(option,
                    fmt::format("no source of --source {} reads accessed bits",
                                fmt::join(options.sources.names, ",")),
                    fmt::format("leave it out, or add {} or {} to --source", kAbitBpfSource.name,
                                kDriverSource.name));
    }
  }
  if (given("--ageing") &&
      (abit.looked == abit::Looked::kRegions || !names_any({kAbitBpfSource.name}))) {
    return refuse("--ageing", "no whole process is cleared by regions or the driver",
                  fmt::format("leave it out, or use --abit full or auto with --source {}",
                              kAbitBpfSource.name));
  }
  if (abit.looked == abit::Looked::kFull) {
    for (const char* option : kOfRegions) {
      if (!given(option)) continue;
      return refuse(option, fmt::format("--abit {} has no regions", AbitText(abit)),
                    "give --abit regions or --abit auto, too, or leave it out");
    }
  }
  const bool scans_plainly =
      abit.looked != abit::Looked::kRegions && abit.mode == abit::ScanOptions::Mode::kPlain;
  if (given("--scan-interval") && !scans_plainly) {
    return refuse("--scan-interval",
                  fmt::format("--abit {} makes no scan at an interval", AbitText(abit)),
                  abit.looked == abit::Looked::kRegions
                      ? "of regions, --region-monitoring is the interval"
                      : fmt::format("give --abit {},plain, too, or leave it out",
                                    abit.looked == abit::Looked::kAuto ? "auto" : "full"));
  }
  return {};
}

Status Validate(const RecordOptions& options,
                const std::function<bool(const char* option)>& given) {
  if (auto status = ValidateExact(options); !status) return status;
  if (auto status = ValidateEffect(options, given); !status) return status;
  if (options.pids.empty() == options.command.empty()) {
    return Fail(BadInput(
        "record", "",
        options.command.empty() ? "no target was given" : "both -p and a command were given",
        "give -p PID... or -- CMD ARGS..."));
  }
  if (options.objects && (options.command.empty() || options.exact())) {
    return Fail(BadInput("use option", "--objects",
                         options.exact() ? "a program traced exactly preloads nothing"
                                         : "a program that already runs preloads nothing",
                         "let tmprof start it: tmprof record --objects -- CMD ARGS..."));
  }
  if (!options.advice.empty()) {
    if (options.command.empty()) {
      return Fail(BadInput("use option", "--advice", "a program that already runs preloads nothing",
                           "let tmprof start it: tmprof record --advice FILE -- CMD ARGS..."));
    }
    if (auto advice = ReadAdvice(options.advice); !advice) return Fail(advice.error());
  }
  return CheckRecording(options);
}

}  // namespace

void AddRecordCommand(CLI::App& app, const std::vector<std::string>& command_after_dashes,
                      int& exit_status) {
  CLI::App* command = app.add_subcommand("record", "Records which pages a program accesses");
  auto options = std::make_shared<RecordOptions>();
  options->output = kDefaultTrace;
  command
      ->add_option("-o,--output", options->output,
                   "Trace file to write; an existing one is kept as FILE.old")
      ->type_name("FILE")
      ->capture_default_str();
  command->add_option("-p,--pid", options->pids, "Processes to observe, with their children")
      ->type_name("PID")
      ->delimiter(',')
      ->check(WholeNumber(1));
  AddDuration(*command, "--epoch", options->epoch, "Length of an epoch: one profile each");
  const auto read_duration = [options](const std::string& word) {
    const auto parsed = ParseDuration(word);
    if (!parsed) throw CLI::ValidationError("--duration", parsed.error().Message());
    options->duration = *parsed;
  };
  command
      ->add_option_function<std::string>(
          "--duration", read_duration,
          "Stop after this time; otherwise when the targets end, or at Ctrl-C")
      ->type_name("TIME");
  std::vector<std::string> source_names{"auto"};
  for (const SourceKind& kind : kSourceKinds) source_names.emplace_back(kind.name);
  command
      ->add_option("--source", options->sources.names,
                   "What to observe with: auto takes the best of each kind that works here")
      ->delimiter(',')
      ->check(CLI::IsMember(source_names))
      ->capture_default_str();
  command
      ->add_option("--epoch-instructions", options->epoch_instructions,
                   "With --source exact: an epoch is this many executed instructions")
      ->type_name("N")
      ->check(WholeNumber(1));
  AddBytes(*command, "--exact-llc", options->exact_llc_bytes,
           "With --source exact: model a last-level cache of this size, and count its misses");
  AddBytes(*command, "--exact-l2", options->exact_l2_bytes,
           "With --exact-llc: each thread has an L2 cache of this size before it");
  command
      ->add_option("--exact-prefetch", options->exact_prefetch_lines,
                   "With --exact-llc: count misses that a prefetcher N lines ahead would hide")
      ->type_name("N")
      ->check(WholeNumber(1));
  const auto read_stalls = [options](const std::string& word) {
    const auto parsed = ParseDuration(word);
    if (!parsed) throw CLI::ValidationError("--exact-stalls", parsed.error().Message());
    options->exact_stall = *parsed;
  };
  command
      ->add_option_function<std::string>(
          "--exact-stalls", read_stalls,
          "With --exact-llc: model the time that loads wait, for this memory latency")
      ->type_name("TIME");
  const auto read_abit = [options](const std::string& words) {
    const auto parsed = ParseAbit(words);
    if (!parsed) throw CLI::ValidationError("--abit", parsed.error().Message());
    options->sources.abit = *parsed;
  };
  command
      ->add_option_function<std::string>(
          "--abit", read_abit,
          "Accessed bits of what: full, every page; regions, one page of each region, at a bounded "
          "cost; auto, every page until that takes too long, then regions, the driver's where it "
          "is loaded. And how: ladder reads several times "
          "after each clear, at growing delays; plain reads one bit, after the scan interval or, "
          "of regions, the monitoring interval. Both: regions,plain. regions alone is plain by the "
          "driver's own thread where it is loaded, else ladder; the first line says which was "
          "chosen")
      ->type_name("WORDS")
      ->default_str(AbitText({}));
  AddDuration(*command, "--scan-interval", options->sources.scan_interval,
              "Time between scans with --abit full,plain");
  AddDuration(*command, "--region-monitoring", options->sources.regions.monitoring,
              "With --abit regions: least time between two steps, each a look at all regions");
  AddDuration(*command, "--region-aggregation", options->sources.regions.aggregation,
              "With --abit regions: least time between two adaptations; 10 monitoring intervals or "
              "more");
  AddDuration(*command, "--region-update", options->sources.regions.update,
              "With --abit regions: least time between two looks at the mappings; an aggregation "
              "interval or more");
  command
      ->add_option("--min-regions", options->sources.regions.min_regions,
                   "With --abit regions: least regions of a process, from 3 to 1000")
      ->type_name("N")
      ->check(WholeNumber(1))
      ->capture_default_str();
  command
      ->add_option("--max-regions", options->sources.regions.max_regions,
                   "With --abit regions: most regions of a process; a monitoring interval has 1us "
                   "or more for each")
      ->type_name("N")
      ->check(WholeNumber(1))
      ->capture_default_str();
  std::vector<std::pair<std::string, abit::AgeingUse>> ageing_uses;
  for (const abit::AgeingUse use : abit::kAgeingUses) ageing_uses.emplace_back(Name(use), use);
  AddChoice(*command, "--ageing", options->sources.ageing, ageing_uses,
            "Memory cgroups to age for shared memory that clear_refs does not reach");
  AddShare(*command, "--max-overhead", options->sources.max_overhead,
           "CPU time the sources together may cost the targets; the first visit to all pages may "
           "borrow what 5 s of it earn (at 1% 0.05 s): who ends early does not get it back");
  AddChoice<unsigned>(*command, "--sample-rate", options->sources.sample_rate,
                      {{"1x", 1}, {"4x", 4}, {"8x", 8}},
                      "Hardware sampler: 1x is one sample in 16384 accesses to memory");
  command
      ->add_option("--gate", options->sources.gate,
                   "Counters that switch sources off in quiet periods: auto, off, llc, tlb, "
                   "or llc,tlb")
      ->capture_default_str();
  command->add_flag("!--no-children", options->follow_children, "Observe the named processes only");
  command->add_flag("!--no-process-filter", options->process_filter,
                    "Observe all children, not only those that do most of the work");
  command
      ->add_option("--max-targets", options->max_targets,
                   "Observe at most this many processes, the busiest")
      ->type_name("N")
      ->check(WholeNumber(1));
  command
      ->add_option("--seed", options->sources.seed,
                   "Seed of the scan order and of what is looked at of regions; 0: the driver's "
                   "regions by chance")
      ->check(WholeNumber(0))
      ->capture_default_str();
  command->add_flag("--objects", options->objects,
                    "Track what the command and its children allocate, with the calls that do, by "
                    "a library that they preload, and name the variables and thread stacks on "
                    "pages that they access");
  AddBytes(*command, "--objects-from", options->objects_from_bytes,
           "With --objects: track each allocation from this size up, a million at once")
      ->default_str(FormatBytes(*options->objects_from_bytes));
  AddBytes(*command, "--objects-interval", options->objects_interval_bytes,
           "With --objects: of smaller ones, track one in this many bytes of them; 0: none")
      ->check([](const std::string& word) -> std::string {
        const auto bytes = ParseBytes(word);
        return bytes && *bytes > kMostObjectsInterval ? "use 256 TiB at most" : "";
      })
      ->default_str(FormatBytes(*options->objects_interval_bytes));
  command
      ->add_option("--advice", options->advice,
                   "Have the command and its children place what they allocate by this file of "
                   "tmprof advise, by a library that they preload")
      ->type_name("FILE");
  command->add_flag("-q,--quiet", options->quiet,
                    "No progress line, and no line at the end of a recording that saw enough");
  command->footer(
      "Examples:\n"
      "  tmprof record -- ./program --its-own-options\n"
      "  tmprof record --duration 30s -o server.data -p $(pidof redis-server)\n"
      "  tmprof record --objects -- ./program\n"
      "  tmprof record --abit regions --max-overhead 2% -- ./program-of-many-gigabytes\n"
      "  tmprof record --source exact --exact-llc 8MiB -- ./program\n"
      "  tmprof record --source exact --exact-llc 32MiB --exact-l2 1MiB --exact-prefetch 16 "
      "--exact-stalls 100ns -- ./program");
  command->callback([command, options, &command_after_dashes, &exit_status] {
    options->command = command_after_dashes;
    const auto given = [command](const char* option) { return command->count(option) > 0; };
    if (auto status = Validate(*options, given); !status) {
      exit_status = ReportError(status.error());
      return;
    }
    exit_status = Record(*options);
  });
}

}  // namespace tmprof
