#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/test_results.py over files in the shapes of CTest and of GoogleTest."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "test_results.py"

PASSED = '<testcase name="a: A.Passes" status="run"><system-out>fine</system-out></testcase>'
FAILED = ('<testcase name="a: A.Fails" status="fail"><failure message="Failed"/>'
          '<system-out>no</system-out></testcase>')
DISABLED = ('<testcase name="a: A.Rests" status="disabled"><system-out>Disabled</system-out>'
            '</testcase>')

INNER_PASSED = '<testcase name="Passes" status="run" result="completed" classname="B"/>'
INNER_FAILED = ('<testcase name="Fails/0" status="run" result="completed" classname="B">'
                '<failure message="b.cc:7&#x0A;no" type=""><![CDATA[b.cc:7\nno]]></failure></testcase>')
INNER_SKIPPED = ('<testcase name="Skips" status="run" result="skipped" classname="B">'
                 '<skipped message="b.cc:9&#x0A;no  PMU&#x0A;here&#x0A;"/></testcase>')


def skipped(output: str, message: str = "SKIP_REGULAR_EXPRESSION_MATCHED") -> str:
    return (f'<testcase name="a: A.Skips" status="notrun"><skipped message="{message}"/>'
            f'<system-out>{output}</system-out></testcase>')


def program(name: str, status: str = "run", output: str = "") -> str:
    return f'<testcase name="{name}" status="{status}"><system-out>{output}</system-out></testcase>'


class TestResults(unittest.TestCase):
    def run_tool(self, *cases: str, options: tuple[str, ...] = (), accounts: dict[str, str] | None = None):
        """Runs the tool over a folder build/ with these cases, and these accounts of programs."""
        with tempfile.TemporaryDirectory() as root:
            build = pathlib.Path(root, "build")
            (build / "results").mkdir(parents=True)
            (build / "junit.xml").write_text(f'<?xml version="1.0"?><testsuite name="t">{"".join(cases)}</testsuite>',
                                             encoding="utf-8")
            for name, inner in (accounts or {}).items():
                (build / "results" / f"{name}.xml").write_text(
                    f'<?xml version="1.0"?><testsuites><testsuite name="B">{inner}</testsuite></testsuites>',
                    encoding="utf-8")
            return subprocess.run([sys.executable, TOOL, *options, "build"], capture_output=True,
                                  text=True, check=True, cwd=root).stdout

    def test_gives_the_reason_of_a_skip(self):
        out = self.run_tool(PASSED, skipped(
            "[ RUN      ] A.Skips\n/x/a_test.cc:12: Skipped\nBPF refused: EPERM\n\n"
            "[  SKIPPED ] A.Skips (0 ms)\n"), options=("--skipped",))
        self.assertEqual(out, "skipped: a: A.Skips: BPF refused: EPERM\n")

    def test_joins_a_reason_of_several_lines(self):
        out = self.run_tool(skipped("/x/a_test.cc:12: Skipped\nno\n  PMU\n\n[  SKIPPED ] A\n"),
                            options=("--skipped",))
        self.assertEqual(out, "skipped: a: A.Skips: no PMU\n")

    def test_takes_the_last_line_for_the_reason_if_none_is_marked(self):
        self.assertEqual(self.run_tool(skipped("setting up\nkernel_headers: not available here\n"), options=("--skipped",)),
                         "skipped: a: A.Skips: kernel_headers: not available here\n")

    def test_says_that_a_test_gave_no_reason(self):
        self.assertEqual(self.run_tool(skipped("\n"), options=("--skipped",)), "skipped: a: A.Skips: gave no reason\n")

    def test_lists_a_disabled_test(self):
        self.assertEqual(self.run_tool(DISABLED, options=("--skipped",)), "skipped: a: A.Rests: disabled\n")

    def test_lists_nothing_if_no_test_was_skipped(self):
        self.assertEqual(self.run_tool(PASSED, FAILED, options=("--skipped",)), "")

    def test_calls_a_test_that_could_not_be_started_failed(self):
        for message in ("Unable to find executable", "Required Files Missing"):
            self.assertEqual(self.run_tool(skipped("", message)).splitlines()[-1], "0 passed, 1 failed, 0 skipped")

    def test_sums_up_and_tells_how_to_repeat_a_failed_test(self):
        self.assertEqual(self.run_tool(PASSED, PASSED, FAILED, skipped("x")),
                         "failed: a: A.Fails (build)\n"
                         "  no\n"
                         "  repeat: ctest --test-dir build --output-on-failure -R '^a: A\\.Fails$'\n"
                         "2 passed, 1 failed, 1 skipped\n")

    def test_shows_the_end_of_a_failed_tests_output(self):
        long = FAILED.replace(">no<", ">" + "".join(f"line {i}\n" for i in range(100)) + "<")
        lines = self.run_tool(long).splitlines()
        self.assertEqual(lines[1:-2], [f"  line {i}" for i in range(70, 100)])

    def test_counts_the_cases_of_a_program_instead_of_the_program(self):
        out = self.run_tool(program("b_test 1 of 2", "fail", "much"), program("b_test 2 of 2"),
                            accounts={"b_test 1 of 2": INNER_PASSED + INNER_FAILED + INNER_SKIPPED,
                                      "b_test 2 of 2": INNER_PASSED})
        self.assertEqual(out, "failed: b_test: B.Fails/0 (build)\n"
                              "  b.cc:7\n"
                              "  no\n"
                              "  repeat: build/tests/b_test --gtest_filter=B.Fails/0\n"
                              "2 passed, 1 failed, 1 skipped\n")

    def test_lists_the_skipped_cases_of_a_program(self):
        out = self.run_tool(program("b_test"), accounts={"b_test": INNER_PASSED + INNER_SKIPPED}, options=("--skipped",))
        self.assertEqual(out, "skipped: b_test: B.Skips: no PMU here\n")

    def test_a_program_that_crashed_has_failed(self):
        lines = self.run_tool(program("b_test", "fail", "[ RUN      ] B.Fails\nSegmentation fault")).splitlines()
        self.assertIn("  Segmentation fault", lines)
        self.assertIn("  repeat: build/tests/b_test --gtest_filter=B.Fails", lines)
        self.assertEqual(lines[-1], "0 passed, 1 failed, 0 skipped")

    def test_a_program_that_fails_after_its_last_case_has_failed(self):
        lines = self.run_tool(program("b_test", "fail", "LeakSanitizer: detected memory leaks"),
                              accounts={"b_test": INNER_PASSED}).splitlines()
        self.assertIn("  LeakSanitizer: detected memory leaks", lines)
        self.assertEqual(lines[-1], "1 passed, 1 failed, 0 skipped")


if __name__ == "__main__":
    unittest.main()
