#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/objects --live in short: objects that live at once, the file of them and its views.

Usage: objects_test.py BUILD [unittest's arguments]
"""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import measure  # pylint: disable=wrong-import-position

BENCH = measure.ROOT / "bench" / "objects"
BUILD = sys.argv[1]
OBJECTS = 300_000

result: dict = {}


class Live(unittest.TestCase):
    def test_counts_each_access(self):
        for by, view in result["views"].items():
            # Each node's two words are written once and read once.
            self.assertEqual(view["accesses"], 4 * OBJECTS, by)

    def test_takes_a_header_of_32_bytes_each(self):
        # 48 with the object, and what the thread counts in; the program's own memory is not in it.
        self.assertGreaterEqual(result["bytes_per_object"], 48)
        self.assertLess(result["bytes_per_object"], 48 + 8)

    def test_shows_the_first_of_all_rows_without_memory_for_all(self):
        by_site, by_object = result["views"]["site"], result["views"]["object"]
        self.assertGreaterEqual(by_object["rows"], OBJECTS)
        # A row of each object with its frames would take 200 bytes and more.
        self.assertLess(by_object["peak_bytes"], by_site["peak_bytes"] + 20 * OBJECTS)


if __name__ == "__main__":
    sys.exit(measure.test(BENCH, ["--live", str(OBJECTS), "--build", BUILD], "", result, sys.argv[2:]))
