#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/check_prose over trees of a few files, with folders over and under the limits."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "check_prose"
LONG = "Word " + " ".join(["word"] * 25) + ".\n"
SHORT = "The scanner reads pages. " * 10


class CheckProse(unittest.TestCase):
    def check(self, files: dict[str, str], *options: str) -> subprocess.CompletedProcess:
        """Runs the tool over a tree of these files."""
        with tempfile.TemporaryDirectory() as root:
            for path, text in files.items():
                file = pathlib.Path(root, path)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
            return subprocess.run([sys.executable, TOOL, *options, root], capture_output=True, text=True, check=False)

    def assert_refused(self, files: dict[str, str], *words: str):
        result = self.check(files)
        self.assertEqual(result.returncode, 1, result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)

    def assert_allowed(self, files: dict[str, str]):
        result = self.check(files)
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_refuses_a_headless_comment_of_each_language(self):
        self.assert_refused({"new/a.cc": "int a;\n// Of three, the\n// first.\n"}, "new/a.cc:2", "Of three")
        self.assert_refused({"new/a.cc": "int a;  // as they were\n"}, "new/a.cc:1")
        self.assert_refused({"new/a.c": "/* What is left. */\n"}, "new/a.c:1")
        self.assert_refused({"new/a.py": 'def f():\n    """Whether it runs."""\n'}, "new/a.py:2")
        self.assert_refused({"new/CMakeLists.txt": "# By folder.\n"}, "new/CMakeLists.txt:1")
        self.assert_refused({"new/script": "#!/bin/sh\n# So it ends.\n"}, "new/script:2")

    def test_refuses_a_headless_help_text_paragraph_and_list_item(self):
        self.assert_refused({"new/a.cc": 'app.add_option("--rate", rate,\n  "Where it "\n  "is read");\n'}, "Where it is read")
        self.assert_refused({"new/a.md": "Likewise it reads.\n"}, "new/a.md:1")
        self.assert_refused({"new/a.md": "- Pages.\n- Nothing else.\n"}, "new/a.md:2")

    def test_allows_a_word_within_a_comment_and_code_that_begins_like_one(self):
        self.assert_allowed({"new/a.cc": "// Pages of a target\n// as they were.\n", "new/b.cc": "// Soon.\n",
                             "new/a.md": "```\nOf code\n```\n\n    By code\n"})

    def test_refuses_a_sentence_of_a_document_over_25_words_but_no_comment(self):
        self.assert_refused({"new/a.md": SHORT + LONG}, "new/a.md:1", "26 words")
        self.assert_refused({"new/a.md": SHORT + f"\n\n| a | b |\n|---|---|\n| c | {LONG.strip()} |\n"}, "new/a.md:5")
        self.assert_allowed({"new/a.md": SHORT + LONG.replace("word ", "", 1), "new/a.cc": "// " + LONG})

    def test_counts_a_quotation_a_link_and_a_list_of_code_as_a_word(self):
        for text in ['"' + "a " * 30 + '"', "[" + "a " * 30 + "](b.md)", ", ".join(["`a`"] * 30) + " and `b`"]:
            self.assert_allowed({"new/a.md": f"The page names {text}.\n"})

    def test_begins_a_sentence_at_code_a_link_and_a_quotation(self):
        for word in ["`a`", "[a](b.md)", '"a"']:
            self.assert_allowed({"new/a.md": f"{SHORT}{'Word ' * 14}word. {word} {'word ' * 14}word.\n"})

    def test_refuses_a_mean_over_16_words(self):
        self.assert_refused({"new/a.md": " ".join(["word"] * 17) + ".\n"}, "mean is 17.0, its limit 16")

    def test_refuses_a_home_made_word_and_tells_the_one_of_the_field(self):
        self.assert_refused({"new/a.cc": "// Pays the loan back.\n"}, "new/a.cc:1", "'loan'", "budget advance")
        self.assert_allowed({"new/a.cc": '// Prints "loan" and `loan`.\n'})

    def test_prints_the_figures_of_each_folder_and_judges_none(self):
        result = self.check({"new/a.cc": "// Of pages.\n\n// Pages.\n", "old/a.md": "It reads.\n"}, "--summary")
        self.assertEqual(result.returncode, 0, result.stderr)
        rows = [line.split() for line in result.stdout.splitlines()[1:]]
        self.assertEqual(rows, [["new", "2", "50.0", "0", "-", "-", "0"], ["old", "1", "0.0", "1", "2.0", "0.0", "0"]])

    def test_tells_a_root_that_is_no_folder(self):
        result = subprocess.run([sys.executable, TOOL, "/nonexistent"], capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 2)
        self.assertIn("/nonexistent", result.stderr)


if __name__ == "__main__":
    unittest.main()
