#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Operators, programs and kernels disturb tmprofd; each program knows what its memory must hold.

Usage: endure_test.py KERNEL BUILD [unittest's arguments]
BUILD is the build folder whose programs the guest gets.
"""

import errno
import json
import re
import sys
import unittest

import guest_run
from guest_run import FAST_NODE, SLOW_NODE

OPTIONS = ["--icount", "--time-limit", "1200"]


class Scenario(unittest.TestCase):
    def setUp(self) -> None:
        self.guest = guest_run.guest

    def text(self, name: str) -> str:
        return self.guest.text(name)

    def on_fast_node(self, name: str) -> int:
        return sum(node == FAST_NODE for node in self.guest.nodes(name).values())

    def assert_unharmed(self, name: str) -> None:
        """The program found in its memory what it had written."""
        self.assertEqual(self.text(f"{name}.program_status"), "0\n", self.text(f"{name}.err"))
        self.assertIn("all pages hold what was written last", self.text(f"{name}.out"))

    def assert_kept(self, name: str) -> None:
        """That, and the daemon ended in order."""
        self.assert_unharmed(name)
        self.assertEqual(self.text(f"{name}.status"), "0\n", self.text(f"{name}.log"))

    def assert_promoted(self, name: str) -> dict:
        moves = self.guest.moves(name)
        self.assertGreater(moves["promotions"]["pages"], 0, self.text(f"{name}.log"))
        return moves


class Operated(Scenario):
    def test_moves_nothing_while_paused(self) -> None:
        self.assertEqual(self.text("operated.pause"), "paused\n")
        self.assertEqual(self.guest.nodes("operated.before"), self.guest.nodes("operated.paused"))

    def test_refuses_a_bad_value_and_takes_a_good_one(self) -> None:
        self.assertIn("mover.most_pages_per_epoch", self.text("operated.bad_set"))
        self.assertEqual(self.text("operated.set"), "mover.most_pages_per_epoch=100\n")

    def test_stays_paused_under_another_configuration(self) -> None:
        self.assertIn("paused", self.text("operated.status_text"))

    def test_keeps_its_configuration_where_the_file_is_bad(self) -> None:
        self.assertIn("operated.textproto:1:", self.text("operated.log"))

    def test_takes_up_a_file_while_it_moves(self) -> None:
        self.assertGreaterEqual(self.text("operated.log").count("another configuration"), 3)
        self.assert_promoted("operated")

    def test_outlives_its_target_and_ends_when_told(self) -> None:
        self.assertEqual(self.text("operated.resume"), "resumed\n")
        self.assertEqual(self.text("operated.stop"), "stopping\n")
        self.assert_kept("operated")


class Killed(Scenario):
    def test_the_next_daemon_goes_on(self) -> None:
        self.assert_kept("killed")
        self.assertGreater(self.on_fast_node("killed"), 0)

    def test_the_ledger_before_is_kept_up_to_its_end(self) -> None:
        before = self.guest.json("report", str(self.guest.folder / "out" / "killed.ledger.1"),
                                 "--view", "moves")
        self.assertFalse(before["finished"])
        self.assertGreater(before["promotions"]["pages"], 0)


class Kinds(Scenario):
    def test_all_is_kept(self) -> None:
        self.assert_kept("kinds")
        self.assert_promoted("kinds")

    def test_pages_that_cannot_be_moved_are_told_and_not_tried_for_ever(self) -> None:
        moves = self.guest.moves("kinds")
        self.assertGreater(moves["failed"], 0)
        self.assertLessEqual(set(moves["failures"]), {errno.errorcode[number] for number in
                                                      (errno.EBUSY, errno.EAGAIN, errno.ENOENT)})
        # 16 pinned pages, and three attempts at each of their moves, which are decided ever more rarely: eight times
        # in the first 60 epochs, and once in 60 from then on (kBackoffEpochs of placer.cc).
        self.assertLessEqual(moves["retries"], 2 * moves["failed"])
        self.assertGreaterEqual(moves["epochs"], 24)
        self.assertLessEqual(moves["failed"], 16 * (8 + moves["epochs"] // 60))

    def hot_on_fast_node(self, kind: str) -> float:
        """Share of the eighth that is written all the time."""
        pages, first = map(int, re.search(rf"^{kind}: (\d+) pages from (\d+)$", self.text("kinds.out"),
                                          re.MULTILINE).groups())
        nodes = self.guest.nodes("kinds")
        hot = range(first, first + pages // 8)
        return sum(nodes.get(vpn) == FAST_NODE for vpn in hot) / len(hot)

    def test_the_programs_own_pages_are_placed(self) -> None:
        for kind in ("anon", "mlocked", "file", "forked"):
            self.assertGreaterEqual(self.hot_on_fast_node(kind), 0.5, kind)

    def test_pinned_pages_stay(self) -> None:
        self.assertEqual(self.hot_on_fast_node("pinned"), 0)

    def test_pages_that_a_memory_policy_binds_stay_and_are_counted(self) -> None:
        self.assertEqual(self.hot_on_fast_node("bound"), 0)
        self.assertGreater(self.guest.moves("kinds")["not_moved"]["bound"], 0)


class Sharing(Scenario):
    def nodes_of_upper_half(self) -> list[int | None]:
        """The child rewrites its first eighth; the part that is told is the lower half."""
        pages, first = map(int, re.search(r"^shared: (\d+) pages from (\d+)$", self.text(f"{self.NAME}.out"),
                                          re.MULTILINE).groups())
        nodes = self.guest.nodes(self.NAME)
        return [nodes.get(first + pages + page) for page in range(pages)]


class Joint(Sharing):
    NAME = "joint"
    PAGES = 1024

    def test_pages_that_targets_share_are_placed(self) -> None:
        self.assert_kept(self.NAME)
        hot = self.nodes_of_upper_half()[:self.PAGES // 16]
        self.assertGreaterEqual(hot.count(FAST_NODE) / len(hot), 0.5, self.text(f"{self.NAME}.log"))

    def test_each_page_counts_once(self) -> None:
        targets = json.loads(self.text(f"{self.NAME}.status_json"))["targets"]
        self.assertEqual(len(targets), 2)
        self.assertLess(sum(target["tracked_pages"] for target in targets), self.PAGES * 5 // 4)

    def test_each_page_moves_once(self) -> None:
        """A page that moves for each of its mappers is promoted twice and is in fast memory once."""
        moves = self.guest.moves(self.NAME)
        there = moves["promotions"]["pages"] - moves["demotions"]["pages"]
        own = self.PAGES // 16  # stack, heap and data of the child, which `page_nodes` did not ask
        self.assertLessEqual(there, self.on_fast_node(self.NAME) + own)


class JointUnprivileged(Sharing):
    NAME = "joint_unprivileged"

    def test_pages_that_both_use_stay(self) -> None:
        self.assert_kept(self.NAME)
        self.assert_promoted(self.NAME)
        hot = self.nodes_of_upper_half()[:1024 // 16]
        self.assertEqual(set(hot), {SLOW_NODE})

    def test_it_is_counted_and_told(self) -> None:
        moves = self.guest.moves(self.NAME)
        self.assertGreater(moves["not_moved"]["shared"], 0)
        self.assertNotIn("EPERM", moves["failures"])
        warnings = json.loads(self.text(f"{self.NAME}.status_json"))["warnings"]
        self.assertIn("CAP_SYS_NICE", " ".join(warnings))


class Outsider(Sharing):
    NAME = "outsider"

    def test_pages_that_others_map_too_stay(self) -> None:
        self.assert_kept(self.NAME)
        self.assert_promoted(self.NAME)
        self.assertEqual(set(self.nodes_of_upper_half()), {SLOW_NODE})


class BoundLate(Scenario):
    """Policies are read by a BPF program."""
    NAME = "bound_late"
    BY_NUMA_MAPS = False

    def test_pages_bound_after_the_daemon_looked_stay(self) -> None:
        self.assert_kept(self.NAME)
        self.assert_promoted(self.NAME)
        pages, first = map(int, re.search(r"^late: (\d+) pages from (\d+)$", self.text(f"{self.NAME}.out"),
                                          re.MULTILINE).groups())
        before, after = self.guest.nodes(f"{self.NAME}.before"), self.guest.nodes(self.NAME)
        on_slow_node = [vpn for vpn in range(first, first + pages) if before.get(vpn) == SLOW_NODE]
        # Those are used from then on, as hardly any other page is.
        self.assertGreater(sum(vpn >= first + pages - pages // 8 for vpn in on_slow_node), 10)
        self.assertEqual({after.get(vpn) for vpn in on_slow_node}, {SLOW_NODE})

    def test_it_is_counted(self) -> None:
        self.assertGreater(self.guest.moves(self.NAME)["not_moved"]["bound"], 0)

    def test_policies_are_read_so(self) -> None:
        self.assertEqual("numa_maps is read instead" in self.text(f"{self.NAME}.log"), self.BY_NUMA_MAPS)


class BoundLateWithoutBpf(BoundLate):
    NAME = "bound_late_slowly"
    BY_NUMA_MAPS = True


class Dry(Scenario):
    def test_nothing_moves(self) -> None:
        self.assert_kept("dry")
        self.assertEqual(self.guest.nodes("dry"), self.guest.nodes("dry.before"))

    def test_the_ledger_has_each_move_once(self) -> None:
        """Decided anew in each epoch, moves would fill the fast node several times over."""
        moves = self.assert_promoted("dry")
        self.assertTrue(moves["dry_run"])
        self.assertGreaterEqual(moves["epochs"], 12)
        self.assertGreater(moves["promotions"]["pages"], 1024 // 2)
        self.assertLessEqual(moves["promotions"]["pages"] - moves["demotions"]["pages"], 1024)

    def test_the_status_is_as_if_all_had_moved(self) -> None:
        status = json.loads(self.text("dry.status_json"))
        self.assertEqual(status["state"], "dry-run")
        self.assertGreater(status["tier1_hit_ratio"], 0.5)
        self.assertGreater(status["totals"]["dry_run_pages"], 0)
        self.assertEqual(status["totals"]["moved"], [])


class Huge(Scenario):
    """The hot eighth of a program whose memory is huge pages is one of them."""

    def test_moves_whole_pages_and_no_others(self) -> None:
        self.assert_kept("huge")
        self.assertIn("16384 kB", self.text("huge.smaps"))
        pages, first = map(int, re.search(r"^huge: (\d+) pages from (\d+)$", self.text("huge.out"),
                                          re.MULTILINE).groups())
        nodes = self.guest.nodes("huge")
        for huge in range(first, first + pages, 512):
            self.assertEqual(len({nodes.get(vpn) for vpn in range(huge, huge + 512)}), 1, huge)
        self.assertEqual(nodes[first], FAST_NODE)
        moves = self.guest.moves("huge")
        self.assertGreaterEqual(moves["promotions"]["pages"], 512)


class Full(Scenario):
    def test_the_program_is_not_harmed(self) -> None:
        self.assert_kept("full")
        self.assert_promoted("full")

    def test_nothing_is_moved_again_and_again_onto_a_full_node(self) -> None:
        moves = self.guest.moves("full")
        self.assertLessEqual(moves["failures"].get("ENOMEM", 0), 100 * moves["epochs"])


class Dying(Scenario):
    def test_the_daemon_outlives_them_all(self) -> None:
        self.assertEqual(self.text("dying.victims").split(), ["1", "2", "3", "4", "5"])
        self.assertEqual(self.text("dying.status"), "0\n", self.text("dying.log"))
        self.assert_unharmed("dying_survivor")
        self.assert_promoted("dying")


class Brief(Scenario):
    def test_each_of_fifty_kept_its_memory(self) -> None:
        self.assertEqual(self.text("brief.program_statuses").split(), ["0"] * 50)
        self.assertEqual(self.text("brief.status"), "0\n", self.text("brief.log"))

    def test_some_of_them_are_found(self) -> None:
        found = [int(targets) for targets in re.findall(r"epoch \d+: (\d+) targets", self.text("brief.log"))]
        self.assertGreater(max(found), 0)


class Limited(Scenario):
    def test_moving_kills_nobody_for_memory(self) -> None:
        events = dict(line.split() for line in self.text("limited.events").splitlines())
        self.assertEqual(events["oom_kill"], "0")
        self.assert_kept("limited")
        self.assertGreater(self.on_fast_node("limited"), 0)


class Clock(Scenario):
    def test_goes_on(self) -> None:
        self.assert_kept("clock")
        self.assert_unharmed("clock_later")


class Driverless(Scenario):
    def test_the_module_cannot_be_taken_away(self) -> None:
        self.assertNotEqual(self.text("driverless.rmmod_status"), "0\n")

    def test_places_without_it(self) -> None:
        self.assert_kept("driverless")
        self.assert_unharmed("driverless_again")
        self.assert_promoted("driverless")
        status = json.loads(self.text("driverless.status_json"))
        self.assertIn("abit-bpf", [source["name"] for source in status["sources"]])


if __name__ == "__main__":
    sys.exit(guest_run.main("endure", OPTIONS))
