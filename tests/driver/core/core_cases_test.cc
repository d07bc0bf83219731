// SPDX-License-Identifier: Apache-2.0
#include "tests/driver/core/core_cases.h"

#include <gtest/gtest.h>

#include <array>
#include <cctype>
#include <string>

#include "tests/driver/core/region_cases.h"
#include "tests/driver/core/test_memory.h"

namespace tmprof {
namespace core_cases_test {

template <typename Case>
std::string CaseName(const testing::TestParamInfo<Case>& tried) {
  std::string name = std::to_string(tried.index);
  for (const char* letter = tried.param.name; *letter; ++letter) {
    name += std::isalnum(static_cast<unsigned char>(*letter)) ? *letter : '_';
  }
  return name;
}

}  // namespace core_cases_test
}  // namespace tmprof

// GoogleTest prints a failing case by its name.
void PrintTo(const params_case& tried, std::ostream* out) { *out << tried.name; }
void PrintTo(const ring_case& tried, std::ostream* out) { *out << tried.name; }
void PrintTo(const store_case& tried, std::ostream* out) { *out << tried.name; }
void PrintTo(const gate_case& tried, std::ostream* out) { *out << tried.name; }
void PrintTo(const reading_case& tried, std::ostream* out) { *out << tried.name; }
void PrintTo(const late_case& tried, std::ostream* out) { *out << tried.name; }
void PrintTo(const source_case& tried, std::ostream* out) { *out << tried.name; }
void PrintTo(const hold_case& tried, std::ostream* out) { *out << tried.name; }
void PrintTo(const budget_case& tried, std::ostream* out) { *out << tried.name; }
void PrintTo(const region_case& tried, std::ostream* out) { *out << tried.name; }
void PrintTo(const region_params_case& tried, std::ostream* out) { *out << tried.name; }
void PrintTo(const region_count_case& tried, std::ostream* out) { *out << tried.name; }
void PrintTo(const region_chance_case& tried, std::ostream* out) { *out << tried.name; }
void PrintTo(const region_fit_case& tried, std::ostream* out) { *out << tried.name; }

