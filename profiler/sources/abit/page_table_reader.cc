// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/abit/page_table_reader.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <cpuid.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/host/capabilities.h"
#include "base/unique_fd.h"
#include "profiler/sources/abit/libbpf_log.h"
#include "profiler/sources/abit/map_view.h"
#include "profiler/sources/abit/page_walk.h"

// Generated; they want the structures above.
#include "page_walk_iterator.skel.h"
#include "page_walk_syscall.skel.h"

namespace tmprof::abit {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
constexpr std::uint64_t kFrameOfPagemap = (std::uint64_t{1} << 55) - 1;
constexpr int kBusyTries = 8;

std::string Advice() {
  return CapabilityAdvice(kAccessedBitCapabilities) +
         ", on a kernel with BTF that is not locked down for confidentiality";
}

// The physical-address bits of an entry, without the encryption bit of AMD SEV.
std::uint64_t FrameMask() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  unsigned physical_bits = 46;
  if (__get_cpuid(0x80000008, &a, &b, &c, &d)) physical_bits = a & 0xff;
  std::uint64_t mask = ((std::uint64_t{1} << std::min(physical_bits, 52u)) - 1) & ~0xfffull;
  if (__get_cpuid(0x8000001f, &a, &b, &c, &d) && (a & 2)) mask &= ~(std::uint64_t{1} << (b & 63));
  return mask;
}

// False: this process is in a PID namespace of its own. Its number there may be the one that it has
// in the initial namespace, too, so that numbers alone decide nothing. True if /proc does not say.
bool IsInInitialPidNamespace() {
  // PID_NS_INIT_INO of linux/nsfs.h; the kernel has had the number since 3.8.
  constexpr ino_t kInitial = 0xEFFFFFFC;
  struct stat found{};
  return ::stat("/proc/self/ns/pid", &found) != 0 || found.st_ino == kInitial;
}

// A loaded program and the memory it shares with us.
class Program {
 public:
  virtual ~Program() = default;
  virtual KernelWay way() const = 0;
  // Runs the request. 0 or an errno of the call itself.
  virtual int Run() = 0;

  tmprof_walk_request* request = nullptr;
  const volatile tmprof_walk_reply* reply = nullptr;
  int tables_fd = -1;
  int parts_fd = -1;
  int points_fd = -1;  // -1: it does not read points
};

class SyscallProgram final : public Program {
 public:
  explicit SyscallProgram(page_walk_syscall* skeleton) : skeleton_(skeleton) {
    request = &skeleton->bss->request;
    reply = &skeleton->bss->reply;
    tables_fd = bpf_map__fd(skeleton->maps.tables);
    parts_fd = bpf_map__fd(skeleton->maps.parts);
    points_fd = bpf_map__fd(skeleton->maps.points);
  }
  ~SyscallProgram() override { page_walk_syscall__destroy(skeleton_); }

  KernelWay way() const override { return KernelWay::kSyscallProgram; }
  int Run() override {
    bpf_test_run_opts options{};
    options.sz = sizeof options;
    return -bpf_prog_test_run_opts(bpf_program__fd(skeleton_->progs.run_walk), &options);
  }

 private:
  page_walk_syscall* skeleton_;
};

class IteratorProgram final : public Program {
 public:
  explicit IteratorProgram(page_walk_iterator* skeleton) : skeleton_(skeleton) {
    request = &skeleton->bss->request;
    reply_ = &skeleton->bss->reply;
    reply = reply_;
    tables_fd = bpf_map__fd(skeleton->maps.tables);
    parts_fd = bpf_map__fd(skeleton->maps.parts);
  }
  ~IteratorProgram() override { page_walk_iterator__destroy(skeleton_); }

  KernelWay way() const override { return KernelWay::kMappingIterator; }
  int Run() override {
    if (!link_ || linked_pid_ != request->pid) {
      // Kernels before 6.1 ignore the filter and walk every task; the program checks it again.
      bpf_iter_link_info filter{};
      filter.task.pid = static_cast<__u32>(request->pid);
      LIBBPF_OPTS(bpf_link_create_opts, options, .iter_info = &filter,
                  .iter_info_len = sizeof filter);
      link_ = UniqueFd(
          bpf_link_create(bpf_program__fd(skeleton_->progs.run_walk), 0, BPF_TRACE_ITER, &options));
      linked_pid_ = request->pid;
      if (link_.get() < 0) return LinkFailed();
    }
    // Unless the iterator meets the mapping, there is no such mapping or no such process.
    reply_->status = ::kill(request->pid, 0) != 0 && errno == ESRCH ? -ESRCH : -ENOENT;
    const UniqueFd iterator(bpf_iter_create(link_.get()));
    if (iterator.get() < 0) return errno;
    char done = 0;
    while (::read(iterator.get(), &done, sizeof done) < 0) {
      if (errno == EAGAIN || errno == EINTR) continue;
      return errno;
    }
    return 0;
  }

