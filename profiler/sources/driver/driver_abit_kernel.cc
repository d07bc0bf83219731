// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/driver/driver_abit_kernel.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>
#include <utility>
#include <vector>

#include "profiler/sources/abit/host_kernel.h"
#include "profiler/sources/abit/other_clearers.h"

namespace tmprof::driver {
namespace {

using abit::AbitProcess;
using abit::ClearOutcome;
using abit::kTablePages;
using abit::PageStanding;
using abit::PageTableReader;
using abit::ReadOutcome;
using abit::ReadResult;
using abit::TableEntry;
using abit::TablePart;
using std::chrono::nanoseconds;

constexpr int kBusyTries = 8;
constexpr std::uint64_t kWordBits = 64;

// Entries as the processor's (Intel SDM vol. 3A, 5.5), made of what the driver says.
constexpr std::uint64_t kPresentBit = 1;
constexpr std::uint64_t kAccessedBit = 1 << 5;
constexpr std::uint64_t kFrameMask = ((std::uint64_t{1} << 52) - 1) & ~(kBasePageBytes - 1);

std::uint64_t Entry(bool accessed, std::uint64_t frame) {
  return kPresentBit | (accessed ? kAccessedBit : 0) | ((frame << kBasePageShift) & kFrameMask);
}

class Bitmap {
 public:
  void Reset(std::uint64_t bits) { words_.assign((bits + kWordBits - 1) / kWordBits, 0); }
  bool operator[](std::uint64_t bit) const {
    return words_[bit / kWordBits] >> (bit % kWordBits) & 1;
  }
  std::uint64_t address() { return reinterpret_cast<std::uint64_t>(words_.data()); }

 private:
  std::vector<std::uint64_t> words_;
};

// The answers of one SCAN_RANGE; shared by the processes of one kernel, as its thread is.
struct Answer {
  std::optional<Error> failure;  // the driver as a whole has failed since it was opened
  Bitmap present;
  Bitmap accessed;
  std::vector<std::uint64_t> frames;
  std::vector<tmprof_scan_leaf> leaves;
  std::vector<std::array<std::uint64_t, kTablePages.value()>> tables;
};

class DriverProcess final : public AbitProcess {
 public:
  DriverProcess(Session::Target target, abit::ProcessWatch watch, Answer& answer)
      : target_(std::move(target)), watch_(std::move(watch)), answer_(answer) {}

  ReadResult Read(VpnRange range, PageTableReader::Depth depth,
                  std::vector<TablePart>& parts) override {
    parts.clear();
    ReadResult result;
    const Vpn asked_end = range.end;
    range.end = std::min(asked_end, range.start + MostPages());
    tmprof_scan_range request = Request(range);
    if (depth == PageTableReader::Depth::kEntries) {
      answer_.frames.resize(range.size().value());
      request.frames = reinterpret_cast<std::uint64_t>(answer_.frames.data());
    }
    int error = 0;
    for (int tries = 0; tries < kBusyTries; ++tries) {
      error = Scan(request, TMPROF_SCAN_TRYLOCK);
      if (error != EAGAIN) break;
      ++result.busy_retries;
    }
    result.outcome = OutcomeOf(error);
    if (result.outcome != ReadOutcome::kDone) return result;
    if (request.mapped_end_vpn == 0) {
      result.outcome = ReadOutcome::kUnmapped;
      return result;
    }
    result.address_space = request.address_space;
    result.time = MonotonicTime(nanoseconds(request.start_ns / 2 + request.end_ns / 2));
    result.running_threads = request.running_threads;
    result.torn_tables = request.races;
    // Other mappings may have pages in the table that its mapping ends in.
    const std::uint64_t tables = CeilDivide(request.mapped_end_vpn, kTablePages.value());
    const Vpn most = std::min(asked_end, Vpn(tables * kTablePages.value()));
    // Past what a sparse mapping has nothing in.
    result.next = range.end < most ? std::clamp(Vpn(request.next_vpn), range.end, most) : most;
    range.end = std::min(range.end, most);
    Assemble(range, request.leaf_count, depth, parts);
    return result;
  }

