#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of bench/paper/, on counts worked out by hand."""

import argparse
import collections
import io
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench" / "paper"))

import machines
import recordings
import measure  # found by way of recordings

every = measure.command("paper/all")
fig2 = measure.command("paper/fig2")
fig6 = measure.command("paper/fig6")
figs = measure.command("paper/figs")
gate = measure.command("paper/gate")
modes = measure.command("paper/modes")
ranking = measure.command("paper/ranking")
sensitivity = measure.command("paper/sensitivity")
table4 = measure.command("paper/table4")


class Programs(unittest.TestCase):
    def test_take_the_footprint_that_was_asked_for(self):
        for workload in set(machines.WORKLOADS) - {"kv"}:
            self.assertIn("64MiB", machines.program(workload, 64, 10, 1))

    def test_kv_loads_as_many_keys_as_fill_the_footprint(self):
        arguments = machines.program("kv", 430, 10, 1)
        self.assertEqual(arguments[arguments.index("--keys") + 1], str(1 << 20))

    def test_take_the_seed_of_a_variant_that_has_one(self):
        for variant, seed in ((machines.PLAIN, "7"), (machines.Variant("other", seed=2), "2"),
                              (machines.Variant("none", seed=0), "0")):
            arguments = machines.program("zipf", 64, 10, 7, variant)
            self.assertEqual(arguments[arguments.index("--seed") + 1], seed)

    def test_move_their_heat_as_often_as_a_variant_has_phases(self):
        for variant, shift in ((machines.PLAIN, "6s"), (machines.Variant("two", phases=2), "12s"),
                               (machines.Variant("one", phases=1), "24s"),
                               (machines.Variant("none", phases=None), "1h")):
            arguments = machines.program("hotset", 16, 24, 1, variant)
            self.assertEqual(arguments[arguments.index("--shift") + 1], shift)

    def test_take_what_a_variant_adds(self):
        variant = machines.Variant("pausing", ("--busy", "1s", "--idle", "1s"))
        for workload in machines.WORKLOADS:
            self.assertEqual(machines.program(workload, 64, 10, 1, variant)[-4:], [*variant.program])

    def test_work_until_they_are_ended(self):
        for workload in machines.WORKLOADS:
            self.assertIn("1h", machines.program(workload, 64, 10, 1))


class CountingMachine:
    """Stands in for a machine: a trace that says how many were recorded."""

    counts_exactly = True

    def __init__(self, _):
        self.recorded = 0

    def record(self, workload: str, rate: int, _: machines.Variant, folder: pathlib.Path) -> machines.Recording:
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
                                          record="", topology="dram-cxl", tiersim="",
                                          recordings=pathlib.Path(scratch.name))

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

    def test_recordings_of_a_variant_differ_from_the_plain_ones(self):
        pausing = machines.Variant("pausing", ("--busy", "1s", "--idle", "1s"))
        with recordings.Recordings(self.options) as kept:
            seen = [kept.get("gups", 4, variant).trace.read_text(encoding="utf-8")
                    for variant in (machines.PLAIN, pausing, machines.PLAIN, pausing)]
        self.assertEqual(seen, ["1", "2", "1", "2"])

    def test_may_be_asked_of_one_variant_where_none_is_named(self):
        variant = machines.Variant("one-look")
        with recordings.Recordings(self.options) as kept:
            of_variant = kept.of(variant)
            seen = [recording.trace.read_text(encoding="utf-8") for recording in (
                of_variant.get("gups", 4), kept.get("gups", 4), kept.get("gups", 4, variant),
                of_variant.get("gups", 4, machines.PLAIN))]
        self.assertEqual(seen, ["1", "2", "1", "2"])

    def test_recordings_of_a_variant_that_has_changed_are_refused(self):
        with recordings.Recordings(self.options) as kept:
            kept.get("gups", 4, machines.Variant("gated", record=("--gate", "llc")))
        with recordings.Recordings(self.options) as kept, self.assertRaises(measure.Failed):
            kept.get("gups", 4, machines.Variant("gated", record=("--gate", "tlb")))

    def test_recordings_with_other_settings_are_refused(self):
        with recordings.Recordings(self.options) as kept:
            kept.get("gups", 4)
        self.options.seed = 4
        with recordings.Recordings(self.options) as kept, self.assertRaises(measure.Failed):
            kept.get("gups", 4)

    def test_tell_at_which_commits_they_were_made(self):
        with unittest.mock.patch.object(measure, "commit", lambda: "abc"), recordings.Recordings(self.options) as kept:
            kept.get("gups", 4)
        with unittest.mock.patch.object(measure, "commit", lambda: "def"), recordings.Recordings(self.options) as kept:
            self.assertEqual(kept.commits, set())
            kept.get("gups", 4)
            kept.of(machines.Variant("one-look")).get("gups", 4)
            self.assertEqual(kept.commits, {"abc", "def"})

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
        row = {"workload": "gups", "by": "misses", "ratio": "1/8", "rank": "samples", "k_pages": 9,
               "precision": 0.5, "recall": 0.25, "coverage_of_ideal": 0.75, "spearman_rho": 0.125,
               "kendall_tau_b": None, "regret": 0.0625}
        self.assertEqual(ranking.text({"rows": [row]}).splitlines()[1].split(), [
            "gups", "misses", "1/8", "samples", "9", "0.500", "0.250", "0.750", "0.125", "-", "0.062"])


