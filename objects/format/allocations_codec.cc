// SPDX-License-Identifier: Apache-2.0

#include "objects/format/allocations_codec.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/check.h"
#include "objects/format/allocations.h"
#include "objects/format/allocations.pb.h"
#include "proto/message_memory.h"
#include "proto/wire_enum.h"

namespace tmprof {
namespace {

constexpr std::pair<AllocationKind, wire::AllocationKind> kAllocationKinds[] = {
    {AllocationKind::kAllocated, wire::ALLOCATION_KIND_ALLOCATED},
    {AllocationKind::kFreed, wire::ALLOCATION_KIND_FREED},
    {AllocationKind::kMapped, wire::ALLOCATION_KIND_MAPPED},
    {AllocationKind::kUnmapped, wire::ALLOCATION_KIND_UNMAPPED},
};

constexpr std::pair<FixedKind, wire::FixedKind> kFixedKinds[] = {
    {FixedKind::kVariable, wire::FIXED_KIND_VARIABLE},
    {FixedKind::kData, wire::FIXED_KIND_DATA},
    {FixedKind::kStack, wire::FIXED_KIND_STACK},
};

// Returns the difference, which wraps around like that of unsigned numbers.
std::int64_t Step(std::uint64_t from, std::uint64_t to) {
  return static_cast<std::int64_t>(to - from);
}

std::uint64_t Nanoseconds(MonotonicTime time) {
  return static_cast<std::uint64_t>(time.time_since_epoch().count());
}

// Keeps 0, which belongs to frees.
std::uint64_t WholeWeight(double weight) {
  return weight > 0 ? std::max<std::uint64_t>(static_cast<std::uint64_t>(std::llround(weight)), 1)
                    : 0;
}

bool IsWhole(double weight) { return static_cast<double>(WholeWeight(weight)) == weight; }

void EncodeFixed(const EpochProfile& epoch, const FixedEvent& event, wire::Allocations& into) {
  TMPROF_CHECK(std::ranges::binary_search(epoch.targets, event.target, {}, &Target::id));
  wire::FixedObject& wired = *into.add_fixed();
  wired.set_target(event.target.value());
  wired.set_kind(WireOf(kFixedKinds, event.kind));
  wired.set_ends(event.ends);
  wired.set_address(event.address);
  wired.set_bytes(event.bytes);
  wired.set_time_ns(Step(Nanoseconds(epoch.start), Nanoseconds(event.time)));
  wired.set_site(event.site);
}

void EncodeAllocations(const EpochProfile& epoch, const Allocations& allocations,
                       wire::Allocations& message) {
  for (const ObjectSite& site : allocations.sites) {
    wire::ObjectSite& wired = *message.add_sites();
    wired.set_id(site.id);
    wired.set_name(site.name);
    if (site.thread) wired.set_thread(site.thread->value());
    for (const SourceFrame& frame : site.frames) {
      wire::ObjectFrame& wired_frame = *wired.add_frames();
      wired_frame.set_function(frame.function);
      wired_frame.set_file(frame.file);
      wired_frame.set_line(static_cast<std::uint32_t>(frame.line));
      wired_frame.set_module(frame.module);
      wired_frame.set_offset(frame.offset);
    }
  }
  std::uint64_t address = 0;
  std::uint64_t time = Nanoseconds(epoch.start);
  for (const AllocationEvent& event : allocations.events) {
    TMPROF_CHECK(std::ranges::binary_search(epoch.targets, event.target, {}, &Target::id));
    message.add_target(event.target.value());
    message.add_kind(WireOf(kAllocationKinds, event.kind));
    message.add_address_step(Step(address, event.address));
    message.add_bytes(event.bytes);
    message.add_time_step_ns(Step(time, Nanoseconds(event.time)));
    message.add_site(event.site);
    message.add_weight(WholeWeight(event.weight));
    address = event.address;
    time = Nanoseconds(event.time);
  }
  const std::vector<AllocationEvent>& events = allocations.events;
  if (!std::ranges::all_of(events, IsWhole, &AllocationEvent::weight)) {
    for (const AllocationEvent& event : events) message.add_exact_weight(event.weight);
  }
  if (const auto from = allocations.all_from_bytes) message.set_all_from_bytes(*from);
  message.set_lost(allocations.lost);
  for (const FixedEvent& event : allocations.fixed) EncodeFixed(epoch, event, message);
  for (const CodeFile& file : allocations.files) {
    wire::CodeFile& wired = *message.add_files();
    wired.set_path(file.path);
    wired.set_build_id(file.build_id);
  }
}

Verdict DecodeFixed(const wire::FixedObject& message, const EpochProfile& epoch,
                    Allocations& allocations) {
  FixedEvent event{.target = TargetId(message.target()),
                   .ends = message.ends(),
                   .address = message.address(),
                   .bytes = message.bytes(),
                   .site = message.site()};
  if (!std::ranges::binary_search(epoch.targets, event.target, {}, &Target::id)) {
    return Wrong(
        fmt::format("variables or stacks of target {}, which is not listed", event.target.value()));
  }
  if (!FromWire(kFixedKinds, message.kind(), event.kind)) {
    return Wrong(fmt::format("a variable or stack is of the unknown kind {}",
                             static_cast<int>(message.kind())));
  }
  const std::uint64_t time =
      Nanoseconds(epoch.start) + static_cast<std::uint64_t>(message.time_ns());
  if (time > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return Wrong("a variable or stack is before the machine's start");
  }
  event.time = MonotonicTime(std::chrono::nanoseconds(time));
  allocations.fixed.push_back(event);
  return {};
}

Verdict DecodeAllocations(const wire::Allocations& message, const EpochProfile& epoch,
                          Allocations& allocations) {
  for (const wire::ObjectSite& wired : message.sites()) {
    if (wired.id() == kUnknownSite) return Wrong("a site has the ID of unknown ones");
    ObjectSite& site =
        allocations.sites.emplace_back(ObjectSite{.id = wired.id(), .name = wired.name()});
    if (wired.has_thread()) site.thread = Tid(wired.thread());
    for (const wire::ObjectFrame& frame : wired.frames()) {
      if (frame.line() > static_cast<std::uint32_t>(std::numeric_limits<int>::max())) {
        return Wrong(fmt::format("site {} has the line {}", site.id, frame.line()));
      }
      site.frames.push_back({.function = frame.function(),
                             .file = frame.file(),
                             .line = static_cast<int>(frame.line()),
                             .module = frame.module(),
                             .offset = frame.offset()});
    }
  }
  const int count = message.target_size();
  for (const int size : {message.kind_size(), message.address_step_size(), message.bytes_size(),
                         message.time_step_ns_size(), message.site_size(), message.weight_size()}) {
    if (size != count) return Wrong(fmt::format("columns of {} and {} allocations", count, size));
  }
  const bool has_exact_weights = message.exact_weight_size() > 0;
  if (has_exact_weights && message.exact_weight_size() != count) {
    return Wrong(fmt::format("{} weights of {} allocations", message.exact_weight_size(), count));
  }
  std::uint64_t address = 0;
  std::uint64_t time = Nanoseconds(epoch.start);
  for (int i = 0; i < count; ++i) {
    AllocationEvent event{.target = TargetId(message.target(i)),
                          .bytes = message.bytes(i),
                          .site = message.site(i),
                          .weight = has_exact_weights ? message.exact_weight(i)
                                                      : static_cast<double>(message.weight(i))};
    if (!std::isfinite(event.weight) || event.weight < 0) {
      return Wrong(fmt::format("allocation {} has the weight {}", i, event.weight));
    }
    if (!std::ranges::binary_search(epoch.targets, event.target, {}, &Target::id)) {
      return Wrong(
          fmt::format("allocations of target {}, which is not listed", event.target.value()));
    }
    if (!FromWire(kAllocationKinds, message.kind(i), event.kind)) {
      return Wrong(fmt::format("allocation {} is of the unknown kind {}", i,
                               static_cast<int>(message.kind(i))));
    }
    event.address = address += static_cast<std::uint64_t>(message.address_step(i));
    time += static_cast<std::uint64_t>(message.time_step_ns(i));
    if (time > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return Wrong(fmt::format("allocation {} is before the machine's start", i));
    }
    event.time = MonotonicTime(std::chrono::nanoseconds(time));
    allocations.events.push_back(event);
  }
  if (message.has_all_from_bytes()) allocations.all_from_bytes = message.all_from_bytes();
  allocations.lost = message.lost();
  for (const wire::FixedObject& fixed : message.fixed()) {
    if (Verdict verdict = DecodeFixed(fixed, epoch, allocations); !verdict) return verdict;
  }
  for (const wire::CodeFile& file : message.files()) {
    if (file.build_id().empty()) return Wrong("a file has no build ID");
    allocations.files.push_back({.path = file.path(), .build_id = file.build_id()});
  }
  return {};
}

std::uint64_t MemoryOf(std::string_view bytes) {
  return MessageMemory(bytes, *wire::Allocations::descriptor());
}

class AllocationsExtension final : public EpochExtension {
 public:
  explicit AllocationsExtension(Allocations held) : allocations(std::move(held)) {}

