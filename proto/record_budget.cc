// SPDX-License-Identifier: Apache-2.0

#include "proto/record_budget.h"

namespace tmprof {

std::uint64_t RecordBudget::LeastFileBytes(const PageColumns& pages, std::uint64_t file_bytes) {
  records_ += pages.size();
  if (records_ <= kFree + kPerByte * file_bytes) return 0;
  auto block = known_.end();
  for (std::size_t i = 0; i < pages.size(); ++i) {
    const std::uint64_t vpn = pages.vpn[i].value();
    const BlockKey key{pages.target[i], vpn / kBlockPages};
    if (block == known_.end() || block->first != key) block = known_.try_emplace(key).first;
    if (!block->second[vpn % kBlockPages]) {
      block->second.set(vpn % kBlockPages);
      ++known_pages_;
    }
  }
  return known_pages_ <= kFree ? 0 : (known_pages_ - kFree + kPerByte - 1) / kPerByte;
}

}  // namespace tmprof
