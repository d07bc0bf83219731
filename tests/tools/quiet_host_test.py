#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which readings of /proc/stat tools/quiet_host.py takes for those of a quiet host."""

import contextlib
import io
import os
import pathlib
import sys
import unittest
from unittest import mock

sys.dont_write_bytecode = True
TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"
sys.path.insert(0, str(TOOLS))

import quiet_host  # pylint: disable=wrong-import-position
from quiet_host import Counts  # pylint: disable=wrong-import-position

# A second of two CPUs.
ASLEEP = Counts(busy=2, idle=198, stolen=0)
BUSY = Counts(busy=199, idle=0, stolen=1)


class Rule(unittest.TestCase):
    def test_takes_a_host_that_rests_and_yields_all_its_time(self):
        self.assertEqual(quiet_host.refusal(ASLEEP, BUSY), "")

    def test_allows_others_a_twentieth_and_no_more(self):
        self.assertEqual(quiet_host.refusal(Counts(10, 190, 0), BUSY), "")
        self.assertEqual(quiet_host.refusal(Counts(12, 188, 0), BUSY),
                         "not a quiet host: others use 6% of its CPUs, which may be 5%")

    def test_allows_the_hypervisor_a_fiftieth_and_no_more(self):
        self.assertEqual(quiet_host.refusal(ASLEEP, Counts(196, 0, 4)), "")
        self.assertEqual(quiet_host.refusal(ASLEEP, Counts(194, 0, 6)),
                         "not a quiet host: its hypervisor takes 3% of its CPUs, which may be 2%")

    def test_its_own_time_while_it_is_busy_does_not_count_as_others(self):
        self.assertEqual(quiet_host.refusal(ASLEEP, Counts(200, 0, 0)), "")

    def test_refuses_where_the_counts_stand_still(self):
        for asleep, busy in ((Counts(0, 0, 0), BUSY), (ASLEEP, Counts(0, 0, 0))):
            self.assertIn("does not count", quiet_host.refusal(asleep, busy))


class Readings(unittest.TestCase):
    # user nice system idle iowait irq softirq steal guest guest_nice; user and nice include the guests.
    STAT = "cpu  100 20 30 4000 500 6 7 8 90 10\ncpu0 1 1 1 1 1 1 1 1 1 1\n"

    def test_waiting_for_a_disk_is_idle_and_interrupts_are_busy(self):
        self.assertEqual(quiet_host.counts_of(self.STAT), Counts(busy=163, idle=4500, stolen=8))

    def test_difference_of_two_readings_is_what_lies_between(self):
        self.assertEqual(Counts(5, 7, 9).since(Counts(1, 2, 3)), Counts(4, 5, 6))


class Command(unittest.TestCase):
    def test_is_not_run_on_a_host_that_is_not_quiet_and_the_reason_is_printed(self):
        with mock.patch.object(os, "execvp") as execute, contextlib.redirect_stdout(io.StringIO()) as said:
            self.assertEqual(quiet_host.run(["test", "x"], "not a quiet host: y"), 119)
        execute.assert_not_called()
        self.assertEqual(said.getvalue(), "not a quiet host: y\n")

    def test_is_run_with_its_arguments_on_a_quiet_host(self):
        with mock.patch.object(os, "execvp") as execute, contextlib.redirect_stdout(io.StringIO()) as said:
            quiet_host.run(["test", "x"], "")
        execute.assert_called_once_with("test", ["test", "x"])
        self.assertEqual(said.getvalue(), "")


if __name__ == "__main__":
    unittest.main()
