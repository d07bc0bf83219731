// SPDX-License-Identifier: Apache-2.0
// Adds up an object profile: bytes, accesses and lifetimes by allocation site or by object, and a
// program's other accesses.

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
#include "base/text/first_rows.h"
#include "base/text/format.h"
#include "base/text/text_table.h"
#include "objects/analysis/symbols.h"
#include "objects/format/objects_file.h"

namespace tmprof {

enum class ObjectsBy : std::uint8_t {
  kSite,    // all allocations by one stack of calls; each variable; each thread stack
  kType,    // all allocations of one C++ type, else by one function (TypeText())
  kObject,  // each object that lived at the end; each variable; each thread stack
};
Result<ObjectsBy> ParseObjectsBy(std::string_view text);  // "site", "type", "object"

enum class ObjectKind : std::uint8_t { kHeap, kVariable, kStack, kElsewhere };

// An array that the program asked to have counted by element.
struct ElementsRow {
  struct Element {
    std::uint64_t index = 0;
    std::uint64_t accesses = 0;
  };
  static constexpr std::size_t kHottest = 5;

  std::uint64_t element_bytes = 0;
  std::uint64_t elements = 0;
  std::uint64_t accessed = 0;  // elements with an access
  // Sorted by accesses, descending, then by index; no element has none.
  std::vector<Element> hottest;
};

struct ObjectsRow {
  ObjectKind kind = ObjectKind::kHeap;
  std::string name;  // if the row is not one site or object; empty: see the frames
  std::optional<std::uint64_t> start;  // unset: several objects
  std::uint64_t objects = 0;           // ever
  std::uint64_t live_objects = 0;      // when the file was written
  std::optional<std::uint64_t> bytes;  // bytes of all objects
  std::uint64_t live_bytes = 0;
  std::uint64_t accesses = 0;
  // Mean lifetime. A living object counts until the file was written. Unset: unknown, because the
  // objects were not allocated.
  std::optional<std::chrono::milliseconds> lifetime;
  std::vector<SourceFrame> frames;      // stack of the allocation, innermost first
  bool stack_cut = false;               // the caller of the outermost frame is not known
  std::optional<ElementsRow> elements;  // only in rows of objects

  std::optional<double> AccessesPerByte() const;
};

struct ObjectsReport {
  std::string file;
  ObjectsInfo info;
  StreamEnd end;
  ObjectsBy by = ObjectsBy::kSite;
  std::uint64_t accesses = 0;                 // to all objects and elsewhere
  std::map<ObjectKind, std::uint64_t> kinds;  // accesses of each kind
  std::uint64_t freed_objects = 0;
  std::uint64_t freed_accesses = 0;         // objects' own rows do not include these
  std::vector<std::string> uninstrumented;  // modules, by path
  // Object files that are linked into modules but were built without counting: "libpart.a(one.o) of
  // program".
  std::vector<std::string> uncounted_parts;
  std::vector<std::string> nameless;  // modules whose files are gone or changed
  // Accesses by stack, or by type, of all rows: "heap;outermost;...;innermost". Stacks that differ
  // only in lines are one.
  std::map<std::string, std::uint64_t> stacks;
  std::size_t all_rows = 0;
  // Ordered by accesses, then bytes, descending; then in the order of the file.
  std::vector<ObjectsRow> rows;
};

// Returns the call that returns to an address, and the calls that it is inlined in.
using Symbolize = std::function<std::vector<SourceFrame>(std::uint64_t return_address)>;
// Returns a function that looks up each address once. Stacks share most of their calls, and a call
// in a large compilation unit takes milliseconds to find.
Symbolize AskedOnce(Symbolize symbolize);

struct HotterObject {
  bool operator()(const LiveObject& a, const LiveObject& b) const {
    return a.accesses != b.accesses ? a.accesses > b.accesses : a.bytes > b.bytes;
  }
};

// Adds up the parts of a file, in order.
class ObjectsTally {
 public:
  // With kObject, at most `most_objects` living objects have rows; unset: all. Memory grows with
  // them and with the sites.
  explicit ObjectsTally(ObjectsBy by, std::optional<std::size_t> most_objects = std::nullopt)
      : by_(by), objects_(most_objects) {}

  void Add(ObjectsPart part);
  // Returns the sums. Precondition: it is called once, at the end.
  ObjectsReport Take(const ObjectsInfo& info, const Symbolize& symbolize);

  const std::vector<LoadedModule>& modules() const { return modules_; }
  // Returns the frames of calls that the file itself names; empty for others.
  std::vector<SourceFrame> CallBefore(std::uint64_t return_address) const;

 private:
  struct Live {
    std::uint64_t objects = 0;
    std::uint64_t bytes = 0;
    std::uint64_t accesses = 0;
    std::chrono::milliseconds births{0};  // summed
  };

  using Frames = std::map<std::uint32_t, std::vector<SourceFrame>>;  // key: site

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
  std::map<std::uint64_t, std::vector<SourceFrame>> calls_;  // key: return address
  std::uint64_t elsewhere_ = 0;
  FirstRows<LiveObject, HotterObject> objects_;    // only by object
  std::map<std::uint64_t, ElementsRow> elements_;  // key: the start of their object
};

// Reads the rest of the file, and the names of its frames from the programs' files. `most_objects`
// limits the rows by object (ObjectsTally).
ObjectsReport MakeObjects(ObjectsReader& reader, std::string file, ObjectsBy by,
                          std::optional<std::size_t> most_objects = std::nullopt);
// Writes `from` to `to` with the names of its calls, as far as the files of programs and libraries
// have them. A report of `to` needs none of these files. Names that `from` already has are kept.
Result<StreamEnd> NameObjects(const std::filesystem::path& from, const std::filesystem::path& to);

// Returns "make_node (tree.c:42) < main (tree.c:99)", innermost first, with as many frames as a
// line takes.
std::string FramesText(const std::vector<SourceFrame>& frames, std::size_t most = 3);
// Columns of a terminal that the names of frames need at least.
inline constexpr std::size_t kShortestSite = 28;
// Names what the calls allocate for: the type of the C++ allocator, else "by make_node", which is
// the innermost function outside of the C++ library.
std::string TypeText(const std::vector<SourceFrame>& frames);
std::string_view NameOf(ObjectsBy by);
std::string FileName(const std::string& path);  // without its folders
Json FramesJson(const std::vector<SourceFrame>& frames);

// Keeps the first `rows` rows.
void LimitRows(ObjectsReport& report, std::size_t rows);

std::string ObjectsText(const ObjectsReport& report, TextWidth width = {});
std::string ObjectsJson(const ObjectsReport& report);
std::string ObjectsCsv(const ObjectsReport& report);
// Returns a line for each stack, "outermost;...;innermost accesses": the input of flame graph
// tools.
std::string ObjectsFolded(const ObjectsReport& report);
std::string FoldedElement(std::string text);  // one element of a folded stack
// Returns "main;make_node", outermost first.
std::string FoldedFrames(const std::vector<SourceFrame>& frames);

}  // namespace tmprof
