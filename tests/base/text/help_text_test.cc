// SPDX-License-Identifier: Apache-2.0

#include "base/text/help_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tmprof {
namespace help_text_test {

using ::testing::ElementsAre;

TEST(Wrapped, BreaksBetweenWordsAndIndentsLaterLines) {
  EXPECT_EQ(Wrapped("one two three", 9, 2, 0), "one two\n  three");
  EXPECT_EQ(Wrapped("one two three", 9, 2, 6), "one\n  two\n  three");
  EXPECT_EQ(Wrapped("longerthannine x", 9, 0, 0), "longerthannine\nx");
}

TEST(Alternatives, HaveOrBeforeTheLastOne) {
  EXPECT_EQ(Alternatives({}), "");
  EXPECT_EQ(Alternatives({"a"}), "a");
  EXPECT_EQ(Alternatives({"a", "b"}), "a or b");
  EXPECT_EQ(Alternatives({"a", "b", "c"}), "a, b or c");
}

TEST(ParseFooter, TellsUsageAndExamplesFromNotes) {
  const Footer footer = ParseFooter(
      "Usage:\n  tmprof x FILE\n  tmprof x -p PID\n\nFormats:\n  csv  Lines\n\n"
      "Examples:\n  tmprof x a");
  EXPECT_THAT(footer.usage, ElementsAre("tmprof x FILE", "tmprof x -p PID"));
  EXPECT_THAT(footer.notes, ElementsAre("Formats:\n  csv  Lines"));
  EXPECT_THAT(footer.examples, ElementsAre("tmprof x a"));
}

TEST(EntryOf, HasTheNameAndTheTextOfAnIndentedLine) {
  const auto entry = EntryOf("  two words  What they do");
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->name, "two words");
  EXPECT_EQ(entry->text, "What they do");
  EXPECT_FALSE(EntryOf("Formats:"));
}

}  // namespace help_text_test
}  // namespace tmprof
