// SPDX-License-Identifier: Apache-2.0

#include "daemon/placement/live_mappings.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/shared_pages.h"

namespace tmprof {
namespace {

constexpr int kRarity = 100;
constexpr std::chrono::nanoseconds kLeastAge = std::chrono::milliseconds(1);

}  // namespace

std::vector<std::optional<FilePlace>> LiveMappings::FilesAt(Pid pid, std::span<const Vpn> pages) {
  const MonotonicTime began = clock_->Now();
  if (pid_ != pid || began >= good_) {
    pid_.reset();
    auto mappings = read_(pid);
    if (!mappings) return {};
    mappings_ = *std::move(mappings);
    pid_ = pid;
    good_ = began + std::max((clock_->Now() - began) * kRarity, kLeastAge);
  }
  return SharedFilesAt(mappings_, pages);
}

}  // namespace tmprof
