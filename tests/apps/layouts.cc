// SPDX-License-Identifier: Apache-2.0
// A program whose memory is hard to scan. It says "ready" and accesses each of its pages in turn
// until it is killed.
//
// usage: layouts LAYOUT PAGES
//   guards    each page is a mapping of its own, behind a guard page
//   statics   the pages are .bss, in the page table of the program's code and data (at most 256)
//   mappings  each page is a mapping of its own, followed by a read-only one
//   sparse    the pages are spread evenly over one mapping of 4 TiB
//   shared    the pages are of one mapping that a child that sleeps has touched, too
//   forked    the pages are private and a child that sleeps has them, too: both only read them
//   family    the pages are private, and ten children that read them have them, too
//   locked    all memory is locked, also what is mapped later (mlockall(2))
//   memfd     the pages are of a memfd_create(2) file
//   sysv      the pages are of a System V segment
//   file      the pages are of a file on a disk, mapped shared; it only reads them
//   lazyfree  the pages may be freed by the kernel (MADV_FREE); it only reads them
//   uffd      a userfaultfd(2) is told of missing pages, and has filled all of them
//   merged    the pages are equal and only read: the kernel may merge them (MADV_MERGEABLE)
//   huge      the pages are in transparent huge pages, as far as the kernel has any
//   hugetlb   the pages are in huge pages of hugetlbfs
//   device    the pages are not managed by the kernel's memory management (VM_PFNMAP)
//
// Exit status 77: this machine has no such memory. The reason is on standard error.

#include <fcntl.h>
#include <linux/perf_event.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = 512 * kPage;
constexpr int kNoSuchMemory = 77;
constexpr std::size_t kSparseBytes = std::size_t{4} << 40;

volatile char statics[256 * kPage];

[[noreturn]] void RefuseAs(const char* attempt) {
  std::perror(attempt);
  std::exit(kNoSuchMemory);
}

volatile char* Reserve(std::size_t bytes, int protection, int sharing = MAP_PRIVATE) {
  void* memory = ::mmap(nullptr, bytes, protection, sharing | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("mmap");
    std::exit(1);
  }
  ::madvise(memory, bytes, MADV_NOHUGEPAGE);
  return static_cast<volatile char*>(memory);
}

void Protect(volatile char* page, int protection) {
  if (::mprotect(const_cast<char*>(page), kPage, protection) == 0) return;
  std::perror("mprotect");
  std::exit(1);
}

void Touch(const std::vector<volatile char*>& pages) {
  for (volatile char* page : pages) *page = 1;
}

volatile char* MapFile(int file, std::size_t bytes) {
  if (file < 0) RefuseAs("open file");
  if (::ftruncate(file, static_cast<off_t>(bytes)) != 0) RefuseAs("ftruncate");
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) RefuseAs("mmap file");
  return static_cast<volatile char*>(memory);
}

volatile char* AttachSegment(std::size_t bytes) {
  const int segment = ::shmget(IPC_PRIVATE, bytes, IPC_CREAT | 0600);
  if (segment < 0) RefuseAs("shmget");
  void* memory = ::shmat(segment, nullptr, 0);
  ::shmctl(segment, IPC_RMID, nullptr);  // with its last process
  if (memory == reinterpret_cast<void*>(-1)) RefuseAs("shmat");
  return static_cast<volatile char*>(memory);
}

void Advise(volatile char* memory, std::size_t bytes, int advice, const char* name) {
  if (::madvise(const_cast<char*>(memory), bytes, advice) != 0) RefuseAs(name);
}

// All pages are filled by the userfaultfd, which stays open.
volatile char* FillByUserfaultfd(std::size_t bytes) {
  volatile char* memory = Reserve(bytes, PROT_READ | PROT_WRITE);
  const int fd = static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY));
  if (fd < 0) RefuseAs("userfaultfd");
  uffdio_api api{.api = UFFD_API, .features = 0, .ioctls = 0};
  if (::ioctl(fd, UFFDIO_API, &api) != 0) RefuseAs("UFFDIO_API");
  const auto start = reinterpret_cast<std::uint64_t>(memory);
  uffdio_register range{
      .range = {.start = start, .len = bytes}, .mode = UFFDIO_REGISTER_MODE_MISSING, .ioctls = 0};
  if (::ioctl(fd, UFFDIO_REGISTER, &range) != 0) RefuseAs("UFFDIO_REGISTER");
  alignas(kPage) static char filling[kPage] = {1};
  for (std::size_t at = 0; at < bytes; at += kPage) {
    uffdio_copy copy{.dst = start + at,
                     .src = reinterpret_cast<std::uint64_t>(filling),
                     .len = kPage,
                     .mode = 0,
                     .copy = 0};
    if (::ioctl(fd, UFFDIO_COPY, &copy) != 0) RefuseAs("UFFDIO_COPY");
  }
  return memory;
}

volatile char* InHugePages(std::size_t bytes) {
  volatile char* memory = Reserve(bytes + kHugePage, PROT_READ | PROT_WRITE);
  memory += (kHugePage - reinterpret_cast<std::uintptr_t>(memory) % kHugePage) % kHugePage;
  Advise(memory, bytes, MADV_HUGEPAGE, "MADV_HUGEPAGE");
  return memory;
}

