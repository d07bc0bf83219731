// SPDX-License-Identifier: Apache-2.0
// Writes what is known of all objects (proto/objects.proto).

#pragma once

namespace tmprof::objtrace {

// 0, or the errno of what failed.
int Dump(const char* path);

}  // namespace tmprof::objtrace
