// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/exact/truth_decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <limits>
#include <utility>

#include "profiler/sources/exact/plugin/format/truth_stream.h"

namespace tmprof::exact {
namespace {

static_assert(std::endian::native == std::endian::little, "structs are read as they lie");

// One past the last page of 64-bit addresses.
constexpr std::uint64_t kVpnEnd = std::uint64_t{1} << (64 - kBasePageShift);
constexpr std::uint64_t kMostNanoseconds = std::numeric_limits<std::int64_t>::max();

// Reads as much of `T` as the record has; fields that an older or shorter record lacks are 0. False
// if it has fewer than `least` bytes.
template <typename T>
bool Read(std::span<const char> from, T& to, std::size_t least = sizeof(T)) {
  if (from.size() < least) return false;
  to = T{};
  std::memcpy(&to, from.data(), std::min(from.size(), sizeof(T)));
  return true;
}

template <std::size_t n>
std::string Text(const char (&field)[n]) {
  return std::string(field, std::find(field, field + n, '\0'));
}

// The `bytes` of text that follow a struct of `after` bytes.
std::optional<std::string> TextAfter(std::span<const char> record, std::size_t after,
                                     std::uint32_t bytes) {
  if (record.size() < after || record.size() - after < bytes) return std::nullopt;
  return std::string(record.data() + after, bytes);
}

MonotonicTime TimeOf(std::uint64_t ns) {
  return MonotonicTime(std::chrono::nanoseconds(static_cast<std::int64_t>(ns)));
}

}  // namespace

Status TruthDecoder::Refuse(const std::string& reason) {
  error_ = BadInput("read truth stream", name_, fmt::format("{} at byte {}", reason, offset_));
  return Fail(*error_);
}

Status TruthDecoder::Feed(std::span<const char> bytes) {
  if (error_) return Fail(*error_);
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  if (!origin_) {
    if (auto status = ReadHeader(); !status || !origin_) return status;
  }
  std::size_t used = 0;
  const std::uint64_t start = offset_;
  Status status;
  while (status) {
    const std::span<const char> rest = std::span(buffer_).subspan(used);
    tmprof_truth_record record{};
    if (!Read(rest, record)) break;
    offset_ = start + used;
    if (record.bytes < sizeof record || record.bytes % 8 != 0 ||
        record.bytes > TMPROF_TRUTH_MOST_RECORD_BYTES) {
      status = Refuse(fmt::format("a record of {} bytes", record.bytes));
    } else if (rest.size() < record.bytes) {
      break;
    } else if (finished_) {
      status = Refuse("a record after the last one");
    } else {
      status = ReadRecord(record.type, rest.first(record.bytes));
      used += record.bytes;
    }
  }
  if (status) offset_ = start + used;
  buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(used));
  return status;
}

Status TruthDecoder::ReadHeader() {
  if (buffer_.empty()) return {};
  tmprof_truth_header header{};
  constexpr std::size_t kMagicBytes = sizeof header.magic;
  const std::size_t begun = std::min(buffer_.size(), kMagicBytes);
  if (std::memcmp(buffer_.data(), TMPROF_TRUTH_MAGIC, begun) != 0)
    return Refuse("it is not a truth stream");
  if (!Read(buffer_, header, TMPROF_TRUTH_LEAST_HEADER_BYTES)) return {};
  if (header.version != TMPROF_TRUTH_VERSION) {
    return Refuse(fmt::format("version {}, of which this tmprof knows {}", header.version,
                              TMPROF_TRUTH_VERSION));
  }
  if (header.header_bytes < TMPROF_TRUTH_LEAST_HEADER_BYTES || header.header_bytes % 8 != 0 ||
      header.header_bytes > TMPROF_TRUTH_MOST_RECORD_BYTES) {
    return Refuse(fmt::format("a header of {} bytes", header.header_bytes));
  }
  if (header.page_bytes != kBasePageBytes)
    return Refuse(fmt::format("pages of {} bytes", header.page_bytes));
  if (header.maker != TMPROF_TRUTH_MAKER_EXACT && header.maker != TMPROF_TRUTH_MAKER_TIERSIM)
    return Refuse(fmt::format("the unknown maker {}", header.maker));
  if (header.clock != TMPROF_TRUTH_CLOCK_HOST && header.clock != TMPROF_TRUTH_CLOCK_GUEST)
    return Refuse(fmt::format("the unknown clock {}", header.clock));
  if (buffer_.size() < header.header_bytes) return {};
  Read(std::span(buffer_).first(header.header_bytes), header, TMPROF_TRUTH_LEAST_HEADER_BYTES);
  buffer_.erase(buffer_.begin(),
                buffer_.begin() + static_cast<std::ptrdiff_t>(header.header_bytes));
  offset_ = header.header_bytes;
  origin_ = {.of_virtual_machine = header.maker != TMPROF_TRUTH_MAKER_EXACT,
             .counts_instructions = (header.flags & TMPROF_TRUTH_COUNTS_INSTRUCTIONS) != 0,
             .llc_model = Text(header.llc_model),
             .dtlb_model = Text(header.dtlb_model),
             .l2_model = Text(header.l2_model),
             .prefetcher_model = Text(header.prefetcher_model),
             .stall_model = Text(header.stall_model)};
  return {};
}

