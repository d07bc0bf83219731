// SPDX-License-Identifier: Apache-2.0
// Of use within rank/ only.

#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace tmprof {

// From keys to values, by open addressing: there are some look-ups per page and epoch. Key has ==
// and `std::uint64_t Hash() const`, whose first bits are the best.
template <typename Key, typename Value>
class FlatTable {
 public:
  // Nothing known of the key: `value` is, from now on. The place is good until the next call.
  std::pair<Value*, bool> TryEmplace(const Key& key, const Value& value) {
    if (2 * size_ >= slots_.size()) Grow();
    Slot& slot = slots_[Find(key)];
    const bool is_new = !slot.taken;
    if (is_new) {
      slot = {.key = key, .value = value, .taken = true};
      ++size_;
    }
    return {&slot.value, is_new};
  }

 private:
  static constexpr std::size_t kFirstSlots = 256;

  struct Slot {
    Key key{};
    Value value{};
    bool taken = false;
  };

  // Where the key is, or would be.
  std::size_t Find(const Key& key) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = key.Hash() >> shift_;
    while (slots_[at].taken && !(slots_[at].key == key)) at = (at + 1) & mask;
    return at;
  }

  void Grow() {
    std::vector<Slot> before = std::exchange(slots_, {});
    slots_.resize(before.empty() ? kFirstSlots : 2 * before.size());
    shift_ = 64 - std::countr_zero(slots_.size());
    for (const Slot& slot : before) {
      if (slot.taken) slots_[Find(slot.key)] = slot;
    }
  }

  std::vector<Slot> slots_;  // a power of two, at most half of them taken
  std::size_t size_ = 0;
  int shift_ = 0;
};

}  // namespace tmprof
