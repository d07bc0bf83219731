#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Refuses a GoogleTest program that reads a file of the project without declaring it.

Usage: tools/check_test_inputs.py [ROOT]
A test names such a file as TMPROF_SOURCE_DIR "/PATH" (or TMPROF_SOURCE_DIR) + "/PATH"). PATH has to lie within an INPUTS
entry of the tmprof_test() that has the file among its SOURCES: `./check --changed` repeats a test when its inputs change,
and knows of no others.
Exit status: 0 all are declared, 1 one is not.
"""

import dataclasses
import pathlib
import re
import sys

SOURCES = {".cc", ".h"}
CALL = re.compile(r"\btmprof_test\(([^()]*)\)")
COMMENT = re.compile(r"#.*")
KEYWORDS = {"SOURCES", "LINK", "RUNS", "INPUTS", "LABELS", "SHARDS", "ISOLATED", "OPTIMISED", "QUIET"}
# The macro, and the string that follows it, up to an escape.
READ = re.compile(r'TMPROF_SOURCE_DIR\)?\s*(?:\+\s*)?(?:"([^"\\]*))?')


@dataclasses.dataclass(frozen=True)
class Test:
    name: str
    inputs: tuple[str, ...]  # from the root

    def declares(self, path: str) -> bool:
        return any(pathlib.PurePath(path).is_relative_to(entry) for entry in self.inputs)


def tests_of(root: pathlib.Path) -> dict[str, Test]:
    """Path of each source from the root -> the test that it belongs to."""
    found = {}
    for lists in sorted((root / "tests").rglob("CMakeLists.txt")):
        for call in CALL.finditer(COMMENT.sub("", lists.read_text(encoding="utf-8"))):
            name, *words = call.group(1).split()
            parts: dict[str, list[str]] = {}
            for word in words:
                if word in KEYWORDS:
                    part = parts.setdefault(word, [])
                else:
                    part.append(word)
            for source in parts["SOURCES"]:
                path = (lists.parent / source).relative_to(root).as_posix()
                found[path] = Test(name, tuple(parts.get("INPUTS", ())))
    return found


def violations(root: pathlib.Path) -> list[str]:
    tests = tests_of(root)
    found = []
    for file in sorted((root / "tests").rglob("*.*")):
        if file.suffix not in SOURCES:
            continue
        path, text = file.relative_to(root).as_posix(), file.read_text(encoding="utf-8")
        for match in READ.finditer(text):
            place = f"{path}:{text.count(chr(10), 0, match.start()) + 1}"
            if path not in tests:
                found.append(f"{place}: reads files of the project, and belongs to no tmprof_test()")
            elif not (match.group(1) or "").startswith("/"):
                found.append(f"{place}: TMPROF_SOURCE_DIR needs a path in the string behind it")
            elif not tests[path].declares(match.group(1).strip("/")):
                found.append(f"{place}: INPUTS of {tests[path].name} lacks {match.group(1).strip('/')}")
    return found


def main() -> int:
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    found = violations(root)
    for line in found:
        print(line, file=sys.stderr)
    if not found:
        print("test inputs: every file that a test reads is declared")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
