#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""testbed/vm --tiersim: truth, time, samples and counters, against what is known by hand.

Usage: tiersim_live_test.py KERNEL BUILD [unittest's arguments]
BUILD is the build folder with tiersim.so and the guest's programs. Where KERNEL or QEMU is not to be had, all is
skipped, as GoogleTest would say it.
"""

import collections
import dataclasses
import json
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import unittest

import paths

HERE = pathlib.Path(__file__).resolve().parent
GUEST_SCRIPT = HERE / "tiersim/guest/trace_in_guest"
KERNEL, BUILD = sys.argv[1:3]
TMPROF = pathlib.Path(BUILD, "tmprof")
OF_PLUGIN_ALONE = unittest.skipUnless(KERNEL == "6.12", "does not depend on the kernel; 6.12 stands for all")
# For a host that does a lot besides.
TIME_LIMIT_S = 400

# Constants of known_accesses.c.
WALK_PAGES = 8192
WALK_LOADS = 400_000
SAMPLE_LOADS = 2 * WALK_LOADS
# Constants of trace_in_guest.
SAMPLE_PERIOD = 4096
MISS_PERIOD = 64
THREAD_LOADS = 100_000
# Latencies of topologies/ and of --tiersim: by node, and on two sockets of CPU 1.
LATENCY_NS = {0: 80, 1: 250}
THREE_TIER_LATENCY_NS = {0: 80, 1: 140, 2: 400}
SECOND_SOCKET_LATENCY_NS = {0: 140, 1: 80, 2: 250}
WALK_NS = 20
LINES_OF_PAGE = 64
# A sixteenth of hotset's hot pages.
LLC_KIB = 64

folder = pathlib.Path()
out = pathlib.Path()  # what the guest brought back


@dataclasses.dataclass
class Page:
    loads: int = 0
    stores: int = 0
    llc_misses: int = 0
    dtlb_misses: int = 0
    nodes: set[int] = dataclasses.field(default_factory=set)


class Truth:
    """A truth stream, read once more: pages by process name and virtual page number."""

    def __init__(self, data: bytes) -> None:
        self.names: dict[int, list[str]] = collections.defaultdict(list)
        self.exited: dict[int, bool] = {}
        self.epochs: list[tuple[int, ...]] = []
        self.finish: tuple[int, ...] | None = None
        self.pages: dict[tuple[int, int], Page] = collections.defaultdict(Page)
        self.magic, header_bytes = struct.unpack_from("<8s4xI", data)
        self.llc_model, self.dtlb_model = (text.rstrip(b"\0").decode()
                                           for text in struct.unpack_from("<64s64s", data, 32))
        at = header_bytes
        while at < len(data):
            kind, size = struct.unpack_from("<II", data, at)
            if kind == 1:
                target, flags, name = struct.unpack_from("<II16x16s", data, at + 8)
                self.names[target].append(name.rstrip(b"\0").decode())
                self.exited[target] = bool(flags & 4)
            elif kind == 3:
                count, entry_bytes = struct.unpack_from("<II", data, at + 8)
                for index in range(count):
                    self._add_page(data, at + 16 + index * entry_bytes)
            elif kind == 4:
                self.epochs.append(struct.unpack_from("<9Q", data, at + 8))
            elif kind == 5:
                self.finish = struct.unpack_from("<7Q", data, at + 8)
            at += size

    def _add_page(self, data: bytes, at: int) -> None:
        vpn, _, target, node, flags, *counts = struct.unpack_from("<QQIHH4Q", data, at)
        page = self.pages[target, vpn]
        page.loads += counts[0]
        page.stores += counts[1]
        page.llc_misses += counts[2]
        page.dtlb_misses += counts[3]
        assert flags == 3, "frame and node are known"
        page.nodes.add(node)

    def misses(self, target: int) -> Page:
        """Misses of the LLC and of the dTLB, summed over all pages of a target."""
        own = [page for (of, _), page in self.pages.items() if of == target]
        return Page(llc_misses=sum(page.llc_misses for page in own),
                    dtlb_misses=sum(page.dtlb_misses for page in own))

    def target(self, number: int) -> int:
        """A process that was known_accesses at its end, by the order of their start."""
        return [target for target, names in sorted(self.names.items())
                if names[-1] == "known_accesses"][number]


def vm(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [paths.TESTBED / "vm", "--kernel", KERNEL, "--build", BUILD, "--time-limit", str(TIME_LIMIT_S),
         "--topology", "dram-cxl", *arguments], capture_output=True, text=True, check=False)


def traced_vm(truth: str, *arguments: str) -> subprocess.CompletedProcess:
    return vm("--truth", str(folder / truth), "--put", str(folder / "known_accesses"), *arguments)


def text(name: str) -> str:
    return (out / name).read_text(encoding="utf-8")


def numbers(name: str) -> dict[str, int]:
    """Numbers by name, from "name number" or "name=number" on lines or in words."""
    return {word: int(number) for word, number in re.findall(r"(\w+)[ =](\d+)", text(name))}


def tmprof_json(*arguments: str) -> dict:
    result = subprocess.run([TMPROF, *arguments, "--format", "json"], capture_output=True, text=True,
                            check=True)
    return json.loads(result.stdout)


def sampler_of(name: str) -> dict:
    """The virtual PMU, as the recording's summary has it."""
    summary = tmprof_json("report", str(out / f"{name}.data"), "--view", "summary")
    return next(source for source in summary["sources"] if source["name"] == "vibs")


def read_truth(name: str) -> Truth:
    return Truth((folder / name).read_bytes())


class Machine(unittest.TestCase):
    """The one that all that follows ran in, one thing after the other."""

    @classmethod
    def setUpClass(cls):
        cls.truth = read_truth("truth")

    def status(self, name: str) -> int:
        return int(text(f"{name}.status"))

    def output(self, name: str) -> str:
        self.assertEqual(self.status(name), 0, text(f"{name}.out"))
        return text(f"{name}.out")


class TruthOfPages(Machine):
    def setUp(self):
        self.first = int(self.output("pattern"))
        self.target = self.truth.target(2)

    def page(self, number: int) -> Page:
        return self.truth.pages[self.target, self.first + number]

    def loads_and_stores(self, number: int) -> tuple[int, int]:
        return self.page(number).loads, self.page(number).stores

    def test_counts_each_load_and_store(self):
        for number in range(8):
            self.assertEqual(self.loads_and_stores(number), (number + 1, 2 * number), number)

    def test_counts_a_read_modify_write_as_one_of_each(self):
        self.assertEqual(self.loads_and_stores(8), (1000, 1000))

    def test_counts_an_access_that_crosses_pages_for_the_first(self):
        self.assertEqual(self.loads_and_stores(9), (100, 0))
        self.assertEqual(self.loads_and_stores(10), (0, 0))

    def test_counts_a_load_of_16_bytes_once(self):
        self.assertEqual(self.loads_and_stores(11), (50, 0))

    def test_counts_a_page_that_was_populated_and_not_accessed_not_at_all(self):
        for number in (12, 15, 24, 31):
            self.assertNotIn((self.target, self.first + number), self.truth.pages)

    def test_counts_llc_misses_once_for_each_line_that_fits(self):
        # Lines of the program's predecessor in the same frames may be there still: at most a few.
        for pages, rounds in ((range(16, 24), 10), (range(32, 96), 1)):
            lines = len(pages) * LINES_OF_PAGE
            self.assertEqual(sum(self.page(number).loads for number in pages), rounds * lines)
            misses = sum(self.page(number).llc_misses for number in pages)
            self.assertLessEqual(misses, lines)
            self.assertGreaterEqual(misses, 0.98 * lines)

    def test_counts_a_dtlb_miss_for_each_new_page_and_few_more(self):
        # Each switch of the address space flushes the TLB.
        misses = sum(self.page(number).dtlb_misses for number in range(32, 96))
        self.assertGreaterEqual(misses, 64)
        self.assertLess(misses, 64 + 16)

    def test_says_which_node_a_page_lay_on(self):
        for run, node in ((0, 0), (1, 1)):
            pages = [page for (target, _), page in self.truth.pages.items()
                     if target == self.truth.target(run) and page.nodes == {node}]
            # 400 000 loads over 8 192 pages: 49 each.
            self.assertGreaterEqual(sum(page.loads > 10 for page in pages), 8192)

    def test_sums_up_and_is_whole(self):
        self.assertEqual(self.truth.magic, b"TMPTRUTH")
        self.assertEqual(self.truth.llc_model,
                         f"{LLC_KIB * 16} x 64 B, 16 ways, LRU; L1 32 KiB; 0 ahead")
        self.assertEqual(self.truth.dtlb_model, "1536 x 4096 B, 12 ways, LRU; THP never; walk 20 ns")
        self.assertIn("[never]", text("huge_pages"))
        self.assertIsNotNone(self.truth.finish)
        epochs, _, loads, stores, llc_misses, dtlb_misses, lost = self.truth.finish
        self.assertEqual(epochs, len(self.truth.epochs))
        pages = self.truth.pages.values()
        self.assertEqual((loads, stores, llc_misses, dtlb_misses, lost),
                         (sum(page.loads for page in pages), sum(page.stores for page in pages),
                          sum(page.llc_misses for page in pages),
                          sum(page.dtlb_misses for page in pages), 0))

    def test_has_epochs_of_the_length_asked_for_without_gaps(self):
        indices = [epoch[0] for epoch in self.truth.epochs]
        self.assertEqual(indices, list(range(len(indices))))
        for before, after in zip(self.truth.epochs, self.truth.epochs[1:]):
            self.assertEqual(before[2], after[1])
        lengths_ns = sorted(end - start for _, start, end, *_ in self.truth.epochs)
        self.assertAlmostEqual(lengths_ns[len(lengths_ns) // 2], 100e6, delta=5e6)

    def test_follows_children_and_what_is_executed(self):
        # `sample` forked, both times; traced became known_accesses by exec, in the same target.
        spaces = re.findall(r"target (\d+) pid (\d+) (\w+) \S+ \S+ (\w+)", text("trace"))
        runs = [space for space in spaces if space[3] == "known_accesses"]
        self.assertEqual(len(runs), 6 + 2)
        for target, pid, state, _ in runs:
            self.assertEqual(state, "exited")
        executed = {(target, pid) for target, pid, state, name in spaces
                    if (state, name) == ("left", "traced")}
        forked = [target for target, pid, *_ in runs if (target, pid) not in executed]
        self.assertEqual(len(forked), 2)


def charged_ns(misses: Page, latency_ns: int) -> int:
    """Charge of a walk, from when its clock is read on: its first touch misses a line and a
    translation of each page."""
    return ((misses.llc_misses - WALK_PAGES) * latency_ns + (misses.dtlb_misses - WALK_PAGES) * WALK_NS)


class GuestTime(Machine):
    def assert_longer_by_what_is_charged(self, times_ns: list[int], charges_ns: list[int]):
        """Compares walks that differ in nothing else, each with the first."""
        for time_ns, charge_ns in zip(times_ns[1:], charges_ns[1:]):
            self.assertGreater(time_ns, charge_ns)
            self.assertAlmostEqual((time_ns - times_ns[0]) / (charge_ns - charges_ns[0]), 1, delta=0.02)

    def test_is_longer_on_slow_memory_by_the_latency_of_its_misses(self):
        times_ns = [int(self.output(f"walk_{node}")) for node in (0, 1)]
        misses = [self.truth.misses(self.truth.target(node)) for node in (0, 1)]
        # The walk's memory is 512 times the LLC, its pages five times the dTLB.
        for counts in misses:
            self.assertGreater(counts.llc_misses, 0.95 * WALK_LOADS)
            self.assertGreater(counts.dtlb_misses, 0.7 * WALK_LOADS)
        self.assert_longer_by_what_is_charged(
            times_ns, [charged_ns(counts, LATENCY_NS[node]) for node, counts in enumerate(misses)])
        self.assertGreater(times_ns[1] / times_ns[0], 2)

    def test_goes_by_as_the_kernel_moves_pages_by_their_number(self):
        of_512, of_2048 = (int(self.output(f"move_{pages}")) for pages in (512, 2048))
        # A page is copied by no fewer instructions than it has words of 8 bytes, of 1 ns each.
        self.assertGreater(of_512, 512 * 512)
        self.assertAlmostEqual((of_2048 - of_512) / of_512, 3, delta=0.9)

    @OF_PLUGIN_ALONE
    def test_is_that_of_each_of_three_tiers_and_the_same_in_another_machine_to_a_thousandth(self):
        twins = []
        for name in ("one", "another"):
            result = traced_vm(name, "--topology", "three-tier", "--tiersim", "--",
                               "sleep 5; for node in 0 1 2; do traced ./known_accesses walk $node; done")
            self.assertEqual(result.returncode, 0, result.stderr)
            truth = read_truth(name)
            twins.append(([int(line) for line in result.stdout.splitlines()], truth))
        times_ns, truth = twins[0]
        misses = [truth.misses(truth.target(node)) for node in (0, 1, 2)]
        self.assert_longer_by_what_is_charged(
            times_ns, [charged_ns(counts, THREE_TIER_LATENCY_NS[node]) for node, counts in enumerate(misses)])
        one, other = ((*times, *truth.finish[2:6]) for times, truth in twins)
        for of_one, of_other in zip(one, other):
            self.assertAlmostEqual(of_one / of_other, 1, delta=0.001)


class Samples(Machine):
    def setUp(self):
        self.output("sample")
        self.output("sample_misses")
        self.seen = numbers("sample.out")

    def test_come_once_a_period_to_the_process_that_asked(self):
        self.assertEqual(self.seen["own"], self.seen["all"])
        self.assertAlmostEqual(self.seen["all"] / (self.seen["events"] / SAMPLE_PERIOD), 1,
                               delta=0.02)

    def test_say_where_in_memory_and_when(self):
        # The loop has 10 to 30 instructions, one of them a load.
        self.assertGreater(self.seen["in_memory"], self.seen["all"] / 40)
        self.assertEqual(self.seen["right_frame"], self.seen["in_memory"])
        # The reading of the clocks takes no sample on average; the event stops after.
        self.assertGreaterEqual(self.seen["in_time"], 0.98 * self.seen["all"])

    def test_tell_cache_from_memory_as_often_as_misses_are_counted(self):
        # 4 MiB, 64 times the LLC: 63 loads in 64 miss. Binomial: five standard deviations.
        share = self.seen["beyond_llc"] / self.seen["in_memory"]
        misses = self.seen["llc_load_misses"] / SAMPLE_LOADS
        self.assertGreater(misses, 0.9)
        deviation = (misses * (1 - misses) / self.seen["in_memory"]) ** 0.5
        self.assertAlmostEqual(share, misses, delta=5 * deviation)

    def test_samples_of_misses_are_misses_only_and_come_once_a_period(self):
        seen = numbers("sample_misses.out")
        self.assertGreater(seen["events"], 0.9 * SAMPLE_LOADS)
        self.assertAlmostEqual(seen["all"] / (seen["events"] / MISS_PERIOD), 1, delta=0.02)
        self.assertEqual(seen["own"], seen["all"])
        # All but a few lines of the stack and of the program's own data.
        self.assertGreater(seen["in_memory"], 0.99 * seen["all"])
        self.assertEqual(seen["beyond_llc"], seen["in_memory"])
        self.assertEqual(seen["right_frame"], seen["in_memory"])

    def test_samples_of_unknown_events_are_refused(self):
        # Not a multiple of 16, unknown, less than 16: EINVAL.
        self.assertEqual(self.output("refused").split(), ["22", "22", "22"])

    def test_that_the_ring_has_no_room_for_are_counted_as_lost(self):
        before, after = numbers("before_flood.samples"), numbers("after_flood.samples")
        self.assertEqual(self.status("flood"), 0)
        self.assertEqual(before["lost_ring_full"], 0)
        self.assertGreater(after["lost_ring_full"], 0)
        self.assertGreater(after["delivered"], before["delivered"])


class Recordings(Machine):
    def sampler(self, name: str) -> dict:
        self.output(name)
        return sampler_of(name)

    def recall(self, name: str) -> float:
        rows = tmprof_json("score", str(out / f"{name}.data"), "--truth", str(out / f"{name}.truth"))
        return next(row["recall"] for row in rows["results"] if row["rank"] == "samples")

    def test_by_the_driver_and_by_perf_find_the_hot_pages(self):
        # Chance finds 1/16. Some hundred samples fall on 256 hot pages.
        for name in ("driver", "perf"):
            with self.subTest(name):
                sampler = self.sampler(name)
                self.assertEqual((sampler["state"], sampler["role"]), ("active", "samples"))
                self.assertGreater(sampler["observations"], 200)
                self.assertIn("virtual PMU", sampler["label"])
                self.assertGreater(self.recall(name), 0.4)

    def test_are_scored_against_the_machines_truth_which_is_a_trace_by_itself(self):
        trace = folder / "truth.data"
        subprocess.run([TMPROF, "convert", folder / "truth", "--to", "trace", "-o", trace],
                       capture_output=True, check=True)
        summary = tmprof_json("report", str(trace), "--view", "summary")
        self.assertEqual([(source["name"], source["role"], source["observations"])
                          for source in summary["sources"]],
                         [("tiersim", "truth", sum(self.truth.finish[2:4]))])
        self.assertEqual(summary["epochs"], len(self.truth.epochs))
        physical = folder / "physical.data"
        subprocess.run([TMPROF, "convert", folder / "truth", "--to", "trace", "--pages", "physical", "-o", physical],
                       capture_output=True, check=True)
        by_frame = tmprof_json("report", str(physical), "--view", "summary")
        self.assertEqual([target["name"] for target in by_frame["targets"]], ["memory"])
        self.assertEqual([(source["observations"], source["lost"]) for source in by_frame["sources"]],
                         [(sum(self.truth.finish[2:4]), summary["sources"][0]["lost"])])
        # It has all that was traced, of which the recording's program is but one.
        rows = tmprof_json("score", str(out / "driver.data"), "--truth", str(trace))["results"]
        self.assertIn("samples", [row["rank"] for row in rows])

    def test_a_program_that_works_half_of_the_time_closes_both_gates_in_its_pauses(self):
        self.output("paused")
        summary = tmprof_json("report", str(out / "paused.data"), "--view", "summary")
        self.assertEqual({source["role"] for source in summary["sources"]}, {"references", "samples"})
        for source in summary["sources"]:
            told = f"{source['role']}: {source['notes']}"
            self.assertGreater(source["active_ratio"], 0.4, told)
            self.assertLess(source["active_ratio"], 0.6, told)

    def test_have_the_gate_read_the_virtual_counters(self):
        notes = "; ".join(note["text"] for note in self.sampler("driver")["notes"])
        self.assertRegex(notes, r"gate: \d+ LLC misses in the last period, on above 20 % of")


class Losses(unittest.TestCase):
    """Tests a machine whose ring takes one sample, while several come between two deliveries."""

    def test_reach_recordings_by_the_driver_and_by_perf(self):
        result = traced_vm("lossy", "--tiersim=ring_samples=1", "--driver", "--put", str(GUEST_SCRIPT),
                           "--get", f"/root/out:{folder}", "--", "sh trace_in_guest losses")
        self.assertEqual(result.returncode, 0, result.stderr)
        lost_before = 0
        for name in ("lossy_driver", "lossy_perf"):
            with self.subTest(name):
                # 3: it recorded, and says that it saw little.
                self.assertIn(text(f"{name}.status"), ("0\n", "3\n"), text(f"{name}.out"))
                sampler = sampler_of(name)
                counted = numbers(f"{name}.samples")
                lost = counted["lost_ring_full"] + counted["lost_misplaced"] - lost_before
                lost_before += lost
                self.assertGreater(sampler["observations"], 0)
                self.assertGreater(sampler["lost"], sampler["observations"])
                # Those after the recording's last epoch are in none.
                self.assertLessEqual(sampler["lost"], lost)
                self.assertGreater(sampler["lost"], 0.8 * lost)


@OF_PLUGIN_ALONE
class Machines(unittest.TestCase):
    def test_with_lines_of_twice_the_size_have_half_the_misses_of_a_sweep(self):
        result = traced_vm("long_lines", "--tiersim=line_bytes=128", "--", "traced ./known_accesses pattern")
        self.assertEqual(result.returncode, 0, result.stderr)
        truth = read_truth("long_lines")
        self.assertEqual(truth.llc_model, "8192 x 128 B, 16 ways, LRU; L1 32 KiB; 0 ahead")
        first = int(result.stdout)
        swept = [truth.pages[truth.target(0), first + number] for number in range(32, 96)]
        self.assertEqual([page.loads for page in swept], [LINES_OF_PAGE] * 64)
        misses = sum(page.llc_misses for page in swept)
        self.assertLessEqual(misses, LINES_OF_PAGE // 2 * 64)
        self.assertGreaterEqual(misses, 0.98 * LINES_OF_PAGE // 2 * 64)

    def test_with_more_processes_than_the_table_takes_say_so_and_how_many(self):
        # The shell is two, before and after its exec, and each subshell one.
        result = traced_vm("crowd", "--tiersim", "--",
                           "traced sh -c 'i=0; while [ $i -lt 1030 ]; do (:); i=$((i+1)); done'; traced true; echo $?; "
                           "cat /sys/kernel/debug/vpmu/status")
        self.assertEqual(result.returncode, 125, result.stderr)
        self.assertEqual(result.stdout.splitlines()[0], "125")
        self.assertRegex(result.stdout, r"spaces 1024\nspaces_refused 9\n")
        self.assertIn("traced: true: cannot be traced and is not run", result.stderr)
        self.assertIn("vm: the truth could not be written, or lacks processes beyond the 1024th", result.stderr)

    def test_without_the_instruction_clock_are_refused_what_takes_it(self):
        result = traced_vm("refused", "--tiersim", "--no-icount", "--", "true")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("tiersim: refused: 0 pointers to QEMU's instruction clock", result.stderr)


class TwoSockets(unittest.TestCase):
    """A machine with two CPUs and a prefetcher, where charged time is told and not added."""

    @classmethod
    def setUpClass(cls):
        result = traced_vm("sockets", "--tiersim=clock=report,prefetch_lines=8", "--cpus", "2", "--topology",
                           "two-socket-cxl", "--",
                           "charged() { sleep 1; sed -n 's/^charged_ns //p' /sys/kernel/debug/vpmu/status; }; "
                           "traced ./known_accesses threads && traced ./known_accesses pattern && "
                           "traced ./known_accesses stop && charged && "
                           "for node in 0 1 2; do taskset 2 traced ./known_accesses walk $node > /dev/null && charged; "
                           "done; echo -1 > /sys/kernel/debug/vpmu/trace || cat /sys/kernel/debug/vpmu/trace")
        assert result.returncode == 0, result.stderr
        lines = result.stdout.splitlines()
        cls.shared, cls.swept, cls.stopped, *cls.charged = (int(line) for line in lines[:7])
        cls.listed, cls.complaints = lines[7:], result.stderr
        cls.truth = read_truth("sockets")

    def loads(self, program: int, first: int, pages: int) -> list[int]:
        return [self.truth.pages[self.truth.target(program), first + number].loads for number in range(pages)]

    def test_count_what_two_threads_do(self):
        self.assertEqual(self.loads(0, self.shared, 3), [2 * THREAD_LOADS, THREAD_LOADS, THREAD_LOADS])

    def test_charge_by_cpu_and_node(self):
        for node, (before, after) in enumerate(zip(self.charged, self.charged[1:])):
            walk = self.truth.misses(self.truth.target(3 + node))
            self.assertGreater(walk.llc_misses, 0.95 * WALK_LOADS)
            # The first touch, which faults, is charged as is the walk.
            self.assertAlmostEqual((after - before) / (walk.llc_misses * SECOND_SOCKET_LATENCY_NS[node] +
                                                       walk.dtlb_misses * WALK_NS), 1, delta=0.02, msg=node)

    def test_prefetch_a_sweep(self):
        # A stream is one from the third line of a page on; some lines may be in the LLC already.
        swept = [self.truth.pages[self.truth.target(1), self.swept + number] for number in range(32, 96)]
        self.assertEqual([page.loads for page in swept], [LINES_OF_PAGE] * 64)
        misses = sum(page.llc_misses for page in swept)
        self.assertLessEqual(misses, 3 * 64)
        self.assertGreater(misses, 2 * 64)

    def test_count_nothing_of_a_process_once_it_is_told_to_stop(self):
        before, after, of_thread, of_thread_after = self.loads(2, self.stopped, 4)
        self.assertEqual((before, after, of_thread_after), (1000, 0, 0))
        self.assertGreater(of_thread, 0)
        self.assertTrue(self.truth.exited[self.truth.target(2)], "nothing more is known of it")
        listed = [line.split()[4] for line in self.listed if line.startswith(f"target {self.truth.target(2)} ")]
        self.assertEqual(listed, ["left", "stopped"], "by exec, and by request")
        self.assertIn("No such process", self.complaints)


OPTIONS = f"llc_kib={LLC_KIB},epoch_ms=100"


def boot() -> subprocess.CompletedProcess:
    return traced_vm("truth", f"--tiersim={OPTIONS}", "--driver", "--put",
                     str(GUEST_SCRIPT), "--get", f"/root/out:{out}", "--",
                     "sh trace_in_guest")


def main() -> int:
    global folder, out
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        out = folder / "out"
        subprocess.run(["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror",
                        "-static", "-pthread", "-o", folder / "known_accesses",
                        HERE / "tiersim/guest/known_accesses.c"], check=True)
        booted = boot()
        if booted.returncode == 119:
            print(f"tiersim_live_test.py: Skipped\n{booted.stderr.strip()}\n\n"
                  f"[  SKIPPED ] kernel {KERNEL}")
            return 119
        if booted.returncode != 0:
            print(booted.stdout + booted.stderr, file=sys.stderr)
            return 1
        result = unittest.main(argv=[sys.argv[0], "-v", *sys.argv[3:]], exit=False).result
        return not result.wasSuccessful()


if __name__ == "__main__":
    sys.exit(main())
