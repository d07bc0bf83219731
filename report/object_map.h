// SPDX-License-Identifier: Apache-2.0
// What lives where in the epochs of a trace, and what of each page is whose.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "base/allocations.h"
#include "base/epoch_profile.h"
#include "base/units.h"

namespace tmprof {

enum class TracedKind : std::uint8_t { kAllocated, kMapped };

struct TracedObject {
  TracedKind kind = TracedKind::kAllocated;
  TargetId target;
  std::uint64_t start = 0;
  std::uint64_t bytes = 0;
  double weight = 1;  // objects that it stands for, on average; above 1: others are not known
  std::uint32_t site = kUnknownSite;
  MonotonicTime birth;
  MonotonicTime since;    // it has these bytes
  std::size_t label = 0;  // the visitor's

  std::uint64_t end() const { return start + bytes; }
};

// Follows allocations through epochs, which are to be seen from the first on.
class ObjectMap {
 public:
  class Visitor {
   public:
    virtual ~Visitor() = default;
    // Whether anything of the target is to be followed.
    virtual bool Follows(const Target& target) = 0;
    virtual void Begin(const Target& target, TracedObject& object) = 0;
    virtual void End(const TracedObject& object, MonotonicTime end) = 0;
    // `share` is what is the object's of a page record: of its bytes, for as long of the epoch as
    // it was there. Only in epochs that are to be shared.
    virtual void Share(const PageColumns& pages, std::size_t record, const TracedObject& object,
                       double share) = 0;
    // All that lives as the epoch ends is still there, that of processes that have exited, too.
    virtual void EndEpoch(const EpochProfile& epoch) { (void)epoch; }
  };

  explicit ObjectMap(Visitor& visitor) : visitor_(visitor) {}

  void See(const EpochProfile& epoch, bool to_be_shared);
  // Of all that live now: mappings after what was allocated.
  template <typename Visit>
  void Each(Visit visit) const {
    for (const auto& [target, living] : live_) {
      for (const Objects* objects : {&living.allocated, &living.mapped}) {
        for (const auto& [address, object] : *objects) visit(object);
      }
    }
  }
  // The one that lives now and has most of these bytes, of what was allocated before what was
  // mapped. Null: nothing is known there.
  const TracedObject* Largest(TargetId target, std::uint64_t start, std::uint64_t end) const;

 private:
  using Objects = std::map<std::uint64_t, TracedObject>;  // by address, disjoint
  struct Living {
    Objects allocated;
    Objects mapped;
    Objects& Of(TracedKind kind) { return kind == TracedKind::kAllocated ? allocated : mapped; }
  };
  struct Presence {
    TracedObject object;
    MonotonicTime from;
    MonotonicTime to;
  };

  void Apply(const EpochProfile& epoch, const Target& target, const AllocationEvent& event);
  void Begin(const EpochProfile& epoch, const Target& target, const AllocationEvent& event,
             TracedKind kind);
  void End(const EpochProfile& epoch, TargetId target, TracedKind kind, std::uint64_t address,
           MonotonicTime end);
  void Unmap(const EpochProfile& epoch, const AllocationEvent& event);
  void Stay(const EpochProfile& epoch, const TracedObject& object, MonotonicTime until);
  void ShareAll(const EpochProfile& epoch);
  void ShareOf(const Presence& presence, const EpochProfile& epoch, std::vector<double>& taken);

  Visitor& visitor_;
  std::map<TargetId, Living> live_;
  std::vector<Presence> present_;  // in this epoch
};

// Samples of a page record, of loads and stores.
double SamplesOf(const PageColumns& pages, std::size_t record);

}  // namespace tmprof
