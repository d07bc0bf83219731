#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/mlock in short: a program that sweeps over more memory than it is left.

Usage: mlock_live_test.py BUILD [unittest's arguments]
What is locked is checked, not what that gains: windows of seconds on a loaded host do not tell.
"""

import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import measure  # pylint: disable=wrong-import-position

BENCH = measure.ROOT / "bench" / "mlock"
BUILD = sys.argv[1]

result: dict = {}


def refused() -> str:
    """Why it cannot be measured here; empty where it can."""
    zram = pathlib.Path("/sys/block/zram0/initstate")
    if not zram.exists() or zram.read_text(encoding="ascii").strip() != "0":
        return "/dev/zram0 is not there, or in use"
    try:
        measure.command("mlock").Cgroup("try").remove()
    except measure.Failed as failure:
        return str(failure)
    tried = subprocess.run([f"{BUILD}/tmprof", "record", "--quiet", "--abit", "regions", "-o", "/dev/null", "--", "true"],
                           capture_output=True, text=True, check=False)
    return "" if tried.returncode in measure.RECORDED else tried.stderr


class Gains(unittest.TestCase):
    def test_holds_each_window_against_the_mean_of_its_neighbours(self):
        windows = [{"per_s": speed} for speed in (10, 30, 20, 50, 30)]
        self.assertEqual(measure.command("mlock").gains(windows, "per_s"), [2, 2])


class Locked(unittest.TestCase):
    def setUp(self):
        self.of = result["results"][0]

    def test_locks_all_that_is_advised_within_the_limit(self):
        self.assertEqual(self.of["refused"], 0)
        self.assertLessEqual(self.of["ranges"], 1024)
        self.assertGreater(self.of["locked_bytes"], 0.9 * self.of["advised_bytes"])
        self.assertLess(self.of["locked_bytes"], self.of["limit_bytes"])

    def test_the_process_holds_that_in_turns_and_nothing_when_it_is_undone(self):
        windows = self.of["windows"]
        self.assertEqual([window["locked"] for window in windows], [False, True, False])
        self.assertEqual([window["held_bytes"] for window in windows], [0, self.of["locked_bytes"], 0])

    def test_all_windows_have_work_and_the_table_a_row_of_figures(self):
        for window in self.of["windows"]:
            self.assertGreater(window["per_s"], 0)
            self.assertGreater(window["per_cpu_s"], 0)
        self.assertGreater(self.of["slowed_to"], 0)
        self.assertGreater(self.of["speed_up"]["median"], 0)
        rows = [line for line in measure.command("mlock").to_text(result).splitlines() if line.startswith("stencil")]
        self.assertEqual(len(rows), 1)
        self.assertIn(f"{self.of['speed_up']['median']:.2f}", rows[0].split())

    def test_leaves_no_swap_and_no_cgroup(self):
        self.assertNotIn("zram0", pathlib.Path("/proc/swaps").read_text(encoding="ascii"))
        self.assertEqual(list(pathlib.Path("/sys/fs/cgroup").glob("**/tmprof_bench_*")), [])


if __name__ == "__main__":
    sys.exit(measure.test(BENCH, ["--quick", "--build", BUILD], refused(), result, sys.argv[2:]))
