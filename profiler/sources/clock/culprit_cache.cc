// SPDX-License-Identifier: Apache-2.0
#include "profiler/sources/clock/culprit_cache.h"

#include <array>

namespace tmprof {
namespace {

Culprit ReadAndDecode(PerfApi& api, Pid process, std::uint64_t ip) {
  std::array<std::uint8_t, kCodeBytesBefore + kCodeBytesFrom> code{};
  const std::span<std::uint8_t> window(code);
  const std::uint64_t start = ip - kCodeBytesBefore;
  const std::size_t got = api.ReadMemory(process, start, window);
  if (got > kCodeBytesBefore) {
    const auto bytes = window.first(got);
    return FindCulprit(bytes.first(kCodeBytesBefore), bytes.subspan(kCodeBytesBefore), ip);
  }
  // The window starts in an unmapped page: take what lies in the page of `ip` and behind it.
  const std::size_t before = std::min<std::size_t>(ip % kBasePageBytes, kCodeBytesBefore);
  const auto rest = window.first(before + kCodeBytesFrom);
  const std::size_t got_rest = api.ReadMemory(process, ip - before, rest);
  if (got_rest <= before) return {};
  return FindCulprit(rest.first(before), rest.subspan(before, got_rest - before), ip);
}

}  // namespace

const Culprit& CulpritCache::Find(Pid process, std::uint64_t ip) {
  if (entries_ >= kMaxEntries) Clear();
  const auto [entry, added] = by_process_[process].try_emplace(ip);
  if (added) {
    entry->second = ReadAndDecode(*api_, process, ip);
    ++entries_;
    ++decoded_;
  }
  return entry->second;
}

void CulpritCache::Forget(Pid process) {
  const auto found = by_process_.find(process);
  if (found == by_process_.end()) return;
  entries_ -= found->second.size();
  by_process_.erase(found);
}

void CulpritCache::Clear() {
  by_process_.clear();
  entries_ = 0;
}

}  // namespace tmprof