  std::unique_ptr<EpochExtension> Copy() const override {
    return std::make_unique<AllocationsExtension>(*this);
  }
  bool Equals(const EpochExtension& other) const override {
    const auto* same = dynamic_cast<const AllocationsExtension*>(&other);
    return same != nullptr && same->allocations == allocations;
  }
  std::string Encode(const EpochProfile& epoch) const override {
    wire::Allocations message;
    EncodeAllocations(epoch, allocations, message);
    return message.SerializeAsString();
  }
  std::uint64_t MemoryToDecode(std::string_view encoded) const override {
    return MemoryOf(encoded);
  }

  Allocations allocations;
};

class Codec final : public ExtensionCodec {
 public:
  std::uint64_t MemoryToDecode(std::string_view bytes) const override { return MemoryOf(bytes); }

  Verdict Decode(std::string_view bytes, EpochProfile& epoch) const override {
    wire::Allocations message;
    if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
      return Wrong("its allocations are not a protobuf message");
    }
    Allocations allocations;
    if (Verdict verdict = DecodeAllocations(message, epoch, allocations); !verdict) return verdict;
    SetAllocations(epoch, std::move(allocations));
    return {};
  }
};

}  // namespace

const Allocations* AllocationsOf(const EpochProfile& epoch) {
  const auto* extension = epoch.extension.As<AllocationsExtension>();
  return extension != nullptr ? &extension->allocations : nullptr;
}

Allocations* AllocationsOf(EpochProfile& epoch) {
  auto* extension = epoch.extension.As<AllocationsExtension>();
  return extension != nullptr ? &extension->allocations : nullptr;
}

Allocations& SetAllocations(EpochProfile& epoch, Allocations allocations) {
  epoch.extension = ExtensionSlot(std::make_unique<AllocationsExtension>(std::move(allocations)));
  return *AllocationsOf(epoch);
}

const ExtensionCodec& AllocationsCodec() {
  static const Codec codec;
  return codec;
}

}  // namespace tmprof
