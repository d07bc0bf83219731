// SPDX-License-Identifier: Apache-2.0

#include "proto/epoch_codec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/kept_groups.h"
#include "base/shared_pages.h"
#include "base/tiers.h"
#include "proto/wire_enum.h"

namespace tmprof {
namespace {

// Any message may claim so many records. Further ones need a byte of message each (trace.proto,
// PageColumns).
constexpr std::uint64_t kFreeRecords = std::uint64_t{1} << 18;
constexpr std::size_t kMostRungs = 64;

constexpr std::pair<SourceRole, wire::SourceRole> kRoles[] = {
    {SourceRole::kReferences, wire::SOURCE_ROLE_REFERENCES},
    {SourceRole::kSamples, wire::SOURCE_ROLE_SAMPLES},
    {SourceRole::kTruth, wire::SOURCE_ROLE_TRUTH},
};
constexpr std::pair<SourceState, wire::SourceState> kStates[] = {
    {SourceState::kActive, wire::SOURCE_STATE_ACTIVE},
    {SourceState::kGated, wire::SOURCE_STATE_GATED},
    {SourceState::kUnavailable, wire::SOURCE_STATE_UNAVAILABLE},
};
constexpr std::pair<SampleSubject, wire::SampleSubject> kSubjects[] = {
    {SampleSubject::kMemory, wire::SAMPLE_SUBJECT_MEMORY},
    {SampleSubject::kTime, wire::SAMPLE_SUBJECT_TIME},
};
constexpr std::pair<MappingKind, wire::MappingKind> kMappingKinds[] = {
    {MappingKind::kAnonymous, wire::MAPPING_KIND_ANONYMOUS},
    {MappingKind::kHeap, wire::MAPPING_KIND_HEAP},
    {MappingKind::kStack, wire::MAPPING_KIND_STACK},
    {MappingKind::kFile, wire::MAPPING_KIND_FILE},
    {MappingKind::kShared, wire::MAPPING_KIND_SHARED},
    {MappingKind::kSpecial, wire::MAPPING_KIND_SPECIAL},
};

void EncodeSource(const SourceStatus& source, wire::SourceStatus& message) {
  message.set_name(source.name);
  message.set_label(source.label);
  message.set_role(WireOf(kRoles, source.role));
  message.set_state(WireOf(kStates, source.state));
  if (source.duty_cycle) {
    TMPROF_CHECK(*source.duty_cycle >= 0 && *source.duty_cycle <= 1);
    message.set_duty_cycle(*source.duty_cycle);
  }
  if (source.observations) message.set_observations(*source.observations);
  if (source.lost) message.set_lost(*source.lost);
  for (const NamedCount& detail : source.details) {
    wire::NamedCount& count = *message.add_details();
    count.set_name(detail.name);
    count.set_count(detail.count);
  }
  message.set_note(source.note);
  if (source.samples_of) {
    TMPROF_CHECK(source.role == SourceRole::kSamples);
    message.set_samples_of(WireOf(kSubjects, *source.samples_of));
  }
  if (source.accesses_per_sample) {
    TMPROF_CHECK(source.samples_of == SampleSubject::kMemory && *source.accesses_per_sample > 0);
    message.set_accesses_per_sample(*source.accesses_per_sample);
  }
}

// Old traces do not hold the subject of samples. Their only source of time is the one named
// "clock".
SampleSubject SubjectByName(std::string_view source) {
  return source == "clock" ? SampleSubject::kTime : SampleSubject::kMemory;
}

Verdict DecodeSubject(const wire::SourceStatus& message, SourceStatus& source) {
  source.samples_of.reset();
  source.accesses_per_sample.reset();
  if (source.role == SourceRole::kSamples) source.samples_of = SubjectByName(source.name);
  if (message.has_samples_of()) {
    if (!source.samples_of) {
      return Wrong(
          fmt::format("source '{}' tells what its samples are of and takes none", source.name));
    }
    if (!FromWire(kSubjects, message.samples_of(), *source.samples_of)) {
      return Wrong(fmt::format("source '{}' has samples of the unknown subject {}", source.name,
                               static_cast<int>(message.samples_of())));
    }
  }
  if (message.has_accesses_per_sample()) {
    if (source.samples_of != SampleSubject::kMemory || message.accesses_per_sample() == 0) {
      return Wrong(fmt::format("source '{}' tells of {} accesses to memory for each sample",
                               source.name, message.accesses_per_sample()));
    }
    source.accesses_per_sample = message.accesses_per_sample();
  }
  return {};
}

Verdict DecodeSource(const wire::SourceStatus& message, SourceStatus& source) {
  source.name = message.name();
  source.label = message.label();
  if (!FromWire(kRoles, message.role(), source.role)) {
    return Wrong(fmt::format("source '{}' has the unknown role {}", source.name,
                             static_cast<int>(message.role())));
  }
  if (!FromWire(kStates, message.state(), source.state)) {
    return Wrong(fmt::format("source '{}' has the unknown state {}", source.name,
                             static_cast<int>(message.state())));
  }
  source.duty_cycle.reset();
  if (message.has_duty_cycle()) {
    if (!(message.duty_cycle() >= 0 && message.duty_cycle() <= 1)) {
      return Wrong(fmt::format("source '{}' has the duty cycle {}, outside [0, 1]", source.name,
                               message.duty_cycle()));
    }
    source.duty_cycle = message.duty_cycle();
  }
  source.observations.reset();
  if (message.has_observations()) source.observations = message.observations();
  source.lost.reset();
  if (message.has_lost()) source.lost = message.lost();
  source.details.resize(static_cast<std::size_t>(message.details_size()));
  for (int i = 0; i < message.details_size(); ++i) {
    source.details[static_cast<std::size_t>(i)] = {.name = message.details(i).name(),
                                                   .count = message.details(i).count()};
  }
  source.note = message.note();
  return DecodeSubject(message, source);
}

void EncodeMappings(const std::vector<Mapping>& mappings, wire::Target& message) {
  Vpn end;
  for (const Mapping& mapping : mappings) {
    TMPROF_CHECK(end <= mapping.range.start && mapping.range.start <= mapping.range.end &&
                 mapping.range.end.value() <= kVpnEnd);
    wire::Mapping& wired = *message.add_mappings();
    wired.set_gap_pages((mapping.range.start - end).value());
    wired.set_pages(mapping.range.size().value());
    wired.set_kind(WireOf(kMappingKinds, mapping.kind));
    wired.set_path(mapping.path);
    if (mapping.file) {
      TMPROF_CHECK(mapping.file->inode > 0 &&
                   mapping.file->offset.value() <= kVpnEnd - mapping.range.size().value());
      wired.set_device(mapping.file->device);
      wired.set_inode(mapping.file->inode);
      wired.set_offset_pages(mapping.file->offset.value());
    }
    end = mapping.range.end;
  }
}

Verdict DecodeFilePlace(const wire::Mapping& message, std::optional<FilePlace>& place) {
  place.reset();
  if (!message.has_device() && !message.has_inode() && !message.has_offset_pages()) return {};
  if (!message.has_device() || message.inode() == 0 || !message.has_offset_pages()) {
    return Wrong("names a part of a file's place, not device, inode and offset");
  }
  if (message.offset_pages() > kVpnEnd - message.pages()) {
    return Wrong(
        fmt::format("is at page {} of a file, past the end of any", message.offset_pages()));
  }
  place = {.device = message.device(),
           .inode = message.inode(),
           .offset = PageCount(message.offset_pages())};
  return {};
}

Verdict DecodeMappings(const wire::Target& message, std::vector<Mapping>& mappings) {
  mappings.resize(static_cast<std::size_t>(message.mappings_size()));
  Vpn end;
  for (int i = 0; i < message.mappings_size(); ++i) {
    const wire::Mapping& wired = message.mappings(i);
    Mapping& mapping = mappings[static_cast<std::size_t>(i)];
    if (wired.gap_pages() > kVpnEnd - end.value() ||
        wired.pages() > kVpnEnd - end.value() - wired.gap_pages()) {
      return Wrong(
          fmt::format("mapping {} of target {} is past the end of memory", i, message.id()));
    }
    mapping.range.start = end + PageCount(wired.gap_pages());
    mapping.range.end = mapping.range.start + PageCount(wired.pages());
    if (!FromWire(kMappingKinds, wired.kind(), mapping.kind)) {
      return Wrong(fmt::format("mapping {} of target {} has the unknown kind {}", i, message.id(),
                               static_cast<int>(wired.kind())));
    }
    mapping.path = wired.path();
    if (Verdict verdict = DecodeFilePlace(wired, mapping.file); !verdict) {
      return Wrong(fmt::format("mapping {} of target {} {}", i, message.id(), verdict.error()));
    }
    end = mapping.range.end;
  }
  return {};
}

void EncodeTarget(const Target& target, const MappingMemory& before, wire::Target& message) {
  TMPROF_CHECK(target.id < SharedPages::kFirstFile);
  message.set_id(target.id.value());
  message.set_pid(target.pid.value());
  message.set_start_time_ticks(target.start_time_ticks);
  message.set_name(target.name);
  message.set_command(target.command);
  message.set_exited(target.exited);
  if (target.cpu_time) message.set_cpu_time_ns(target.cpu_time->count());
  if (target.resident_pages) message.set_resident_pages(target.resident_pages->value());
  if (target.ipc_namespace) message.set_ipc_namespace(*target.ipc_namespace);
  const auto known = before.find(target.id);
  if (known != before.end() && known->second == target.mappings) {
    message.set_mappings_unchanged(true);
  } else {
    EncodeMappings(target.mappings, message);
  }
}

Verdict DecodeTarget(const wire::Target& message, const MappingMemory& before, Target& target) {
  target.id = TargetId(message.id());
  if (target.id >= SharedPages::kFirstFile) {
    return Wrong(
        fmt::format("target {} is above {}", message.id(), SharedPages::kFirstFile.value() - 1));
  }
  target.pid = Pid(message.pid());
  target.start_time_ticks = message.start_time_ticks();
  target.name = message.name();
  target.command = message.command();
  target.exited = message.exited();
  target.cpu_time.reset();
  if (message.has_cpu_time_ns()) target.cpu_time = std::chrono::nanoseconds(message.cpu_time_ns());
  target.resident_pages.reset();
  if (message.has_resident_pages()) target.resident_pages = PageCount(message.resident_pages());
  target.ipc_namespace.reset();
  if (message.has_ipc_namespace()) target.ipc_namespace = message.ipc_namespace();
  if (!message.mappings_unchanged()) return DecodeMappings(message, target.mappings);
  const auto known = before.find(target.id);
  if (known == before.end() || message.mappings_size() != 0) {
    return Wrong(
        fmt::format("target {} repeats mappings that it did not have before", message.id()));
  }
  target.mappings = known->second;
  return {};
}

// Assigns each target's mappings. An unchanged one costs a comparison and no allocation.
void Remember(const std::vector<Target>& targets, MappingMemory& memory) {
  std::erase_if(memory, [&](const auto& entry) {
    return !std::ranges::binary_search(targets, entry.first, {}, &Target::id);
  });
  for (const Target& target : targets) {
    std::vector<Mapping>& mappings = memory[target.id];
    if (mappings != target.mappings) mappings = target.mappings;
  }
}

// Encodes groups of records of one target each, and the gaps between spans.
void EncodeKeys(const EpochProfile& epoch, std::vector<std::uint64_t>& gaps,
                wire::PageColumns& message) {
  const PageColumns& pages = epoch.pages;
  for (std::size_t i = 0; i < pages.size();) {
    const TargetId target = pages.target[i];
    TMPROF_CHECK(i == 0 || pages.target[i - 1] < target);
    TMPROF_CHECK(std::ranges::binary_search(epoch.targets, target, {}, &Target::id));
    const std::size_t first = i;
    Vpn end;
    for (; i < pages.size() && pages.target[i] == target; ++i) {
      TMPROF_CHECK(end <= pages.vpn[i] && pages.vpn[i].value() < kVpnEnd &&
                   pages.span_pages[i] > 0 && pages.references[i] <= pages.looks[i]);
      gaps[i] = (pages.vpn[i] - end).value();
      end = pages.vpn[i] + PageCount(pages.span_pages[i]);
    }
    TMPROF_CHECK(end.value() <= kVpnEnd);
    message.add_group_target(target.value());
    message.add_group_records(i - first);
  }
}

void EncodeAccesses(const PageColumns::Accesses& accesses, std::size_t records,
                    wire::PageColumns& message) {
  const auto encode = [records](const std::vector<std::uint64_t>& column, wire::Column* wired) {
    TMPROF_CHECK(column.size() == records);
    EncodeColumn(column, ColumnChoice::kSmallest, *wired);
  };
  encode(accesses.loads, message.mutable_loads());
  encode(accesses.stores, message.mutable_stores());
  if (accesses.llc_misses) encode(*accesses.llc_misses, message.mutable_llc_misses());
  if (accesses.dtlb_misses) encode(*accesses.dtlb_misses, message.mutable_dtlb_misses());
  if (accesses.hidden_misses) encode(*accesses.hidden_misses, message.mutable_hidden_misses());
  if (accesses.stall_ns) encode(*accesses.stall_ns, message.mutable_stall_ns());
}

bool AllWithin(std::span<const std::uint32_t> parts, std::span<const std::uint32_t> wholes) {
  bool more = false;
  for (std::size_t i = 0; i < parts.size(); ++i) more |= parts[i] > wholes[i];
  return !more;
}

// Returns the later_time column, or zeros.
std::vector<LogDuration> LaterTimes(const PageColumns& pages) {
  if (pages.finding_reads) return pages.finding_reads->later_time;
  return std::vector<LogDuration>(pages.size());
}

// Most values are those of all visits, and 0 stands for these.
void EncodeNewVisits(const PageColumns& pages, wire::PageColumns& message) {
  const PageColumns::NewVisits& visits = *pages.new_visits;
  const std::size_t records = pages.size();
  TMPROF_CHECK(visits.first_accesses.size() == records && visits.time_at_risk.size() == records &&
               visits.later_time.size() == records &&
               AllWithin(visits.first_accesses, pages.first_accesses));
  const std::vector<LogDuration> later_time = LaterTimes(pages);
  std::vector<std::uint64_t> time(records);
  std::vector<std::uint64_t> older(records);
  std::vector<std::uint64_t> later(records);
  constexpr std::uint64_t kNone = 1;
  std::uint64_t before = 0;
  for (std::size_t i = 0; i < records; ++i) {
    const LogDuration part = visits.time_at_risk[i];
    if (part == LogDuration()) {
      TMPROF_CHECK(visits.first_accesses[i] == 0 && visits.later_time[i] == LogDuration());
      // If there was no time at all, none and all of it are the same. Long runs take fewer bytes.
      const bool is_none = pages.time_at_risk[i] > LogDuration() || before == kNone;
      time[i] = before = is_none ? kNone : 0;
      continue;
    }
    time[i] = before = part == pages.time_at_risk[i] ? 0 : 1 + ToWire(part);
    older[i] = pages.first_accesses[i] - visits.first_accesses[i];
    later[i] = visits.later_time[i] == later_time[i] ? 0 : 1 + ToWire(visits.later_time[i]);
  }
  EncodeColumn(older, ColumnChoice::kSmallest, *message.mutable_older_first_accesses());
  EncodeColumn(time, ColumnChoice::kSmallest, *message.mutable_new_time_at_risk());
  EncodeColumn(later, ColumnChoice::kSmallest, *message.mutable_new_later_read_time());
}

void EncodePages(const EpochProfile& epoch, wire::PageColumns& message) {
  const PageColumns& pages = epoch.pages;
  const std::size_t records = pages.size();
  for (const std::size_t length :
       {pages.target.size(), pages.span_pages.size(), pages.looks.size(), pages.references.size(),
        pages.first_accesses.size(), pages.time_at_risk.size(), pages.load_samples.size(),
        pages.store_samples.size(), pages.node.size()}) {
    TMPROF_CHECK(length == records);
  }
  std::vector<std::uint64_t> values(records);
  EncodeKeys(epoch, values, message);
  EncodeColumn(values, ColumnChoice::kSmallest, *message.mutable_gap_pages());

  const auto encode = [&](const std::vector<std::uint32_t>& column, ColumnChoice choice,
                          wire::Column* wired) {
    values.assign(column.begin(), column.end());
    EncodeColumn(values, choice, *wired);
  };
  const auto encode_coded = [&](const auto& column, wire::Column* wired) {
    std::ranges::transform(column, values.begin(), [](auto value) { return ToWire(value); });
    EncodeColumn(values, ColumnChoice::kSmallest, *wired);
  };
  encode(pages.span_pages, ColumnChoice::kSmallest, message.mutable_span_pages());
  encode(pages.looks, ColumnChoice::kSmallest, message.mutable_looks());
  encode(pages.references,
         records > kFreeRecords ? ColumnChoice::kByteEach : ColumnChoice::kSmallest,
         message.mutable_references());
  encode(pages.first_accesses, ColumnChoice::kSmallest, message.mutable_first_accesses());
  encode_coded(pages.time_at_risk, message.mutable_time_at_risk());
  encode(pages.load_samples, ColumnChoice::kSmallest, message.mutable_load_samples());
  encode(pages.store_samples, ColumnChoice::kSmallest, message.mutable_store_samples());
  encode_coded(pages.node, message.mutable_node());
  if (pages.accesses) EncodeAccesses(*pages.accesses, records, message);
  if (pages.finding_reads) {
    const PageColumns::FindingReads& reads = *pages.finding_reads;
    TMPROF_CHECK(reads.first_reads.size() == records && reads.first_time.size() == records &&
                 reads.later_time.size() == records &&
                 AllWithin(reads.first_reads, pages.first_accesses));
    encode(reads.first_reads, ColumnChoice::kSmallest, message.mutable_first_read_finds());
    encode_coded(reads.first_time, message.mutable_first_read_time());
    encode_coded(reads.later_time, message.mutable_later_read_time());
  }
  if (pages.new_visits) EncodeNewVisits(pages, message);
  if (pages.fast_tries) {
    const PageColumns::FastTries& tries = *pages.fast_tries;
    TMPROF_CHECK(tries.looks.size() == records && tries.found.size() == records &&
                 tries.time.size() == records && tries.earlier.size() == records &&
                 tries.earlier_time.size() == records && AllWithin(tries.found, tries.looks));
    encode(tries.looks, ColumnChoice::kSmallest, message.mutable_fast_looks());
    encode(tries.found, ColumnChoice::kSmallest, message.mutable_fast_found());
    encode_coded(tries.time, message.mutable_fast_time());
    encode(tries.earlier, ColumnChoice::kSmallest, message.mutable_fast_earlier());
    encode_coded(tries.earlier_time, message.mutable_fast_earlier_time());
  }
  if (pages.same_as) {
    TMPROF_CHECK(pages.same_as->size() == records);
    for (std::uint32_t i = 0; i < records; ++i) {
      const std::uint32_t first = (*pages.same_as)[i];
      if (first == kNotCompared) {
        values[i] = first;
        continue;
      }
      TMPROF_CHECK(first == i || (first < i && (*pages.same_as)[first] == first &&
                                  pages.span_pages[first] == pages.span_pages[i]));
      values[i] = first == i ? 0 : std::uint64_t{first} + 1;
    }
    EncodeColumn(values, ColumnChoice::kSmallest, *message.mutable_same_as());
  }
}

// Returns the most records, or values of rungs, that a message of so many bytes may claim.
std::uint64_t MostRecords(std::size_t message_bytes) {
  return std::max<std::uint64_t>(kFreeRecords, message_bytes);
}

// Checks the groups against the targets and returns their sum, which is the number of records.
std::expected<std::uint64_t, std::string> CountRecords(const wire::PageColumns& message,
                                                       std::size_t message_bytes,
                                                       const std::vector<Target>& targets) {
  if (message.group_target_size() != message.group_records_size()) {
    return Wrong(fmt::format("{} group targets and {} group sizes", message.group_target_size(),
                             message.group_records_size()));
  }
  const std::uint64_t most = MostRecords(message_bytes);
  std::uint64_t records = 0;
  for (int group = 0; group < message.group_target_size(); ++group) {
    const TargetId target(message.group_target(group));
    if (group > 0 && target.value() <= message.group_target(group - 1)) {
      return Wrong(fmt::format("pages of target {} do not ascend", target.value()));
    }
    if (!std::ranges::binary_search(targets, target, {}, &Target::id)) {
      return Wrong(fmt::format("pages of target {}, which is not listed", target.value()));
    }
    const std::uint64_t size = message.group_records(group);
    if (size == 0) return Wrong(fmt::format("target {} has an empty group", target.value()));
    if (size > most - records) {
      return Wrong(
          fmt::format("more than {} page records in a message of {} bytes", most, message_bytes));
    }
    records += size;
  }
  return records;
}

// Turns the gaps in `vpn` into page numbers; each group begins at address 0. Keys then ascend and
// spans do not overlap by construction. Only the end of memory is checked.
bool PlaceSpans(std::span<const std::uint32_t> span_pages, std::span<Vpn> vpn) {
  std::uint64_t end = 0;
  std::uint64_t last_pages = 0;  // union of the bits of every span's last page
  for (std::size_t i = 0; i < vpn.size(); ++i) {
    vpn[i] = Vpn(end + vpn[i].value());
    end = vpn[i].value() + span_pages[i];
    last_pages |= end - 1;
  }
  return last_pages < kVpnEnd;
}

// Precondition: the columns have their lengths, and `vpn` holds gaps.
Verdict DecodeKeys(const wire::PageColumns& message, PageColumns& pages) {
  const auto empty_span = std::ranges::find(pages.span_pages, 0u);
  if (empty_span != pages.span_pages.end()) {
    return Wrong(
        fmt::format("record {} has a span of 0 pages", empty_span - pages.span_pages.begin()));
  }
  std::size_t first = 0;
  for (int group = 0; group < message.group_target_size(); ++group) {
    const TargetId target(message.group_target(group));
    const std::size_t size = message.group_records(group);
    std::ranges::fill(std::span(pages.target).subspan(first, size), target);
    if (!PlaceSpans(std::span(pages.span_pages).subspan(first, size),
                    std::span(pages.vpn).subspan(first, size))) {
      return Wrong(fmt::format("pages of target {} are past the end of memory", target.value()));
    }
    first += size;
  }
  return {};
}

Verdict CheckWithin(std::span<const std::uint32_t> parts, std::span<const std::uint32_t> wholes,
                    const char* what, const char* of = "looks") {
  if (AllWithin(parts, wholes)) return {};
  std::size_t i = 0;
  while (parts[i] <= wholes[i]) ++i;
  return Wrong(fmt::format("record {} has {} {} in {} {}", i, parts[i], what, wholes[i], of));
}

// Turns the numbers of the column into indexes of first records. Precondition: `span_pages` is
// decoded.
Verdict CheckSameAs(std::span<const std::uint32_t> span_pages, std::span<std::uint32_t> same_as) {
  for (std::uint32_t i = 0; i < same_as.size(); ++i) {
    if (same_as[i] == 0) {
      same_as[i] = i;
      continue;
    }
    if (same_as[i] == kNotCompared) continue;
    const std::uint32_t first = same_as[i] - 1;
    if (first >= same_as.size()) {
      return Wrong(fmt::format("record {} is of the same pages as record {}, but there are {}", i,
                               first, same_as.size()));
    }
    if (first == i) return Wrong(fmt::format("record {} is of the same pages as itself", i));
    if (first > i) {
      return Wrong(
          fmt::format("record {} is of the same pages as record {}, which is after it", i, first));
    }
    if (same_as[first] != first) {
      return Wrong(
          fmt::format("record {} is of the same pages as record {}, which is not the first "
                      "of them: record {} is",
                      i, first, same_as[first]));
    }
    if (span_pages[first] != span_pages[i]) {
      return Wrong(fmt::format("record {} of {} pages is of the same pages as record {} of {}", i,
                               span_pages[i], first, span_pages[first]));
    }
    same_as[i] = first;
  }
  return {};
}

// Replaces the codes of a part by durations. Precondition: `whole` has as many values.
Verdict DecodePart(const char* name, std::span<const std::uint32_t> codes,
                   std::span<const LogDuration> whole, std::vector<LogDuration>& part) {
  constexpr std::uint32_t kMostCode = 1 + std::numeric_limits<std::uint16_t>::max();
  part.resize(codes.size());
  for (std::size_t i = 0; i < codes.size(); ++i) {
    if (codes[i] == 0) {
      part[i] = whole[i];
      continue;
    }
    const LogDuration value =
        LogDuration::FromCode(static_cast<std::uint16_t>(std::min(codes[i], kMostCode) - 1));
    if (ToWire(value) != codes[i] - 1) {
      return Wrong(
          fmt::format("column '{}' has the value {}, above {}", name, codes[i], 1 + ToWire(value)));
    }
    part[i] = value;
  }
  return {};
}

Verdict DecodePages(const wire::PageColumns& message, std::size_t message_bytes,
                    const std::vector<Target>& targets, PageColumns& pages) {
  const auto records = CountRecords(message, message_bytes, targets);
  if (!records) return std::unexpected(records.error());

  Verdict verdict;
  const auto decode = [&](const char* name, bool present, const wire::Column& column,
                          auto& values) {
    if (!verdict) return;
    if (!present) {
      verdict = Wrong(fmt::format("column '{}' is missing", name));
      return;
    }
    values.resize(*records);
    verdict = DecodeColumn(column, std::span(values));
    if (!verdict) verdict = Wrong(fmt::format("column '{}' {}", name, verdict.error()));
  };
  decode("gap_pages", message.has_gap_pages(), message.gap_pages(), pages.vpn);
  decode("span_pages", message.has_span_pages(), message.span_pages(), pages.span_pages);
  decode("looks", message.has_looks(), message.looks(), pages.looks);
  decode("references", message.has_references(), message.references(), pages.references);
  decode("first_accesses", message.has_first_accesses(), message.first_accesses(),
         pages.first_accesses);
  decode("time_at_risk", message.has_time_at_risk(), message.time_at_risk(), pages.time_at_risk);
  decode("load_samples", message.has_load_samples(), message.load_samples(), pages.load_samples);
  decode("store_samples", message.has_store_samples(), message.store_samples(),
         pages.store_samples);
  decode("node", message.has_node(), message.node(), pages.node);
  pages.accesses.reset();
  if (message.has_loads() || message.has_stores()) {
    PageColumns::Accesses& accesses = pages.accesses.emplace();
    decode("loads", message.has_loads(), message.loads(), accesses.loads);
    decode("stores", message.has_stores(), message.stores(), accesses.stores);
    if (message.has_llc_misses())
      decode("llc_misses", true, message.llc_misses(), accesses.llc_misses.emplace());
    if (message.has_dtlb_misses())
      decode("dtlb_misses", true, message.dtlb_misses(), accesses.dtlb_misses.emplace());
    if (message.has_hidden_misses() && !message.has_llc_misses())
      return Wrong("hidden misses without the misses that they are of");
    if (message.has_hidden_misses())
      decode("hidden_misses", true, message.hidden_misses(), accesses.hidden_misses.emplace());
    if (message.has_stall_ns())
      decode("stall_ns", true, message.stall_ns(), accesses.stall_ns.emplace());
    for (std::size_t i = 0; verdict && accesses.hidden_misses && i < *records; ++i) {
      const std::uint64_t hidden = (*accesses.hidden_misses)[i];
      const std::uint64_t misses = (*accesses.llc_misses)[i];
      if (hidden > misses)
        verdict =
            Wrong(fmt::format("record {} has {} hidden misses in {} misses", i, hidden, misses));
    }
  } else if (message.has_llc_misses() || message.has_dtlb_misses() || message.has_hidden_misses() ||
             message.has_stall_ns()) {
    return Wrong("misses without the accesses that missed");
  }
  pages.finding_reads.reset();
  if (message.has_first_read_finds() || message.has_first_read_time() ||
      message.has_later_read_time()) {
    PageColumns::FindingReads& reads = pages.finding_reads.emplace();
    decode("first_read_finds", message.has_first_read_finds(), message.first_read_finds(),
           reads.first_reads);
    decode("first_read_time", message.has_first_read_time(), message.first_read_time(),
           reads.first_time);
    decode("later_read_time", message.has_later_read_time(), message.later_read_time(),
           reads.later_time);
    if (verdict) {
      verdict = CheckWithin(reads.first_reads, pages.first_accesses, "finds by first reads",
                            "first accesses");
    }
  }
  pages.new_visits.reset();
  if (message.has_older_first_accesses() || message.has_new_time_at_risk() ||
      message.has_new_later_read_time()) {
    PageColumns::NewVisits& visits = pages.new_visits.emplace();
    std::vector<std::uint32_t> time;
    std::vector<std::uint32_t> later;
    decode("older_first_accesses", message.has_older_first_accesses(),
           message.older_first_accesses(), visits.first_accesses);
    decode("new_time_at_risk", message.has_new_time_at_risk(), message.new_time_at_risk(), time);
    decode("new_later_read_time", message.has_new_later_read_time(), message.new_later_read_time(),
           later);
    if (verdict) {
      verdict = CheckWithin(visits.first_accesses, pages.first_accesses, "finds of older visits",
                            "first accesses");
    }
    if (verdict) {
      verdict = DecodePart("new_time_at_risk", time, pages.time_at_risk, visits.time_at_risk);
    }
    if (verdict)
      verdict = DecodePart("new_later_read_time", later, LaterTimes(pages), visits.later_time);
    for (std::size_t i = 0; verdict && i < *records; ++i) {
      const bool any = visits.time_at_risk[i] > LogDuration();
      const std::uint32_t older = visits.first_accesses[i];
      visits.first_accesses[i] = any ? pages.first_accesses[i] - older : 0;
      if (!any) visits.later_time[i] = LogDuration();
    }
  }
  pages.fast_tries.reset();
  if (message.has_fast_looks() || message.has_fast_found() || message.has_fast_time()) {
    PageColumns::FastTries& tries = pages.fast_tries.emplace();
    decode("fast_looks", message.has_fast_looks(), message.fast_looks(), tries.looks);
    decode("fast_found", message.has_fast_found(), message.fast_found(), tries.found);
    decode("fast_time", message.has_fast_time(), message.fast_time(), tries.time);
    if (verdict) verdict = CheckWithin(tries.found, tries.looks, "finds of fast tries");
    if (message.has_fast_earlier() || message.has_fast_earlier_time()) {
      decode("fast_earlier", message.has_fast_earlier(), message.fast_earlier(), tries.earlier);
      decode("fast_earlier_time", message.has_fast_earlier_time(), message.fast_earlier_time(),
             tries.earlier_time);
      for (std::size_t i = 0; verdict && i < *records; ++i) {
        if (tries.earlier[i] > 0 && tries.looks[i] == 0)
          verdict = Wrong(fmt::format("record {} has earlier fast tries without last ones", i));
      }
    } else {
      tries.earlier.resize(*records);
      tries.earlier_time.resize(*records);
    }
  } else if (message.has_fast_earlier() || message.has_fast_earlier_time()) {
    return Wrong("earlier fast tries without the last ones");
  }
  pages.same_as.reset();
  if (message.has_same_as()) {
    decode("same_as", true, message.same_as(), pages.same_as.emplace());
    if (verdict) verdict = CheckSameAs(pages.span_pages, *pages.same_as);
  }
  if (!verdict) return verdict;

  pages.target.resize(*records);
  if (verdict = DecodeKeys(message, pages); !verdict) return verdict;
  return CheckWithin(pages.references, pages.looks, "references");
}

void EncodeRungs(const EpochProfile& epoch, const RungCounts& counts, ColumnChoice choice,
                 wire::RungCounts& message) {
  const std::size_t blocks = counts.blocks();
  TMPROF_CHECK(counts.rungs() > 0 && counts.rungs() <= kMostRungs &&
               counts.window.size() == counts.rungs() && counts.target.size() == blocks &&
               counts.pages.size() == blocks);
  for (std::size_t rung = 0; rung < counts.rungs(); ++rung) {
    TMPROF_CHECK(rung == 0 || counts.delay[rung - 1] < counts.delay[rung]);
    message.add_rung_ns(static_cast<std::uint64_t>(counts.delay[rung].count()));
    message.add_window_ns(static_cast<std::uint64_t>(counts.window[rung].count()));
  }
  std::vector<std::uint64_t> values(blocks);
  for (std::size_t i = 0; i < blocks;) {
    const TargetId target = counts.target[i];
    TMPROF_CHECK(i == 0 || counts.target[i - 1] < target);
    TMPROF_CHECK(std::ranges::binary_search(epoch.targets, target, {}, &Target::id));
    const std::size_t first = i;
    Vpn end;
    for (; i < blocks && counts.target[i] == target; ++i) {
      TMPROF_CHECK(end <= counts.start[i] && counts.start[i].value() < kVpnEnd &&
                   counts.pages[i] > 0);
      values[i] = (counts.start[i] - end).value();
      end = counts.start[i] + PageCount(counts.pages[i]);
    }
    TMPROF_CHECK(end.value() <= kVpnEnd);
    message.add_group_target(target.value());
    message.add_group_blocks(i - first);
  }
  EncodeColumn(values, ColumnChoice::kSmallest, *message.mutable_gap_pages());
  const auto encode = [&](const std::vector<std::uint32_t>& column, std::size_t length,
                          ColumnChoice how, wire::Column* wired) {
    TMPROF_CHECK(column.size() == length);
    values.assign(column.begin(), column.end());
    EncodeColumn(values, how, *wired);
  };
  const std::size_t all = blocks * counts.rungs();
  const RungCounts::Counts& new_visits = counts.new_visits;
  const RungCounts::Counts& older = counts.older_visits;
  TMPROF_CHECK(AllWithin(new_visits.found, new_visits.read) && AllWithin(older.found, older.read));
  encode(counts.pages, blocks, ColumnChoice::kSmallest, message.mutable_block_pages());
  encode(new_visits.read, all, choice, message.mutable_pages_read());
  encode(new_visits.found, all, ColumnChoice::kSmallest, message.mutable_pages_found());
  encode(older.read, all, ColumnChoice::kSmallest, message.mutable_older_pages_read());
  encode(older.found, all, ColumnChoice::kSmallest, message.mutable_older_pages_found());
}

// Checks groups and ladder, and returns the number of blocks, of which all have at most `most`
// values together.
std::expected<std::uint64_t, std::string> CountBlocks(const wire::RungCounts& message,
                                                      std::uint64_t most,
                                                      const std::vector<Target>& targets) {
  const auto rungs = static_cast<std::size_t>(message.rung_ns_size());
  if (rungs == 0 || rungs > kMostRungs)
    return Wrong(fmt::format("a ladder of {} rungs, not 1 to {}", rungs, kMostRungs));
  if (message.window_ns_size() != message.rung_ns_size())
    return Wrong(fmt::format("{} rungs and {} windows", rungs, message.window_ns_size()));
  if (message.group_target_size() != message.group_blocks_size()) {
    return Wrong(fmt::format("{} group targets and {} group sizes of blocks",
                             message.group_target_size(), message.group_blocks_size()));
  }
  std::uint64_t blocks = 0;
  for (int group = 0; group < message.group_target_size(); ++group) {
    const TargetId target(message.group_target(group));
    if (group > 0 && target.value() <= message.group_target(group - 1))
      return Wrong(fmt::format("blocks of target {} do not ascend", target.value()));
    if (!std::ranges::binary_search(targets, target, {}, &Target::id))
      return Wrong(fmt::format("blocks of target {}, which is not listed", target.value()));
    const std::uint64_t size = message.group_blocks(group);
    if (size == 0)
      return Wrong(fmt::format("target {} has an empty group of blocks", target.value()));
    if (size > most / rungs - blocks)
      return Wrong(fmt::format("blocks with more than {} values", most));
    blocks += size;
  }
  return blocks;
}

// Takes the values that were decoded from `left`.
Verdict DecodeRungs(const wire::RungCounts& message, const std::vector<Target>& targets,
                    std::uint64_t& left, RungCounts& counts) {
  const auto blocks = CountBlocks(message, left, targets);
  if (!blocks) return std::unexpected(blocks.error());
  const auto rungs = static_cast<std::uint64_t>(message.rung_ns_size());
  left -= *blocks * rungs;
  for (int rung = 0; rung < message.rung_ns_size(); ++rung) {
    constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
    const std::uint64_t delay = message.rung_ns(rung);
    const std::uint64_t window = message.window_ns(rung);
    if (delay > kMost || window > kMost)
      return Wrong(fmt::format("rung {} is at {} ns, after {} ns", rung, delay, window));
    if (rung > 0 && delay <= message.rung_ns(rung - 1))
      return Wrong(fmt::format("rung {} is at {} ns, not after the one before", rung, delay));
    counts.delay.emplace_back(delay);
    counts.window.emplace_back(window);
  }
  Verdict verdict;
  const auto decode = [&](const char* name, bool present, const wire::Column& column,
                          std::uint64_t length, auto& values) {
    if (!verdict) return;
    if (!present) {
      verdict = Wrong(fmt::format("column '{}' of rungs is missing", name));
      return;
    }
    values.resize(length);
    verdict = DecodeColumn(column, std::span(values));
    if (!verdict) verdict = Wrong(fmt::format("column '{}' of rungs {}", name, verdict.error()));
  };
  const std::uint64_t all = *blocks * rungs;
  decode("gap_pages", message.has_gap_pages(), message.gap_pages(), *blocks, counts.start);
  decode("block_pages", message.has_block_pages(), message.block_pages(), *blocks, counts.pages);
  decode("pages_read", message.has_pages_read(), message.pages_read(), all, counts.new_visits.read);
  decode("pages_found", message.has_pages_found(), message.pages_found(), all,
         counts.new_visits.found);
  decode("older_pages_read", message.has_older_pages_read(), message.older_pages_read(), all,
         counts.older_visits.read);
  decode("older_pages_found", message.has_older_pages_found(), message.older_pages_found(), all,
         counts.older_visits.found);
  if (!verdict) return verdict;
  for (const RungCounts::Counts* of : {&counts.new_visits, &counts.older_visits}) {
    if (AllWithin(of->found, of->read)) continue;
    std::size_t i = 0;
    while (of->found[i] <= of->read[i]) ++i;
    return Wrong(fmt::format("block {} has {} pages found at rung {}, of {} that were read",
                             i / rungs, of->found[i], i % rungs, of->read[i]));
  }
  const auto empty = std::ranges::find(counts.pages, 0u);
  if (empty != counts.pages.end())
    return Wrong(fmt::format("block {} has 0 pages", empty - counts.pages.begin()));
  std::size_t first = 0;
  for (int group = 0; group < message.group_target_size(); ++group) {
    const std::size_t size = message.group_blocks(group);
    if (!PlaceSpans(std::span(counts.pages).subspan(first, size),
                    std::span(counts.start).subspan(first, size))) {
      return Wrong(fmt::format("blocks of target {} are past the end of memory",
                               message.group_target(group)));
    }
    counts.target.insert(counts.target.end(), size, TargetId(message.group_target(group)));
    first += size;
  }
  return {};
}

}  // namespace

void EncodeSettings(const std::vector<Setting>& settings, WireSettings& message) {
  for (const Setting& setting : settings) {
    wire::Setting& wired = *message.Add();
    wired.set_name(setting.name);
    wired.set_value(setting.value);
  }
}

std::vector<Setting> DecodeSettings(const WireSettings& message) {
  std::vector<Setting> settings;
  for (const wire::Setting& wired : message) {
    settings.push_back({.name = wired.name(), .value = wired.value()});
  }
  return settings;
}

void EncodeTier(std::span<const NodeId> nodes, WireTiers& message) {
  wire::MemoryTier& wired = *message.Add();
  for (const NodeId node : nodes) wired.add_nodes(node.value());
}

std::expected<std::vector<std::vector<NodeId>>, std::string> DecodeTiers(const WireTiers& message) {
  constexpr std::uint32_t kMaxNode = std::numeric_limits<NodeId::rep>::max();
  std::vector<std::vector<NodeId>> tiers;
  for (const wire::MemoryTier& wired : message) {
    std::vector<NodeId>& tier = tiers.emplace_back();
    for (const std::uint32_t node : wired.nodes()) {
      if (node > kMaxNode) return Wrong(fmt::format("node {} is above {}", node, kMaxNode));
      tier.push_back(NodeId(static_cast<NodeId::rep>(node)));
    }
  }
  return tiers;
}

Verdict DecodeTimes(std::int64_t start_ns, std::uint64_t length_ns, MonotonicTime& start,
                    MonotonicTime& end) {
  if (start_ns < 0) return Wrong("the epoch starts before the machine did");
  if (length_ns > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max() - start_ns)) {
    return Wrong("the epoch ends past the end of time");
  }
  start = MonotonicTime(std::chrono::nanoseconds(start_ns));
  end = start + std::chrono::nanoseconds(length_ns);
  return {};
}

