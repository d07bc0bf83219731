// SPDX-License-Identifier: Apache-2.0
// Functions that the runtime's C interfaces share: objects.h, and malloc(3) and its family.

#pragma once

#include <cstddef>

#include "objects/runtime/heap.h"
#include "objects/runtime/modules.h"
#include "objects/runtime/statics.h"

namespace tmprof::objtrace {

extern Statics statics;
extern ClosedImages closed_images;

// Each sets errno if it returns null. `frame` is that of the function that the program called.
void* OrNoMemory(void* object);
void* AllocateAligned(std::size_t alignment, std::size_t bytes, const void* frame);
void* AllocateArray(std::size_t elements, std::size_t element_bytes, const void* frame);
void* Reallocate(void* object, std::size_t bytes, const void* frame);
void FreeObject(void* object);

}  // namespace tmprof::objtrace
