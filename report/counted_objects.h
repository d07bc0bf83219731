// SPDX-License-Identifier: Apache-2.0
// Object profiles beside a trace of the same programs: exact counts and the heat of pages in one
// report.
//
// A profile has the places of what lived when it was written, and of the rest the counts alone.
// Where a tracker told the trace of allocations (record --objects), it also knows where those were
// that are gone; else what lived is all that has places.

#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "proto/objects_file.h"
#include "report/objects.h"
#include "report/trace.h"
#include "report/traced_objects.h"

namespace tmprof {

class ObjectProfiles {
 public:
  // Reads the whole file: memory follows what lived when it was written. What comes before damage
  // counts; `damage` is the reader's.
  Result<StreamEnd> Add(const std::filesystem::path& file);
  // The same of all its parts in one.
  void Add(std::string file, const ObjectsInfo& info, ObjectsPart all, const Symbolize& symbolize);
  // Whether several are there of which one is a forked child's, that has its parent's counts, too.
  bool MayCountTwice() const;
  bool empty() const { return profiles_.empty(); }

  // Refuses a profile of whose process the trace has nothing: of its PID while it was made. Of a
  // trace that is damaged before it has one, that is unknown. Reads it until all are found.
  Status RequireProcesses(const Trace& trace) const;

  // The trace with what lived, and with variables, in its processes' allocations: of the process of
  // the same PID while the profile was made. A trace that has allocations is as it is.
  Trace Beside(const Trace& trace) const;

  // Sets what the rows' objects were counted. Of a site, those that its allocations had; several
  // rows that may be the same site have none. Those of processes that are not in its epochs do not
  // count. Precondition: `objects` has all its rows.
  void Count(TracedObjects& objects) const;

  // All that one stack of calls allocated.
  struct CountedSite {
    std::uint32_t id = 0;                 // in its profile
    std::span<const SourceFrame> frames;  // innermost first; empty: unknown
    std::uint64_t accesses = 0;           // to what lives and to what was freed
  };
  struct CountedSites {
    std::string file;
    std::vector<CountedSite> sites;
    std::span<const LiveObject> live;  // by birth
  };
  // Of each profile, as they were added; valid as long as these are.
  std::vector<CountedSites> Sites() const;

 private:
  struct Profile;
  class Stream;

  std::vector<std::shared_ptr<const Profile>> profiles_;
};

}  // namespace tmprof
