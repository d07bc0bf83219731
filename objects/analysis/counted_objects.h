// SPDX-License-Identifier: Apache-2.0
// Joins object profiles with a trace of the same programs: exact counts and the heat of pages in
// one report.
//
// A profile has the addresses of objects that lived when it was written, and only counts for the
// others. If a tracker reported allocations to the trace (record --objects), the trace has the
// addresses of freed objects, too. Else only the objects that lived have addresses.

#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "objects/analysis/objects.h"
#include "objects/analysis/traced_objects.h"
#include "objects/format/objects_file.h"
#include "proto/trace.h"

namespace tmprof {

class ObjectProfiles {
 public:
  // Reads the whole file. Memory grows with the objects that lived when it was written. Everything
  // before damage counts; `damage` is the reader's.
  Result<StreamEnd> Add(const std::filesystem::path& file);
  // Adds all parts of a profile that were joined into one.
  void Add(std::string file, const ObjectsInfo& info, ObjectsPart all, const Symbolize& symbolize);
  // True if one of several profiles is a forked child's: it has its parent's counts, too.
  bool MayCountTwice() const;
  bool empty() const { return profiles_.empty(); }

  // Refuses a profile if the trace has nothing of its process, which is the one with its PID while
  // the profile was made. If the trace is damaged before the process appears, that is unknown, and
  // nothing is refused. Reads the trace until all processes are found.
  Status RequireProcesses(const Trace& trace) const;

  // Returns the trace with the profiles' live objects and variables among the allocations of its
  // processes. A profile belongs to the process that had its PID while it was made. A trace that
  // has allocations is returned unchanged.
  Trace Beside(const Trace& trace) const;

  // Sets the counts of the rows' objects. A row of a site has the counts of its allocations; rows
  // that may be the same site have none. Processes outside of the trace's epochs do not count.
  // Precondition: `objects` has all its rows.
  void Count(TracedObjects& objects) const;

  // Everything that one stack of calls allocated.
  struct CountedSite {
    std::uint32_t id = 0;                 // the profile's number of it
    std::span<const SourceFrame> frames;  // innermost first; empty: unknown
    std::uint64_t accesses = 0;           // to live and freed objects
  };
  struct CountedSites {
    std::string file;
    std::vector<CountedSite> sites;
    std::span<const LiveObject> live;  // in order of birth
  };
  // Returns the sites of each profile, in the order in which profiles were added. They are valid as
  // long as this object is.
  std::vector<CountedSites> Sites() const;

 private:
  struct Profile;
  class Stream;

  std::vector<std::shared_ptr<const Profile>> profiles_;
};

}  // namespace tmprof
