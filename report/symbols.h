// SPDX-License-Identifier: Apache-2.0
// Functions and source lines of a program's addresses, by its files' symbols and debug information.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/allocations.h"
#include "proto/objects_file.h"

namespace tmprof {

enum class CheckFiles : std::uint8_t {
  kBuildIds,  // that they are still those that were loaded
  kNo,        // they were loaded just now
};

// Not thread-safe.
class Symbols {
 public:
  // Of files that fail the check there are no names. `program` is the path of the module that has
  // none.
  Symbols(std::vector<LoadedModule> modules, std::string program,
          CheckFiles check = CheckFiles::kBuildIds);
  ~Symbols();
  Symbols(const Symbols&) = delete;
  Symbols& operator=(const Symbols&) = delete;

  // Of the call that returns to `return_address`, at least one: where the compiler inlined, the
  // functions that it made one, innermost first.
  // Without a module where several had the address, one after the other.
  std::vector<SourceFrame> CallBefore(std::uint64_t return_address) const;
  // Paths of modules whose files are not there, or others by now.
  std::vector<std::string> Missing() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Bytes of the note that its linker wrote; empty: it has none, or cannot be read.
std::string BuildIdOf(const std::string& path);

// As the compiler's source has it; as it is where it is no mangled name.
std::string Demangled(std::string_view symbol);

}  // namespace tmprof