Status TruthDecoder::ReadRecord(std::uint32_t type, std::span<const char> record) {
  switch (type) {
    case TMPROF_TRUTH_TARGET:
      return ReadTarget(record);
    case TMPROF_TRUTH_PAGES:
      return ReadPages(record);
    case TMPROF_TRUTH_EPOCH_END:
      return EndEpoch(record);
    case TMPROF_TRUTH_FINISH:
      return Finish(record);
    case TMPROF_TRUTH_NOT_FOLLOWED:
      return ReadNotFollowed(record);
    default:
      return {};  // a later version's
  }
}

Status TruthDecoder::ReadTarget(std::span<const char> record) {
  tmprof_truth_target target{};
  if (!Read(record, target)) return Refuse("a target that is cut short");
  auto command = TextAfter(record, sizeof target, target.command_bytes);
  if (!command) return Refuse("a target whose command is cut short");
  if (target.pid > static_cast<std::uint32_t>(std::numeric_limits<Pid::rep>::max()))
    return Refuse(fmt::format("the pid {}", target.pid));
  TruthTarget& known = targets_[target.target];
  known.number = target.target;
  known.name = Text(target.name);
  known.command = *std::move(command);
  known.exited = (target.flags & TMPROF_TRUTH_TARGET_EXITED) != 0;
  if (target.flags & TMPROF_TRUTH_TARGET_KNOWS_PID)
    known.pid = Pid(static_cast<Pid::rep>(target.pid));
  if (target.flags & TMPROF_TRUTH_TARGET_KNOWS_START)
    known.start_time_ticks = target.start_time_ticks;
  return {};
}

Status TruthDecoder::ReadPages(std::span<const char> record) {
  tmprof_truth_pages pages{};
  if (!Read(record, pages)) return Refuse("pages that are cut short");
  record = record.subspan(sizeof pages);
  if (pages.entry_bytes < TMPROF_TRUTH_LEAST_PAGE_BYTES || pages.entry_bytes % 8 != 0 ||
      record.size() / pages.entry_bytes < pages.count) {
    return Refuse(fmt::format("{} page entries of {} bytes in a record of {}", pages.count,
                              pages.entry_bytes, record.size()));
  }
  const auto has = [&](std::size_t end_of_field) { return pages.entry_bytes >= end_of_field; };
  const bool tells_hidden =
      !origin_->prefetcher_model.empty() && has(offsetof(tmprof_truth_page, stall_ns));
  const bool tells_stalls = !origin_->stall_model.empty() && has(sizeof(tmprof_truth_page));
  open_.pages.reserve(open_.pages.size() + pages.count);
  for (std::uint32_t i = 0; i < pages.count; ++i) {
    tmprof_truth_page page{};
    Read(record.subspan(std::size_t{i} * pages.entry_bytes, pages.entry_bytes), page,
         TMPROF_TRUTH_LEAST_PAGE_BYTES);
    if (page.vpn >= kVpnEnd) return Refuse(fmt::format("the page {:#x}", page.vpn));
    const bool knows_frame = (page.flags & TMPROF_TRUTH_PAGE_KNOWS_PFN) != 0;
    if (knows_frame && page.pfn >= kVpnEnd)
      return Refuse(fmt::format("the page frame {:#x}", page.pfn));
    if (!targets_.contains(page.target))
      return Refuse(fmt::format("a page of target {}, of which nothing was said", page.target));
    TruthPage& read = open_.pages.emplace_back();
    read.target = page.target;
    read.vpn = Vpn(page.vpn);
    if (knows_frame) read.frame = Pfn(page.pfn);
    read.counts = {.loads = page.loads, .stores = page.stores};
    if (!origin_->llc_model.empty()) read.counts.llc_misses = page.llc_misses;
    if (!origin_->dtlb_model.empty()) read.counts.dtlb_misses = page.dtlb_misses;
    if (page.hidden_misses > page.llc_misses && tells_hidden) {
      return Refuse(fmt::format("a page of {} misses of which {} were hidden", page.llc_misses,
                                page.hidden_misses));
    }
    if (tells_hidden) read.counts.hidden_misses = page.hidden_misses;
    if (tells_stalls) read.counts.stall_ns = page.stall_ns;
    if (page.flags & TMPROF_TRUTH_PAGE_KNOWS_NODE) read.node = NodeId(page.node);
    with_pages_.insert(page.target);
    open_sum_.loads += page.loads;
    open_sum_.stores += page.stores;
    open_sum_.llc_misses += page.llc_misses;
    open_sum_.dtlb_misses += page.dtlb_misses;
  }
  return {};
}

