// SPDX-License-Identifier: Apache-2.0

#include "report/analysis/summary.h"

#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/duration_text.h"
#include "base/text/format.h"

namespace tmprof {
namespace {

std::string Finished(const TraceTotals& totals) {
  if (totals.end.damage) return "damaged";
  if (!totals.end.finished) return "end unknown";
  return *totals.end.finished ? "complete" : "cut short: the recorder was stopped";
}

std::optional<double> ShareOfDuration(const TraceTotals& totals) {
  if (totals.duration().count() <= 0) return std::nullopt;
  return Seconds(totals.profiler_cpu_time) / Seconds(totals.duration());
}

std::string Details(const SourceTotal& source) {
  std::string text;
  for (const NamedCount& detail : source.details) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", Printable(detail.name),
                        Grouped(detail.count));
  }
  return text;
}

// Returns the epochs of a note that only some of the source's epochs have: " (epoch 3)", " (epochs
// 3 to 9)", " (4 of the epochs 3 to 9)". Else "".
std::string InEpochs(const SourceNote& note, std::uint64_t source_epochs) {
  if (note.epochs == source_epochs) return "";
  if (note.first_index == note.last_index) return fmt::format(" (epoch {})", note.first_index);
  const std::string range = fmt::format("epochs {} to {}", note.first_index, note.last_index);
  if (note.last_index - note.first_index == note.epochs - 1) return " (" + range + ")";
  return fmt::format(" ({} of the {})", note.epochs, range);
}

std::string SourcesText(const TraceTotals& totals, TextWidth width) {
  using enum TextTable::Align;
  using enum TextTable::Importance;
  TextTable table({{"source", kLeft, kKey},
                   {"state", kLeft, kKey},
                   {"active"},
                   {"observations", kRight, kKey},
                   {"lost"},
                   {"details", kLeft, kThird}});
  for (const SourceTotal& source : totals.sources) {
    table.AddRow({Printable(source.label.empty() ? source.name : source.label),
                  std::string(Name(source.state)), OrUnknown(source.active_ratio, Percent),
                  OrUnknown(source.observations, kGrouped), OrUnknown(source.lost, kGrouped),
                  Details(source)});
  }
  std::string text = table.Text(width);
  for (const SourceTotal& source : totals.sources) {
    for (const SourceNote& note : source.notes) {
      text += fmt::format("{}: {}{}\n", Printable(source.name), Printable(note.text),
                          InEpochs(note, source.epochs));
    }
  }
  return text;
}

std::string TargetsText(const Coverage& coverage, TextWidth width) {
  using enum TextTable::Align;
  using enum TextTable::Importance;
  TextTable table({{"pid", kRight, kKey},
                   {"target", kLeft, kKey},
                   {"pages", kRight, kKey},
                   {"CPU s"},
                   {"state", kLeft, kThird},
                   {"command", kLeft}});
  for (const Coverage::Row& row : coverage.rows) {
    table.AddRow({fmt::format("{}", row.target.pid.value()), Printable(row.target.name),
                  OrUnknown(row.seen.footprint, kGrouped),
                  OrUnknown(row.target.cpu_time,
                            [](auto time) { return fmt::format("{:.2f}", Seconds(time)); }),
                  row.target.exited ? "exited" : "", Printable(row.target.command)});
  }
  return table.Text(width);
}

std::string Price(double ns) { return FormatDuration(std::chrono::nanoseconds(std::llround(ns))); }

// Empty if no page was cleared by itself.
std::string PricePerPoint(const Calibration& calibration) {
  const bool measured = calibration.ns_per_point.has_value();
  const auto price = measured ? calibration.ns_per_point : calibration.assumed_ns_per_point;
  if (!price) return "";
  return fmt::format(", {} a page of a region that is cleared by itself ({})", Price(*price),
                     measured ? "measured" : "assumed");
}

Json SourceJson(const SourceTotal& source) {
  Json details = Json::object();
  for (const NamedCount& detail : source.details) details[detail.name] = detail.count;
  Json notes = Json::array();
  for (const SourceNote& note : source.notes) {
    notes.push_back({{"text", note.text},
                     {"first_epoch", note.first_index},
                     {"last_epoch", note.last_index},
                     {"epochs", note.epochs}});
  }
  return {{"name", source.name},
          {"label", source.label},
          {"role", Name(source.role)},
          {"state", Name(source.state)},
          {"samples_of", source.samples_of ? Json(Name(*source.samples_of)) : Json(nullptr)},
          {"accesses_per_sample", OrNull(source.accesses_per_sample)},
          {"active_ratio", OrNull(source.active_ratio)},
          {"observations", OrNull(source.observations)},
          {"lost", OrNull(source.lost)},
          {"details", std::move(details)},
          {"notes", std::move(notes)}};
}