void EncodeInfo(const TraceInfo& info, wire::TraceHeader& message) {
  message.Clear();
  message.set_tool_version(info.tool_version);
  message.set_kernel_release(info.kernel_release);
  message.set_cpu_model(info.cpu_model);
  message.set_cpus(info.cpus);
  message.set_wall_start_ns(std::chrono::nanoseconds(info.wall_start.time_since_epoch()).count());
  message.set_start_ns(info.start.time_since_epoch().count());
  message.set_epoch_length_ns(info.epoch_length.count());
  const Calibration& calibration = info.calibration;
  if (calibration.ns_per_set) message.set_ns_per_set(*calibration.ns_per_set);
  if (calibration.ns_per_look) message.set_ns_per_look(*calibration.ns_per_look);
  if (calibration.ns_per_sample) message.set_ns_per_sample(*calibration.ns_per_sample);
  if (calibration.ns_per_point) message.set_ns_per_point(*calibration.ns_per_point);
  if (calibration.assumed_ns_per_point)
    message.set_assumed_ns_per_point(*calibration.assumed_ns_per_point);
  EncodeSettings(info.settings, *message.mutable_settings());
  for (const std::vector<NodeId>& tier : info.tiers) EncodeTier(tier, *message.mutable_tiers());
  for (const std::string& warning : info.warnings) message.add_warnings(warning);
}