Status TruthDecoder::EndEpoch(std::span<const char> record) {
  tmprof_truth_epoch_end end{};
  if (!Read(record, end)) return Refuse("an end of epoch that is cut short");
  if (end.loads != open_sum_.loads || end.stores != open_sum_.stores) {
    return Refuse(fmt::format("an epoch of {} loads and {} stores whose pages have {} and {}",
                              end.loads, end.stores, open_sum_.loads, open_sum_.stores));
  }
  if (end.llc_misses != open_sum_.llc_misses || end.dtlb_misses != open_sum_.dtlb_misses) {
    return Refuse(fmt::format("an epoch of {} LLC and {} dTLB misses whose pages have {} and {}",
                              end.llc_misses, end.dtlb_misses, open_sum_.llc_misses,
                              open_sum_.dtlb_misses));
  }
  if (end.start_ns > end.end_ns || end.end_ns > kMostNanoseconds ||
      (last_index_ && (end.index <= *last_index_ || TimeOf(end.start_ns) < last_end_))) {
    return Refuse(fmt::format("epoch {}, which does not follow the one before", end.index));
  }
  open_.index = end.index;
  open_.start = TimeOf(end.start_ns);
  open_.end = TimeOf(end.end_ns);
  open_.instructions = end.instructions;
  open_.lost_accesses = end.lost_accesses;
  for (const auto& [number, target] : targets_) open_.targets.push_back(target);
  std::erase_if(targets_, [&](const auto& entry) {
    return entry.second.exited && !with_pages_.contains(entry.first);
  });
  with_pages_.clear();
  last_index_ = end.index;
  last_end_ = open_.end;
  ++epochs_;
  complete_.push_back(std::move(open_));
  open_ = TruthEpoch();
  open_sum_ = Sums();
  return {};
}

Status TruthDecoder::Finish(std::span<const char> record) {
  tmprof_truth_finish finish{};
  if (!Read(record, finish)) return Refuse("an end that is cut short");
  if (finish.epochs != epochs_)
    return Refuse(fmt::format("{} epochs of the {} that it ends with", epochs_, finish.epochs));
  finished_ = true;
  return {};
}

Status TruthDecoder::ReadNotFollowed(std::span<const char> record) {
  tmprof_truth_not_followed not_followed{};
  if (!Read(record, not_followed)) return Refuse("a note that is cut short");
  auto text = TextAfter(record, sizeof not_followed, not_followed.text_bytes);
  if (!text) return Refuse("a note that is cut short");
  open_.processes_not_followed += not_followed.processes;
  if (std::ranges::find(open_.not_followed, *text) == open_.not_followed.end())
    open_.not_followed.push_back(*std::move(text));
  return {};
}

std::optional<TruthEpoch> TruthDecoder::Next() {
  if (complete_.empty()) return std::nullopt;
  TruthEpoch epoch = std::move(complete_.front());
  complete_.pop_front();
  return epoch;
}

}  // namespace tmprof::exact