Json TargetJson(const Coverage::Row& row) {
  const TargetTotal& target = row.target;
  return {{"target", target.id.value()},
          {"pid", target.pid.value()},
          {"name", target.name},
          {"command", target.command},
          {"exited", target.exited},
          {"cpu_s", target.cpu_time ? Json(Seconds(*target.cpu_time)) : Json(nullptr)},
          {"footprint_pages", OrNull(row.seen.footprint)}};
}

using Kinds = std::array<std::pair<const char*, std::optional<PageCount>>, 4>;

Kinds KindsOf(const UnobservableMemory& unobservable) {
  return {{{"refused", unobservable.refused},
           {"device", unobservable.device},
           {"locked", unobservable.locked},
           {"hugetlb", unobservable.hugetlb}}};
}

// Returns bytes. If a file has a number that is too large for bytes, the result is the largest
// number.
std::uint64_t BytesOf(PageCount pages) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  return pages.value() > kMost / kBasePageBytes ? kMost : pages.value() * kBasePageBytes;
}

Json BytesOrNull(const std::optional<PageCount>& pages) {
  return pages ? Json(BytesOf(*pages)) : Json(nullptr);
}

Json OutcomeJson(const StreamEnd& end) {
  if (!end.outcome) return nullptr;
  const RecordingOutcome& outcome = *end.outcome;
  Json json = {{"saw_enough", outcome.saw_enough},
               {"text", outcome.text},
               {"pages_looked_at", OrNull(outcome.looked_at)},
               {"pages_seen", OrNull(outcome.accessed)},
               {"resident_bytes", BytesOrNull(outcome.resident)},
               {"not_observable", Json::object()},
               {"left_out_by_process_filter", nullptr}};
  for (const auto& [name, pages] : KindsOf(outcome.unobservable)) {
    if (pages) json["not_observable"][name] = BytesOrNull(pages);
  }
  if (const auto& filtered = outcome.filtered) {
    json["left_out_by_process_filter"] = {{"processes", filtered->processes},
                                          {"resident_bytes", BytesOf(filtered->resident)},
                                          {"cpu_share", filtered->cpu_share}};
  }
  return json;
}

// "1 is node 0, 2 is nodes 2 3", the fastest first.
std::string TiersText(const std::vector<std::vector<NodeId>>& tiers) {
  std::string text;
  for (std::size_t i = 0; i < tiers.size(); ++i) {
    text +=
        fmt::format("{}{} is node{}", i == 0 ? "" : ", ", i + 1, tiers[i].size() == 1 ? "" : "s");
    for (const NodeId node : tiers[i]) text += fmt::format(" {}", node.value());
  }
  return text;
}

Json TiersJson(const std::vector<std::vector<NodeId>>& tiers) {
  if (tiers.empty()) return nullptr;
  Json json = Json::array();
  for (const std::vector<NodeId>& tier : tiers) {
    Json& nodes = json.emplace_back(Json::array());
    for (const NodeId node : tier) nodes.push_back(node.value());
  }
  return json;
}

}  // namespace

std::optional<std::uint64_t> Summary::Clears() const {
  std::optional<std::uint64_t> clears;
  for (const SourceTotal& source : coverage.totals.sources) {
    const std::optional<std::uint64_t> own = source.Detail("clears");
    if (own) clears = clears.value_or(0) + *own;
  }
  return clears;
}

Result<Summary> MakeSummary(const Trace& trace, EpochRange epochs) {
  Result<Coverage> coverage = MakeCoverage(trace, epochs);
  if (!coverage) return Fail(std::move(coverage.error()));
  return Summary{.coverage = std::move(*coverage)};
}

namespace {

std::string ClearsText(const Summary& summary) {
  const std::optional<std::uint64_t> clears = summary.Clears();
  return clears ? CountText(*clears, "accessed bit") : "unknown accessed bits";
}

}  // namespace

