// SPDX-License-Identifier: Apache-2.0
// Reads the object profile that an instrumented program writes; docs/trace-format.md has the
// layout. objects/ writes it.

#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/epoch_stream.h"
#include "base/result.h"
#include "base/units.h"
#include "objects/format/allocations.h"

namespace tmprof {

struct ObjectsInfo {
  Pid pid;
  Pid parent;
  // Forks since the program began. Not 0: counts and totals up to the last fork are its parent's,
  // too.
  std::uint32_t forks = 0;
  std::string program;
  MonotonicTime start;  // time of the first allocation
  MonotonicTime written;
  std::chrono::system_clock::time_point wall_start;  // at `start`
};

// A module at [start, end) when the file was written.
struct LoadedModule {
  std::string path;      // empty: the program itself
  std::string build_id;  // bytes; empty: there is none
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t bias = 0;  // an address minus this is the one in the file's symbol table
  bool instrumented = false;
  // Before the file was written; another module may have come to its addresses.
  bool closed = false;
  std::vector<std::string> uncounted = {};  // parts of it that were not instrumented
};

// All allocations of one stack, including live ones.
struct AllocationSite {
  std::uint32_t id = 0;                         // 0: stack unknown
  std::vector<std::uint64_t> return_addresses;  // innermost first
  bool is_cut = false;                          // the caller of the outermost call is not known
  std::uint64_t objects = 0;
  std::uint64_t bytes = 0;
  std::uint64_t freed_objects = 0;
  std::uint64_t freed_bytes = 0;
  std::uint64_t freed_accesses = 0;
  std::chrono::milliseconds freed_age{0};  // summed
};

// A variable of an instrumented module. Entries with one start are one variable, and their counts
// add up.
struct VariableCount {
  std::string name;  // the ELF symbol
  std::uint64_t start = 0;
  std::uint64_t bytes = 0;
  std::uint64_t accesses = 0;
};

struct ThreadStack {
  std::uint32_t number = 0;
  // Threads that had it, one after the other; the addresses are the last one's.
  std::uint32_t threads = 0;
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t accesses = 0;
};

struct LiveObject {
  std::uint64_t start = 0;
  std::uint64_t bytes = 0;
  std::uint32_t site = 0;
  std::chrono::milliseconds birth{0};  // since ObjectsInfo::start
  std::uint64_t accesses = 0;
};

struct ElementCounts {
  std::uint64_t start = 0;  // address of the object
  std::uint64_t element_bytes = 0;
  std::vector<std::uint64_t> accesses;
};

struct NamedCall {
  std::uint64_t return_address = 0;
  std::vector<SourceFrame> frames;  // innermost first
};

// The file's parts together have all data.
struct ObjectsPart {
  std::vector<LoadedModule> modules;
  std::vector<AllocationSite> sites;
  std::vector<VariableCount> variables;
  std::vector<ThreadStack> stacks;
  std::uint64_t elsewhere = 0;      // accesses to none of these
  std::vector<LiveObject> objects;  // ascending by address through the file
  std::vector<ElementCounts> elements;
  std::vector<NamedCall> calls;  // added when the file was converted
};

// True if the file begins as an object profile. False for a pipe, whose beginning the check would
// consume.
bool IsObjectProfile(const std::filesystem::path& path);

// Memory is bounded by the largest part. Not thread-safe.
class ObjectsReader {
 public:
  // Fails on a wrong magic number, a newer version, or a damaged header. Takes anything that can be
  // read from start to end, including a pipe.
  static Result<ObjectsReader> Open(const std::filesystem::path& path);
  ObjectsReader(ObjectsReader&&) noexcept;
  ObjectsReader& operator=(ObjectsReader&&) noexcept;
  ~ObjectsReader();

  const ObjectsInfo& info() const;

  // Overwrites `part` with the next one; returns false at the end. Errors name the file and the
  // byte offset of the frame that is cut or damaged, and stay. Earlier parts remain valid.
  Result<bool> Next(ObjectsPart& part);

  // Tells if the program wrote all of it. Precondition: Next() returned false.
  bool finished() const;
  StreamEnd End() const;

 private:
  struct State;
  explicit ObjectsReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Writes all data of `from` to `to`, compressed, and the names of calls. If `from` has an error or
// no end, `to` has no end either.
Status CopyObjects(const std::filesystem::path& from, const std::filesystem::path& to,
                   const std::vector<NamedCall>& calls);

}  // namespace tmprof