class Modes(unittest.TestCase):
    HIT_RATES = {"references": {"1/8": 0.5, "1/16": 0.25}, "samples": {"1/8": 0.25, "1/16": 0.125},
                 "combined": {"1/8": 0.5, "1/16": 0.375}}

    def test_surplus_is_the_most_over_the_better_source_of_all_ratios(self):
        self.assertEqual(modes.best_surplus(self.HIT_RATES), 0.5)
        worse = {**self.HIT_RATES, "combined": {"1/8": 0.375, "1/16": 0.125}}
        self.assertEqual(modes.best_surplus(worse), -0.25)

    def test_there_is_no_surplus_over_sources_that_never_hit(self):
        self.assertIsNone(modes.best_surplus({rank: {"1/8": 0.0} for rank in recordings.SOURCES}))

    def test_claims_are_told_apart_by_policy_and_judge(self):
        hits = [{"policy": policy, "rank": rank, "judge": judge, "hit_rate": rates}
                for policy, judge in (("history", "misses"), ("oracle", "combined"))
                for rank, rates in self.HIT_RATES.items()]
        hits.append({"policy": "first_touch", "rank": None, "judge": "misses", "hit_rate": {"1/8": 1.0}})
        self.assertEqual(modes.claims({"gain": 1.25}, hits),
                         {"gain": 1.25, "surplus": {"history, misses": 0.5, "oracle, combined": 0.5}})

    def test_claims_are_medians_over_seeds_with_the_least_and_the_most(self):
        found = [{"gain": gain, "surplus": {"history, misses": surplus}}
                 for gain, surplus in ((1.5, None), (1.0, 0.25), (1.25, -0.5))]
        of = modes.over_seeds(found)
        self.assertEqual(of["gain"], {"median": 1.25, "least": 1.0, "most": 1.5})
        self.assertEqual(of["surplus"]["history, misses"], {"median": -0.125, "least": -0.5, "most": 0.25})
        self.assertEqual(modes.claim_cell(of["gain"], ".3f"), "1.250 (1.000 to 1.500)")
        self.assertEqual(modes.claim_cell({"median": 1.0, "least": 1.0, "most": 1.0}, ".3f"), "1.000")
        self.assertEqual(modes.claim_cell(None, ".3f"), "-")
        self.assertEqual(modes.over_seeds([{"gain": None, "surplus": {}}])["gain"]["median"], None)

    def test_have_recordings_of_their_own_for_another_seed(self):
        options = argparse.Namespace(seed=1)
        self.assertIs(modes.seeded(machines.PLAIN, 1, options), machines.PLAIN)
        self.assertEqual(modes.seeded(machines.PLAIN, 2, options), machines.Variant("seed2", seed=2))
        other = modes.seeded(machines.ONE_LOOK, 2, options)
        self.assertEqual((other.name, other.seed, other.record), ("one-look-seed2", 2, machines.ONE_LOOK.record))

    def test_looks_are_those_of_accessed_bits_by_page_and_second(self):
        summary = {"duration_s": 4.0, "pages_looked_at": 10, "sources": [
            {"role": "references", "observations": 60}, {"role": "samples", "observations": 7}]}
        self.assertEqual(modes.looks_per_page_s(summary), 1.5)
        self.assertIsNone(modes.looks_per_page_s({**summary, "sources": summary["sources"][1:]}))

    def test_refuse_a_way_of_looking_that_would_be_that_of_both(self):
        with self.assertRaisesRegex(measure.Failed, "--record '--abit regions'"):
            modes.rows("zipf", None, argparse.Namespace(record="--abit regions"))

    def test_rank_by_the_sum_where_each_page_is_looked_at_once(self):
        self.assertEqual([(mode.variant.record[:2], mode.rank_model) for mode in modes.MODES],
                         [(("--abit", "plain"), "sum"), ((), "rate")])


