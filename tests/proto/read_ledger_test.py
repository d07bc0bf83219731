#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/ledger.md is enough to read a ledger: a reader that was written from it finds what tmprof finds.

    read_ledger_test.py TMPROF ROOT
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import read_ledger

TMPROF = pathlib.Path(sys.argv.pop(1))
ROOT = pathlib.Path(sys.argv.pop(1))

PROMOTED, DEMOTED, EBUSY = 1, 2, 16


def reported(ledger):
    """The summary by `tmprof report`."""
    command = [TMPROF, "report", ledger, "--view", "moves", "--format", "json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def example():
    """The bytes of the document's example."""
    text = (ROOT / "docs/ledger.md").read_text(encoding="utf-8")
    block = re.search(r"^```\n(89 54 .*?)^```$", text, re.MULTILINE | re.DOTALL)
    return bytes.fromhex("".join(line.split("|")[0] for line in block[1].splitlines()))


class ReadLedgerTest(unittest.TestCase):
    def expect_as_reported(self, ledger):
        """Returns the epochs."""
        epochs = list(read_ledger.read(ledger))
        summary = reported(ledger)
        moves = [move for _, _, of_epoch, _ in epochs for move in of_epoch]
        settled = [move for _, _, _, of_epoch in epochs for move in of_epoch]
        done = [move for move in moves if not move["error"]]
        self.assertEqual(len(epochs), summary["epochs"])
        self.assertEqual(len(moves) - len(done), summary["failed"])
        self.assertEqual(sum(move["span_pages"] for move in done) * 4096, summary["bytes_moved"])
        self.assertEqual(sum(max(move["attempts"] - 1, 0) for move in moves), summary["retries"])
        self.assertEqual(len(settled), sum(summary["payback"][kind]["settled"] for kind in ("promotions", "demotions")))
        return epochs

    def test_golden_ledger_is_read_as_tmprof_reads_it(self):
        epochs = self.expect_as_reported(ROOT / "tests/golden/v1.tmprof.ledger")
        self.assertGreater(sum(len(moves) for _, _, moves, _ in epochs), 300)

    def test_example_of_the_document_is_a_ledger_with_the_moves_it_names(self):
        with tempfile.TemporaryDirectory() as folder:
            ledger = pathlib.Path(folder) / "t.ledger"
            ledger.write_bytes(example())
            [first, third] = self.expect_as_reported(ledger)
        self.assertEqual((first[0], first[1], first[3]), (0, {0: (42, b"db")}, []))
        table = [[move[name] for name in ("start", "from", "to", "score", "reason", "error", "attempts")] for move in first[2]]
        self.assertEqual(table, [[318, 0, 1, 0.0, DEMOTED, 0, 1], [16, 1, 0, 900.5, PROMOTED, 0, 1],
                                 [17, 1, 0, 40.0, PROMOTED, EBUSY, 3]])
        self.assertEqual({move["latency_ns"] for move in first[2]}, {20_000})
        self.assertEqual((third[0], third[2]), (2, []))
        self.assertEqual(third[3], [{"start": 16, "target": 0, "span_pages": 1, "from": 1, "to": 0, "age": 2, "cause": 3,
                                     "epochs": 1, "epochs_known": 1, "seen": 12.0, "weight": 880.0}])


if __name__ == "__main__":
    unittest.main()
