// SPDX-License-Identifier: Apache-2.0

#include "daemon/placement/move_hindrances.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <fstream>
#include <string>
#include <vector>

#include "tests/apps/program.h"

namespace tmprof {
namespace move_hindrances_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class MoveHindrancesTest : public testing::Test {
 protected:
  MoveHindrances Make(Status may_move_joint) {
    return {std::move(may_move_joint),
            [this](const std::string& warning) { told_.push_back(warning); },
            folder_.File("numa_balancing")};
  }
  void SetBalancing(int mode) const { std::ofstream(folder_.File("numa_balancing")) << mode; }

  test::TemporaryFolder folder_;
  std::vector<std::string> told_;
};

TEST_F(MoveHindrancesTest, TellOfTheKernelsOwnMovesWhenTheyBegin) {
  MoveHindrances hindrances = Make({});
  SetBalancing(0);
  hindrances.Look(true);
  EXPECT_THAT(hindrances.Warnings(), IsEmpty());
  SetBalancing(1);
  hindrances.Look(true);
  hindrances.Look(true);
  EXPECT_THAT(told_, ElementsAre(HasSubstr("kernel.numa_balancing is 1")));
  EXPECT_EQ(hindrances.Warnings(), told_);
  SetBalancing(0);
  hindrances.Look(true);
  EXPECT_THAT(hindrances.Warnings(), IsEmpty());
  SetBalancing(1);
  hindrances.Look(true);
  EXPECT_THAT(told_, SizeIs(2)) << "it began again";
}

TEST_F(MoveHindrancesTest, AreNoneWhereNoMovesAreDecided) {
  MoveHindrances hindrances = Make({});
  SetBalancing(1);
  hindrances.Look(false);
  EXPECT_THAT(hindrances.Warnings(), IsEmpty());
  EXPECT_THAT(told_, IsEmpty());
}

TEST_F(MoveHindrancesTest, TellOnceThatSharedPagesStay) {
  MoveHindrances hindrances = Make(Fail(Refused("move shared pages", "", EPERM, "run as root")));
  EXPECT_FALSE(hindrances.moves_joint());
  hindrances.Note({.bound = 5});
  EXPECT_THAT(told_, IsEmpty());
  hindrances.Note({.shared = 1});
  hindrances.Note({.shared = 2});
  EXPECT_THAT(told_, ElementsAre(HasSubstr("pages that several processes map stay where they are: "
                                           "cannot move shared pages")));
  EXPECT_EQ(hindrances.Warnings(), told_);
}

TEST_F(MoveHindrancesTest, LetSharedPagesMoveWithThePrivilege) {
  MoveHindrances hindrances = Make({});
  EXPECT_TRUE(hindrances.moves_joint());
  hindrances.Note({.shared = 1});
  EXPECT_THAT(told_, IsEmpty());
}

}  // namespace move_hindrances_test
}  // namespace tmprof