 private:
  int LinkFailed() {
    const int error = errno;
    link_ = UniqueFd();
    if (error != ESRCH) return error;
    reply_->status = -ESRCH;
    return 0;
  }

  page_walk_iterator* skeleton_;
  tmprof_walk_reply* reply_;
  UniqueFd link_;
  std::int32_t linked_pid_ = 0;
};

Error LoadError(KernelWay way, int system_error, std::string log) {
  Error error =
      Refused("load the BPF page-table reader", std::string(Name(way)), system_error, Advice());
  // Without the capabilities libbpf complains of a memory limit, which is not what is wrong.
  if (system_error != EPERM) error.reason = std::move(log);
  return error;
}

Result<std::unique_ptr<Program>> Load(KernelWay way) {
  const LibbpfLog log;
  std::unique_ptr<Program> program;
  errno = 0;
  if (way == KernelWay::kSyscallProgram) {
    if (auto* skeleton = page_walk_syscall__open_and_load())
      program = std::make_unique<SyscallProgram>(skeleton);
  } else {
    if (auto* skeleton = page_walk_iterator__open_and_load())
      program = std::make_unique<IteratorProgram>(skeleton);
  }
  const int system_error = errno;
  if (!program) return Fail(LoadError(way, system_error, log.first()));
  return program;
}

class BpfReader final : public PageTableReader {
 public:
  static Result<std::unique_ptr<PageTableReader>> Create(KernelWay way) {
    auto program = Load(way);
    if (!program) return Fail(std::move(program.error()));
    std::unique_ptr<BpfReader> reader(new BpfReader(std::move(*program)));
    if (auto ready = reader->Prepare(); !ready) return Fail(std::move(ready.error()));
    return std::unique_ptr<PageTableReader>(std::move(reader));
  }

  KernelWay way() const override { return program_->way(); }
  std::uint64_t frame_mask() const override { return program_->request->frame_mask; }

  ReadResult Read(Pid pid, VpnRange range, Depth depth, std::vector<TablePart>& parts) override {
    parts.clear();
    ReadResult result;
    tmprof_walk_request& request = *program_->request;
    const volatile tmprof_walk_reply& reply = *program_->reply;
    request.pid = pid.value();
    request.mode = depth == Depth::kEntries ? TMPROF_WALK_TABLES : TMPROF_WALK_PARTS;
    request.start = AddressOf(range.start);
    request.end = AddressOf(range.end);
    int status = 0;
    while (true) {
      const int refused = program_->Run();
      status = refused != 0 ? -refused : reply.status;
      if (status != -EBUSY || result.busy_retries == kBusyTries) break;
      ++result.busy_retries;
    }
    if (status != 0) {
      result.outcome = OutcomeOf(-status);
      if (result.outcome == ReadOutcome::kRefused) result.system_error = -status;
      return result;
    }
    TakeReply(result);
    const auto* raw = part_view_.as<const tmprof_walk_part>();
    const auto* tables = table_view_.as<const std::uint64_t>();
    for (std::uint32_t i = 0; i < reply.parts; ++i) {
      TablePart part{.start = VpnOfAddress(raw[i].address),
                     .span = raw[i].kind == TMPROF_PART_1G ? kGiantPages : kTablePages,
                     .leaf = TableEntry(raw[i].entry),
                     .entries = {},
                     .huge = raw[i].kind != TMPROF_PART_TABLE};
      if (!part.huge && depth == Depth::kEntries) {
        part.entries = {tables + std::size_t{i} * TMPROF_TABLE_ENTRIES, TMPROF_TABLE_ENTRIES};
      }
      parts.push_back(part);
    }
    return result;
  }

