#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of the measuring commands, on lines worked out by hand."""

import pathlib
import shlex
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))

import measure

driver = measure.command("driver")
exact = measure.command("exact")
overhead = measure.command("overhead")
mmap_latency = measure.command("mmap_latency")
objects = measure.command("objects")
objects_built = measure.command("objects_built")
objects_calls = measure.command("objects_calls")
objects_recorded = measure.command("objects_recorded")
objects_advised = measure.command("objects_advised")
postgresql = measure.command("postgresql")
redis = measure.command("redis")
regions = measure.command("regions")


class PostgresqlTruth(unittest.TestCase):
    def test_a_look_up_reads_header_line_pointer_and_row(self):
        self.assertEqual(postgresql.pages_of_row(0, 1, 8064, 121), {0, 1})
        self.assertEqual(postgresql.pages_of_row(0, 33, 3968, 121), {0})
        self.assertEqual(postgresql.pages_of_row(0, 32, 4000, 121), {0, 1})
        # Line pointers are on the next page if the block begins 32 bytes before a page's end.
        self.assertEqual(postgresql.pages_of_row(4064, 3, 8064, 121), {0, 1, 2})

    def test_every_row_has_the_weight_of_one_rank(self):
        weights = postgresql.weights_of_rows(1000, 1.1)
        self.assertAlmostEqual(sum(weights), 1)
        self.assertEqual(len(set(weights)), 1000)
        self.assertEqual(max(weights), weights[postgresql.SCATTER % 1000])

    def test_recall_counts_pages_and_coverage_reads(self):
        known = {1: 0.4, 2: 0.3, 3: 0.2, 4: 0.1}
        of = postgresql.found_of(known, {1: 5.0, 3: 4.0, 99: 9.0}, {1: 2.0, 2: 1.0}, 2)
        self.assertEqual((of["pages"], of["recall"]), (2, 0.5))
        self.assertAlmostEqual(of["coverage"], 0.6 / 0.7)
        self.assertEqual(of["counted"], {"recall": 1, "coverage": 1})
        self.assertAlmostEqual(of["share_of_reads"], 0.7)

    def test_draws_follow_the_shares(self):
        counts = postgresql.drawn({1: 0.5, 2: 0.001, 3: 0.0}, 10_000, 1)
        self.assertAlmostEqual(counts[1], 5000, delta=300)
        self.assertAlmostEqual(counts[2], 10, delta=12)
        self.assertEqual(counts[3], 0)


class RedisTruth(unittest.TestCase):
    @staticmethod
    def string(key: int, length: int = redis.VALUE_BYTES, kind: int = redis.TYPE_16) -> bytes:
        return redis.HEADER.pack(length, 1023, kind) + redis.value_of(key)

    def test_values_are_found_by_their_string_and_not_by_copies_in_buffers(self):
        memory = b"x" * 7 + self.string(12) + b"$1000\r\n" + redis.value_of(13) + self.string(14, kind=4) + self.string(15, length=9)
        self.assertEqual(list(redis.values_in(memory, 4096)), [(12, 4096 + 7 + redis.HEADER.size)])

    def test_a_value_that_the_piece_of_memory_cuts_off_is_left_to_the_next_piece(self):
        memory = self.string(12)
        self.assertEqual(list(redis.values_in(memory[:-1], 0)), [])
        self.assertEqual(list(redis.values_in(memory[1:], 0)), [])
        self.assertEqual(len(list(redis.values_in(memory, 0))), 1)

    def test_pages_have_the_weights_of_all_values_that_they_hold(self):
        pages = redis.weights_of_pages([8192 + 5, 8192 + 1029, 20480 - 500], [0.5, 0.2, 0.3])
        self.assertEqual(list(pages), [2, 4, 5])
        # Reads of pages: 0.7 of page 2, and 0.3 of each of the two that hold the third value.
        for page, weight in zip((2, 4, 5), (0.7 / 1.3, 0.3 / 1.3, 0.3 / 1.3)):
            self.assertAlmostEqual(pages[page], weight)
        # The string's header is read, too.
        self.assertEqual(list(redis.weights_of_pages([8192], [1.0])), [1, 2])

    def test_each_key_has_the_weight_of_one_rank(self):
        weights = redis.weights_of_keys(1000, 0.99, 1)
        self.assertAlmostEqual(sum(weights), 1)
        self.assertEqual(len(set(weights)), 1000)
        self.assertAlmostEqual(max(weights) / min(weights), 1000 ** 0.99)
        self.assertNotEqual(weights, redis.weights_of_keys(1000, 0.99, 2))

    def test_neighbours_are_named_as_one_range_and_many_ranges_in_several_arguments(self):
        self.assertEqual(redis.joined([3, 4, 5, 9]), [(3, 6), (9, 10)])
        self.assertEqual(redis.address_arguments([3, 4, 9]), ["--addresses", "3000-5000,9000-a000"])
        many = redis.address_arguments(list(range(0, 4 * redis.RANGES_PER_ARGUMENT, 2)))
        self.assertEqual((len(many), many[::2]), (4, ["--addresses"] * 2))

    def test_only_told_rates_can_miss_the_goal(self):
        def rate(value: float, told: bool = True) -> dict:
            return {"told": {"value": value, "low": 0, "high": 1, "told": told}, "true": 0.7}
        rows = [{"seed": 1, "oracle": rate(0.78), "attainable": rate(0.64), "history": rate(0.1, told=False)}]
        self.assertEqual(redis.missed(rows), ["oracle of seed 1"])


