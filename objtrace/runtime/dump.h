// SPDX-License-Identifier: Apache-2.0
// Writes what is known of all objects (proto/objects.proto).

#pragma once

namespace tmprof::objtrace {

// A symbolic link at the end of the path: who named the file may mean it.
enum class Links { kFollow, kRefuse };

// 0, or the errno of what failed: ELOOP for a link that is refused.
int Dump(const char* path, Links links);

}  // namespace tmprof::objtrace
