#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests how bench/closed_loop sums up what its boots find, on figures worked out by hand."""

import argparse
import contextlib
import io
import pathlib
import shutil
import sys
import tempfile
import unittest
import unittest.mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))

import measure

closed_loop = measure.command("closed_loop")


def row(speed_up: float = 1.2, hits: float = 0.5, balancing: float = 0.4, damon: float = 0.3,
        predicted: float = 0.5) -> dict:
    return {"workload": "zipf", "ratio": "1/8", "predicted_hit_ratio": predicted,
            "systems": {"first_touch": {"hit_ratio": 0.1, "speed_up": 1},
                        "numa_balancing": {"hit_ratio": balancing, "speed_up": 1},
                        "damon": {"hit_ratio": damon, "speed_up": 1},
                        "tmprofd": {"hit_ratio": hits, "speed_up": 2 * speed_up, "least": {"speed_up": speed_up}}}}


class Goals(unittest.TestCase):
    def missed(self, found: dict, mean_speed_up: float = 1.2) -> list[str]:
        return [goal.text() for goal in closed_loop.judged([found], mean_speed_up) if goal.missed]

    def test_are_five_and_met_where_all_is_reached(self):
        goals = closed_loop.judged([row(speed_up=0.98, hits=0.45, balancing=0.45, damon=0.45)], 1.13)
        self.assertEqual(len(goals), 5)
        self.assertTrue(all(goal.text().endswith(": met") for goal in goals))

    def test_each_is_missed_by_itself_with_its_figure(self):
        self.assertEqual(self.missed(row(), mean_speed_up=1.129),
                         ["geometric mean of the speed-ups 1.13: missed: 1.129"])
        self.assertEqual(self.missed(row(speed_up=0.979)),
                         ["no speed-up below 0.98, of any seed: missed: zipf 1/8 (0.979)"])
        self.assertEqual(self.missed(row(balancing=0.51)),
                         ["hits at least those of numa_balancing: missed: zipf 1/8 (0.500 and 0.510)"])
        self.assertEqual(self.missed(row(damon=0.51)),
                         ["hits at least those of damon: missed: zipf 1/8 (0.500 and 0.510)"])
        self.assertEqual(self.missed(row(predicted=0.6)),
                         ["hits at least 0.90 of what replay predicts: missed: zipf 1/8 (0.83)"])


