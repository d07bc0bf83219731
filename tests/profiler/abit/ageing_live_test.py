#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clears of shared memory by ageing its memory cgroup, on Debian's kernels in a virtual machine.

Usage: ageing_live_test.py KERNEL BUILD [--topology NAME] [unittest's arguments]
BUILD is the build folder whose programs the guest gets. One boot: ageing_in_guest makes the recordings, the tests judge
what it brings back. With a topology, which has several memory nodes, the programs' memory is on the second. If KERNEL is
not to be had, all is skipped, as GoogleTest would say it.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
KERNEL, BUILD, *ARGUMENTS = sys.argv[1:]
TOPOLOGY = ARGUMENTS[1] if ARGUMENTS[:1] == ["--topology"] else None
ARGUMENTS = ARGUMENTS[2 if TOPOLOGY else 0:]
TMPROF = pathlib.Path(BUILD, "tmprof")
# For a host that does a lot besides: the guest is done within 190 s where it does nothing else.
TIME_LIMIT_S = 500
# Chance finds 1/16. Pages that an emulated TLB holds show no access where clears are not flushed.
LEAST_RECALL = 0.5

out = pathlib.Path()  # what the guest brought back


def text(name: str) -> str:
    return (out / name).read_text(encoding="utf-8")


def tmprof_json(*arguments: str) -> dict:
    result = subprocess.run([TMPROF, *arguments, "--format", "json"], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def source_of(name: str) -> dict:
    summary = tmprof_json("report", str(out / f"{name}.data"), "--view", "summary")
    return next(source for source in summary["sources"] if source["name"] == "abit-bpf")


def details(name: str) -> dict:
    return source_of(name)["details"]


def notes(name: str) -> str:
    return "\n".join(note["text"] for note in source_of(name)["notes"])


def recall(name: str) -> float:
    rows = tmprof_json("score", str(out / f"{name}.data"), "--truth", str(out / f"{name}.truth"), "--among-truth")
    return next(row["recall"] for row in rows["results"] if row["rank"] == "references")


def doctor(when: str) -> str:
    return next(row["detail"] for row in json.loads(text(f"doctor_{when}.out"))["sources"] if row["name"] == "abit-bpf")


class Ageing(unittest.TestCase):
    def test_finds_hot_pages_of_shared_memory_where_clear_refs_is_refused(self):
        used = details("aged")
        self.assertGreater(used["ageings"], 0, used)
        self.assertEqual(used["whole_clears_by_ageing"], used["whole_clears"])
        self.assertGreater(used["whole_clears"], used["ageings"], "both processes are cleared by each")
        self.assertGreaterEqual(recall("aged"), LEAST_RECALL)


class Choice(unittest.TestCase):
    def test_finds_hot_pages_as_well_as_clear_refs_which_comes_first(self):
        self.assertEqual(details("by_clear_refs")["ageings"], 0)
        self.assertGreater(details("by_clear_refs")["whole_clears"], 0)
        self.assertGreaterEqual(recall("aged"), 0.75 * recall("by_clear_refs"))

    def test_is_made_only_if_it_is_asked_for(self):
        self.assertEqual(details("not_asked_for")["whole_clears"], 0)
        self.assertNotIn("cgroup", text("not_asked_for.err"))

    def test_says_that_it_is_switched_off(self):
        self.assertEqual(details("neither")["whole_clears"], 0)
        self.assertIn("no memory cgroup is aged", text("neither.err"))
        self.assertIn("switched off", text("neither.err"))

    def test_leaves_the_root_cgroup_alone(self):
        self.assertEqual(details("root")["ageings"], 0)
        self.assertIn("the memory of cgroup / is not aged: a program needs a cgroup of its own", notes("root"))


class Doctor(unittest.TestCase):
    def test_says_that_ageing_is_available(self):
        self.assertIn("ageing by the multi-generational LRU is available", doctor("available"))

    def test_says_why_ageing_is_not_available(self):
        for when, reason in (("off", "switched off"), ("without_debugfs", "mount debugfs")):
            self.assertIn("ageing by the multi-generational LRU is not available", doctor(when))
            self.assertIn(reason, doctor(when))


class SeveralNodesBeforeLinux612(unittest.TestCase):
    def test_are_not_aged(self):
        self.assertNotIn("ageings", details("aged"))
        self.assertIn("several memory nodes", doctor("available"))
        self.assertIn("several memory nodes", text("aged.err"))


def main() -> int:
    global out
    command = "sh ageing_in_guest" + (" --second-node" if TOPOLOGY else "")
    topology = ["--topology", TOPOLOGY] if TOPOLOGY else []
    if TOPOLOGY:
        tests = ["SeveralNodesBeforeLinux612"] if KERNEL == "6.1" else ["Ageing"]
    else:
        tests = ["Ageing", "Choice", "Doctor"]
    with tempfile.TemporaryDirectory() as name:
        out = pathlib.Path(name) / "out"
        booted = subprocess.run(
            [ROOT / "testbed/vm", "--kernel", KERNEL, "--build", BUILD, "--time-limit", str(TIME_LIMIT_S),
             "--put", HERE / "ageing_in_guest", "--put", "/usr/bin/setpriv", "--get", f"/root/out:{out}", *topology, "--", command],
            capture_output=True, text=True, check=False)
        if booted.returncode == 119:
            print(f"ageing_live_test.py: Skipped\n{booted.stderr.strip()}\n\n[  SKIPPED ] kernel {KERNEL}")
            return 119
        if booted.returncode != 0:
            print(booted.stdout + booted.stderr, file=sys.stderr)
            return 1
        result = unittest.main(argv=[sys.argv[0], "-v", *(ARGUMENTS or tests)], exit=False).result
        return not result.wasSuccessful()


if __name__ == "__main__":
    sys.exit(main())
