#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests a process's accesses, read out of truth streams made by hand."""

import pathlib
import struct
import tempfile
import unittest

import paths
from machine import truth_stream
from machine.errors import Refused

FAST, SLOW = 0, 1
KNOWS_BOTH = 3
KNOWS_PFN = 1
OURS, OTHER = 7, 8
MS = 1_000_000


def header(magic=b"TMPTRUTH", version=1, more=0, page_bytes=4096, clock=2, llc=b"1 MiB") -> bytes:
    return struct.pack("<8s6I64s64s", magic, version, 160 + more, page_bytes, 2, clock, 1, llc, b"64") + bytes(more)


def record(kind: int, body: bytes) -> bytes:
    return struct.pack("<II", kind, 8 + len(body)) + body


def target(number: int, pid: int) -> bytes:
    return record(1, struct.pack("<IIIIQ16s", number, 3, pid, 0, 100, b"gups"))


def page(of: int, vpn: int, node: int, misses: int, loads: int = 0, flags=KNOWS_BOTH, more=0) -> bytes:
    return struct.pack("<QQIHHQQQQ", vpn, vpn + 1000 * node, of, node, flags, loads, 1, misses, 2) + bytes(more)


def pages(*entries: bytes) -> bytes:
    return record(3, struct.pack("<II", len(entries), len(entries[0])) + b"".join(entries))


def epoch(index: int, loads: int, stores: int, misses: int, dtlb: int, lost: int = 0, start_ms: int | None = None) -> bytes:
    start = (100 * index if start_ms is None else start_ms) * MS
    return record(4, struct.pack("<9Q", index, start, start + 100 * MS, 5, loads, stores, misses, dtlb, lost))


def finish(epochs: int, loads: int, stores: int, misses: int, dtlb: int, lost: int = 0) -> bytes:
    return record(5, struct.pack("<7Q", epochs, 5 * epochs, loads, stores, misses, dtlb, lost))


# Three epochs of 100 ms, from 0 s. In the second, page 3 moves; page 4 is on no known node; target 2 is another's.
FIRST = target(1, OURS) + target(2, OTHER) + pages(page(1, 3, SLOW, 1000)) + epoch(0, 0, 1, 1000, 2)
SECOND = (pages(page(1, 3, SLOW, 30, loads=40), page(1, 3, FAST, 50, loads=60)) +
          pages(page(1, 4, 0, 20, flags=KNOWS_PFN), page(2, 3, FAST, 500)) + epoch(1, 100, 4, 600, 8))
THIRD = pages(page(1, 3, FAST, 100)) + epoch(2, 0, 1, 100, 2)
FINISH = finish(3, 100, 6, 1700, 12)
WHOLE = header() + FIRST + SECOND + THIRD + FINISH


class Stream(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = pathlib.Path(folder.name) / "exact"

    def read(self, stream: bytes, pid: int = OURS, start_s: float = 0.1, end_s: float = 0.2) -> truth_stream.Window:
        self.file.write_bytes(stream)
        return truth_stream.window(self.file, pid, start_s, end_s)

    def refuse(self, message: str, stream: bytes, **what) -> None:
        with self.assertRaisesRegex(Refused, message):
            self.read(stream, **what)

    def test_counts_each_miss_for_the_frame_it_went_to(self):
        found = self.read(WHOLE)
        self.assertEqual(found.misses, {SLOW: 30, FAST: 50, None: 20})
        self.assertEqual((found.share(FAST), found.share(None), found.share(5)), (0.5, 0.2, 0))

    def test_counts_the_one_process_in_whole_epochs_of_the_time(self):
        found = self.read(WHOLE)
        self.assertEqual((found.accesses, round(found.seconds, 9)), (103, 0.1))
        self.assertEqual(self.read(WHOLE, start_s=0.05, end_s=0.3).misses, {SLOW: 30, FAST: 150, None: 20})
        self.assertEqual(self.read(WHOLE, pid=OTHER).misses, {FAST: 500})
        self.assertEqual(self.read(WHOLE, start_s=0, end_s=0.25).misses[SLOW], 1030)

    def test_passes_over_what_a_later_version_adds(self):
        longer = (header(more=16) + FIRST + record(99, bytes(24)) +
                  pages(page(1, 3, FAST, 5, more=8)) + epoch(1, 0, 1, 5, 2) + THIRD +
                  finish(3, 0, 3, 1105, 6))
        self.assertEqual(self.read(longer).misses, {FAST: 5})

    def test_is_refused_unless_it_is_one(self):
        self.refuse("no such stream", header(magic=b"TMPTRACE") + FIRST)
        self.refuse("version 2, known is 1", header(version=2) + FIRST)
        self.refuse("a header of 164 bytes", header(more=4) + FIRST)
        self.refuse("pages of 16384 bytes", header(page_bytes=16384) + FIRST)
        self.refuse("the clock 1", header(clock=1) + FIRST)
        self.refuse("no model of an LLC", header(llc=b"") + FIRST)

    def test_is_refused_wherever_it_is_cut(self):
        for end in range(len(WHOLE)):
            with self.subTest(end):
                self.refuse("cut short", WHOLE[:end])

    def test_is_refused_where_accesses_were_lost_in_the_time(self):
        lost = header() + FIRST + SECOND + pages(page(1, 3, FAST, 100)) + epoch(2, 0, 1, 100, 2, lost=9)
        lost += finish(3, 100, 6, 1700, 12, lost=9)
        self.assertEqual(self.read(lost).accesses, 103)
        self.refuse("epoch 2, which lost 9 accesses", lost, end_s=0.3)

    def test_is_refused_where_it_does_not_have_all_of_the_time(self):
        self.refuse("an end at 0.300 s, before the 0.400 s", WHOLE, end_s=0.4)
        self.refuse("no epoch from 0.110 s to 0.190 s", WHOLE, start_s=0.11, end_s=0.19)
        self.refuse("no process 9", WHOLE, pid=9)
        gap = header() + FIRST + pages(page(1, 3, FAST, 1)) + epoch(2, 0, 1, 1, 2) + finish(2, 0, 2, 1001, 4)
        self.refuse("no epoch between 0 and 2", gap, start_s=0, end_s=0.3)

    def test_is_refused_where_processes_were_not_followed(self):
        self.refuse("not followed", header() + record(6, struct.pack("<II", 1, 0)) + FIRST)

    def test_is_refused_where_it_contradicts_itself(self):
        self.refuse("pages have other LLC misses", header() + target(1, OURS) + pages(page(1, 3, FAST, 5)) +
                    epoch(1, 0, 1, 6, 2))
        self.refuse("does not follow", header() + FIRST + epoch(1, 0, 0, 0, 0, start_ms=50))
        self.refuse("does not follow", header() + FIRST + epoch(0, 0, 0, 0, 0, start_ms=100))
        self.refuse("sums are not those", header() + FIRST + SECOND + THIRD + finish(2, 100, 6, 1700, 12))
        self.refuse("something after", WHOLE + bytes(8))
        self.refuse("a record of 12 bytes", header() + struct.pack("<II", 3, 12))
        self.refuse("2 page entries of 56 bytes", header() + FIRST +
                    record(3, struct.pack("<II", 2, 56) + page(1, 3, FAST, 5)))
        self.refuse("too short", header() + record(4, bytes(8)))


if __name__ == "__main__":
    unittest.main()