  ClearOutcome Clear(VpnRange range) override {
    for (Vpn at = range.start; at < range.end;) {
      const VpnRange chunk{at, std::min(range.end, at + MostPages())};
      tmprof_scan_range request = Request(chunk);
      switch (OutcomeOf(Scan(request, TMPROF_SCAN_CLEAR | TMPROF_SCAN_FLUSH))) {
        case ReadOutcome::kDone:
          break;
        case ReadOutcome::kProcessGone:
          return ClearOutcome::kProcessGone;
        case ReadOutcome::kBusy:  // no memory for the answer
        case ReadOutcome::kRefused:
          return ClearOutcome::kRefused;
        case ReadOutcome::kUnmapped:
          return ClearOutcome::kUnmapped;
      }
      const bool nothing = request.mapped_end_vpn == 0 && request.present_pages == 0;
      if (nothing && chunk == range) return ClearOutcome::kUnmapped;
      NoteUnreached(chunk, request);
      at = chunk.end;
    }
    return ClearOutcome::kDone;
  }

  bool PassesByNewPages() const override { return false; }

  std::vector<PageStanding> Inspect(std::span<const Vpn> pages,
                                    const std::vector<bool>& /*settled*/) override {
    std::vector<PageStanding> standing;
    standing.reserve(pages.size());
    for (const Vpn page : pages) {
      standing.push_back(unreached_.contains(page) ? PageStanding::kUnsettled
                                                   : PageStanding::kClearable);
    }
    return standing;
  }

  nanoseconds CpuTime() override { return watch_.CpuTime(); }
  bool Alive() override { return watch_.Alive(); }

 private:
  PageCount MostPages() const { return PageCount(target_.session().info().max_scan_pages); }

  // With room for the bitmaps and the leaves: at most one for each 2 MiB that the range touches.
  tmprof_scan_range Request(VpnRange range) {
    const std::uint64_t pages = range.size().value();
    answer_.present.Reset(pages);
    answer_.accessed.Reset(pages);
    answer_.leaves.resize(pages / kTablePages.value() + 2);
    tmprof_scan_range request{};
    request.target_id = target_.id();
    request.start_vpn = range.start.value();
    request.pages = static_cast<std::uint32_t>(pages);
    request.leaf_capacity = static_cast<std::uint32_t>(answer_.leaves.size());
    request.present = answer_.present.address();
    request.accessed = answer_.accessed.address();
    request.leaves = reinterpret_cast<std::uint64_t>(answer_.leaves.data());
    return request;
  }

  int Scan(tmprof_scan_range& request, std::uint32_t flags) {
    return Call(target_.session().device(), TMPROF_IOC_SCAN_RANGE, request, flags);
  }

  ReadOutcome OutcomeOf(int error) {
    switch (error) {
      case 0:
        return ReadOutcome::kDone;
      case EAGAIN:
      case EINTR:
      case ENOMEM:
        return ReadOutcome::kBusy;
      case ESRCH:
      case ENOENT:
        return ReadOutcome::kProcessGone;
      case EINVAL:  // no address space has such a range
        return ReadOutcome::kUnmapped;
      default:
        answer_.failure =
            Refused("read accessed bits through the driver", TMPROF_DEVICE_PATH, error,
                    "the kernel's log may say more; --source abit-bpf does without the module");
        return ReadOutcome::kBusy;
    }
  }

