// SPDX-License-Identifier: Apache-2.0
// Finds the data on a process's accessed pages of its program and libraries, by the symbols and
// sections of their files.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/epoch_profile.h"
#include "base/result.h"
#include "base/units.h"
#include "objects/format/allocations.h"

namespace tmprof {

struct FileDatum {
  FixedKind kind = FixedKind::kVariable;  // or kData
  std::string name;                       // a variable's symbol, demangled, or the section's name
  std::uint64_t start = 0;                // in the symbol table's addresses
  std::uint64_t bytes = 0;

  std::uint64_t end() const { return start + bytes; }
  friend bool operator==(const FileDatum&, const FileDatum&) = default;
};

struct ElfData {
  struct Segment {
    std::uint64_t start = 0;     // in the symbol table's addresses
    std::uint64_t file_end = 0;  // the file ends here; zeros follow
    std::uint64_t end = 0;
    std::uint32_t flags = 0;  // PF_R, PF_W, PF_X
  };
  std::vector<Segment> segments;  // the loaded ones, ascending
  // Ascending and disjoint. Of several symbols at one place it has the least internal one, and of
  // nested symbols the outer one. Sections fill the space between symbols, except for gaps that
  // alignment leaves.
  std::vector<FileDatum> data;
};

// Symbols may be in a separate file, .build-id/XX/YYYY.debug in `debug_folder`, which is an
// absolute path.
Result<ElfData> ReadElfData(const std::string& path, std::string debug_folder = "/usr/lib/debug");

// The data of all targets of a recording.
class LoadedData {
 public:
  struct Change {
    bool ends = false;
    std::uint64_t start = 0;  // the process's address
    FileDatum datum;
    std::string file;
  };
  // Returns new data on these pages, and the end of reported data whose file is no longer mapped.
  // `accessed` is ascending and disjoint.
  std::vector<Change> See(TargetId target, std::span<const Mapping> mappings,
                          std::span<const VpnRange> accessed);
  // Returns the end of all reported data of the target.
  std::vector<Change> Forget(TargetId target);

 private:
  using FileKey = std::tuple<std::string, std::uint64_t, std::uint64_t, std::int64_t>;
  struct Module {
    std::shared_ptr<const ElfData> file;
    std::uint64_t bias = 0;
    std::vector<bool> told;  // the same index as in ElfData::data
    bool is_there = false;
  };
  // The key is the file's path and the start of its lowest mapping.
  using Modules = std::map<std::pair<std::string, Vpn>, Module>;

  // Null: there is no such file, or it is not ELF.
  std::shared_ptr<const ElfData> FileAt(const std::string& path);
  Module* FindModule(Modules& modules, std::span<const Mapping* const> parts);
  static void Tell(const std::string& path, Module& module, VpnRange accessed,
                   std::vector<Change>& changes);
  static void End(const std::string& path, const Module& module, std::vector<Change>& changes);

  std::map<FileKey, std::shared_ptr<const ElfData>> files_;
  std::map<TargetId, Modules> targets_;
};

// True if the ranges, which are ascending and disjoint, have any of these pages.
bool Overlaps(std::span<const VpnRange> ranges, VpnRange pages);

}  // namespace tmprof
