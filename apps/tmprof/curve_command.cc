// SPDX-License-Identifier: Apache-2.0

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "apps/command_line/messages.h"
#include "apps/command_line/parse_errors.h"
#include "apps/command_line/terminal.h"
#include "apps/tmprof/cli.h"
#include "apps/tmprof/record_session.h"
#include "base/host/delayed_stops.h"
#include "base/host/temporary_folder.h"
#include "base/text/human_units.h"
#include "base/unique_fd.h"
#include "profiler/recording_outcome.h"
#include "proto/trace.h"
#include "report/view.h"

namespace tmprof {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCurve = "curve";
// Ten seconds of a program that keeps a CPU at 5 % busy and reaches memory 3 million times a second
// of CPU time (bench/results/memory.md: zipf, sqlite3) are then 370 samples, where 300 are enough.
constexpr unsigned kSampleRate = 4;

struct CurveOptions {
  RecordOptions record;
  std::string by;                          // empty: the best that was recorded
  std::optional<std::uint64_t> llc_bytes;  // nullopt: no cache is modelled
  std::string format = "text";
  bool wide = false;
  std::string png;
};

// "the recording is short: it was stopped after 3.2s instead of 10s"
std::string NoteOf(const EarlyEnd& early, std::chrono::nanoseconds duration) {
  constexpr std::chrono::milliseconds kGrain{100};
  const auto after = (early.after + kGrain / 2) / kGrain * kGrain;
  return fmt::format("the recording is short: {} {} instead of {}",
                     early.by_signal ? "it was stopped" : "all processes had ended",
                     after.count() > 0 ? "after " + FormatDuration(after) : std::string("at once"),
                     FormatDuration(duration));
}

// "process 12", "processes 12, 13", "all processes"
std::string TitleOf(const RecordOptions& options) {
  if (options.all) return "all processes";
  return fmt::format("{} {}", options.pids.size() == 1 ? "process" : "processes",
                     fmt::join(options.pids, ", "));
}

Status Check(const CurveOptions& options) {
  const RecordOptions& record = options.record;
  if (record.pids.empty() != record.all) {
    return Fail(
        BadInput("tell how much fast memory is needed", "",
                 record.all ? "both -p and --all were given" : "no process was named",
                 "give -p PID... or --all; to start a program, use 'tmprof record -- CMD' and then "
                 "'tmprof report --view curve'"));
  }
  if (auto status = CheckRecording(record); !status) return status;
  // Faults of the picture's file are reported before ten seconds have passed.
  if (options.png.empty()) return {};
  if (options.png == record.output) {
    return Fail(BadInput("use option", "--png " + options.png, "it is the file of -o, too"));
  }
  const fs::path folder = fs::absolute(options.png).parent_path();
  std::error_code error;
  if (!fs::is_directory(folder, error))
    return Fail(Refused("draw the curve into a folder", folder.string(), ENOENT));
  return {};
}

Result<int> Curve(CurveOptions options) {
  RecordOptions& record = options.record;
  if (auto status = Check(options); !status) return Fail(status.error());
  const Result<Format> format = ParseFormat(options.format);
  if (!format) return Fail(format.error());
  const Result<std::optional<RankSource>> by = ParseRankSourceIfAny(options.by);
  if (!by) return Fail(by.error());
  std::optional<DelayedStops> delayed(std::in_place);  // the folder goes before a signal acts
  std::optional<TemporaryFolder> folder;
  if (record.output.empty()) {
    Result<TemporaryFolder> made = TemporaryFolder::Make("tmprof-curve");
    if (!made) {
      Error error = std::move(made.error());
      error.attempt = "make a folder for the recording";
      error.advice += ", or give the trace a name with -o";
      return Fail(std::move(error));
    }
    folder = *std::move(made);
    record.output = folder->path() / kDefaultTrace;
  }
  record.title = TitleOf(record);
  record.tells_settings = false;
  std::optional<EarlyEnd> early;
  const int recorded = Record(record, &early);
  if (recorded != kDone && recorded != kSawLittle) return recorded;
  std::string file = record.output;
  // The folder goes now: a signal may end this process while it reads the trace.
  UniqueFd kept_open;
  if (folder) {
    kept_open = UniqueFd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
    if (!kept_open) return Fail(Refused("read the recording", file, errno));
    file = fmt::format("/proc/self/fd/{}", kept_open.get());
    folder.reset();
  }
  delayed.reset();
  Result<Trace> trace = OpenTraceFile(file);
  if (!trace) return Fail(trace.error());
  trace->name = record.title;
  trace->llc_bytes = options.llc_bytes;
  if (early) {
    trace->notes.push_back(NoteOf(*early, *record.duration));
    if (*format == Format::kCsv) Warn(trace->notes.back());  // a table has no room for it
  }
  const TextWidth width = *format == Format::kText ? OutputWidth(options.wide) : std::nullopt;
  const Result<Rendered> curve = RenderView(kCurve, *trace, {.by = *by, .table_columns = width},
                                            *format, !options.png.empty());
  if (!curve) return Fail(curve.error());
  if (curve->png) {
    if (auto status = WriteFile(options.png, *curve->png); !status) return Fail(status.error());
  }
  return AnswerText(curve->output, width, recorded);
}

}  // namespace

void AddCurveCommand(CLI::App& app, int& exit_status) {
  CLI::App* command = app.add_subcommand(
      std::string(kCurve), "Tells how much fast memory running processes need, in ten seconds");
  auto options = std::make_shared<CurveOptions>();
  RecordOptions& record = options->record;
  record.duration = std::chrono::seconds(10);
  record.sources.sample_rate = kSampleRate;
  command->add_option("-p,--pid", record.pids, "Processes to observe, with their children")
      ->type_name("PID,...")
      ->delimiter(',')
      ->check(WholeNumber(1));
  command->add_flag("--all", record.all, "Observe all processes that run now, and their children");
  AddDuration(*command, "-d,--duration", *record.duration, "Time to observe");
  AddShare(*command, "--max-overhead", record.sources.max_overhead,
           "Most CPU time that profiling may cost the processes");
  command
      ->add_option("--by", options->by, "Accesses to count instead of those with the best evidence")
      ->check(OneOf({"memory", "combined", "references"}));
  AddLlc(*command, options->llc_bytes);
  AddFormat(*command, options->format);
  AddWide(*command, options->wide);
  command->add_option("--png", options->png, "Draw the curve into this file, too")
      ->type_name("FILE");
  command
      ->add_option("-o,--output", record.output,
                   "Keep the trace in this file\nAn existing file is kept as FILE.old.")
      ->type_name("FILE");
  command->footer(
      "The curve is that of 'tmprof report --view curve'. It counts accesses to memory if a "
      "sampler of cache misses works ('tmprof doctor') or --llc tells the size of the cache, else "
      "all accesses. Ctrl-C ends the recording, and shows the curve of what was seen before.\n\n"
      "A TIME is a number with ms, s, m or h behind it; a bare number is seconds.\n\n"
      "Examples:\n"
      "  tmprof curve -p $(pidof redis-server)\n"
      "  tmprof curve -p 1234 --llc 32MiB\n"
      "  tmprof curve --all -d 30 --png curve.png");
  command->callback([options, &exit_status] { exit_status = ExitStatusOf(Curve(*options)); });
}

}  // namespace tmprof
