#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests how bench/stall_deciles joins ranks and samples."""

import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))

import measure

stall_deciles = measure.command("stall_deciles")


def span(first: int, pages: int, pid: int = 7) -> dict:
    return {"pid": pid, "start": hex(4096 * first), "span": pages}


class Tau(unittest.TestCase):
    def test_is_one_where_stalls_fall_and_minus_one_where_they_rise(self):
        self.assertEqual(stall_deciles.tau(list(range(10, 0, -1))), 1)
        self.assertEqual(stall_deciles.tau(list(range(10))), -1)
        self.assertEqual(stall_deciles.tau([1] * 10), 0)

    def test_one_pair_in_the_wrong_order_costs_two_of_45(self):
        self.assertAlmostEqual(stall_deciles.tau([9, 10, 8, 7, 6, 5, 4, 3, 2, 1]), 43 / 45)


class ByDecile(unittest.TestCase):
    def test_sums_the_samples_of_equal_parts_of_the_pages(self):
        rows = [span(100 - i, 1) for i in range(20)]
        samples = {(7, 100): [1, 2], (7, 99): [1, 3], (7, 98): [1, 4], (7, 81): [1, 5], (8, 100): [1, 9], (7, 500): [1, 9]}
        sums = stall_deciles.by_decile(rows, samples, 1)
        self.assertEqual(sums, [5, 4, 0, 0, 0, 0, 0, 0, 0, 5])

    def test_shares_a_span_out_that_lies_across_a_bound(self):
        rows = [span(0, 512), span(512, 1), span(513, 511)]
        samples = {(7, 5): [100], (7, 512): [10]}
        sums = stall_deciles.by_decile(rows, samples, 0)
        for decile in range(5):
            self.assertAlmostEqual(sums[decile], 20)
        self.assertAlmostEqual(sums[5], 0.02 + 10 - 0.02, delta=0.5)
        self.assertAlmostEqual(sum(sums), 110)


class Figures(unittest.TestCase):
    def test_many_samples_leave_a_narrow_interval_and_few_a_wide_one(self):
        many = stall_deciles.figures([1e6 * (10 - i) for i in range(10)], [1e6 * (10 - i) for i in range(10)])
        few = stall_deciles.figures([10 - i for i in range(10)], [10 - i for i in range(10)])
        self.assertEqual(many["tau"]["interval"], [1, 1])
        low, high = few["tau"]["interval"]
        self.assertLess(low, 0.8)
        self.assertLess(low, high)
        self.assertAlmostEqual(many["top"]["value"], 10 / 55)
        self.assertAlmostEqual(many["top_two"]["value"], 19 / 55)

    def test_zero_samples_have_no_share(self):
        none = stall_deciles.figures([0.0] * 10, [0.0] * 10)
        self.assertEqual(none["deciles"], [0.0] * 10)
        self.assertEqual(none["tau"]["value"], 0)


if __name__ == "__main__":
    unittest.main()
