// SPDX-License-Identifier: Apache-2.0
// proto/ reads the files that the runtime writes by itself.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <link.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "objects/format/objects_file.h"
#include "objects/include/tmprof/objects.h"
#include "objects/runtime/dump.h"
#include "objects/runtime/runtime.h"
#include "proto/trace_file.h"

namespace tmprof {
namespace dump_test {

struct Dumped {
  ObjectsInfo info;
  ObjectsPart all;  // the parts together
  std::uint64_t parts = 0;
  bool finished = false;
};

template <typename T>
void Append(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

Result<Dumped> Read(const std::filesystem::path& path) {
  Result<ObjectsReader> reader = ObjectsReader::Open(path);
  if (!reader) return Fail(reader.error());
  Dumped dumped{.info = reader->info()};
  ObjectsPart part;
  while (true) {
    const Result<bool> more = reader->Next(part);
    if (!more) return Fail(more.error());
    if (!*more) break;
    ++dumped.parts;
    Append(dumped.all.modules, part.modules);
    Append(dumped.all.sites, part.sites);
    Append(dumped.all.variables, part.variables);
    Append(dumped.all.stacks, part.stacks);
    Append(dumped.all.objects, part.objects);
    Append(dumped.all.elements, part.elements);
    dumped.all.elsewhere += part.elsewhere;
  }
  dumped.finished = reader->finished();
  return dumped;
}

class DumpTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::path(testing::TempDir()) /
            ("dump_test." + std::to_string(::getpid()) + ".objects");
  }
  void TearDown() override { std::filesystem::remove(path_); }

  Dumped DumpAndRead() {
    EXPECT_EQ(mem_access_dump(path_.c_str()), 0);
    Result<Dumped> dumped = Read(path_);
    if (!dumped) {
      ADD_FAILURE() << dumped.error().Message();
      return {};
    }
    return *std::move(dumped);
  }

  static const LiveObject* Find(const Dumped& dumped, const void* object) {
    const auto found = std::ranges::find(
        dumped.all.objects, reinterpret_cast<std::uint64_t>(object), &LiveObject::start);
    return found != dumped.all.objects.end() ? &*found : nullptr;
  }

  std::filesystem::path path_;
};

__attribute__((noinline)) void* AllocateHere(std::size_t bytes) {
  void* object = hmalloc(bytes);
  mem_access(object, 1);
  return object;
}

TEST_F(DumpTest, HasEachObjectWithSizeSiteAndCount) {
  void* small = AllocateHere(24);
  void* large = AllocateHere(2'000'000);
  mem_access(large, 41);
  const Dumped dumped = DumpAndRead();
  ASSERT_TRUE(dumped.finished);
  EXPECT_EQ(dumped.info.pid.value(), ::getpid());
  EXPECT_EQ(dumped.info.program, std::filesystem::read_symlink("/proc/self/exe").string());
  EXPECT_LE(dumped.info.start, dumped.info.written);

  const LiveObject* found_small = Find(dumped, small);
  const LiveObject* found_large = Find(dumped, large);
  ASSERT_NE(found_small, nullptr);
  ASSERT_NE(found_large, nullptr);
  EXPECT_EQ(found_small->bytes, 24U);
  EXPECT_EQ(found_small->accesses, 1U);
  EXPECT_EQ(found_large->bytes, 2'000'000U);
  EXPECT_EQ(found_large->accesses, 42U);
  EXPECT_LE(found_large->birth, dumped.info.written - dumped.info.start);
  hfree(small);
  hfree(large);
}

TEST_F(DumpTest, ASiteSumsUpWhatItFreed) {
  void* kept = AllocateHere(100);
  mem_object object{};
  ASSERT_NE(mem_access_find(kept, &object), 0);
  hfree(kept);
  const auto allocate_many = [] {
    std::vector<void*> objects;
    for (int i = 0; i < 10; ++i) objects.push_back(AllocateHere(100));
    for (int i = 0; i < 9; ++i) hfree(objects[static_cast<std::size_t>(i)]);
    return objects.back();
  };
  void* last = allocate_many();
  ASSERT_NE(mem_access_find(last, &object), 0);
  const Dumped dumped = DumpAndRead();
  const auto site = std::ranges::find(dumped.all.sites, object.stack_id, &AllocationSite::id);
  ASSERT_NE(site, dumped.all.sites.end());
  EXPECT_EQ(site->objects, 10U);
  EXPECT_EQ(site->bytes, 1000U);
  EXPECT_EQ(site->freed_objects, 9U);
  EXPECT_EQ(site->freed_bytes, 900U);
  EXPECT_EQ(site->freed_accesses, 9U);
  hfree(last);
}

// One of 2^turns stacks.
__attribute__((noinline)) void* AllocateBy(unsigned path, int turns) {
  if (turns == 0) return AllocateHere(24);
  if (path % 2 == 0) {
    void* object = AllocateBy(path / 2, turns - 1);
    asm volatile("");  // no tail call
    return object;
  }
  void* object = AllocateBy(path / 2, turns - 1);
  asm volatile("nop");  // not the same call
  return object;
}

std::uint32_t StackIdOf(void* object) {
  mem_object found{};
  return mem_access_find(object, &found) != 0 ? found.stack_id : 0;
}

// A stack's numbers of allocations and of frees by one thread lie in two pages. The dump stops
// between them until another thread has allocated and that one has freed.
struct Meanwhile {
  static constexpr int kTurns = 10;
  static constexpr std::size_t kPageBytes = 4096;

