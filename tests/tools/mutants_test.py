#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/mutants: which changes it makes, which of them it chooses, and its verdicts over builds of shell scripts."""

import importlib.machinery
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

sys.dont_write_bytecode = True
TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "mutants"
loader = importlib.machinery.SourceFileLoader("mutants", str(TOOL))
mutants = importlib.util.module_from_spec(importlib.util.spec_from_loader("mutants", loader))
sys.modules["mutants"] = mutants
loader.exec_module(mutants)


class WithFolder(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name)

    def write(self, path: str, text: str, mode: int = 0o644) -> pathlib.Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        file.chmod(mode)
        return file


class MutantsOf(WithFolder):
    def changed(self, source: str) -> list[str]:
        """Returns what becomes of this source's lines."""
        self.write("room/a.cc", source)
        return [mutant.becomes for mutant in mutants.mutants_of("room", self.root)]

    def test_changes_one_place_at_a_time(self):
        self.assertCountEqual(self.changed("  return a < b && c == d;\n"),
                              ["  return a <= b && c == d;", "  return a < b || c == d;", "  return a < b && c != d;"])

    def test_changes_each_of_two_equal_places(self):
        self.assertCountEqual(self.changed("x = a + b + c;\n"), ["x = a - b + c;", "x = a + b - c;"])

    def test_changes_constants_words_and_negations(self):
        self.assertEqual(self.changed("Wait(3);\n"), ["Wait((3 + 1));"])
        self.assertEqual(self.changed("bool b = true;\n"), ["bool b = false;"])
        self.assertEqual(self.changed("return std::min(a, b);\n"), ["return std::max(a, b);"])
        self.assertEqual(self.changed("if (!Known(a)) {\n"), ["if (Known(a)) {"])

    def test_leaves_shifts_and_angle_brackets_alone(self):
        self.assertEqual(self.changed("out << a >> b;\nstd::vector<int> c;\n"), [])

    def test_leaves_comments_strings_includes_and_templates_alone(self):
        for line in ("// a < b", "  // a < b", "#include <a/ < b>", "#if a < b", 'Say("a < b");', "template <int a = b < c>",
                     "static_assert(a < b);", "using A = B < c >;"):
            self.assertEqual(self.changed(line + "\n"), [], line)

    def test_changes_the_code_before_a_comment_and_keeps_the_comment(self):
        self.assertEqual(self.changed("x = a < b;  // a < b\n"), ["x = a <= b;  // a < b"])

    def test_gives_them_in_order_of_place_with_line_numbers_from_1(self):
        self.write("room/b.cc", "x = a < b;\n")
        self.write("room/a.cc", "\nx = a < b;\n\nx = a > b;\n")
        self.assertEqual([(mutant.file, mutant.line) for mutant in mutants.mutants_of("room", self.root)],
                         [("room/a.cc", 2), ("room/a.cc", 4), ("room/b.cc", 1)])

    def test_looks_at_sources_of_the_folder_itself(self):
        for path in ("room/a.h", "room/inner/a.cc", "room/a.md", "other/a.cc"):
            self.write(path, "x = a < b;\n")
        self.assertEqual(mutants.mutants_of("room", self.root), [])


class SampleOf(unittest.TestCase):
    ALL = [mutants.Mutant("room/a.cc", line, "a", "b") for line in range(1, 101)]

    def test_is_the_same_for_the_same_seed(self):
        self.assertEqual(mutants.sample_of(self.ALL, 20, 1, "room"), mutants.sample_of(self.ALL, 20, 1, "room"))

    def test_differs_between_seeds_and_folders(self):
        first = mutants.sample_of(self.ALL, 20, 1, "room")
        self.assertNotEqual(first, mutants.sample_of(self.ALL, 20, 2, "room"))
        self.assertNotEqual(first, mutants.sample_of(self.ALL, 20, 1, "other"))

    def test_takes_each_once_and_no_more_than_there_are(self):
        self.assertEqual(len(set(mutants.sample_of(self.ALL, 20, 1, "room"))), 20)
        self.assertCountEqual(mutants.sample_of(self.ALL, 1000, 1, "room"), self.ALL)


