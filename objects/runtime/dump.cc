// SPDX-License-Identifier: Apache-2.0

#include "objects/runtime/dump.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <ctime>

#include "objects/runtime/runtime.h"
#include "objects/runtime/wire.h"

namespace tmprof::objtrace {
namespace {

constexpr char kMagic[] = "\x89TMOBJS\n";
constexpr std::uint32_t kVersion = 1;
enum Frame : std::uint32_t { kHeader = 1, kPart = 2, kEnd = 3 };

constexpr std::uint64_t kObjectsPerPart = 1 << 16;
constexpr std::size_t kFullPartBytes = std::size_t{1} << 20;
constexpr std::uint64_t kNsPerSecond = 1'000'000'000;
constexpr std::uint64_t kNsPerMs = 1'000'000;

std::uint64_t NowNs(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * kNsPerSecond +
         static_cast<std::uint64_t>(now.tv_nsec);
}

class Dumper {
 public:
  Dumper(const char* path, Links links) {
    file_.Create(path, links == Links::kRefuse ? O_NOFOLLOW : 0, kMagic, kVersion);
  }

  int Run() {
    WriteHeader();
    WriteModules();
    WriteStacks();
    WriteStatics();
    WriteObjects();
    WriteEnd();
    file_.Close();
    return file_.error();
  }

 private:
  void WriteHeader();
  void WriteModules();
  void AddModule(const LoadedImage& image, bool is_closed);
  void WriteStacks();
  void WriteStatics();
  void WriteObjects();
  void WriteEnd();
  void AddObject(const Header& header);
  void FlushObjects();
  void FlushPart() {
    file_.Append(kPart, part_);
    part_.Clear();
    ++parts_;
  }
  void FlushFullPart() {
    if (part_.size() > kFullPartBytes) FlushPart();
  }

  FrameFile file_;
  Message part_;
  Message item_;
  Message list_;
  std::uint64_t parts_ = 0;

