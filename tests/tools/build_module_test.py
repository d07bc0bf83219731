#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/build_module, with a Makefile in place of a kernel's that joins a module's sources."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "build_module"
# Like kbuild, this makes anew what depends on x.c if make finds that newer.
MAKEFILE = """
modules: $(M)/x.ko
$(M)/x.ko: $(M)/x.c
\t@echo built $(KCFLAGS) $(if $(C),by $(CHECK))
\t@cat $(M)/x.c > $@
"""
HOUR_NS = 3600 * 10**9


class BuildModule(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "tools").mkdir()
        shutil.copy(TOOL, self.root / "tools")
        (self.root / "headers").mkdir()
        (self.root / "headers" / "Makefile").write_text(MAKEFILE, encoding="utf-8")
        self.sources = self.root / "x"
        self.sources.mkdir()
        (self.sources / "Kbuild").touch()
        self.output = self.root / "output"

    def write(self, text: str, age_ns: int) -> None:
        file = self.sources / "x.c"
        file.write_text(text, encoding="utf-8")
        now_ns = self.root.stat().st_mtime_ns
        os.utime(file, ns=(now_ns - age_ns, now_ns - age_ns))

    def build(self, *more: str) -> subprocess.CompletedProcess:
        return subprocess.run([self.root / "tools" / "build_module", "--headers", self.root / "headers", "--output",
                               self.output, *more], capture_output=True, text=True, check=False)

    def module(self) -> str:
        return (self.output / "x.ko").read_text(encoding="utf-8")

    def test_leaves_the_module_in_the_output_and_nothing_among_the_sources(self):
        self.write("one", HOUR_NS)
        self.assertIn("built -Werror", self.build("x").stdout)
        self.assertEqual(self.module(), "one")
        self.assertEqual({file.name for file in self.sources.iterdir()}, {"Kbuild", "x.c"})

    def test_builds_nothing_anew_where_nothing_changed(self):
        self.write("one", HOUR_NS)
        self.build("x")
        self.write("one", 0)
        self.assertNotIn("built", self.build("x").stdout)

    def test_builds_a_source_that_is_another_even_if_it_is_older(self):
        self.write("one", HOUR_NS)
        self.build("x")
        self.write("two", 2 * HOUR_NS)
        self.build("x")
        self.assertEqual(self.module(), "two")

    def test_drops_sources_that_are_gone(self):
        self.write("one", HOUR_NS)
        (self.sources / "gone.h").touch()
        self.build("x")
        self.assertTrue((self.output / "build/x/gone.h").exists())
        (self.sources / "gone.h").unlink()
        self.build("x")
        self.assertFalse((self.output / "build/x/gone.h").exists())

    def test_has_sparse_check_every_file_if_told_to(self):
        self.write("one", HOUR_NS)
        self.assertIn("by sparse -Wsparse-error", self.build("--sparse", "x").stdout)

    def test_refuses_what_it_cannot_work_with(self):
        self.assertEqual(self.build().returncode, 2)
        self.assertEqual(self.build("--unknown", "x").returncode, 2)
        (self.root / "headers" / "Makefile").unlink()
        refused = self.build("x")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("no kernel headers there", refused.stderr)


if __name__ == "__main__":
    unittest.main()
