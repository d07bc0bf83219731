// SPDX-License-Identifier: Apache-2.0

#include "objects/tracker/next.h"

#include <dlfcn.h>

namespace tmprof::objtrace {
namespace {

bool finding_next = false;
std::size_t early_used = 0;

template <typename Function>
void Find(Function& function, const char* name) {
  function = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

NextFunctions next;
alignas(16) std::byte early[kEarlyBytes];

void* AllocateEarly(std::size_t bytes) {
  const std::size_t rounded = (bytes + 15) / 16 * 16;
  if (rounded < bytes || rounded > kEarlyBytes - early_used) return nullptr;
  void* object = early + early_used;
  early_used += rounded;
  return object;
}

bool HasEarly() { return early_used != 0; }

bool FindNext() {
  if (finding_next) return false;
  finding_next = true;
  NextFunctions found{};
  Find(found.malloc, "malloc");
  Find(found.calloc, "calloc");
  Find(found.realloc, "realloc");
  Find(found.free, "free");
  Find(found.posix_memalign, "posix_memalign");
  Find(found.aligned_alloc, "aligned_alloc");
  Find(found.memalign, "memalign");
  Find(found.valloc, "valloc");
  Find(found.pvalloc, "pvalloc");
  Find(found.mmap, "mmap");
  Find(found.munmap, "munmap");
  Find(found.mremap, "mremap");
  Find(found.usable, "malloc_usable_size");
  Find(found.pthread_create, "pthread_create");
  Find(found.thrd_create, "thrd_create");
  next = found;
  finding_next = false;
  return true;
}

}  // namespace tmprof::objtrace
