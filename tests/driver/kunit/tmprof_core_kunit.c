// SPDX-License-Identifier: GPL-2.0-only
/*
 * The cases of driver/core, run by the kernel's own compiler flags, allocator and sanitizers.
 */

#include <kunit/test.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "tests/driver/core/core_cases.h"
#include "tests/driver/core/region_cases.h"

static void *allocate(void *context, size_t bytes)
{
	return kmalloc(bytes, GFP_KERNEL_ACCOUNT);
}

static void release(void *context, void *block, size_t bytes)
{
	kfree(block);
}

static void describe_params(const struct params_case *tried, char *text)
{
	strscpy(text, tried->name, KUNIT_PARAM_DESC_SIZE);
}
KUNIT_ARRAY_PARAM(params, params_cases, describe_params);

static void params_are_refused_for_the_field_at_fault(struct kunit *test)
{
	const struct params_case *tried = test->param_value;
	struct tmprof_params_verdict verdict;
	struct tmprof_params params;

	params_case_build(tried, &params);
	verdict = tmprof_params_check(&params);
	KUNIT_EXPECT_EQ(test, verdict.error, tried->error);
	if (tried->field && verdict.field)
		KUNIT_EXPECT_STREQ(test, verdict.field, tried->field);
	else
		KUNIT_EXPECT_PTR_EQ(test, verdict.field, tried->field);
}

static void describe_ring(const struct ring_case *tried, char *text)
{
	strscpy(text, tried->name, KUNIT_PARAM_DESC_SIZE);
}
KUNIT_ARRAY_PARAM(ring, ring_cases, describe_ring);

static void ring_loses_only_what_it_counts(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, ring_case_holds(test->param_value));
}

static void describe_store(const struct store_case *tried, char *text)
{
	strscpy(text, tried->name, KUNIT_PARAM_DESC_SIZE);
}
KUNIT_ARRAY_PARAM(store, store_cases, describe_store);

static void store_keeps_every_page_within_its_bound(struct kunit *test)
{
	struct tmprof_memory memory = {
		.allocate = allocate,
		.release = release,
		.limit_bytes = ~0ULL,
	};
	const char *failure = store_case_failure(test->param_value, &memory);

	KUNIT_EXPECT_TRUE_MSG(test, !failure, "%s", failure);
}

static void describe_gate(const struct gate_case *tried, char *text)
{
	strscpy(text, tried->name, KUNIT_PARAM_DESC_SIZE);
}
KUNIT_ARRAY_PARAM(gate, gate_cases, describe_gate);

static void gate_opens_above_its_share_of_the_largest_count(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, gate_case_holds(test->param_value));
}

static void describe_reading(const struct reading_case *tried, char *text)
{
	strscpy(text, tried->name, KUNIT_PARAM_DESC_SIZE);
}
KUNIT_ARRAY_PARAM(reading, reading_cases, describe_reading);

static void readings_add_up_or_are_unknown(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, reading_case_holds(test->param_value));
}

static void describe_late(const struct late_case *tried, char *text)
{
	strscpy(text, tried->name, KUNIT_PARAM_DESC_SIZE);
}
KUNIT_ARRAY_PARAM(late, late_cases, describe_late);

static void late_periods_count_for_those_on_time(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, late_case_holds(test->param_value));
}

static void describe_source(const struct source_case *tried, char *text)
{
	strscpy(text, tried->name, KUNIT_PARAM_DESC_SIZE);
}
KUNIT_ARRAY_PARAM(source, source_cases, describe_source);

static void only_what_memory_served_is_beyond_the_llc(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, source_case_holds(test->param_value));
}

static void describe_hold(const struct hold_case *tried, char *text)
{
	strscpy(text, tried->name, KUNIT_PARAM_DESC_SIZE);
}
KUNIT_ARRAY_PARAM(hold, hold_cases, describe_hold);

static void holds_fall_into_their_buckets(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, hold_case_holds(test->param_value));
}

static void describe_budget(const struct budget_case *tried, char *text)
{
	strscpy(text, tried->name, KUNIT_PARAM_DESC_SIZE);
}
KUNIT_ARRAY_PARAM(budget, budget_cases, describe_budget);

