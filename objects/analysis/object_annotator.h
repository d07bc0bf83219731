// SPDX-License-Identifier: Apache-2.0
// Names the objects in the rows of views, by what the trace and object profiles tell of them.

#pragma once

#include <cstddef>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "objects/analysis/counted_objects.h"
#include "objects/analysis/object_map.h"
#include "report/analysis/annotator.h"

namespace tmprof {

class ObjectAnnotator : public Annotator {
 public:
  // The live objects of the profiles are joined with those of the trace.
  explicit ObjectAnnotator(ObjectProfiles counts = {}) : counts_(std::move(counts)) {}

  // Refuses a profile whose process the trace does not have.
  Result<Trace> Join(const Trace& trace) const override;
  std::unique_ptr<ObjectReading> Read(Follows follows, AtEnd at_end) const override;
  Result<std::set<ObjectRange>> RangesAt(std::uint64_t address, const Trace& trace,
                                         const EpochRange& epochs,
                                         const Follows& follows) const override;

 private:
  ObjectProfiles counts_;
};

// "64 KiB by make (a.c:7) < main (a.c:30)", "8 KiB variable table of program"
std::string ObjectText(std::uint64_t bytes, TracedKind kind, const ObjectSite& site,
                       std::size_t frames = 2);

}  // namespace tmprof
