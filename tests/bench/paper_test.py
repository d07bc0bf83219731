#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of bench/paper/, on counts worked out by hand."""

import argparse
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench" / "paper"))

import machines
import recordings
import measure  # found by way of recordings

every = measure.command("paper/all")
fig2 = measure.command("paper/fig2")
fig6 = measure.command("paper/fig6")
figs = measure.command("paper/figs")
ranking = measure.command("paper/ranking")
table4 = measure.command("paper/table4")


class Programs(unittest.TestCase):
    def test_take_the_footprint_that_was_asked_for(self):
        for workload in set(machines.WORKLOADS) - {"kv"}:
            self.assertIn("64MiB", machines.program(workload, 64, 10, 1))

    def test_of_kv_loads_as_many_keys_as_fill_the_footprint(self):
        arguments = machines.program("kv", 430, 10, 1)
        self.assertEqual(arguments[arguments.index("--keys") + 1], str(1 << 20))

    def test_work_until_they_are_ended(self):
        for workload in machines.WORKLOADS:
            self.assertIn("1h", machines.program(workload, 64, 10, 1))


class CountingMachine:
    """Stands in for a machine: a trace that says how many were recorded."""

    def __init__(self, _):
        self.recorded = 0

    def record(self, workload: str, rate: int, folder: pathlib.Path) -> machines.Recording:
        self.recorded += 1
        trace = folder / "tmprof.data"
        trace.write_text(str(self.recorded), encoding="utf-8")
        return machines.Recording(workload, rate, trace, folder / "truth.json")


class Recordings(unittest.TestCase):
    def setUp(self):
        known = machines.MACHINES
        machines.MACHINES = {"counting": CountingMachine}
        self.addCleanup(setattr, machines, "MACHINES", known)
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.options = argparse.Namespace(machine="counting", footprint_mib=1, seconds=2, seed=3,
                                          record="", recordings=pathlib.Path(scratch.name))

    def test_are_made_once_per_workload_and_rate(self):
        with recordings.Recordings(self.options) as kept:
            seen = [kept.get(*which).trace.read_text(encoding="utf-8") for which in
                    (("gups", 1), ("gups", 4), ("zipf", 1), ("gups", 4))]
        self.assertEqual(seen, ["1", "2", "3", "2"])

    def test_that_were_kept_are_found_again_with_their_truth(self):
        with recordings.Recordings(self.options) as kept:
            first = kept.get("gups", 4)
        with recordings.Recordings(self.options) as kept:
            self.assertEqual(kept.get("gups", 4), first)

    def test_of_other_settings_are_refused(self):
        with recordings.Recordings(self.options) as kept:
            kept.get("gups", 4)
        self.options.seed = 4
        with recordings.Recordings(self.options) as kept, self.assertRaises(measure.Failed):
            kept.get("gups", 4)

    def test_that_failed_are_made_again(self):
        folder = self.options.recordings / "gups-4x"
        folder.mkdir()
        (folder / "tmprof.data").write_text("half", encoding="utf-8")
        with recordings.Recordings(self.options) as kept:
            self.assertEqual(kept.get("gups", 4).trace.read_text(encoding="utf-8"), "1")

    def test_are_gone_afterwards_if_nobody_wants_them(self):
        self.options.recordings = None
        with recordings.Recordings(self.options) as kept:
            trace = kept.get("gups", 4).trace
            self.assertTrue(trace.exists())
        self.assertFalse(trace.exists())


class Table4(unittest.TestCase):
    def test_holds_the_pages_of_both_against_those_of_either(self):
        row = table4.row("gups", 4, {"references": 60, "samples": 50, "both": 10, "either": 100})
        self.assertEqual(row["shared"], 0.1)
        self.assertAlmostEqual(row["gain"], 100 / 60)

    def test_has_no_share_without_both_sources(self):
        row = table4.row("gups", 4, {"references": 60, "samples": None, "both": None, "either": 60})
        self.assertEqual((row["shared"], row["gain"], row["references"]), (None, None, 60))

    def test_has_no_share_of_nothing(self):
        row = table4.row("gups", 4, {"references": 0, "samples": 0, "both": 0, "either": 0})
        self.assertEqual((row["shared"], row["gain"]), (None, None))


class Fig6(unittest.TestCase):
    @staticmethod
    def result(policy: str, rank: str, ratio: str, hit_rate: float | None) -> dict:
        return {"policy": policy, "rank": rank, "ratio": ratio, "hit_rate": hit_rate}

    def test_has_a_row_per_policy_and_rank_but_one_for_first_touch(self):
        rows = fig6.hit_rates("combined", [
            self.result("first_touch", "references", "1/8", 0.25),
            self.result("first_touch", "samples", "1/8", 0.25),
            self.result("oracle", "references", "1/8", 0.5),
            self.result("oracle", "references", "1/16", 0.375),
            self.result("oracle", "samples", "1/8", 0.75)])
        self.assertEqual([(row["policy"], row["rank"], row["hit_rate"]) for row in rows], [
            ("first_touch", None, {"1/8": 0.25}),
            ("oracle", "references", {"1/8": 0.5, "1/16": 0.375}),
            ("oracle", "samples", {"1/8": 0.75})])

    def test_has_no_row_of_a_judge_that_saw_nothing(self):
        self.assertEqual(fig6.hit_rates("truth", [self.result("oracle", "samples", "1/8", None)]), [])


