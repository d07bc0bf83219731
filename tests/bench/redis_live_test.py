#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/redis in short, on the programs of this build.

Usage: redis_live_test.py BUILD [unittest's arguments]
The test asks for a truth and for rates, not for how near they are: that depends on the host.
"""

import pathlib
import shutil
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import measure  # pylint: disable=wrong-import-position

BENCH = measure.ROOT / "bench" / "redis"
BUILD = sys.argv[1]

result: dict = {}


class Redis(unittest.TestCase):
    def test_every_value_was_found(self):
        [row] = result["rows"]
        self.assertEqual(result["failed"], [])
        # Four values of 1000 bytes fit into a page.
        self.assertAlmostEqual(row["pages"], result["keys"] / 4, delta=result["keys"] / 100)
        self.assertGreater(row["gets_per_s"], 0)

    def test_each_rate_stands_beside_its_truth(self):
        [row] = result["rows"]
        self.assertTrue(0.4 < row["oracle"]["true"] < 0.9, row)
        self.assertIsNotNone(row["oracle"]["told"])
        self.assertLessEqual(row["attainable"]["true"], row["oracle"]["true"])


if __name__ == "__main__":
    sys.exit(measure.test(BENCH, ["--quick", "--build", BUILD], "" if shutil.which("redis-server") else "no redis-server here",
                          result, sys.argv[2:]))
