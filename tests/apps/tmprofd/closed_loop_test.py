#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tmprofd in a virtual machine with a fast and a slow node of memory, over the loaded driver.

Usage: closed_loop_test.py KERNEL BUILD [unittest's arguments]
BUILD is the build folder whose programs the guest gets. One boot: place_in_guest does it all, the tests judge
what it brings back. Where KERNEL is not to be had, all is skipped, as GoogleTest would say it.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
KERNEL, BUILD = sys.argv[1:3]
TMPROF = pathlib.Path(BUILD, "tmprof")
# For a host that does a lot besides.
TIME_LIMIT_S = 600

PAGES = 4096
HOT_PAGES = PAGES // 16
FAST_NODE = 0
# 8 to 11 where the host does nothing else; where it does, an epoch sees less.
MOST_EPOCHS = 150

out = pathlib.Path()  # what the guest brought back


def text(name: str) -> str:
    return (out / name).read_text(encoding="utf-8")


def nodes(name: str) -> dict[int, int]:
    """By virtual page number."""
    return {int(vpn): int(node) for vpn, node in (line.split() for line in text(name).splitlines())}


def hot_pages() -> set[int]:
    return {int(line) for line in text("hot_pages").splitlines()}


def fast_share(pages: set[int], name: str) -> float:
    placed = nodes(name)
    return sum(placed.get(page) == FAST_NODE for page in pages) / len(pages)


def moves(name: str) -> dict:
    view = subprocess.run([TMPROF, "report", out / f"{name}.ledger", "--view", "moves", "--format", "json"],
                          capture_output=True, text=True, check=False)
    assert view.returncode == 0, view.stderr
    return json.loads(view.stdout)


class HotSet(unittest.TestCase):
    """All of it begins on the slow node."""

    def test_begins_on_the_slow_node(self) -> None:
        self.assertEqual(len(hot_pages()), HOT_PAGES)
        self.assertEqual(fast_share(hot_pages(), "hotset.before"), 0)

    def test_hot_pages_come_to_the_fast_node(self) -> None:
        self.assertGreaterEqual(fast_share(hot_pages(), "hotset.after"), 0.9, text("hotset.log"))
        self.assertLessEqual(moves("hotset")["epochs"], MOST_EPOCHS)

    def test_the_capacity_holds(self) -> None:
        moved = [page for page, node in nodes("hotset.after").items()
                 if node == FAST_NODE and nodes("hotset.before").get(page) != FAST_NODE]
        self.assertLessEqual(len(moved), (2 << 20) // 4096)

    def test_the_ledger_has_each_move(self) -> None:
        self.assertGreaterEqual(moves("hotset")["promotions"]["moves"], 0.9 * HOT_PAGES)

    def test_the_status_tells_of_it(self) -> None:
        status = json.loads(text("hotset.status_json"))
        self.assertEqual(status["state"], "running")
        self.assertEqual([target["name"] for target in status["targets"]], ["hotset"])
        self.assertGreater(status["tier1_hit_ratio"], 0.5)

    def test_daemon_and_program_end_well(self) -> None:
        self.assertEqual(text("hotset.status"), "0\n", text("hotset.log"))
        self.assertEqual(text("hotset.program_status"), "0\n", text("hotset.err"))


class Operated(unittest.TestCase):
    def test_moves_nothing_while_paused(self) -> None:
        self.assertEqual(text("operated.pause"), "paused\n")
        self.assertEqual(nodes("operated.before"), nodes("operated.paused"))

    def test_refuses_a_bad_value_and_takes_a_good_one(self) -> None:
        self.assertIn("mover.most_pages_per_epoch", text("operated.bad_set"))
        self.assertEqual(text("operated.set"), "mover.most_pages_per_epoch=100\nlog.level=debug\n")

    def test_stays_paused_under_another_configuration(self) -> None:
        self.assertIn("paused", text("operated.status_text"))

    def test_keeps_its_configuration_where_the_file_is_bad(self) -> None:
        self.assertIn("operated.textproto:1:", text("operated.log"))

    def test_moves_again_and_outlives_its_target(self) -> None:
        self.assertEqual((text("operated.resume"), text("operated.stop"), text("operated.status")),
                         ("resumed\n", "stopping\n", "0\n"), text("operated.log"))
        self.assertGreater(moves("operated")["promotions"]["moves"], 0)


class Killed(unittest.TestCase):
    def test_the_next_daemon_goes_on(self) -> None:
        self.assertEqual(text("killed.status"), "0\n", text("killed_again.log"))
        self.assertEqual(text("killed.program_status"), "0\n", text("killed.err"))

    def test_the_ledger_before_is_kept(self) -> None:
        self.assertTrue((out / "killed.ledger.old").exists())


def main() -> int:
    global out
    with tempfile.TemporaryDirectory(prefix="tmprof-closed-loop.") as folder:
        page_nodes = pathlib.Path(folder, "page_nodes")
        subprocess.run(["gcc", "-static", "-D_GNU_SOURCE", "-O2", "-o", page_nodes, HERE / "page_nodes.c"],
                       check=True)
        run = subprocess.run(
            [ROOT / "testbed" / "vm", "--kernel", KERNEL, "--build", BUILD, "--driver", "--topology", "dram-cxl",
             "--time-limit", str(TIME_LIMIT_S), "--put", page_nodes, "--put", HERE / "place_in_guest",
             "--get", f"/root/out:{folder}/out", "--", "sh place_in_guest"],
            capture_output=True, text=True, check=False)
        if run.returncode == 119:
            print(f"closed_loop_test.py: Skipped\n[  SKIPPED ] kernel {KERNEL}: {run.stderr.strip()}")
            return 0
        print(run.stdout, run.stderr, sep="")
        if run.returncode != 0:
            return 1
        out = pathlib.Path(folder, "out")
        return 0 if unittest.main(argv=[sys.argv[0], *sys.argv[3:]], exit=False).result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
