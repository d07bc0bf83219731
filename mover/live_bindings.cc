// SPDX-License-Identifier: Apache-2.0

#include "mover/live_bindings.h"

#include <algorithm>
#include <utility>

namespace tmprof {
namespace {

constexpr int kMovingRarity = 100;
constexpr int kDecidingRarity = 1000;
// A clock that hardly advances must not cause constant readings.
constexpr std::chrono::nanoseconds kLeastAge = std::chrono::milliseconds(1);
// Moves check what older readings decided, and their readings serve decisions, too.
constexpr std::chrono::nanoseconds kLeastDecidingAge = std::chrono::seconds(5);
constexpr std::chrono::nanoseconds kMostAge = std::chrono::minutes(10);

std::chrono::nanoseconds AgeFor(std::chrono::nanoseconds took, int rarity,
                                std::chrono::nanoseconds least) {
  return std::clamp(took * rarity, least, kMostAge);
}

}  // namespace

LiveBindings::LiveBindings(PolicyReader& reader, const Clock& clock)
    : reader_(reader), clock_(clock) {}

LiveBindings::Reading LiveBindings::ReadAll(Pid pid) {
  Reading reading;
  const MonotonicTime began = clock_.Now();
  std::optional<Error> refusal;
  // Mappings are read first: memory that is mapped meanwhile is newer.
  if (reader_.mappings_are_cheaper()) {
    if (auto mappings = reader_.ReadMappings(pid)) {
      reading.mappings = *std::move(mappings);
    } else {
      reading.refusal = std::move(mappings.error());
    }
  }
  if (!reading.refusal) {
    if (auto binding = reader_.Read(pid)) {
      reading.full = reading.now = std::make_shared<const MemoryBinding>(*std::move(binding));
    } else {
      reading.refusal = std::move(binding.error());
    }
  }
  const MonotonicTime ended = clock_.Now();
  reading.good_for_moving = began + AgeFor(ended - began, kMovingRarity, kLeastAge);
  reading.good_for_deciding = began + AgeFor(ended - began, kDecidingRarity, kLeastDecidingAge);
  reading.mappings_good =
      reader_.mappings_are_cheaper() ? ended + kLeastAge : reading.good_for_deciding;
  return reading;
}

Status LiveBindings::CheckMappings(Reading& reading, Pid pid) {
  const MonotonicTime began = clock_.Now();
  const auto mappings = reader_.ReadMappings(pid);
  if (!mappings) return Fail(mappings.error());
  const std::vector<VpnRange> newer = NewerThan(reading.mappings, *mappings);
  reading.now = newer.empty()
                    ? reading.full
                    : std::make_shared<const MemoryBinding>(reading.full->WithUnread(newer));
  reading.mappings_good = began + AgeFor(clock_.Now() - began, kMovingRarity, kLeastAge);
  return {};
}

std::optional<LiveBindings::Reading> LiveBindings::Find(TargetId target) const {
  const std::scoped_lock lock(mutex_);
  const auto known = readings_.find(target);
  return known == readings_.end() ? std::nullopt : std::optional(known->second);
}

void LiveBindings::Keep(TargetId target, Reading reading) {
  const std::scoped_lock lock(mutex_);
  readings_[target] = std::move(reading);
}

Result<LiveBindings::Shared> LiveBindings::ForDeciding(TargetId target, Pid pid) {
  const std::scoped_lock lock(reading_);
  std::optional<Reading> reading = Find(target);
  const MonotonicTime now = clock_.Now();
  if (!reading || now >= reading->good_for_deciding) {
    reading = ReadAll(pid);
    Keep(target, *reading);
  } else if (reading->full && now >= reading->mappings_good) {
    if (const Status checked = CheckMappings(*reading, pid); !checked) {
      return Fail(checked.error());
    }
    Keep(target, *reading);
  }
  if (!reading->now) return Fail(*reading->refusal);
  return reading->now;
}

std::optional<LiveBindings::Shared> LiveBindings::ForMoving(TargetId target) const {
  const MonotonicTime now = clock_.Now();
  const std::scoped_lock lock(mutex_);
  const auto known = readings_.find(target);
  if (known == readings_.end() || now >= known->second.good_for_moving) return std::nullopt;
  if (known->second.full && now >= known->second.mappings_good) return std::nullopt;
  return known->second.now;
}

void LiveBindings::Read(TargetId target, Pid pid) {
  const std::scoped_lock lock(reading_);
  std::optional<Reading> reading = Find(target);
  const MonotonicTime now = clock_.Now();
  const bool is_old = !reading || !reading->full || now >= reading->good_for_moving;
  // Another thread may have read it meanwhile.
  if (!is_old && now < reading->mappings_good) return;
  if (is_old || !CheckMappings(*reading, pid)) reading = ReadAll(pid);
  Keep(target, *std::move(reading));
}

void LiveBindings::KeepOnly(std::span<const TargetId> targets) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(readings_, [targets](const auto& known) {
    return std::ranges::find(targets, known.first) == targets.end();
  });
}

}  // namespace tmprof
