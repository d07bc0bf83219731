#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/programs in short: every program of its list that is installed here.

Usage: real_programs_live_test.py BUILD [unittest's arguments]
The test asks that each recording saw the program, not how much of it: that depends on the host.
"""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import measure  # pylint: disable=wrong-import-position

BENCH = measure.ROOT / "bench" / "programs"
BUILD = sys.argv[1]

result: dict = {}


class Programs(unittest.TestCase):
    def test_each_program_has_a_row_or_a_reason(self):
        names = [row["program"] for row in result["rows"]]
        self.assertEqual(names, list(measure.command("programs").PROGRAMS))
        for row in result["rows"]:
            self.assertTrue(row.get("skipped") or row["seconds"] == 3, row)

    def test_each_recording_saw_its_program(self):
        for row in result["rows"]:
            with self.subTest(row["program"]):
                if "skipped" in row:
                    self.skipTest(row["skipped"])
                self.assertGreater(row["resident_pages"], 256)
                self.assertGreater(row["visited_pages"], 0)
                self.assertGreater(row["seen_pages"], 0)
                self.assertGreater(row["target_cpus"], 0)

    def test_the_table_has_a_line_for_each(self):
        lines = measure.command("programs").text(result).splitlines()
        self.assertCountEqual([line.split()[0].rstrip(":") for line in lines[1:]],
                              [row["program"] for row in result["rows"]])


if __name__ == "__main__":
    sys.exit(measure.test(BENCH, ["--quick", "--build", BUILD], "", result, sys.argv[2:]))
