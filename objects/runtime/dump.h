// SPDX-License-Identifier: Apache-2.0
// Writes everything known about all objects (objects/format/objects.proto).

#pragma once

namespace tmprof::objtrace {

// The treatment of a symbolic link at the end of the path. Whoever named the file may mean the
// link.
enum class Links { kFollow, kRefuse };

// Returns 0, or the errno of the failure: ELOOP for a link that is refused.
int Dump(const char* path, Links links);

}  // namespace tmprof::objtrace
