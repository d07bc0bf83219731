#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/changed_tests over a project of three tests."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "changed_tests"

LISTS = """cmake_minimum_required(VERSION 3.25)
project(p LANGUAGES NONE)
enable_testing()
add_test(NAME one COMMAND ${PROJECT_SOURCE_DIR}/one)
add_test(NAME two COMMAND ${PROJECT_SOURCE_DIR}/two)
set_property(TEST two PROPERTY REQUIRED_FILES ${PROJECT_SOURCE_DIR}/data)
add_test(NAME lint COMMAND ${PROJECT_SOURCE_DIR}/one)
set_property(TEST lint PROPERTY LABELS lint)
"""


class ChangedTests(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.source = pathlib.Path(scratch.name, "source")
        self.build = pathlib.Path(scratch.name, "build")
        (self.source / "data").mkdir(parents=True)
        (self.source / "data" / "input").touch()
        (self.source / "CMakeLists.txt").write_text(LISTS, encoding="utf-8")
        for name in ("one", "two"):
            (self.source / name).write_text("#!/bin/sh\n", encoding="utf-8")
            (self.source / name).chmod(0o755)
        subprocess.run(["cmake", "-S", self.source, "-B", self.build], check=True, capture_output=True)
        for path in (*self.source.rglob("*"), self.source / "data"):
            os.utime(path, (1000, 1000))

    def pass_all_but(self, failed: str = "", started: float = 2000):
        cases = "".join(f'<testcase name="{name}" status="{"fail" if name == failed else "run"}"/>'
                        for name in ("one", "two", "lint"))
        (self.build / "junit.xml").write_text(f"<testsuite>{cases}</testsuite>", encoding="utf-8")
        subprocess.run([sys.executable, TOOL, "--note", str(started), self.build], check=True)

    def chosen(self) -> str:
        result = subprocess.run([sys.executable, TOOL, self.build], capture_output=True, text=True, check=False)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout.strip()

    def test_all_are_chosen_before_any_has_passed(self):
        self.assertEqual(self.chosen(), "0,0,0,1,2,3")

    def test_lint_alone_is_chosen_if_nothing_changed(self):
        self.pass_all_but()
        self.assertEqual(self.chosen(), "0,0,0,3")

    def test_a_test_that_failed_is_chosen_again(self):
        self.pass_all_but()
        self.pass_all_but("one")
        self.assertEqual(self.chosen(), "0,0,0,1,3")

    def test_a_program_that_was_rebuilt_is_chosen(self):
        self.pass_all_but()
        os.utime(self.source / "one", (3000, 3000))
        self.assertEqual(self.chosen(), "0,0,0,1,3")

    def test_a_program_that_was_rebuilt_while_its_test_ran_is_chosen(self):
        self.pass_all_but(started=2000)
        os.utime(self.source / "two", (2000, 2000))
        self.assertEqual(self.chosen(), "0,0,0,2,3")

    def test_a_change_within_a_required_folder_is_seen(self):
        self.pass_all_but()
        os.utime(self.source / "data" / "input", (3000, 3000))
        self.assertEqual(self.chosen(), "0,0,0,2,3")

    def test_a_file_that_was_removed_from_a_required_folder_is_seen(self):
        self.pass_all_but()
        (self.source / "data" / "input").unlink()
        self.assertEqual(self.chosen(), "0,0,0,2,3")

    def test_a_test_whose_program_is_missing_is_chosen(self):
        self.pass_all_but()
        (self.source / "two").unlink()
        os.utime(self.source / "data", (1000, 1000))
        self.assertEqual(self.chosen(), "0,0,0,2,3")


if __name__ == "__main__":
    unittest.main()