class VerdictOf(WithFolder):
    SOURCE = "first\nx = a < b;\nlast"
    MUTANT = mutants.Mutant("room/a.cc", 2, "x = a < b;", "x = a <= b;")

    def setUp(self):
        super().setUp()
        self.source = self.write("tree/room/a.cc", self.SOURCE)
        self.built: list[str] = []

    def verdict(self, program: str, builds: bool = True, limit_s: float = 600) -> str:
        """Over a build that takes the source as it is, and makes this shell script the folder's test program."""
        def build(folder: pathlib.Path, name: str) -> bool:
            self.built.append(self.source.read_text(encoding="utf-8"))
            self.write(f"{folder.name}/tests/{name}", "#!/bin/sh\n" + program, 0o755)
            return builds
        with mock.patch.object(mutants, "build", build):
            return mutants.verdict_of(self.MUTANT, self.root / "tree", self.root / "build", "room_test", limit_s)

    def test_is_that_a_test_failed_or_that_all_passed(self):
        self.assertEqual(self.verdict("exit 1"), "killed")
        self.assertEqual(self.verdict("kill -KILL $$"), "killed")
        self.assertEqual(self.verdict("exit 0"), "lived")

    def test_is_that_it_does_not_compile_whatever_an_old_program_says(self):
        self.assertEqual(self.verdict("exit 1", builds=False), "refused")

    def test_is_that_it_hangs_once_the_limit_is_over(self):
        self.assertEqual(self.verdict("while :; do :; done", limit_s=0), "hung")

    def test_limits_the_memory_of_the_changed_program(self):
        self.assertEqual(self.verdict(f'[ "$(ulimit -v)" = {mutants.MOST_BYTES // 1024} ]'), "lived")

    def test_builds_the_changed_source_and_takes_the_change_back(self):
        for builds in (True, False):
            self.verdict("exit 0", builds)
            self.assertEqual(self.source.read_text(encoding="utf-8"), self.SOURCE)
        self.assertEqual(self.built, ["first\nx = a <= b;\nlast"] * 2)


class CopyTree(WithFolder):
    def setUp(self):
        super().setUp()
        # A hook's GIT_DIR names another repository.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        environment["GIT_CONFIG_GLOBAL"] = "/dev/null"
        patch = mock.patch.dict(os.environ, environment, clear=True)
        patch.start()
        self.addCleanup(patch.stop)
        self.write("project/room/kept.cc", "kept")
        self.write("project/room/removed.cc", "removed")
        subprocess.run(["git", "init", "--quiet"], cwd=self.root / "project", check=True)
        subprocess.run(["git", "add", "."], cwd=self.root / "project", check=True)
        self.write("project/room/untracked.cc", "untracked")
        self.copy()

    def copy(self):
        with mock.patch.object(mutants, "ROOT", self.root / "project"):
            mutants.copy_tree(self.root / "copy")

    def copied(self) -> dict[str, str]:
        return {file.name: file.read_text(encoding="utf-8") for file in (self.root / "copy" / "room").iterdir()}

    def test_has_the_tracked_files_alone(self):
        self.assertEqual(self.copied(), {"kept.cc": "kept", "removed.cc": "removed"})

    def test_follows_the_working_tree(self):
        self.write("project/room/kept.cc", "changed")
        (self.root / "project" / "room" / "removed.cc").unlink()
        self.copy()
        self.assertEqual(self.copied(), {"kept.cc": "changed"})

    def test_leaves_unchanged_files_untouched_so_that_they_are_not_built_again(self):
        before = (self.root / "copy" / "room" / "kept.cc").stat().st_mtime_ns
        (self.root / "project" / "room" / "kept.cc").touch()
        self.copy()
        self.assertEqual((self.root / "copy" / "room" / "kept.cc").stat().st_mtime_ns, before)


if __name__ == "__main__":
    unittest.main()
