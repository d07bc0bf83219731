#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds one view of traces, `example`, to a copy of the table. Its own file, example_view.h, lies beside this one.

Usage: apply.py SOURCE_DIR OUTPUT_DIR

A test is built with the copy. A view also takes its line in report/analysis/CMakeLists.txt if it has a source file, which is an edit, too.
"""

import sys

sys.path.insert(0, sys.argv[1] + "/tests")
import one_change  # noqa: E402

one_change.apply("a view", edits_of_build=1, edits=[
    ("report/view.cc", [
        ("#include \"report/analysis/coverage.h\"\n",
         "#include \"report/example_view.h\"\n"),
        ("const std::array kViews = {\n",
         "    View{.name = \"example\",\n"
         "         .description = \"an example of a view\",\n"
         "         .reads = kExampleReads,\n"
         "         .render = RenderExample},\n"),
    ]),
])