class Quartiles(unittest.TestCase):
    def test_interpolates_between_neighbours(self):
        self.assertEqual(measure.quartiles([4, 1, 3, 2]),
                         {"median": 2.5, "q1": 1.75, "q3": 3.25, "min": 1, "max": 4, "n": 4})

    def test_quartiles_of_one_value_are_that_value(self):
        self.assertEqual(measure.quartiles([7]),
                         {"median": 7, "q1": 7, "q3": 7, "min": 7, "max": 7, "n": 1})


class Command(unittest.TestCase):
    def test_is_loaded_once(self):
        self.assertIs(measure.command("driver"), driver)


class Output(unittest.TestCase):
    def test_is_what_the_program_printed(self):
        self.assertEqual(measure.output(["sh", "-c", "echo $WORD; echo no >&2"], {"WORD": "yes"}), "yes\n")

    def test_a_failed_program_gives_its_status_and_its_messages(self):
        with self.assertRaisesRegex(measure.Failed, "ended with status 3:\nbroken$"):
            measure.output(["sh", "-c", "echo broken >&2; exit 3"])

    def test_a_missing_program_is_named(self):
        with self.assertRaisesRegex(measure.Failed, "cannot run /nowhere/tmprof"):
            measure.output(["/nowhere/tmprof"])


class Cell(unittest.TestCase):
    def test_tells_unknown_from_zero(self):
        self.assertEqual([measure.cell(None), measure.cell(0), measure.cell(12, "d")], ["-", "0.000", "12"])


class Objects(unittest.TestCase):
    SIZE = {"nodes": 2500, "reads": 1, "updates": 2}

    @staticmethod
    def said(nanoseconds: float) -> dict[str, float]:
        return {phase: nanoseconds for phase in objects.PHASES}

    def test_compares_each_way_with_the_program_alone_in_the_same_turn(self):
        rows = objects.rows_of(self.SIZE, {objects.PLAIN: [self.said(10), self.said(20), self.said(50)],
                                           "tmprof cc": [self.said(15), self.said(40), self.said(60)],
                                           objects.PAGES: [self.said(1000)]})
        self.assertEqual([(row["way"], row["create"], row["create_ratio"]) for row in rows],
                         [(objects.PLAIN, 20, 1), ("tmprof cc", 40, 1.5), (objects.PAGES, 1000, 100)])

    def test_shows_a_row_of_each_way(self):
        rows = objects.rows_of(self.SIZE, {objects.PLAIN: [self.said(10)], "tmprof cc": [self.said(15)]})
        lines = objects.text({"sequence": 0, "rows": rows}).splitlines()
        self.assertEqual(lines[-1].split(), ["2500", "1", "2", "tmprof", "cc", *["15.0", "(1.50x)"] * 4])
        self.assertIn("at random;", lines[0])
        self.assertIn("of 40 keys, again and again;", objects.text({"sequence": 40, "rows": rows}))


class ObjectsBuilt(unittest.TestCase):
    VIEW = {"rows": [{"kind": "variable", "accesses": 9e9, "frames": []},
                     *({"kind": "heap", "accesses": 10 - n, "frames": [{"function": f"f{n}"}, {"function": "main"}]}
                       for n in range(6)),
                     {"kind": "heap", "accesses": 1, "frames": []}]}
    TURNS = [{"clang": 1.0, "tmprof cc": 1.5}, {"clang": 2.0, "tmprof cc": 5.0}]

    def test_compares_the_builds_within_a_turn_and_lists_allocation_sites_alone(self):
        row = objects_built.row("zstd", "1.5", self.TURNS, self.VIEW)
        self.assertEqual((row["turns"], row["times"]["median"], row["sites"]), (2, 2.0, 7))
        self.assertEqual(row["first_sites"][0], {"accesses": 10, "stack": "f0 < main"})
        self.assertEqual(len(row["first_sites"]), 5)

    def test_shows_a_row_of_each_program_and_its_sites(self):
        lines = objects_built.text({"rows": [objects_built.row("zstd", "1.5", self.TURNS, self.VIEW)]}).splitlines()
        self.assertRegex(lines[2], r"^zstd +1\.5 +2 +1\.50 +3\.25 +2\.00 \(1\.75 to 2\.25\) +7$")
        self.assertEqual(lines[3], "zstd: 10 accesses: f0 < main")

    def test_takes_nothing_from_its_surroundings_that_changes_a_build(self):
        with unittest.mock.patch.dict("os.environ", {"CFLAGS": "-O0", "HOME": "/h"}), \
                unittest.mock.patch.object(objects_built, "run") as run:
            built = object.__new__(objects_built.Built)
            built._program, built._source = objects_built.PROGRAMS["re2"], pathlib.Path("/s")
            built._words = {"cc": "c", "cxx": "cx", "flags": "-O2", "input": "/i"}
            built.work("/objects")
        command, folder, environment = run.call_args.args
        self.assertEqual((command, folder), (["obj/test/dfa_test"], pathlib.Path("/s")))
        self.assertEqual((environment["TMPROF_OBJECTS"], environment["HOME"]), ("/objects", "/h"))
        self.assertNotIn("CFLAGS", environment)


