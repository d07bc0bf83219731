// SPDX-License-Identifier: Apache-2.0
// What an object profile adds up to: bytes, accesses and lifetimes by allocation site or by object,
// and where a program's other accesses went.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/epoch_stream.h"
#include "base/result.h"
#include "proto/objects_file.h"
#include "report/format.h"
#include "report/symbols.h"

namespace tmprof {

enum class ObjectsBy : std::uint8_t {
  kSite,    // all allocations by one stack of calls; each variable; each thread stack
  kType,    // all allocations for one C++ type, else by one function (TypeText())
  kObject,  // each object that lived at the end; each variable; each thread stack
};
Result<ObjectsBy> ParseObjectsBy(std::string_view text);  // "site", "type", "object"

enum class ObjectKind : std::uint8_t { kHeap, kVariable, kStack, kElsewhere };

struct ObjectsRow {
  ObjectKind kind = ObjectKind::kHeap;
  std::string name;                    // of what is not one site or object; empty: see the frames
  std::optional<std::uint64_t> start;  // unset: of several objects
  std::uint64_t objects = 0;           // ever
  std::uint64_t live_objects = 0;      // when the file was written
  std::optional<std::uint64_t> bytes;  // of all of them
  std::uint64_t live_bytes = 0;
  std::uint64_t accesses = 0;
  // Mean; of objects that live, until the file was written. Unset: not known of what was not
  // allocated.
  std::optional<std::chrono::milliseconds> lifetime;
  std::vector<SourceFrame> frames;  // of an allocation, innermost first

  std::optional<double> AccessesPerByte() const;
};

struct ObjectsReport {
  std::string file;
  ObjectsInfo info;
  StreamEnd end;
  ObjectsBy by = ObjectsBy::kSite;
  std::uint64_t accesses = 0;                 // to all there is
  std::map<ObjectKind, std::uint64_t> kinds;  // their accesses
  std::uint64_t freed_objects = 0;
  std::uint64_t freed_accesses = 0;         // no row of an object by itself has them
  std::vector<std::string> uninstrumented;  // modules, by path
  std::vector<std::string> nameless;        // modules whose files are gone or changed
  std::size_t all_rows = 0;
  // By accesses, then bytes, descending; then as the file has them.
  std::vector<ObjectsRow> rows;
};

// The call that returns to an address, and those that it is inlined in.
using Symbolize = std::function<std::vector<SourceFrame>(std::uint64_t return_address)>;

// The parts of a file, in order.
class ObjectsTally {
 public:
  explicit ObjectsTally(ObjectsBy by) : by_(by) {}

  void Add(ObjectsPart part);
  // What it adds up to. Once, at the end.
  ObjectsReport Take(const ObjectsInfo& info, const Symbolize& symbolize);

  const std::vector<LoadedModule>& modules() const { return modules_; }

 private:
  struct Live {
    std::uint64_t objects = 0;
    std::uint64_t bytes = 0;
    std::uint64_t accesses = 0;
    std::chrono::milliseconds births{0};  // summed
  };

  using Frames = std::map<std::uint32_t, std::vector<SourceFrame>>;  // by site

  std::vector<ObjectsRow> SiteRows(std::chrono::milliseconds run, const Frames& frames) const;
  std::vector<ObjectsRow> ObjectRows(std::chrono::milliseconds run, const Frames& frames) const;

  ObjectsBy by_;
  std::vector<LoadedModule> modules_;
  std::map<std::uint32_t, AllocationSite> sites_;
  std::map<std::uint32_t, Live> live_;
  std::map<std::pair<std::uint64_t, std::string>, VariableCount> variables_;
  std::vector<ThreadStack> stacks_;
  std::uint64_t elsewhere_ = 0;
  std::vector<LiveObject> objects_;  // by object alone
};

// Reads what is left of the file, and the names of its frames from the programs' files.
ObjectsReport MakeObjects(ObjectsReader& reader, std::string file, ObjectsBy by);
// "make_node (tree.c:42) < main (tree.c:99)", innermost first; as many as a line takes.
std::string FramesText(const std::vector<SourceFrame>& frames, std::size_t most = 3);
// What the calls allocate for: the type that a C++ allocator was made for, else "by make_node": the
// innermost function that is not of the C++ library.
std::string TypeText(const std::vector<SourceFrame>& frames);
std::string_view NameOf(ObjectsBy by);
Json FramesJson(const std::vector<SourceFrame>& frames);

// Keeps the first ones.
void LimitRows(ObjectsReport& report, std::size_t rows);

std::string ObjectsText(const ObjectsReport& report);
std::string ObjectsJson(const ObjectsReport& report);
std::string ObjectsCsv(const ObjectsReport& report);
// A line for each row, "outermost;...;innermost accesses", as flame graphs are made of.
std::string ObjectsFolded(const ObjectsReport& report);
// "main;make_node", outermost first.
std::string FoldedFrames(const std::vector<SourceFrame>& frames);

}  // namespace tmprof
