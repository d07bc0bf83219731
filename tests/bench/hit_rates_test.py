#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""That bench/hit_rates keeps runs, evaluates kept ones without recording, and outlives a run that fails."""

import argparse
import contextlib
import io
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))

import measure

hit_rates = measure.command("hit_rates")

RATE = {"value": 0.5, "low": 0.45, "high": 0.55, "told": True}


class Table(unittest.TestCase):
    def setUp(self):
        # pylint: disable-next=consider-using-with
        self.folder = tempfile.TemporaryDirectory(prefix="tmprof-bench.")
        self.addCleanup(self.folder.cleanup)
        self.recorded: list[str] = []

    def options(self, *workloads: str, seconds: int = 40) -> argparse.Namespace:
        return argparse.Namespace(workloads=workloads, footprints=["64MiB"], duties=[100], seeds=[1], seconds=seconds,
                                  record="", keep=pathlib.Path(self.folder.name) / "kept")

    def run_table(self, options: argparse.Namespace) -> dict:
        def record(options, workload, *rest):
            self.recorded.append(workload)
            if workload == "hotset":
                raise measure.Failed("it would not run")
            for file in rest[-2:]:
                file.write_text("{}", encoding="ascii")
            return {"command": hit_rates.recorded_by(options), "load": 0.0, "own_cpu_s": 1.0}

        told = {name: {"told": RATE, "true": 0.52} for name in hit_rates.RATES}
        with unittest.mock.patch.object(hit_rates, "record", record), \
                unittest.mock.patch.object(hit_rates, "evaluated", return_value=told), \
                contextlib.redirect_stderr(io.StringIO()):
            return hit_rates.run(options)

    def test_a_kept_run_is_not_recorded_again(self):
        self.run_table(self.options("zipf"))
        rows = self.run_table(self.options("zipf", "half_idle"))["rows"]
        self.assertEqual(self.recorded, ["zipf", "half_idle"])
        self.assertEqual([row["workload"] for row in rows], ["zipf", "half_idle"])
        self.assertEqual([row["own_cpu_s"] for row in rows], [1.0, 1.0])

    def test_a_run_that_fails_leaves_the_others(self):
        result = self.run_table(self.options("zipf", "hotset", "half_idle"))
        self.assertEqual([row["workload"] for row in result["rows"]], ["zipf", "half_idle"])
        self.assertEqual(result["failed"], ["hotset, 64MiB, 100 %, seed 1: it would not run"])
        self.assertIn("failed: hotset, 64MiB", hit_rates.text(result))

    def test_a_run_that_was_cut_short_is_recorded_again(self):
        self.run_table(self.options("zipf"))
        (pathlib.Path(self.folder.name) / "kept" / "zipf-64MiB-100-1.conditions.json").unlink()
        self.run_table(self.options("zipf"))
        self.assertEqual(self.recorded, ["zipf", "zipf"])

    def test_a_kept_run_of_other_options_is_refused(self):
        self.run_table(self.options("zipf"))
        with self.assertRaisesRegex(measure.Failed, "no run has a result"):
            self.run_table(self.options("zipf", seconds=20))

    def test_no_result_at_all_is_a_failure(self):
        with self.assertRaisesRegex(measure.Failed, "no run has a result"):
            self.run_table(self.options("hotset"))


class Truth(unittest.TestCase):
    def test_pauses_part_it_into_phases_that_say_the_same(self):
        ranges = [{"start": 0, "end": 4096}]
        phases = [{"t_start_ns": at, "t_end_ns": at + 1, "ranges": ranges} for at in range(3)]
        one = hit_rates.as_one_phase({"phases": phases})["phases"]
        self.assertEqual([(phase["t_start_ns"], phase["t_end_ns"]) for phase in one], [(0, 3)])
        with self.assertRaises(measure.Failed):
            hit_rates.as_one_phase({"phases": [*phases, {"t_start_ns": 3, "t_end_ns": 4, "ranges": []}]})


if __name__ == "__main__":
    unittest.main()