  // True if a page ends between the two.
  static bool IsParted(std::uint32_t stack) {
    return stack * sizeof(objtrace::SiteTotals) % kPageBytes ==
           kPageBytes - offsetof(objtrace::SiteTotals, freed_objects);
  }

  std::atomic<void*> object = nullptr;
  void* stopped_at = nullptr;
  std::latch is_ready{3};
  std::atomic<bool> is_read = false;
  std::atomic<bool> is_freed = false;

  void Allocate() {
    bool is_found = false;
    for (unsigned path = 0; path < 1U << kTurns; path += is_found ? 0 : 1) {
      void* made = AllocateBy(path, kTurns);  // one call: it is in the stack
      if (!is_found && !IsParted(StackIdOf(made))) {
        hfree(made);
        continue;
      }
      object = made;
      if (is_found) return;
      is_found = true;
      is_ready.arrive_and_wait();
      while (!is_read) continue;
    }
  }
  void Free() {
    const std::uint32_t stack = StackIdOf(object);
    hfree(object.exchange(nullptr));
    stopped_at = &objtrace::heap.registry().Self()->sites[stack].freed_objects;
    is_ready.arrive_and_wait();
    while (object == nullptr) continue;
    hfree(object.exchange(nullptr));
    is_freed = true;
  }
};
Meanwhile* meanwhile = nullptr;

TEST_F(DumpTest, ASiteHasFreedNoMoreThanItAllocatedWhileThreadsGoOn) {
  Meanwhile threads;
  meanwhile = &threads;
  std::thread allocates([&] { threads.Allocate(); });
  while (threads.object == nullptr) continue;  // its place is the first
  std::thread frees([&] { threads.Free(); });
  threads.is_ready.arrive_and_wait();
  struct sigaction stop{};
  struct sigaction before{};
  stop.sa_handler = [](int) {
    ::mprotect(meanwhile->stopped_at, Meanwhile::kPageBytes, PROT_READ | PROT_WRITE);
    meanwhile->is_read = true;
    while (!meanwhile->is_freed) continue;
  };
  ASSERT_EQ(::sigaction(SIGSEGV, &stop, &before), 0);
  ASSERT_EQ(::mprotect(threads.stopped_at, Meanwhile::kPageBytes, PROT_NONE), 0);
  const Dumped dumped = DumpAndRead();
  ::sigaction(SIGSEGV, &before, nullptr);
  EXPECT_TRUE(threads.is_freed);
  EXPECT_TRUE(dumped.finished) << "nothing of it is refused";
  allocates.join();
  frees.join();
}

TEST_F(DumpTest, ASiteHasWhatAnotherThreadCountedOfAFreedObjectAndHasYetToHandOver) {
  void* object = AllocateHere(100);
  mem_object described{};
  ASSERT_NE(mem_access_find(object, &described), 0);
  std::latch counted(1);
  std::latch dumped(1);
  std::thread other([&] {
    mem_access(object, 7);
    counted.count_down();
    dumped.wait();
  });
  counted.wait();
  hfree(object);
  const Dumped read = DumpAndRead();
  dumped.count_down();
  other.join();
  const auto site = std::ranges::find(read.all.sites, described.stack_id, &AllocationSite::id);
  ASSERT_NE(site, read.all.sites.end());
  EXPECT_EQ(site->freed_accesses, 8U);
}

TEST_F(DumpTest, AReturnAddressIsInTheFunctionThatAllocatedAndInAModule) {
  void* object = AllocateHere(8);
  mem_object found{};
  ASSERT_NE(mem_access_find(object, &found), 0);
  const Dumped dumped = DumpAndRead();
  const auto site = std::ranges::find(dumped.all.sites, found.stack_id, &AllocationSite::id);
  ASSERT_NE(site, dumped.all.sites.end());
  ASSERT_FALSE(site->return_addresses.empty());
  const std::uint64_t address = site->return_addresses.front();
  EXPECT_GT(address, reinterpret_cast<std::uint64_t>(&AllocateHere));
  EXPECT_LT(address, reinterpret_cast<std::uint64_t>(&AllocateHere) + 500);
  const auto module = std::ranges::find_if(dumped.all.modules, [&](const LoadedModule& candidate) {
    return candidate.start <= address && address < candidate.end;
  });
  ASSERT_NE(module, dumped.all.modules.end());
  EXPECT_EQ(module->path, "");
  EXPECT_FALSE(module->instrumented);
  EXPECT_EQ(module->bias, _r_debug.r_map->l_addr);
  hfree(object);
}

TEST_F(DumpTest, HasCountsByElement) {
  auto* array = static_cast<char*>(hmalloc(80));
  ASSERT_EQ(mem_access_by_element(array, 8), 0);
  mem_access(array + 16, 3);
  mem_access(array + 79, 200);
  const Dumped dumped = DumpAndRead();
  const auto elements = std::ranges::find(
      dumped.all.elements, reinterpret_cast<std::uint64_t>(array), &ElementCounts::start);
  ASSERT_NE(elements, dumped.all.elements.end());
  EXPECT_EQ(elements->element_bytes, 8U);
  EXPECT_THAT(elements->accesses, testing::ElementsAre(0, 0, 3, 0, 0, 0, 0, 0, 0, 200));
  hfree(array);
}

TEST_F(DumpTest, CountsByElementAreSpreadOverParts) {
  constexpr std::size_t kArrays = 4;
  constexpr std::size_t kElements = 2'000'000;  // a byte in the file each
  std::vector<char*> arrays;
  for (std::size_t i = 0; i < kArrays; ++i) {
    arrays.push_back(static_cast<char*>(hmalloc(kElements)));
    ASSERT_EQ(mem_access_by_element(arrays.back(), 1), 0);
    mem_access(arrays.back() + i, 5);
  }
  const Dumped dumped = DumpAndRead();
  EXPECT_GT(dumped.parts, kArrays);
  for (std::size_t i = 0; i < kArrays; ++i) {
    const auto elements = std::ranges::find(
        dumped.all.elements, reinterpret_cast<std::uint64_t>(arrays[i]), &ElementCounts::start);
    ASSERT_NE(elements, dumped.all.elements.end());
    ASSERT_EQ(elements->accesses.size(), kElements);
    EXPECT_EQ(elements->accesses[i], 5U);
    EXPECT_NE(Find(dumped, arrays[i]), nullptr);
    hfree(arrays[i]);
  }
}

TEST_F(DumpTest, AResizedObjectsBytesAreItsSitesBytes) {
  void* object = AllocateHere(100);
  mem_object found{};
  ASSERT_NE(mem_access_find(object, &found), 0);
  ASSERT_EQ(hrealloc(object, 90), object) << "it is resized in place";
  const auto site_of = [&](const Dumped& dumped) {
    const auto site = std::ranges::find(dumped.all.sites, found.stack_id, &AllocationSite::id);
    return site != dumped.all.sites.end() ? *site : AllocationSite{};
  };
  EXPECT_EQ(site_of(DumpAndRead()).bytes, 90U);
  ASSERT_EQ(hrealloc(object, 96), object);
  EXPECT_EQ(site_of(DumpAndRead()).bytes, 96U);
  hfree(object);
  EXPECT_EQ(site_of(DumpAndRead()).freed_bytes, 96U);
}

TEST_F(DumpTest, AThreadThatFreesAnothersObjectHandsItsCountOverFirst) {
  void* object = AllocateHere(100);
  mem_object found{};
  ASSERT_NE(mem_access_find(object, &found), 0);
  std::thread([object] {
    mem_access(object, 6);
    hfree(object);
  }).join();
  const Dumped dumped = DumpAndRead();
  const auto site = std::ranges::find(dumped.all.sites, found.stack_id, &AllocationSite::id);
  ASSERT_NE(site, dumped.all.sites.end());
  EXPECT_EQ(site->freed_accesses, 7U);
}

// The C library frees in this way when a thread has no destructors left.
TEST_F(DumpTest, AThreadThatFreesAfterItsLastDestructorLeavesItsPlaceToOthers) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer ends what it knows of a thread before the last destructors run";
#endif
  hfree(hmalloc(8));  // the runtime's destructor comes first
  static pthread_key_t key;
  struct Last {
    int rounds_left = PTHREAD_DESTRUCTOR_ITERATIONS - 1;
    void* object = nullptr;
  };
  ASSERT_EQ(::pthread_key_create(&key,
                                 [](void* context) {
                                   auto& last = *static_cast<Last*>(context);
                                   if (last.rounds_left-- > 0) {
                                     ::pthread_setspecific(key, context);
                                   } else {
                                     hfree(last.object);
                                   }
                                 }),
            0);
  const std::size_t places = DumpAndRead().all.stacks.size();
  for (int i = 0; i < 10; ++i) {
    Last last;
    std::thread([&last] {
      last.object = hmalloc(8);
      ::pthread_setspecific(key, &last);
    }).join();
    EXPECT_EQ(last.rounds_left, -1);
  }
  ::pthread_key_delete(key);
  EXPECT_LE(DumpAndRead().all.stacks.size(), places + 1);
}

