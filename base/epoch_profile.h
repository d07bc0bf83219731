// SPDX-License-Identifier: Apache-2.0
// The record that reports, replay and the daemon share: the evidence of every source in one epoch.

#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/epoch_extension.h"
#include "base/log_duration.h"
#include "base/page_key.h"
#include "base/units.h"

namespace tmprof {

// True if one page-table entry can map a span of so many base pages: 4 KiB, 2 MiB or 1 GiB. Any
// other span is a region, which was looked at one page at a time.
constexpr bool IsOneEntry(std::uint64_t span_pages) {
  return span_pages == 1 || span_pages == 512 || span_pages == 262'144;
}

// Delays from a clear to the read in fast tries of a page. Each delay but the first is tried only
// if all tries of the one before found the page set.
inline constexpr std::array<std::chrono::nanoseconds, 3> kFastTryDelays{
    std::chrono::microseconds(64), std::chrono::microseconds(16), std::chrono::microseconds(4)};

// Columns of equal length, strictly ascending by (target, vpn); spans do not overlap.
//
// A record exists for each span that a source looked at or sampled in the epoch. A record also
// exists for a span whose accessed bit was found set and could not be cleared, which only says that
// the span was accessed at some time, and for pages that `same_as` alone tells of. No record means
// unknown, not cold. `looks` 0 means that no
// accessed bit was read after a clear: `references` and `first_accesses` then say nothing about the
// span.
//
// Each look at a region was at one of its pages, chosen at random. `looks` and `references` of a
// region are those that each page would have if it had been looked at as well. `first_accesses` are
// those seen, summed over these pages. `time_at_risk` is the time in which the pages were watched
// for them, divided by the pages of the region. For every span, first accesses over span x time at
// risk therefore estimate the rate of a base page, with the error of a count of so many.
struct PageColumns {
  // Exact counts, by a source of the role kTruth. If an epoch has them, they hold for all memory: a
  // record's 0 is known, and a page without a record was not accessed.
  struct Accesses {
    std::vector<std::uint64_t> loads;
    std::vector<std::uint64_t> stores;
    std::optional<std::vector<std::uint64_t>> llc_misses;   // nullopt: no cache was modelled
    std::optional<std::vector<std::uint64_t>> dtlb_misses;  // nullopt: no TLB was modelled
    // Those of llc_misses that a prefetcher hid; nullopt: no prefetcher was modelled.
    std::optional<std::vector<std::uint64_t>> hidden_misses;
    // Time that the program waited for memory; nullopt: it was not modelled.
    std::optional<std::vector<std::uint64_t>> stall_ns;

    friend bool operator==(const Accesses&, const Accesses&) = default;
  };

  // Tries of pages that the first read of a visit found set. The page is cleared and read again
  // after 4 to 64 us of the target's CPU time. Tries are not part of `looks`. A shorter delay is
  // tried only if all tries of the longer one found the page set.
  struct FastTries {
    std::vector<std::uint32_t> looks;  // tries of the shortest delay that a page reached
    std::vector<std::uint32_t> found;  // tries that found the bit set, <= looks
    std::vector<LogDuration> time;     // target CPU time from clear to read, summed over the tries
    // Earlier tries, of longer delays; all of them found the bit set.
    std::vector<std::uint32_t> earlier;
    std::vector<LogDuration> earlier_time;  // target CPU time of these, in the form of `time`

    friend bool operator==(const FastTries&, const FastTries&) = default;
  };

  // Reads that found the first accesses. The first read of a visit follows a clear; any other one
  // follows a read that left the span unset. The first access lies somewhere in between, and half
  // of that time is part of `time_at_risk`.
  struct FindingReads {
    std::vector<std::uint32_t> first_reads;  // first accesses that first reads found
    std::vector<LogDuration> first_time;     // target CPU time since the clear, summed over these
    std::vector<LogDuration> later_time;     // since the read before, summed over the others

    friend bool operator==(const FindingReads&, const FindingReads&) = default;
  };

  // Evidence of visits whose first read was in this epoch. Later reads of older visits are no fair
  // sample: only pages that were slow to be accessed are still watched by then. First accesses that
  // first reads found are of new visits by definition. A part of the evidence that is not known to
  // be of new visits is left out. Without time at risk there are no first accesses.
  struct NewVisits {
    std::vector<std::uint32_t> first_accesses;  // <= those of all visits
    std::vector<LogDuration> time_at_risk;
    std::vector<LogDuration> later_time;  // FindingReads::later_time of these visits

    friend bool operator==(const NewVisits&, const NewVisits&) = default;
  };