  std::uint64_t objects_ = 0;
  std::uint64_t in_part_ = 0;
  std::uint64_t previous_start_ = 0;
  // Columns of objects.
  Message steps_;
  Message bytes_;
  Message stacks_;
  Message births_;
  Message accesses_;
};

void Dumper::WriteHeader() {
  char program[4096];
  const ssize_t length = ::readlink("/proc/self/exe", program, sizeof(program) - 1);
  program[std::max<ssize_t>(length, 0)] = '\0';
  const std::uint64_t now = NowNs(CLOCK_MONOTONIC);
  const std::uint64_t start = heap.start_ms() * kNsPerMs;
  item_.Clear();
  item_.Number(1, static_cast<std::uint64_t>(::getpid()));
  item_.Number(2, static_cast<std::uint64_t>(::getppid()));
  item_.Number(3, heap.registry().forks());
  item_.Text(4, program);
  item_.Number(5, start);
  item_.Number(6, now);
  item_.Number(7, NowNs(CLOCK_REALTIME) - (now - start));
  file_.Append(kHeader, item_);
}

void Dumper::AddModule(const LoadedImage& image, bool is_closed) {
  item_.Clear();
  item_.Text(1, image.name);
  if (image.build_id != nullptr) item_.Bytes(2, image.build_id, image.build_id_bytes);
  item_.Number(3, image.start);
  item_.Number(4, image.end);
  item_.Number(5, image.bias);
  item_.Number(6, statics.IsInstrumented(image.start, image.end, image.name));
  item_.Number(7, is_closed);
  statics.EachUncounted(image.start, image.end, image.name,
                        [this](const char* part) { item_.Text(8, part); });
  part_.Nested(1, item_);
  FlushFullPart();
}

void Dumper::WriteModules() {
  EachLoaded([](const LoadedImage& image,
                void* dumper) { static_cast<Dumper*>(dumper)->AddModule(image, false); },
             this);
  closed_images.EachClosed(
      [](const LoadedImage& image, void* dumper) {
        static_cast<Dumper*>(dumper)->AddModule(image, true);
      },
      this);
}

// Sums up the totals of all threads, which go on allocating and freeing. Frees are read first, in
// all threads: whatever was freed then counts as allocated, too.
SiteTotals TotalsOf(std::uint32_t stack) {
  SiteTotals sum{};
  heap.registry().EachThread([&](const Thread& thread) {
    const SiteTotals& site = thread.sites[stack];
    sum.freed_objects += __atomic_load_n(&site.freed_objects, __ATOMIC_ACQUIRE);
    sum.freed_bytes += Load(site.freed_bytes);
    sum.freed_accesses += Load(site.freed_accesses);
    sum.freed_age_ms += Load(site.freed_age_ms);
  });
  std::atomic_thread_fence(std::memory_order_acquire);
  heap.registry().EachThread([&](const Thread& thread) {
    const SiteTotals& site = thread.sites[stack];
    sum.objects += Load(site.objects);
    sum.bytes += Load(site.bytes);
  });
  // fork(2) copies pages one by one while other threads write. The child may have the end of an
  // allocation without its beginning.
  sum.objects = std::max(sum.objects, sum.freed_objects);
  return sum;
}

void Dumper::WriteStacks() {
  // Totals per allocation stack. Omitted if memory for the table cannot be allocated.
  constexpr std::uint64_t kUncreditedBytes = kMaxStacks * sizeof(std::uint64_t);
  auto* uncredited = static_cast<std::uint64_t*>(MapSparse(kUncreditedBytes));
  if (uncredited != nullptr) {
    heap.EachPendingOfFreed(
        [&](std::uint32_t stack, std::uint64_t accesses) { uncredited[stack] += accesses; });
  }
  for (std::uint32_t id = kUnknownStack; id < heap.stacks().size(); ++id) {
    SiteTotals sum = TotalsOf(id);
    if (uncredited != nullptr) sum.freed_accesses += uncredited[id];
    list_.Clear();
    bool is_cut = true;
    if (id != kUnknownStack) {
      const Stack& stack = heap.stacks().Get(id);
      is_cut = stack.is_cut;
      for (std::uint64_t i = 0; i < stack.depth; ++i) list_.Packed(stack.frames()[i]);
    }
    item_.Clear();
    item_.Number(1, id);
    item_.Nested(2, list_);
    item_.Number(3, sum.objects);
    item_.Number(4, sum.bytes);
    item_.Number(5, sum.freed_objects);
    item_.Number(6, sum.freed_bytes);
    item_.Number(7, sum.freed_accesses);
    item_.Number(8, sum.freed_age_ms);
    item_.Number(9, is_cut);
    part_.Nested(2, item_);
    FlushFullPart();
  }
  Unmap(uncredited, kUncreditedBytes);
}

void Dumper::WriteStatics() {
  statics.EachRecord([this](const StaticRecord& record) {
    item_.Clear();
    item_.Text(1, record.name);
    item_.Number(2, record.start);
    item_.Number(3, record.bytes);
    item_.Number(4, StaticCount(heap.registry(), record.id));
    part_.Nested(3, item_);
    FlushFullPart();
  });
  heap.registry().EachThread([this](const Thread& thread) {
    item_.Clear();
    item_.Number(1, thread.number);
    item_.Number(2, thread.users);
    const StackBounds stack = thread.stack.Get();
    item_.Number(3, stack.start);
    item_.Number(4, stack.end);
    item_.Number(5, StackCount(heap.registry(), thread));
    part_.Nested(4, item_);
    FlushFullPart();
  });
  part_.Number(5, StaticCount(heap.registry(), kElsewhereId));
  FlushPart();
}

void Dumper::FlushObjects() {
  item_.Clear();
  std::uint32_t column = 1;
  for (Message* values : {&steps_, &bytes_, &stacks_, &births_, &accesses_}) {
    item_.Nested(column++, *values);
    values->Clear();
  }
  part_.Nested(6, item_);
  FlushPart();
  in_part_ = 0;
  previous_start_ = 0;
}

void Dumper::AddObject(const Header& header) {
  const std::uint64_t start = heap.StartOf(header);
  steps_.Packed(start - previous_start_);
  bytes_.Packed(heap.BytesOf(header));
  stacks_.Packed(header.stack);
  births_.Packed(header.birth_ms);
  accesses_.Packed(heap.CountOf(header));
  previous_start_ = start;
  ++objects_;
  if (const Elements* elements = heap.ElementsOf(header)) {
    list_.Clear();
    for (std::uint64_t i = 0; i < elements->elements; ++i) {
      list_.Packed(elements->counts[i].load(std::memory_order_relaxed));
    }
    item_.Clear();
    item_.Number(1, start);
    item_.Number(2, elements->element_bytes);
    item_.Nested(3, list_);
    part_.Nested(7, item_);
    FlushFullPart();
  }
  if (++in_part_ == kObjectsPerPart) FlushObjects();
}

void Dumper::WriteObjects() {
  for (const Header* header = heap.NextFrom(heap.pool().start()); header != nullptr;
       header = heap.NextFrom(reinterpret_cast<std::uint64_t>(header) + 1)) {
    AddObject(*header);
  }
  if (in_part_ > 0) FlushObjects();
}

void Dumper::WriteEnd() {
  item_.Clear();
  item_.Number(1, parts_);
  item_.Number(2, objects_);
  file_.Append(kEnd, item_);
}

}  // namespace

int Dump(const char* path, Links links) { return Dumper(path, links).Run(); }

}  // namespace tmprof::objtrace