class Options(unittest.TestCase):
    def parse(self, *arguments: str) -> argparse.Namespace:
        with unittest.mock.patch("sys.argv", ["fig6", *arguments]):
            return recordings.parse(recordings.arguments("What for."))

    def test_options_of_the_virtual_machine_reach_it_and_its_recordings(self):
        options = self.parse("--machine", "virtual", "--topology", "three-tier", "--tiersim", "prefetch_lines=8")
        with (tempfile.TemporaryDirectory() as folder, unittest.mock.patch.object(measure, "output") as output,
              unittest.mock.patch.object(pathlib.Path, "unlink")):
            machines.Virtual(options).record("gups", 1, machines.PLAIN, pathlib.Path(folder))
        command = output.call_args_list[0].args[0]
        self.assertEqual(command[command.index("--topology") + 1], "three-tier")
        self.assertIn("--tiersim=epoch_ms=100,prefetch_lines=8", command)
        self.assertEqual(recordings.made_text({**recordings.made_as(options), "commits": ["abc", "def-dirty"]}),
                         "recorded on virtual, three-tier, --tiersim=prefetch_lines=8, at abc, def-dirty: "
                         "64 MiB, 12 s each")

    def test_have_the_size_asked_for_or_the_commands_own_or_the_machines(self):
        own = recordings.Size(footprint_mib=3, seconds=5)
        for arguments, expected in (((), (3, 5)), (("--seconds", "7"), (3, 7)), (("--footprint-mib", "9"), (9, 5)),
                                    (("--quick",), (16, 6)), (("--quick", "--seconds", "7"), (16, 7))):
            asked = self.parse("--machine", "virtual", *arguments).asked
            options = recordings.sized(asked, own)
            self.assertEqual((options.footprint_mib, options.seconds), expected, arguments)
        options = recordings.sized(self.parse("--machine", "virtual").asked)
        self.assertEqual((options.footprint_mib, options.seconds), (64, 12))

    def test_that_record_nothing_are_refused(self):
        for arguments in (("--footprint-mib", "0"), ("--seconds", "0"), ("--seconds", "1")):
            with self.assertRaises(SystemExit), unittest.mock.patch("sys.stderr"):
                self.parse(*arguments)

    def test_options_of_the_virtual_machine_are_not_the_hosts(self):
        with self.assertRaises(SystemExit), unittest.mock.patch("sys.stderr"):
            self.parse("--tiersim", "prefetch_lines=8")