std::string SummaryText(const Summary& summary, TextWidth width) {
  const TraceTotals& totals = summary.coverage.totals;
  const TraceInfo& info = totals.info;
  const PagesSeen& seen = summary.coverage.all;
  std::string text;
  text += TitledLine("trace", fmt::format("{} ({})", Printable(totals.trace), Finished(totals)));
  if (totals.end.outcome) text += TitledLine("outcome", Printable(totals.end.outcome->text));
  text += TitledLine(
      "recorded", fmt::format("{} by {}", WallTime(info.wall_start), Printable(info.tool_version)));
  text += TitledLine("host", fmt::format("Linux {}, {}, {}", Printable(info.kernel_release),
                                         CountText(info.cpus, "CPU"), Printable(info.cpu_model)));
  if (!info.tiers.empty()) text += TitledLine("tiers", TiersText(info.tiers));
  text +=
      TitledLine("epochs", fmt::format("{} in {:.3f} s, {} lost", Grouped(totals.epochs),
                                       Seconds(totals.duration()), Grouped(totals.lost_epochs)));
  text += TitledLine("footprint", OrUnknown(seen.footprint, [&seen](PageCount pages) {
                       return fmt::format("{} ({}){}", CountText(pages), HumanSize(pages),
                                          seen.most_looked_at ? ", with all of its regions'" : "");
                     }));
  text += TitledLine(
      "pages seen", fmt::format("by references {}, by samples {}, by both {}",
                                OrUnknown(seen.references, kGrouped),
                                OrUnknown(seen.samples, kGrouped), OrUnknown(seen.both, kGrouped)));
  text += TitledLine(
      "looked at",
      seen.most_looked_at
          ? fmt::format("at most {}: one at a time of each region", CountText(*seen.most_looked_at))
          : OrUnknown(seen.looked_at, [](PageCount pages) { return CountText(pages); }));
  text += TitledLine("cost", fmt::format("{} cleared; own CPU {:.3f} s ({} of one CPU)",
                                         ClearsText(summary), Seconds(totals.profiler_cpu_time),
                                         OrUnknown(ShareOfDuration(totals), Percent)));
  text +=
      TitledLine("target pays",
                 fmt::format("{} a bit that is set again, {} a 2 MiB block read, {} a clock sample",
                             OrUnknown(info.calibration.ns_per_set, Price),
                             OrUnknown(info.calibration.ns_per_look, Price),
                             OrUnknown(info.calibration.ns_per_sample, Price)) +
                     PricePerPoint(info.calibration));
  for (const std::string& warning : info.warnings)
    text += TitledLine("warning", Printable(warning));
  for (const std::string& caveat : Caveats(totals, RankSource::kCombined)) {
    text += TitledLine("note", caveat);
  }
  if (!totals.sources.empty()) text += "\n" + SourcesText(totals, width);
  if (!totals.targets.empty()) text += "\n" + TargetsText(summary.coverage, width);
  if (!info.settings.empty()) text += "\n" + SettingsText(info.settings, width);
  return text;
}

std::string SummaryJson(const Summary& summary) {
  const TraceTotals& totals = summary.coverage.totals;
  const TraceInfo& info = totals.info;
  const PagesSeen& seen = summary.coverage.all;
  Json targets = Json::array();
  for (const Coverage::Row& row : summary.coverage.rows) targets.push_back(TargetJson(row));
  Json sources = Json::array();
  for (const SourceTotal& source : totals.sources) sources.push_back(SourceJson(source));
  Json settings = Json::object();
  for (const Setting& setting : info.settings) settings[setting.name] = setting.value;
  return JsonText({{"view", "summary"},
                   {"trace", totals.trace},
                   {"finished", OrNull(totals.end.finished)},
                   {"damage", DamageJson(totals.end)},
                   {"outcome", OutcomeJson(totals.end)},
                   {"epochs", totals.epochs},
                   {"lost_epochs", totals.lost_epochs},
                   {"duration_s", Seconds(totals.duration())},
                   {"epoch_length_s", Seconds(info.epoch_length)},
                   {"targets", std::move(targets)},
                   {"footprint_pages", OrNull(seen.footprint)},
                   {"pages_seen",
                    {{"references", OrNull(seen.references)},
                     {"samples", OrNull(seen.samples)},
                     {"both", OrNull(seen.both)},
                     {"either", OrNull(seen.either)}}},
                   {"pages_looked_at", OrNull(seen.looked_at)},
                   {"pages_looked_at_at_most", OrNull(seen.most_looked_at)},
                   {"sources", std::move(sources)},
                   {"overhead",
                    {{"calibrated_ns_per_bit", OrNull(info.calibration.ns_per_set)},
                     {"calibrated_ns_per_look", OrNull(info.calibration.ns_per_look)},
                     {"calibrated_ns_per_sample", OrNull(info.calibration.ns_per_sample)},
                     {"calibrated_ns_per_point", OrNull(info.calibration.ns_per_point)},
                     {"assumed_ns_per_point", OrNull(info.calibration.assumed_ns_per_point)},
                     {"clears", OrNull(summary.Clears())},
                     {"own_cpu_s", Seconds(totals.profiler_cpu_time)}}},
                   {"host",
                    {{"tool_version", info.tool_version},
                     {"kernel_release", info.kernel_release},
                     {"cpu_model", info.cpu_model},
                     {"cpus", info.cpus},
                     {"tiers", TiersJson(info.tiers)},
                     {"wall_start", WallTime(info.wall_start)}}},
                   {"settings", std::move(settings)},
                   {"warnings", info.warnings}});
}