  // Parts ascend: a table for each 2 MiB that has a base page present, and the huge leaves.
  void Assemble(VpnRange range, std::uint32_t leaf_count, PageTableReader::Depth depth,
                std::vector<TablePart>& parts) {
    const bool with_entries = depth == PageTableReader::Depth::kEntries;
    const std::uint64_t table_pages = kTablePages.value();
    const Vpn first(range.start.value() / table_pages * table_pages);
    answer_.tables.resize((range.end - first).value() / table_pages + 1);
    std::size_t tables = 0;
    const tmprof_scan_leaf* leaf = answer_.leaves.data();
    const tmprof_scan_leaf* const leaves_end = leaf + leaf_count;
    for (Vpn at = first; at < range.end;) {
      const Vpn inside = std::max(at, range.start);
      if (leaf != leaves_end && Vpn(leaf->vpn) <= inside) {
        const std::uint64_t frame = with_entries ? answer_.frames[(inside - range.start).value()] -
                                                       (inside - Vpn(leaf->vpn)).value()
                                                 : 0;
        parts.push_back({.start = Vpn(leaf->vpn),
                         .span = PageCount(leaf->span_pages),
                         .leaf = TableEntry(Entry(leaf->leaf_flags & TMPROF_LEAF_ACCESSED, frame)),
                         .huge = true});
        at = Vpn(leaf->vpn) + PageCount(leaf->span_pages);
        ++leaf;
        continue;
      }
      const Vpn end = std::min(at + kTablePages, range.end);
      auto& table = answer_.tables[tables];
      bool any = false;
      if (with_entries) table.fill(0);
      for (Vpn page = inside; page < end; page = page + PageCount(1)) {
        const std::uint64_t i = (page - range.start).value();
        if (!answer_.present[i]) continue;
        any = true;
        if (!with_entries) break;
        table[(page - at).value()] = Entry(answer_.accessed[i], answer_.frames[i]);
      }
      if (any) {
        parts.push_back({.start = at});
        if (with_entries) parts.back().entries = table;
        ++tables;
      }
      at = at + kTablePages;
    }
  }

  // The clear passes by tables that change under it, and by huge pages that it may not touch.
  void NoteUnreached(VpnRange chunk, const tmprof_scan_range& request) {
    unreached_.erase(unreached_.lower_bound(chunk.start), unreached_.lower_bound(chunk.end));
    if (request.races > 0) {
      for (Vpn page = chunk.start; page < chunk.end; page = page + PageCount(1)) {
        if (!answer_.present[(page - chunk.start).value()]) unreached_.insert(page);
      }
    }
    for (std::uint32_t i = 0; i < request.leaf_count; ++i) {
      const tmprof_scan_leaf& leaf = answer_.leaves[i];
      const bool set = leaf.leaf_flags & TMPROF_LEAF_ACCESSED;
      if (set && !(leaf.leaf_flags & TMPROF_LEAF_CLEARED)) unreached_.insert(Vpn(leaf.vpn));
    }
  }

  Session::Target target_;
  abit::ProcessWatch watch_;
  Answer& answer_;
  std::set<Vpn> unreached_;  // pages whose latest clear did not reach them
};

class DriverKernel final : public abit::HostKernel {
 public:
  DriverKernel(std::shared_ptr<Session> session, const std::filesystem::path& root)
      : HostKernel(root), session_(std::move(session)), root_(root) {}

  Result<std::unique_ptr<AbitProcess>> Open(Pid pid, std::uint64_t start_time_ticks) override {
    auto watch = abit::ProcessWatch::Open(pid, start_time_ticks);
    if (!watch) return Fail(std::move(watch.error()));
    auto target = Session::Hold(session_, pid, start_time_ticks);
    if (!target) return Fail(std::move(target.error()));
    return std::make_unique<DriverProcess>(*std::move(target), *std::move(watch), answer_);
  }

  std::uint64_t frame_mask() const override { return kFrameMask; }

  std::optional<std::string> MemoryPressure() override {
    // The LRU's two lists see what was cleared, and clearing costs the pages nothing. The ageing of
    // the multi-generational LRU looks at bits alone: hot pages would seem old.
    const bool is_seen = session_->info().features & TMPROF_FEATURE_KEEPS_YOUNG;
    if (is_seen && !abit::MultiGenerationalLruRuns(root_)) return std::nullopt;
    return HostKernel::MemoryPressure();
  }

  std::optional<Error> Failure() override { return answer_.failure; }

 private:
  std::shared_ptr<Session> session_;
  std::filesystem::path root_;
  Answer answer_;
};

}  // namespace

std::unique_ptr<abit::AbitKernel> MakeDriverAbitKernel(std::shared_ptr<Session> session,
                                                       const std::filesystem::path& root) {
  return std::make_unique<DriverKernel>(std::move(session), root);
}

}  // namespace tmprof::driver