  ReadResult ReadPoints(Pid pid, std::span<const Vpn> pages,
                        std::vector<PointEntry>& entries) override {
    if (program_->points_fd < 0) {
      return ReadOneByOne(pages, entries, [&](VpnRange page, std::vector<TablePart>& parts) {
        return Read(pid, page, Depth::kEntries, parts);
      });
    }
    ReadResult result;
    entries.assign(pages.size(), PointEntry{});
    program_->request->pid = pid.value();
    program_->request->mode = TMPROF_WALK_POINTS;
    auto* points = point_view_.as<tmprof_walk_point>();
    for (std::size_t first = 0; first < pages.size(); first += TMPROF_WALK_MAX_POINTS) {
      const auto count = std::min<std::size_t>(pages.size() - first, TMPROF_WALK_MAX_POINTS);
      for (std::size_t i = 0; i < count; ++i) points[i].address = AddressOf(pages[first + i]);
      program_->request->points = static_cast<std::uint32_t>(count);
      const int refused = program_->Run();
      const int status = refused != 0 ? -refused : program_->reply->status;
      if (status != 0) {
        result.outcome = OutcomeOf(-status);
        if (result.outcome == ReadOutcome::kRefused) result.system_error = -status;
        return result;
      }
      TakeReply(result);
      for (std::size_t i = 0; i < count; ++i) {
        PointEntry& entry = entries[first + i];
        entry.read = points[i].status == 0 || points[i].status == -ENOENT;
        result.busy_retries += points[i].status == -EBUSY;
        if (points[i].status != 0 || points[i].kind == 0) continue;
        entry.entry = TableEntry(points[i].entry);
        entry.unit = points[i].kind == TMPROF_PART_1G   ? kGiantPages
                     : points[i].kind == TMPROF_PART_2M ? kTablePages
                                                        : PageCount(1);
      }
    }
    return result;
  }

 private:
  explicit BpfReader(std::unique_ptr<Program> program) : program_(std::move(program)) {}

  void TakeReply(ReadResult& result) const {
    const volatile tmprof_walk_reply& reply = *program_->reply;
    result.address_space = reply.top_table;
    result.running_threads = reply.running;
    result.torn_tables = reply.torn;
    result.next = VpnOfAddress(reply.next);
    const std::uint64_t started = reply.started_ns;
    result.time = MonotonicTime(
        std::chrono::nanoseconds(started + (std::uint64_t{reply.ended_ns} - started) / 2));
  }

  static ReadOutcome OutcomeOf(int error) {
    switch (error) {
      case EBUSY:
        return ReadOutcome::kBusy;
      case ESRCH:
        return ReadOutcome::kProcessGone;
      case ENOENT:
      case EFAULT:  // a table was replaced under the walk
        return ReadOutcome::kUnmapped;
      default:
        return ReadOutcome::kRefused;
    }
  }

  Error CannotPrepare(int system_error, std::string reason) const {
    Error error = Refused("prepare the BPF page-table reader", std::string(Name(way())),
                          system_error, Advice());
    if (system_error == 0) error.system_error.reset();
    error.reason = std::move(reason);
    return error;
  }

  std::optional<std::uint64_t> Peek(std::uint64_t kernel_address) {
    program_->request->mode = TMPROF_WALK_PEEK;
    program_->request->pid = ::getpid();
    program_->request->start = 0;  // any mapping will do
    program_->request->peek_at = kernel_address;
    if (program_->Run() != 0 || program_->reply->status != 0) return std::nullopt;
    return program_->reply->peeked;
  }

  // The physical address of `address`, were physical address 0 at kernel address `direct_map`.
  std::optional<std::uint64_t> Translate(std::uint64_t top_table, std::uint64_t direct_map,
                                         std::uint64_t address) {
    const std::uint64_t mask = program_->request->frame_mask;
    std::uint64_t table = top_table;
    for (int shift = program_->request->levels == 5 ? 48 : 39; shift >= 12; shift -= 9) {
      const auto entry = Peek(table + ((address >> shift) & 511) * 8);
      if (!entry || !TableEntry(*entry).present()) return std::nullopt;
      const std::uint64_t inside = (std::uint64_t{1} << shift) - 1;
      const bool leaf = shift == 12 || (shift <= 30 && (*entry & (1 << 7)));
      if (leaf) return (*entry & mask & ~inside) | (address & inside);
      table = (*entry & mask) + direct_map;
    }
    return std::nullopt;
  }

