#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The check that every setting of the debug kernel's fragment takes effect."""

import collections
import importlib.machinery
import importlib.util
import unittest

import paths

loader = importlib.machinery.SourceFileLoader("build", str(paths.TESTBED / "build_debug_kernel"))
build = importlib.util.module_from_spec(importlib.util.spec_from_loader("build", loader))
loader.exec_module(build)


class Fragment(unittest.TestCase):
    def test_that_takes_effect_loses_no_line(self):
        fragment = "# words\nCONFIG_A=y\nCONFIG_B=\"x\"\n# CONFIG_C is not set\n# CONFIG_D is not set\n"
        config = "CONFIG_B=\"x\"\n# CONFIG_C is not set\nCONFIG_A=y\nCONFIG_DD=y\n"
        self.assertEqual(build.lines_without_effect(fragment, config), [])

    def test_loses_what_is_absent_off_or_otherwise(self):
        fragment = "CONFIG_A=y\nCONFIG_B=y\nCONFIG_C=16\nCONFIG_D=y\n"
        config = "# CONFIG_B is not set\nCONFIG_C=8\nCONFIG_DD=y\nCONFIG_D=m\n"
        self.assertEqual(build.lines_without_effect(fragment, config), fragment.splitlines())

    def test_loses_what_should_be_off_and_is_on(self):
        self.assertEqual(build.lines_without_effect("# CONFIG_A is not set\n", "CONFIG_A=m\n"),
                         ["# CONFIG_A is not set (but CONFIG_A=m)"])

    def test_our_fragment_names_no_option_twice(self):
        words = build.FRAGMENT.read_text(encoding="utf-8").replace("=", " ").split()
        counts = collections.Counter(word for word in words if word.startswith("CONFIG_"))
        self.assertEqual([option for option, count in counts.items() if count > 1], [])


if __name__ == "__main__":
    unittest.main()
