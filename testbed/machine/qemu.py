# SPDX-License-Identifier: Apache-2.0
"""The QEMU that runs tiersim: the host's, or Debian's from backports, fetched like a kernel.

tiersim reads registers and replaces clock functions, for which older releases have no interface.
"""

import dataclasses
import pathlib
import re
import shutil
import subprocess

from machine import apt
from machine.errors import Unavailable
from machine.kernels import becoming, locked

SUITE = "bookworm-backports"
PACKAGES = ("qemu-system-x86", "qemu-system-data", "seabios")
PROGRAM = "qemu-system-x86_64"
# Plugin API 4 came with 9.1; 10.0 is what tiersim was written for.
LEAST_VERSION = (10, 0)
VERSION = re.compile(r"QEMU emulator version (\d+)\.(\d+)")


@dataclasses.dataclass(frozen=True)
class Qemu:
    """arguments: what tells it where its own files are."""
    program: str
    arguments: tuple[str, ...] = ()


def version_in(said: str) -> tuple[int, int] | None:
    """Reads the version from the output of --version."""
    match = VERSION.search(said)
    return (int(match.group(1)), int(match.group(2))) if match else None


def _runs(program: str | pathlib.Path) -> tuple[int, int] | None:
    """Its version; None if it does not start here."""
    try:
        result = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return version_in(result.stdout) if result.returncode == 0 else None


def find(cache: pathlib.Path) -> Qemu:
    """The host's own if it is new enough, else that of the cache, fetched if it is not there yet."""
    own = shutil.which(PROGRAM)
    if own and (_runs(own) or (0, 0)) >= LEAST_VERSION:
        return Qemu(own)
    home = (cache / "qemu" / SUITE).absolute()
    with locked(home):
        if not home.is_dir():
            with becoming(home) as partial:
                state = partial / "apt"
                for package in apt.Suite(SUITE, state).download(list(PACKAGES)):
                    apt.run(["dpkg-deb", "--extract", package, partial])
                shutil.rmtree(state)
    program = home / "usr/bin" / PROGRAM
    if (_runs(program) or (0, 0)) < LEAST_VERSION:
        raise Unavailable(f"{program} does not run here: 'ldd {program}' says which libraries it "
                          "misses. Installing the host's qemu-system-x86 brings most of them.")
    share = home / "usr/share"
    return Qemu(str(program), ("-L", str(share / "qemu"), "-L", str(share / "seabios")))
