#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/stall_deciles in short, on the programs of this build.

Usage: stall_deciles_live_test.py BUILD [unittest's arguments]
The test asks for samples and for deciles, not for where the stalls are: that depends on the host.
"""

import pathlib
import shutil
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import measure  # pylint: disable=wrong-import-position

BENCH = measure.ROOT / "bench" / "stall_deciles"
BUILD = sys.argv[1]

result: dict = {}


class StallDeciles(unittest.TestCase):
    def test_both_halves_saw_the_program(self):
        [row] = result["rows"]
        self.assertEqual(result["failed"], [])
        self.assertGreater(row["with_address"], 1000)
        self.assertTrue(0 <= row["shares"]["misses"] <= row["shares"]["stalls"] < 1, row["shares"])
        self.assertGreater(row["shares"]["stalls"], 0)

    def test_each_rank_has_ten_deciles(self):
        [row] = result["rows"]
        for name, rank in row["ranks"].items():
            with self.subTest(name):
                self.assertGreater(rank["pages"], 1000)
                self.assertEqual(len(rank["stalls"]["deciles"]), 10)
                self.assertAlmostEqual(sum(rank["time"]["deciles"]), 1)
                low, high = rank["stalls"]["tau"]["interval"]
                self.assertLessEqual(low, high)


if __name__ == "__main__":
    sys.exit(measure.test(BENCH, ["--quick", "--programs", "sqlite3", "--build", BUILD],
                          "" if shutil.which("sqlite3") else "no sqlite3 here", result, sys.argv[2:]))
