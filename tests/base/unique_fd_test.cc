// SPDX-License-Identifier: Apache-2.0

#include "base/unique_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <type_traits>
#include <utility>

namespace tmprof {
namespace unique_fd_test {

int OpenNull() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }
bool IsOpen(int fd) { return fcntl(fd, F_GETFD) != -1; }

TEST(UniqueFd, ClosesWhatItOwnsWhenItEnds) {
  int fd = -1;
  {
    const UniqueFd owner(OpenNull());
    fd = owner.get();
    ASSERT_TRUE(owner.valid());
    EXPECT_TRUE(IsOpen(fd));
  }
  EXPECT_FALSE(IsOpen(fd));
}

TEST(UniqueFd, HandsItsDescriptorOnWhenMoved) {
  UniqueFd first(OpenNull());
  const int fd = first.get();
  UniqueFd second(std::move(first));
  EXPECT_FALSE(first.valid());
  EXPECT_EQ(second.get(), fd);
  EXPECT_TRUE(IsOpen(fd));
}

TEST(UniqueFd, ClosesItsOwnBeforeItTakesAnother) {
  UniqueFd first(OpenNull());
  UniqueFd second(OpenNull());
  const int dropped = first.get();
  const int kept = second.get();
  first = std::move(second);
  EXPECT_FALSE(IsOpen(dropped));
  EXPECT_TRUE(IsOpen(kept));
  EXPECT_EQ(first.get(), kept);
}

TEST(UniqueFd, SurvivesBeingMovedToItself) {
  UniqueFd owner(OpenNull());
  UniqueFd& same = owner;
  owner = std::move(same);
  EXPECT_TRUE(owner.valid());
  EXPECT_TRUE(IsOpen(owner.get()));
}

TEST(UniqueFd, NoLongerClosesWhatItReleased) {
  int fd = -1;
  {
    UniqueFd owner(OpenNull());
    fd = owner.Release();
    EXPECT_FALSE(owner);
  }
  EXPECT_TRUE(IsOpen(fd));
  close(fd);
}

TEST(UniqueFd, OwnsNothingByDefaultAndNothingOfAFailedCall) {
  EXPECT_FALSE(UniqueFd());
  EXPECT_FALSE(UniqueFd(-1));
  EXPECT_FALSE(UniqueFd(-EINVAL));  // the shape of libbpf's and raw system calls' failures
}

TEST(UniqueFd, OwnsDescriptorZero) {
  UniqueFd standard_input(0);
  EXPECT_TRUE(standard_input.valid());
  EXPECT_EQ(standard_input.Release(), 0);
}

TEST(UniqueFd, CannotBeCopied) { EXPECT_FALSE(std::is_copy_constructible_v<UniqueFd>); }

}  // namespace unique_fd_test
}  // namespace tmprof