class ObjectsCalls(unittest.TestCase):
    def test_adds_the_figures_of_a_turn(self):
        row = objects_calls.row("small", [{"alone": 10.0, "preloaded": 11.0, "tracked": 13.0},
                                          {"alone": 20.0, "preloaded": 23.0, "tracked": 25.0},
                                          {"alone": 90.0, "preloaded": 92.0, "tracked": 94.0}])
        self.assertEqual(row["added_ns"]["preloaded"]["median"], 2.0)
        self.assertEqual(row["added_ns"]["tracked"]["median"], 4.0)
        self.assertEqual(row["ns"]["tracked"]["median"], 25.0)
        self.assertIn("4.0 (3.5 to 4.5)", objects_calls.text({"rows": [row]}))


class ObjectsRecorded(unittest.TestCase):
    SITE = {"frames": [{"function": "make", "module": "/bin/a", "offset": 1},
                       {"function": None, "module": "/lib/libb.so.1", "offset": 0x20},
                       {"function": None, "module": None, "offset": 0x30}]}
    UNKNOWN = {"frames": []}

    def turn(self, alone: float, recorded: float, with_objects: float, lost: int) -> dict:
        return {"alone": objects_recorded.Ran(alone), "record": objects_recorded.Ran(recorded),
                "record --objects": objects_recorded.Ran(
                    with_objects, {"all_rows": 7, "lost": lost, "rows": [self.SITE, self.UNKNOWN]})}

    def test_adds_up_the_times_of_all_statements(self):
        self.assertAlmostEqual(objects_recorded.sqlite_cpu_s(
            "Run Time: real 9.000 user 1.250000 sys 0.500000\n5|7\n"
            "Run Time: real 9.000 user 0.250000 sys 0.000000\n"), 2.0)
        with self.assertRaises(measure.Failed):
            objects_recorded.sqlite_cpu_s("5|7\n")

    def test_adds_up_what_a_server_used_itself(self):
        self.assertEqual(objects_recorded.redis_cpu_s(
            "# CPU\r\nused_cpu_sys:0.500000\r\nused_cpu_user:1.250000\r\nused_cpu_sys_children:8.000000\r\n"
            "used_cpu_user_main_thread:8.000000\r\n"), 1.75)
        with self.assertRaises(measure.Failed):
            objects_recorded.redis_cpu_s("used_cpu_sys:0.500000\r\n")

    def test_compares_the_ways_within_a_turn(self):
        row = objects_recorded.row("sqlite3", [self.turn(1.0, 1.25, 1.5, 3), self.turn(2.0, 2.5, 2.5, 0)])
        self.assertAlmostEqual(row["tracker"]["median"], 0.1)
        self.assertAlmostEqual(row["recording"]["median"], 0.25)
        self.assertAlmostEqual(row["both"]["median"], 0.375)
        self.assertEqual((row["turns"], row["sites"], row["lost"]), (2, 7, 3))
        self.assertEqual(row["first_sites"], ["make < libb.so.1+0x20 < nowhere+0x30", "stack unknown"])

    def test_shows_a_row_of_each_program_and_its_sites(self):
        row = objects_recorded.row("sqlite3", [self.turn(1.0, 1.0, 1.01, 0)])
        lines = objects_recorded.text({"virtual": False, "rows": [row]}).splitlines()
        self.assertRegex(lines[2], r"^sqlite3 .* 1\.0% \(1\.0% to 1\.0%\) .* 7 +0$")
        self.assertEqual(lines[3], "sqlite3: make < libb.so.1+0x20 < nowhere+0x30")

    def test_shows_whose_seconds_they_are(self):
        row = objects_recorded.row("sqlite3", [self.turn(1.0, 1.0, 1.01, 0)])
        virtual, host = (objects_recorded.text({"virtual": virtual, "rows": [row]}).splitlines()[0]
                         for virtual in (True, False))
        self.assertIn("in the virtual machine", virtual)
        self.assertNotIn("virtual", host)

    def test_puts_the_recorder_before_the_program(self):
        command = ["sqlite3", ":memory:"]
        self.assertEqual(objects_recorded.recorded(command, "alone", "/b/tmprof", ""), command)
        self.assertEqual(
            objects_recorded.recorded(command, "record --objects", "/b/tmprof", "--abit off"),
            ["/b/tmprof", "record", "--quiet", "-o", "tmprof.data", "--objects", "--abit", "off", "--", *command])

    def test_begins_each_turn_with_the_next_way(self):
        self.assertEqual([objects_recorded.order(turn)[0] for turn in range(4)],
                         ["alone", "record", "record --objects", "alone"])
        for turn in range(3):
            self.assertEqual(sorted(objects_recorded.order(turn)), sorted(objects_recorded.WAYS))

    def test_has_the_virtual_machine_do_each_run_in_a_folder_of_its_own(self):
        options = types.SimpleNamespace(turns=2, programs=["redis-server", "sqlite3"], requests=7, keys=3, record="")
        lines = [shlex.split(line.removesuffix(" &&")) for line in objects_recorded.guest_script(options).splitlines()]
        runs = [line[1:] for line in lines if line[0] == "sh"]
        folders = [run[1] for run in runs]
        self.assertEqual(folders, [f"/root/runs/{program}/{turn}/{way}" for turn in range(2) for program in options.programs
                                   for way in objects_recorded.order(turn)])
        self.assertEqual([line[2] for line in lines if line[0] == "mkdir"], folders)
        self.assertEqual([line[1:] for line in lines if line[0] == "cp"], [["script.sql", folder] for folder in folders])
        self.assertEqual(runs[0][4:6], ["redis-server", "--port"])
        self.assertIn("-n 7 -r 3 ", runs[0][3])
        self.assertEqual(runs[-1], ["objects_recorded_once", "/root/runs/sqlite3/1/alone", "", "", "sqlite3", ":memory:",
                                    ".read script.sql"])
        self.assertEqual(runs[-2][4:10], ["tmprof", "record", "--quiet", "-o", "tmprof.data", "--objects"])


