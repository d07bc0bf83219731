// SPDX-License-Identifier: Apache-2.0

#include "base/move_history.h"

#include "base/check.h"

namespace tmprof {

std::size_t MoveHistory::HashKey::operator()(PageKey key) const noexcept {
  // Fibonacci hashing (Knuth, TAOCP 3, 6.4): 2^64 divided by the golden ratio.
  return (key.vpn.value() + (std::uint64_t{key.target.value()} << 40)) * 0x9E3779B97F4A7C15U;
}

MoveHistory::MoveHistory(std::uint64_t epochs_remembered) { Remember(epochs_remembered); }

void MoveHistory::Remember(std::uint64_t epochs) {
  TMPROF_CHECK(epochs > 0);
  epochs_remembered_ = epochs;
}

bool MoveHistory::Note(PageKey key, Tier from, Tier to, std::uint64_t epoch) {
  const Last now{epoch, from, to};
  const auto [entry, is_new] = moved_.try_emplace(key, now);
  if (is_new) return false;
  const Last before = entry->second;
  entry->second = now;
  return epoch - before.epoch < epochs_remembered_ && before.from == to && before.to == from;
}

std::optional<std::uint64_t> MoveHistory::EpochsSince(PageKey key, std::uint64_t epoch) const {
  const auto entry = moved_.find(key);
  if (entry == moved_.end()) return std::nullopt;
  const std::uint64_t since = epoch - entry->second.epoch;
  if (since >= epochs_remembered_) return std::nullopt;
  return since;
}

void MoveHistory::ForgetOld(std::uint64_t epoch) {
  std::erase_if(
      moved_, [&](const auto& entry) { return epoch - entry.second.epoch >= epochs_remembered_; });
}

void MoveHistory::Forget(TargetId target) {
  std::erase_if(moved_, [&](const auto& entry) { return entry.first.target == target; });
}

}  // namespace tmprof