std::expected<TraceInfo, std::string> DecodeInfo(const wire::TraceHeader& message) {
  if (message.start_ns() < 0) return Wrong("the trace starts before the machine did");
  auto tiers = DecodeTiers(message.tiers());
  if (!tiers) return Wrong(std::move(tiers.error()));
  if (tiers->size() == 1) {
    std::vector<NodeId> all = tiers->front();
    if (all.empty()) return Wrong("tier 1 has no node");
    std::ranges::sort(all);
    if (const auto twice = std::ranges::adjacent_find(all); twice != all.end()) {
      return Wrong(fmt::format("node {} is named twice", twice->value()));
    }
  }
  if (tiers->size() > 1) {
    if (const auto sound = Tiers::Make(*tiers); !sound) return Wrong(sound.error().Message());
  }
  TraceInfo info;
  info.tiers = *std::move(tiers);
  info.tool_version = message.tool_version();
  info.kernel_release = message.kernel_release();
  info.cpu_model = message.cpu_model();
  info.cpus = message.cpus();
  info.wall_start =
      std::chrono::system_clock::time_point(std::chrono::nanoseconds(message.wall_start_ns()));
  info.start = MonotonicTime(std::chrono::nanoseconds(message.start_ns()));
  info.epoch_length = std::chrono::nanoseconds(message.epoch_length_ns());
  Calibration& calibration = info.calibration;
  if (message.has_ns_per_set()) calibration.ns_per_set = message.ns_per_set();
  if (message.has_ns_per_look()) calibration.ns_per_look = message.ns_per_look();
  if (message.has_ns_per_sample()) calibration.ns_per_sample = message.ns_per_sample();
  if (message.has_ns_per_point()) calibration.ns_per_point = message.ns_per_point();
  if (message.has_assumed_ns_per_point())
    calibration.assumed_ns_per_point = message.assumed_ns_per_point();
  info.settings = DecodeSettings(message.settings());
  info.warnings.assign(message.warnings().begin(), message.warnings().end());
  return info;
}