  Status Prepare() {
    if (!table_view_.Map(program_->tables_fd, sizeof(tmprof_table) * TMPROF_WALK_MAX_PARTS) ||
        !part_view_.Map(program_->parts_fd, sizeof(tmprof_walk_part) * TMPROF_WALK_MAX_PARTS) ||
        (program_->points_fd >= 0 &&
         !point_view_.Map(program_->points_fd, sizeof(tmprof_walk_point) * TMPROF_WALK_MAX_POINTS,
                          PROT_READ | PROT_WRITE)))
      return Fail(CannotPrepare(errno, ""));
    tmprof_walk_request& request = *program_->request;
    request.frame_mask = FrameMask();

    // One page of ours, present; the stack is.
    volatile char witness = 1;
    const auto witness_address = reinterpret_cast<std::uint64_t>(&witness);
    request.pid = ::getpid();
    request.mode = TMPROF_WALK_PARTS;
    request.start = witness_address;
    request.end = witness_address + 1;
    if (const int refused = program_->Run()) return Fail(CannotPrepare(refused, ""));
    if (program_->reply->caller_pid != ::getpid() || !IsInInitialPidNamespace()) {
      Error error = CannotPrepare(
          0,
          "tmprof runs in a PID namespace of its own, as in a container, and the kernel's reader "
          "knows processes by their numbers in the initial one only");
      error.advice =
          "run tmprof outside, or start the container in the host's namespace (--pid=host)";
      return Fail(std::move(error));
    }
    // The walk itself fails, as the direct map is not known yet; the top table is there.
    const std::uint64_t top_table = program_->reply->top_table;
    if (top_table == 0) return Fail(CannotPrepare(ESRCH, "no top-level page table"));
    // Kernel half: 0xffff8… with four levels, 0xff1… with five
    // (Documentation/arch/x86/x86_64/mm.rst).
    request.levels = (top_table >> 47) == 0x1ffff ? 4 : 5;
    return FindDirectMap(top_table, witness_address);
  }

  // No symbol gives the direct map's base. It is aligned to 1 GiB, and under the right base the
  // top-level table translates to itself; a frame from pagemap confirms it where we may see one.
  Status FindDirectMap(std::uint64_t top_table, std::uint64_t witness_address) {
    constexpr std::uint64_t kCandidates = 1 << 14;  // 16 TiB of memory
    const std::uint64_t last = top_table & ~(kGiB - 1);
    for (std::uint64_t i = 0; i < kCandidates; ++i) {
      const std::uint64_t base = last - i * kGiB;
      if (Translate(top_table, base, top_table) != top_table - base) continue;
      const std::uint64_t frame = PagemapFrame(witness_address);
      if (frame != 0) {
        const auto physical = Translate(top_table, base, witness_address);
        if (!physical || *physical >> kBasePageShift != frame) continue;
      }
      program_->request->direct_map = base;
      return {};
    }
    return Fail(CannotPrepare(0, "the kernel's direct map was not found"));
  }

  // 0: hidden from us.
  static std::uint64_t PagemapFrame(std::uint64_t address) {
    const UniqueFd pagemap(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
    std::uint64_t entry = 0;
    const auto offset = static_cast<off_t>(VpnOfAddress(address).value() * sizeof entry);
    if (pagemap.get() < 0 || ::pread(pagemap.get(), &entry, sizeof entry, offset) != sizeof entry)
      return 0;
    return entry & kFrameOfPagemap;
  }

  std::unique_ptr<Program> program_;
  MapView table_view_;
  MapView part_view_;
  MapView point_view_;
};

}  // namespace

std::string_view Name(KernelWay way) {
  return way == KernelWay::kSyscallProgram ? "syscall program" : "mapping iterator";
}

Result<std::unique_ptr<PageTableReader>> PageTableReader::Open(KernelWay way) {
  return BpfReader::Create(way);
}

Result<std::unique_ptr<PageTableReader>> PageTableReader::Open() {
  auto best = Open(KernelWay::kSyscallProgram);
  if (best) return best;
  auto second = Open(KernelWay::kMappingIterator);
  // If both fail, the error of the first says best why.
  if (!second) return best;
  (*second)->fallback_reason_ = best.error().Message();
  return second;
}

}  // namespace tmprof::abit