static void budgets_are_kept(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, budget_case_holds(test->param_value));
}

static void describe_region(const struct region_case *tried, char *text)
{
	strscpy(text, tried->name, KUNIT_PARAM_DESC_SIZE);
}
KUNIT_ARRAY_PARAM(region, region_cases, describe_region);

static void regions_give_their_picture(struct kunit *test)
{
	const struct region_case *tried = test->param_value;
	char picture[REGION_CASE_PICTURE] = "";

	KUNIT_EXPECT_TRUE(test, region_case_run(tried, picture));
	KUNIT_EXPECT_STREQ(test, picture, tried->after);
}

static void describe_region_params(const struct region_params_case *tried, char *text)
{
	strscpy(text, tried->name, KUNIT_PARAM_DESC_SIZE);
}
KUNIT_ARRAY_PARAM(region_params, region_params_cases, describe_region_params);

static void region_params_are_refused_for_the_field_at_fault(struct kunit *test)
{
	const struct region_params_case *tried = test->param_value;
	struct tmprof_params_verdict verdict = region_params_case_run(tried);

	if (tried->field && verdict.field)
		KUNIT_EXPECT_STREQ(test, verdict.field, tried->field);
	else
		KUNIT_EXPECT_PTR_EQ(test, verdict.field, tried->field);
}

static void describe_region_count(const struct region_count_case *tried, char *text)
{
	strscpy(text, tried->name, KUNIT_PARAM_DESC_SIZE);
}
KUNIT_ARRAY_PARAM(region_count, region_count_cases, describe_region_count);

static void regions_count_in_proportion_to_what_was_watched(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, region_count_case_holds(test->param_value));
}

static void describe_region_chance(const struct region_chance_case *tried, char *text)
{
	strscpy(text, tried->name, KUNIT_PARAM_DESC_SIZE);
}
KUNIT_ARRAY_PARAM(region_chance, region_chance_cases, describe_region_chance);

static void regions_join_that_differ_by_chance(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, region_chance_case_holds(test->param_value));
}

static void describe_region_fit(const struct region_fit_case *tried, char *text)
{
	strscpy(text, tried->name, KUNIT_PARAM_DESC_SIZE);
}
KUNIT_ARRAY_PARAM(region_fit, region_fit_cases, describe_region_fit);

static void regions_are_as_many_as_there_is_time_for(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, region_fit_case_holds(test->param_value));
}

static struct kunit_case core_cases[] = {
	KUNIT_CASE_PARAM(params_are_refused_for_the_field_at_fault, params_gen_params),
	KUNIT_CASE_PARAM(ring_loses_only_what_it_counts, ring_gen_params),
	KUNIT_CASE_PARAM(store_keeps_every_page_within_its_bound, store_gen_params),
	KUNIT_CASE_PARAM(gate_opens_above_its_share_of_the_largest_count, gate_gen_params),
	KUNIT_CASE_PARAM(readings_add_up_or_are_unknown, reading_gen_params),
	KUNIT_CASE_PARAM(late_periods_count_for_those_on_time, late_gen_params),
	KUNIT_CASE_PARAM(only_what_memory_served_is_beyond_the_llc, source_gen_params),
	KUNIT_CASE_PARAM(holds_fall_into_their_buckets, hold_gen_params),
	KUNIT_CASE_PARAM(budgets_are_kept, budget_gen_params),
	KUNIT_CASE_PARAM(regions_give_their_picture, region_gen_params),
	KUNIT_CASE_PARAM(region_params_are_refused_for_the_field_at_fault,
			 region_params_gen_params),
	KUNIT_CASE_PARAM(regions_count_in_proportion_to_what_was_watched, region_count_gen_params),
	KUNIT_CASE_PARAM(regions_join_that_differ_by_chance, region_chance_gen_params),
	KUNIT_CASE_PARAM(regions_are_as_many_as_there_is_time_for, region_fit_gen_params),
	{},
};

static struct kunit_suite core_suite = {
	.name = "tmprof_core",
	.test_cases = core_cases,
};
kunit_test_suite(core_suite);

MODULE_DESCRIPTION("Cases of tmprof's driver core");
MODULE_LICENSE("GPL");
