#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/check_layers.py over trees of a few files."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "check_layers.py"


class CheckLayers(unittest.TestCase):
    def check(self, files: dict[str, str]) -> subprocess.CompletedProcess:
        """Runs the tool over a tree of these files."""
        with tempfile.TemporaryDirectory() as root:
            for path, text in files.items():
                file = pathlib.Path(root, path)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
            return subprocess.run([sys.executable, TOOL, root], capture_output=True, text=True,
                                  check=False)

    def assert_refused(self, files: dict[str, str], *words: str):
        result = self.check(files)
        self.assertEqual(result.returncode, 1, result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)

    def assert_allowed(self, files: dict[str, str]):
        result = self.check(files)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr, "")

    def test_allows_an_edge_of_the_table_and_a_room_of_its_own(self):
        self.assert_allowed({
            "profiler/a.cc": '#include "base/units.h"\n#include "profiler/b.h"\n',
            "profiler/b.h": "#pragma once\n",
        })

    def test_refuses_a_forbidden_edge_and_says_where(self):
        self.assert_refused({"policy/a.cc": '// one\n#include "profiler/source.h"\n'},
                            "policy/a.cc:2", "profiler/source.h")

    def test_refuses_every_pair_of_the_rooms_that_only_apps_joins(self):
        rooms = ["profiler", "policy", "mover"]
        for room in rooms:
            for other in rooms:
                if room != other:
                    self.assert_refused({f"{room}/a.h": f'#include "{other}/b.h"\n'}, other)

    def test_refuses_what_one_program_includes_of_the_other(self):
        programs = ["apps/tmprof", "apps/tmprofd"]
        for program, other in zip(programs, reversed(programs)):
            self.assert_allowed({f"{program}/a.cc": '#include "apps/command_line/help.h"\n'})
            self.assert_refused({f"{program}/a.cc": f'#include "{other}/b.h"\n'}, other)

    def test_refuses_files_that_include_one_another_in_a_circle(self):
        self.assert_refused({
            "rank/a.h": "#pragma once\n",
            "rank/a.cc": '#include "rank/b.h"\n',
            "rank/b.h": '#include "rank/c.h"\n',
            "rank/c.h": '#include "rank/a.h"\n',
        }, "circle", "rank/a -> rank/b -> rank/c -> rank/a")

    def test_takes_a_header_and_its_source_for_one_part(self):
        self.assert_allowed({
            "rank/a.h": "#pragma once\n",
            "rank/a_fast.h": '#include "rank/a.h"\n',
            "rank/a.cc": '#include "rank/a.h"\n#include "rank/a_fast.h"\n#include "rank/b.h"\n',
            "rank/b.h": "#pragma once\n",
        })

    def test_lets_base_include_nothing_of_ours(self):
        self.assert_refused({"base/a.h": '#include "proto/trace_file.h"\n'}, "base/a.h:1")

    def test_tells_a_room_within_a_room_by_its_longest_row(self):
        include = '#include "proto/trace_file.h"\n'
        self.assert_allowed({"policy/replay/a.cc": include})
        self.assert_refused({"policy/a.cc": include}, "policy/a.cc:1")

    def test_keeps_generated_protobuf_behind_proto(self):
        include = '#include "proto/trace.pb.h"\n'
        self.assert_allowed({"proto/a.cc": include})
        self.assert_refused({"report/a.cc": include}, "trace.pb.h")
        self.assert_refused({"apps/tmprofd/a.cc": '#include "proto/config.pb.h"\n'}, "config.pb.h")

    def test_sees_an_include_in_any_spelling(self):
        for include in ('#include <profiler/source.h>', '  #  include "profiler/source.h"',
                        '#include "../profiler/source.h"', '#include "base/../profiler/source.h"',
                        '#include "profiler/source.h"  // why not'):
            self.assert_refused({"policy/a.cc": include + "\n"}, "policy/a.cc:1")

    def test_ignores_the_system_comments_and_headers_beside_the_file(self):
        self.assert_allowed({"base/a.c": '#include <linux/mm.h>\n#include <vector>\n'
                                         '// #include "proto/trace_file.h"\n'
                                         '#include "vmlinux.h"\n'})

    def test_ignores_what_is_built_or_is_no_source(self):
        self.assert_allowed({
            "build/release/gen.cc": '#include "profiler/source.h"\n',
            ".git/a.h": '#include "profiler/source.h"\n',
            "base/a.md": '#include "profiler/source.h"\n',
        })

    def test_exits_with_two_for_a_folder_without_a_row(self):
        result = self.check({"util/a.h": "#pragma once\n"})
        self.assertEqual(result.returncode, 2)
        self.assertIn("util/a.h", result.stderr)

    def test_exits_with_two_for_a_source_beside_the_folders(self):
        self.assertEqual(self.check({"main.cc": "int main() {}\n"}).returncode, 2)


if __name__ == "__main__":
    unittest.main()
