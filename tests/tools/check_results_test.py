#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/check_results over trees of a page of results, a notebook and a bench."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "check_results"
HEADER = "| claim | figure ± spread | goal | met? | command | commit |\n|---|---|---|---|---|---|\n"
ROW = "| It scans | 1 ± 0.1 s | 2 s | yes | `bench/scan --quick` | 0130cb3 |\n"
LINK = "The [runs](../bench/results/scan.md#a-scan) have more.\n\n"


class CheckResults(unittest.TestCase):
    def check(self, page: str, files: dict[str, str] | None = None) -> subprocess.CompletedProcess:
        """Runs the tool over a tree with this page of results and these files besides the bench and its notebook."""
        tree = {"docs/results.md": page, "bench/results/scan.md": "# A `scan`\n", "bench/scan": "", **(files or {})}
        with tempfile.TemporaryDirectory() as root:
            for path, text in tree.items():
                file = pathlib.Path(root, path)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
            return subprocess.run([sys.executable, TOOL, root], capture_output=True, text=True, check=False)

    def assert_refused(self, page: str, words: str, files: dict[str, str] | None = None):
        result = self.check(page, files)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn(words, result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)

    def assert_row_refused(self, old: str, new: str, words: str):
        self.assert_refused(LINK + HEADER + ROW.replace(old, new), f"docs/results.md:5: {words}")

    def test_allows_claims_with_and_without_a_goal(self):
        rows = ROW + ROW.replace("2 s | yes", "– | –").replace("0130cb3", "(0130cb3), 1f0dd31")
        rows += ROW.replace("yes", "**no**") + ROW.replace("yes", "**partly**").replace("bench/scan", "ctest")
        result = self.check(LINK + HEADER + rows)
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_refuses_more_than_150_lines(self):
        page = LINK + HEADER + ROW * 146
        self.assertEqual(self.check(page).returncode, 0)
        self.assert_refused(page + ROW, "151 lines, at most 150")

    def test_refuses_an_empty_cell_and_a_missing_one(self):
        self.assert_row_refused("1 ± 0.1 s", " ", "no figure ± spread")
        self.assert_row_refused("| 0130cb3 |", "|", "5 cells instead of 6")

    def test_refuses_other_columns_and_a_page_without_claims(self):
        self.assert_refused(LINK + HEADER.replace("met?", "reached") + ROW, "docs/results.md:3: the columns are not")
        self.assert_refused(LINK + HEADER, "no claim")

    def test_refuses_a_goal_without_an_answer_and_an_answer_without_a_goal(self):
        self.assert_row_refused("yes", "nearly", "'nearly' does not say if the goal is met")
        self.assert_row_refused("yes", "–", "'–' does not say if the goal is met")
        self.assert_row_refused("2 s", "–", "'yes' answers no goal")

    def test_refuses_a_command_that_nobody_can_run(self):
        self.assert_row_refused("`bench/scan --quick`", "by hand", "'by hand' is no command")
        self.assert_row_refused("bench/scan", "bench/gone", "there is no bench/gone")

    def test_refuses_a_commit_that_is_none(self):
        self.assert_row_refused("0130cb3", "today", "'today' is no commit")

    def test_refuses_a_page_of_the_notebook_that_is_not_linked(self):
        self.assert_refused(LINK + HEADER + ROW, "bench/results/new.md: docs/results.md does not link", {"bench/results/new.md": "New.\n"})

    def test_refuses_links_that_lead_nowhere(self):
        self.assert_refused(LINK.replace("a-scan", "b") + HEADER + ROW, "docs/results.md:1: the link ../bench/results/scan.md#b names no heading")
        self.assert_refused(LINK + "See [it](gone.csv).\n\n" + HEADER + ROW, "docs/results.md:3: the link gone.csv leads nowhere")
        self.assert_refused(LINK + HEADER + ROW, "docs/other.md:1: the link results.md#gone names no heading",
                            {"docs/other.md": "See [it](results.md#gone).\n"})

    def test_reports_a_root_without_the_page(self):
        result = subprocess.run([sys.executable, TOOL, "/nonexistent"], capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 2)
        self.assertIn("/nonexistent/docs/results.md", result.stderr)


if __name__ == "__main__":
    unittest.main()
