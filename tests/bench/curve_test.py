#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests how bench/curve judges a curve by simulated misses."""

import pathlib
import sys
import unittest
import unittest.mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))

import measure

curve = measure.command("curve")

# 100 pages miss as often as the other 900.
MISSES = {"misses_per_access": 0.25, "misses": [{"spans": 100, "share": 0.5}, {"spans": 900, "share": 0.5}]}


def rate(value: float, width: float = 0.1) -> dict:
    return {"value": value, "low": value - width / 2, "high": value + width / 2, "told": width <= 0.2}


class Compared(unittest.TestCase):
    def test_the_best_pages_come_first(self):
        for pages, share in ((50, 0.25), (100, 0.5), (550, 0.75), (1000, 1), (2000, 1)):
            self.assertAlmostEqual(curve.share_of_misses(MISSES["misses"], pages), share)

    def test_a_point_is_held_against_its_own_capacity(self):
        points = [{"capacity_pages": pages, "ranked": rate(0.4), "best": None} for pages in (90, 505)]
        rows = curve.compared({"points": points}, MISSES, {90: 0.31})
        self.assertEqual([row["share"] for row in rows], list(curve.SHARES))
        self.assertAlmostEqual(rows[2]["true_best"], 0.45)
        self.assertAlmostEqual(rows[4]["true_best"], 0.5 + 0.5 * 405 / 900)
        self.assertIsNone(rows[0]["told_best"])
        self.assertEqual(rows[2]["true"], 0.31)
        self.assertIsNone(rows[4]["true"], "the ranking ranked nothing")

    def test_a_curve_without_points_tells_nothing(self):
        rows = curve.compared({"points": []}, MISSES, {})
        self.assertEqual([row["told"] for row in rows], [None] * len(curve.SHARES))
        self.assertAlmostEqual(rows[2]["true_best"], 0.5)


class RankedTruly(unittest.TestCase):
    def test_is_of_the_pages_that_the_ranking_puts_first(self):
        points = [{"capacity_pages": pages} for pages in (20, 50, 90, 200, 505)]
        rates = [{"capacity_pages": 20, "truth": {"ranked": 0.1}}, {"capacity_pages": 505, "truth": {"ranked": None}}]
        options = unittest.mock.Mock(build=pathlib.Path("/b"), llc="1MiB")
        with unittest.mock.patch.object(measure, "tmprof_json", return_value={"hit_rates": rates}) as called:
            ranked = curve.ranked_truly(options, pathlib.Path("t"), pathlib.Path("m"), {"points": points}, MISSES)
        self.assertEqual(ranked, {20: 0.1})
        arguments = called.call_args.args
        self.assertEqual(arguments[arguments.index("--fast") + 1], "80KiB,200KiB,360KiB,800KiB,2020KiB")
        self.assertEqual(arguments[arguments.index("--llc") + 1], "1MiB")

    def test_asks_nothing_of_a_curve_without_points_or_of_a_program_without_misses(self):
        with unittest.mock.patch.object(measure, "tmprof_json") as called:
            self.assertEqual(curve.ranked_truly(None, None, None, {"points": []}, MISSES), {})
            none = MISSES | {"misses_per_access": 0}
            self.assertEqual(curve.ranked_truly(None, None, None, {"points": [{"capacity_pages": 9}]}, none), {})
        called.assert_not_called()


class Summary(unittest.TestCase):
    def test_counts_what_is_told_near_and_held(self):
        points = [{"told": rate(0.5), "true": 0.52}, {"told": rate(0.5), "true": 0.6},
                  {"told": rate(0.5, 0.4), "true": 0.6}, {"told": None, "true": 0.6}]
        for point in points:
            point["true_best"] = None
        summary = curve.summary([{"points": points}], "told")
        self.assertEqual((summary["points"], summary["with_interval"], summary["told"]), (4, 3, 2))
        self.assertEqual((summary["told_within_bar"], summary["covered"]), (1, 2))

    def test_the_summary_of_untold_points_is_empty(self):
        self.assertEqual(curve.summary([{"points": [{"told": None, "true": 0.6}]}], "told"), {})


if __name__ == "__main__":
    unittest.main()