  std::vector<TargetId> target;
  std::vector<Vpn> vpn;                   // first base page of the span
  std::vector<std::uint32_t> span_pages;  // base pages: 1, 512 (2 MiB), 262144 (1 GiB), a region
  std::vector<std::uint32_t> looks;       // A-bit reads after a clear
  std::vector<std::uint32_t> references;  // looks that found the bit set, <= looks
  std::vector<std::uint32_t> first_accesses;  // clears whose time to first access was seen
  std::vector<LogDuration> time_at_risk;      // target CPU time watched before those, per base page
  std::vector<std::uint32_t> load_samples;
  std::vector<std::uint32_t> store_samples;
  std::vector<std::optional<NodeId>> node;  // its node when it was last resolved in the epoch
  std::optional<Accesses> accesses;         // nullopt: they were not counted
  // nullopt, or zeros beside first accesses: it is unknown which reads found them.
  std::optional<FindingReads> finding_reads;
  std::optional<FastTries> fast_tries;  // nullopt: no page of this epoch was tried
  // Index of the first record of the same physical pages, such as those of a forked process. A
  // record that names itself is of other pages than the records before it that have as many pages.
  // Nothing is known of two records if either has samples but no looks, or is kNotCompared
  // (base/kept_groups.h). nullopt: the pages of this epoch were not compared.
  std::optional<std::vector<std::uint32_t>> same_as;
  std::optional<NewVisits> new_visits;  // nullopt: it is unknown when visits began

  std::size_t size() const { return vpn.size(); }
  bool empty() const { return vpn.empty(); }
  void Reserve(std::size_t records);
  PageKey key(std::size_t i) const { return {target[i], vpn[i]}; }
  bool WasSeenAccessed(std::size_t i) const;  // counts any source

  friend bool operator==(const PageColumns&, const PageColumns&) = default;
};

// The true accesses of a program to a span in an epoch, from a source that counts each access. A
// read-modify-write is a load and a store. PageRecord::accesses is nullopt if the profile has no
// such source.
struct AccessCounts {
  std::uint64_t loads = 0;
  std::uint64_t stores = 0;
  std::optional<std::uint64_t> llc_misses;   // those that missed; nullopt: no cache was modelled
  std::optional<std::uint64_t> dtlb_misses;  // those that missed; nullopt: no TLB was modelled
  // Those of llc_misses that were hidden by a prefetcher; nullopt: none was modelled.
  std::optional<std::uint64_t> hidden_misses;
  std::optional<std::uint64_t> stall_ns;  // waiting for memory; nullopt: it was not modelled

  friend bool operator==(const AccessCounts&, const AccessCounts&) = default;
};

// One row of PageColumns, for code that handles single records.
struct PageRecord {
  PageKey key;
  PageCount span{1};
  std::uint32_t looks = 0;
  std::uint32_t references = 0;
  std::uint32_t first_accesses = 0;
  LogDuration time_at_risk;
  std::uint32_t first_read_finds = 0;  // PageColumns::FindingReads
  LogDuration first_read_time;
  LogDuration later_read_time;
  std::uint32_t load_samples = 0;
  std::uint32_t store_samples = 0;
  std::optional<NodeId> node;
  std::optional<AccessCounts> accesses;
  std::uint32_t fast_looks = 0;  // PageColumns::FastTries; all 0: the page was not tried
  std::uint32_t fast_found = 0;
  LogDuration fast_time;
  std::uint32_t fast_earlier = 0;
  LogDuration fast_earlier_time;
  std::uint32_t new_first_accesses = 0;  // PageColumns::NewVisits
  LogDuration new_time_at_risk;
  LogDuration new_later_read_time;
};

// True if it is known which reads found its first accesses (PageColumns::FindingReads).
bool TellsFindingReads(const PageRecord& record);

PageRecord RecordAt(const PageColumns& columns, std::size_t i);
// Precondition: record.key is at or past the end of the last span. If one record has exact
// accesses, all others without them, before and after, had none.
void Append(PageColumns& columns, const PageRecord& record);

enum class SourceRole : std::uint8_t {
  kReferences,  // accessed bits
  kSamples,     // address samples
  kTruth,       // exact access counts
};

enum class SourceState : std::uint8_t {
  kActive,       // on for at least part of the epoch
  kGated,        // switched off by the gate for the whole epoch
  kUnavailable,  // refused by the system or not requested; `note` says why
};

// A named count that only one kind of source has ("no_address", "kernel_mode", "shared_pages").
struct NamedCount {
  std::string name;
  std::uint64_t count = 0;
  friend bool operator==(const NamedCount&, const NamedCount&) = default;
};

// The subject of a source's address samples.
enum class SampleSubject : std::uint8_t {
  kMemory,  // accesses that memory served: the last-level cache had missed
  kTime,    // CPU time, at the place where it is spent
};

struct SourceStatus {
  // "abit-bpf", "clock", "exact"; names of recording sources: profiler/source_kind.h.
  std::string name;
  std::string label;  // meaning of its numbers, for people: "clock (memory-stall time)"
  SourceRole role = SourceRole::kReferences;
  SourceState state = SourceState::kUnavailable;
  std::optional<SampleSubject> samples_of;  // set if, and only if, its role is kSamples
  // Accesses to memory that one sample stands for, > 0. It is the sampler's period, whether the
  // sampler counts misses or operations: a sampled operation that missed stands for as many others.
  // nullopt: unknown, or the samples are not of memory.
  std::optional<std::uint64_t> accesses_per_sample;
  std::optional<double> duty_cycle;           // share of the epoch it was on, [0, 1]
  std::optional<std::uint64_t> observations;  // looks or samples that were delivered
  std::optional<std::uint64_t> lost;          // known to be missing
  std::vector<NamedCount> details;
  std::string note;
  // The reason why it could not observe some memory; empty: no refusal. It is part of the note, and
  // traces do not have it separately.
  std::string refusal;
  friend bool operator==(const SourceStatus&, const SourceStatus&) = default;
};

enum class MappingKind : std::uint8_t { kAnonymous, kHeap, kStack, kFile, kShared, kSpecial };

// The place in a file where a mapping begins. Device and inode are those of /proc/PID/maps.
struct FilePlace {
  std::uint64_t device = 0;  // major number x 2^20 + minor number
  std::uint64_t inode = 0;
  PageCount offset;
  friend bool operator==(const FilePlace&, const FilePlace&) = default;
};

struct Mapping {
  VpnRange range;
  MappingKind kind = MappingKind::kAnonymous;
  // The file of kFile and kShared, or the name of kSpecial ("[vdso]") and of anonymous memory that
  // the program named ("[anon:arena]"). Else empty.
  std::string path;
  bool accessible = true;         // false: PROT_NONE, reserved or a guard; not kept in traces
  std::optional<FilePlace> file;  // nullopt: it maps no file, or the recorder did not store it
  friend bool operator==(const Mapping&, const Mapping&) = default;
};

// One tracked process at the end of an epoch.
struct Target {
  TargetId id;
  Pid pid;
  std::uint64_t start_time_ticks = 0;  // /proc/PID/stat field 22: with pid, names the process
  std::string name;                    // comm
  std::string command;                 // argv joined by spaces; empty for a kernel-made process
  bool exited = false;
  std::optional<std::chrono::nanoseconds> cpu_time;  // used within the epoch, all threads
  // A page that several processes share counts for each, which is how the kernel counts. nullopt:
  // unknown, or the process has exited.
  std::optional<PageCount> resident_pages;
  // The number of its IPC namespace, which owns System V segments. nullopt: unknown.
  std::optional<std::uint64_t> ipc_namespace;
  std::vector<Mapping> mappings;  // ascending, disjoint; empty: unknown
  friend bool operator==(const Target&, const Target&) = default;
};

// The shape of the time from a clear to the next access: reads of blocks that were cleared and read
// together, counted by the rungs of one ladder. Pages are entries of page tables here. A read
// counts at a rung if it was the first read after it, and the read before was of the rung before.
// Visits that end early are censored: their pages are not counted at further rungs. Counts of more
// than 15 pages are rounded to multiples of a power of two, at random and right in the mean.
struct RungCounts {
  struct Counts {
    std::vector<std::uint32_t> read;   // pages that the read before, or the clear, had left unset
    std::vector<std::uint32_t> found;  // those of them that were found set

