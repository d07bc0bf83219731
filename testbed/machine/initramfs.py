# SPDX-License-Identifier: Apache-2.0
"""The guest's files: an uncompressed cpio archive in two segments, which the kernel unpacks in turn.

The first is what all runs of one build on one kernel share, kept by its content; the second is what a
single run brings along. Uncompressed, since under emulation unpacking costs more than copying.
"""

import contextlib
import hashlib
import io
import lzma
import os
import pathlib
import re
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterable

from machine import closure
from machine.errors import Refused, Unavailable

INIT = pathlib.Path(__file__).resolve().parent / "guest_init"
BUSYBOX = pathlib.Path("/bin/busybox")
# The guest's channels to the host; built into some kernels.
MODULES = ("virtio_pci", "virtio_console")
# Programs of a build that is gone: each rebuild leaves some 25 MB behind.
UNUSED_S = 24 * 3600
DEPENDS = re.compile(rb"\0depends=([^\0]*)\0")


class Archive:
    """A cpio archive in the making ("newc", Documentation/driver-api/early-userspace/
    buffer-format.rst). A file's folders are added by themselves; a path given again is refused."""

    def __init__(self) -> None:
        self._bytes = io.BytesIO()
        self._paths: set[str] = set()

    def folder(self, path: str, mode: int = 0o755) -> None:
        path = path.strip("/")
        if path and path not in self._paths:
            self.folder(os.path.dirname(path))
            self._add(path, stat.S_IFDIR | mode, b"")

    def file(self, path: str, data: bytes, mode: int = 0o644) -> None:
        self.folder(os.path.dirname(path))
        self._add(path, stat.S_IFREG | mode, data)

    def link(self, path: str, target: str) -> None:
        self.folder(os.path.dirname(path))
        self._add(path, stat.S_IFLNK | 0o777, target.encode())

    def character_device(self, path: str, major: int, minor: int) -> None:
        self.folder(os.path.dirname(path))
        self._add(path, stat.S_IFCHR | 0o600, b"", major, minor)

    def holds(self, path: str) -> bool:
        return path.strip("/") in self._paths

    def finish(self) -> bytes:
        """The whole archive, padded so that another may follow."""
        self._add("TRAILER!!!", 0, b"")
        return self._bytes.getvalue()

    def _add(self, path: str, mode: int, data: bytes, major: int = 0, minor: int = 0) -> None:
        path = path.strip("/")
        if path in self._paths:
            raise Refused(f"/{path}: two files would take this place in the guest")
        if len(data) > 0xFFFFFFFF:
            raise Refused(f"/{path}: {len(data)} bytes are more than an initramfs takes")
        self._paths.add(path)
        name = path.encode() + b"\0"
        # inode 0 with one link: no hard links. Owner root, time 0: the same input, the same bytes.
        fields = (0, mode, 0, 0, 1, 0, len(data), 0, 0, major, minor, len(name), 0)
        self._pad_to_4()
        self._bytes.write(b"070701" + b"".join(b"%08X" % field for field in fields) + name)
        self._pad_to_4()
        self._bytes.write(data)
        self._pad_to_4()

    def _pad_to_4(self) -> None:
        self._bytes.write(bytes(-self._bytes.tell() % 4))


def module_file(folder: pathlib.Path, name: str) -> pathlib.Path | None:
    """The file of a module in a Debian kernel; None: it is built in."""
    found = [*folder.glob(f"kernel/**/{name}.ko"), *folder.glob(f"kernel/**/{name}.ko.xz")]
    return found[0] if found else None


def module_bytes(file: pathlib.Path) -> bytes:
    data = file.read_bytes()
    return lzma.decompress(data) if file.suffix == ".xz" else data


def modules_in_order(folder: pathlib.Path, names: Iterable[str]) -> list[tuple[str, bytes]]:
    """The modules and what they depend on, in an order that insmod takes; built-in ones left out."""
    ordered: dict[str, bytes] = {}

    def visit(name: str) -> None:
        file = module_file(folder, name)
        if name in ordered or file is None:
            return
        data = module_bytes(file)
        match = DEPENDS.search(data)
        for dependency in match.group(1).decode().split(",") if match else []:
            if dependency:
                visit(dependency)
        ordered[name] = data

    for name in names:
        visit(name)
    return list(ordered.items())


