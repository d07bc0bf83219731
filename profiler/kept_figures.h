// SPDX-License-Identifier: Apache-2.0
// Figures about this machine that a start has measured, kept for the next start.

#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace tmprof {

// Files under /run are gone after a reboot.
inline constexpr std::string_view kKeptFiguresDirectory = "/run/tmprof";
// The neighbours of a virtual machine change, and what they take from its CPUs and caches with
// them. The time is chosen, not measured: it covers the recordings that one sits at.
inline constexpr std::chrono::hours kFiguresAreKeptFor{1};

// Returns one line: the boot, the kernel, the driver, the kind of CPU, the CPUs that this process
// may use, and the file of the program. Figures of one such machine are not used on another. Empty
// if the kernel does not say which boot this is: nothing is kept then.
std::string ThisMachine();

// A directory with a file for each set of figures. Whoever cannot write there measures at each
// start. Several threads and programs may use it at a time.
class KeptFigures {
 public:
  using Figures = std::map<std::string, double, std::less<>>;
  struct Kept {
    Figures figures;
    std::chrono::nanoseconds age{0};  // since they were measured
  };

  // kMeasureAgain: Load() removes the set instead, as whoever measures again does not trust it.
  enum class Use : bool { kLoadAndKeep, kMeasureAgain };

  KeptFigures(std::filesystem::path directory, std::string machine, Use use = Use::kLoadAndKeep);

  // Returns the figures of a part of the machine, such as one of several ways to read page tables.
  KeptFigures Of(std::string_view part) const;

  // `name`: of the set, a file name. nullopt: there are none of this machine, they are older than
  // kFiguresAreKeptFor, others than this user may have written them, or the use is kMeasureAgain.
  std::optional<Kept> Load(std::string_view name, MonotonicTime now) const;

  // Replaces the set; makes the directory.
  Status Keep(std::string_view name, const Figures& figures, MonotonicTime now) const;

 private:
  std::filesystem::path directory_;
  std::string machine_;
  Use use_;
};

}  // namespace tmprof