    friend bool operator==(const Counts&, const Counts&) = default;
  };

  std::vector<std::chrono::nanoseconds> delay;  // of each rung: target CPU time, ascending
  // Target CPU time from the read before to a read of the rung, in the mean over all pages read.
  std::vector<std::chrono::nanoseconds> window;
  // Blocks, strictly ascending by target and start. They do not overlap.
  std::vector<TargetId> target;
  std::vector<Vpn> start;
  std::vector<std::uint32_t> pages;  // base pages from the block's first to its last
  // One value for each block and rung: those of the first block, then those of the next.
  Counts new_visits;    // their first read was in this epoch
  Counts older_visits;  // it was in an epoch before

  std::size_t blocks() const { return start.size(); }
  std::size_t rungs() const { return delay.size(); }

  friend bool operator==(const RungCounts&, const RungCounts&) = default;
};

struct EpochProfile {
  std::uint64_t index = 0;  // 0, 1, 2 … within the trace; a gap means lost epochs
  MonotonicTime start;
  MonotonicTime end;
  PageColumns pages;
  std::vector<SourceStatus> sources;
  std::vector<Target> targets;  // ascending by id; every target that `pages` names
  std::chrono::nanoseconds profiler_cpu_time{0};  // the profiler's own, user + system
  ExtensionSlot extension;                        // objects (objects/format/allocations.h)
  std::vector<RungCounts> rungs;                  // one for each ladder; empty: not counted

  std::chrono::nanoseconds length() const { return end - start; }
  friend bool operator==(const EpochProfile&, const EpochProfile&) = default;
};

// Returns the memory that all targets have at the end of the epoch. A page that several of them map
// counts for each. nullopt: it is unknown for one of them, or all have exited.
std::optional<PageCount> ResidentPages(const EpochProfile& epoch);

// Returns the mapping of `target` that holds `vpn`, or nullptr.
const Mapping* FindMapping(const Target& target, Vpn vpn);

std::string_view Name(SourceRole role);        // "references", "samples", "truth"
std::string_view Name(SourceState state);      // "active", "gated", "unavailable"
std::string_view Name(SampleSubject subject);  // "memory", "time"
std::string_view Name(MappingKind kind);  // "anon", "heap", "stack", "file", "shared", "special"

}  // namespace tmprof
