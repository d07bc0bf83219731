// SPDX-License-Identifier: Apache-2.0
// Finds functions and source lines of a program's addresses, by its files' symbols and debug
// information.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "objects/format/allocations.h"
#include "objects/format/objects_file.h"

namespace tmprof {

enum class CheckFiles : std::uint8_t {
  kBuildIds,  // they must still be the files that were loaded
  kNo,        // the modules were loaded just now
};

// Not thread-safe.
class Symbols {
 public:
  // Files that fail the check have no names. `program` is the path of the module whose own path is
  // empty.
  Symbols(std::vector<LoadedModule> modules, std::string program,
          CheckFiles check = CheckFiles::kBuildIds);
  ~Symbols();
  Symbols(const Symbols&) = delete;
  Symbols& operator=(const Symbols&) = delete;

  // Returns the call that returns to `return_address`. It has at least one frame, and more if the
  // compiler inlined functions into one, innermost first. The module is empty if several modules
  // had the address one after the other.
  std::vector<SourceFrame> CallBefore(std::uint64_t return_address) const;
  // Returns the paths of modules whose files are gone or have changed.
  std::vector<std::string> Missing() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Returns the bytes of the note that the file's linker wrote; empty: there is none, or the file
// cannot be read.
std::string BuildIdOf(const std::string& path);

// Returns the name as in the source; a name that is not mangled is returned unchanged.
std::string Demangled(std::string_view symbol);

}  // namespace tmprof
