#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/objects_advised in short: advice on a program that allocates hot keys and cold payloads in turn.

Usage: objects_advised_live_test.py BUILD [unittest's arguments]
Bounds are wide: recordings are short, and of a loaded host. Exact counts are of instructions, and the same anywhere.
"""

import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import measure  # pylint: disable=wrong-import-position

BENCH = measure.ROOT / "bench" / "objects_advised"
BUILD = sys.argv[1]

result: dict = {}


def recording_refused() -> str:
    """Why nothing can be recorded here; empty where it can."""
    tried = subprocess.run([f"{BUILD}/tmprof", "record", "--quiet", "-o", "/dev/null", "--objects", "--", "true"],
                           capture_output=True, text=True, check=False)
    return "" if tried.returncode in measure.RECORDED else f"nothing can be recorded here: {tried.stderr}"


class Advised(unittest.TestCase):
    def rate(self, way: str, ratio: str) -> float:
        rates = next(row["hit_rates"] for row in result["rows"] if row["way"] == way)
        return next(rate["hit_rate"] for rate in rates if (rate["policy"], rate["ratio"]) == ("history", ratio))

    def test_sets_keys_and_payloads_apart_and_then_knows_them(self):
        first, last = result["turns"][0], result["turns"][-1]
        self.assertGreaterEqual(first["verdicts"]["apart"], 1)
        self.assertIsNone(first["hot_pages_advised"])
        self.assertEqual(last["verdicts"]["apart"], 0)
        verdicts = {site["frames"][0]["function"]: site["advice"] for site in result["sites"] if site["frames"]}
        self.assertEqual((verdicts["make_key"], verdicts["make_payload"]), ("hot", "cold"))

    def test_makes_hot_pages_few(self):
        plain, *placed = result["rows"]
        self.assertEqual([row["way"] for row in placed], ["as advised", "as advised by counts"])
        for row in placed:
            with self.subTest(row["way"]):
                self.assertLess(row["hot_pages"], plain["hot_pages"] / 4)
                self.assertLess(row["pages_touched"], plain["pages_touched"] / 3)

    def test_makes_an_eighth_of_the_pages_enough(self):
        self.assertLess(self.rate("as it is", "1/8"), 0.5)
        self.assertGreater(self.rate("as advised", "1/8"), 0.9)
        self.assertGreater(self.rate("as advised by counts", "1/8"), 0.9)

    def test_needs_one_recording_where_another_build_counted(self):
        advice = result["by_counts"]
        self.assertEqual(advice["verdicts"]["apart"], 0)
        self.assertGreater(advice["counts"]["found_share"], 0.99)
        sites = {site["frames"][0]["function"]: site for site in advice["sites"] if site["frames"]}
        self.assertEqual((sites["make_key"]["advice"], sites["make_payload"]["advice"]), ("hot", "cold"))
        for function in ("make_key", "make_payload"):
            self.assertEqual(sites[function]["known_by"], "counts")

    def test_promises_no_more_than_it_gains(self):
        for way, turn in (("as advised", result["turns"][-1]), ("as advised by counts", result["by_counts"])):
            with self.subTest(way):
                promised = {rate["ratio"]: rate["advised"] for rate in turn["hit_rates"]}
                self.assertGreater(promised["1/8"], 0.5)
                self.assertLess(promised["1/8"], self.rate(way, "1/8") + 0.05)


if __name__ == "__main__":
    sys.exit(measure.test(BENCH, ["--quick", "--build", BUILD], recording_refused(), result, sys.argv[2:]))