volatile char* OfHugetlbfs(std::size_t bytes) {
  const std::size_t whole = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  void* memory = ::mmap(nullptr, whole, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
  if (memory == MAP_FAILED) RefuseAs("mmap of huge pages");
  return static_cast<volatile char*>(memory);
}

// The buffer of a perf event is memory that a driver maps. It has a first page of its own, and a
// power of two of others.
volatile char* OfPerfEvent(std::size_t& pages) {
  perf_event_attr attributes{};
  attributes.type = PERF_TYPE_SOFTWARE;
  attributes.size = sizeof attributes;
  attributes.config = PERF_COUNT_SW_DUMMY;
  attributes.disabled = 1;
  const int event = static_cast<int>(
      ::syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC));
  if (event < 0) RefuseAs("perf_event_open");
  pages = std::bit_floor(pages) + 1;
  void* memory = ::mmap(nullptr, pages * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, event, 0);
  if (memory == MAP_FAILED) RefuseAs("mmap of a perf event");
  return static_cast<volatile char*>(memory);
}

// A child that has mapped what this process has mapped, and ends with it.
void ForkOneThatSleeps(const std::vector<volatile char*>& pages) {
  const pid_t parent = ::getpid();
  int touched[2];
  if (::pipe(touched) != 0) std::exit(1);
  const pid_t child = ::fork();
  if (child < 0) std::exit(1);
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    char sum = 0;
    for (const volatile char* page : pages) sum = static_cast<char>(sum + *page);
    if (::write(touched[1], &sum, 1) != 1) ::_exit(1);
    while (::getppid() == parent) ::pause();
    ::_exit(0);
  }
  char sum = 0;
  if (::read(touched[0], &sum, 1) != 1) std::exit(1);
}

[[noreturn]] void ReadForever(const std::vector<volatile char*>& pages) {
  volatile char sum = 0;
  while (true)
    for (const volatile char* page : pages) sum = static_cast<char>(sum + *page);
}

// Children that read what this process has mapped, and end with it.
void ForkReaders(const std::vector<volatile char*>& pages) {
  constexpr int kReaders = 10;
  const pid_t parent = ::getpid();
  for (int i = 0; i < kReaders; ++i) {
    const pid_t child = ::fork();
    if (child < 0) std::exit(1);
    if (child > 0) continue;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(0);
    ReadForever(pages);
  }
}

// One mapping of `count` pages, which may become another number. nullptr: no such layout.
volatile char* MapLayout(std::string_view layout, std::size_t& count) {
  const std::size_t bytes = count * kPage;
  if (layout == "shared") return Reserve(bytes, PROT_READ | PROT_WRITE, MAP_SHARED);
  if (layout == "forked" || layout == "family" || layout == "lazyfree")
    return Reserve(bytes, PROT_READ | PROT_WRITE);
  if (layout == "locked") {
    if (::mlockall(MCL_CURRENT | MCL_FUTURE) != 0) RefuseAs("mlockall");
    return Reserve(bytes, PROT_READ | PROT_WRITE);
  }
  if (layout == "memfd") return MapFile(::memfd_create("layouts", MFD_CLOEXEC), bytes);
  if (layout == "file") {
    return MapFile(::open("/var/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600), bytes);
  }
  if (layout == "sysv") return AttachSegment(bytes);
  if (layout == "uffd") return FillByUserfaultfd(bytes);
  if (layout == "merged") {
    volatile char* memory = Reserve(bytes, PROT_READ | PROT_WRITE);
    Advise(memory, bytes, MADV_MERGEABLE, "MADV_MERGEABLE");
    return memory;
  }
  if (layout == "huge") return InHugePages(bytes);
  if (layout == "hugetlb") return OfHugetlbfs(bytes);
  if (layout == "device") return OfPerfEvent(count);
  return nullptr;
}

// A write would make a page private, dirty or one that is not merged any more.
bool IsOnlyRead(std::string_view layout) {
  return layout == "forked" || layout == "family" || layout == "file" || layout == "lazyfree" ||
         layout == "merged" || layout == "device";
}

std::vector<volatile char*> Pages(std::string_view layout, std::size_t count) {
  std::vector<volatile char*> pages(count);
  if (layout == "guards") {
    volatile char* memory = Reserve(2 * count * kPage, PROT_NONE);
    for (std::size_t i = 0; i < count; ++i) {
      pages[i] = memory + (2 * i + 1) * kPage;
      Protect(pages[i], PROT_READ | PROT_WRITE);
    }
  } else if (layout == "statics") {
    pages.resize(std::min(count, sizeof statics / kPage));
    for (std::size_t i = 0; i < pages.size(); ++i) pages[i] = statics + i * kPage;
  } else if (layout == "mappings") {
    volatile char* memory = Reserve(2 * count * kPage, PROT_READ | PROT_WRITE);
    for (std::size_t i = 0; i < count; ++i) {
      pages[i] = memory + 2 * i * kPage;
      Protect(pages[i] + kPage, PROT_READ);
    }
  } else if (layout == "sparse") {
    volatile char* memory = Reserve(kSparseBytes, PROT_READ | PROT_WRITE);
    for (std::size_t i = 0; i < count; ++i)
      pages[i] = memory + kSparseBytes / count / kPage * kPage * i;
  } else {
    volatile char* memory = MapLayout(layout, count);
    pages.resize(memory == nullptr ? 0 : count);
    for (std::size_t i = 0; i < pages.size(); ++i) pages[i] = memory + i * kPage;
    if (layout == "device") return pages;  // the kernel reads some of it
    Touch(pages);
    if (layout == "shared" || layout == "forked") ForkOneThatSleeps(pages);
    if (layout == "family") ForkReaders(pages);
    if (layout == "lazyfree") Advise(memory, count * kPage, MADV_FREE, "MADV_FREE");
  }
  return pages;
}

}  // namespace

int main(int argument_count, char** arguments) {
  if (argument_count != 3) return 2;
  const std::vector<volatile char*> pages =
      Pages(arguments[1], std::strtoul(arguments[2], nullptr, 10));
  if (pages.empty()) return 2;
  std::puts("ready");
  std::fflush(stdout);
  if (IsOnlyRead(arguments[1])) ReadForever(pages);
  while (true) Touch(pages);
}
