// SPDX-License-Identifier: Apache-2.0
// The seam between views of pages and the component that names objects. Views ask an annotator for
// the objects in their rows. objects/analysis/object_annotator.h has the annotator of objects/.

#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/epoch_profile.h"
#include "base/result.h"
#include "base/text/format.h"
#include "base/units.h"
#include "proto/trace.h"

namespace tmprof {

// An object, by numbers of the annotator that returned it.
struct AnnotatedObject {
  std::uint64_t start = 0;  // address
  std::uint64_t bytes = 0;
  std::uint32_t kind = 0;
  std::uint32_t site = 0;

  friend auto operator<=>(const AnnotatedObject&, const AnnotatedObject&) = default;
};

// An object as each format shows it.
struct RowObject {
  std::uint64_t start = 0;  // address
  std::uint64_t bytes = 0;
  std::string text;       // "64 KiB by make (a.c:7) < main (a.c:30)", with at most two calls
  std::string full_text;  // with all calls
  Json json;
};

// Follows the objects of a trace's targets. Precondition: it sees all epochs from the first on.
class ObjectReading {
 public:
  virtual ~ObjectReading() = default;

  virtual void See(const EpochProfile& epoch) = 0;
  // False: no epoch told of objects.
  virtual bool tracked() const = 0;
  // Grows with each epoch that names objects. Names from before that epoch may be outdated.
  virtual std::size_t namings() const = 0;
  // Returns the living object that has most of these bytes; nullopt: none is known there.
  virtual std::optional<AnnotatedObject> Largest(TargetId target, std::uint64_t start,
                                                 std::uint64_t end) const = 0;
  virtual std::string Text(const AnnotatedObject& object) const = 0;  // RowObject::text
  virtual RowObject Describe(const AnnotatedObject& object) const = 0;
};

// Addresses that an object of a target had.
struct ObjectRange {
  TargetId target;
  std::uint64_t start = 0;
  std::uint64_t end = 0;

  friend auto operator<=>(const ObjectRange&, const ObjectRange&) = default;
};

class Annotator {
 public:
  // True for targets whose objects are asked for.
  using Follows = std::function<bool(const Target&)>;
  // Called within See() while all that lives at the end of the epoch is still there, even if its
  // process has exited.
  using AtEnd = std::function<void(const EpochProfile&)>;

  virtual ~Annotator() = default;

  // Returns the trace with all that the annotator knows of its objects from elsewhere.
  virtual Result<Trace> Join(const Trace& trace) const = 0;
  virtual std::unique_ptr<ObjectReading> Read(Follows follows, AtEnd at_end) const = 0;
  // Returns the ranges of objects that had this address and a part of a page record in these
  // epochs. Reads the trace. Fails only if the trace cannot be opened.
  virtual Result<std::set<ObjectRange>> RangesAt(std::uint64_t address, const Trace& trace,
                                                 const EpochRange& epochs,
                                                 const Follows& follows) const = 0;
};

}  // namespace tmprof
