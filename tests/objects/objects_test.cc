// SPDX-License-Identifier: Apache-2.0

#include "objects/include/tmprof/objects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <fstream>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "objects/runtime/runtime.h"

extern "C" int c_walk(int points);

namespace objects_test {

struct Freed {
  void operator()(void* object) const { hfree(object); }
};
using Object = std::unique_ptr<char, Freed>;

Object Make(std::size_t bytes) { return Object(static_cast<char*>(hmalloc(bytes))); }

// An object of its own page of slots: what it overwrites is nobody else's.
constexpr std::size_t kOwnBytes = 30'000;

TEST(ObjectsTest, EveryAccessToAnObjectIsCountedWithItsWeight) {
  const Object a = Make(24);
  const Object b = Make(24);
  mem_access(a.get(), 1);
  mem_access(a.get(), 5);
  mem_access(b.get(), 2);
  mem_access(b.get(), -7);
  mem_access(b.get(), 0);
  EXPECT_EQ(mem_access_count(a.get()), 6);
  EXPECT_EQ(mem_access_count(b.get()), 2);
}

TEST(ObjectsTest, TheFirstAndLastByteOfEverySizeAreTheirObjects) {
  for (std::size_t bytes = 1; bytes < 300'000; bytes += bytes / 7 + 1) {
    const std::array<Object, 3> objects{Make(bytes), Make(bytes), Make(bytes)};
    for (const Object& object : objects) {
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(object.get()) % 16, 0U);
      mem_access(object.get(), 1);
      mem_access(object.get() + bytes / 2, 10);
      mem_access(object.get() + bytes - 1, 100);
    }
    for (const Object& object : objects) ASSERT_EQ(mem_access_count(object.get()), 111) << bytes;
  }
}

TEST(ObjectsTest, ArraysOfStructuresCountFromC) { EXPECT_EQ(c_walk(1000), 1000); }

TEST(ObjectsTest, AFreshObjectAlwaysCountsFromZero) {
  for (int round = 0; round < 100; ++round) {
    const Object object = Make(40);
    ASSERT_EQ(mem_access_count(object.get()), 0);
    mem_access(object.get(), 3);
  }
}

TEST(ObjectsTest, CountsPassThirtyTwoBitsAndTheIntSaturates) {
  const Object object = Make(8);
  for (int i = 0; i < 3; ++i) mem_access(object.get(), INT_MAX);
  EXPECT_EQ(mem_access_count64(object.get()), 3 * std::uint64_t{INT_MAX});
  EXPECT_EQ(mem_access_count(object.get()), INT_MAX);
}

TEST(ObjectsTest, AccessesToNoObjectCountNowhere) {
  const Object object = Make(8);
  int local = 0;
  mem_access(&local, 4);
  mem_access(nullptr, 4);
  EXPECT_EQ(mem_access_count(&local), 0);
  EXPECT_EQ(mem_access_count(nullptr), 0);
  EXPECT_EQ(mem_access_count(object.get()), 0);
}

TEST(ObjectsTest, ClearedMemoryIsZeroAlsoWhereItWasUsedBefore) {
  for (const std::size_t bytes : {24UL, 5'000UL, 100'000UL, 3'000'000UL}) {
    std::memset(Make(bytes).get(), 0xAA, bytes);
    const Object object(static_cast<char*>(hcalloc(bytes / 8, 8)));
    ASSERT_TRUE(std::all_of(object.get(), object.get() + bytes, [](char c) { return c == 0; }))
        << bytes;
  }
}

