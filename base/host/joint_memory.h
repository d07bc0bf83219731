// SPDX-License-Identifier: Apache-2.0
// The memory that several processes hold together, in which shared pages count once.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/epoch_profile.h"
#include "base/host/procfs.h"
#include "base/units.h"

namespace tmprof {

// Memory of one process, as /proc reports it.
struct ProcessMemory {
  TargetId id;
  std::optional<std::uint64_t> ipc_namespace;  // nullopt: unknown
  std::optional<Pid> family;                   // nullopt: it has no relatives
  std::vector<MappedMemory> mappings;          // ascending
};

struct JointMemory {
  PageCount counted;  // the sum of what is resident in each process
  PageCount apart;    // the part of this that is in no mapping of a shared file
  // Its distinct pages, at least: relatives may share some since fork(2).
  PageCount apart_distinct;
  PageCount shared;     // distinct pages of shared files: at least so many
  PageCount elsewhere;  // the least part of these that other processes map, too
  PageCount device;     // sizes of mappings of devices

  // Returns what these processes, and others like them, hold together if the sum of what is
  // resident in each is `sum`: shared memory stays, the rest grows with the sum. Pages that
  // relatives share count once with `joins_relatives`, and otherwise for each.
  PageCount HeldIf(PageCount sum, bool joins_relatives) const;
};

// Pages are told apart as SharedPages (base/shared_pages.h) does. /proc does not report which pages
// of a file each process has. `shared` is therefore a lower bound: the most that one process has,
// or the sum of the proportional shares. This is exact if one process has all pages that any has,
// or if no other process maps the file. The same holds for private mappings of relatives at the
// same addresses (`apart_distinct`).
JointMemory JointMemoryOf(std::span<const ProcessMemory> processes);

}  // namespace tmprof