class Fig2(unittest.TestCase):
    @staticmethod
    def record(*counts: str) -> dict:
        return dict(zip(("loads", "stores", "llc_misses", "dtlb_misses"), counts))

    def test_sums_the_counts_of_all_records(self):
        totals = fig2.sums([self.record("1", "2", "4", "0"), self.record("10", "0", "4", "6")])
        self.assertEqual(totals, {"loads": 11, "stores": 2, "llc_misses": 8, "dtlb_misses": 6})
        self.assertEqual(fig2.row("gups", totals)["walks_per_miss"], 0.75)

    def test_passes_by_records_that_only_a_source_made(self):
        self.assertEqual(fig2.sums([self.record("", "", "", ""), self.record("1", "1", "1", "1")]),
                         dict.fromkeys(("loads", "stores", "llc_misses", "dtlb_misses"), 1))
        self.assertIsNone(fig2.sums([self.record("", "", "", "")]))

    def test_has_no_ratio_without_a_miss(self):
        totals = fig2.sums([self.record("1", "1", "0", "1")])
        self.assertIsNone(fig2.row("gups", totals)["walks_per_miss"])


class Figs(unittest.TestCase):
    def test_take_the_share_that_was_asked_for_from_each_curve(self):
        def curve(by: str, *points: tuple[float, float | None]) -> dict:
            return {"by": by, "table": [{"pages_share": pages, "score_share": score}
                                        for pages, score in points]}

        self.assertEqual(figs.hottest([curve("references", (0.125, 0.5), (0.25, 0.75)),
                                       curve("samples", (0.125, None))], 0.125),
                         {"references": 0.5, "samples": None})


class Ranking(unittest.TestCase):
    @staticmethod
    def result(policy: str, rank: str, ratio: str, weight_hit: float) -> dict:
        return {"policy": policy, "rank": rank, "judge": "truth", "ratio": ratio,
                "weight_hit": weight_hit}

    def test_regret_is_what_history_misses_of_what_oracle_would_have_hit(self):
        self.assertEqual(ranking.regret([
            self.result("history", "samples", "1/8", 30), self.result("history", "truth", "1/8", 40),
            self.result("oracle", "samples", "1/8", 35), self.result("oracle", "truth", "1/8", 40),
            self.result("history", "samples", "1/16", 5), self.result("oracle", "truth", "1/16", 20)]),
            {("samples", "1/8"): 0.25, ("truth", "1/8"): 0, ("samples", "1/16"): 0.75})

    def test_there_is_no_regret_without_truth(self):
        self.assertEqual(ranking.regret([self.result("history", "samples", "1/8", 0),
                                         self.result("oracle", "truth", "1/8", 0)]), {})


    def test_shows_what_is_unknown_as_such(self):
        row = {"workload": "gups", "ratio": "1/8", "rank": "samples", "k_pages": 9, "precision": 0.5,
               "recall": 0.25, "coverage_of_ideal": 0.75, "spearman_rho": 0.125, "kendall_tau_b": None,
               "regret": {"truth": 0.0625, "misses": None}}
        self.assertEqual(ranking.text({"rows": [row]}).splitlines()[1].split(), [
            "gups", "1/8", "samples", "9", "0.500", "0.250", "0.750", "0.125", "-", "0.062", "-"])


class GuestScript(unittest.TestCase):
    def script(self, workload: str) -> str:
        options = argparse.Namespace(footprint_mib=16, seconds=6, seed=1, record="--abit plain")
        return machines.Virtual(options).guest_script(workload, 8)

    def test_waits_for_the_keys_of_a_server_and_for_the_memory_of_others(self):
        self.assertIn("-lt 2 ]", self.script("kv"))
        self.assertIn("-lt 1 ]", self.script("bfs"))

    def test_records_at_the_rate_and_as_it_was_told(self):
        self.assertIn("--duration 6s --sample-rate 8x --abit plain -p", self.script("gups"))

    def test_finds_the_target_in_the_first_line(self):
        self.assertIn(f"$({machines.TARGET_PID} said)", self.script("kv"))
        said = "redis_load: PID 161, the server\nredis_load: loaded 5 keys\n"
        found = subprocess.run(["sh", "-c", machines.TARGET_PID], input=said, capture_output=True,
                               text=True, check=True)
        self.assertEqual(found.stdout, "161\n")


class Section(unittest.TestCase):
    def test_goes_on_after_a_workload_that_failed(self):
        def rows(workload: str, kept, options) -> list[dict]:
            if workload == "zipf":
                raise measure.Failed("no machine")
            return [{"workload": workload}]

        part = every.section("fig6", rows, None, argparse.Namespace(workloads=["gups", "zipf", "kv"]))
        self.assertEqual(part["rows"], [{"workload": "gups"}, {"workload": "kv"}])
        self.assertEqual(part["failures"], ["zipf: no machine"])


if __name__ == "__main__":
    unittest.main()
