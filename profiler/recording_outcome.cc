// SPDX-License-Identifier: Apache-2.0

#include "profiler/recording_outcome.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/text/format.h"
#include "base/text/human_units.h"

namespace tmprof {
namespace {

using std::chrono::nanoseconds;

// A probe of the exposure ladder is one clear with at most nine looks (driver/core/ladder.h), and k
// probes give a page's rate to one part in the square root of k.
constexpr double kManyLooks = 30;  // four probes or more: to a half
constexpr double kSomeLooks = 10;  // two or more: to 70 %
constexpr double kMostOfMemory = 0.8;
constexpr double kHalfOfMemory = 0.5;
constexpr double kMuchOfMemory = 0.1;
// A page with a thousandth of all accesses has ten of so many, give or take three.
constexpr std::uint64_t kManySamples = 10'000;
constexpr std::uint64_t kSomeSamples = 1'000;

// Ended so soon that an epoch of the default length was not reached.
constexpr nanoseconds kSoon = std::chrono::seconds(1);
// Targets that used less of the recording's time on a CPU were as good as idle. To start a program
// takes some milliseconds by itself.
constexpr double kHardlyRan = 0.001;
constexpr nanoseconds kStartTakes = std::chrono::milliseconds(10);

std::string Size(PageCount pages) { return FormatBytes(pages.value() * kBasePageBytes); }

// The word in a form that a shell reads back.
std::string ShellWord(std::string_view word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+=:,@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string_view::npos)
    return std::string(word);
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

// nullopt: nobody knows how much was resident, or nothing was.
std::optional<double> ShareLookedAt(const RecordingFacts& facts) {
  if (!facts.resident || facts.resident->value() == 0) return std::nullopt;
  return static_cast<double>(facts.looked_at.value()) /
         static_cast<double>(facts.resident->value());
}

double LooksAtEach(const RecordingFacts& facts) {
  if (facts.looked_at.value() == 0) return 0;
  return static_cast<double>(facts.looks) / static_cast<double>(facts.looked_at.value());
}

bool SawLittle(const RecordingFacts& facts) {
  if (facts.had_truth) return false;
  if (facts.samples >= kFewSamples) return false;
  if (facts.looked_at.value() == 0) return true;
  const auto share = ShareLookedAt(facts);
  return share && *share < kLittleLookedAt;
}

std::string_view Confidence(const RecordingFacts& facts) {
  const double share = ShareLookedAt(facts).value_or(0);
  const double looks = LooksAtEach(facts);
  if ((looks >= kManyLooks && share >= kMostOfMemory) || facts.samples >= kManySamples)
    return "high";
  if ((looks >= kSomeLooks && share >= kHalfOfMemory) || facts.samples >= kSomeSamples)
    return "medium";
  return "low";
}

std::string EvidenceText(const RecordingFacts& facts) {
  std::string text;
  if (facts.had_references) {
    text = fmt::format("{:.1f} looks at each {}", LooksAtEach(facts),
                       facts.by_regions ? "region" : "page");
  }
  if (!facts.had_samples) return text;
  if (!text.empty()) text += ", ";
  return text + CountText(facts.samples, "sample");
}

std::string Saw(const RecordingFacts& facts) {
  if (facts.had_truth) return fmt::format("counted all accesses, to {}", Size(facts.accessed));
  std::string text = facts.accessed.value() == 0
                         ? std::string("saw no access")
                         : fmt::format("saw accesses to {}{}", facts.by_regions ? "at most " : "",
                                       Size(facts.accessed));
  if (facts.had_references) {
    text += fmt::format(", looked at {}{}", facts.by_regions ? "regions of " : "",
                        Size(facts.looked_at));
  }
  text += facts.resident
              ? fmt::format(" ({}{} resident)", facts.resident_is_at_most ? "at most " : "",
                            Size(*facts.resident))
              : std::string(" (resident memory unknown)");
  if (facts.accessed.value() == 0 && facts.looks == 0 && facts.samples == 0) return text;
  return text + fmt::format("; confidence {}: {}", Confidence(facts), EvidenceText(facts));
}

// Why a recording saw nothing or little, and what would help.
struct Cause {
  std::string why;
  std::string next;
};

std::string Subject(const RecordingFacts& facts) {
  if (facts.targets.empty()) return "the program";  // ended before it was looked at
  return facts.targets.size() == 1 ? fmt::format("PID {}", facts.targets.front().value())
                                   : fmt::format("all {} targets", facts.targets.size());
}

PageCount Refused(const RecordingFacts& facts) {
  return facts.unobservable.refused.value_or(PageCount(0));
}

Cause CauseOf(const RecordingFacts& facts) {
  const bool is_one = facts.targets.size() == 1;
  if (facts.stopped_throughout) {
    return {.why = fmt::format("{} {} stopped (SIGSTOP or a debugger) all the time", Subject(facts),
                               is_one ? "was" : "were"),
            .next = is_one ? fmt::format("continue it (kill -CONT {}), and record again",
                                         facts.targets.front().value())
                           : "continue them (kill -CONT), and record again"};
  }
  if (facts.gated_throughout) {
    return {.why = "the gate kept all sources off, as the CPUs hardly missed a cache",
            .next = "record with --gate off"};
  }
  if (facts.all_ended && facts.length < kSoon) {
    return {.why = fmt::format("{} ended after {}", Subject(facts), FormatDuration(facts.length)),
            .next = "record a run that takes some seconds"};
  }
  if (facts.cpu_time && *facts.cpu_time == nanoseconds(0)) {
    return {.why = fmt::format("{} did not run", Subject(facts)),
            .next = "record while the program works"};
  }
  const std::chrono::duration<double> little =
      std::max<std::chrono::duration<double>>(kHardlyRan * facts.length, kStartTakes);
  if (facts.cpu_time && *facts.cpu_time < little) {
    return {.why = fmt::format("{} hardly ran, {} of {}", Subject(facts),
                               FormatDuration(*facts.cpu_time), FormatDuration(facts.length)),
            .next = "record while the program works"};
  }
  if (facts.resident && 2 * Refused(facts).value() >= facts.resident->value()) {
    return {.why = "accessed bits cannot be observed in most of the memory",
            .next =
                "record with --source clock: samples do reach it, and have the whole overhead "
                "budget then"};
  }
  return {.why = facts.accessed.value() == 0 ? "no source saw an access"
                                             : "that is too little to rank pages by",
          .next = "record for longer or with a higher --max-overhead"};
}

bool IsTooLittle(const RecordingFacts& facts) {
  return facts.accessed.value() == 0 || SawLittle(facts);
}

std::string NotObservable(const RecordingFacts& facts) {
  const PageCount refused = Refused(facts);
  const PageCount device = facts.unobservable.device.value_or(PageCount(0));
  if (!facts.had_references || refused + device == PageCount(0)) return {};
  std::string text = "; not observable by accessed bits here: " + Size(refused + device);
  if (device.value() > 0) text += fmt::format(", {} of it mapped from devices", Size(device));
  // Some of a kind may have been observed all the same, by clears of the whole process.
  const auto name = [&](std::optional<PageCount> part, std::string_view kind) {
    const PageCount most = std::min(part.value_or(PageCount(0)), refused);
    if (most.value() > 0) text += fmt::format(", up to {} of it {}", Size(most), kind);
  };
  name(facts.unobservable.locked, "locked");
  name(facts.unobservable.hugetlb, "in huge pages of hugetlbfs");
  if (refused.value() > 0 && !facts.refusal.empty()) text += " (" + facts.refusal + ")";
  return text;
}

std::string Starting(const RecordingFacts& facts) {
  if (facts.starting <= kSlowStart) return {};
  constexpr std::chrono::milliseconds kGrain{100};
  return fmt::format(" (starting took {})",
                     FormatDuration((facts.starting + kGrain / 2) / kGrain * kGrain));
}

bool IsMostlyUntracked(const RecordingFacts& facts) {
  return 2 * facts.untracked.accessed.value() > facts.untracked.of_accessed.value();
}

std::string NotTracked(const RecordingFacts& facts) {
  if (!facts.objects_missing.empty())
    return "; --objects tracked no allocation: " + facts.objects_missing;
  const UntrackedProcesses& untracked = facts.untracked;
  if (untracked.processes == 0 || untracked.of_accessed.value() == 0) return {};
  std::string text = fmt::format(
      "; --objects did not track {} of {}, with {} of the memory seen accessed: {}",
      Grouped(untracked.processes), CountText(untracked.of_processes, "process", "processes"),
      Percent(static_cast<double>(untracked.accessed.value()) /
              static_cast<double>(untracked.of_accessed.value())),
      untracked.why);
  if (untracked.other_reasons == 0) return text;
  return text + ", and " + CountText(untracked.other_reasons, "other reason");
}

std::string LeftOutByFilter(const RecordingFacts& facts) {
  if (!facts.filtered || facts.filtered->processes == 0) return {};
  const auto& [processes, resident, cpu_share] = *facts.filtered;
  const bool is_one = processes == 1;
  return fmt::format(
      "; the process filter left out {} ({}{} resident, {} of a CPU): tmprof record "
      "--no-process-filter includes {}",
      CountText(processes, "child", "children"), is_one ? "" : "together at most ", Size(resident),
      Percent(std::round(cpu_share * 1e4) / 1e4), is_one ? "it" : "them");
}

std::string MappedElsewhere(const RecordingFacts& facts) {
  if (!facts.mapped_elsewhere || !facts.resident) return {};
  const auto elsewhere = static_cast<double>(facts.mapped_elsewhere->value());
  if (elsewhere == 0 || elsewhere < kMuchOfMemory * static_cast<double>(facts.resident->value()))
    return {};
  return fmt::format(
      "; processes that were not recorded map at least {} of this memory, too: their accesses are "
      "not in the trace",
      Size(*facts.mapped_elsewhere));
}

}  // namespace

RecordingOutcome OutcomeOf(const RecordingFacts& facts) {
  const bool little = IsTooLittle(facts);
  std::string text = fmt::format("{} in {}{}; {}", CountText(facts.epochs, "epoch"),
                                 FormatDuration(facts.length), Starting(facts), Saw(facts));
  text += NotObservable(facts);
  text += MappedElsewhere(facts);
  if (facts.over_max_targets > 0) {
    text += fmt::format("; {} left out by --max-targets",
                        CountText(facts.over_max_targets, "process", "processes"));
  }
  text += LeftOutByFilter(facts);
  text += NotTracked(facts);
  if (little) {
    const Cause cause = CauseOf(facts);
    text += fmt::format("; {}; next: {}", cause.why, cause.next);
  }
  const bool has_objects = facts.objects_missing.empty() && !IsMostlyUntracked(facts);
  return {.saw_enough = !little && has_objects,
          .text = Printable(text),
          .looked_at = facts.had_references ? std::optional(facts.looked_at) : std::nullopt,
          .accessed = facts.accessed,
          .resident = facts.resident,
          .unobservable = facts.unobservable,
          .filtered = facts.filtered};
}

std::string LastLineOf(const RecordingFacts& facts, const RecordingOutcome& outcome) {
  const std::string trace = Printable(ShellWord(facts.trace));
  std::string line = (facts.title.empty() ? trace : Printable(facts.title)) + ": " + outcome.text;
  if (!IsTooLittle(facts)) line += "; next: tmprof report " + trace;
  return line;
}

}  // namespace tmprof
