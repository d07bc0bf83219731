#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory that advice binds to a node lies there, in a virtual machine of two nodes, and a recording says so.

Usage: bound_arena_test.py KERNEL BUILD [unittest's arguments]
The calls of the advice are those that a recording of the program on this machine names. Where KERNEL is not to be
had, or this machine refuses to record, all is skipped, as GoogleTest would say it.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

KERNEL, BUILD = sys.argv[1], pathlib.Path(sys.argv[2])
ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = BUILD / "tests" / "objects_bound"
HEATS = BUILD / "tests" / "objects_heats"
LIBRARY = "libtmprof_allocations.so"
LIBRARIES = "/usr/local/lib/tmprof"  # where tmprof looks for them there
TMPROF = str(BUILD / "tmprof")
# For a boot on a host that does a lot besides.
TIME_LIMIT_S = 300
UNAVAILABLE, REFUSED = 119, 3
# The program has 64 blocks of 64 KiB, each with one page of headers.
LEAST_PAGES = 64 * 15


def run(*command: str) -> subprocess.CompletedProcess:
    return subprocess.run(command, capture_output=True, text=True, check=False)


def pages_by_node(said: str) -> dict[str, dict[int, int]]:
    """"hot 0:1024" -> {"hot": {0: 1024}}."""
    rows = (line.split() for line in said.splitlines())
    return {name: {int(node): int(pages) for node, pages in (each.split(":") for each in nodes)}
            for name, *nodes in rows}


class BoundArena(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def calls(self, program: pathlib.Path) -> dict[str, list[dict]]:
        """The frames of each of the program's two sites."""
        trace = str(self.folder / "first.data")
        recorded = run(TMPROF, "record", "--quiet", "--objects", "-o", trace, "--", str(program))
        if recorded.returncode == REFUSED:
            self.skipTest(f"recording is refused here: {recorded.stderr}")
        self.assertIn(recorded.returncode, (0, 3), recorded.stderr)  # 3: little was seen, as of a short run
        view = run(TMPROF, "report", trace, "--view", "objects", "--limit", "0", "--format", "json")
        self.assertEqual(view.returncode, 0, view.stderr)
        rows = {row["frames"][0]["function"]: row["frames"] for row in json.loads(view.stdout)["rows"]
                if row["kind"] == "allocated" and row["frames"]}
        return {name: rows[f"make_{name}"] for name in ("hot", "cold")}

    def advice(self, program: pathlib.Path, bound: str) -> pathlib.Path:
        """Hot and cold sites go to an arena each, of which one is on node 1."""
        calls = self.calls(program)
        names = ("hot", "cold")
        modules = sorted({frame["module"] for frames in calls.values() for frame in frames})
        lines = ["tmprof-advice 1", *(f"module {i} {module}" for i, module in enumerate(modules, 1)),
                 f"bind {names.index(bound)} 1"]
        for arena, name in enumerate(names):
            lines.append(" ".join([f"site {arena}", *(f"{modules.index(frame['module']) + 1}+{frame['offset']:#x}"
                                                      for frame in calls[name])]))
        path = self.folder / "advice"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    def in_machine(self, program: pathlib.Path, advice: pathlib.Path, command: str) -> str:
        """Returns the output of the command there. The library lies beside the programs of the build."""
        booted = run(
            str(ROOT / "testbed" / "vm"), "--kernel", KERNEL, "--build", str(BUILD), "--topology", "dram-cxl",
            "--time-limit", str(TIME_LIMIT_S), "--put", f"{program}:{program}",
            "--put", f"{BUILD / 'lib' / LIBRARY}:{LIBRARIES}/{LIBRARY}", "--put", f"{advice}:/root/advice",
            "--", command)
        if booted.returncode == UNAVAILABLE:
            self.skipTest(booted.stderr.splitlines()[-1])
        self.assertEqual(booted.returncode, 0, booted.stderr)
        return booted.stdout

    def test_lies_on_its_node_and_what_is_not_bound_where_the_program_runs(self):
        preload = f"LD_PRELOAD={LIBRARIES}/{LIBRARY} TMPROF_ADVICE=/root/advice"
        said = self.in_machine(PROGRAM, self.advice(PROGRAM, "cold"),
                               f"{PROGRAM} && echo -- && {preload} {PROGRAM} 2>&1")
        alone, advised = map(pages_by_node, said.split("--\n"))
        for name, nodes in alone.items():
            self.assertEqual(set(nodes), {0}, name)
            self.assertGreaterEqual(nodes[0], LEAST_PAGES)
        self.assertEqual(set(advised["hot"]), {0})
        self.assertEqual(set(advised["cold"]), {1})
        self.assertGreaterEqual(advised["cold"][1], LEAST_PAGES)

    def test_is_worth_promoting_where_what_is_hot_lies_in_tier_2(self):
        said = self.in_machine(
            HEATS, self.advice(HEATS, "hot"),
            # Under emulation the default overhead pays for next to no look.
            f"tmprof record --quiet --objects --advice advice --max-overhead 50% -o heats.data -- {HEATS} >&2 && "
            "tmprof report heats.data --view objects --limit 0 --format json")
        view = json.loads(said)
        self.assertEqual(view["tier2_nodes"], [1])
        rows = {row["frames"][0]["function"]: row for row in view["rows"]
                if row["kind"] == "allocated" and row["frames"]}
        hot, cold = rows["make_hot"], rows["make_cold"]
        self.assertEqual(hot["in_tier2_share"], 1)
        # The rest lay in its pages while they were nobody's, before it was told of.
        self.assertGreater(hot["of_tier2_share"], 0.25)
        self.assertEqual(cold["in_tier2_share"], 0)
        self.assertEqual(cold["of_tier2_share"], 0)


if __name__ == "__main__":
    result = unittest.main(argv=[sys.argv[0], *sys.argv[3:]], exit=False, verbosity=2).result
    for case, reason in result.skipped:
        print(f"bound_arena_test.py: Skipped\n{case}: {reason}\n")
    sys.exit(1 if not result.wasSuccessful() else 119 if result.skipped else 0)
