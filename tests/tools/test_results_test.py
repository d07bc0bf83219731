#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/list_skips.py over JUnit files in CTest's shape."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "list_skips.py"

PASSED = '<testcase name="a: A.Passes" status="run"><system-out>fine</system-out></testcase>'
FAILED = ('<testcase name="a: A.Fails" status="fail"><failure message="Failed"/>'
          '<system-out>no</system-out></testcase>')
DISABLED = ('<testcase name="a: A.Rests" status="disabled"><system-out>Disabled</system-out>'
            '</testcase>')


def skipped(output: str, message: str = "SKIP_REGULAR_EXPRESSION_MATCHED") -> str:
    return (f'<testcase name="a: A.Skips" status="notrun"><skipped message="{message}"/>'
            f'<system-out>{output}</system-out></testcase>')


class ListSkips(unittest.TestCase):
    def run_tool(self, *cases: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess:
        """Runs the tool over one file release/junit.xml with these cases."""
        with tempfile.TemporaryDirectory() as root:
            file = pathlib.Path(root, "release", "junit.xml")
            file.parent.mkdir()
            file.write_text(f'<?xml version="1.0"?><testsuite name="t">{"".join(cases)}</testsuite>',
                            encoding="utf-8")
            return subprocess.run([sys.executable, TOOL, *options, file], capture_output=True,
                                  text=True, check=False)

    def test_gives_the_reason_of_a_skip(self):
        result = self.run_tool(PASSED, skipped(
            "[ RUN      ] A.Skips\n/x/a_test.cc:12: Skipped\nBPF refused: EPERM\n\n"
            "[  SKIPPED ] A.Skips (0 ms)\n"))
        self.assertEqual(result.stdout, "skipped: a: A.Skips: BPF refused: EPERM\n")
        self.assertEqual(result.returncode, 0)

    def test_joins_a_reason_of_several_lines(self):
        result = self.run_tool(skipped("/x/a_test.cc:12: Skipped\nno\n  PMU\n\n[  SKIPPED ] A\n"))
        self.assertEqual(result.stdout, "skipped: a: A.Skips: no PMU\n")

    def test_says_so_where_the_test_gave_no_reason(self):
        result = self.run_tool(skipped("nothing to see"))
        self.assertEqual(result.stdout, "skipped: a: A.Skips: gave no reason\n")

    def test_lists_a_disabled_test(self):
        result = self.run_tool(DISABLED)
        self.assertEqual(result.stdout, "skipped: a: A.Rests: disabled\n")

    def test_calls_a_test_that_could_not_be_started_failed(self):
        for message in ("Unable to find executable", "Required Files Missing"):
            result = self.run_tool(skipped("", message), options=("--summary",))
            self.assertEqual(result.stdout, "failed: a: A.Skips (release)\n"
                                            "0 passed, 1 failed, 0 skipped\n")

    def test_lists_nothing_where_nothing_was_skipped(self):
        self.assertEqual(self.run_tool(PASSED, FAILED).stdout, "")

    def test_sums_up_and_names_the_failed_with_their_build(self):
        result = self.run_tool(PASSED, PASSED, FAILED, skipped("x"), options=("--summary",))
        self.assertEqual(result.stdout,
                         "failed: a: A.Fails (release)\n  no\n2 passed, 1 failed, 1 skipped\n")

    def test_shows_the_end_of_a_failed_tests_output(self):
        long = FAILED.replace(">no<", ">" + "".join(f"line {i}\n" for i in range(100)) + "<")
        lines = self.run_tool(long, options=("--summary",)).stdout.splitlines()
        self.assertEqual(lines[1:-1], [f"  line {i}" for i in range(70, 100)])


if __name__ == "__main__":
    unittest.main()
