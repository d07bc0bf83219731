#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Refuses an #include that the house plan does not allow (CONTRIBUTING.md, "Layers"), and circles of includes.

Usage: tools/check_layers.py [ROOT]
Exit status: 0 all edges allowed, 1 a forbidden edge or a circle, 2 a folder that has no row in the table.
"""

import graphlib
import pathlib
import posixpath
import re
import sys

# room -> rooms whose headers it may include, besides its own. The longest matching prefix of a
# file's path is its room. A new edge is a design decision, stated in the commit that adds it.
EDGES = {
    "base": set(),
    "base/host": {"base"},
    "base/text": {"base"},
    "driver/uapi": set(),
    "driver/core": {"driver/uapi"},
    "driver": {"driver/uapi", "driver/core"},
    "rank": {"base"},
    "profiler": {"base", "base/host", "base/text", "driver/uapi", "driver/core", "profiler/sources/exact/plugin/format"},
    # It runs inside QEMU; the stream that it writes is all that the profiler knows of it.
    "profiler/sources/exact/plugin": {"profiler/sources/exact/plugin/format"},
    "profiler/sources/exact/plugin/format": set(),
    "policy": {"base"},
    "policy/replay": {"base", "policy", "proto", "rank"},
    "mover": {"base", "base/host"},
    "proto": {"base"},
    "report/analysis": {"base", "base/text", "proto", "rank", "policy/replay"},
    "report/render": {"base", "base/text", "rank", "policy/replay", "report/analysis"},
    "report": {"base", "base/text", "proto", "rank", "report/analysis", "report/render"},
    # The runtime and the tracker within programs, the pass, and the reader of what the tracker logs.
    "objects": {"base"},
    "objects/format": {"base", "proto", "objects"},
    "objects/analysis": {"base", "base/text", "proto", "rank", "report", "report/analysis", "objects", "objects/format"},
    "objects/commands": {"base", "base/host", "objects", "objects/format", "objects/analysis"},
    "locking": {"base", "base/host", "base/text", "proto", "rank", "report", "report/analysis"},
    "daemon": {"base"},
    "daemon/placement": {"base", "base/host", "daemon", "rank", "policy", "mover", "proto"},
    "daemon/control": {"base", "base/host", "base/text", "daemon", "rank", "mover"},
    "daemon/config": {"base", "base/text", "daemon", "daemon/placement", "daemon/control", "rank", "policy", "mover", "proto"},
    # Both programs say and ask for things by this. Neither includes the other's files.
    "apps/command_line": {"base", "base/text"},
    "apps/tmprof": {"base", "base/host", "base/text", "driver/uapi", "driver/core", "rank", "profiler", "policy", "policy/replay",
                    "mover", "proto", "report", "report/analysis", "report/render", "daemon/control", "apps/command_line"},
    # Parts of optional components: nothing else but them, and the tests of both, includes a component.
    "apps/tmprof/objects": {"base", "base/host", "base/text", "profiler", "proto", "report", "report/analysis", "objects",
                            "objects/format", "objects/analysis", "objects/commands", "apps/command_line", "apps/tmprof"},
    "apps/tmprof/locking": {"base", "base/text", "proto", "report/analysis", "locking", "apps/command_line", "apps/tmprof"},
    "apps/tmprofd": {"base", "base/host", "base/text", "driver/uapi", "driver/core", "rank", "profiler", "policy", "mover",
                     "proto", "daemon", "daemon/placement", "daemon/control", "daemon/config", "apps/command_line"},
    "testbed": {"driver/uapi"},
    # It runs inside QEMU, too, on the same models.
    "testbed/tiersim": {"testbed/tiersim/format", "profiler/sources/exact/plugin",
                        "profiler/sources/exact/plugin/format"},
    "testbed/tiersim/format": set(),
    # Runs in the guest's kernel.
    "testbed/vpmu": {"testbed/tiersim/format"},
    "testbed/workloads": set(),
    "bench": {"base", "base/host", "base/text", "driver/uapi", "driver/core", "rank", "profiler", "policy", "policy/replay",
              "proto", "report", "report/analysis", "testbed/workloads"},
    # Programs that compare ways of counting objects.
    "bench/objects_tree": {"objects"},
    "tests": {"base", "base/host", "base/text", "driver/uapi", "driver/core", "rank", "profiler", "policy", "policy/replay",
              "mover", "proto", "report", "report/analysis", "report/render", "daemon", "daemon/placement",
              "daemon/control", "daemon/config", "apps/command_line", "apps/tmprof", "apps/tmprofd", "testbed/workloads",
              "profiler/sources/exact/plugin", "profiler/sources/exact/plugin/format", "testbed/tiersim",
              "testbed/tiersim/format"},
    # A module that has the driver's walk in it.
    "tests/driver/changing_walk": {"driver"},
    "tests/objects": {"base", "base/host", "base/text", "proto", "report", "report/analysis", "objects", "objects/format",
                      "objects/analysis", "objects/commands", "tests"},
    "tests/apps/objects": {"base", "proto", "objects/format", "tests"},
    "tests/locking": {"base", "base/host", "base/text", "proto", "rank", "report/analysis", "locking", "tests"},
    "tests/fuzz": {"base", "driver/core", "profiler", "profiler/sources/exact/plugin/format", "proto", "objects/format",
                   "apps/tmprofd", "tests"},
}

# Generated protobuf headers stay behind proto/ and objects/format/.
PROTOBUF_HOMES = {"proto", "objects/format"}

SOURCES = {".c", ".cc", ".cpp", ".h"}
INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]')


def room_of(path: str) -> str | None:
    """The longest row of EDGES that is a prefix of the path."""
    rooms = [room for room in EDGES if path.startswith(room + "/")]
    return max(rooms, key=len, default=None)


def included_path(file_path: str, included: str) -> str:
    """The path from the root of the tree, however it is spelt."""
    if included.startswith("."):
        included = posixpath.join(posixpath.dirname(file_path), included)
    return posixpath.normpath(included)


def part_of(path: str) -> str:
    """A header and its source are one part, as is the header of what is inlined."""
    return re.sub(r"(\.bpf)?\.[a-z]+$", "", path).removesuffix("_fast")


def circle(parts: dict[str, set[str]]) -> list[str]:
    """Parts that include one another in a circle, if there are any."""
    try:
        graphlib.TopologicalSorter(parts).prepare()
    except graphlib.CycleError as error:
        return error.args[1][::-1]
    return []


def violations(root: pathlib.Path) -> list[str]:
    found = []
    parts: dict[str, set[str]] = {}
    for file in sorted(root.rglob("*")):
        path = file.relative_to(root).as_posix()
        if file.suffix not in SOURCES or path.startswith(("build/", ".")):
            continue
        room = room_of(path)
        if room is None:
            found.append(f"{path}: folder has no row in the table of tools/check_layers.py")
            continue
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
            match = INCLUDE.match(line)
            if not match:
                continue
            included = included_path(path, match.group(1))
            if part_of(included) != part_of(path):
                parts.setdefault(part_of(path), set()).add(part_of(included))
            if included.endswith(".pb.h") and room not in PROTOBUF_HOMES:
                found.append(f"{path}:{number}: {room} may not include generated '{included}'")
                continue
            target = room_of(included)
            if target and target != room and target not in EDGES[room]:
                found.append(f"{path}:{number}: {room} may not include '{included}' of {target}")
    round_trip = circle(parts)
    if round_trip:
        found.append("a circle of includes: " + " -> ".join(round_trip))
    return found


def main() -> int:
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    found = violations(root)
    for line in found:
        print(line, file=sys.stderr)
    if found:
        return 2 if any("no row" in line for line in found) else 1
    print(f"layers: every include of {len(EDGES)} rooms is allowed, and none is in a circle")
    return 0


if __name__ == "__main__":
    sys.exit(main())
