// SPDX-License-Identifier: Apache-2.0

#include "base/text/shell_text.h"

#include <gtest/gtest.h>

namespace tmprof {
namespace shell_text_test {

TEST(ShellQuoted, LeavesAndEntersQuotesAroundAQuote) {
  EXPECT_EQ(ShellQuoted("it's $1"), R"('it'\''s $1')");
  EXPECT_EQ(FishQuoted(R"(it's \n)"), R"('it\'s \\n')");
}

TEST(BrokenCommand, EndsLinesInABackslashAndKeepsQuotedWordsWhole) {
  EXPECT_EQ(BrokenCommand("run it", 10), "  run it");
  EXPECT_EQ(BrokenCommand("run 'one two' three", 18), "  run 'one two' \\\n      three");
  EXPECT_EQ(BrokenCommand("run 'one two' three", 80), "  run 'one two' three");
}

}  // namespace shell_text_test
}  // namespace tmprof