class ObjectsRecordedOnce(unittest.TestCase):
    """Beside a client and a load of the shell's: each leaves a line of what it was asked."""

    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory(prefix="tmprof-test.")
        self.addCleanup(self.scratch.cleanup)
        self.folder = pathlib.Path(self.scratch.name)
        self.tell("client", 'echo "client $*" >>calls; [ "$1" != shutdown ] || touch down; echo "$1 $(wc -l <calls)"')
        self.tell("load", 'echo "load $*" >>calls')

    def tell(self, name: str, script: str) -> None:
        (self.folder / name).write_text(f"#!/bin/sh\n{script}\n", encoding="ascii")
        (self.folder / name).chmod(0o755)

    def run_once(self, client: str, load: str, *command: str) -> subprocess.CompletedProcess:
        return subprocess.run(["sh", str(objects_recorded.ONCE), str(self.folder), client, load, *command],
                              capture_output=True, text=True, check=False)

    def test_keeps_what_a_program_that_ends_by_itself_says(self):
        done = self.run_once("", "", "sh", "-c", "echo in $(pwd); exit 7")
        self.assertEqual(done.returncode, 7)
        self.assertEqual((self.folder / "said").read_text(encoding="ascii"), f"in {self.folder.resolve()}\n")

    def test_asks_a_server_before_and_after_its_load_and_ends_it(self):
        done = self.run_once("./client", "./load of all", "sh", "-c", "until [ -e down ]; do sleep 0.01; done")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual((self.folder / "calls").read_text(encoding="ascii").splitlines(),
                         ["client ping", "client info cpu", "load of all", "client info cpu", "client shutdown nosave"])
        self.assertEqual((self.folder / "before").read_text(encoding="ascii"), "info 2\n")
        self.assertEqual((self.folder / "after").read_text(encoding="ascii"), "info 4\n")

    def test_fails_with_a_server_that_fails_in_the_end(self):
        done = self.run_once("./client", "./load", "sh", "-c", "until [ -e down ]; do sleep 0.01; done; exit 3")
        self.assertEqual(done.returncode, 3)

    def test_refuses_a_server_that_does_not_begin(self):
        self.tell("client", "exit 1")
        done = self.run_once("./client", "./load", "sh", "-c", "echo no room")
        self.assertEqual(done.returncode, 1)
        self.assertIn("the server is gone\nno room\n", done.stderr)

    def test_leaves_no_server_behind_when_the_load_fails(self):
        # Before its trap is set, the server would end without a word.
        self.tell("load", "until [ -e ready ]; do sleep 0.01; done; exit 1")
        done = self.run_once("./client", "./load", "sh", "-c",
                             "trap 'touch ended; exit' TERM; touch ready; while :; do sleep 0.01; done")
        self.assertEqual(done.returncode, 1)
        self.assertTrue((self.folder / "ended").exists())


