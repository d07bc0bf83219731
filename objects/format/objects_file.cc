// SPDX-License-Identifier: Apache-2.0

#include "objects/format/objects_file.h"

#include <fmt/format.h>

#include <array>
#include <fstream>
#include <limits>
#include <string_view>
#include <utility>

#include "objects/format/objects.pb.h"
#include "proto/framed_file.h"

namespace tmprof {
namespace {

Verdict Decode(const pb::ObjectsHeader& from, ObjectsInfo& info) {
  if (from.start_ns() < 0 || from.written_ns() < from.start_ns()) {
    return Wrong("its times are before boot, or not in order");
  }
  const std::chrono::nanoseconds wall(from.wall_start_ns());
  info = {.pid = Pid(from.pid()),
          .parent = Pid(from.parent_pid()),
          .forks = from.forks(),
          .program = from.program(),
          .start = MonotonicTime(std::chrono::nanoseconds(from.start_ns())),
          .written = MonotonicTime(std::chrono::nanoseconds(from.written_ns())),
          .wall_start = std::chrono::system_clock::time_point(
              std::chrono::duration_cast<std::chrono::system_clock::duration>(wall))};
  return {};
}

Verdict DecodeObjects(const pb::ObjectColumns& columns, std::vector<LiveObject>& objects) {
  const int count = columns.start_step_size();
  if (columns.bytes_size() != count || columns.site_size() != count ||
      columns.birth_ms_size() != count || columns.accesses_size() != count) {
    return Wrong("its columns of objects are not of one length");
  }
  std::uint64_t start = 0;
  for (int i = 0; i < count; ++i) {
    const std::uint64_t step = columns.start_step(i);
    if (step == 0 || step > std::numeric_limits<std::uint64_t>::max() - start) {
      return Wrong("its objects are not in the order of their addresses");
    }
    start += step;
    objects.push_back({.start = start,
                       .bytes = columns.bytes(i),
                       .site = columns.site(i),
                       .birth = std::chrono::milliseconds(columns.birth_ms(i)),
                       .accesses = columns.accesses(i)});
  }
  return {};
}

Verdict Decode(const pb::ObjectsPart& from, ObjectsPart& part) {
  part = {};
  for (const pb::LoadedModule& module : from.modules()) {
    if (module.start() >= module.end()) return Wrong("it has a module without addresses");
    part.modules.push_back({.path = module.path(),
                            .build_id = module.build_id(),
                            .start = module.start(),
                            .end = module.end(),
                            .bias = module.bias(),
                            .instrumented = module.instrumented(),
                            .closed = module.closed(),
                            .uncounted = {module.uncounted().begin(), module.uncounted().end()}});
  }
  for (const pb::AllocationSite& site : from.sites()) {
    if (site.freed_objects() > site.objects()) {
      return Wrong(fmt::format("its site {} freed more objects than it allocated", site.id()));
    }
    part.sites.push_back(
        {.id = site.id(),
         .return_addresses = {site.return_addresses().begin(), site.return_addresses().end()},
         .is_cut = site.cut(),
         .objects = site.objects(),
         .bytes = site.bytes(),
         .freed_objects = site.freed_objects(),
         .freed_bytes = site.freed_bytes(),
         .freed_accesses = site.freed_accesses(),
         .freed_age = std::chrono::milliseconds(site.freed_age_ms())});
  }
  for (const pb::Variable& variable : from.variables()) {
    part.variables.push_back({.name = variable.name(),
                              .start = variable.start(),
                              .bytes = variable.bytes(),
                              .accesses = variable.accesses()});
  }
  for (const pb::ThreadStack& stack : from.stacks()) {
    part.stacks.push_back({.number = stack.number(),
                           .threads = stack.threads(),
                           .start = stack.start(),
                           .end = stack.end(),
                           .accesses = stack.accesses()});
  }
  part.elsewhere = from.elsewhere();
  if (Verdict verdict = DecodeObjects(from.objects(), part.objects); !verdict) return verdict;
  for (const pb::ElementCounts& elements : from.elements()) {
    if (elements.element_bytes() == 0) return Wrong("it has elements of no bytes");
    part.elements.push_back({.start = elements.start(),
                             .element_bytes = elements.element_bytes(),
                             .accesses = {elements.accesses().begin(), elements.accesses().end()}});
  }
  for (const pb::NamedCall& wired : from.calls()) {
    NamedCall& call = part.calls.emplace_back(NamedCall{.return_address = wired.return_address()});
    for (const pb::CallFrame& frame : wired.frames()) {
      if (frame.line() > static_cast<std::uint32_t>(std::numeric_limits<int>::max())) {
        return Wrong(
            fmt::format("the call to {:#x} has the line {}", call.return_address, frame.line()));
      }
      call.frames.push_back({.function = frame.function(),
                             .file = frame.file(),
                             .line = static_cast<int>(frame.line()),
                             .module = frame.module(),
                             .offset = frame.offset()});
    }
  }
  return {};
}

pb::ObjectsPart PartOf(const std::vector<NamedCall>& calls) {
  pb::ObjectsPart part;
  for (const NamedCall& call : calls) {
    pb::NamedCall& wired = *part.add_calls();
    wired.set_return_address(call.return_address);
    for (const SourceFrame& frame : call.frames) {
      pb::CallFrame& wired_frame = *wired.add_frames();
      wired_frame.set_function(frame.function);
      wired_frame.set_file(frame.file);
      wired_frame.set_line(static_cast<std::uint32_t>(frame.line));
      wired_frame.set_module(frame.module);
      wired_frame.set_offset(frame.offset);
    }
  }
  return part;
}

}  // namespace

struct ObjectsReader::State {
  explicit State(FramedFileReader opened) : file(std::move(opened)) {}

