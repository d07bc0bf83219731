#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/setup, which is asked what it would install and never does."""

import os
import pathlib
import subprocess
import tempfile
import unittest

SETUP = pathlib.Path(__file__).resolve().parents[2] / "tools" / "setup"


class Setup(unittest.TestCase):
    def run_setup(self, *parts: str, installed: str = "") -> subprocess.CompletedProcess:
        """Runs it dry on a system where dpkg-query knows these packages, one "NAME STATE" a line."""
        with tempfile.TemporaryDirectory() as folder:
            fake = pathlib.Path(folder, "dpkg-query")
            fake.write_text(f"#!/bin/sh\nprintf '%s' '{installed}'\n", encoding="utf-8")
            fake.chmod(0o755)
            return subprocess.run([SETUP, "--dry-run", *parts], capture_output=True, text=True, check=False,
                                  env=os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"})

    def wanted(self, *parts: str, installed: str = "") -> set[str]:
        result = self.run_setup(*parts, installed=installed)
        self.assertEqual(result.returncode, 0, result.stderr)
        return set(result.stdout.partition("--no-upgrade ")[2].split())

    def test_the_minimal_part_takes_neither_tests_nor_llvm_nor_qemu(self):
        self.assertIn("libbpf-dev", self.wanted("minimal"))
        for package in self.wanted("minimal"):
            self.assertNotRegex(package, "gtest|gmock|benchmark|llvm|qemu|redis")

    def test_a_part_brings_those_that_it_includes(self):
        self.assertLess(self.wanted("minimal"), self.wanted("demo"))
        self.assertLess(self.wanted("demo"), self.wanted("develop"))
        self.assertLess(self.wanted("develop"), self.wanted("guests"))

    def test_all_parts_are_wanted_if_none_is_named(self):
        self.assertEqual(self.wanted(), self.wanted("minimal", "demo", "develop", "guests"))

    def test_each_package_stands_in_one_part(self):
        lines = SETUP.with_name("packages.txt").read_text(encoding="utf-8").splitlines()
        packages = [line for line in lines if line and line[0] not in "#["]
        self.assertEqual(sorted(packages), sorted(set(packages)))

    def test_installs_only_what_is_missing(self):
        here = self.wanted("minimal", installed="git installed\ncmake deinstalled\n")
        self.assertEqual(self.wanted("minimal") - here, {"git"})

    def test_says_that_nothing_is_missing(self):
        all_here = "".join(f"{package} installed\n" for package in self.wanted("guests"))
        result = self.run_setup("guests", installed=all_here)
        self.assertEqual(result.stdout, "setup: all packages are installed (guests)\n")

    def test_refuses_a_part_that_it_does_not_have(self):
        result = self.run_setup("everything")
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertIn("no part 'everything'", result.stderr)


if __name__ == "__main__":
    unittest.main()
