#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/check_test_inputs.py over trees of one test."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "check_test_inputs.py"


class CheckTestInputs(unittest.TestCase):
    def check(self, source: str, inputs: str = "", lists: str = "") -> subprocess.CompletedProcess:
        """Runs the tool over the test x_test of room/a_test.cc with these INPUTS, or over these lists."""
        with tempfile.TemporaryDirectory() as root:
            folder = pathlib.Path(root, "tests", "room")
            folder.mkdir(parents=True)
            (folder / "a_test.cc").write_text(source, encoding="utf-8")
            (folder / "CMakeLists.txt").write_text(
                lists or f"tmprof_test(x_test\n  SOURCES a_test.cc LINK y {inputs} LABELS sanitized)\n", encoding="utf-8")
            return subprocess.run([sys.executable, TOOL, root], capture_output=True, text=True, check=False)

    def assert_allowed(self, *arguments: str):
        result = self.check(*arguments)
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def assert_refused(self, complaint: str, *arguments: str):
        result = self.check(*arguments)
        self.assertEqual((result.returncode, result.stderr), (1, complaint + "\n"))

    READS = 'int x;\nauto file = TMPROF_SOURCE_DIR "/tests/golden/v1.data";\n'
    UNDECLARED = "tests/room/a_test.cc:2: INPUTS of x_test lacks tests/golden/v1.data"

    def test_refuses_a_file_that_is_not_declared_and_says_where_it_is_read(self):
        self.assert_refused(self.UNDECLARED, self.READS)

    def test_allows_a_file_that_is_declared_or_lies_in_a_declared_folder(self):
        for inputs in ("INPUTS tests/golden", "INPUTS configs tests/golden/v1.data", "INPUTS tests"):
            self.assert_allowed(self.READS, inputs)

    def test_tells_a_folder_from_one_whose_name_begins_like_it(self):
        self.assert_refused(self.UNDECLARED, self.READS, "INPUTS tests/gold")

    def test_does_not_take_other_words_of_the_call_for_inputs(self):
        self.assert_refused(self.UNDECLARED, self.READS, "RUNS tests/golden")

    def test_sees_a_path_that_is_added_as_a_string(self):
        for source in ('auto f = std::string(TMPROF_SOURCE_DIR) + "/configs/" + name;',
                       'auto f = std::string(TMPROF_SOURCE_DIR) +\n    "/configs";'):
            self.assert_refused("tests/room/a_test.cc:1: INPUTS of x_test lacks configs", source)
            self.assert_allowed(source, "INPUTS configs")

    def test_refuses_the_whole_project_as_an_input(self):
        for source in ('call("-I" TMPROF_SOURCE_DIR);', 'call("\\"" TMPROF_SOURCE_DIR "\\")");'):
            self.assert_refused("tests/room/a_test.cc:1: TMPROF_SOURCE_DIR needs a path in the string behind it", source,
                                "INPUTS tests")

    def test_refuses_a_reader_that_belongs_to_no_test(self):
        self.assert_refused("tests/room/a_test.cc:2: reads files of the project, and belongs to no tmprof_test()",
                            self.READS, "", "# tmprof_test(x_test SOURCES a_test.cc INPUTS tests)\n")

    def test_ignores_the_build_folder(self):
        self.assert_allowed('auto f = TMPROF_BINARY_DIR "/tmprof";')


if __name__ == "__main__":
    unittest.main()