class ObjectsAdvised(unittest.TestCase):
    def test_counts_the_pages_of_a_share_from_the_hottest_on(self):
        rows = [{"score": 60, "span": 1}, {"score": 20, "span": 512}, {"score": 20, "span": 1}]
        self.assertEqual([objects_advised.pages_of_share(rows, share) for share in (0.6, 0.61, 0.9)], [1, 513, 514])

    def test_shows_each_policy_as_it_is_and_as_advised(self):
        rates = [{"policy": policy, "ratio": ratio, "hit_rate": 0.25}
                 for policy in objects_advised.POLICIES for ratio in objects_advised.RATIOS]
        turn = {"verdicts": {"hot": 2, "cold": 0, "apart": 1, "stays": 0},
                "hit_rates": [{"ratio": "1/8", "advised": 0.5}]}
        by_counts = {"verdicts": {"hot": 2, "cold": 1, "apart": 0, "stays": 0},
                     "hit_rates": [{"ratio": "1/8", "advised": 0.75}, {"ratio": "1/16", "advised": None}]}
        lines = objects_advised.text({
            "records": 7, "turns": [turn], "by_counts": by_counts,
            "rows": [{"way": way, "pages_touched": 10, "hot_pages": 5, "hit_rates": rates}
                     for way in ("as it is", "as advised", "as advised by counts")]}).splitlines()
        self.assertEqual(lines[1:3], ["advice 1: 2 hot, 1 apart", "advice by counts: 2 hot, 1 cold"])
        self.assertEqual(len([line for line in lines if "25.0%" in line]), 9)
        self.assertEqual(lines[-2:], ["promised by the last advice: 1/8 50.0%",
                                      "promised by that by counts: 1/8 75.0%, 1/16 unknown"])


class Exact(unittest.TestCase):
    BUILD, TRACE = pathlib.Path("/build"), pathlib.Path("/trace")

    def test_runs_the_program_as_it_is_and_by_what_comes_before(self):
        native, record, other = (exact.Way("a", 1), exact.Way("b", 1, record=("--exact-llc", "8MiB")),
                                 exact.Way("c", 1, before=("sh", "-c")))
        self.assertEqual(native.command(self.BUILD, self.TRACE), [])
        self.assertEqual(record.command(self.BUILD, self.TRACE), [
            "/build/tmprof", "record", "-q", "--source", "exact", "--exact-llc", "8MiB", "-o", "/trace", "--"])
        self.assertEqual(other.command(self.BUILD, self.TRACE), ["sh", "-c"])

    def test_leaves_out_what_is_not_installed(self):
        self.assertTrue(exact.Way("a", 1).installed())
        self.assertTrue(exact.Way("b", 1, before=("sh",)).installed())
        self.assertFalse(exact.Way("c", 1, before=("no-such-program-here",)).installed())


class TargetPid(unittest.TestCase):
    def test_stands_in_a_workload_s_first_line(self):
        self.assertEqual(measure.target_pid("gups: PID 17, 64 MiB at 0x10, first phase at 5 ns\n"), 17)
        self.assertEqual(measure.target_pid("redis_load: PID 18, the server\n"), 18)

    def test_is_missed_aloud(self):
        with self.assertRaises(measure.Failed):
            measure.target_pid("redis_load: loaded 17 keys\n")


class Throughput(unittest.TestCase):
    LINES = [{"t_ns": 100, "accesses": 1000, "cpu_ns": 50},
             {"t_ns": 200, "accesses": 3000, "cpu_ns": 100},
             {"t_ns": 300, "accesses": 9000, "cpu_ns": 400},
             {"workload": "gups", "accesses": 9000}]

    def test_is_what_passed_between_the_reports_inside_the_window(self):
        self.assertEqual(overhead.throughput(self.LINES, (150, 300)), 6000 / 300e-9)
        self.assertEqual(overhead.throughput(self.LINES, (100, 299)), 2000 / 50e-9)

    def test_refuses_a_window_of_one_report(self):
        with self.assertRaises(measure.Failed):
            overhead.throughput(self.LINES, (101, 299))


class Losses(unittest.TestCase):
    def test_hold_each_turn_against_the_mean_of_both_its_neighbours(self):
        rates = [100, 95, 200, 97, 100, 50]  # accesses per CPU nanosecond in each turn; the last has one neighbour
        lines, accesses = [{"t_ns": 0, "accesses": 0, "cpu_ns": 0}], 0
        for turn, rate in enumerate(rates):
            for report in (1, 2):
                accesses += 5 * rate
                lines.append({"t_ns": 10 * turn + 5 * report, "accesses": accesses,
                              "cpu_ns": 10 * turn + 5 * report})
        windows = [(10 * turn, 10 * turn + 10, turn % 2 == 1) for turn in range(len(rates))]
        found = overhead.losses(lines, windows)
        self.assertEqual(len(found), 2)
        self.assertAlmostEqual(found[0], 1 - 95 / 150)
        self.assertAlmostEqual(found[1], 1 - 97 / 150)