std::string SummaryCsv(const Summary& summary) {
  const TraceTotals& totals = summary.coverage.totals;
  const PagesSeen& seen = summary.coverage.all;
  std::string csv = CsvLine({"key", "value"});
  const auto add = [&csv](std::string key, std::string value) {
    csv += CsvLine({std::move(key), std::move(value)});
  };
  add("trace", totals.trace);
  add("finished", OrEmpty(totals.end.finished, kPlain));
  add("outcome.saw_enough",
      totals.end.outcome ? kPlain(totals.end.outcome->saw_enough) : std::string());
  add("outcome.text", totals.end.outcome ? totals.end.outcome->text : std::string());
  const RecordingOutcome outcome = totals.end.outcome.value_or(RecordingOutcome());
  const auto bytes = [](PageCount pages) { return kPlain(BytesOf(pages)); };
  add("outcome.pages_looked_at", OrEmpty(outcome.looked_at, kPlain));
  add("outcome.pages_seen", OrEmpty(outcome.accessed, kPlain));
  add("outcome.resident_bytes", OrEmpty(outcome.resident, bytes));
  for (const auto& [name, pages] : KindsOf(outcome.unobservable)) {
    add(std::string("outcome.not_observable.") + name, OrEmpty(pages, bytes));
  }
  const std::string left_out = "outcome.left_out_by_process_filter.";
  const auto& filtered = outcome.filtered;
  add(left_out + "processes", filtered ? kPlain(filtered->processes) : std::string());
  add(left_out + "resident_bytes", filtered ? bytes(filtered->resident) : std::string());
  add(left_out + "cpu_share", filtered ? Exact(filtered->cpu_share) : std::string());
  add("epochs", kPlain(totals.epochs));
  add("lost_epochs", kPlain(totals.lost_epochs));
  add("duration_s", Exact(Seconds(totals.duration())));
  add("targets", kPlain(totals.targets.size()));
  add("footprint_pages", OrEmpty(seen.footprint, kPlain));
  add("pages_seen.references", OrEmpty(seen.references, kPlain));
  add("pages_seen.samples", OrEmpty(seen.samples, kPlain));
  add("pages_seen.both", OrEmpty(seen.both, kPlain));
  add("pages_seen.either", OrEmpty(seen.either, kPlain));
  add("pages_looked_at", OrEmpty(seen.looked_at, kPlain));
  add("pages_looked_at_at_most", OrEmpty(seen.most_looked_at, kPlain));
  for (const SourceTotal& source : totals.sources) {
    const std::string prefix = "sources." + source.name + ".";
    add(prefix + "state", std::string(Name(source.state)));
    add(prefix + "samples_of",
        source.samples_of ? std::string(Name(*source.samples_of)) : std::string());
    add(prefix + "accesses_per_sample", OrEmpty(source.accesses_per_sample, kPlain));
    add(prefix + "active_ratio", OrEmpty(source.active_ratio, Exact));
    add(prefix + "observations", OrEmpty(source.observations, kPlain));
    add(prefix + "lost", OrEmpty(source.lost, kPlain));
    for (const NamedCount& detail : source.details) add(prefix + detail.name, kPlain(detail.count));
  }
  add("overhead.calibrated_ns_per_bit", OrEmpty(totals.info.calibration.ns_per_set, Exact));
  add("overhead.calibrated_ns_per_look", OrEmpty(totals.info.calibration.ns_per_look, Exact));
  add("overhead.calibrated_ns_per_sample", OrEmpty(totals.info.calibration.ns_per_sample, Exact));
  add("overhead.calibrated_ns_per_point", OrEmpty(totals.info.calibration.ns_per_point, Exact));
  add("overhead.assumed_ns_per_point",
      OrEmpty(totals.info.calibration.assumed_ns_per_point, Exact));
  add("overhead.clears", OrEmpty(summary.Clears(), kPlain));
  add("overhead.own_cpu_s", Exact(Seconds(totals.profiler_cpu_time)));
  return csv;
}

}  // namespace tmprof
