// SPDX-License-Identifier: Apache-2.0
// The program and its libraries, as the dynamic linker has them, and those that it no longer has.

#pragma once

#include <cstddef>
#include <cstdint>

#include "objtrace/runtime/system.h"

namespace tmprof::objtrace {

struct LoadedImage {
  const char* name;  // to the dynamic linker; empty: the program
  std::uint64_t start;
  std::uint64_t end;
  std::uint64_t bias;    // an address less this is the one in the file's symbol table
  const void* build_id;  // of the GNU note; null: it has none
  std::uint64_t build_id_bytes;
};

using VisitImage = void (*)(const LoadedImage& image, void* context);

void EachLoaded(VisitImage visit, void* context);

// What dlclose(3) took away. Remembers up to kMax different images, and of those none that were
// closed by the C library itself.
class ClosedImages {
 public:
  static constexpr std::uint64_t kMax = 4096;

  // Before dlclose(3): all that is loaded may be gone after it.
  void NoteLoaded();
  void EachClosed(VisitImage visit, void* context);
  Lock& lock() { return lock_; }

 private:
  struct Noted;

  void Note(const LoadedImage& image);

  Lock lock_;
  Noted* noted_ = nullptr;
  std::uint64_t count_ = 0;
};

}  // namespace tmprof::objtrace
