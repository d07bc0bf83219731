#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds one source, `example`, to copies of the table and of what opens sources. Its own file, example.h, lies beside this one.

Usage: apply.py SOURCE_DIR OUTPUT_DIR

A test is built with the copies. A source also takes its folder's line in profiler/CMakeLists.txt, which is an edit, too.
"""

import sys

sys.path.insert(0, sys.argv[1] + "/tests")
import one_change  # noqa: E402

one_change.apply("a source", edits_of_build=1, edits=[
    ("profiler/source_kind.cc", [
        ("#include <array>\n",
         "\n#include \"profiler/example.h\"\n"),
        ("constexpr std::array kSourceKinds{\n",
         "    kExampleSource,     //\n"),
    ]),
    ("profiler/session_sources.cc", [
        ("#include \"base/text/option_fault.h\"\n",
         "#include \"profiler/example.h\"\n"),
        ("    std::ranges::move(hardware, std::back_inserter(session_.sources));\n",
         "    if (Wants(kExampleSource)) Take(OpenExample(), kExampleSource, session_.sources);\n"),
        ("  probes.push_back(ProbeClock(perf));\n",
         "  probes.push_back(Usable(kExampleSource, \"it is an example\"));\n"),
    ]),
])
