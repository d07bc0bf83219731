// SPDX-License-Identifier: Apache-2.0
// Lists the program and the libraries that the dynamic linker has loaded, and those that were
// closed.

#pragma once

#include <cstddef>
#include <cstdint>

#include "objects/runtime/system.h"

namespace tmprof::objtrace {

struct LoadedImage {
  const char* name;  // the dynamic linker's name; empty: the program
  std::uint64_t start;
  std::uint64_t end;
  std::uint64_t bias;    // an address minus this is the one in the file's symbol table
  const void* build_id;  // contents of the GNU note; null: there is none
  std::uint64_t build_id_bytes;
};

using VisitImage = void (*)(const LoadedImage& image, void* context);

void EachLoaded(VisitImage visit, void* context);

// Images that dlclose(3) removed. It remembers up to kMax different ones, but none that the C
// library itself closed.
class ClosedImages {
 public:
  static constexpr std::uint64_t kMax = 4096;

  // The caller calls it before dlclose(3), after which any loaded image may be gone.
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