void EncodeEpoch(const EpochProfile& epoch, MappingMemory& memory, wire::Epoch& message) {
  TMPROF_CHECK(MonotonicTime() <= epoch.start && epoch.start <= epoch.end);
  TMPROF_CHECK(std::ranges::adjacent_find(epoch.targets, std::ranges::greater_equal(),
                                          &Target::id) == epoch.targets.end());
  message.Clear();
  message.set_index(epoch.index);
  message.set_start_ns(epoch.start.time_since_epoch().count());
  message.set_length_ns(static_cast<std::uint64_t>(epoch.length().count()));
  message.set_profiler_cpu_ns(epoch.profiler_cpu_time.count());
  for (const SourceStatus& source : epoch.sources) EncodeSource(source, *message.add_sources());
  for (const Target& target : epoch.targets) {
    EncodeTarget(target, memory, *message.add_targets());
  }
  EncodePages(epoch, *message.mutable_pages());
  if (epoch.extension) message.set_extension(epoch.extension->Encode(epoch));
  std::size_t values = 0;
  for (const RungCounts& counts : epoch.rungs) values += counts.blocks() * counts.rungs();
  const ColumnChoice choice =
      values > kFreeRecords ? ColumnChoice::kByteEach : ColumnChoice::kSmallest;
  for (const RungCounts& counts : epoch.rungs)
    EncodeRungs(epoch, counts, choice, *message.add_rungs());
  Remember(epoch.targets, memory);
}