  Verdict ReadPart(const Frame& frame, ObjectsPart& part) {
    pb::ObjectsPart message;
    if (Verdict verdict = Parse(frame, "part", message); !verdict) return verdict;
    if (Verdict verdict = Decode(message, part); !verdict) return verdict;
    ++parts;
    objects += part.objects.size();
    return {};
  }

  Verdict ReadEnd(const Frame& frame) const {
    pb::ObjectsEnd end;
    if (Verdict verdict = Parse(frame, "end", end); !verdict) return verdict;
    if (end.parts() == parts && end.objects() == objects) return {};
    return Wrong(fmt::format("it counts {} parts and {} objects, the file has {} and {}",
                             end.parts(), end.objects(), parts, objects));
  }

  FramedFileReader file;
  ObjectsInfo info;
  std::uint64_t parts = 0;
  std::uint64_t objects = 0;
};

ObjectsReader::ObjectsReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
ObjectsReader::ObjectsReader(ObjectsReader&&) noexcept = default;
ObjectsReader& ObjectsReader::operator=(ObjectsReader&&) noexcept = default;
ObjectsReader::~ObjectsReader() = default;

bool IsObjectProfile(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  std::ifstream file(path, std::ios::binary);
  std::array<char, kMagicBytes> magic{};
  return file.read(magic.data(), magic.size()) &&
         std::string_view(magic.data(), magic.size()) == kObjectsFormat.magic;
}

Result<ObjectsReader> ObjectsReader::Open(const std::filesystem::path& path) {
  ObjectsInfo info;
  Result<FramedFileReader> file =
      FramedFileReader::Open(kObjectsFormat, path, [&info](const Frame& frame) -> Verdict {
        pb::ObjectsHeader header;
        if (Verdict verdict = Parse(frame, "header", header); !verdict) return verdict;
        return Decode(header, info);
      });
  if (!file) return Fail(file.error());
  auto state = std::make_unique<State>(*std::move(file));
  state->info = std::move(info);
  return ObjectsReader(std::move(state));
}

const ObjectsInfo& ObjectsReader::info() const { return state_->info; }

Result<bool> ObjectsReader::Next(ObjectsPart& part) {
  return state_->file.Next(
      [this, &part](const Frame& frame) { return state_->ReadPart(frame, part); },
      [this](const Frame& frame) { return state_->ReadEnd(frame); });
}

Status CopyObjects(const std::filesystem::path& from, const std::filesystem::path& to,
                   const std::vector<NamedCall>& calls) {
  pb::ObjectsHeader header;
  Result<FramedFileReader> reader = FramedFileReader::Open(
      kObjectsFormat, from, [&](const Frame& frame) { return Parse(frame, "header", header); });
  if (!reader) return Fail(reader.error());
  Result<FramedFileWriter> writer = FramedFileWriter::Create(kObjectsFormat, to, header);
  if (!writer) return Fail(writer.error());
  std::uint64_t parts = 0;
  const auto write = [&](const pb::ObjectsPart& part) {
    return writer->AppendEpoch(parts++, part);
  };
  if (!calls.empty()) {
    if (Status status = write(PartOf(calls)); !status) return status;
  }
  pb::ObjectsEnd end;
  while (true) {
    pb::ObjectsPart part;
    const Result<bool> more =
        reader->Next([&](const Frame& frame) { return Parse(frame, "part", part); },
                     [&](const Frame& frame) { return Parse(frame, "end", end); });
    if (!more) return Fail(more.error());
    if (!*more) break;
    if (Status status = write(part); !status) return status;
  }
  if (!reader->finished()) return {};
  end.set_parts(parts);
  return writer->Finish(end);
}

bool ObjectsReader::finished() const { return state_->file.finished(); }
StreamEnd ObjectsReader::End() const { return state_->file.End(); }

}  // namespace tmprof