TEST_F(DumpTest, ALinkIsRefusedWhereNobodyNamedTheFile) {
  const std::filesystem::path target = path_.string() + ".target";
  std::ofstream(target) << "kept";
  std::filesystem::create_symlink(target, path_);
  EXPECT_EQ(objtrace::Dump(path_.c_str(), objtrace::Links::kRefuse), ELOOP);
  EXPECT_EQ(std::filesystem::file_size(target), 4U);
  EXPECT_EQ(objtrace::Dump(path_.c_str(), objtrace::Links::kFollow), 0);
  EXPECT_GT(std::filesystem::file_size(target), 4U);
  std::filesystem::remove(target);
}

TEST_F(DumpTest, TellsStacksAndTheRestApart) {
  const Dumped before = DumpAndRead();
  int local = 0;
  mem_access(&local, 5);
  std::thread([&local] {
    int own = 0;
    mem_access(&own, 7);
    mem_access(&local, 11);
  }).join();
  mem_access(reinterpret_cast<void*>(4096), 13);
  const Dumped after = DumpAndRead();
  const auto accesses = [](const Dumped& dumped, std::uint32_t number) {
    const auto stack = std::ranges::find(dumped.all.stacks, number, &ThreadStack::number);
    return stack != dumped.all.stacks.end() ? stack->accesses : 0;
  };
  EXPECT_EQ(accesses(after, 1) - accesses(before, 1), 16U);
  EXPECT_EQ(accesses(after, 2) - accesses(before, 2), 7U);
  EXPECT_EQ(after.all.elsewhere - before.all.elsewhere, 13U);
}

