// SPDX-License-Identifier: Apache-2.0
// Reads the page tables of any process through BPF: accessed bits and frames, at well under one
// nanosecond per page, without a module.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace tmprof::abit {

// Two ways into the kernel, best first.
enum class KernelWay : std::uint8_t {
  kSyscallProgram,   // a program that finds the task and the mapping: Linux 6.10
  kMappingIterator,  // iter/task_vma: Linux 5.12
};
std::string_view Name(KernelWay way);  // "syscall program", "mapping iterator"

inline constexpr PageCount kTablePages{512};        // one last-level table, or one 2 MiB page
inline constexpr PageCount kGiantPages{512 * 512};  // one 1 GiB page

// One entry as the processor sees it (Intel SDM vol. 3A, 5.5; AMD APM vol. 2, 5.3).
class TableEntry {
 public:
  constexpr TableEntry() = default;
  constexpr explicit TableEntry(std::uint64_t bits) : bits_(bits) {}

  constexpr bool present() const { return bits_ & 1; }
  constexpr bool accessed() const { return (bits_ & 0x21) == 0x21; }
  constexpr bool writable() const { return bits_ & 2; }
  // Linux' own mark for frames that belong to nobody: the zero page, device memory.
  constexpr bool special() const { return bits_ & (1 << 9); }
  // Precondition: present. `mask` is the reader's frame_mask().
  constexpr std::uint64_t frame(std::uint64_t mask) const {
    return (bits_ & mask) >> kBasePageShift;
  }

 private:
  std::uint64_t bits_ = 0;
};

// 2 MiB of address space with a table of base pages, or one huge leaf.
struct TablePart {
  Vpn start;                               // aligned to `span`
  PageCount span{kTablePages};             // kTablePages or kGiantPages
  TableEntry leaf;                         // the huge page's own entry
  std::span<const std::uint64_t> entries;  // 512 of a table; empty for a huge leaf
  bool huge = false;
};

enum class ReadOutcome : std::uint8_t {
  kDone,
  kBusy,         // the process kept its mmap_lock for writing
  kUnmapped,     // no mapping holds the start of the range
  kProcessGone,  // no such process, or it has no address space any more
  kRefused,      // the kernel refuses, with `system_error`; says nothing of the process
};

struct ReadResult {
  ReadOutcome outcome = ReadOutcome::kDone;
  std::uint64_t address_space = 0;    // changes when the process executes another program
  MonotonicTime time;                 // middle of the read
  std::uint32_t running_threads = 0;  // the process's threads on a CPU at that time
  std::uint32_t torn_tables = 0;      // replaced under the reader, left out
  std::uint32_t busy_retries = 0;
  std::optional<int> system_error;  // set for kRefused
  // Below the end of the range when the walk ran out of room, or the last table of the mapping that
  // holds the start ended.
  Vpn next;
};

// The entry that maps one page.
struct PointEntry {
  bool read = false;  // false: it could not be, and nothing is known
  TableEntry entry;   // not present: nothing is there
  PageCount unit{1};  // base pages that it maps
};

// Not thread-safe; a second reader is independent of the first.
class PageTableReader {
 public:
  // The best way that this kernel offers; `fallback_reason` of the result says why not a better
  // one.
  static Result<std::unique_ptr<PageTableReader>> Open();
  static Result<std::unique_ptr<PageTableReader>> Open(KernelWay way);
  virtual ~PageTableReader() = default;

  enum class Depth : std::uint8_t {
    kEntries,  // copy the tables
    kShape,    // only which parts exist and which are huge
  };
  // Looks at `range`, at most 512 parts of it, up to the end of the last table that the mapping of
  // its start has a part in: other mappings' pages there are seen as well. kUnmapped: no mapping
  // holds the start, whatever the rest of the range holds. `parts` ascend, are overwritten, and
  // view memory that the next Read() overwrites.
  virtual ReadResult Read(Pid pid, VpnRange range, Depth depth, std::vector<TablePart>& parts) = 0;

  // The entries of single pages, ascending, in one go where the kernel offers that. kDone: what is
  // not mapped any more is not present.
  virtual ReadResult ReadPoints(Pid pid, std::span<const Vpn> pages,
                                std::vector<PointEntry>& entries) = 0;

  virtual KernelWay way() const = 0;
  virtual std::uint64_t frame_mask() const = 0;
  const std::string& fallback_reason() const { return fallback_reason_; }

 private:
  std::string fallback_reason_;
};

// ReadPoints() by reads of one page each, for kernels that offer no better.
template <typename ReadPage>
ReadResult ReadOneByOne(std::span<const Vpn> pages, std::vector<PointEntry>& entries,
                        ReadPage read_page) {
  entries.assign(pages.size(), PointEntry{});
  std::vector<TablePart> parts;
  ReadResult all;
  for (std::size_t i = 0; i < pages.size(); ++i) {
    const ReadResult one = read_page(VpnRange{pages[i], pages[i] + PageCount(1)}, parts);
    all.busy_retries += one.busy_retries;
    all.torn_tables += one.torn_tables;
    all.time = one.time;
    if (one.outcome == ReadOutcome::kBusy) continue;
    if (one.outcome == ReadOutcome::kUnmapped) {
      entries[i].read = true;
      continue;
    }
    if (one.outcome != ReadOutcome::kDone) {
      all.outcome = one.outcome;
      all.system_error = one.system_error;
      return all;
    }
    all.address_space = one.address_space;
    all.running_threads = one.running_threads;
    entries[i].read = one.torn_tables == 0;
    for (const TablePart& part : parts) {
      if (pages[i] < part.start || pages[i] >= part.start + part.span) continue;
      entries[i].unit = part.huge ? part.span : PageCount(1);
      entries[i].entry =
          part.huge ? part.leaf : TableEntry(part.entries[(pages[i] - part.start).value()]);
    }
  }
  return all;
}

}  // namespace tmprof::abit
