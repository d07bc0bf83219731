# SPDX-License-Identifier: Apache-2.0
"""Kernels to boot, each with its modules and the headers that out-of-tree modules build against.

Debian's kernels are fetched by apt into a cache, with a source list and state of their own: nothing is
installed, and apt checks every signature and checksum. The mirror is the one that the host's own apt
uses. Safe against concurrent runs: who comes second waits for the first and finds its result.
"""

import contextlib
import dataclasses
import fcntl
import hashlib
import pathlib
import re
import shutil
from collections.abc import Iterator

from machine import apt
from machine.errors import Refused, Unavailable

# Kernel -> the Debian suite that it comes from.
SUITES = {"6.1": "bookworm", "6.12": "bookworm-backports"}
DEBUG = "debug"
NAMES = (*SUITES, DEBUG)

ROOT_PACKAGES = ("linux-image-amd64", "linux-headers-amd64")
# Names of the packages that belong to the kernel, not to a system that would run it.
KERNEL_PACKAGE = re.compile(r"linux-(image|headers|kbuild)-[0-9]")


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A kernel on disk. modules is None where everything that the machine needs is built in."""
    name: str
    image: pathlib.Path
    headers: pathlib.Path
    modules: pathlib.Path | None


def find(name: str, cache: pathlib.Path, debug_folder: pathlib.Path | None = None) -> Kernel:
    """The kernel of that name, fetched or unpacked into the cache if it is not there yet.

    debug_folder: holds bzImage-debug and headers-debug.tar.xz, for "debug" only. None: debug-kernel in the cache.
    """
    if name == DEBUG:
        return _debug_kernel(cache, debug_folder)
    if name not in SUITES:
        raise Refused(f"kernel '{name}': not one of {', '.join(NAMES)}")
    home = cache / "kernels" / name
    with locked(home):
        if not home.is_dir():
            with becoming(home) as partial:
                state = partial / "apt"
                unpack(_download(SUITES[name], state), partial)
                shutil.rmtree(state)
    return _debian_kernel(name, home)


@contextlib.contextmanager
def locked(home: pathlib.Path) -> Iterator[None]:
    """Holds HOME.lock, so that of several runs one makes what all need."""
    home.parent.mkdir(parents=True, exist_ok=True)
    with open(home.with_name(home.name + ".lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def becoming(home: pathlib.Path) -> Iterator[pathlib.Path]:
    """A folder beside home that becomes home once the block is through, and only then."""
    partial = home.with_name(home.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    yield partial
    partial.rename(home)


def kernel_dependencies(record: str) -> list[str]:
    """The dependencies in a package's record that are parts of the kernel; first alternatives only.
    """
    found = []
    for line in record.splitlines():
        if line.startswith("Depends:"):
            for clause in line.removeprefix("Depends:").split(","):
                package = clause.split("|")[0].split("(")[0].strip()
                if KERNEL_PACKAGE.match(package):
                    found.append(package)
    return found


def _download(suite_name: str, state: pathlib.Path) -> list[pathlib.Path]:
    """The suite's kernel, headers and build tools as .deb files."""
    suite = apt.Suite(suite_name, state)
    wanted: list[str] = []
    pending = list(ROOT_PACKAGES)
    while pending:
        package = pending.pop()
        if package not in ROOT_PACKAGES:  # Those are empty and name the kernel of the day.
            wanted.append(package)
        pending += [name for name in kernel_dependencies(suite.record(package))
                    if name not in wanted + pending]
    return suite.download(sorted(wanted))


def unpack(packages: list[pathlib.Path], partial: pathlib.Path) -> None:
    """Unpacks the packages and makes their absolute paths relative, so that the cache may move."""
    for package in packages:
        apt.run(["dpkg-deb", "--extract", package, partial])
    # Debian's headers include the common part by its place in an installed system; the symbolic
    # links among them are relative, those of lib/modules/* are not.
    for makefile in partial.glob("usr/src/linux-headers-*-amd64/Makefile"):
        text = makefile.read_text(encoding="utf-8")
        here = "$(dir $(lastword $(MAKEFILE_LIST)))"
        makefile.write_text(text.replace("include /usr/src/", f"include {here}../"), encoding="utf-8")
    for folder in partial.glob("lib/modules/*"):
        for link in (folder / "build", folder / "source"):
            if link.is_symlink():
                target = link.readlink().name
                link.unlink()
                link.symlink_to(pathlib.Path("../../../usr/src") / target)


def _only(home: pathlib.Path, pattern: str) -> pathlib.Path:
    found = sorted(home.glob(pattern))
    if len(found) != 1:
        raise Refused(f"{home}: {len(found)} files match '{pattern}', expected one. Remove the "
                      "folder to have it made again.")
    return found[0]


def _debian_kernel(name: str, home: pathlib.Path) -> Kernel:
    return Kernel(name=name,
                  image=_only(home, "boot/vmlinuz-*"),
                  headers=_only(home, "usr/src/linux-headers-*-amd64"),
                  modules=_only(home, "lib/modules/*"))


def _debug_kernel(cache: pathlib.Path, folder: pathlib.Path | None) -> Kernel:
    if folder is None:
        folder = cache / "debug-kernel"
        if not folder.is_dir():
            raise Unavailable(f"kernel 'debug': 'testbed/build_debug_kernel {folder}' builds it; or set "
                              "TMPROF_DEBUG_KERNEL to a folder where it did")
    image = folder / "bzImage-debug"
    archive = folder / "headers-debug.tar.xz"
    for file in (image, archive):
        if not file.is_file():
            raise Unavailable(f"kernel 'debug': {file} is missing: TMPROF_DEBUG_KERNEL must name a "
                              "folder that testbed/build_debug_kernel made")
    status = archive.stat()
    origin = f"{archive.resolve()} {status.st_size} {status.st_mtime_ns}"
    # Headers of another archive get a folder of their own: a build may be using these.
    home = cache / "kernels" / f"{DEBUG}-{hashlib.sha256(origin.encode()).hexdigest()[:12]}"
    with locked(home):
        if not home.is_dir():
            with becoming(home) as partial:
                apt.run(["tar", "-C", partial, "-xf", archive], "Unpacking takes tar and xz.")
    return Kernel(name=DEBUG, image=image, headers=_only(home, "headers-debug"), modules=None)