TEST(ObjectsTest, AMovedObjectKeepsItsContentsAndItsCount) {
  char* object = static_cast<char*>(hmalloc(100));
  std::memset(object, 'x', 100);
  mem_access(object, 7);
  for (const std::size_t bytes : {200UL, 90'000UL, 1'000'000UL, 120UL}) {
    object = static_cast<char*>(hrealloc(object, bytes));
    ASSERT_TRUE(std::all_of(object, object + 100, [](char c) { return c == 'x'; })) << bytes;
    ASSERT_EQ(mem_access_count(object), 7) << bytes;
    mem_object found{};
    ASSERT_NE(mem_access_find(object + 99, &found), 0);
    ASSERT_EQ(found.bytes, bytes);
  }
  EXPECT_EQ(hrealloc(object, 0), nullptr);
}

TEST(ObjectsTest, BytesOfTheSlotBeyondTheObjectMoveToo) {
  for (const std::size_t bytes : {1UL, 100UL, 5'000UL, 40'000UL}) {
    char* object = static_cast<char*>(hmalloc(bytes));
    const std::size_t usable = tmprof::objtrace::heap.UsableBytes(object);
    std::fill_n(object, usable, 'x');
    object = static_cast<char*>(hrealloc(object, 4 * usable));
    EXPECT_TRUE(std::all_of(object, object + usable, [](char c) { return c == 'x'; })) << bytes;
    hfree(object);
  }
}

TEST(ObjectsTest, AThreadThatMovesAnothersObjectTakesItsOwnCountAlong) {
  void* object = hmalloc(100);
  mem_access(object, 1);
  std::thread([&] {
    mem_access(object, 6);
    object = hrealloc(object, 10'000);
  }).join();
  EXPECT_EQ(mem_access_count(object), 7);
  hfree(object);
}

TEST(ObjectsTest, AnObjectOfNoBytesCanBeCountedByElement) {
  const Object object(static_cast<char*>(hmalloc(0)));
  const Object other(static_cast<char*>(hmalloc(0)));
  EXPECT_NE(object.get(), other.get());
  EXPECT_EQ(mem_access_by_element(object.get(), 4), 0);
  mem_access(object.get(), 2);
  EXPECT_EQ(mem_access_count(object.get()), 2);
  EXPECT_EQ(mem_access_count(other.get()), 0);
}

TEST(ObjectsTest, FreeingLeavesErrnoAlone) {
  constexpr std::size_t kBytes = 40'000'000;  // more than what is kept of what was freed
  constexpr std::size_t kLockedBytes = 4096;
  const Object own = Make(kBytes);
  char* object = static_cast<char*>(hmalloc(kBytes));
  // Locked memory cannot go back to the system, because madvise(2) fails. The test makes the system
  // call itself: AddressSanitizer's function locks nothing.
  if (::syscall(SYS_mlock, object + kBytes / 2, kLockedBytes) != 0)
    GTEST_SKIP() << "mlock: " << errno;
  errno = ENOTTY;
  hfree(object);
  EXPECT_EQ(errno, ENOTTY);
  ::syscall(SYS_munlock, object + kBytes / 2, kLockedBytes);
}

TEST(ObjectsTest, AlignedObjectsAreAlignedAndResolve) {
  for (std::size_t alignment = 1; alignment <= std::size_t{1} << 21; alignment *= 2) {
    const Object object(static_cast<char*>(haligned_alloc(alignment, 100)));
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(object.get()) % alignment, 0U);
    mem_access(object.get() + 99, 2);
    ASSERT_EQ(mem_access_count(object.get()), 2) << alignment;
  }
  errno = 0;
  EXPECT_EQ(haligned_alloc(24, 100), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST(ObjectsTest, AnImpossibleAllocationIsNullWithEnomem) {
  for (const std::size_t bytes : {SIZE_MAX, SIZE_MAX - 31, std::size_t{1} << 46}) {
    errno = 0;
    EXPECT_EQ(hmalloc(bytes), nullptr);
    EXPECT_EQ(errno, ENOMEM);
  }
  errno = 0;
  EXPECT_EQ(hcalloc(SIZE_MAX / 2, 3), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  char* object = static_cast<char*>(hmalloc(10));
  mem_access(object, 3);
  EXPECT_EQ(hrealloc(object, SIZE_MAX), nullptr);
  EXPECT_EQ(mem_access_count(object), 3) << "the object is as it was";
  hfree(object);
}

TEST(ObjectsTest, ElementsCountByThemselvesOnceAsked) {
  const Object array = Make(10 * 12);
  mem_access(array.get(), 100);
  ASSERT_EQ(mem_access_by_element(array.get() + 5, 12), 0);
  EXPECT_EQ(mem_access_by_element(array.get(), 12), EEXIST);
  for (int i = 0; i < 10; ++i) mem_access(array.get() + 12 * i + 11, i);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(mem_access_element_count(array.get() + 12 * i), i);
  EXPECT_EQ(mem_access_count(array.get()), 100 + 45);
}

TEST(ObjectsTest, AShorterLastElementHasItsOwnCount) {
  const Object array = Make(100'001);
  ASSERT_EQ(mem_access_by_element(array.get(), 1000), 0);
  mem_access(array.get() + 100'000, 3);
  EXPECT_EQ(mem_access_element_count(array.get() + 100'000), 3U);
  EXPECT_EQ(mem_access_element_count(array.get() + 99'999), 0U);
}

TEST(ObjectsTest, ElementsAreRefusedWhereThereAreNone) {
  int local = 0;
  const Object object = Make(10);
  EXPECT_EQ(mem_access_by_element(&local, 4), EINVAL);
  EXPECT_EQ(mem_access_by_element(object.get(), 0), EINVAL);
  EXPECT_EQ(mem_access_element_count(object.get()), 0U);
}

TEST(ObjectsTest, EachVisitsWhatLivesByAddressOnce) {
  std::set<void*> expected;
  std::vector<Object> kept;
  for (std::size_t i = 0; i < 3000; ++i) {
    kept.push_back(Make(i * 31 % 70'000 + 1));
    mem_access(kept.back().get(), static_cast<int>(i));
  }
  for (std::size_t i = 0; i < kept.size(); i += 3) kept[i].reset();
  for (const Object& object : kept) {
    if (object != nullptr) expected.insert(object.get());
  }
  struct Seen {
    const std::set<void*>* expected;
    std::vector<void*> found;
    void* last = nullptr;
    bool ascending = true;
  } seen{.expected = &expected};
  mem_access_each(
      [](const mem_object* object, void* context) {
        auto& s = *static_cast<Seen*>(context);
        s.ascending = s.ascending && s.last < object->start;
        s.last = object->start;
        if (s.expected->contains(object->start)) s.found.push_back(object->start);
        return 0;
      },
      &seen);
  EXPECT_TRUE(seen.ascending);
  EXPECT_THAT(seen.found, testing::ElementsAreArray(expected));
}

TEST(ObjectsTest, EachStopsWhereItIsTold) {
  const Object a = Make(10);
  const Object b = Make(10);
  int calls = 0;
  const int result = mem_access_each(
      [](const mem_object*, void* context) {
        ++*static_cast<int*>(context);
        return 42;
      },
      &calls);
  EXPECT_EQ(result, 42);
  EXPECT_EQ(calls, 1);
}

__attribute__((noinline)) Object MakeHere() { return Make(16); }

TEST(ObjectsTest, ObjectsOfOneCallHaveOneStack) {
  mem_object first{};
  mem_object second{};
  mem_object other{};
  for (mem_object* found : {&first, &second}) {
    const Object object = MakeHere();
    ASSERT_NE(mem_access_find(object.get(), found), 0);
  }
  const Object object = Make(16);
  ASSERT_NE(mem_access_find(object.get(), &other), 0);
  EXPECT_EQ(first.stack_id, second.stack_id);
  EXPECT_NE(first.stack_id, other.stack_id);
}

TEST(ObjectsTest, ResetForgetsCountsAndKeepsObjects) {
  const Object small = Make(10);
  const Object large = Make(1'000'000);
  ASSERT_EQ(mem_access_by_element(large.get(), 100), 0);
  mem_access(small.get(), 3);
  mem_access(large.get(), 3);
  std::thread([&] { mem_access(small.get(), 5); }).join();
  mem_access_reset();
  EXPECT_EQ(mem_access_count(small.get()), 0);
  EXPECT_EQ(mem_access_count(large.get()), 0);
  EXPECT_EQ(mem_access_element_count(large.get()), 0U);
}

TEST(ObjectsTest, StatListsEachObject) {
  const Object object = Make(12'345);
  mem_access(object.get(), 678);
  testing::internal::CaptureStdout();
  mem_access_stat();
  EXPECT_THAT(testing::internal::GetCapturedStdout(),
              testing::ContainsRegex("0x[0-9a-f]+ +12345 +678 +[0-9]+\n"));
}

// Threads.

// A count may be handed over just when the object is freed, after it was seen to live.
TEST(ObjectsThreadTest, ACountThatComesLateDoesNotReachTheFreeSlots) {
  constexpr std::size_t kBytes = 72;
  std::vector<Object> kept;
  std::vector<tmprof::objtrace::Header*> headers;
  for (int i = 0; i < 10; ++i) kept.push_back(Make(kBytes));
  for (const Object& object : kept) {
    headers.push_back(tmprof::objtrace::heap.Find(reinterpret_cast<std::uintptr_t>(object.get())));
    ASSERT_NE(headers.back(), nullptr);
  }
  std::set<char*> addresses;
  for (const Object& object : kept) addresses.insert(object.get());
  kept.clear();
  for (tmprof::objtrace::Header* header : headers) header->shared += 12'345;
  for (std::size_t i = 0; i < headers.size(); ++i) {
    kept.push_back(Make(kBytes));
    EXPECT_TRUE(addresses.erase(kept.back().get()) == 1) << "its slot is another than was freed";
    EXPECT_EQ(mem_access_count(kept.back().get()), 0);
  }
}

TEST(ObjectsThreadTest, MemoryThatACountMayStillReachIsNotGivenAway) {
  tmprof::objtrace::Heap& heap = tmprof::objtrace::heap;
  constexpr std::size_t kBytes = 300'000;
  char* object = static_cast<char*>(hmalloc(kBytes));
  const tmprof::objtrace::Header* header = heap.Find(reinterpret_cast<std::uintptr_t>(object));
  std::barrier meet(2);
  std::jthread other([&] {
    heap.registry().Self()->flushing = reinterpret_cast<std::uintptr_t>(header);
    meet.arrive_and_wait();
    meet.arrive_and_wait();
    heap.registry().Self()->flushing = 0;
    meet.arrive_and_wait();
  });
  meet.arrive_and_wait();
  hfree(object);
  const Object next = Make(kBytes);
  EXPECT_NE(next.get(), object);
  meet.arrive_and_wait();
  meet.arrive_and_wait();
  Make(kBytes);  // its end gives back what was held
  EXPECT_EQ(heap.registry().Self()->held, nullptr);
}

// All threads touch each object, and then one that its maker did not choose frees it. The others go
// on to further objects, and so hand over their counts.
TEST(ObjectsThreadTest, CountsAreHandedOverWhileOthersFree) {
  constexpr std::size_t kThreads = 3;
  constexpr int kRounds = 40;
  constexpr std::size_t kObjects = 300;
  std::array<std::vector<char*>, kThreads> made;
  std::barrier meet(kThreads);
  std::vector<std::jthread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&made, &meet, t] {
      std::minstd_rand random(static_cast<unsigned>(t) + 1);
      for (int round = 0; round < kRounds; ++round) {
        for (std::size_t i = 0; i < kObjects; ++i) {
          const std::size_t bytes = random() % 20 == 0 ? 40'000 : random() % 600 + 1;
          made[t].push_back(static_cast<char*>(hmalloc(bytes)));
          made[t].back()[bytes - 1] = made[t].back()[0] = 'x';
        }
        meet.arrive_and_wait();
        for (const auto& objects : made) {
          for (char* object : objects) mem_access(object, 1);
        }
        meet.arrive_and_wait();
        const std::size_t mine = (t + static_cast<std::size_t>(round)) % kThreads;
        for (char* object : made[mine]) {
          EXPECT_EQ(object[0], 'x');
          hfree(object);
          const Object other = Make(random() % 600 + 1);
          std::memset(other.get(), 0x55, 1);
        }
        meet.arrive_and_wait();
        made[t].clear();
      }
    });
  }
}

TEST(ObjectsThreadTest, NoAccessOfAnyThreadIsLost) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 2000;
  std::vector<Object> objects;
  for (int i = 0; i < 1500; ++i) objects.push_back(Make(32));
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < kRounds; ++i) {
          mem_access(objects[0].get(), 1);  // all at one
          mem_access(objects[static_cast<std::size_t>(i) % objects.size()].get() + 7, 2);
        }
      });
    }
  }
  // The loop passes objects 0 to 499 twice and the others once.
  EXPECT_EQ(mem_access_count(objects[0].get()), kThreads * (kRounds + 2 * 2));
  EXPECT_EQ(mem_access_count(objects[499].get()), kThreads * 2 * 2);
  EXPECT_EQ(mem_access_count(objects[500].get()), kThreads * 2);
}

TEST(ObjectsThreadTest, CountsOfThreadsThatLiveAreSeenOnceSynchronised) {
  const Object object = Make(8);
  std::barrier meet(2);
  std::jthread other([&] {
    mem_access(object.get(), 9);
    meet.arrive_and_wait();
    meet.arrive_and_wait();
  });
  meet.arrive_and_wait();
  EXPECT_EQ(mem_access_count(object.get()), 9);
  meet.arrive_and_wait();
}

// A thread finds what it counted of another's object again by the object's place.
TEST(ObjectsThreadTest, AnObjectInAFreedOnesPlaceHasCountsOfItsOwn) {
  constexpr std::size_t kBytes = 200;
  Object first = Make(kBytes);
  char* place = first.get();
  std::barrier meet(2);
  std::jthread other([&] {
    mem_access(place, 5);
    mem_access(place + 1, 6);
    meet.arrive_and_wait();
    meet.arrive_and_wait();
    mem_access(place, 7);
    mem_access(place + 1, 8);
    meet.arrive_and_wait();
  });
  meet.arrive_and_wait();
  EXPECT_EQ(mem_access_count(place), 11);
  first.reset();
  const Object second = Make(kBytes);
  ASSERT_EQ(second.get(), place) << "the slot that was free last is taken first";
  EXPECT_EQ(mem_access_count(place), 0);
  meet.arrive_and_wait();
  meet.arrive_and_wait();
  EXPECT_EQ(mem_access_count(place), 15);
}

TEST(ObjectsThreadTest, ElementsCountOnceAskedAlsoWhereAThreadHasCountedBefore) {
  const Object array = Make(10 * sizeof(long));
  std::barrier meet(2);
  std::jthread other([&] {
    mem_access(array.get(), 1);
    mem_access(array.get(), 1);
    meet.arrive_and_wait();
    meet.arrive_and_wait();
    mem_access(array.get() + 3 * sizeof(long), 2);
    mem_access(array.get() + 3 * sizeof(long), 2);
    meet.arrive_and_wait();
  });
  meet.arrive_and_wait();
  ASSERT_EQ(mem_access_by_element(array.get(), sizeof(long)), 0);
  meet.arrive_and_wait();
  meet.arrive_and_wait();
  EXPECT_EQ(mem_access_element_count(array.get() + 3 * sizeof(long)), 4U);
  EXPECT_EQ(mem_access_count(array.get()), 6);
}

TEST(ObjectsThreadTest, ObjectsGoFromThreadToThread) {
  constexpr int kObjects = 20'000;
  for (int round = 0; round < 3; ++round) {
    std::vector<Object> made;
    std::thread([&] {
      for (int i = 0; i < kObjects; ++i) {
        made.push_back(Make(static_cast<std::size_t>(i % 300 + 1)));
        mem_access(made.back().get(), 1);
      }
    }).join();
    std::thread([&] {
      for (const Object& object : made) mem_access(object.get(), 2);
    }).join();
    for (const Object& object : made) ASSERT_EQ(mem_access_count(object.get()), 3);
    std::thread([&] { made.clear(); }).join();
  }
}

TEST(ObjectsThreadTest, ThreadsAllocateAndFreeAtOnce) {
  constexpr std::size_t kShared = 256;
  std::array<std::atomic<char*>, kShared> shared{};
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < 4; ++t) {
      threads.emplace_back([&shared, t] {
        std::minstd_rand random(t + 1);
        for (int i = 0; i < 20'000; ++i) {
          const std::size_t bytes = random() % 2 == 0 ? random() % 200 + 1 : random() % 50'000 + 1;
          char* object = static_cast<char*>(hmalloc(bytes));
          object[0] = object[bytes - 1] = 'x';
          mem_access(object, 1);
          hfree(shared[random() % kShared].exchange(object));
        }
      });
    }
  }
  for (std::atomic<char*>& object : shared) hfree(object.load());
}

TEST(ObjectsThreadTest, AForkedChildAllocatesCountsAndFrees) {
  const Object object = Make(8);
  mem_access(object.get(), 4);
  std::atomic<bool> stop = false;
  std::jthread busy([&] {
    while (!stop) Make(100);
  });
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      mem_access(object.get(), 1);
      const Object own = Make(100'000);
      std::_Exit(mem_access_count(object.get()) == 5 && own != nullptr ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
  }
  stop = true;
  EXPECT_EQ(mem_access_count(object.get()), 4);
}

TEST(ObjectsThreadTest, AForkedChildDoesNotReuseThePlacesOfThreadsThatAreGone) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer starts no threads after such a fork";
#endif
  std::barrier meet(2);
  std::uint32_t place = 0;
  std::jthread other([&] {
    const Object object = Make(8);
    place = tmprof_thread;
    meet.arrive_and_wait();
    meet.arrive_and_wait();
  });
  meet.arrive_and_wait();
  const pid_t child = fork();
  if (child == 0) {
    std::uint32_t new_place = 0;
    std::thread([&] {
      const Object object = Make(8);
      new_place = tmprof_thread;
    }).join();
    std::_Exit(new_place != 0 && new_place != place && new_place != tmprof_thread ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  meet.arrive_and_wait();
}

char* signalled = nullptr;
std::atomic<int> signals = 0;

TEST(ObjectsThreadTest, ASignalHandlerMayCount) {
  constexpr int kSignals = 200;
  const Object object = Make(8);
  const Object others = Make(8);
  signalled = object.get();
  signals = 0;
  struct sigaction action{};
  action.sa_handler = [](int) {
    mem_access(signalled, 1);
    ++signals;
  };
  struct sigaction before{};
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  // The objects are the main thread's: this one counts the slow way.
  std::thread counting([&] {
    while (signals < kSignals) mem_access(others.get(), 1);
  });
  for (int sent = 0; sent < kSignals; ++sent) {
    pthread_kill(counting.native_handle(), SIGUSR1);
    while (signals <= sent) std::this_thread::yield();
  }
  counting.join();
  sigaction(SIGUSR1, &before, nullptr);
  EXPECT_EQ(mem_access_count(object.get()), kSignals);
}

TEST(ObjectsThreadTest, ASignalHandlersCountMayBeAThreadsFirst) {
  constexpr std::size_t kThreads = 50;
  constexpr std::array kSignals{SIGUSR1, SIGUSR2};  // one interrupts the other's handler
  const Object object = Make(8);
  signalled = object.get();
  struct sigaction action{};
  action.sa_handler = [](int) { mem_access(signalled, 1); };
  std::array<struct sigaction, kSignals.size()> before{};
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ASSERT_EQ(sigaction(kSignals[i], &action, &before[i]), 0);
  }
  // All of them stay, so that each takes a place that has to be made.
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  while (threads.size() < kThreads) {
    std::atomic<bool> begun = false;
    std::atomic<bool> counted = false;
    threads.emplace_back([&] {
      begun = true;
      mem_access(object.get(), 1);
      counted = true;
      stop.wait(false);
    });
    while (!begun) std::this_thread::yield();
    while (!counted) {
      for (const int signal : kSignals) pthread_kill(threads.back().native_handle(), signal);
    }
  }
  stop = true;
  stop.notify_all();
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before[i], nullptr);
  EXPECT_GE(mem_access_count64(object.get()), kThreads);
}

TEST(ObjectsThreadTest, TheRuntimeIsFoundLeftAfterAHandlerJumpedOutOfIt) {
  tmprof::objtrace::Thread& self = *tmprof::objtrace::heap.registry().SelfWithStack();
  static int variable = 0;
  // The frame is that of a function that was called from here and has gone, as siglongjmp(3) leaves
  // it.
  self.busy = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) - 8192;
  const auto count_further_down = [] {
    std::array<volatile char, 16'384> deep;
    deep[0] = 0;
    mem_access(&variable, 1);
    return deep[0];
  };
  count_further_down();
  EXPECT_NE(self.busy, 0U) << "it could be a handler's";
  mem_access(&variable, 1);
  EXPECT_EQ(self.busy, 0U);
}

// A write there while it lives ends the test by SIGSEGV.
class Unwritable {
 public:
  Unwritable(const void* start, std::size_t bytes)
      : start_(reinterpret_cast<std::uintptr_t>(start) / kPageBytes * kPageBytes),
        bytes_((reinterpret_cast<std::uintptr_t>(start) + bytes + kPageBytes - 1) / kPageBytes *
                   kPageBytes -
               start_) {
    Protect(PROT_READ);
  }
  ~Unwritable() { Protect(PROT_READ | PROT_WRITE); }
  Unwritable(const Unwritable&) = delete;
  Unwritable& operator=(const Unwritable&) = delete;

 private:
  static constexpr std::uintptr_t kPageBytes = 4096;
  void Protect(int protection) const {
    EXPECT_EQ(mprotect(reinterpret_cast<void*>(start_), bytes_, protection), 0);
  }
  std::uintptr_t start_;
  std::uintptr_t bytes_;
};

// Each of two threads has an object of whole pages. Once each has counted on both, no count writes
// where the other thread does: neither to the other's object nor to its record.
TEST(ObjectsThreadTest, CountingWritesNoCacheLineThatAnotherThreadWrites) {
  using tmprof::objtrace::Thread;
  constexpr std::size_t kBytes = 256 * 1024;
  constexpr int kCounts = 10'000;
  constexpr std::size_t kStaticBytes = tmprof::objtrace::kMaxStaticIds * sizeof(std::uint64_t);
  const Object mine = Make(kBytes);
  static int variable = 0;
  mem_access(&variable, 1);
  Object others;
  const Thread* other_place = nullptr;
  std::barrier turn(2);
  std::thread other([&] {
    others = Make(kBytes);
    other_place = tmprof::objtrace::heap.registry().Self();
    for (char* object : {mine.get(), others.get()}) mem_access(object, 1);
    mem_access(&variable, 1);
    turn.arrive_and_wait();  // both have counted
    turn.arrive_and_wait();  // the first one's is unwritable
    for (int i = 0; i < kCounts; ++i) {
      mem_access(mine.get() + i, 1);
      mem_access(others.get() + i, 1);
      mem_access(&variable, 1);
    }
    turn.arrive_and_wait();
    turn.arrive_and_wait();  // the first one has counted
  });
  turn.arrive_and_wait();
  for (char* object : {mine.get(), others.get()}) mem_access(object, 1);
  const Thread* place = tmprof::objtrace::heap.registry().Self();
  {
    const Unwritable object(mine.get() - sizeof(tmprof::objtrace::Header), kBytes);
    const Unwritable thread(place, sizeof(Thread));
    const Unwritable counts(place->static_counts, kStaticBytes);
    turn.arrive_and_wait();
    turn.arrive_and_wait();
  }
  {
    const Unwritable object(others.get() - sizeof(tmprof::objtrace::Header), kBytes);
    const Unwritable thread(other_place, sizeof(Thread));
    const Unwritable counts(other_place->static_counts, kStaticBytes);
    for (int i = 0; i < kCounts; ++i) {
      mem_access(mine.get() + i, 1);
      mem_access(others.get() + i, 1);
      mem_access(&variable, 1);
    }
  }
  turn.arrive_and_wait();
  other.join();
  EXPECT_EQ(mem_access_count(mine.get()), 2 * (kCounts + 1));
  EXPECT_EQ(mem_access_count(others.get()), 2 * (kCounts + 1));
}

TEST(ObjectsThreadTest, TheRuntimeIsFoundLeftAfterAHandlerOnAnotherStackJumpedOutOfIt) {
  tmprof::objtrace::Thread& self = *tmprof::objtrace::heap.registry().SelfWithStack();
  static std::array<char, 4096> alternate_stack;
  static int variable = 0;
  self.busy = reinterpret_cast<std::uintptr_t>(alternate_stack.data());
  mem_access(&variable, 1);
  EXPECT_EQ(self.busy, 0U);
}

TEST(ObjectsThreadTest, AHandlerOnAStackWithinTheThreadsOwnFindsTheRuntimeBusy) {
  static tmprof::objtrace::Thread& self = *tmprof::objtrace::heap.registry().SelfWithStack();
  static int variable = 0;
  static volatile std::uint64_t busy_after = 0;
  alignas(16) std::array<char, 65'536> alternate_stack;  // above all that main calls
  const stack_t stack = {.ss_sp = alternate_stack.data(), .ss_flags = 0, .ss_size = 65'536};
  stack_t stack_before{};
  ASSERT_EQ(sigaltstack(&stack, &stack_before), 0);
  struct sigaction action = {};
  struct sigaction action_before = {};
  action.sa_flags = SA_ONSTACK;
  action.sa_handler = [](int) {
    mem_access(&variable, 1);
    busy_after = self.busy;
  };
  ASSERT_EQ(sigaction(SIGUSR1, &action, &action_before), 0);
  const auto interrupt_further_down = [] {
    const auto frame = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
    self.busy = frame;
    raise(SIGUSR1);
    EXPECT_EQ(busy_after, frame);
    self.busy = 0;
  };
  interrupt_further_down();
  sigaction(SIGUSR1, &action_before, nullptr);
  sigaltstack(&stack_before, nullptr);
}

// Misuse.

TEST(ObjectsDeathTest, FreeingTwiceSaysSo) {
  char* object = static_cast<char*>(hmalloc(24));
  const Object neighbour = Make(24);
  hfree(object);
  EXPECT_DEATH(hfree(object), "tmprof: free or realloc of an object that was freed before: 0x");
}

TEST(ObjectsDeathTest, FreeingALargeObjectTwiceSaysSo) {
  char* object = static_cast<char*>(hmalloc(1'000'000));
  hfree(object);
  EXPECT_DEATH(hfree(object), "not allocated, or was freed before: 0x");
}

TEST(ObjectsDeathTest, FreeingWhatIsForeignSaysSo) {
  int local = 0;
  EXPECT_DEATH(hfree(&local), "of what was not allocated");
  EXPECT_DEATH(hrealloc(&local, 10), "of what was not allocated");
}

TEST(ObjectsDeathTest, FreeingTheInsideOfAnObjectSaysSo) {
  const Object object = Make(100);
  EXPECT_DEATH(hfree(object.get() + 16), "an address inside of an object: 0x");
}

TEST(ObjectsDeathTest, WritingUnderAnObjectIsFoundWhenItIsFreed) {
  const Object object = Make(kOwnBytes);
  EXPECT_DEATH(
      {
        // NOLINTNEXTLINE: that is the fault to find
        *(volatile char*)(object.get() - 1) = 'x';
        hfree(object.get());
      },
      "whose header was overwritten: 0x");
}

TEST(ObjectsDeathTest, WritingOverTheEndIsFoundWhenTheNextIsFreed) {
  const Object first = Make(24);
  const Object second = Make(24);
  char* lower = std::min(first.get(), second.get());
  char* upper = std::max(first.get(), second.get());
  if (upper - lower > 128) GTEST_SKIP() << "the two objects are not neighbours";
  EXPECT_DEATH(
      {
        for (volatile char* at = lower; at < upper; ++at) *at = 'x';
        hfree(upper);
      },
      "whose header was overwritten: 0x");
}

// Memory.

TEST(ObjectsMemoryTest, AnObjectTakesWhatTheHeaderOfTheInterfaceSays) {
  struct Row {
    std::size_t bytes;
    std::ptrdiff_t slot;
  };
  for (const Row& row : {Row{1, 48}, Row{16, 48}, Row{24, 64}, Row{32, 64}, Row{480, 512},
                         Row{481, 576}, Row{992, 1024}}) {
    std::set<char*> starts;
    std::vector<Object> kept;
    for (int i = 0; i < 200; ++i) {
      kept.push_back(Make(row.bytes));
      starts.insert(kept.back().get());
    }
    std::ptrdiff_t least = PTRDIFF_MAX;
    for (auto at = starts.begin(); std::next(at) != starts.end(); ++at) {
      least = std::min(least, *std::next(at) - *at);
    }
    EXPECT_EQ(least, row.slot) << row.bytes;
  }
}

TEST(ObjectsMemoryTest, FreedMemoryIsUsedAgain) {
  const auto addresses = [] {
    std::set<void*> found;
    for (int i = 0; i < 1000; ++i) {
      const Object object = Make(200'000);
      found.insert(object.get());
    }
    return found.size();
  };
  EXPECT_EQ(addresses(), 1U);
}

// A program pays no more faults for pages that were there before.
TEST(ObjectsMemoryTest, FreedMemoryIsThereForTheNextObject) {
  constexpr std::size_t kBytes = 8 << 20;
  const auto faults_of_use = [] {
    rusage before{};
    ::getrusage(RUSAGE_SELF, &before);
    const Object object = Make(kBytes);
    std::memset(object.get(), 1, kBytes);
    rusage after{};
    ::getrusage(RUSAGE_SELF, &after);
    return after.ru_minflt - before.ru_minflt;
  };
  faults_of_use();
  EXPECT_LT(faults_of_use(), 100) << "of 2048 pages";
}

long ResidentPages() {
  long all = 0;
  long resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident;
}

TEST(ObjectsMemoryTest, MostMemoryOfLargeFreedObjectsGoesBackToTheSystem) {
  constexpr std::size_t kBytes = 1 << 20;
  std::vector<Object> objects;
  for (int i = 0; i < 128; ++i) {
    objects.push_back(Make(kBytes));
    std::memset(objects.back().get(), 1, kBytes);
  }
  const long full = ResidentPages();
  objects.clear();
  EXPECT_GT(full - ResidentPages(), (128 - 32) * 256) << "of 32 768 pages";
}

TEST(ObjectsMemoryTest, ClearedMemoryThatWasNeverUsedIsNotTouched) {
  std::string huge_pages;
  std::getline(std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled"), huge_pages);
  if (huge_pages.starts_with("[always]")) GTEST_SKIP() << "a touch is of a huge page";
  for (int i = 0; i < 128; ++i) {
    const Object used = Make(1 << 20);
    std::memset(used.get(), 1, 1 << 20);
  }
  const long before = ResidentPages();
  std::vector<Object> objects;
  for (const std::size_t bytes : {110'000UL, 220'000UL, 440'000UL}) {
    for (int i = 0; i < 300; ++i) objects.emplace_back(static_cast<char*>(hcalloc(bytes, 1)));
  }
  EXPECT_LT(ResidentPages() - before, 16'384 + 2'000)
      << "of 56 396 pages, but for what is kept of what was freed";
}

TEST(ObjectsMemoryTest, MostMemoryOfManySmallFreedObjectsGoesBackToTheSystem) {
  std::vector<Object> objects;
  for (int i = 0; i < 128 * 1024; ++i) {
    objects.push_back(Make(1000));
    std::memset(objects.back().get(), 1, 1000);
  }
  const long full = ResidentPages();
  objects.clear();
  EXPECT_GT(full - ResidentPages(), (128 - 32) * 256) << "of 33 800 pages";
}

TEST(ObjectsTest, AnObjectOfOneSpanMovesOnlyToASlotOrALongerRun) {
  char* const object = static_cast<char*>(hmalloc(40'000));
  EXPECT_LT(tmprof::objtrace::heap.UsableBytes(object), 40'000U + 4096U);
  EXPECT_EQ(hrealloc(object, 40'000), object);
  EXPECT_EQ(hrealloc(object, 200'000), object);
  EXPECT_GE(tmprof::objtrace::heap.UsableBytes(object), 200'000U);
  EXPECT_EQ(hrealloc(object, 60'000), object);
  void* const slot = hrealloc(object, 20'000);
  EXPECT_NE(slot, object);
  hfree(slot);
}

}  // namespace objects_test
