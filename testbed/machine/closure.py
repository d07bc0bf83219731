# SPDX-License-Identifier: Apache-2.0
"""The shared libraries that a program needs to start. Libraries that it opens later are not seen."""

import pathlib
import re
import subprocess

from machine.errors import Refused

# "libz.so.1 => /lib/x86_64-linux-gnu/libz.so.1 (0x00007f…)" and "/lib64/ld-linux-x86-64.so.2 (0x…)".
FOUND = re.compile(r"\s+(?:\S+ => )?(/\S+) \(0x[0-9a-f]+\)")
MISSING = re.compile(r"\s+(\S+) => not found")


def parse_ldd(output: str, program: str) -> list[pathlib.Path]:
    """The paths in ldd's answer, loader included; the vDSO has none."""
    found = []
    for line in output.splitlines():
        missing = MISSING.fullmatch(line)
        if missing:
            raise Refused(f"{program}: library {missing.group(1)} is not on this host")
        match = FOUND.fullmatch(line)
        if match:
            found.append(pathlib.Path(match.group(1)))
    return found


def is_elf(file: pathlib.Path) -> bool:
    with open(file, "rb") as stream:
        return stream.read(4) == b"\x7fELF"


def libraries(file: pathlib.Path) -> list[pathlib.Path]:
    """None for what is not a dynamically linked ELF file: scripts, kernel modules, data."""
    if not is_elf(file):
        return []
    result = subprocess.run(["ldd", file.absolute()], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        if "not a dynamic executable" in result.stderr + result.stdout:
            return []
        raise Refused(f"ldd {file}: {' '.join(result.stderr.split())}")
    return parse_ldd(result.stdout, str(file))
