// SPDX-License-Identifier: Apache-2.0
// Counts by element for the objects that the program asked for.

#pragma once

#include <atomic>
#include <cstdint>

#include "objects/layout.h"
#include "objects/runtime/system.h"

namespace tmprof::objtrace {

struct Elements {
  std::atomic<const Header*> header;  // null: the place is free
  std::uint64_t start;                // address of the object
  std::uint64_t element_bytes;
  std::uint64_t elements;
  std::atomic<std::uint64_t>* counts;
};

// It is looked up only if a span says so. Readers take no lock.
class ElementTable {
 public:
  static constexpr std::uint64_t kPlaces = 1 << 16;

  Elements* Find(const Header* header) const;
  // Returns 0, EEXIST or ENOMEM.
  int Add(const Header* header, std::uint64_t start, std::uint64_t bytes,
          std::uint64_t element_bytes);
  void Remove(const Header* header);
  Lock& lock() { return lock_; }

 private:
  static std::uint64_t PlaceOf(const Header* header);

  Lock lock_;
  std::atomic<Elements*> places_ = nullptr;  // open addressing; a removed entry leaves a tombstone
  std::uint64_t taken_ = 0;
};

}  // namespace tmprof::objtrace
