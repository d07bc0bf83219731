// SPDX-License-Identifier: Apache-2.0
// Which clock samples are stalls: those of an instruction beyond what executing it explains.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>

namespace tmprof {

// Copies code from this address on into the bytes; returns how many there are.
using ReadCode = std::function<std::size_t(std::uint64_t address, std::span<std::uint8_t> into)>;

// Instructions of one straight line of code are executed equally often. A CPU completes the oldest
// instruction and then takes the interrupt: samples at an address are those of the instruction
// before it. Those that touch no memory show how many samples executing an instruction of the line
// takes, or the median of all, where there are next to none; what those that do touch memory have
// beyond is taken for stalls, if it is beyond the noise.
class StraightLines {
 public:
  // `samples`: those of one process by address. Code that cannot be read has no stalls.
  StraightLines(const std::map<std::uint64_t, std::uint64_t>& samples, const ReadCode& read);

  // Returns the part of the samples at `address` that are stalls, in [0, 1].
  double StallPart(std::uint64_t address) const { return PartsAt(address).stalls; }
  // Returns the part of them that are stalls which no hit in a private cache explains.
  double MissPart(std::uint64_t address) const { return PartsAt(address).misses; }

  struct Parts {
    double stalls = 0;
    double misses = 0;
  };

 private:
  Parts PartsAt(std::uint64_t address) const {
    const auto found = parts_.find(address);
    return found == parts_.end() ? Parts{} : found->second;
  }

  std::map<std::uint64_t, Parts> parts_;
};

}  // namespace tmprof
