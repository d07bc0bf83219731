#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the packages chosen for a kernel and the tree made of them, without fetching."""

import fcntl
import pathlib
import subprocess
import tarfile
import tempfile
import unittest

import paths
from machine import kernels
from machine.errors import Refused, Unavailable

RECORD = """\
Package: linux-headers-6.12.95+deb12-amd64
Version: 6.12.95-1~bpo12+1
Depends: linux-base (>= 4.12~), linux-headers-6.12.95+deb12-common (= 6.12.95-1~bpo12+1), \
linux-image-6.12.95+deb12-amd64 (= 6.12.95-1~bpo12+1) | linux-image-6.12.95+deb12-amd64-unsigned \
(= 6.12.95-1~bpo12+1), linux-kbuild-6.12.95+deb12, gcc-12
Suggests: linux-doc-6.12
"""


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)


class Dependencies(unittest.TestCase):
    def test_are_the_kernels_own_parts_by_their_first_alternative(self):
        self.assertEqual(kernels.kernel_dependencies(RECORD),
                         ["linux-headers-6.12.95+deb12-common", "linux-image-6.12.95+deb12-amd64",
                          "linux-kbuild-6.12.95+deb12"])

    def test_a_package_without_dependencies_has_none(self):
        self.assertEqual(kernels.kernel_dependencies("Package: x\nVersion: 1\n"), [])


class Unpacking(Folder):
    def test_leaves_headers_that_include_each_other_wherever_the_cache_moves(self):
        tree = self.folder / "tree"
        headers = tree / "usr/src/linux-headers-9-amd64"
        common = tree / "usr/src/linux-headers-9-common"
        modules = tree / "lib/modules/9-amd64"
        for path in (tree / "DEBIAN", headers, common, modules):
            path.mkdir(parents=True)
        (tree / "DEBIAN/control").write_text(
            "Package: p\nVersion: 1\nArchitecture: amd64\nMaintainer: n <n@example.org>\n"
            "Description: d\n", encoding="utf-8")
        (headers / "Makefile").write_text("include /usr/src/linux-headers-9-common/Makefile\n",
                                          encoding="utf-8")
        (common / "Makefile").write_text("all: ; @echo common of $(CURDIR)\n", encoding="utf-8")
        (modules / "build").symlink_to("/usr/src/linux-headers-9-amd64")
        partial = self.folder / "partial"
        partial.mkdir()
        package = self.folder / "p.deb"
        subprocess.run(["dpkg-deb", "--build", "--root-owner-group", tree, package], check=True,
                       capture_output=True)
        kernels.unpack([package], partial)

        moved = partial.rename(self.folder / "moved")
        build = moved / "lib/modules/9-amd64/build"
        self.assertEqual(build.resolve(), (moved / "usr/src/linux-headers-9-amd64").resolve())
        said = subprocess.run(["make", "-s", "-C", build], check=True, capture_output=True, text=True)
        self.assertRegex(said.stdout, "^common of .*/linux-headers-9-amd64$")


class Finding(Folder):
    def test_refuses_a_kernel_that_it_does_not_know(self):
        with self.assertRaisesRegex(Refused, "kernel '5.10': not one of 6.1, 6.12, debug"):
            kernels.find("5.10", self.folder)

    def test_says_what_to_set_for_the_debug_kernel(self):
        with self.assertRaisesRegex(Unavailable, "set TMPROF_DEBUG_KERNEL"):
            kernels.find("debug", self.folder)

    def test_finds_a_debug_kernel_that_was_built_in_the_cache(self):
        (self.folder / "debug-kernel").mkdir()
        with self.assertRaisesRegex(Unavailable, "debug-kernel/bzImage-debug is missing"):
            kernels.find("debug", self.folder)

    def test_names_the_file_that_a_debug_folder_lacks(self):
        (self.folder / "bzImage-debug").touch()
        with self.assertRaisesRegex(Unavailable, "headers-debug.tar.xz is missing"):
            kernels.find("debug", self.folder / "cache", self.folder)

    def test_unpacks_debug_headers_anew_when_the_archive_changes(self):
        (self.folder / "bzImage-debug").touch()
        archive = self.folder / "headers-debug.tar.xz"
        seen = []
        for content in ("one", "another"):
            source = self.folder / "source"
            source.write_text(content, encoding="utf-8")
            with tarfile.open(archive, "w:xz") as writer:
                writer.add(source, "headers-debug/Makefile")
            kernel = kernels.find("debug", self.folder / "cache", self.folder)
            self.assertEqual((kernel.headers / "Makefile").read_text(encoding="utf-8"), content)
            self.assertIsNone(kernel.modules)
            seen.append(kernel.headers)
        self.assertEqual((seen[0] / "Makefile").read_text(encoding="utf-8"), "one")


class Lock(Folder):
    def test_keeps_a_second_run_out(self):
        home = self.folder / "kernels" / "6.1"
        with kernels.locked(home), open(f"{home}.lock", "w", encoding="utf-8") as other:
            with self.assertRaises(BlockingIOError):
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with open(f"{home}.lock", "w", encoding="utf-8") as other:
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


if __name__ == "__main__":
    unittest.main()
