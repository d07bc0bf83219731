#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds one policy, `example`, to a copy of the table. Its own file, example.h, lies beside this one.

Usage: apply.py SOURCE_DIR OUTPUT_DIR

A test is built with the copy. A policy also takes its line in policy/CMakeLists.txt if it has a source file, which is an edit, too.
"""

import sys

sys.path.insert(0, sys.argv[1] + "/tests")
import one_change  # noqa: E402

one_change.apply("a policy", edits_of_build=1, edits=[
    ("policy/registry.cc", [
        ("#include <array>\n",
         "\n#include \"policy/example.h\"\n"),
        ("constexpr std::array kPolicies = {\n",
         "    PolicyEntry{\"example\", \"places the page at the highest address\", false, Make<Example>},\n"),
    ]),
])
