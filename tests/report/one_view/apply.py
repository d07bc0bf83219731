#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds one view of traces, `example`, to a copy of the table. Its own file, example_view.h, lies beside this one.

Usage: apply.py SOURCE_DIR OUTPUT_DIR

A test is built with the copy. A view also takes its line in report/analysis/CMakeLists.txt if it has a source file, which is an edit, too.
"""

import pathlib
import sys

MOST_EDITS = 3
EDITS_OF_BUILD = 1

# File, and pairs of a line and the new lines behind it.
EDITS = [
    ("report/view.cc", [
        ("#include \"report/analysis/coverage.h\"\n",
         "#include \"report/example_view.h\"\n"),
        ("constexpr std::array kViews = {\n",
         "    View{.name = \"example\",\n"
         "         .description = \"an example of a view\",\n"
         "         .reads = kExampleReads,\n"
         "         .render = RenderExample},\n"),
    ]),
]


def main() -> None:
    source, output = map(pathlib.Path, sys.argv[1:])
    edits = len(EDITS) + EDITS_OF_BUILD
    if edits > MOST_EDITS:
        sys.exit(f"apply.py: a view takes {edits} edits; at most {MOST_EDITS} are allowed")
    for name, additions in EDITS:
        text = (source / name).read_text()
        for above, added in additions:
            if text.count(above) != 1:
                sys.exit(f"apply.py: {name} has {text.count(above)} times the line '{above.strip()}', behind which the example belongs")
            text = text.replace(above, above + added)
        copy = output / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text)


main()
