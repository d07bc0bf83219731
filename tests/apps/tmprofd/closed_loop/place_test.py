#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tmprofd in the tiered virtual machine: where it places a hot set, by the kernel's word and by the exact truth.

Usage: place_test.py KERNEL BUILD [unittest's arguments]
BUILD is the build folder whose programs the guest gets.
"""

import json
import statistics
import sys
import unittest

import guest_run
from guest_run import FAST_NODE, SLOW_NODE

EPOCH_MS = 500
PAGES = 8192  # of the program
CAPACITY_PAGES = 1024
# Until nine of ten misses come from the fast node, from the daemon's start or from a shift on. Each page
# is visited every third epoch or so; a page that was cold for long takes two visits to be believed hot.
EPOCHS_TO_FOLLOW = 10
# Further ones after a shift: while no moves pay, accessed bits are read in one second of four (docs/daemon.md).
EPOCHS_AT_REST = 6
OPTIONS = [f"--tiersim=epoch_ms={EPOCH_MS},llc_kib=512", "--truth", "{folder}/exact", "--time-limit", "1200"]


def epochs_of_truth(judge: str, first_s: float, last_s: float) -> list[dict]:
    """Returns what each node served in each whole epoch between these times of the guest, by the exact truth."""
    trace = str(guest_run.guest.folder / "truth.data")
    guest_run.guest.run("convert", str(guest_run.guest.folder / "exact"), "--to", "trace", "-o", trace)
    view = guest_run.guest.json("report", trace, "--view", "nodes", "--by", judge)
    start = view["start_monotonic_s"]
    return [epoch for epoch in view["epochs"]
            if start + epoch["start_s"] >= first_s and start + epoch["end_s"] <= last_s]


def fast_shares(first_s: float, last_s: float) -> list[float]:
    """Returns the fast node's share of the LLC misses of each epoch."""
    return [sum(node["score"] for node in epoch["nodes"] if node["node"] == FAST_NODE)
            / sum(node["score"] for node in epoch["nodes"])
            for epoch in epochs_of_truth("misses", first_s, last_s)]


def accesses(first_s: float, last_s: float) -> list[float]:
    """Returns the accesses of each epoch."""
    return [sum(node["score"] for node in epoch["nodes"]) for epoch in epochs_of_truth("truth", first_s, last_s)]


class Shifting(unittest.TestCase):
    """A hot set whose memory is all slow at first, and which moves on to other pages after a while."""

    def setUp(self) -> None:
        self.guest = guest_run.guest
        self.phases = self.guest.phases("shifting")

    def fast_share(self, phase: int, name: str) -> float:
        hot = self.guest.hot_pages("shifting", phase)
        self.assertEqual(len(hot), PAGES // 16)
        return self.guest.share_on(FAST_NODE, name, hot)

    def test_begins_on_the_slow_node(self) -> None:
        self.assertEqual(self.fast_share(0, "shifting.before"), 0)

    def test_hot_pages_come_to_the_fast_node(self) -> None:
        self.assertGreaterEqual(self.fast_share(0, "shifting.first"), 0.9)

    def test_the_pages_that_become_hot_follow(self) -> None:
        self.assertGreaterEqual(self.fast_share(1, "shifting.second"), 0.9)

    def test_the_truth_says_so_and_how_soon(self) -> None:
        began = float(self.guest.text("shifting.began"))
        shift, end = (self.phases[1][time] / 1e9 for time in ("t_start_ns", "t_end_ns"))
        for shares, epochs in ((fast_shares(began, shift), EPOCHS_TO_FOLLOW),
                               (fast_shares(shift, end), EPOCHS_TO_FOLLOW + EPOCHS_AT_REST)):
            self.assertGreater(len(shares), epochs)
            for share in shares[epochs:]:
                self.assertGreaterEqual(share, 0.9, (shares, self.guest.text("shifting.log")))

    def test_the_capacity_holds(self) -> None:
        before = self.guest.nodes("shifting.before")
        for name in ("shifting.first", "shifting.second"):
            moved = [page for page, node in self.guest.nodes(name).items()
                     if node == FAST_NODE and before.get(page) == SLOW_NODE]
            self.assertLessEqual(len(moved), CAPACITY_PAGES)

    def test_the_ledger_has_each_move(self) -> None:
        moves = self.guest.moves("shifting")
        self.assertGreaterEqual(moves["promotions"]["pages"], 2 * 0.9 * PAGES // 16)

    def test_the_status_tells_of_it(self) -> None:
        status = json.loads(self.guest.text("shifting.status_json"))
        self.assertEqual(status["state"], "running")
        self.assertEqual([target["name"] for target in status["targets"]], ["hotset"])
        self.assertGreater(status["tier1_hit_ratio"], 0.5)

    def test_daemon_and_program_end_well(self) -> None:
        self.assertEqual(self.guest.text("shifting.status"), "0\n", self.guest.text("shifting.log"))
        self.assertEqual(self.guest.text("shifting.program_status"), "0\n", self.guest.text("shifting.err"))


class Uniform(unittest.TestCase):
    """No page moves if none is hotter than the others."""

    # Evidence by then says that what looked hot was chance.
    WARM_EPOCHS = 6
    PAGES = 4096

    def setUp(self) -> None:
        self.guest = guest_run.guest

    def test_hardly_anything_moves_after_warming_up(self) -> None:
        moves = self.guest.moves("uniform", "--epochs", f"{self.WARM_EPOCHS}:")
        moved = moves["promotions"]["pages"] + moves["demotions"]["pages"]
        self.assertGreaterEqual(moves["epochs"], 8)
        self.assertLess(moved / moves["epochs"], 0.01 * self.PAGES)

    def test_the_program_hardly_loses_time_then(self) -> None:
        """The one CPU is the daemon's, too. What is measured is six rounds of one second of looking in four, wherever in
        them it begins; pages are ranked about once in each, so that once more or less is no more than a sixth."""
        rests, alone, ends = (float(self.guest.text(f"uniform.{when}")) for when in ("rests", "alone", "ends"))
        rounds = 6 * 4000 // EPOCH_MS
        beside = accesses(rests, alone - 0.1)[-rounds:]  # before the daemon is told to end
        self.assertEqual(len(beside), rounds)
        share = statistics.mean(beside) / statistics.mean(accesses(alone + 0.1, ends))
        print(f"beside the daemon: {share:.4f} of the accesses alone")
        self.assertGreater(share, 0.98)

    def test_daemon_and_program_end_well(self) -> None:
        self.assertEqual(self.guest.text("uniform.status"), "0\n", self.guest.text("uniform.log"))
        self.assertEqual(self.guest.text("uniform.program_status"), "0\n", self.guest.text("uniform.err"))


if __name__ == "__main__":
    sys.exit(guest_run.main("place", OPTIONS))
