# SPDX-License-Identifier: Apache-2.0
"""One boot of testbed/vm runs a script of this folder; the tests judge what it brings back."""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[3]
FAST_NODE = 0
SLOW_NODE = 1


class Guest:
    """The files that a script has left, and the output of the build's tmprof about them."""

    def __init__(self, build: pathlib.Path, folder: pathlib.Path):
        self._tmprof = build / "tmprof"
        self.folder = folder
        self._out = folder / "out"

    def text(self, name: str) -> str:
        return (self._out / name).read_text(encoding="utf-8")

    def nodes(self, name: str) -> dict[int, int]:
        """Returns the node of each virtual page number."""
        return {int(vpn): int(node) for vpn, node in
                (line.split() for line in self.text(f"{name}.nodes").splitlines())}

    def phases(self, name: str) -> list[dict]:
        """Returns the phases that a workload reports of itself."""
        return json.loads(self.text(f"{name}.truth"))["phases"]

    def hot_pages(self, name: str, phase: int) -> set[int]:
        """Returns hotset's hot pages with --hot-share 0.99: each has some thousand times the accesses of a cold one."""
        ranges = self.phases(name)[phase]["ranges"]
        total = sum(each["weight"] for each in ranges)
        pages = sum(each["end"] - each["start"] for each in ranges) // 4096
        return {page for each in ranges
                if each["weight"] / total > (each["end"] - each["start"]) / 4096 / pages
                for page in range(each["start"] // 4096, each["end"] // 4096)}

    def share_on(self, node: int, nodes: str, pages: set[int]) -> float:
        """Returns the share of these pages that is on `node` in the file saved under the name `nodes`."""
        where = self.nodes(nodes)
        return sum(where.get(page) == node for page in pages) / len(pages)

    def json(self, *command: str) -> dict:
        told = subprocess.run([self._tmprof, *command, "--format", "json"], capture_output=True, text=True,
                              check=False)
        assert told.returncode == 0, told.stderr
        return json.loads(told.stdout)

    def run(self, *command: str) -> None:
        subprocess.run([self._tmprof, *command], capture_output=True, text=True, check=True)

    def moves(self, name: str, *options: str) -> dict:
        return self.json("report", str(self._out / f"{name}.ledger"), "--view", "moves", *options)


# Made by main(), for the tests.
guest: Guest


def main(script: str, options: list[str], topology: str = "dram-cxl") -> int:
    """Runs `script` with further options of testbed/vm, then the tests of the module __main__. Where there is
    no such machine to be had all is skipped, as GoogleTest would say it. A word {folder} in the options
    becomes the run's own."""
    global guest
    kernel, build = sys.argv[1], pathlib.Path(sys.argv[2])
    with tempfile.TemporaryDirectory(prefix="tmprof-closed-loop.") as scratch:
        folder = pathlib.Path(scratch)
        put = ["--put", HERE / "guest.sh", "--put", HERE / script]
        for program in ("page_nodes", "page_keeper"):
            subprocess.run(["gcc", "-static", "-D_GNU_SOURCE", "-O2", "-o", folder / program,
                            HERE / f"{program}.c"], check=True)
            put += ["--put", folder / program]
        # A program that runs another one with fewer capabilities.
        if setpriv := shutil.which("setpriv"):
            put += ["--put", setpriv]
        boot = subprocess.run(
            [ROOT / "testbed" / "vm", "--kernel", kernel, "--build", build, "--driver", "--topology",
             topology, *[option.format(folder=folder) for option in options], *put,
             "--get", f"/root/out:{folder}/out", "--", f"sh {script}"],
            capture_output=True, text=True, check=False)
        if boot.returncode == 119:
            print(f"{sys.argv[0]}: Skipped\n[  SKIPPED ] kernel {kernel}: {boot.stderr.strip()}")
            return 119
        print(boot.stdout, boot.stderr, sep="")
        if boot.returncode != 0:
            return 1
        guest = Guest(build, folder)
        tests = unittest.main(argv=[sys.argv[0], *sys.argv[3:]], exit=False)
        return 0 if tests.result.wasSuccessful() else 1