// Neither allocates before it counts: nobody told where its stack is.
TEST_F(DumpTest, AnAccessToOneOfTwoAdjoiningStacksIsThatOnes) {
  // ThreadSanitizer's own variables of a thread take more than 256 KiB of its stack.
  constexpr std::size_t kStackBytes = std::size_t{1} << 22;
  void* stacks =
      ::mmap(nullptr, 2 * kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(stacks, MAP_FAILED);
  struct Shared {
    std::latch lower_counted{1};
    std::latch upper_counted{1};
    std::latch done{1};
    void* lower_local = nullptr;
  } shared;
  const auto start = [&](std::size_t which, void* (*run)(void*)) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, static_cast<std::byte*>(stacks) + which * kStackBytes,
                          kStackBytes);
    pthread_t thread{};
    TMPROF_CHECK(pthread_create(&thread, &attributes, run, &shared) == 0);  // else all would wait
    pthread_attr_destroy(&attributes);
    return thread;
  };
  const pthread_t lower = start(0, [](void* context) -> void* {
    auto& with = *static_cast<Shared*>(context);
    int local = 0;
    with.lower_local = &local;
    mem_access(&local, 1);
    with.lower_counted.count_down();
    with.done.wait();
    return nullptr;
  });
  shared.lower_counted.wait();
  const pthread_t upper = start(1, [](void* context) -> void* {
    auto& with = *static_cast<Shared*>(context);
    int local = 0;
    mem_access(&local, 1);
    with.upper_counted.count_down();
    with.done.wait();
    return nullptr;
  });
  shared.upper_counted.wait();
  mem_access(shared.lower_local, 1000);
  const Dumped dumped = DumpAndRead();
  shared.done.count_down();
  pthread_join(lower, nullptr);
  pthread_join(upper, nullptr);
  const auto lower_end = reinterpret_cast<std::uint64_t>(stacks) + kStackBytes;
  const auto found = std::ranges::find_if(dumped.all.stacks, [&](const ThreadStack& stack) {
    return lower_end - kStackBytes < stack.end && stack.end <= lower_end;
  });
  ASSERT_NE(found, dumped.all.stacks.end());
  EXPECT_GE(found->accesses, 1001U);
  ::munmap(stacks, 2 * kStackBytes);
}