def add_program(archive: Archive, place: str, data: bytes, file: pathlib.Path) -> None:
    """A program and, at the paths they have on this host, the libraries that file says it needs."""
    archive.file(place, data, 0o755)
    for library in closure.libraries(file):
        if not archive.holds(str(library)):
            archive.file(str(library), library.read_bytes(), 0o755)


def _stripped(file: pathlib.Path) -> bytes:
    """The program without its debug information, which is most of it and of no use in the guest."""
    with tempfile.NamedTemporaryFile() as copy:
        result = subprocess.run(["strip", "--strip-debug", "-o", copy.name, file],
                                capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise Refused(f"strip {file}: {' '.join(result.stderr.split())}")
        return pathlib.Path(copy.name).read_bytes()


def _busybox_commands() -> list[str]:
    try:
        listed = subprocess.run([BUSYBOX, "--list"], capture_output=True, text=True, check=True)
    except OSError as error:
        raise Unavailable(f"{BUSYBOX}: {error.strerror}. Install busybox-static.") from error
    if closure.libraries(BUSYBOX):
        raise Unavailable(f"{BUSYBOX} is linked dynamically. Install busybox-static.")
    return listed.stdout.split()


def build_base(modules: pathlib.Path | None, programs: list[pathlib.Path]) -> bytes:
    """Busybox, init, the channels' modules and the project's own programs."""
    archive = Archive()
    for folder in ("proc", "sys", "tmp", "root", "run", "mnt", "etc"):
        archive.folder(folder)
    # The kernel opens it for init before anything is mounted.
    archive.character_device("dev/console", 5, 1)
    archive.file("init", INIT.read_bytes(), 0o755)
    archive.file("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n")
    archive.file("etc/group", b"root:x:0:\nnogroup:x:65534:\n")
    archive.file("bin/busybox", BUSYBOX.read_bytes(), 0o755)
    for command in _busybox_commands():
        if command != "busybox":
            archive.link(f"bin/{command}", "busybox")
    ordered = modules_in_order(modules, MODULES) if modules else []
    for name, data in ordered:
        archive.file(f"lib/testbed/{name}.ko", data)
    archive.file("lib/testbed/modules", "".join(f"{name}\n" for name, _ in ordered).encode())
    for program in programs:
        add_program(archive, f"usr/local/bin/{program.name}", _stripped(program), program)
    return archive.finish()


def cached_base(modules: pathlib.Path | None, programs: list[pathlib.Path],
                cache: pathlib.Path) -> pathlib.Path:
    """The base segment as a file, made anew only when something that goes into it has changed."""
    digest = hashlib.sha256()
    inputs = [INIT, pathlib.Path(__file__), BUSYBOX, *programs]
    inputs += sorted({library for program in programs for library in closure.libraries(program)})
    for file in inputs:
        digest.update(f"{file}\0".encode())
        try:
            digest.update(hashlib.sha256(file.read_bytes()).digest())
        except OSError as error:
            raise Unavailable(f"{file}: {error.strerror}. tools/setup installs what is missing; "
                              "programs come from the build folder.") from error
    digest.update(str(modules.resolve() if modules else None).encode())
    kept = cache / "initramfs" / f"{digest.hexdigest()[:32]}.cpio"
    if kept.exists():
        os.utime(kept)
    else:
        kept.parent.mkdir(parents=True, exist_ok=True)
        for other in kept.parent.iterdir():
            with contextlib.suppress(FileNotFoundError):  # A concurrent run was faster.
                if time.time() - other.stat().st_mtime > UNUSED_S:
                    other.unlink()
        # Renamed into place, so that a concurrent run finds all of it or nothing.
        with tempfile.NamedTemporaryFile(dir=kept.parent, delete=False) as partial:
            partial.write(build_base(modules, programs))
        os.replace(partial.name, kept)
    return kept
