#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sums up what CTest ran in build folders: skipped and failed cases, and totals.

Usage: tools/test_results.py [--skipped] BUILD…
BUILD is a build folder with CTest's junit.xml, and in results/ GoogleTest's report of each program that CTest ran as
one test. Prints each failed case with the end of its output and the command that repeats it, then one line of totals:
"N passed, N failed, N skipped". --skipped lists each skipped case with its reason instead.
Exit status: 0 unless a file cannot be read.
"""

import argparse
import collections
import dataclasses
import pathlib
import re
import shlex
import sys
import xml.etree.ElementTree as ElementTree

# GoogleTest prints "file:line: Skipped", then the reason, then the case's closing line.
REASON = re.compile(r": Skipped\n(.*?)\n\s*(?:\[|$)", re.DOTALL)
STARTED = re.compile(r"^\[ RUN      \] (\S+)$", re.MULTILINE)
SHARD = re.compile(r" \d+ of \d+$")

# The end of a test's output that is shown once it has failed.
SHOWN_LINES = 30


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    outcome: str  # "passed", "failed" or "skipped"
    said: str  # output of a failed case, reason of a skipped one
    repeat: str  # the command that runs this case alone


def ctest_outcome(case: ElementTree.Element) -> str:
    """A test that CTest could not start has failed."""
    skipped = case.find("skipped")
    if case.get("status") == "disabled":
        return "skipped"
    if skipped is not None:
        return "skipped" if skipped.get("message", "").startswith("SKIP_") else "failed"
    return "passed" if case.get("status") == "run" else "failed"


def ctest_case(case: ElementTree.Element, build: pathlib.Path) -> Case:
    name, output = case.get("name"), case.findtext("system-out") or ""
    outcome = ctest_outcome(case)
    if case.get("status") == "disabled":
        output = "disabled"
    elif outcome == "skipped":
        match = REASON.search(output)
        lines = (match.group(1) if match else output.rstrip().rpartition("\n")[2]).split()
        output = " ".join(lines) or "gave no reason"
    pattern = "^" + re.escape(name).replace("\\ ", " ") + "$"
    return Case(name, outcome, output, f"ctest --test-dir {build} --output-on-failure -R {shlex.quote(pattern)}")


def googletest_cases(account: pathlib.Path, build: pathlib.Path) -> list[Case]:
    program = SHARD.sub("", account.stem)
    cases = []
    for case in ElementTree.parse(account).getroot().iter("testcase"):
        full_name = f"{case.get('classname')}.{case.get('name')}"
        failures = [failure.text or failure.get("message", "") for failure in case.findall("failure")]
        skipped = case.find("skipped")
        outcome, said = "passed", ""
        if failures:
            outcome, said = "failed", "\n".join(failures)
        elif case.get("status") == "notrun":
            outcome, said = "skipped", "disabled"
        elif skipped is not None:
            # "file:line", then the reason.
            reason = skipped.get("message", "").partition("\n")[2]
            outcome, said = "skipped", " ".join(reason.split()) or "gave no reason"
        cases.append(Case(f"{program}: {full_name}", outcome, said,
                          f"{build}/tests/{program} --gtest_filter={shlex.quote(full_name)}"))
    return cases


def with_case_under_way(program: Case, build: pathlib.Path) -> Case:
    """With a command that repeats the case alone during which a GoogleTest program ended."""
    started = STARTED.findall(program.said)
    if program.outcome != "failed" or not started or f"] {started[-1]} (" in program.said:
        return program
    name = SHARD.sub("", program.name).partition(":")[0]
    return dataclasses.replace(program, repeat=f"{build}/tests/{name} --gtest_filter={shlex.quote(started[-1])}")


def cases_of(build: pathlib.Path) -> list[Case]:
    cases = []
    for test in ElementTree.parse(build / "junit.xml").getroot().iter("testcase"):
        account = build / "results" / f"{test.get('name')}.xml"
        inner = googletest_cases(account, build) if account.exists() else []
        outer = ctest_case(test, build)
        cases += inner
        # The report of a program that crashed, hung or was ended by a sanitizer names no failed case.
        if not inner or (outer.outcome == "failed" and all(case.outcome != "failed" for case in inner)):
            cases.append(with_case_under_way(outer, build))
    return cases


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--skipped", action="store_true", help="list the skipped cases instead")
    parser.add_argument("builds", metavar="BUILD", nargs="+", type=pathlib.Path)
    options = parser.parse_args()

    totals = collections.Counter()
    for build in options.builds:
        for case in cases_of(build):
            totals[case.outcome] += 1
            if options.skipped and case.outcome == "skipped":
                print(f"skipped: {case.name}: {case.said}")
            if not options.skipped and case.outcome == "failed":
                print(f"failed: {case.name} ({build.name})")
                for line in case.said.rstrip().splitlines()[-SHOWN_LINES:]:
                    print(f"  {line}")
                print(f"  repeat: {case.repeat}")
    if not options.skipped:
        print(f"{totals['passed']} passed, {totals['failed']} failed, {totals['skipped']} skipped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
