# SPDX-License-Identifier: Apache-2.0
"""Adds a new thing, such as a view, to copies of the files that it takes, and counts the edits. Tests are built with the copies."""

import pathlib
import shutil
import sys

MOST_EDITS = 3


def apply(what: str, edits: list[tuple[str, list[tuple[str, str]]]], edits_of_build: int = 0) -> None:
    """Writes the edited copies into the folder sys.argv[2]; sys.argv[1] has the sources.

    `edits` pairs each file with its additions: a line, and the lines that come after it. One file is one edit, and `edits_of_build` more
    are made in CMakeLists.txt. Exits with a message if these are too many, or if a file does not have a line exactly once.
    """
    source, output = map(pathlib.Path, sys.argv[1:])
    total = len(edits) + edits_of_build
    if total > MOST_EDITS:
        sys.exit(f"{what} takes {total} edits; at most {MOST_EDITS} are allowed")
    shutil.rmtree(output, ignore_errors=True)  # copies of files that the list no longer has
    for name, additions in edits:
        text = (source / name).read_text()
        for above, added in additions:
            if text.count(above) != 1:
                sys.exit(f"{what}: {name} has {text.count(above)} times the line '{above.strip()}', behind which the example belongs")
            text = text.replace(above, above + added)
        copy = output / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text)
