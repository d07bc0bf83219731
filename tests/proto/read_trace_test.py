#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/trace-format.md is enough to read a trace: a reader that was written from it finds what tmprof finds.

    read_trace_test.py TMPROF ROOT
"""

import csv
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import read_trace

TMPROF = pathlib.Path(sys.argv.pop(1))
ROOT = pathlib.Path(sys.argv.pop(1))


def converted(trace):
    """The records that `tmprof convert` prints."""
    with tempfile.TemporaryDirectory() as folder:
        table = pathlib.Path(folder) / "t.csv"
        subprocess.run([TMPROF, "convert", trace, "--to", "csv", "-o", table], check=True, capture_output=True)
        with open(table, encoding="latin-1", newline="") as file:
            return list(csv.DictReader(file))


def example():
    """The bytes of the document's example."""
    text = (ROOT / "docs/trace-format.md").read_text(encoding="utf-8")
    block = re.search(r"^```\n(89 54 .*?)^```$", text, re.MULTILINE | re.DOTALL)
    return bytes.fromhex("".join(line.split("|")[0] for line in block[1].splitlines()))


class ReadTraceTest(unittest.TestCase):
    def expect_as_converted(self, trace):
        mine = [record for _, _, records in read_trace.read(trace) for record in records]
        theirs = converted(trace)
        self.assertGreater(len(mine), 0)
        self.assertEqual(len(mine), len(theirs))
        for record, row in zip(mine, theirs):
            self.assertEqual(record["target"], int(row["target"]))
            self.assertEqual(record["start"] * 4096, int(row["start"], 16))
            self.assertEqual(record["node"], int(row["node"]) if row["node"] else None)
            names = ["span_pages", "looks", "load_samples", "store_samples"]
            if record["looks"]:
                names += ["references", "first_accesses"]
                self.assertAlmostEqual(record["time_at_risk"], float(row["at_risk_s"]), delta=1e-12)
            for name in names:
                self.assertEqual(record[name], int(row[name]), name)

    def test_golden_traces_are_read_as_tmprof_reads_them(self):
        for version in (1, 2):
            with self.subTest(version=version):
                self.expect_as_converted(ROOT / f"tests/golden/v{version}.tmprof.data")

    def test_example_of_the_document_is_a_trace_with_the_records_it_names(self):
        with tempfile.TemporaryDirectory() as folder:
            trace = pathlib.Path(folder) / "t.data"
            trace.write_bytes(example())
            self.expect_as_converted(trace)
            [(index, targets, records)] = read_trace.read(trace)
        self.assertEqual(index, 0)
        self.assertEqual(targets, {0: [(16, 24, 5, (1, 77, 4))]})
        table = [
            (r["start"], r["span_pages"], r["looks"], r["references"], r["first_accesses"], r["node"]) for r in records
        ]
        self.assertEqual(table, [(16, 1, 7, 3, 1, 0), (17, 1, 7, 7, 1, 1), (318, 1, 2, 0, 0, None)])

    def test_finds_the_fields_that_version_2_added(self):
        total = read_trace.sums(ROOT / "tests/golden/v2.tmprof.data")
        # 64 pages, each tried three times; found 1 time of page 7, 0 of page 15, 2 of page 23, and so on.
        self.assertEqual(total["fast_looks"], 192)
        self.assertEqual(total["fast_found"], sum(page % 3 for page in range(7, 512, 8)))
        [first, second] = [targets[0] for _, targets, _ in read_trace.read(ROOT / "tests/golden/v2.tmprof.data")]
        self.assertEqual(first[3][3], (1, 7, 0x80))
        self.assertEqual(second, first, "unchanged")


if __name__ == "__main__":
    unittest.main()