class GuestScript(unittest.TestCase):
    def script(self, workload: str, variant: machines.Variant = machines.PLAIN) -> str:
        options = argparse.Namespace(footprint_mib=16, seconds=6, seed=1, record="--abit plain")
        return machines.Virtual(options).guest_script(workload, 8, variant)

    def test_waits_for_the_keys_of_a_server_and_for_the_memory_of_others(self):
        self.assertIn("-lt 2 ]", self.script("kv"))
        self.assertIn("-lt 1 ]", self.script("bfs"))

    def test_records_at_the_rate_and_as_it_was_told(self):
        self.assertIn("--duration 6s --sample-rate 8x --abit plain -p", self.script("gups"))

    def test_records_a_variant_by_its_own_arguments(self):
        variant = machines.Variant("always-on", record=("--gate", "off"))
        self.assertIn("--sample-rate 8x --gate off --abit plain -p", self.script("gups", variant))

    def test_has_no_recorder_beside_a_program_that_runs_alone(self):
        script = self.script("gups", machines.Variant("alone", alone=True))
        self.assertNotIn("tmprof", script)
        self.assertIn("sleep 7; echo 1 > /sys/kernel/debug/vpmu/finish", script)

    def test_finds_the_target_in_the_first_line(self):
        self.assertIn(f"$({machines.TARGET_PID} said)", self.script("kv"))
        said = "redis_load: PID 161, the server\nredis_load: loaded 5 keys\n"
        found = subprocess.run(["sh", "-c", machines.TARGET_PID], input=said, capture_output=True,
                               text=True, check=True)
        self.assertEqual(found.stdout, "161\n")


class Gate(unittest.TestCase):
    def test_has_the_duty_of_each_source_and_not_of_the_truth(self):
        self.assertEqual(gate.duties({"sources": [
            {"role": "references", "active_ratio": 0.5}, {"role": "samples", "active_ratio": None},
            {"role": "truth", "active_ratio": 1.0}]}), {"references": 0.5, "samples": None})

    def test_holds_the_recall_of_both_others_against_that_always_on(self):
        def of_all(recall: float | None) -> dict:
            return {(rank, ratio): recall for rank in recordings.SOURCES for ratio in recordings.RATIOS}

        sides = {"gated": of_all(0.5), "always-on": of_all(0.75), "control": of_all(0.875)}
        rows = gate.compare("zipf", {"gated": {"references": 0.5}, "always-on": {}, "control": {}}, sides)
        self.assertEqual(len(rows), 3 * 5)
        self.assertEqual((rows[0]["rank"], rows[0]["ratio"], rows[0]["duty"]["gated"]), ("references", "1/8", 0.5))
        self.assertEqual((rows[0]["lost_points"], rows[0]["control_points"]), (25, -12.5))
        self.assertIsNone(rows[-1]["duty"]["gated"])  # combined is no source

    def test_loses_nothing_known_where_a_side_has_no_recall(self):
        self.assertIsNone(gate.lost_points({"gated": None, "always-on": 0.5}, gate.GATED))

    def test_records_each_seed_thrice_and_the_control_by_another_order_of_scanning(self):
        of_two = gate.sides(2)
        self.assertEqual({variant.seed for variant in of_two.values()}, {2})
        self.assertNotIn("--gate", of_two["gated"].record)
        self.assertEqual(of_two["control"].record, (*of_two["always-on"].record, "--seed", "2"))
        self.assertEqual(len({side.name for seed in (1, 2) for side in gate.sides(seed).values()}), 6)

    def test_shows_the_mean_of_all_seeds_between_the_least_and_the_most(self):
        self.assertEqual(gate.spread([1.0, -2.0, 4.0]), "+1.0 (-2.0 to +4.0)")
        self.assertEqual(gate.spread([1.25]), "+1.2")
        rows = [{"workload": "zipf", "rank": "samples", "ratio": "1/8", "seed": seed, "duty": {"gated": duty},
                 "recall": {"gated": recall, "always-on": always_on}, "lost_points": lost, "control_points": None}
                for seed, duty, recall, always_on, lost in ((1, 0.5, 0.25, 0.5, 25.0), (2, 0.75, None, 0.875, None))]
        self.assertEqual(gate.text({"rows": rows, "goals": []}).splitlines()[1].split(),
                         ["zipf", "samples", "75.0%", "1/8", "0.250", "0.500", "+25.0", "-"])

    @staticmethod
    def row(rank: str, ratio: str, seed: int, duty: float | None, lost: float | None) -> dict:
        return {"workload": "zipf", "rank": rank, "ratio": ratio, "seed": seed, "duty": {"gated": duty},
                "recall": {"gated": 0.5, "always-on": 0.5}, "lost_points": lost, "control_points": None}

    def test_meets_its_goals_by_the_mean_of_recall_and_the_most_of_duty(self):
        rows = [self.row("samples", "1/8", 1, 0.55, 3.5), self.row("samples", "1/8", 2, 0.59, 0.5),
                self.row("combined", "1/8", 1, None, 0)]
        self.assertEqual([goal.text() for goal in gate.judged(rows)],
                         ["on for less than 60% of the time: met", "recall within 2 points: met"])

    def test_meets_no_goal_of_which_nothing_is_known(self):
        self.assertEqual([goal.text() for goal in gate.judged([self.row("samples", "1/8", 1, None, None)])],
                         ["on for less than 60% of the time: unknown: zipf samples",
                          "recall within 2 points: unknown: zipf samples 1/8"])
        self.assertEqual([goal.unknown for goal in gate.judged([])], [["nothing was recorded"]] * 2)

    def test_misses_a_goal_by_any_rank_or_ratio(self):
        rows = [self.row("samples", "1/8", 1, 0.625, 0), self.row("samples", "1/16", 1, 0.625, 3),
                self.row("samples", "1/16", 2, 0.5, 2)]
        self.assertEqual([goal.missed for goal in gate.judged(rows)],
                         [["zipf samples (62.5%)"], ["zipf samples 1/16 (+2.5 (+2.0 to +3.0); control -)"]])


