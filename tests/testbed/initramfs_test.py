#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The guest's files, read back by busybox's own cpio."""

import lzma
import os
import pathlib
import shutil
import stat
import subprocess
import tempfile
import unittest

import paths
from machine import initramfs
from machine.errors import Refused


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)


class Archive(Folder):
    def unpacked(self, data: bytes) -> pathlib.Path:
        target = self.folder / "unpacked"
        target.mkdir()
        subprocess.run(["/bin/busybox", "cpio", "-i", "-d", "-m"], input=data, cwd=target, check=True,
                       capture_output=True)
        return target

    def test_holds_files_folders_and_links(self):
        archive = initramfs.Archive()
        archive.file("/a/b/odd", b"123", 0o755)
        archive.file("/a/empty", b"")
        archive.folder("/a/b", 0o700)  # Is there: stays.
        archive.folder("/c")
        archive.link("/bin/sh", "busybox")
        root = self.unpacked(archive.finish())
        self.assertEqual((root / "a/b/odd").read_bytes(), b"123")
        self.assertEqual(stat.S_IMODE((root / "a/b/odd").stat().st_mode), 0o755)
        self.assertEqual(stat.S_IMODE((root / "a/b").stat().st_mode), 0o755)
        self.assertEqual((root / "a/empty").read_bytes(), b"")
        self.assertTrue((root / "c").is_dir())
        self.assertEqual((root / "bin/sh").readlink(), pathlib.Path("busybox"))

    def test_holds_devices(self):
        archive = initramfs.Archive()
        archive.character_device("/dev/console", 5, 1)
        data = archive.finish()
        name = data.index(b"dev/console\0")
        header = data[name - 110:name]
        self.assertEqual(header[:6], b"070701")
        mode, major, minor = (int(header[at:at + 8], 16) for at in (14, 78, 86))
        self.assertEqual((stat.S_IFMT(mode), major, minor), (stat.S_IFCHR, 5, 1))

    def test_ends_where_another_may_begin(self):
        for size in range(4):
            archive = initramfs.Archive()
            archive.file("/f" * (size + 1), bytes(size))
            self.assertEqual(len(archive.finish()) % 4, 0)

    def test_refuses_two_files_in_one_place(self):
        archive = initramfs.Archive()
        archive.file("/a", b"1")
        with self.assertRaisesRegex(Refused, "/a: two files would take this place"):
            archive.file("/a", b"2")

    def test_is_the_same_for_the_same_input(self):
        def made() -> bytes:
            archive = initramfs.Archive()
            archive.file("/x/y", b"z")
            return archive.finish()
        self.assertEqual(made(), made())


class Modules(Folder):
    def module(self, path: str, depends: str) -> bytes:
        file = self.folder / "kernel" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        data = f"{path}\0license=GPL\0depends={depends}\0".encode()
        file.write_bytes(lzma.compress(data) if path.endswith(".xz") else data)
        return data

    def test_come_after_what_they_depend_on_and_once(self):
        ring = self.module("virtio/virtio_ring.ko.xz", "virtio")
        base = self.module("virtio/virtio.ko", "")
        pci = self.module("virtio/virtio_pci.ko.xz", "virtio_ring,virtio")
        self.assertEqual(initramfs.modules_in_order(self.folder, ["virtio_pci", "virtio_ring"]),
                         [("virtio", base), ("virtio_ring", ring), ("virtio_pci", pci)])

    def test_that_are_built_in_are_left_out(self):
        base = self.module("a.ko", "built_in")
        self.assertEqual(initramfs.modules_in_order(self.folder, ["a", "other"]), [("a", base)])


class Base(Folder):
    def setUp(self):
        super().setUp()
        self.program = self.folder / "gups"
        shutil.copyfile("/bin/true", self.program)

    def test_holds_the_programs_with_their_libraries(self):
        base = initramfs.build_base(None, [self.program])
        listing = subprocess.run(["/bin/busybox", "cpio", "-t"], input=base, check=True,
                                 capture_output=True).stdout.decode().split()
        for path in ("init", "bin/busybox", "bin/sh", "dev/console", "usr/local/bin/gups",
                     "lib64/ld-linux-x86-64.so.2"):
            self.assertIn(path, listing)

    def test_is_kept_until_its_content_changes(self):
        first = initramfs.cached_base(None, [self.program], self.folder)
        made = first.stat().st_ino
        self.program.touch()
        again = initramfs.cached_base(None, [self.program], self.folder)
        self.assertEqual(again, first)
        self.assertEqual(again.stat().st_ino, made)
        shutil.copyfile("/bin/false", self.program)
        changed = initramfs.cached_base(None, [self.program], self.folder)
        self.assertNotEqual(changed, first)
        self.assertNotEqual(changed.read_bytes(), first.read_bytes())

    def test_goes_when_unused_for_a_day_and_another_is_made(self):
        first = initramfs.cached_base(None, [self.program], self.folder)
        yesterday_s = first.stat().st_mtime - 25 * 3600
        os.utime(first, (yesterday_s, yesterday_s))
        initramfs.cached_base(None, [self.program], self.folder)  # A use.
        initramfs.cached_base(None, [], self.folder)
        self.assertTrue(first.exists())
        os.utime(first, (yesterday_s, yesterday_s))
        initramfs.cached_base(None, [pathlib.Path("/bin/true")], self.folder)
        self.assertFalse(first.exists())


if __name__ == "__main__":
    unittest.main()
