// SPDX-License-Identifier: Apache-2.0
// Chooses the pages that are wanted in tier 1. A policy is pure: it has no clock, no I/O and no
// memory of its own, and gives one question one answer. Replay and daemon use the same object.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/page_key.h"
#include "base/plan.h"
#include "base/result.h"
#include "base/units.h"
#include "policy/ranking.h"

namespace tmprof {

// The profile that a policy's ranking is made from when it decides for an epoch.
enum class Knowledge : std::uint8_t {
  kNothing,  // the ranking is empty
  kPast,     // the epoch before
  kPresent,  // the epoch it decides for, which only a replay knows
};

// Tells where the ranking's spans are now.
class Residency {
 public:
  virtual ~Residency() = default;
  // Overwrites `answers`, parallel to `rows`: 1 if all of the span's pages are in tier 1, else 0.
  virtual void InTier1(std::span<const std::uint32_t> rows,
                       std::vector<std::uint8_t>& answers) const = 0;
};

class Policy {
 public:
  virtual ~Policy() = default;

  virtual Knowledge knowledge() const = 0;
  // Overwrites `wanted` with rows of `ranking`, in the order and within the capacity of a Plan
  // (base/plan.h). Rows without a score must not be wanted.
  virtual void Choose(Ranking& ranking, const Residency& residency, PageCount capacity,
                      std::vector<std::uint32_t>& wanted) const = 0;
};

// Returns the policy's choice in the form that the mover carries out. `keys` are those of the
// ranking's rows.
Plan MakePlan(const Policy& policy, std::span<const PageKey> keys, Ranking& ranking,
              const Residency& residency, PageCount capacity);

struct PolicyEntry {
  std::string_view name;
  std::string_view description;  // one line
  bool replay_only;
  std::unique_ptr<const Policy> (*make)();
};

// Returns all policies, in the order in which people see them.
std::span<const PolicyEntry> Policies();
Result<const PolicyEntry*> FindPolicy(std::string_view name);

}  // namespace tmprof