class Sensitivity(unittest.TestCase):
    @staticmethod
    def record(epoch: int, page: str, loads: str, stores: str, samples: str, walks: str) -> dict:
        return {"epoch": str(epoch), "target": "0", "start": page, "loads": loads, "stores": stores,
                "load_samples": samples, "store_samples": "", "dtlb_misses": walks}

    def test_finds_by_samples_by_accesses_or_by_walks(self):
        records = [self.record(0, "a", "3", "1", "2", "0"), self.record(0, "b", "1", "0", "", "1"),
                   self.record(1, "a", "0", "0", "", "0"), self.record(1, "c", "", "", "1", "")]

        def found(how) -> list[dict]:
            epochs = sensitivity.epochs_of(records, how)
            return [{page: times for (_, page), times in epochs[index].found.items()} for index in (0, 1)]

        self.assertEqual(found(sensitivity.samples), [{"a": 2}, {}])
        self.assertEqual(found(sensitivity.accessed), [{"a": 1, "b": 1}, {}])
        self.assertEqual(found(sensitivity.walked), [{"b": 1}, {}])

    def test_takes_page_walks_that_nobody_counted_neither_for_some_nor_for_none(self):
        with self.assertRaises(measure.Failed):
            sensitivity.epochs_of([self.record(0, "a", "3", "1", "2", "")], sensitivity.walked)

    def test_recall_counts_equals_by_chance(self):
        accesses = collections.Counter({"a": 40, "b": 30, "c": 20, "d": 10})
        # k is 2: a is found for sure, and one of b, c and d beside it.
        found = collections.Counter({"a": 2, "b": 1, "c": 1, "d": 1})
        self.assertAlmostEqual(sensitivity.recall(accesses, found, "1/2"), (1 + 1 / 3) / 2)
        self.assertEqual(sensitivity.recall(accesses, collections.Counter(), "1/2"), 0)

    def test_recall_of_pages_that_weigh_as_the_last_of_k_is_as_good(self):
        accesses = collections.Counter({"a": 1, "b": 1, "c": 1, "d": 1})
        self.assertEqual(sensitivity.recall(accesses, collections.Counter({"d": 5}), "1/8"), 1)

    def test_figures_of_less_than_a_phase_have_no_recall(self):
        self.assertIsNone(sensitivity.figures([sensitivity.Epoch(collections.Counter({"a": 1}))], 2)["recall"]["1/8"])
        self.assertIsNone(sensitivity.figures([], 2)["accesses_missed_share"])

    def test_figures_are_of_all_epochs_and_recall_is_of_whole_phases(self):
        def epoch(accesses: dict, found: dict) -> sensitivity.Epoch:
            return sensitivity.Epoch(collections.Counter(accesses), collections.Counter(found))

        # Two phases of one page each, found in the first alone; the last epoch joins none.
        epochs = [epoch({"a": 6, "b": 1}, {"a": 1}), epoch({"a": 6}, {}),
                  epoch({"b": 4}, {}), epoch({"b": 2}, {"a": 1}), epoch({"a": 1}, {"a": 1})]
        figures = sensitivity.figures(epochs, 2)
        self.assertEqual((figures["pages_accessed"], figures["pages_seen"]), (2, 1))
        self.assertEqual(figures["accesses_missed_share"], 13 / 20)
        self.assertEqual(figures["recall"]["1/8"], 0.5)


