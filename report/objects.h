// SPDX-License-Identifier: Apache-2.0
// What an object profile adds up to: bytes, accesses and lifetimes by allocation site or by object,
// and where a program's other accesses went.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/epoch_stream.h"
#include "base/result.h"
#include "proto/objects_file.h"
#include "report/first_rows.h"
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

// Of an array that the program asked to have counted by element.
struct ElementsRow {
  struct Element {
    std::uint64_t index = 0;
    std::uint64_t accesses = 0;
  };
  static constexpr std::size_t kHottest = 5;

  std::uint64_t element_bytes = 0;
  std::uint64_t elements = 0;
  std::uint64_t accessed = 0;    // of them
  std::vector<Element> hottest;  // by accesses, descending, then by index; none of 0
};

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
  std::vector<SourceFrame> frames;      // of an allocation, innermost first
  bool stack_cut = false;               // who called the outermost of these is not known
  std::optional<ElementsRow> elements;  // by object alone

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
  // Linked into others, but built without counting: "libpart.a(one.o) of program".
  std::vector<std::string> uncounted_parts;
  std::vector<std::string> nameless;  // modules whose files are gone or changed
  // Accesses by stacks, or by types, of all rows: "heap;outermost;...;innermost". Those that differ
  // in lines alone are one.
  std::map<std::string, std::uint64_t> stacks;
  std::size_t all_rows = 0;
  // By accesses, then bytes, descending; then as the file has them.
  std::vector<ObjectsRow> rows;
};

// The call that returns to an address, and those that it is inlined in.
using Symbolize = std::function<std::vector<SourceFrame>(std::uint64_t return_address)>;
// The same, which asks once for each address: stacks share most of their calls, and one of them in
// a large compilation unit takes milliseconds to find.
Symbolize AskedOnce(Symbolize symbolize);

struct HotterObject {
  bool operator()(const LiveObject& a, const LiveObject& b) const {
    return a.accesses != b.accesses ? a.accesses > b.accesses : a.bytes > b.bytes;
  }
};

// The parts of a file, in order.
class ObjectsTally {
 public:
  // By object, so many of those that live have rows; unset: all. Memory follows them, and sites.
  explicit ObjectsTally(ObjectsBy by, std::optional<std::size_t> most_objects = std::nullopt)
      : by_(by), objects_(most_objects) {}

  void Add(ObjectsPart part);
  // What it adds up to. Once, at the end.
  ObjectsReport Take(const ObjectsInfo& info, const Symbolize& symbolize);

  const std::vector<LoadedModule>& modules() const { return modules_; }
  // Of calls that the file names; empty of others.
  std::vector<SourceFrame> CallBefore(std::uint64_t return_address) const;

 private:
  struct Live {
    std::uint64_t objects = 0;
    std::uint64_t bytes = 0;
    std::uint64_t accesses = 0;
    std::chrono::milliseconds births{0};  // summed
  };

  using Frames = std::map<std::uint32_t, std::vector<SourceFrame>>;  // by site

  std::vector<ObjectsRow> SiteRows(std::chrono::milliseconds run, const Frames& frames) const;
  std::vector<ObjectsRow> ObjectRows(std::chrono::milliseconds run, const Frames& frames);
  void AddStacks(ObjectsReport& report, const Frames& frames) const;
  bool IsCut(std::uint32_t site) const;

  ObjectsBy by_;
  std::vector<LoadedModule> modules_;
  std::map<std::uint32_t, AllocationSite> sites_;
  std::map<std::uint32_t, Live> live_;
  std::map<std::pair<std::uint64_t, std::string>, VariableCount> variables_;
  std::vector<ThreadStack> stacks_;
  std::map<std::uint64_t, std::vector<SourceFrame>> calls_;  // by return address
  std::uint64_t elsewhere_ = 0;
  FirstRows<LiveObject, HotterObject> objects_;    // by object alone
  std::map<std::uint64_t, ElementsRow> elements_;  // by their object's start
};

// Reads what is left of the file, and the names of its frames from the programs' files.
// By object, `most_objects` as ObjectsTally has it.
ObjectsReport MakeObjects(ObjectsReader& reader, std::string file, ObjectsBy by,
                          std::optional<std::size_t> most_objects = std::nullopt);
// Writes `from` with the names of its calls, as far as the programs' and libraries' files have
// them, so that a report needs none of these. What it has been given before it keeps.
Result<StreamEnd> NameObjects(const std::filesystem::path& from, const std::filesystem::path& to);

// "make_node (tree.c:42) < main (tree.c:99)", innermost first; as many as a line takes.
std::string FramesText(const std::vector<SourceFrame>& frames, std::size_t most = 3);
// What the calls allocate for: the type that a C++ allocator was made for, else "by make_node": the
// innermost function that is not of the C++ library.
std::string TypeText(const std::vector<SourceFrame>& frames);
std::string_view NameOf(ObjectsBy by);
std::string FileName(const std::string& path);  // without its folders
Json FramesJson(const std::vector<SourceFrame>& frames);

// Keeps the first ones.
void LimitRows(ObjectsReport& report, std::size_t rows);

std::string ObjectsText(const ObjectsReport& report);
std::string ObjectsJson(const ObjectsReport& report);
std::string ObjectsCsv(const ObjectsReport& report);
// A line for each of the stacks, "outermost;...;innermost accesses", as flame graphs are made of.
std::string ObjectsFolded(const ObjectsReport& report);
std::string FoldedElement(std::string text);  // of a stack that is folded
// "main;make_node", outermost first.
std::string FoldedFrames(const std::vector<SourceFrame>& frames);

}  // namespace tmprof
