// SPDX-License-Identifier: Apache-2.0

#include "objects/analysis/objects.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "base/text/format.h"
#include "base/text/human_units.h"
#include "proto/replaced_file.h"

namespace tmprof {
namespace {

using std::chrono::milliseconds;

std::string_view NameOf(ObjectKind kind) {
  switch (kind) {
    case ObjectKind::kHeap:
      return "heap";
    case ObjectKind::kVariable:
      return "variable";
    case ObjectKind::kStack:
      return "stack";
    case ObjectKind::kElsewhere:
      return "elsewhere";
  }
  return "";
}

std::string FunctionText(const SourceFrame& frame) {
  if (!frame.function.empty()) return frame.function;
  if (frame.module.empty()) return fmt::format("{:#x}", frame.offset);
  return fmt::format("{}+{:#x}", FileName(frame.module), frame.offset);
}

// "make_node (tree.c:42)"
std::string FrameText(const SourceFrame& frame) {
  std::string text = FunctionText(frame);
  if (!frame.file.empty()) text += fmt::format(" ({}:{})", FileName(frame.file), frame.line);
  return text;
}

// Marks that the caller of the last frame shown is not known.
constexpr const char* kCut = " < unknown";
constexpr std::size_t kFramesOfALine = 3;

std::string WhatText(const ObjectsRow& row) {
  if (row.kind == ObjectKind::kVariable) return "variable " + Printable(row.name);
  if (!row.name.empty()) return Printable(row.name);
  return FramesText(row.frames) +
         (row.stack_cut && row.frames.size() <= kFramesOfALine ? kCut : "");
}

// Returns "unknown;outermost;...;innermost" for a stack that was cut.
std::string FoldedStack(const std::vector<SourceFrame>& frames, bool is_cut) {
  return (is_cut && !frames.empty() ? "unknown;" : "") + FoldedFrames(frames);
}

std::string AddressText(const std::optional<std::uint64_t>& start) {
  return start ? fmt::format("{:#x}", *start) : "";
}

double Share(std::uint64_t accesses, std::uint64_t all) {
  return all == 0 ? 0 : static_cast<double>(accesses) / static_cast<double>(all);
}

std::string FilesText(const std::vector<std::string>& paths) {
  std::string text;
  for (const std::string& path : paths) text += (text.empty() ? "" : ", ") + FileName(path);
  return Printable(text);
}

bool Before(const ObjectsRow& a, const ObjectsRow& b) {
  return std::tuple(b.accesses, b.bytes.value_or(0)) < std::tuple(a.accesses, a.bytes.value_or(0));
}

// Returns the first argument of the template whose arguments begin at `from`: "Node" of "<Node,
// int>".
std::string FirstArgument(std::string_view text, std::size_t from) {
  int depth = 0;
  for (std::size_t i = from; i < text.size(); ++i) {
    if (text[i] == '<') ++depth;
    if (text[i] == '>') --depth;
    if (depth == 0 || (depth == 1 && text[i] == ',')) {
      return std::string(text.substr(from + 1, i - from - 1));
    }
  }
  return {};
}

bool IsOfLibrary(std::string_view function) {
  return function.empty() || function.starts_with("std::") ||
         function.starts_with("operator new") || function.starts_with("__gnu_cxx::") ||
         function.starts_with("void* std::");
}

ElementsRow Summarize(const ElementCounts& counts) {
  ElementsRow row{.element_bytes = counts.element_bytes, .elements = counts.accesses.size()};
  for (std::uint64_t i = 0; i < row.elements; ++i) {
    const std::uint64_t accesses = counts.accesses[i];
    if (accesses == 0) continue;
    ++row.accessed;
    const auto place = std::ranges::find_if(
        row.hottest, [&](const ElementsRow::Element& e) { return e.accesses < accesses; });
    row.hottest.insert(place, {.index = i, .accesses = accesses});
    if (row.hottest.size() > ElementsRow::kHottest) row.hottest.pop_back();
  }
  return row;
}

// "100 elements of 8 B, 3 accessed: [7] 40, [2] 9, [0] 1"
std::string ElementsText(const ElementsRow& row) {
  std::string text = fmt::format("{} of {}, {} accessed", CountText(row.elements, "element"),
                                 FormatBytes(row.element_bytes), Grouped(row.accessed));
  for (std::size_t i = 0; i < row.hottest.size(); ++i) {
    text += fmt::format("{} [{}] {}", i == 0 ? ":" : ",", row.hottest[i].index,
                        Grouped(row.hottest[i].accesses));
  }
  if (row.accessed > row.hottest.size()) text += ", ...";
  return text;
}

Json ElementsJson(const std::optional<ElementsRow>& row) {
  if (!row) return nullptr;
  Json hottest = Json::array();
  for (const ElementsRow::Element& element : row->hottest) {
    hottest.push_back({{"index", element.index}, {"accesses", element.accesses}});
  }
  return {{"element_bytes", row->element_bytes},
          {"elements", row->elements},
          {"accessed", row->accessed},
          {"hottest", std::move(hottest)}};
}

// Makes one row of each type instead of rows of sites.
std::vector<ObjectsRow> ByType(std::vector<ObjectsRow> sites) {
  std::map<std::string, ObjectsRow> types;
  std::map<std::string, double> lived_ms;
  for (const ObjectsRow& site : sites) {
    const std::string name = TypeText(site.frames);
    ObjectsRow& type = types[name];
    type.name = name;
    type.objects += site.objects;
    type.live_objects += site.live_objects;
    type.bytes = type.bytes.value_or(0) + site.bytes.value_or(0);
    type.live_bytes += site.live_bytes;
    type.accesses += site.accesses;
    if (!site.lifetime) continue;
    double& lived = lived_ms[name] +=
        static_cast<double>(site.lifetime->count()) * static_cast<double>(site.objects);
    type.lifetime = milliseconds(std::llround(lived / static_cast<double>(type.objects)));
  }
  std::vector<ObjectsRow> rows;
  for (auto& [name, type] : types) rows.push_back(std::move(type));
  return rows;
}

}  // namespace

Symbolize AskedOnce(Symbolize symbolize) {
  return [symbolize = std::move(symbolize),
          known = std::unordered_map<std::uint64_t, std::vector<SourceFrame>>()](
             std::uint64_t return_address) mutable {
    const auto [at, is_new] = known.try_emplace(return_address);
    if (is_new) at->second = symbolize(return_address);
    return at->second;
  };
}

std::string FoldedElement(std::string text) {
  std::ranges::replace(text, ';', ':');
  return Printable(text);
}

std::string FileName(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

std::string_view NameOf(ObjectsBy by) {
  switch (by) {
    case ObjectsBy::kSite:
      return "site";
    case ObjectsBy::kType:
      return "type";
    case ObjectsBy::kObject:
      break;
  }
  return "object";
}

std::string TypeText(const std::vector<SourceFrame>& frames) {
  for (const SourceFrame& frame : frames) {
    const std::size_t allocator = frame.function.find("allocator<");
    if (allocator == std::string::npos) continue;
    if (std::string type = FirstArgument(frame.function, frame.function.find('<', allocator));
        !type.empty()) {
      return type;
    }
  }
  const auto own = std::ranges::find_if_not(frames, IsOfLibrary, &SourceFrame::function);
  return own != frames.end() ? "by " + own->function : "unknown";
}

std::string FoldedFrames(const std::vector<SourceFrame>& frames) {
  if (frames.empty()) return "unknown";
  std::string stack;
  for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
    stack += (stack.empty() ? "" : ";") + FoldedElement(FunctionText(*frame));
  }
  return stack;
}

std::string FramesText(const std::vector<SourceFrame>& frames, std::size_t most) {
  if (frames.empty()) return "stack unknown";
  std::string text;
  for (std::size_t i = 0; i < std::min(most, frames.size()); ++i) {
    text += (i == 0 ? "" : " < ") + Printable(FrameText(frames[i]));
  }
  if (frames.size() > most) text += " < ...";
  return text;
}

Json FramesJson(const std::vector<SourceFrame>& frames) {
  Json json = Json::array();
  for (const SourceFrame& frame : frames) {
    json.push_back({{"function", frame.function.empty() ? Json(nullptr) : Json(frame.function)},
                    {"file", frame.file.empty() ? Json(nullptr) : Json(frame.file)},
                    {"line", frame.line == 0 ? Json(nullptr) : Json(frame.line)},
                    {"module", frame.module.empty() ? Json(nullptr) : Json(frame.module)},
                    {"offset", frame.offset}});
  }
  return json;
}

Result<ObjectsBy> ParseObjectsBy(std::string_view text) {
  for (const ObjectsBy by : {ObjectsBy::kSite, ObjectsBy::kType, ObjectsBy::kObject}) {
    if (text == NameOf(by)) return by;
  }
  return Fail(BadInput("use option", fmt::format("--by {}", text),
                       "the objects view is by site, type or object", "write --by site"));
}

std::optional<double> ObjectsRow::AccessesPerByte() const {
  if (bytes.value_or(0) == 0) return std::nullopt;
  return static_cast<double>(accesses) / static_cast<double>(*bytes);
}

void ObjectsTally::Add(ObjectsPart part) {
  std::ranges::move(part.modules, std::back_inserter(modules_));
  for (AllocationSite& site : part.sites) sites_[site.id] = std::move(site);
  for (VariableCount& variable : part.variables) {
    VariableCount& sum = variables_[{variable.start, variable.name}];
    variable.accesses += sum.accesses;
    variable.bytes = std::max(variable.bytes, sum.bytes);  // 0: a module does not know the size
    sum = std::move(variable);
  }
  std::ranges::move(part.stacks, std::back_inserter(stacks_));
  elsewhere_ += part.elsewhere;
  for (NamedCall& call : part.calls) calls_[call.return_address] = std::move(call.frames);
  for (const LiveObject& object : part.objects) {
    Live& live = live_[object.site];
    ++live.objects;
    live.bytes += object.bytes;
    live.accesses += object.accesses;
    live.births += object.birth;
  }
  if (by_ != ObjectsBy::kObject) return;
  for (const LiveObject& object : part.objects) objects_.Add(object, objects_.all());
  for (const ElementCounts& counts : part.elements) elements_[counts.start] = Summarize(counts);
}

std::vector<ObjectsRow> ObjectsTally::SiteRows(milliseconds run, const Frames& frames) const {
  std::vector<ObjectsRow> rows;
  for (const auto& [id, site] : sites_) {
    const auto found = live_.find(id);
    const Live live = found != live_.end() ? found->second : Live();
    const std::uint64_t objects = std::max(site.objects, site.freed_objects + live.objects);
    if (objects == 0 && site.freed_accesses == 0) continue;
    ObjectsRow row{.kind = ObjectKind::kHeap,
                   .objects = objects,
                   .live_objects = live.objects,
                   .bytes = site.bytes,
                   .live_bytes = live.bytes,
                   .accesses = site.freed_accesses + live.accesses,
                   .frames = frames.at(id),
                   .stack_cut = site.is_cut};
    const std::uint64_t timed = site.freed_objects + live.objects;
    if (timed > 0) {
      const milliseconds lived =
          run * static_cast<milliseconds::rep>(live.objects) - live.births + site.freed_age;
      row.lifetime = lived / static_cast<milliseconds::rep>(timed);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<ObjectsRow> ObjectsTally::ObjectRows(milliseconds run, const Frames& frames) {
  std::vector<ObjectsRow> rows;
  for (const LiveObject& object : objects_.Take()) {
    const auto found = frames.find(object.site);
    const auto elements = elements_.find(object.start);
    rows.push_back(
        {.kind = ObjectKind::kHeap,
         .start = object.start,
         .objects = 1,
         .live_objects = 1,
         .bytes = object.bytes,
         .live_bytes = object.bytes,
         .accesses = object.accesses,
         .lifetime = run - object.birth,
         .frames = found != frames.end() ? found->second : std::vector<SourceFrame>(),
         .stack_cut = IsCut(object.site),
         .elements = elements != elements_.end() ? std::optional(elements->second) : std::nullopt});
  }
  return rows;
}

void ObjectsTally::AddStacks(ObjectsReport& report, const Frames& frames) const {
  for (const ObjectsRow& row : report.rows) {
    // Not all objects have rows.
    if (row.kind == ObjectKind::kHeap && by_ == ObjectsBy::kObject) continue;
    std::string stack(NameOf(row.kind));
    if (row.kind != ObjectKind::kElsewhere) {
      stack += ";" + (row.name.empty() ? FoldedStack(row.frames, row.stack_cut)
                                       : FoldedElement(row.name));
    }
    report.stacks[stack] += row.accesses;
  }
  if (by_ != ObjectsBy::kObject) return;
  for (const auto& [site, live] : live_) {
    const auto found = frames.find(site);
    report.stacks[fmt::format(
        "{};{}", NameOf(ObjectKind::kHeap),
        FoldedStack(found != frames.end() ? found->second : std::vector<SourceFrame>(),
                    IsCut(site)))] += live.accesses;
  }
}

bool ObjectsTally::IsCut(std::uint32_t site) const {
  const auto found = sites_.find(site);
  return found == sites_.end() || found->second.is_cut;
}

std::vector<SourceFrame> ObjectsTally::CallBefore(std::uint64_t return_address) const {
  const auto found = calls_.find(return_address);
  return found != calls_.end() ? found->second : std::vector<SourceFrame>();
}

ObjectsReport ObjectsTally::Take(const ObjectsInfo& info, const Symbolize& symbolize) {
  const auto run = std::chrono::duration_cast<milliseconds>(info.written - info.start);
  Frames frames;
  for (const auto& [id, site] : sites_) {
    std::vector<SourceFrame>& of_site = frames[id];
    for (const std::uint64_t address : site.return_addresses) {
      std::ranges::move(symbolize(address), std::back_inserter(of_site));
    }
  }
  ObjectsReport report{.info = info, .by = by_};
  report.rows = by_ == ObjectsBy::kObject ? ObjectRows(run, frames) : SiteRows(run, frames);
  const std::size_t without_rows =
      by_ == ObjectsBy::kObject ? objects_.all() - report.rows.size() : 0;
  if (by_ == ObjectsBy::kType) report.rows = ByType(std::move(report.rows));
  for (const auto& [id, site] : sites_) {
    report.freed_objects += site.freed_objects;
    report.freed_accesses += site.freed_accesses;
    report.kinds[ObjectKind::kHeap] += site.freed_accesses;
  }
  for (const auto& [id, live] : live_) report.kinds[ObjectKind::kHeap] += live.accesses;
  for (const auto& [where, variable] : variables_) {
    report.kinds[ObjectKind::kVariable] += variable.accesses;
    report.rows.push_back({.kind = ObjectKind::kVariable,
                           .name = Demangled(variable.name),
                           .start = variable.start,
                           .objects = 1,
                           .live_objects = 1,
                           .bytes = variable.bytes,
                           .live_bytes = variable.bytes,
                           .accesses = variable.accesses});
  }
  for (const ThreadStack& stack : stacks_) {
    report.kinds[ObjectKind::kStack] += stack.accesses;
    report.rows.push_back({.kind = ObjectKind::kStack,
                           .name = fmt::format("stack of thread {}", stack.number),
                           .start = stack.start,
                           .objects = 1,
                           .live_objects = 1,
                           .accesses = stack.accesses});
  }
  report.kinds[ObjectKind::kElsewhere] = elsewhere_;
  if (elsewhere_ > 0) {
    report.rows.push_back({.kind = ObjectKind::kElsewhere,
                           .name = "elsewhere: mappings, other modules' variables",
                           .accesses = elsewhere_});
  }
  for (const auto& [kind, accesses] : report.kinds) report.accesses += accesses;
  for (const LoadedModule& module : modules_) {
    const std::string& path = module.path.empty() ? info.program : module.path;
    // A module that was closed and loaded again elsewhere is listed twice.
    const auto add_new = [](std::vector<std::string>& to, std::string name) {
      if (std::ranges::find(to, name) == to.end()) to.push_back(std::move(name));
    };
    if (!module.instrumented) {
      add_new(report.uninstrumented, path);
      continue;
    }
    for (const std::string& part : module.uncounted) {
      add_new(report.uncounted_parts, fmt::format("{} of {}", part, FileName(path)));
    }
  }
  AddStacks(report, frames);
  std::ranges::stable_sort(report.rows, Before);
  report.all_rows = report.rows.size() + without_rows;
  return report;
}

void LimitRows(ObjectsReport& report, std::size_t rows) {
  if (rows < report.rows.size()) report.rows.resize(rows);
}

ObjectsReport MakeObjects(ObjectsReader& reader, std::string file, ObjectsBy by,
                          std::optional<std::size_t> most_objects) {
  ObjectsTally tally(by, most_objects);
  StreamEnd end;
  ObjectsPart part;
  while (true) {
    Result<bool> more = reader.Next(part);
    if (!more) end.damage = std::move(more.error());
    if (more && !*more) end = reader.End();
    if (!more || !*more) break;
    tally.Add(std::move(part));
  }
  const Symbols symbols(tally.modules(), reader.info().program);
  bool has_all_names = true;
  ObjectsReport report = tally.Take(reader.info(), AskedOnce([&](std::uint64_t address) {
                                      std::vector<SourceFrame> named = tally.CallBefore(address);
                                      if (!named.empty()) return named;
                                      has_all_names = false;
                                      return symbols.CallBefore(address);
                                    }));
  report.file = std::move(file);
  report.end = std::move(end);
  if (!has_all_names) report.nameless = symbols.Missing();
  return report;
}

Result<StreamEnd> NameObjects(const std::filesystem::path& from, const std::filesystem::path& to) {
  Result<ObjectsReader> reader = ObjectsReader::Open(from);
  if (!reader) return Fail(reader.error());
  std::vector<LoadedModule> modules;
  std::set<std::uint64_t> addresses;
  std::set<std::uint64_t> named;
  ObjectsPart part;
  while (true) {
    const Result<bool> more = reader->Next(part);
    if (!more) return Fail(more.error());
    if (!*more) break;
    std::ranges::move(part.modules, std::back_inserter(modules));
    for (const AllocationSite& site : part.sites) {
      addresses.insert(site.return_addresses.begin(), site.return_addresses.end());
    }
    for (const NamedCall& call : part.calls) named.insert(call.return_address);
  }
  const Symbols symbols(std::move(modules), reader->info().program);
  std::vector<NamedCall> calls;
  for (const std::uint64_t address : addresses) {
    if (named.contains(address)) continue;
    std::vector<SourceFrame> frames = symbols.CallBefore(address);
    if (std::ranges::all_of(frames, &std::string::empty, &SourceFrame::function)) continue;
    calls.push_back({.return_address = address, .frames = std::move(frames)});
  }
  Result<ReplacedFile> file = ReplacedFile::Create(to, 0666);
  if (!file) return Fail(std::move(file.error()));
  if (Status status = CopyObjects(from, file->path(), calls); !status) return Fail(status.error());
  if (Status status = file->Commit(); !status) return Fail(status.error());
  return reader->End();
}

std::string ObjectsText(const ObjectsReport& report, TextWidth width) {
  using enum TextTable::Align;
  using enum TextTable::Importance;
  const ObjectsInfo& info = report.info;
  const auto kind = [&](ObjectKind of) {
    const auto found = report.kinds.find(of);
    const std::uint64_t accesses = found != report.kinds.end() ? found->second : 0;
    return Percent(Share(accesses, report.accesses));
  };
  std::string text;
  text +=
      TitledLine("objects of", fmt::format("{} (PID {}), {:.3f} s from {}", Printable(info.program),
                                           info.pid.value(), Seconds(info.written - info.start),
                                           WallTime(info.wall_start)));
  text += TitledLine(
      "accesses",
      fmt::format("{}: heap {}, variables {}, thread stacks {}, elsewhere {}",
                  Grouped(report.accesses), kind(ObjectKind::kHeap), kind(ObjectKind::kVariable),
                  kind(ObjectKind::kStack), kind(ObjectKind::kElsewhere)));
  if (info.forks > 0) {
    text += TitledLine("forked", fmt::format("{}: what was counted before is its parent's, "
                                             "too",
                                             CountText(info.forks, "time")));
  }
  if (report.by == ObjectsBy::kObject && report.freed_objects > 0) {
    text +=
        TitledLine("freed", fmt::format("{} with {}, which --by site shows",
                                        CountText(report.freed_objects, "object"),
                                        CountText(report.freed_accesses, "access", "accesses")));
  }
  if (!report.uninstrumented.empty() || !report.uncounted_parts.empty()) {
    std::string files = FilesText(report.uninstrumented);
    for (const std::string& part : report.uncounted_parts) {
      files += (files.empty() ? "" : ", ") + Printable(part);
    }
    text += TitledLine("not counted", "code of " + files);
  }
  if (!report.nameless.empty()) {
    text += TitledLine("no names", "files are gone or have changed: " + FilesText(report.nameless));
  }
  TextTable table({{"accesses", kRight, kKey},
                   {"share", kRight, kKey},
                   {"bytes"},
                   {"accesses per byte"},
                   {"objects"},
                   {"live objects", kRight, kThird},
                   {"lifetime", kRight, kThird},
                   {std::string(NameOf(report.by)), kLeft, kKey, kShortestSite}});
  const auto lifetime = [](milliseconds lived) { return fmt::format("{:.3f} s", Seconds(lived)); };
  for (const ObjectsRow& row : report.rows) {
    std::string what = WhatText(row);
    if (report.by == ObjectsBy::kObject && row.start) what = AddressText(row.start) + " " + what;
    table.AddRow({Grouped(row.accesses), Percent(Share(row.accesses, report.accesses)),
                  OrUnknown(row.bytes, FormatBytes), OrUnknown(row.AccessesPerByte(), Significant),
                  Grouped(row.objects), Grouped(row.live_objects),
                  OrUnknown(row.lifetime, lifetime), std::move(what)});
  }
  text += "\n" + table.Text(width);
  for (const ObjectsRow& row : report.rows) {
    if (!row.elements) continue;
    text += fmt::format("{}: {}\n", AddressText(row.start), ElementsText(*row.elements));
  }
  if (report.rows.size() < report.all_rows) {
    text += fmt::format("{} of {}; --limit 0 shows all\n", Grouped(report.rows.size()),
                        CountText(report.all_rows, "row"));
  }
  return text;
}

std::string ObjectsJson(const ObjectsReport& report) {
  const ObjectsInfo& info = report.info;
  Json rows = Json::array();
  for (const ObjectsRow& row : report.rows) {
    rows.push_back({{"kind", NameOf(row.kind)},
                    {"name", row.name.empty() ? Json(nullptr) : Json(row.name)},
                    {"start", OrNull(row.start)},
                    {"accesses", row.accesses},
                    {"share", Share(row.accesses, report.accesses)},
                    {"bytes", OrNull(row.bytes)},
                    {"accesses_per_byte", OrNull(row.AccessesPerByte())},
                    {"objects", row.objects},
                    {"live_objects", row.live_objects},
                    {"live_bytes", row.live_bytes},
                    {"lifetime_s", row.lifetime ? Json(Seconds(*row.lifetime)) : Json(nullptr)},
                    {"elements", ElementsJson(row.elements)},
                    {"frames", FramesJson(row.frames)},
                    {"stack_cut", row.stack_cut}});
  }
  Json kinds = Json::object();
  for (const auto& [kind, accesses] : report.kinds) kinds[std::string(NameOf(kind))] = accesses;
  return JsonText({{"objects", report.file},
                   {"by", NameOf(report.by)},
                   {"program", info.program},
                   {"pid", info.pid.value()},
                   {"forks", info.forks},
                   {"duration_s", Seconds(info.written - info.start)},
                   {"finished", report.end.finished ? Json(*report.end.finished) : Json(nullptr)},
                   {"damage", DamageJson(report.end)},
                   {"accesses", report.accesses},
                   {"accesses_by_kind", std::move(kinds)},
                   {"freed_objects", report.freed_objects},
                   {"freed_accesses", report.freed_accesses},
                   {"uninstrumented", report.uninstrumented},
                   {"uncounted_parts", report.uncounted_parts},
                   {"without_names", report.nameless},
                   {"all_rows", report.all_rows},
                   {"rows", std::move(rows)}});
}

std::string ObjectsCsv(const ObjectsReport& report) {
  std::string text = CsvLine({"kind", "start", "accesses", "share", "bytes", "accesses_per_byte",
                              "objects", "live_objects", "live_bytes", "lifetime_s", "what"});
  const auto plain = [](auto value) { return fmt::format("{}", value); };
  for (const ObjectsRow& row : report.rows) {
    std::string what = row.name;
    for (const SourceFrame& frame : row.frames) {
      what += (what.empty() ? "" : " < ") + FrameText(frame);
    }
    if (row.stack_cut && !row.frames.empty()) what += kCut;
    text += CsvLine(
        {std::string(NameOf(row.kind)), AddressText(row.start), plain(row.accesses),
         Exact(Share(row.accesses, report.accesses)), OrEmpty(row.bytes, plain),
         OrEmpty(row.AccessesPerByte(), Exact), plain(row.objects), plain(row.live_objects),
         plain(row.live_bytes),
         OrEmpty(row.lifetime, [](milliseconds lived) { return Exact(Seconds(lived)); }), what});
  }
  return text;
}

std::string ObjectsFolded(const ObjectsReport& report) {
  std::string text;
  for (const auto& [stack, accesses] : report.stacks) {
    if (accesses > 0) text += fmt::format("{} {}\n", stack, accesses);
  }
  return text;
}

}  // namespace tmprof
