// SPDX-License-Identifier: Apache-2.0

#include "base/result.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace tmprof {
namespace result_test {

TEST(Error, SaysAttemptObjectErrnoAndAdvice) {
  EXPECT_EQ(
      Refused("open trace file", "x.data", ENOENT, "record one first").Message(),
      "cannot open trace file 'x.data': ENOENT (No such file or directory); record one first");
}

TEST(Error, LeavesOutWhatIsNotKnown) {
  EXPECT_EQ(Refused("open trace file", "x.data", EACCES).Message(),
            "cannot open trace file 'x.data': EACCES (Permission denied)");
  EXPECT_EQ(Refused("lock memory", "", ENOMEM).Message(),
            "cannot lock memory: ENOMEM (Cannot allocate memory)");
  EXPECT_EQ(BadInput("read ratio", "0", "it is not above 0").Message(),
            "cannot read ratio '0': it is not above 0");
  EXPECT_EQ((Error{.attempt = "go", .object = "on"}).Message(), "cannot go 'on'");
}

TEST(Error, SaysBothErrnoAndReason) {
  Error error = Refused("load program", "scan", EPERM, "run as root");
  error.reason = "the verifier said no";
  EXPECT_EQ(error.Message(),
            "cannot load program 'scan': EPERM (Operation not permitted): the verifier said no; "
            "run as root");
}

TEST(Error, ExitsWithTwoForBadInputAndOneForARefusal) {
  EXPECT_EQ(BadInput("a", "b", "c").ExitStatus(), 2);
  EXPECT_EQ(Refused("a", "b", EIO).ExitStatus(), 1);
}

TEST(Error, KeepsErrnoOfARefusalAndHasNoneForBadInput) {
  EXPECT_EQ(Refused("a", "b", EMFILE).system_error, EMFILE);
  EXPECT_EQ(BadInput("a", "b", "c").system_error, std::nullopt);
}

TEST(ErrnoText, NamesANumberThatTheLibraryDoesNotKnow) {
  EXPECT_EQ(ErrnoText(4242), "errno 4242");
  EXPECT_EQ(ErrnoText(EMFILE), "EMFILE (Too many open files)");
}

TEST(Status, CarriesAnErrorOrNothing) {
  EXPECT_TRUE(Status().has_value());
  const Status failed = Fail(Refused("a", "b", EIO));
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().system_error, EIO);
}

TEST(ErrnoNameTest, IsTheNameOrTheNumber) {
  EXPECT_EQ(ErrnoName(EBUSY), "EBUSY");
  EXPECT_EQ(ErrnoName(4242), "errno 4242");
}

}  // namespace result_test
}  // namespace tmprof
