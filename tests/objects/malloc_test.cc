// SPDX-License-Identifier: Apache-2.0
// malloc(3) and its family, as libtmprof_objects has them: this program has no others.

#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <new>

#include "objects/include/tmprof/objects.h"

namespace malloc_test {

// Tests leave no file behind.
const int kNoDump = ::setenv("TMPROF_OBJECTS", "", 1);

TEST(MallocTest, GivesObjectsThatCount) {
  void* object = std::malloc(100);
  mem_access(object, 3);
  EXPECT_EQ(mem_access_count(object), 3);
  std::free(object);
}

TEST(MallocTest, ObjectsOfNoBytesAreOnesOfTheirOwn) {
  const volatile std::size_t none = 0;
  void* const objects[] = {std::malloc(none),           std::malloc(none),    std::calloc(none, 8),
                           std::realloc(nullptr, none), ::memalign(64, none), ::operator new(none)};
  for (void* const& object : objects) {
    ASSERT_NE(object, nullptr);
    EXPECT_EQ(std::count(std::begin(objects), std::end(objects), object), 1);
  }
  mem_access(objects[1], 2);
  EXPECT_EQ(mem_access_count(objects[0]), 0);
  EXPECT_EQ(mem_access_count(objects[1]), 2);
  void* grown = std::realloc(objects[0], 1'000);
  EXPECT_EQ(mem_access_count(objects[1]), 2);
  std::free(grown);
  for (void* const* object = objects + 1; object != std::end(objects) - 1; ++object)
    std::free(*object);
  ::operator delete(objects[5]);
}

TEST(MallocTest, AllOfTheUsableSizeSurvivesARealloc) {
  for (const std::size_t bytes : {1UL, 100UL, 5'000UL, 40'000UL, 200'000UL}) {
    char* object = static_cast<char*>(std::malloc(bytes));
    const std::size_t usable = ::malloc_usable_size(object);
    ASSERT_GE(usable, bytes);
    std::fill_n(object, usable, 'x');
    object = static_cast<char*>(std::realloc(object, 4 * usable));
    EXPECT_TRUE(std::all_of(object, object + usable, [](char c) { return c == 'x'; })) << bytes;
    std::free(object);
  }
}

TEST(MallocTest, MemalignRoundsTheAlignmentUp) {
  for (const std::size_t alignment : {0UL, 1UL, 24UL, 48UL, 100UL, 5'000UL}) {
    void* object = ::memalign(alignment, 10);
    ASSERT_NE(object, nullptr) << alignment;
    std::size_t expected = 1;
    while (expected < alignment) expected *= 2;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(object) % expected, 0U) << alignment;
    std::free(object);
  }
  errno = 0;
  EXPECT_EQ(::memalign(SIZE_MAX / 2 + 2, 10), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST(MallocTest, PvallocRefusesWhatRoundsToNothing) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  for (const std::size_t bytes : {SIZE_MAX, SIZE_MAX - page + 2}) {
    errno = 0;
    EXPECT_EQ(::pvalloc(bytes), nullptr);
    EXPECT_EQ(errno, ENOMEM);
  }
  void* object = ::pvalloc(1);
  ASSERT_NE(object, nullptr);
  EXPECT_GE(::malloc_usable_size(object), page);
  std::free(object);
}

}  // namespace malloc_test
