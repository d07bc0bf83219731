// SPDX-License-Identifier: Apache-2.0
// Tells which objects live where in the epochs of a trace, and which part of each page is whose.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/epoch_profile.h"
#include "base/units.h"
#include "objects/format/allocations.h"

namespace tmprof {

enum class TracedKind : std::uint8_t { kAllocated, kMapped, kVariable, kData, kStack };

std::string_view NameOf(TracedKind kind);  // "allocated", "mapped", "variable", "data", "stack"
// Returns "make (a.c:7) < main (a.c:30)" with as many frames as a line takes, "table of program",
// ".bss of program, no symbol" or "thread 42 worker".
std::string SiteText(TracedKind kind, const ObjectSite& site, std::size_t most_frames = 3);

struct TracedObject {
  TracedKind kind = TracedKind::kAllocated;
  TargetId target;
  std::uint64_t start = 0;
  std::uint64_t bytes = 0;
  // Mean number of objects that it stands for; above 1: the others are not known.
  double weight = 1;
  std::uint32_t site = kUnknownSite;
  MonotonicTime birth;
  MonotonicTime since;    // since when it has these bytes
  std::size_t label = 0;  // for the visitor's use

  std::uint64_t end() const { return start + bytes; }
};

// Follows allocations through epochs. Precondition: it sees all epochs from the first on.
class ObjectMap {
 public:
  class Visitor {
   public:
    virtual ~Visitor() = default;
    // Returns true if the target's objects are followed.
    virtual bool Follows(const Target& target) = 0;
    virtual void Begin(const Target& target, TracedObject& object) { (void)target, (void)object; }
    virtual void End(const TracedObject& object, MonotonicTime end) { (void)object, (void)end; }
    // An object, usually a thread's stack, changed its bounds.
    virtual void Resize(const TracedObject& before, const TracedObject& after) {
      (void)before, (void)after;
    }
    // `share` is the object's part of a page record: its part of the bytes times the part of the
    // epoch in which it was there. Called only in epochs that are to be shared.
    virtual void Share(const PageColumns& pages, std::size_t record, const TracedObject& object,
                       double share) {
      (void)pages, (void)record, (void)object, (void)share;
    }
    // Everything that lives when the epoch ends is still there, even if its process has exited.
    virtual void EndEpoch(const EpochProfile& epoch) { (void)epoch; }
  };

  explicit ObjectMap(Visitor& visitor) : visitor_(visitor) {}

  void See(const EpochProfile& epoch, bool to_be_shared);
  // Calls visit(object) for all that live now.
  template <typename Visit>
  void Each(Visit visit) const {
    for (const auto& [target, living] : live_) {
      living.Each(visit);
    }
  }
  // Returns the living object that has most of these bytes. A mapping counts only if there is
  // nothing else. Null: nothing is known there.
  const TracedObject* Largest(TargetId target, std::uint64_t start, std::uint64_t end) const;

 private:
  using Objects = std::map<std::uint64_t, TracedObject>;  // key: address; disjoint
  struct Living {
    Objects fixed;
    Objects allocated;
    Objects mapped;

    Objects& Of(TracedKind kind) {
      if (kind == TracedKind::kAllocated) return allocated;
      return kind == TracedKind::kMapped ? mapped : fixed;
    }
    template <typename Visit>
    void Each(Visit visit) const {
      for (const Objects* objects : {&fixed, &allocated, &mapped}) {
        for (const auto& [address, object] : *objects) visit(object);
      }
    }
  };
  struct Presence {
    TracedObject object;
    MonotonicTime from;
    MonotonicTime to;
  };

  void Apply(const EpochProfile& epoch, const Target& target, const AllocationEvent& event);
  void Apply(const EpochProfile& epoch, const Target& target, const FixedEvent& event);
  void Begin(const EpochProfile& epoch, const Target& target, TracedObject object);
  // Returns an object of this site that overlaps the event's bytes, or null.
  TracedObject* FindFixed(const FixedEvent& event);
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

// Returns the samples of a page record, of loads and stores.
double SamplesOf(const PageColumns& pages, std::size_t record);

}  // namespace tmprof