TEST_F(DumpTest, HoldsMoreObjectsThanAPart) {
  constexpr std::size_t kObjects = 200'000;
  std::vector<void*> objects;
  for (std::size_t i = 0; i < kObjects; ++i) {
    objects.push_back(hmalloc(8));
    mem_access(objects.back(), static_cast<int>(i));
  }
  const Dumped dumped = DumpAndRead();
  EXPECT_TRUE(std::ranges::is_sorted(dumped.all.objects, {}, &LiveObject::start));
  std::uint64_t sum = 0;
  for (const LiveObject& object : dumped.all.objects) sum += object.accesses;
  EXPECT_EQ(sum, kObjects * (kObjects - 1) / 2);
  for (void* object : objects) hfree(object);
}

TEST_F(DumpTest, SaysWhyItCannotWrite) {
  EXPECT_EQ(mem_access_dump("/nonexistent/folder/x.objects"), ENOENT);
  if (std::filesystem::exists("/dev/full")) {
    EXPECT_EQ(mem_access_dump("/dev/full"), ENOSPC);
  }
}

TEST_F(DumpTest, AnyFlippedByteIsFound) {
  void* object = AllocateHere(8);
  ASSERT_EQ(mem_access_dump(path_.c_str()), 0);
  std::ifstream in(path_, std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  for (std::size_t at = 0; at < whole.size(); at += whole.size() / 50 + 1) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    std::ofstream(path_, std::ios::binary) << damaged;
    EXPECT_FALSE(Read(path_)) << "byte " << at;
  }
  hfree(object);
}

TEST_F(DumpTest, ACommandThatWantsATraceSaysWhatItIs) {
  ASSERT_EQ(mem_access_dump(path_.c_str()), 0);
  const auto reader = TraceReader::Open(path_);
  ASSERT_FALSE(reader);
  EXPECT_THAT(reader.error().Message(), testing::HasSubstr("it is a tmprof object profile"));
}

}  // namespace dump_test
}  // namespace tmprof
