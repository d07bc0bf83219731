#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds one setting of the daemon, mover.example_pause_ms, to copies of the files that it takes.

Usage: apply.py SOURCE_DIR OUTPUT_DIR

A test is built with the copies.
"""

import sys

sys.path.insert(0, sys.argv[1] + "/tests")
import one_change  # noqa: E402

one_change.apply("a setting", edits=[
    ("proto/config.proto", [
        ("    optional double latency_gap_ns = 9 [(range) = {least: 1, most: 1000000}];\n",
         "    // In ms: an example. Default: 40.\n"
         "    optional uint32 example_pause_ms = 10 [(range) = {least: 1, most: 1000}];\n"),
    ]),
    ("daemon/config/daemon_config.h", [
        ("struct MoverConfig {\n",
         "  std::chrono::nanoseconds example_pause{40'000'000};\n"),
    ]),
    ("daemon/config/daemon_setting_rows.cc", [
        ("      Rows::One(\"mover.latency_gap_ns\", [](auto& c) -> auto& { return c.mover.latency_gap_ns; }),\n",
         "      Rows::One(\"mover.example_pause_ms\", [](auto& c) -> auto& { return c.mover.example_pause; }, Milliseconds{}),\n"),
    ]),
])
