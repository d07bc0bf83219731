#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests how bench/memory sums up the output of eval, on figures worked out by hand."""

import argparse
import contextlib
import io
import pathlib
import sys
import unittest
import unittest.mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))

import measure

memory = measure.command("memory")


def result(rank: str, ratio: str, hit_rate: float) -> dict:
    return {"policy": "history", "rank": rank, "ratio": ratio, "hit_rate": hit_rate}


RATE = {"value": 0.5, "low": 0.4, "high": 0.6}
CLAIMS = {"traces": [{"samples_of_memory": 2000, "accesses_to_memory_per_cpu_second": 3e6}],
          "hit_rates": [{"ratio": ratio, "pages": 800, "oracle_curve": RATE, "attainable": None}
                        for ratio in ("1/8", "1/32")],
          "results": [result("memory", "1/8", 0.42), result("memory", "1/32", 0.2)]}
EXACT = {"results": [result(rank, ratio, hit_rate * part) for rank, hit_rate in
                     (("combined", 0.35), ("memory", 0.4), ("misses", 0.45))
                     for ratio, part in (("1/8", 1), ("1/32", 0.5))]}


def row(claimed: float = 0.42, served: float = 0.4, accesses: float = 0.35, best: float = 0.45) -> dict:
    return {"program": "zipf", "ratio": "1/8", "claimed": claimed, "served": served, "accesses": accesses, "best": best}


class Rows(unittest.TestCase):
    def test_hold_claims_beside_the_exact_misses_at_each_ratio(self):
        rows = memory.rows_of("zipf", CLAIMS, EXACT)
        self.assertEqual([found["ratio"] for found in rows], ["1/8", "1/32"])
        self.assertEqual({name: rows[0][name] for name in ("claimed", "served", "accesses", "best", "samples")},
                         {"claimed": 0.42, "served": 0.4, "accesses": 0.35, "best": 0.45, "samples": 2000})
        self.assertEqual(rows[1]["served"], 0.2)


class Goals(unittest.TestCase):
    def missed(self, found: dict) -> list[str]:
        return [goal.text() for goal in memory.judged([found]) if goal.missed]

    def test_are_met_where_all_is_reached(self):
        self.assertEqual(self.missed(row()), [])

    def test_each_is_missed_by_itself_with_its_figure(self):
        self.assertEqual(self.missed(row(claimed=0.44)),
                         ["claimed within 3 points of served: missed: zipf 1/8 (0.440 and 0.400)"])
        self.assertEqual(self.missed(row(best=0.5)), ["served at least 0.85 of best: missed: zipf 1/8 (0.80)"])
        self.assertEqual(self.missed(row(accesses=0.41)),
                         ["served no less than by accesses: missed: zipf 1/8 (0.400 and 0.410)"])


class GoalsOfAModel(unittest.TestCase):
    def missed(self, *told: tuple[float, float] | None) -> list[str]:
        rows = [row() | {"attainable": interval and {"value": 0.5, "low": interval[0], "high": interval[1]}}
                for interval in told]
        return [goal.text() for goal in memory.judged_by_model(rows) if goal.missed]

    def test_are_met_where_intervals_are_narrow_and_hold_what_is_served(self):
        self.assertEqual(self.missed((0.3, 0.5), (0.39, 0.41)), [])

    def test_one_row_of_eight_may_be_beyond_its_interval(self):
        self.assertEqual(self.missed(*[(0.3, 0.5)] * 7, (0.45, 0.5)), [])
        self.assertEqual(self.missed(*[(0.3, 0.5)] * 3, (0.45, 0.5)),
                         ["attainable's interval holds what is served in 85 % of the rows: missed: zipf 1/8"])

    def test_wide_intervals_and_none_are_missed(self):
        self.assertEqual(self.missed((0.1, 0.5)), ["half of the intervals no wider than 25 points: missed: 40 points"])
        self.assertEqual(len(self.missed(None)), 2)


class Run(unittest.TestCase):
    def test_evaluates_the_joined_trace_of_each_program(self):
        options = argparse.Namespace(
            quick=False, programs=["zipf", "sqlite3"], ratios=["1/8", "1/32"], llc_kib=1024, footprint_mib=32,
            seconds=12, sample_rate="1x", seed=1, keep=None, build=pathlib.Path("build"))
        with (unittest.mock.patch.object(memory, "joined", return_value=pathlib.Path("joined.data")) as joined,
              unittest.mock.patch.object(measure, "tmprof_json", side_effect=[CLAIMS, EXACT] * 2) as evaluated,
              contextlib.redirect_stderr(io.StringIO())):
            found = memory.run(options)
        self.assertEqual([call.args[0] for call in joined.call_args_list], ["zipf", "sqlite3"])
        self.assertEqual([row["program"] for row in found["rows"]], ["zipf", "zipf", "sqlite3", "sqlite3"])
        self.assertEqual([call.args[-1] for call in evaluated.call_args_list], ["memory", "misses"] * 2)
        shown = memory.text(found)
        self.assertIn("0.420", shown)
        self.assertIn("0.50 [0.40, 0.60]", shown)
        self.assertIn("served at least 0.85 of best: met", shown)

    def test_models_the_cache_where_nothing_is_sampled(self):
        options = argparse.Namespace(
            quick=False, programs=["zipf"], ratios=["1/8", "1/32"], llc_kib=8192, footprint_mib=32, seconds=12,
            sample_rate="none", seed=1, keep=None, build=pathlib.Path("build"))
        claims = CLAIMS | {"traces": [{"samples_of_memory": None, "accesses_to_memory_per_cpu_second": None}]}
        with (unittest.mock.patch.object(memory, "joined", return_value=pathlib.Path("joined.data")),
              unittest.mock.patch.object(measure, "tmprof_json", side_effect=[claims, EXACT]) as evaluated,
              contextlib.redirect_stderr(io.StringIO())):
            found = memory.run(options)
        for call in evaluated.call_args_list:
            self.assertIn("8192KiB", call.args)
        self.assertIn("no wider than 25 points", memory.text(found))
        self.assertIn("--source abit-bpf", memory.guest_script("sqlite3", options))

    def test_records_a_real_program_past_its_start_and_a_synthetic_one_when_it_says_so(self):
        options = argparse.Namespace(footprint_mib=32, seconds=12, sample_rate="4x", seed=1)
        self.assertIn(f"sleep {memory.START_S}; tmprof record", memory.guest_script("sqlite3", options))
        synthetic = memory.guest_script("zipf", options)
        self.assertIn("traced zipf --footprint 32MiB", synthetic)
        self.assertIn("--sample-rate 4x --duration 12s", synthetic)


if __name__ == "__main__":
    unittest.main()
