#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tmprofd on three tiers, of which the middle one has a capacity, too.

Usage: three_tiers_test.py KERNEL BUILD [unittest's arguments]
BUILD is the build folder whose programs the guest gets.
"""

import sys
import unittest

import guest_run

OPTIONS = ["--icount", "--time-limit", "600"]
PAGES = 2048  # of the program
FAST_PAGES = 256  # that it may have of each tier
MIDDLE_PAGES = 512


class ThreeTiers(unittest.TestCase):
    def setUp(self) -> None:
        self.guest = guest_run.guest
        self.all = {page for phase in self.guest.phases("hot") for each in phase["ranges"]
                    for page in range(each["start"] // 4096, each["end"] // 4096)}
        self.assertEqual(len(self.all), PAGES)

    def on(self, node: int, name: str) -> int:
        return round(self.guest.share_on(node, name, self.all) * PAGES)

    def test_begins_in_the_middle(self) -> None:
        self.assertEqual(self.on(1, "hot.before"), PAGES)

    def test_hot_pages_come_to_the_fastest_node_and_follow(self) -> None:
        for phase, name in enumerate(("hot.first", "hot.second")):
            hot = self.guest.hot_pages("hot", phase)
            self.assertEqual(len(hot), PAGES // 16)
            self.assertGreaterEqual(self.guest.share_on(0, name, hot), 0.9, self.guest.text("hot.log"))

    def test_pages_beyond_the_middles_capacity_go_to_the_slowest(self) -> None:
        for name in ("hot.first", "hot.second"):
            fast, middle, slow = (self.on(node, name) for node in (0, 1, 2))
            self.assertLessEqual(fast, FAST_PAGES)
            self.assertLessEqual(middle, MIDDLE_PAGES)
            self.assertGreaterEqual(slow, PAGES - FAST_PAGES - MIDDLE_PAGES)

    def test_the_kernel_tells_three_tiers_apart(self) -> None:
        self.assertIn("tier 1: node 0; tier 2: node 1; tier 3: node 2", self.guest.text("discovering.log"))

    def test_daemon_and_program_end_well(self) -> None:
        self.assertEqual(self.guest.text("hot.status"), "0\n", self.guest.text("hot.log"))
        self.assertEqual(self.guest.text("hot.program_status"), "0\n", self.guest.text("hot.err"))


if __name__ == "__main__":
    sys.exit(guest_run.main("three_tiers", OPTIONS, topology="three-tier"))
