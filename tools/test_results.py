#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lists the skipped tests of CTest's JUnit files with their reasons.

Usage: tools/list_skips.py [--summary] JUNIT.xml…
--summary lists the failed ones instead, each with the end of its output, and closes with one line of totals:
"N passed, N failed, N skipped".
"""

import argparse
import collections
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

# GoogleTest prints "file:line: Skipped", then the reason, then the case's closing line.
REASON = re.compile(r": Skipped\n(.*?)\n\s*(?:\[|$)", re.DOTALL)

# The end of a test's output that is shown once it has failed.
SHOWN_LINES = 30


def outcome_of(case: ElementTree.Element) -> str:
    """passed, failed or skipped. A test that CTest could not start has failed."""
    skipped = case.find("skipped")
    if case.get("status") == "disabled":
        return "skipped"
    if skipped is not None:
        return "skipped" if skipped.get("message", "").startswith("SKIP_") else "failed"
    return "passed" if case.get("status") == "run" else "failed"


def reason_of(case: ElementTree.Element) -> str:
    """The reason that the test gave in its output."""
    if case.get("status") == "disabled":
        return "disabled"
    match = REASON.search(case.findtext("system-out") or "")
    return " ".join(match.group(1).split()) if match else "gave no reason"


def end_of_output(case: ElementTree.Element) -> str:
    """Indented, each line with its end; empty where there was no output."""
    lines = (case.findtext("system-out") or "").rstrip().splitlines()[-SHOWN_LINES:]
    return "".join(f"  {line}\n" for line in lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--summary", action="store_true", help="list the failed ones, and close with a line of totals")
    parser.add_argument("junit", nargs="+", type=pathlib.Path)
    options = parser.parse_args()

    totals = collections.Counter()
    for path in options.junit:
        for case in ElementTree.parse(path).getroot().iter("testcase"):
            outcome = outcome_of(case)
            totals[outcome] += 1
            if outcome == "skipped" and not options.summary:
                print(f"skipped: {case.get('name')}: {reason_of(case)}")
            if outcome == "failed" and options.summary:
                print(f"failed: {case.get('name')} ({path.parent.name})\n{end_of_output(case)}", end="")
    if options.summary:
        print(f"{totals['passed']} passed, {totals['failed']} failed, {totals['skipped']} skipped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
