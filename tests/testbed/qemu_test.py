#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which QEMU runs tiersim, without fetching one."""

import pathlib
import tempfile
import unittest
import unittest.mock

import paths  # puts testbed/ into the path
from machine import qemu
from machine.errors import Unavailable


class Version(unittest.TestCase):
    def test_is_the_first_two_numbers_that_it_says(self):
        self.assertEqual(
            qemu.version_in("QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2+deb13u1~bpo12+1)\n"),
            (10, 0))
        self.assertEqual(qemu.version_in("QEMU emulator version 7.2.22\n"), (7, 2))

    def test_other_output_has_no_version(self):
        self.assertIsNone(qemu.version_in("busybox 1.35"))


class Choice(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def program(self, path: pathlib.Path, version: str, status: int = 0) -> pathlib.Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\necho 'QEMU emulator version {version}'\nexit {status}\n",
                        encoding="utf-8")
        path.chmod(0o755)
        return path

    def find(self, own: pathlib.Path | None) -> qemu.Qemu:
        with unittest.mock.patch("shutil.which", return_value=str(own) if own else None):
            return qemu.find(self.folder / "cache")

    def cached(self, version: str, status: int = 0) -> pathlib.Path:
        return self.program(self.folder / "cache/qemu/bookworm-backports/usr/bin/qemu-system-x86_64",
                            version, status)

    def test_is_the_hosts_if_it_is_new_enough(self):
        own = self.program(self.folder / "own", "10.1.0")
        self.assertEqual(self.find(own), qemu.Qemu(str(own)))

    def test_is_the_caches_with_its_own_files_if_the_hosts_is_old_or_there_is_none(self):
        cached = self.cached("10.0.2")
        share = str(cached.parents[1] / "share")
        for own in (self.program(self.folder / "own", "7.2.22"), None):
            with self.subTest(own):
                self.assertEqual(self.find(own), qemu.Qemu(
                    str(cached), ("-L", f"{share}/qemu", "-L", f"{share}/seabios")))

    def test_is_not_to_be_had_where_the_caches_does_not_start(self):
        self.cached("10.0.2", status=127)
        with self.assertRaisesRegex(Unavailable, "does not run here: 'ldd "):
            self.find(None)


if __name__ == "__main__":
    unittest.main()
