// SPDX-License-Identifier: Apache-2.0
// A program whose memory is hard to scan. It accesses each of its pages in turn until it is killed.
//
// usage: layouts guards|statics|mappings|sparse|shared|forked|locked PAGES
//   guards    each page is a mapping of its own, behind a guard page
//   statics   the pages are .bss, in the page table of the program's code and data (at most 256)
//   mappings  each page is a mapping of its own, followed by a read-only one
//   sparse    the pages are spread evenly over one mapping of 4 TiB
//   shared    the pages are of one mapping that a child that sleeps has touched, too
//   forked    the pages are private and a child that sleeps has them, too: both only read them
//   locked    the pages are locked in memory

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kSparseBytes = std::size_t{4} << 40;

volatile char statics[256 * kPage];

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
  } else if (layout == "shared" || layout == "forked" || layout == "locked") {
    volatile char* memory = Reserve(count * kPage, PROT_READ | PROT_WRITE,
                                    layout == "shared" ? MAP_SHARED : MAP_PRIVATE);
    for (std::size_t i = 0; i < count; ++i) pages[i] = memory + i * kPage;
    Touch(pages);
    if (layout == "locked") {
      if (::mlock(const_cast<char*>(memory), count * kPage) != 0) std::exit(1);
    } else {
      ForkOneThatSleeps(pages);
    }
  } else {
    pages.clear();
  }
  return pages;
}

}  // namespace

int main(int argument_count, char** arguments) {
  if (argument_count != 3) return 2;
  const std::vector<volatile char*> pages =
      Pages(arguments[1], std::strtoul(arguments[2], nullptr, 10));
  if (pages.empty()) return 2;
  if (std::string_view(arguments[1]) == "forked") {
    volatile char sum = 0;
    while (true)
      for (const volatile char* page : pages) sum = static_cast<char>(sum + *page);
  }
  while (true) Touch(pages);
}
