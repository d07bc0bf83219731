// SPDX-License-Identifier: Apache-2.0
// Reads truth streams (profiler/sources/exact/plugin/format/truth_stream.h) as they arrive.

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/epoch_profile.h"
#include "base/result.h"

namespace tmprof::exact {

// How the counts of a stream were made.
struct TruthOrigin {
  bool of_virtual_machine = false;  // else the exact tracer's, of one program
  bool counts_instructions = false;
  std::string llc_model;  // for people; empty: misses are not known
  std::string dtlb_model;
  std::string l2_model;          // empty: the LLC sees all misses of the L1
  std::string prefetcher_model;  // empty: hidden misses are not known
  std::string stall_model;       // empty: stalls are not known
};

// A target as of the end of an epoch. `number` names it within its stream.
struct TruthTarget {
  std::uint32_t number = 0;
  std::optional<Pid> pid;
  std::optional<std::uint64_t> start_time_ticks;
  std::string name;
  std::string command;
  bool exited = false;
  std::vector<Mapping> mappings;  // ascending, disjoint; no stream reports them
};

// A page frame of physical memory.
using Pfn = StrongInt<struct PfnTag, std::uint64_t>;

struct TruthPage {
  std::uint32_t target = 0;  // TruthTarget::number
  Vpn vpn;
  std::optional<Pfn> frame;  // below the end of virtual pages
  AccessCounts counts;
  std::optional<NodeId> node;
};

struct TruthEpoch {
  std::uint64_t index = 0;
  MonotonicTime start;
  MonotonicTime end;
  std::uint64_t instructions = 0;  // 0 where the stream does not count them
  std::uint64_t lost_accesses = 0;
  std::vector<TruthPage> pages;      // in any order; a page may repeat
  std::vector<TruthTarget> targets;  // ascending by number; all that `pages` name
  std::uint64_t processes_not_followed = 0;
  std::vector<std::string> not_followed;  // why, each once
};

class TruthDecoder {
 public:
  // `name` is what errors call the stream.
  explicit TruthDecoder(std::string name) : name_(std::move(name)) {}

  // Takes the next bytes, cut anywhere. Fails on what no plugin writes, with its offset; epochs
  // that were complete before stand, and every further call fails alike.
  Status Feed(std::span<const char> bytes);

  std::optional<TruthEpoch> Next();

  const std::optional<TruthOrigin>& origin() const { return origin_; }  // once the header is read
  // Known before the first epoch has ended.
  const std::map<std::uint32_t, TruthTarget>& targets() const { return targets_; }
  bool finished() const { return finished_; }       // the stream was ended in order
  std::uint64_t offset() const { return offset_; }  // bytes understood so far

 private:
  Status Refuse(const std::string& reason);
  Status ReadHeader();
  Status ReadRecord(std::uint32_t type, std::span<const char> record);
  Status ReadTarget(std::span<const char> record);
  Status ReadPages(std::span<const char> record);
  Status EndEpoch(std::span<const char> record);
  Status Finish(std::span<const char> record);
  Status ReadNotFollowed(std::span<const char> record);

  std::string name_;
  std::vector<char> buffer_;  // bytes from offset_ on
  std::uint64_t offset_ = 0;
  std::optional<Error> error_;
  std::optional<TruthOrigin> origin_;
  std::map<std::uint32_t, TruthTarget> targets_;
  TruthEpoch open_;
  struct Sums {
    std::uint64_t loads = 0;
    std::uint64_t stores = 0;
    std::uint64_t llc_misses = 0;
    std::uint64_t dtlb_misses = 0;
  };
  Sums open_sum_;
  std::set<std::uint32_t> with_pages_;  // targets, in the open epoch
  std::uint64_t epochs_ = 0;
  std::optional<std::uint64_t> last_index_;
  MonotonicTime last_end_;
  std::deque<TruthEpoch> complete_;
  bool finished_ = false;
};

}  // namespace tmprof::exact
