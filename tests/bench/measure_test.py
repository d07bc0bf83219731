#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of the measuring commands, on lines worked out by hand."""

import importlib.machinery
import importlib.util
import pathlib
import sys
import unittest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.dont_write_bytecode = True
sys.path.insert(0, str(BENCH))

import measure


def command(name: str):
    """A command of bench/ as a module: its file has no suffix."""
    loader = importlib.machinery.SourceFileLoader(name, str(BENCH / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


overhead = command("overhead")
mmap_latency = command("mmap_latency")


class Quartiles(unittest.TestCase):
    def test_interpolates_between_neighbours(self):
        self.assertEqual(measure.quartiles([4, 1, 3, 2]),
                         {"median": 2.5, "q1": 1.75, "q3": 3.25, "min": 1, "max": 4, "n": 4})

    def test_of_one_value_are_that_value(self):
        self.assertEqual(measure.quartiles([7]),
                         {"median": 7, "q1": 7, "q3": 7, "min": 7, "max": 7, "n": 1})


class Throughput(unittest.TestCase):
    LINES = [{"t_ns": 100, "accesses": 1000, "cpu_ns": 50},
             {"t_ns": 200, "accesses": 3000, "cpu_ns": 100},
             {"t_ns": 300, "accesses": 9000, "cpu_ns": 400},
             {"workload": "gups", "accesses": 9000}]

    def test_is_what_passed_between_the_reports_inside_the_window(self):
        self.assertEqual(overhead.throughput(self.LINES, (150, 300)), 6000 / 300e-9)
        self.assertEqual(overhead.throughput(self.LINES, (100, 299)), 2000 / 50e-9)

    def test_refuses_a_window_of_one_report(self):
        with self.assertRaises(measure.Failed):
            overhead.throughput(self.LINES, (101, 299))


class MmapLatency(unittest.TestCase):
    @staticmethod
    def line(start_ns: int, rounds: int, p50_ns: int) -> dict:
        return {"t_start_ns": start_ns, "t_end_ns": start_ns + 100, "rounds": rounds, "cpu_ns": 50,
                "p50_ns": p50_ns, "p99_ns": 2, "p999_ns": 3, "max_ns": 4}

    def test_counts_only_loop_windows_whole_inside_those_of_the_side(self):
        lines = [self.line(0, 10, 5), self.line(100, 20, 6), self.line(200, 40, 9),
                 self.line(300, 80, 8)]
        result = mmap_latency.side(lines, [(50, 310), (380, 400)])
        self.assertEqual(result["rounds"], 60)
        self.assertEqual(result["loop_windows"], 2)
        self.assertEqual(result["p50_ns"], 7.5)
        self.assertAlmostEqual(result["rounds_per_s"], 60 / 200e-9)
        self.assertAlmostEqual(result["rounds_per_cpu_s"], 60 / 100e-9)

    def test_refuses_a_side_without_a_window(self):
        with self.assertRaises(measure.Failed):
            mmap_latency.side([self.line(0, 10, 5)], [(50, 310)])


class Table(unittest.TestCase):
    def test_pads_to_the_widest_cell_of_each_column(self):
        self.assertEqual(measure.table(["a", "b"], [["long", "1"], ["x", "200"]]),
                         "a       b\nlong    1\nx     200")


if __name__ == "__main__":
    unittest.main()
