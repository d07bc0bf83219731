// SPDX-License-Identifier: Apache-2.0
// Reads what an instrumented program says of its objects; docs/trace-format.md has the layout.
// objtrace/ writes it.

#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/allocations.h"
#include "base/epoch_stream.h"
#include "base/result.h"
#include "base/units.h"

namespace tmprof {

struct ObjectsInfo {
  Pid pid;
  Pid parent;
  // Since the program began. Not 0: counts and totals up to the last fork are its parent's, too.
  std::uint32_t forks = 0;
  std::string program;
  MonotonicTime start;  // of the first allocation
  MonotonicTime written;
  std::chrono::system_clock::time_point wall_start;  // at `start`
};

// As it was loaded when the file was written: [start, end).
struct LoadedModule {
  std::string path;      // empty: the program itself
  std::string build_id;  // bytes; empty: it has none
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t bias = 0;  // an address less this is the one in the file's symbol table
  bool instrumented = false;
  bool closed = false;  // before the file was written: another may have come to its addresses
  std::vector<std::string> uncounted = {};  // parts of it that were not instrumented
};

// All allocations of one stack, with those that live.
struct AllocationSite {
  std::uint32_t id = 0;                         // 0: stack unknown
  std::vector<std::uint64_t> return_addresses;  // innermost first
  bool is_cut = false;                          // who called the outermost of them is not known
  std::uint64_t objects = 0;
  std::uint64_t bytes = 0;
  std::uint64_t freed_objects = 0;
  std::uint64_t freed_bytes = 0;
  std::uint64_t freed_accesses = 0;
  std::chrono::milliseconds freed_age{0};  // summed
};

// A variable of an instrumented module. Those of one start are one variable: their counts add up.
struct VariableCount {
  std::string name;  // the ELF symbol
  std::uint64_t start = 0;
  std::uint64_t bytes = 0;
  std::uint64_t accesses = 0;
};

struct ThreadStack {
  std::uint32_t number = 0;
  std::uint32_t threads = 0;  // that had it, one after the other: the addresses are the last one's
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
  std::uint64_t start = 0;  // of the object
  std::uint64_t element_bytes = 0;
  std::vector<std::uint64_t> accesses;
};

struct NamedCall {
  std::uint64_t return_address = 0;
  std::vector<SourceFrame> frames;  // innermost first
};

// The file's parts together say it all.
struct ObjectsPart {
  std::vector<LoadedModule> modules;
  std::vector<AllocationSite> sites;
  std::vector<VariableCount> variables;
  std::vector<ThreadStack> stacks;
  std::uint64_t elsewhere = 0;      // accesses to what is none of these
  std::vector<LiveObject> objects;  // ascending by address through the file
  std::vector<ElementCounts> elements;
  std::vector<NamedCall> calls;  // by whom converted the file
};

// Whether the file begins as one. A pipe, of which that takes the beginning away, does not.
bool IsObjectProfile(const std::filesystem::path& path);

// Streams: memory is bounded by the largest part. Not thread-safe.
class ObjectsReader {
 public:
  // Fails on a wrong magic number, a version of the future, or a damaged header. Takes anything
  // that can be read from start to end, a pipe too.
  static Result<ObjectsReader> Open(const std::filesystem::path& path);
  ObjectsReader(ObjectsReader&&) noexcept;
  ObjectsReader& operator=(ObjectsReader&&) noexcept;
  ~ObjectsReader();

  const ObjectsInfo& info() const;

  // Overwrites `part` with the next one; false at the end. Errors name the file and the byte offset
  // of the frame that is cut or damaged, and stay: what came before stands.
  Result<bool> Next(ObjectsPart& part);

  // After Next() returned false: whether the program wrote all of it.
  bool finished() const;
  StreamEnd End() const;

 private:
  struct State;
  explicit ObjectsReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Writes all that `from` has to `to`, compressed, and the names of calls. An error of `from` leaves
// `to` without an end; so does the end that `from` lacks.
Status CopyObjects(const std::filesystem::path& from, const std::filesystem::path& to,
                   const std::vector<NamedCall>& calls);

}  // namespace tmprof
