#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tmprofd on tiers of several nodes.

Usage: many_nodes_test.py KERNEL BUILD [unittest's arguments]
BUILD is the build folder whose programs the guest gets.
"""

import json
import sys
import unittest

import guest_run

OPTIONS = ["--icount", "--time-limit", "600"]
PAGES = 2048  # of each program
FAST_PAGES = 512  # that all of them may have of tier 1
DISCOVERED = ("discovered", (1, 2, 3), {0})
GIVEN = ("given", (2, 3), {0, 1})


class ManyNodes(unittest.TestCase):
    def setUp(self) -> None:
        self.guest = guest_run.guest

    def pages(self, name: str) -> set[int]:
        return {page for each in self.guest.phases(name)[0]["ranges"]
                for page in range(each["start"] // 4096, each["end"] // 4096)}

    def on(self, nodes: set[int], saved: str, pages: set[int]) -> int:
        return round(sum(self.guest.share_on(node, saved, pages) for node in nodes) * len(pages))

    def test_each_program_begins_on_a_node_of_its_own(self) -> None:
        for daemon, slow_nodes, _ in (DISCOVERED, GIVEN):
            for node in slow_nodes:
                name = f"{daemon}.on{node}"
                self.assertEqual(len(self.pages(name)), PAGES)
                self.assertEqual(self.on({node}, f"{name}.before", self.pages(name)), PAGES, name)

    def test_hot_pages_come_to_tier_1_from_all_of_its_nodes(self) -> None:
        for daemon, slow_nodes, fast in (DISCOVERED, GIVEN):
            for node in slow_nodes:
                name = f"{daemon}.on{node}"
                hot = self.guest.hot_pages(name, 0)
                self.assertEqual(len(hot), PAGES // 16)
                self.assertGreaterEqual(self.on(fast, f"{name}.after", hot), 0.9 * len(hot),
                                        f"{name}: {self.guest.text(f'{daemon}.log')}")

    def test_pages_outside_tier_1_are_on_the_nodes_of_tier_2(self) -> None:
        for daemon, slow_nodes, fast in (DISCOVERED, GIVEN):
            in_tier_1 = 0
            for node in slow_nodes:
                name = f"{daemon}.on{node}"
                of_program = self.on(fast, f"{name}.after", self.pages(name))
                in_tier_1 += of_program
                self.assertEqual(self.on({0, 1, 2, 3} - fast, f"{name}.after", self.pages(name)), PAGES - of_program)
            self.assertLessEqual(in_tier_1, FAST_PAGES)

    def test_tiers_are_told_with_all_their_nodes(self) -> None:
        self.assertIn("tier 1: node 0; tier 2: node 1 node 2 node 3", self.guest.text("discovered.log"))
        tiers = json.loads(self.guest.text("discovered.status_json"))["tiers"]
        self.assertEqual([tier["nodes"] for tier in tiers], [[0], [1, 2, 3]])

    def test_daemons_and_programs_end_well(self) -> None:
        for daemon, slow_nodes, _ in (DISCOVERED, GIVEN):
            self.assertEqual(self.guest.text(f"{daemon}.status"), "0\n", self.guest.text(f"{daemon}.log"))
            for node in slow_nodes:
                name = f"{daemon}.on{node}"
                self.assertEqual(self.guest.text(f"{name}.program_status"), "0\n", self.guest.text(f"{name}.err"))


if __name__ == "__main__":
    sys.exit(guest_run.main("many_nodes", OPTIONS, topology="three-expanders"))
