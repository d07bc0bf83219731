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
// The neighbours of a virtual machine change meanwhile, and so does the speed of its CPUs.
inline constexpr std::chrono::hours kFiguresAreKeptFor{24};

// Returns one line: the boot, the kernel, the CPUs that this process may use, and the program.
// Figures of one such machine are not used on another. Empty if the kernel does not say which boot
// this is: nothing is kept then.
std::string ThisMachine(std::string_view program_version);

// A directory with a file for each set of figures. Whoever cannot write there measures at each
// start. Thread-safe.
class KeptFigures {
 public:
  using Figures = std::map<std::string, double, std::less<>>;
  struct Kept {
    Figures figures;
    std::chrono::nanoseconds age{0};  // since they were measured
  };

  enum class Use : bool { kLoadAndKeep, kKeepOnly };

  KeptFigures(std::filesystem::path directory, std::string machine, Use use = Use::kLoadAndKeep);

  // `name`: of the set, a file name. nullopt: there are none of this machine, they are older than
  // kFiguresAreKeptFor, others than this user may have written them, or the use is kKeepOnly.
  std::optional<Kept> Load(std::string_view name, MonotonicTime now) const;

  // Replaces the set; makes the directory.
  Status Keep(std::string_view name, const Figures& figures, MonotonicTime now) const;

 private:
  std::filesystem::path directory_;
  std::string machine_;
  Use use_;
};

}  // namespace tmprof
