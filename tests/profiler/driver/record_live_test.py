#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`tmprof record` and `tmprof doctor` over the loaded driver, in a virtual machine.

Usage: record_live_test.py KERNEL BUILD [unittest's arguments]
BUILD is the build folder whose programs the guest gets. One boot: record_in_guest makes the
recordings, the tests judge what it brings back. Where KERNEL is not to be had, all is skipped, as
GoogleTest would say it.
"""

import csv
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
# For a host that does a lot besides: the guest is done within 45 s where it does nothing else.
TIME_LIMIT_S = 400
# kfuncs in syscall programs: Linux 6.10.
WITH_BPF = KERNEL != "6.1"

PAGES = 4096
HOT_PAGES = PAGES // 16
# Chance finds 1/16. A host that does nothing else gives 0.95 to 0.97. Reads that come late, as on a
# busy host, blur the rates. Half of the hot pages would be a scanner that sees and cannot rank.
LEAST_RECALL = 0.75

out = pathlib.Path()  # what the guest brought back


def text(name: str) -> str:
    return (out / name).read_text(encoding="utf-8")


def status(name: str) -> int:
    return int(text(f"{name}.status"))


def tmprof_json(*arguments: str) -> dict:
    result = subprocess.run([TMPROF, *arguments, "--format", "json"], capture_output=True, text=True,
                            check=False)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def summary(name: str) -> dict:
    return tmprof_json("report", str(out / f"{name}.data"), "--view", "summary")


def notes(source: dict) -> str:
    return "; ".join(note["text"] for note in source["notes"])


def sources(name: str) -> dict:
    return {source["name"]: source for source in summary(name)["sources"]}


def recall(name: str, truth: str, *arguments: str) -> float:
    rows = tmprof_json("score", str(out / f"{name}.data"), "--truth", str(out / f"{truth}.truth"), *arguments)
    return next(row["recall"] for row in rows["results"] if row["rank"] == "references")


def hottest(name: str) -> set[str]:
    rows = tmprof_json("report", str(out / f"{name}.data"), "--view", "hot", "--by", "references",
                       "--limit", str(HOT_PAGES))["rows"]
    return {row["start"] for row in rows}


def doctor_row(when: str, job: str) -> dict:
    return next(row for row in json.loads(text(f"doctor_{when}.out"))["sources"]
                if (row["name"], row["job"]) == ("driver", job))


class Recording(unittest.TestCase):
    def assert_finds_hot_pages(self, name: str, truth: str) -> None:
        driver = sources(name)["driver"]
        self.assertEqual((driver["state"], driver["role"]), ("active", "references"))
        self.assertGreater(driver["observations"], PAGES)
        self.assertGreater(driver["details"]["clears"], PAGES)
        self.assertGreaterEqual(summary(name)["pages_seen"]["references"], HOT_PAGES)
        self.assertGreaterEqual(recall(name, truth), LEAST_RECALL)

    def test_by_the_ladder_finds_the_hot_pages(self):
        self.assertEqual(status("ladder"), 0, text("ladder.err"))
        self.assert_finds_hot_pages("ladder", "ladder")
        self.assertIn("(exposure ladder)", sources("ladder")["driver"]["label"])

    def test_by_one_bit_per_interval_finds_the_hot_pages(self):
        self.assertEqual(status("plain"), 0, text("plain.err"))
        self.assert_finds_hot_pages("plain", "plain")
        self.assertIn("(plain, one bit per interval)", sources("plain")["driver"]["label"])

    def test_by_regions_of_its_own_thread_finds_the_hot_pages(self):
        self.assertEqual(status("regions"), 0, text("regions.err"))
        driver = sources("regions")["driver"]
        self.assertEqual(driver["state"], "active")
        self.assertIn("(regions, plain, one bit per interval)", driver["label"])
        for detail in ("aggregations", "steps", "pages_checked", "driver_ns", "clears"):
            self.assertGreater(driver["details"][detail], 0, detail)
        # Regions are of the whole address space, of which the truth knows the program's array.
        self.assertGreaterEqual(recall("regions", "regions", "--among-truth"), LEAST_RECALL)

    def test_takes_the_driver_where_it_is_loaded(self):
        self.assertEqual(status("auto"), 0, text("auto.err"))
        used = sources("auto")
        self.assertEqual(used["driver"]["state"], "active")
        self.assertNotIn("abit-bpf", used)

    def test_takes_the_drivers_regions_where_it_is_loaded(self):
        self.assertEqual(status("best_regions"), 0, text("best_regions.err"))
        used = sources("best_regions")
        self.assertNotIn("abit-bpf", used)
        self.assertIn("(regions, plain, one bit per interval)", used["driver"]["label"])
        self.assertGreater(used["driver"]["details"]["driver_ns"], 0)
        self.assertEqual(summary("best_regions")["settings"]["abit"], "regions,plain")

    def test_goes_on_when_a_target_exits(self):
        self.assertEqual(status("pair"), 0, text("pair.err"))
        exited = {target["command"].split()[-1]: target["exited"]
                  for target in summary("pair")["targets"]}
        self.assertEqual(exited, {"stays.truth": False, "3": True})
        self.assert_finds_hot_pages("pair", "stays")

    def test_holds_the_module(self):
        self.assertEqual(status("rmmod_in_use"), 1)
        self.assertIn("tmprof", text("rmmod_in_use.err"))
        self.assertEqual(status("rmmod"), 0, text("rmmod.err"))

    def test_that_is_killed_leaves_its_epochs_and_the_driver_free(self):
        self.assertEqual(status("killed"), 128 + 9)
        killed = summary("killed")
        self.assertFalse(killed["finished"])
        self.assertGreaterEqual(killed["epochs"], 1)
        self.assertGreater(killed["pages_seen"]["references"], 0)

    def test_without_the_module_says_what_to_do(self):
        self.assertEqual(status("absent"), 1)
        self.assertEqual(text("absent.err"),
                         "tmprof: cannot open the driver's device '/dev/tmprof': ENOENT (No such file or "
                         "directory); load the module with 'modprobe tmprof'; 'tmprof doctor' says "
                         "whether it is there\n")
        self.assertFalse((out / "absent.data").exists())

    def test_without_the_module_takes_what_else_there_is(self):
        # 3: it recorded, and says that it saw little.
        self.assertIn(status("auto_absent"), (0, 3), text("auto_absent.err"))
        used = sources("auto_absent")
        self.assertEqual(used["driver"]["state"], "unavailable")
        self.assertIsNone(used["driver"]["observations"])
        self.assertIn("ENOENT", notes(used["driver"]))
        self.assertEqual(used["clock"]["state"], "active")

    @unittest.skipUnless(WITH_BPF, "clearing and reading without the module is compared on 6.12")
    def test_finds_the_pages_that_bpf_finds_and_tells_as_much(self):
        for name in ("same_driver", "same_bpf"):
            self.assertEqual(status(name), 0, text(f"{name}.err"))
            self.assertGreaterEqual(recall(name, "stays"), LEAST_RECALL)
        common = hottest("same_driver") & hottest("same_bpf")
        self.assertGreaterEqual(len(common), LEAST_RECALL * HOT_PAGES)
        by_driver, by_bpf = sources("same_driver")["driver"], sources("same_bpf")["abit-bpf"]
        self.assertEqual(by_driver["details"].keys(), by_bpf["details"].keys())
        for field in ("role", "state"):
            self.assertEqual(by_driver[field], by_bpf[field])
        self.assertEqual(notes(by_driver), notes(by_bpf))
        for field in ("observations", "lost", "active_ratio"):
            self.assertIsNotNone(by_driver[field])
            self.assertIsNotNone(by_bpf[field])


    def test_passes_over_the_holes_of_a_sparse_mapping(self):
        self.assertEqual(status("sparse"), 0, text("sparse.err"))
        first = int(text("sparse.first").split()[0])
        rows = subprocess.run([TMPROF, "convert", out / "sparse.data", "--to", "csv"],
                              capture_output=True, text=True, check=True).stdout.splitlines()
        pages = {int(row["start"], 16) // 4096 - first for row in csv.DictReader(rows)}
        self.assertLessEqual({(1 << 40) // 3 * third // 4096 for third in range(3)}, pages)
        calls = [int(line.split()[1]) for line in text("sparse.stats").splitlines()
                 if line.startswith("range_calls ")]
        # One plan of it takes 16 384 in pieces of 64 MiB, and there are four a second.
        self.assertGreater(max(calls), 0)
        self.assertLess(max(calls), 16384 // 4)


class Sampling(unittest.TestCase):
    """Tests the driver's samples of sampled_program."""

    def test_counts_each_sample_of_the_target_by_page_and_kind(self):
        self.assertEqual(status("sampled"), 0, text("sampled.err"))
        first = int(text("sampled.out").split()[0])
        rows = subprocess.run([TMPROF, "convert", out / "sampled.data", "--to", "csv"],
                              capture_output=True, text=True, check=True).stdout.splitlines()
        seen: dict[int, list[int]] = {}
        for row in csv.DictReader(rows):
            kinds = int(row["load_samples"]), int(row["store_samples"])
            if any(kinds):
                page = int(row["start"], 16) // 4096 - first
                self.assertEqual((row["span_pages"], row["node"]), ("1", "0"))
                seen[page] = [a + b for a, b in zip(seen.get(page, [0, 0]), kinds)]
        # Computed by hand from sampled_program.c.
        self.assertEqual(seen, {page: [page + 1, 2 * (page % 2)] for page in range(8)})

        sampler = sources("sampled")["vibs"]
        self.assertEqual((sampler["role"], sampler["state"]), ("samples", "active"))
        self.assertGreater(sampler["active_ratio"], 0.95)  # of the first epoch, all but the start
        self.assertEqual((sampler["observations"], sampler["lost"]), (36 + 8, 0))
        for detail, count in (("served_by_cache", 1), ("not_demand", 1), ("no_address", 1),
                              ("unknown_source", 0), ("unmapped", 0)):
            self.assertEqual(sampler["details"][detail], count, detail)
        self.assertEqual(sources("sampled")["driver"]["state"], "active")

    def test_stops_while_the_gates_count_is_low(self):
        self.assertEqual(status("gated"), 0, text("gated.err"))
        sampler = sources("gated")["vibs"]
        # One second in three is quiet; a period of 0.1 s late on either side.
        self.assertGreater(sampler["active_ratio"], 0.4)
        self.assertLess(sampler["active_ratio"], 0.9)
        self.assertGreater(sampler["observations"], 200)
        self.assertLess(sampler["observations"], 550)
        self.assertEqual(sampler["lost"], 0)
        self.assertRegex(notes(sampler), r"gate: \d+ LLC misses in the last period, on above 20 % of")

    def test_is_said_to_work_by_doctor(self):
        row = doctor_row("sampling", "address samples")
        self.assertTrue(row["usable"], row)
        row = doctor_row("loaded", "address samples")
        self.assertFalse(row["usable"], row)
        self.assertIn("ENOENT", row["error"])


class Doctor(unittest.TestCase):
    def assert_says(self, when: str, usable: bool, error: str | None, **words: str) -> None:
        self.assertEqual(status(f"doctor_{when}"), 0)
        row = doctor_row(when, "accessed bits")
        self.assertEqual(row["usable"], usable, row)
        self.assertEqual(row["error"] and row["error"].split()[0], error, row)
        for field, word in words.items():
            self.assertIn(word, row[field])

    def test_says_that_the_module_is_loaded(self):
        self.assert_says("loaded", True, None, detail="module version ")

    def test_says_that_it_could_be_built(self):
        self.assert_says("absent", False, "ENOENT", detail="no module is installed for kernel",
                         fix="docs/driver.md")

    def test_says_that_it_could_be_loaded(self):
        self.assert_says("installed", False, "ENOENT", detail="installed for this kernel, and not loaded",
                         fix="modprobe tmprof")

    def test_says_that_it_is_refused_and_why(self):
        self.assert_says("unprivileged", False, "EACCES", fix="CAP_PERFMON")
        self.assert_says("locked_down", False, "EPERM", detail="locked down for confidentiality",
                         fix="lockdown=confidentiality")


def build(folder: pathlib.Path) -> list[str]:
    """--put for what is compiled here: the PMU for that kernel, and the program that scripts it."""
    headers = subprocess.run([ROOT / "testbed/kernel_headers", KERNEL], capture_output=True, text=True,
                             check=False)
    if headers.returncode != 0:
        return []  # vm says what is missing
    for command in (
            [ROOT / "driver/build", "--headers", headers.stdout.strip(), "--output", folder, "--tests"],
            ["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror", "-static",
             f"-I{ROOT}", "-o", folder / "sampled_program", HERE / "sampled_program.c"]):
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return ["--put", str(folder / "fake_sampler.ko"), "--put", str(folder / "sampled_program")]


def boot(folder: pathlib.Path) -> subprocess.CompletedProcess:
    with_bpf = "with_bpf" if WITH_BPF else ""
    return subprocess.run(
        [ROOT / "testbed/vm", "--kernel", KERNEL, "--build", BUILD, "--driver", "--memory", "512M",
         "--time-limit", str(TIME_LIMIT_S), "--put", HERE / "record_in_guest", *build(folder),
         "--get", f"/root/out:{out}", "--", f"sh record_in_guest {with_bpf}"],
        capture_output=True, text=True, check=False)


def main() -> int:
    global out
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        out = folder / "out"
        booted = boot(folder)
        if booted.returncode == 119:
            print(f"record_live_test.py: Skipped\n{booted.stderr.strip()}\n\n[  SKIPPED ] kernel {KERNEL}")
            return 119
        if booted.returncode != 0:
            print(booted.stdout + booted.stderr, file=sys.stderr)
            return 1
        result = unittest.main(argv=[sys.argv[0], "-v", *sys.argv[3:]], exit=False).result
        return not result.wasSuccessful()


if __name__ == "__main__":
    sys.exit(main())