class Run(unittest.TestCase):
    """With boots that find what they are told to."""

    FOUND = {"first_touch": 100, "numa_balancing": 90, "damon": 110, "tmprofd_accesses": 150, "tmprofd": 200}

    def setUp(self):
        self.booted = []
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for name in ("tiersim.so", "gups", "tmprof", "tmprofd"):
            (pathlib.Path(folder.name) / name).touch()
        self.options = argparse.Namespace(
            quick=False, workloads=["gups"], ratios=["1/8", "1/4"], systems=list(closed_loop.PLACING), footprint_mib=128, seconds=20, seeds=[1], jobs=1,
            build=pathlib.Path(folder.name), keep=pathlib.Path(folder.name) / "kept")

    def boot(self, system: str, workload: str, ratio: str, seed: int, _options, _folder):
        self.booted.append((system, workload, ratio))
        return unittest.mock.Mock(
            result=lambda: {"accesses_per_s": self.FOUND[system] * seed, "hit_ratio": 0.5 / seed, "pages_moved": 1,
                            "cpu_share": 0.01, "held_kib": 16384, "held_at_end_kib": 16000},
            predicted_hit_ratios=lambda: {"1/8": 0.4, "1/4": 0.5})

    def run_it(self) -> dict:
        with (unittest.mock.patch.object(closed_loop, "Boot", self.boot),
              contextlib.redirect_stderr(io.StringIO())):
            return closed_loop.run(self.options)

    def test_has_a_row_for_each_ratio_and_speeds_by_first_touch(self):
        result = self.run_it()
        self.assertEqual([(found["ratio"], found["predicted_hit_ratio"]) for found in result["rows"]],
                         [("1/8", 0.4), ("1/4", 0.5)])
        self.assertEqual({system: found["speed_up"]
                          for system, found in result["rows"][0]["systems"].items()},
                         {"first_touch": 1, "numa_balancing": 0.9, "damon": 1.1, "tmprofd_accesses": 1.5, "tmprofd": 2})
        self.assertAlmostEqual(result["geometric_mean_speed_up"]["tmprofd"], 2)

    def test_runs_the_systems_that_are_asked_for_and_first_touch(self):
        self.options.systems = ["tmprofd_accesses"]
        result = self.run_it()
        self.assertEqual(list(result["rows"][0]["systems"]), ["first_touch", "tmprofd_accesses"])
        self.assertEqual(result["goals"], [])
        self.assertEqual(len(self.booted), 5)

    def test_tells_what_the_daemon_claims_beside_the_truth(self):
        claims = {"claimed": 0.5, "hit_ratio_at_end": 0.4}
        rows = [{**dict.fromkeys(closed_loop.COLUMNS, 1), **claims, "claimed": claimed} for claimed in (0.5, 0.7, 0.6)]
        found = closed_loop.over_seeds(rows)
        self.assertEqual((found["claimed"], found["hit_ratio_at_end"]), (0.6, 0.4))
        self.assertNotIn("claimed", closed_loop.over_seeds([dict.fromkeys(closed_loop.COLUMNS, 1)]))

    def test_profiles_a_program_once(self):
        self.run_it()
        self.assertEqual(len(self.booted), 11)
        self.assertEqual([system for system, _, _ in self.booted].count("profile"), 1)

    def test_boots_nothing_again_that_is_kept(self):
        first = self.run_it()
        self.booted.clear()
        self.assertEqual(self.run_it(), first)
        self.assertEqual(self.booted, [])
        self.options.seeds = [2]
        self.run_it()
        self.assertEqual(len(self.booted), 11)

    def test_boots_again_what_another_build_found(self):
        self.run_it()
        everything = list(self.booted)
        self.assertEqual(len(everything), 11)
        for name, runs in (("tmprofd", [(system, "gups", ratio) for ratio in ("1/8", "1/4")
                                        for system in ("tmprofd_accesses", "tmprofd")]),
                           ("tmprof", [("profile", "gups", "1/8")]),
                           ("gups", everything), ("tiersim.so", everything)):
            self.booted.clear()
            (self.options.build / name).write_bytes(b"another")
            self.run_it()
            self.assertEqual(self.booted, runs, name)

    def test_boots_all_again_where_the_machine_or_what_reads_its_truth_has_changed(self):
        self.run_it()
        self.booted.clear()
        root = pathlib.Path(self.options.build) / "tree"
        for folder in ("bench", "driver", "testbed"):
            shutil.copytree(measure.ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
        with unittest.mock.patch.object(measure, "ROOT", root):
            self.run_it()
            self.assertEqual(self.booted, [], "the same files elsewhere")
            for name in ("testbed/machine/truth_stream.py", "testbed/machine/guest_init", "bench/closed_loop_in_guest"):
                with open(root / name, "a", encoding="utf-8") as file:
                    file.write("\n")
                self.booted.clear()
                self.run_it()
                self.assertEqual(len(self.booted), 11, name)

    def test_refuses_a_folder_without_a_build(self):
        (self.options.build / "tmprof").unlink()
        with self.assertRaisesRegex(measure.Failed, "build it first"):
            self.run_it()

    def test_has_the_median_over_seeds_with_the_least_and_the_most(self):
        self.options.seeds = [1, 2, 5]
        result = self.run_it()
        self.assertEqual(len(self.booted), 33)
        found = result["rows"][0]["systems"]["tmprofd"]
        self.assertEqual((found["hit_ratio"], found["least"]["hit_ratio"], found["most"]["hit_ratio"]),
                         (0.25, 0.1, 0.5))
        self.assertEqual(found["speed_up"], 2, "each seed's beside its own first touch")
        self.assertAlmostEqual(found["speed_up_apart"], 2 / 0.99, msg="of the 99 % that the daemon leaves")
        self.assertIn("0.250 (0.100 to 0.500)", closed_loop.text(result))

    def test_keeps_nothing_unless_it_is_told_to(self):
        self.options.keep = None
        self.run_it()
        self.run_it()
        self.assertEqual(len(self.booted), 22)

    def test_boots_again_what_was_unfit_and_gives_up_at_the_third_time(self):
        unfit = [measure.Failed("18000 KiB")] * 2
        boot = unittest.mock.Mock(result=lambda: {"held_kib": 16384})
        with contextlib.redirect_stderr(io.StringIO()):
            with unittest.mock.patch.object(closed_loop, "Boot", side_effect=[*unfit, boot]):
                self.assertEqual(closed_loop.fit_boot("damon", "gups", "1/8", 1, self.options), {"held_kib": 16384})
            with (unittest.mock.patch.object(closed_loop, "Boot", side_effect=[*unfit, measure.Failed("19000 KiB")]),
                  self.assertRaisesRegex(measure.Failed, "gups damon 1/8: 3 boots, and none was fit; the last: 19000 KiB")):
                closed_loop.fit_boot("damon", "gups", "1/8", 1, self.options)


class Boot(unittest.TestCase):
    """Beside a machine that prints what it is told to."""

    def boot(self, held_kib: int, ratio: str = "1/8"):
        said = f"pid 7\nheld_kib {held_kib}\nheld_at_end_kib 16000\nstart_s 9\nend_s 19\npages_moved 5\nbusy_s 50e-2\n"
        options = argparse.Namespace(build=pathlib.Path("build"), footprint_mib=128, seconds=10)
        with unittest.mock.patch.object(closed_loop.machines.Virtual, "boot", return_value=said) as machine:
            found = closed_loop.Boot("tmprofd", "gups", ratio, 1, options, pathlib.Path("folder"))
        self.arguments = machine.call_args.args[-1]
        return found

    def test_is_refused_where_it_began_with_64th_more_or_less_of_fast_memory(self):
        for held_kib, ratio in ((16384 - 256, "1/8"), (16384 + 256, "1/8"), (32768 + 512, "1/4")):
            self.boot(held_kib, ratio)
        for held_kib, ratio in ((16384 - 260, "1/8"), (16384 + 260, "1/8"), (32768 - 516, "1/4")):
            with self.assertRaisesRegex(measure.Failed, f"began with {held_kib} KiB of fast memory instead of"):
                self.boot(held_kib, ratio)

    def test_has_a_root_file_system_that_nothing_moves(self):
        self.boot(16384)
        self.assertEqual(self.arguments[:2], ["--append", "rootfstype=ramfs"])

    def result(self, misses: dict) -> dict:
        window = closed_loop.truth_stream.Window(10, 500, misses)
        with unittest.mock.patch.object(closed_loop.truth_stream, "window", return_value=window) as read:
            found = self.boot(16384).result()
        read.assert_called_once_with(pathlib.Path("folder") / "exact", 7, 9, 19)
        return found

    def test_finds_the_share_of_misses_on_fast_frames(self):
        self.assertEqual(self.result({0: 300, 1: 700}),
                         {"accesses_per_s": 50, "hit_ratio": 0.3, "pages_moved": 5, "cpu_share": 0.05,
                          "held_kib": 16384, "held_at_end_kib": 16000})

    def test_has_what_the_daemon_claimed_beside_the_truth_at_the_end(self):
        windows = {(9, 19): closed_loop.truth_stream.Window(10, 500, {0: 300, 1: 700}),
                   (19 - closed_loop.CLAIMED_S, 19): closed_loop.truth_stream.Window(4, 200, {0: 80, 1: 120})}
        boot = self.boot(16384)
        boot.said["claimed"] = 0.45
        with unittest.mock.patch.object(closed_loop.truth_stream, "window",
                                        side_effect=lambda _exact, _pid, start, end: windows[start, end]):
            found = boot.result()
        self.assertEqual((found["hit_ratio"], found["claimed"], found["hit_ratio_at_end"]), (0.3, 0.45, 0.4))

    def test_is_refused_where_a_thousandth_went_to_no_known_node(self):
        self.result({0: 300, 1: 699, None: 1})
        with self.assertRaisesRegex(measure.Failed, "0.20% of the misses went to no known node"):
            self.result({0: 300, 1: 698, None: 2})


if __name__ == "__main__":
    unittest.main()
