#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which libraries go into the guest with a program."""

import pathlib
import sys
import unittest

import paths
from machine import closure
from machine.errors import Refused

LDD = """\
\tlinux-vdso.so.1 (0x00007ffc8f1f0000)
\tlibfmt.so.9 => /lib/x86_64-linux-gnu/libfmt.so.9 (0x00007f0d3c000000)
\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f0d3be1f000)
\t/lib64/ld-linux-x86-64.so.2 (0x00007f0d3c1d2000)
"""


class Closure(unittest.TestCase):
    def test_is_libraries_and_loader_without_the_vdso(self):
        self.assertEqual([str(path) for path in closure.parse_ldd(LDD, "p")],
                         ["/lib/x86_64-linux-gnu/libfmt.so.9", "/lib/x86_64-linux-gnu/libc.so.6",
                          "/lib64/ld-linux-x86-64.so.2"])

    def test_refuses_a_program_whose_library_is_missing(self):
        with self.assertRaisesRegex(Refused, "p: library libzstd.so.1 is not on this host"):
            closure.parse_ldd("\tlibzstd.so.1 => not found\n", "p")

    def test_the_closure_of_a_dynamic_program_can_be_read(self):
        found = closure.libraries(pathlib.Path("/bin/ls"))
        self.assertIn("libc.so.6", [path.name for path in found])
        self.assertIn("ld-linux-x86-64.so.2", [path.name for path in found])
        for path in found:
            self.assertTrue(path.is_file(), path)

    def test_the_closure_of_a_static_program_is_empty(self):
        self.assertEqual(closure.libraries(pathlib.Path("/bin/busybox")), [])

    def test_the_closure_of_a_script_is_empty(self):
        self.assertEqual(closure.libraries(pathlib.Path(__file__)), [])


if __name__ == "__main__":
    unittest.main()
