// SPDX-License-Identifier: Apache-2.0
// A program whose memory has a layout that is hard to scan. It writes to each of its pages in turn
// until it is killed.
//
// usage: layouts guards|statics|mappings|sparse PAGES
//   guards    each page is a mapping of its own, behind a guard page
//   statics   the pages are .bss, in the page table of the program's code and data (at most 256)
//   mappings  each page is a mapping of its own, followed by a read-only one
//   sparse    the pages are spread evenly over one mapping of 4 TiB

#include <sys/mman.h>

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

volatile char* Reserve(std::size_t bytes, int protection) {
  void* memory =
      ::mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
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
  while (true)
    for (volatile char* page : pages) *page = 1;
}