class Csv(unittest.TestCase):
    def test_has_the_fields_of_fields_as_columns_of_their_own(self):
        rows = every.lists_of({"name": "fig6", "rows": [{"workload": "zipf", "hit_rate": {"1/8": 0.5, "1/16": 0.25}}]})
        self.assertEqual(rows, {"fig6": [{"workload": "zipf", "hit_rate 1/8": 0.5, "hit_rate 1/16": 0.25}]})

    def test_has_lists_of_its_own_for_parts_that_have_rows(self):
        rows = every.lists_of({"name": "modes", "rows": [
            {"workload": "zipf", "mode": "paper", "claims": {"gain": 1.0}, "pictures": ["a"],
             "ranking": [{"workload": "zipf", "recall": 0.5}]}]})
        self.assertEqual(rows, {"modes": [{"workload": "zipf", "mode": "paper", "claims gain": 1.0}],
                                "modes_ranking": [{"workload": "zipf", "mode": "paper", "recall": 0.5}]})

    def test_a_section_without_rows_has_no_csv(self):
        self.assertEqual(every.lists_of({"name": "fig2", "rows": []}), {})

    def test_leaves_empty_what_a_row_does_not_know(self):
        file = io.StringIO()
        every.write_csv([{"a": 1, "b": None}, {"a": 1 / 3, "c": "x"}], file)
        self.assertEqual(file.getvalue(), "a,b,c\n1,,\n0.333333,,x\n")


class Section(unittest.TestCase):
    def test_goes_on_after_a_workload_that_failed(self):
        def rows(workload: str, kept, options) -> list[dict]:
            if workload == "zipf":
                raise measure.Failed("no machine")
            return [{"workload": workload}]

        part = every.section("fig6", rows, None, argparse.Namespace(workloads=["gups", "zipf", "kv"]))
        self.assertEqual(part["rows"], [{"workload": "gups"}, {"workload": "kv"}])
        self.assertEqual(part["failures"], ["zipf: no machine"])

    def test_the_gates_section_has_only_workloads_that_are_worth_their_own_recordings(self):
        part = every.section("gate", lambda workload, *_: [{"workload": workload}], None,
                             argparse.Namespace(workloads=["gups", "zipf", "kv"]))
        self.assertEqual(part["rows"], [{"workload": "zipf"}])

    def test_has_the_workloads_in_their_order_however_many_are_done_at_a_time(self):
        started = threading.Barrier(2, timeout=600)

        def rows(workload: str, kept, options) -> list[dict]:
            started.wait()  # two are under way at a time
            return [{"workload": workload, "at": f"{options.footprint_mib} MiB"}]

        with tempfile.TemporaryDirectory() as folder:
            options = recordings.sized(argparse.Namespace(
                machine="virtual", quick=False, footprint_mib=None, seconds=None, workloads=["zipf", "hotset"],
                recordings=pathlib.Path(folder), output=pathlib.Path(folder), sections=["gate", "fig2"], jobs=2,
                topology="dram-cxl", tiersim="", seed=1, record=""))
            with unittest.mock.patch.multiple(gate, rows=rows, text=str, judged=None), \
                    unittest.mock.patch.multiple(fig2, rows=rows, text=str):
                sections = every.run(options)["sections"]
        self.assertEqual([part["rows"] for part in sections],
                         [[{"workload": name, "at": size} for name in ("zipf", "hotset")]
                          for size in ("16 MiB", "64 MiB")])
        self.assertEqual([part["seconds"] for part in sections], [24, 12])


if __name__ == "__main__":
    unittest.main()
