#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds one setting of the daemon, mover.example_pause_ms, to copies of the files that it takes.

Usage: apply.py SOURCE_DIR OUTPUT_DIR

A test is built with the copies. A fourth edit fails the build: the list below is then to be made shorter, by making the sources tell more from less.
"""

import pathlib
import shutil
import sys

MOST_EDITS = 3

# File, the line above the new lines, the new lines.
EDITS = [
    ("proto/config.proto",
     "    optional double latency_gap_ns = 9 [(range) = {least: 1, most: 1000000}];\n",
     "    // In ms: an example. Default: 40.\n"
     "    optional uint32 example_pause_ms = 10 [(range) = {least: 1, most: 1000}];\n"),
    ("daemon/config/daemon_config.h",
     "struct MoverConfig {\n",
     "  std::chrono::nanoseconds example_pause{40'000'000};\n"),
    ("daemon/config/daemon_setting_rows.cc",
     "      Rows::One(\"mover.latency_gap_ns\", [](auto& c) -> auto& { return c.mover.latency_gap_ns; }),\n",
     "      Rows::One(\"mover.example_pause_ms\", [](auto& c) -> auto& { return c.mover.example_pause; }, Milliseconds{}),\n"),
]


def main() -> None:
    source, output = map(pathlib.Path, sys.argv[1:])
    if len(EDITS) > MOST_EDITS:
        sys.exit(f"apply.py: a setting takes {len(EDITS)} edits; at most {MOST_EDITS} are allowed")
    shutil.rmtree(output, ignore_errors=True)  # copies of files that the list no longer has
    for name, above, added in EDITS:
        text = (source / name).read_text()
        if text.count(above) != 1:
            sys.exit(f"apply.py: {name} has {text.count(above)} times the line '{above.strip()}', behind which the example belongs")
        copy = output / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text.replace(above, above + added))


main()