class OverheadRow(unittest.TestCase):
    def test_holds_a_recording_against_the_mean_of_its_neighbours(self):
        second = 1_000_000_000
        accesses = {0: 0, 1: 100, 2: 190, 3: 250, 4: 340, 5: 430, 6: 510}
        lines = [{"t_ns": t * second, "accesses": n, "cpu_ns": t * second}
                 for t, n in accesses.items()]
        result = overhead.row(lines, (0, second), (2 * second, 4 * second),
                              (5 * second, 6 * second), recorded_s=1, own_cpu_s=0.01,
                              own_share_with_startup=0.05)
        self.assertEqual((result["without"], result["with"]), (90, 90))
        self.assertEqual(result["loss"], 0)
        self.assertAlmostEqual(result["loss_with_startup"], 1 - 75 / 90)
        self.assertAlmostEqual(result["control"], 0.2)
        self.assertEqual(result["own_cpu_share"], 0.01)


class Regions(unittest.TestCase):
    @staticmethod
    def summary(details: dict) -> dict:
        return {"duration_s": 10.0, "overhead": {"own_cpu_s": 0.2},
                "targets": [{"cpu_s": 5.0}],
                "sources": [{"details": {"cost_charged_ns": 50_000_000, **details}}]}

    def test_a_scan_checks_every_page_and_ends_when_as_many_were_cleared(self):
        found = regions.figures(self.summary({"clears": 20_000}), 4000, 5000, 7)
        self.assertEqual(found["checked_per_step"], 4000)
        self.assertEqual(found["result_s"], 2)
        self.assertEqual(found["trace_bytes_per_s"], 500)
        self.assertEqual(found["charged_share"], 0.01)
        self.assertEqual(found["own_cpu_share"], 0.02)
        self.assertEqual(found["recorder_peak_bytes"], 7)
        self.assertIsNone(found["entries_read_per_step"])

    def test_costs_of_regions_are_per_step_and_per_aggregation(self):
        found = regions.figures(self.summary({"clears": 1, "steps": 50, "pages_checked": 5000,
                                              "entries_read": 20_000, "aggregations": 20,
                                              "regions": 90, "region_bytes": 44}), 4000, 5000, 7)
        self.assertEqual(found["checked_per_step"], 100)
        self.assertEqual(found["entries_read_per_step"], 400)
        self.assertEqual(found["result_s"], 0.5)

    def test_costs_of_the_drivers_thread_count_its_time_too(self):
        found = regions.figures(self.summary({"clears": 1, "steps": 50, "pages_checked": 5000, "aggregations": 20,
                                              "driver_ns": 300_000_000}), 4000, 5000, None)
        self.assertAlmostEqual(found["own_cpu_share"], 0.05)
        self.assertIsNone(found["entries_read_per_step"])

    def test_progress_is_between_the_first_and_the_last_report_within(self):
        lines = [{"t_ns": n * 10**9, "accesses": n * n} for n in range(10)] + [{"workload": "gups"}]
        self.assertEqual(regions.progress(lines, 1.5, 6.5), (36 - 4) / 4)
        with self.assertRaises(measure.Failed):
            regions.progress(lines, 1.5, 2.5)

    def test_that_did_nothing_are_unknown_and_not_zero(self):
        found = regions.figures(self.summary({"clears": 0}), 4000, 5000, 7)
        self.assertIsNone(found["result_s"])

    def test_lose_what_all_turns_together_lost(self):
        turns = [((100, 1), False), ((90, 1), True), ((300, 3), False), ((0, 0), True), ((0, 0), False)]
        self.assertAlmostEqual(regions.loss(turns), 0.1)

    def test_lag_until_their_recall_is_as_high_and_stays_so(self):
        at = [(0.5, None), (1.0, 0.9), (1.5, 0.4), (2.0, 0.8), (2.5, 0.9)]
        self.assertEqual(regions.lag_s(at, 0.8), 2.0)
        self.assertIsNone(regions.lag_s(at, 0.95))
        self.assertEqual(regions.lag_s(at[1:], 0.1), 1.0)

    def test_regions_of_damon_are_ranked_by_the_counts_of_a_phase(self):
        traced = """
 kdamond.0-77  [000] .....  1.000000: damon_aggregated: target_id=0 nr_regions=2 0-32768: 9 3
 kdamond.0-77  [000] .....  2.100000: damon_aggregated: target_id=0 nr_regions=2 0-16384: 1 0
 kdamond.0-77  [000] .....  2.100000: damon_aggregated: target_id=0 nr_regions=2 16384-65536: 4 0
"""
        seen = regions.damon_regions(traced)
        self.assertEqual(seen[0], (1.0, 0, 32768, 9))
        hot = [{"start": 0, "end": 16384, "weight": 0.1}, {"start": 16384, "end": 24576, "weight": 0.9},
               {"start": 24576, "end": 65536, "weight": 0}]
        phase = {"t_start_ns": 2_000_000_000, "t_end_ns": 3_000_000_000, "ranges": hot}
        # The twelve pages that are alike have room for two; two of them are hot, with all but a tenth.
        recall, coverage = regions.damon_scores(seen, {"phases": [phase]})
        self.assertAlmostEqual(recall, 2 / 12)
        self.assertAlmostEqual(coverage, 2 / 12)
        self.assertIsNone(regions.damon_scores(seen, {"phases": [{**phase, "t_end_ns": 2_000_000_001}]}))

    def test_are_asked_for_what_was_seen_since_each_change_of_phase(self):
        truth = {"pid": 1, "phases": [{"t_start_ns": 0, "t_end_ns": 10}, {"t_start_ns": 10, "t_end_ns": 20},
                                      {"t_start_ns": 20, "t_end_ns": 24}]}
        self.assertEqual(regions.since_change(truth, 5),
                         {"pid": 1, "phases": [{"t_start_ns": 10, "t_end_ns": 15}]})

    def test_are_not_judged_where_the_workload_never_ran(self):
        with self.assertRaises(measure.Failed):
            regions.loss([((100, 1), False), ((0, 0), True)])

    def test_count_the_work_between_the_reports_of_a_turn(self):
        lines = [{"t_ns": t, "accesses": 10 * t, "cpu_ns": t // 2} for t in range(0, 100, 10)]
        self.assertEqual(regions.work([*lines, {"workload": "gups"}], (15, 55)), (300, 15))
        self.assertEqual(regions.work(lines, (91, 99)), (0, 0))

    def test_have_the_standard_error_of_a_mean_where_each_group_is_one_value(self):
        values = [1.0, 2.0, 3.0, 6.0]
        mean = sum(values) / 4
        expected = (sum((value - mean) ** 2 for value in values) / 3 / 4) ** 0.5
        self.assertAlmostEqual(regions.jackknife(values, 4, lambda some: sum(some) / len(some)), expected)

    def test_say_how_many_bytes_a_size_is(self):
        self.assertEqual([regions.bytes_of("256MiB"), regions.bytes_of("2GiB")], [1 << 28, 1 << 31])

    def test_tell_what_was_not_measured_from_what_was(self):
        row = {"footprint": "1GiB", "way": "full", "refusal": "not so much free memory"}
        told = regions.text({"workload": "gups", "record": "", "hold_s": 0.2, "turns": 2, "seconds": 4,
                             "rows": [row], "guest_rows": [], "found": []})
        self.assertRegex(told, r"1GiB full +-")

    def test_tell_what_was_found_without_lag_where_no_phase_changes(self):
        row = {"program": "bfs", "way": "full", "recall": 0.5, "coverage_of_ideal": 0.75, "lag_aggregations": None,
               "own_cpu_share": 0.02, "region_bytes": None, "trace_bytes": 4096}
        told = regions.text({"rows": [], "guest_rows": [], "found": [row, {**row, "program": "steps", "region_bytes": 45056,
                                                         "lag_aggregations": 15.0}],
                             "record": "", "virtual": False, "found_footprint": "1GiB",
                             "phase_s": 10})
        self.assertRegex(told, r"bfs full +0.50 +0.75 +- +2.00% +- +4\n")
        self.assertRegex(told, r"steps full +0.50 +0.75 +15 +2.00% +44 +4$")

    def test_each_way_to_find_is_one_that_records_or_damon(self):
        self.assertEqual(set(regions.VIRTUAL_WAYS) - set(regions.FOUND_WAYS), {regions.DAMON})


class MmapLatency(unittest.TestCase):
    @staticmethod
    def line(start_ns: int, rounds: int, p50_ns: int) -> dict:
        return {"t_start_ns": start_ns, "t_end_ns": start_ns + 100, "rounds": rounds, "cpu_ns": 50,
                "p50_ns": p50_ns, "p99_ns": 2, "p999_ns": 3, "max_ns": 4}

    def test_counts_only_loop_windows_whole_inside_those_of_the_side(self):
        lines = [self.line(0, 10, 5), self.line(100, 20, 6), self.line(200, 40, 9),
                 self.line(300, 80, 8)]
        result = mmap_latency.side(lines, [(50, 310), (50, 310), (380, 400)])
        self.assertEqual(result["rounds"], 60)
        self.assertEqual(result["loop_windows"], 2)
        self.assertEqual(result["p50_ns"], 7.5)
        self.assertAlmostEqual(result["rounds_per_s"], 60 / 200e-9)
        self.assertAlmostEqual(result["rounds_per_cpu_s"], 60 / 100e-9)

    def test_refuses_a_side_without_a_window(self):
        with self.assertRaises(measure.Failed):
            mmap_latency.side([self.line(0, 10, 5)], [(50, 310)])


class DriverPrice(unittest.TestCase):
    @staticmethod
    def row(way: str, huge: bool, all_young: bool, ns: list[float], left: int = 0) -> dict:
        return {"way": way, "huge": huge, "all_young": all_young, "ns": ns, "most_left_pages": left}

    def price(self, *rows: dict) -> dict:
        return {"footprint_bytes": 1024 * 4096, "rows": list(rows)}

    def test_is_the_median_per_leaf_and_its_multiple_of_a_pass(self):
        rows = driver.price_rows(self.price(
            self.row("driver: pass", False, True, [2048, 1024, 9999]),
            self.row("driver: pass", True, False, [200]),
            self.row("BPF read", False, True, [512]),
            self.row("BPF read", True, False, [800])))
        self.assertEqual(rows, [
            {"way": "driver: pass", "4K young": 2, "2M idle": 100,
             "of_pass": {"4K young": 1, "2M idle": 1}},
            {"way": "BPF read", "4K young": 0.5, "2M idle": 400,
             "of_pass": {"4K young": 0.25, "2M idle": 4}}])

    def test_refuses_a_clear_that_left_more_than_a_few_bits(self):
        driver.price_rows(self.price(self.row("driver: pass", False, True, [1], left=1)))
        with self.assertRaises(measure.Failed):
            driver.price_rows(self.price(self.row("driver: pass", False, True, [1], left=2)))

    def test_speed_counts_a_huge_page_as_512(self):
        rows = driver.speed_rows([{"way": "driver: pass", "4K young": 10, "4K idle": 2,
                                   "2M young": 1024, "2M idle": 512}])
        self.assertEqual([row["pages_per_s"] for row in rows], [1e8, 5e8, 5e8, 1e9])


class DriverMemory(unittest.TestCase):
    def test_is_per_record_and_per_gib_that_was_touched(self):
        row, = driver.memory_rows({"rows": [{
            "layout": "dense", "touched_bytes": 1 << 28, "records": 65536,
            "one_epoch_bytes": 1 << 20, "two_epochs_bytes": 3 << 19}]})
        self.assertEqual(row["bytes_per_record"], 16)
        self.assertEqual(row["mib_per_touched_gib"], 4)
        self.assertEqual(row["mib_per_touched_gib_of_two_epochs"], 6)


class DriverRecall(unittest.TestCase):
    def test_is_the_share_of_hot_pages_that_a_pass_finds(self):
        row, = driver.recall_rows({"rows": [{
            "hot_pages": 100, "beside_waker": False, "flush": "never", "passes": 4, "found": 300,
            "wrong": 100, "rounds_of_work": 20}]})
        self.assertEqual((row["recall"], row["precision"], row["rounds_per_pass"]), (0.75, 0.75, 5))

    def test_has_no_precision_where_nothing_was_found(self):
        row, = driver.recall_rows({"rows": [{
            "hot_pages": 100, "beside_waker": False, "flush": "never", "passes": 4, "found": 0,
            "wrong": 0, "rounds_of_work": 20}]})
        self.assertEqual((row["recall"], row["precision"]), (0, None))


class DriverOverhead(unittest.TestCase):
    @staticmethod
    def window(start_s: int, **more) -> dict:
        return {"start_ns": start_s * 10**9, "end_ns": (start_s + 2) * 10**9, **more}

    def test_holds_each_window_against_the_mean_of_its_neighbours(self):
        scan = {"side": "a", "scan_ns": 10**8, "flush_ns": 10**8, "references": 50,
                "mmap_lock_p99_below_ns": None, "mmap_lock_max_ns": 7}
        totals = (0, 50, 100, 145, 190, 260, 330)  # accesses by second
        reports = [{"t_ns": second * 10**9, "accesses": total, "cpu_ns": 1}
                   for second, total in enumerate(totals)]
        row, = driver.overhead_rows({
            "windows": [self.window(0), self.window(2, **scan), self.window(4)],
            "reports": [*reports, {"workload": "gups"}]})
        self.assertAlmostEqual(row["loss"]["median"], 1 - 45 / 60)
        self.assertAlmostEqual(row["control"]["median"], 1 - 70 / 50)
        self.assertAlmostEqual(row["scan_share"]["median"], 0.1)
        self.assertEqual(row["references_per_s"]["median"], 25)
        self.assertEqual((row["hold_p99_below_ns"], row["hold_max_ns"]), (None, 7))

    def test_refuses_a_window_of_one_report(self):
        with self.assertRaises(measure.Failed):
            driver.rate([{"t_ns": 1, "accesses": 1}], {"start_ns": 0, "end_ns": 5})


class Table(unittest.TestCase):
    def test_pads_to_the_widest_cell_of_each_column(self):
        self.assertEqual(measure.table(["a", "b"], [["long", "1"], ["x", "200"]]),
                         "a       b\nlong    1\nx     200")


if __name__ == "__main__":
    unittest.main()
