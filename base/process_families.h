// SPDX-License-Identifier: Apache-2.0
// Finds which processes descend from one another.

#pragma once

#include <map>
#include <optional>

#include "base/units.h"

namespace tmprof {

// Sets of processes that are connected by parents. PID 1 adopts strangers, and connects nobody.
class ProcessFamilies {
 public:
  void Join(Pid process, std::optional<Pid> parent) {
    const Pid root = RootOf(process);
    if (parent && *parent > Pid(1)) root_[RootOf(*parent)] = root;
  }
  // Returns a process that stands for the family.
  Pid RootOf(Pid process) {
    while (true) {
      Pid& above = root_.try_emplace(process, process).first->second;
      if (above == process) return process;
      above = root_.at(above);  // shortens the way
      process = above;
    }
  }

 private:
  std::map<Pid, Pid> root_;  // or a process on the way to it
};

}  // namespace tmprof