namespace tmprof {
namespace core_cases_test {

class ParamsCaseTest : public testing::TestWithParam<params_case> {};

TEST_P(ParamsCaseTest, IsAcceptedOrRefusedForTheFieldAtFault) {
  tmprof_params params;
  params_case_build(&GetParam(), &params);
  const tmprof_params_verdict verdict = tmprof_params_check(&params);
  EXPECT_EQ(verdict.error, GetParam().error);
  EXPECT_STREQ(verdict.field, GetParam().field);
  EXPECT_EQ(verdict.reason != nullptr, verdict.error != 0);
}

INSTANTIATE_TEST_SUITE_P(Table, ParamsCaseTest, testing::ValuesIn(params_cases),
                         CaseName<params_case>);

class RingCaseTest : public testing::TestWithParam<ring_case> {};

TEST_P(RingCaseTest, Holds) { EXPECT_TRUE(ring_case_holds(&GetParam())); }

INSTANTIATE_TEST_SUITE_P(Table, RingCaseTest, testing::ValuesIn(ring_cases), CaseName<ring_case>);

class StoreCaseTest : public testing::TestWithParam<store_case> {};

TEST_P(StoreCaseTest, Holds) {
  TestMemory memory;
  EXPECT_STREQ(store_case_failure(&GetParam(), memory.get()), nullptr);
  EXPECT_EQ(memory.live_blocks(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Table, StoreCaseTest, testing::ValuesIn(store_cases),
                         CaseName<store_case>);

class GateCaseTest : public testing::TestWithParam<gate_case> {};

TEST_P(GateCaseTest, Holds) { EXPECT_TRUE(gate_case_holds(&GetParam())); }

INSTANTIATE_TEST_SUITE_P(Table, GateCaseTest, testing::ValuesIn(gate_cases), CaseName<gate_case>);

class ReadingCaseTest : public testing::TestWithParam<reading_case> {};

TEST_P(ReadingCaseTest, Holds) { EXPECT_TRUE(reading_case_holds(&GetParam())); }

INSTANTIATE_TEST_SUITE_P(Table, ReadingCaseTest, testing::ValuesIn(reading_cases),
                         CaseName<reading_case>);

class LateCaseTest : public testing::TestWithParam<late_case> {};

TEST_P(LateCaseTest, Holds) { EXPECT_TRUE(late_case_holds(&GetParam())); }

INSTANTIATE_TEST_SUITE_P(Table, LateCaseTest, testing::ValuesIn(late_cases), CaseName<late_case>);

class SourceCaseTest : public testing::TestWithParam<source_case> {};

TEST_P(SourceCaseTest, Holds) { EXPECT_TRUE(source_case_holds(&GetParam())); }

INSTANTIATE_TEST_SUITE_P(Table, SourceCaseTest, testing::ValuesIn(source_cases),
                         CaseName<source_case>);

class HoldCaseTest : public testing::TestWithParam<hold_case> {};

TEST_P(HoldCaseTest, Holds) { EXPECT_TRUE(hold_case_holds(&GetParam())); }

INSTANTIATE_TEST_SUITE_P(Table, HoldCaseTest, testing::ValuesIn(hold_cases), CaseName<hold_case>);

class BudgetCaseTest : public testing::TestWithParam<budget_case> {};

TEST_P(BudgetCaseTest, Holds) { EXPECT_TRUE(budget_case_holds(&GetParam())); }

INSTANTIATE_TEST_SUITE_P(Table, BudgetCaseTest, testing::ValuesIn(budget_cases),
                         CaseName<budget_case>);

class RegionCaseTest : public testing::TestWithParam<region_case> {};

TEST_P(RegionCaseTest, GivesThePicture) {
  std::array<char, REGION_CASE_PICTURE> picture{};
  EXPECT_TRUE(region_case_run(&GetParam(), picture.data()));
  EXPECT_STREQ(picture.data(), GetParam().after);
}

INSTANTIATE_TEST_SUITE_P(Table, RegionCaseTest, testing::ValuesIn(region_cases),
                         CaseName<region_case>);

class RegionParamsCaseTest : public testing::TestWithParam<region_params_case> {};

TEST_P(RegionParamsCaseTest, IsAcceptedOrRefusedForTheFieldAtFault) {
  const tmprof_params_verdict verdict = region_params_case_run(&GetParam());
  EXPECT_STREQ(verdict.field, GetParam().field);
  EXPECT_EQ(verdict.error != 0, verdict.field != nullptr);
  EXPECT_EQ(verdict.reason != nullptr, verdict.field != nullptr);
}

INSTANTIATE_TEST_SUITE_P(Table, RegionParamsCaseTest, testing::ValuesIn(region_params_cases),
                         CaseName<region_params_case>);

class RegionCountCaseTest : public testing::TestWithParam<region_count_case> {};

TEST_P(RegionCountCaseTest, Holds) { EXPECT_TRUE(region_count_case_holds(&GetParam())); }

INSTANTIATE_TEST_SUITE_P(Table, RegionCountCaseTest, testing::ValuesIn(region_count_cases),
                         CaseName<region_count_case>);

class RegionChanceCaseTest : public testing::TestWithParam<region_chance_case> {};

TEST_P(RegionChanceCaseTest, Holds) { EXPECT_TRUE(region_chance_case_holds(&GetParam())); }

INSTANTIATE_TEST_SUITE_P(Table, RegionChanceCaseTest, testing::ValuesIn(region_chance_cases),
                         CaseName<region_chance_case>);

class RegionFitCaseTest : public testing::TestWithParam<region_fit_case> {};

TEST_P(RegionFitCaseTest, Holds) { EXPECT_TRUE(region_fit_case_holds(&GetParam())); }

INSTANTIATE_TEST_SUITE_P(Table, RegionFitCaseTest, testing::ValuesIn(region_fit_cases),
                         CaseName<region_fit_case>);

}  // namespace core_cases_test
}  // namespace tmprof
