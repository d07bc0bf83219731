// SPDX-License-Identifier: Apache-2.0
// Reads the objects of a trace's epochs.

#pragma once

#include "proto/extension_codec.h"

namespace tmprof {

// Sets allocations (objects/format/allocations.h). It lives as long as the program.
const ExtensionCodec& AllocationsCodec();

}  // namespace tmprof