Verdict DecodeEpoch(const wire::Epoch& message, std::size_t message_bytes,
                    const ExtensionCodec* codec, MappingMemory& memory, EpochProfile& epoch) {
  epoch.index = message.index();
  if (Verdict verdict =
          DecodeTimes(message.start_ns(), message.length_ns(), epoch.start, epoch.end);
      !verdict) {
    return verdict;
  }
  epoch.profiler_cpu_time = std::chrono::nanoseconds(message.profiler_cpu_ns());

  epoch.sources.resize(static_cast<std::size_t>(message.sources_size()));
  for (int i = 0; i < message.sources_size(); ++i) {
    SourceStatus& source = epoch.sources[static_cast<std::size_t>(i)];
    if (Verdict verdict = DecodeSource(message.sources(i), source); !verdict) return verdict;
  }
  epoch.targets.resize(static_cast<std::size_t>(message.targets_size()));
  for (int i = 0; i < message.targets_size(); ++i) {
    Target& target = epoch.targets[static_cast<std::size_t>(i)];
    if (i > 0 && message.targets(i).id() <= message.targets(i - 1).id()) {
      return Wrong(fmt::format("target {} is not in ascending order", message.targets(i).id()));
    }
    if (Verdict verdict = DecodeTarget(message.targets(i), memory, target); !verdict) {
      return verdict;
    }
  }
  Remember(epoch.targets, memory);
  epoch.extension.reset();
  if (message.has_extension() && codec != nullptr) {
    if (Verdict verdict = codec->Decode(message.extension(), epoch); !verdict) return verdict;
  }
  epoch.rungs.clear();
  std::uint64_t left = MostRecords(message_bytes);
  for (const wire::RungCounts& rungs : message.rungs()) {
    if (Verdict verdict = DecodeRungs(rungs, epoch.targets, left, epoch.rungs.emplace_back());
        !verdict) {
      return verdict;
    }
  }
  if (!message.has_pages()) return Wrong("the page columns are missing");
  return DecodePages(message.pages(), message_bytes, epoch.targets, epoch.pages);
}

}  // namespace tmprof
