#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""testbed/vm around the machine: its arguments, the files in and out, its exit status."""

import argparse
import contextlib
import importlib.machinery
import importlib.util
import io
import os
import pathlib
import subprocess
import tarfile
import tempfile
import unittest
import unittest.mock

import paths
from machine import initramfs
from machine.console import Watch
from machine.errors import Refused
from machine.run import End, Outcome

loader = importlib.machinery.SourceFileLoader("vm", str(paths.TESTBED / "vm"))
vm = importlib.util.module_from_spec(importlib.util.spec_from_loader("vm", loader))
loader.exec_module(vm)

LOG = pathlib.Path("console.log")
WARNING = b"[    1.000000] WARNING: CPU: 0 PID: 1 at x.c:1\n"
PANIC = b"[    2.000000] Kernel panic - not syncing: y\n"


class Status(unittest.TestCase):
    def conclude(self, end: End, status: int | None, console: bytes = b"", missing=(),
                 refusals=()) -> int:
        watch = Watch()
        watch.feed(console)
        self.said = io.StringIO()
        with contextlib.redirect_stderr(self.said):
            return vm.conclude(
                Outcome(end, status, list(missing), list(refusals), watch, ["blocked"], "no CPU"),
                argparse.Namespace(time_limit=7.0), LOG)

    def test_is_the_commands_own_when_nothing_went_wrong(self):
        for status in (0, 1, 3, 137):
            self.assertEqual(self.conclude(End.FINISHED, status), status)
            self.assertEqual(self.said.getvalue(), "")

    def test_a_complaint_outweighs_the_commands_status(self):
        for status in (0, 3):
            self.assertEqual(self.conclude(End.FINISHED, status, b"[    0.1] x\n" + WARNING), 120)
        self.assertIn("vm: the kernel complained: WARNING: CPU: 0 PID: 1 at x.c:1 (console.log:2)\n",
                      self.said.getvalue())

    def test_a_death_outweighs_a_complaint_and_both_are_reported(self):
        self.assertEqual(self.conclude(End.FATAL, None, WARNING + PANIC), 121)
        self.assertIn("complained: WARNING", self.said.getvalue())
        self.assertTrue(self.said.getvalue().endswith(
            "vm: the kernel died: Kernel panic - not syncing: y (console.log:2)\n"))

    def test_a_stopped_machine_is_reported_with_qemus_words(self):
        self.assertEqual(self.conclude(End.STOPPED, None), 122)
        self.assertIn("no CPU", self.said.getvalue())

    def test_a_hang_is_reported_with_what_hangs(self):
        self.assertEqual(self.conclude(End.TIME_LIMIT, None), 124)
        self.assertEqual(self.said.getvalue(),
                         "  blocked\nvm: time limit of 7 s reached (console.log)\n")

    def test_a_host_too_busy_for_a_machine_has_a_status_of_its_own(self):
        refused = b"[    2.700000] APIC timer disabled due to verification failure\n"
        self.assertEqual(self.conclude(End.UNFIT, None, refused), 122)
        self.assertIn("unfit", self.said.getvalue())

    def test_tells_of_a_missing_file_only_where_the_command_succeeded(self):
        self.assertEqual(self.conclude(End.FINISHED, 0, missing=["/root/x"]), 123)
        self.assertIn("--get /root/x: not there", self.said.getvalue())
        self.assertEqual(self.conclude(End.FINISHED, 3, missing=["/root/x"]), 3)
        self.assertIn("--get /root/x: not there", self.said.getvalue())

    def test_a_refused_driver_has_a_status_of_its_own(self):
        self.assertEqual(self.conclude(End.FINISHED, 1, refusals=["insmod did not load it"]), 125)


class CommandLine(unittest.TestCase):
    def run_vm(self, *arguments: str) -> tuple[int, str]:
        environment = {name: value for name, value in os.environ.items()
                       if name != "TMPROF_DEBUG_KERNEL"}
        with tempfile.TemporaryDirectory() as cache:
            result = subprocess.run([paths.TESTBED / "vm", "--cache", cache, *arguments],
                                    capture_output=True, text=True, check=False, env=environment)
        return result.returncode, result.stderr.splitlines()[-1]

    def test_refuses_what_cannot_be(self):
        for arguments, message in (
                (("--kernel", "5.10", "--", "true"), "invalid choice"),
                (("--kernel", "6.1"), "COMMAND"),
                (("--kernel", "6.1", "--topology", "none", "--", "true"),
                 "vm: --topology none: not one of dram-cxl, three-expanders, three-tier, "
                 "two-socket-cxl"),
                (("--kernel", "6.1", "--cpus", "0", "--", "true"), "vm: --cpus 0: at least 1"),
                (("--kernel", "6.1", "--cpus", "2", "--icount", "--", "true"),
                 "vm: --cpus 2: 1 with --icount"),
                (("--kernel", "6.1", "--truth", "t", "--", "true"),
                 "vm: --truth: there is none without --tiersim"),
                (("--kernel", "6.1", "--tiersim=llc=1", "--", "true"), "vm: --tiersim: 'llc=1': not"),
                (("--kernel", "6.1", "--tiersim", "--build", "/", "--", "true"),
                 "vm: /tiersim.so: there is none"),
                (("--kernel", "6.1", "--tiersim", "--truth", "/nowhere/t", "--", "true"),
                 "vm: --truth /nowhere/t: no file can be written there"),
                (("--kernel", "6.1", "--tiersim", "--truth", "/tmp", "--", "true"),
                 "vm: --truth /tmp: no file can be written there"),
                (("--kernel", "6.1", "--tiersim", "--build", "/", "--truth", "t.data", "--", "true"),
                 "vm: --truth t.data: /tmprof makes a trace of it, and is no program"),
                (("--kernel", "6.1", "--memory", "much", "--", "true"), "vm: memory size 'much'")):
            with self.subTest(arguments):
                status, said = self.run_vm("--qemu", "/bin/true", *arguments)
                self.assertEqual(status, 125)
                self.assertIn(message, said)

    def parse(self, *arguments: str) -> argparse.Namespace:
        with unittest.mock.patch("sys.argv", ["vm", "--kernel", "6.1", *arguments, "--", "true"]):
            return vm.parse_arguments()

    def test_has_the_tiered_machine_count_instructions_unless_its_clock_is_only_reported(self):
        for arguments, icount, cpus in (
                (["--tiersim"], True, 1), (["--tiersim=llc_kib=64"], True, 1),
                (["--tiersim=clock=report"], False, 2), (["--tiersim", "--no-icount"], False, 2),
                (["--tiersim=clock=report", "--icount"], True, 1), ([], False, 2)):
            with self.subTest(arguments):
                options = self.parse(*arguments)
                self.assertEqual((options.icount, options.cpus), (icount, cpus))

    def test_gives_the_tiered_machine_no_huge_pages_unless_told_to(self):
        for arguments, thp, kernel_arguments in (
                ([], None, ""), (["--tiersim"], "never", "transparent_hugepage=never"),
                (["--tiersim", "--thp", "always"], "always", "transparent_hugepage=always"),
                (["--thp", "madvise", "--append", "a=1"], "madvise", "transparent_hugepage=madvise a=1"),
                (["--tiersim", "--append", "transparent_hugepage=always"], "always",
                 "transparent_hugepage=always transparent_hugepage=always")):
            with self.subTest(arguments):
                options = self.parse(*arguments)
                self.assertEqual((options.thp, options.kernel_arguments), (thp, kernel_arguments))

    def test_says_what_huge_pages_do_to_the_modelled_dtlb(self):
        for arguments, warned in ((["--thp", "always"], True), ([], False)):
            with self.subTest(arguments), tempfile.TemporaryDirectory() as cache:
                result = subprocess.run(
                    [paths.TESTBED / "vm", "--cache", cache, "--qemu", "/bin/true", "--kernel", "6.1",
                     "--build", "/", "--tiersim", *arguments, "--", "true"],
                    capture_output=True, text=True, check=False)
                self.assertEqual("takes a huge page for 512 pages" in result.stderr, warned)

    def test_gives_a_machine_that_counts_instructions_one_cpu_and_others_two(self):
        for arguments, cpus in ((["--icount"], "1"), ([], "2"), (["--cpus", "1", "--icount"], "1")):
            with self.subTest(arguments):
                sys_argv = ["vm", "--kernel", "6.1", *arguments, "--", "true"]
                with unittest.mock.patch("sys.argv", sys_argv):
                    machine = vm.machine_arguments(vm.parse_arguments())
                self.assertEqual(machine[machine.index("-smp") + 1], cpus)

    def test_says_what_is_missing_on_this_host(self):
        status, said = self.run_vm("--kernel", "6.1", "--qemu", "/nowhere/qemu", "--", "true")
        self.assertEqual((status, said), (119, "vm: not available here: /nowhere/qemu: not found. "
                                               "Install qemu-system-x86, or name one with --qemu."))
        status, said = self.run_vm("--kernel", "debug", "--qemu", "/bin/true", "--", "true")
        self.assertEqual(status, 119)
        self.assertIn("set TMPROF_DEBUG_KERNEL", said)


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)


class TruthAsATrace(Folder):
    def boot(self, converter: str, status: int | None, console: bytes = b"", end: End = End.FINISHED,
             stream: str = "counts") -> int:
        """With a machine that ends so and leaves this stream, and a shell script for tmprof."""
        build = self.folder / "build"
        build.mkdir()
        (build / "tiersim.so").touch()
        (build / "tmprof").write_text(f"#!/bin/sh\n{converter}\n")
        (build / "tmprof").chmod(0o755)
        some_file = self.folder / "some_file"
        some_file.touch()
        self.trace = self.folder / "truth.data"

        def run_machine(machine, _follower, _patience) -> Outcome:
            plugin = next(word for word in machine.machine_arguments if "tiersim.so" in word)
            pathlib.Path(plugin.partition(",truth=")[2].partition(",")[0]).write_text(stream)
            watch = Watch()
            watch.feed(console)
            return Outcome(end, status, [], [], watch, [], "")

        arguments = ["vm", "--kernel", "6.1", "--tiersim", "--qemu", "/bin/true", "--build", str(build), "--cache",
                     str(self.folder), "--truth", str(self.trace), "--", "true"]
        errors = self.folder / "errors"
        with (unittest.mock.patch("sys.argv", arguments),
              unittest.mock.patch.object(vm.kernels, "find", return_value=argparse.Namespace(
                  name="6.1", modules=[], image=some_file)),
              unittest.mock.patch.object(vm.modules, "build", return_value=some_file),
              unittest.mock.patch.object(vm.initramfs, "cached_base", return_value=some_file),
              unittest.mock.patch.object(vm.run, "run", run_machine),
              open(errors, "w", encoding="utf-8") as written, contextlib.redirect_stderr(written)):
            ended_with = vm.boot(vm.parse_arguments())
        self.said = errors.read_text(encoding="utf-8")
        return ended_with

    def stream(self) -> pathlib.Path:
        return self.folder / "truth.data.stream"

    def test_is_made_of_the_stream(self):
        self.assertEqual(self.boot('cp "$2" "$6"', status=0), 0)
        self.assertEqual(self.trace.read_text(), "counts")
        self.assertFalse(self.stream().exists())

    def test_that_cannot_be_made_leaves_the_stream(self):
        self.assertEqual(self.boot("echo what is wrong >&2; exit 2", status=0), 125)
        self.assertIn("what is wrong\n", self.said)
        self.assertIn("convert ended with status 2; the stream that it was to read is "
                      f"{self.stream()}\n", self.said)
        self.assertEqual(self.stream().read_text(), "counts")

    def test_that_cannot_be_made_hides_no_status(self):
        self.assertEqual(self.boot("exit 2", status=3), 3)
        self.assertIn("convert ended with status 2", self.said)

    def test_that_cannot_be_made_hides_no_complaint(self):
        self.assertEqual(self.boot("exit 2", status=0, console=WARNING), 120)
        self.assertIn("vm: the kernel complained: WARNING", self.said)

    def test_a_run_that_did_not_end_is_left_as_its_stream(self):
        self.assertEqual(self.boot('cp "$2" "$6"', status=None, end=End.TIME_LIMIT), 124)
        self.assertFalse(self.trace.exists())
        self.assertEqual(self.stream().read_text(), "counts")
        self.assertIn(f"for tmprof convert, is {self.stream()}\n", self.said)

    def test_an_interrupted_run_leaves_the_stream(self):
        def interrupt(*_):
            raise KeyboardInterrupt

        with unittest.mock.patch.object(vm, "conclude", interrupt), self.assertRaises(KeyboardInterrupt):
            self.boot('cp "$2" "$6"', status=0)
        self.assertEqual(self.stream().read_text(), "counts")


class FilesIn(Folder):
    def put(self, *arguments: str) -> initramfs.Archive:
        archive = initramfs.Archive()
        for argument in arguments:
            vm.put(archive, argument)
        return archive

    def test_go_where_they_are_told_or_home(self):
        file = self.folder / "data"
        file.write_bytes(b"x")
        archive = self.put(str(file), f"{file}:/etc/other")
        self.assertTrue(archive.holds("/root/data"))
        self.assertTrue(archive.holds("/etc/other"))

    def test_that_are_programs_bring_their_libraries(self):
        self.assertTrue(self.put("/bin/ls").holds("/lib64/ld-linux-x86-64.so.2"))

    def test_that_are_folders_come_whole(self):
        (self.folder / "a/b").mkdir(parents=True)
        (self.folder / "a/b/c").write_bytes(b"")
        archive = self.put(f"{self.folder / 'a'}:/srv")
        self.assertTrue(archive.holds("/srv/b/c"))

    def test_must_exist_and_go_to_an_absolute_path(self):
        with self.assertRaisesRegex(Refused, "there is no /nowhere/x"):
            self.put("/nowhere/x")
        with self.assertRaisesRegex(Refused, "etc/x is not an absolute path"):
            self.put(f"{self.folder}:etc/x")


class FilesOut(Folder):
    def copy_out(self, members: dict[str, bytes], *arguments: str) -> None:
        archive = self.folder / "get.tar"
        with tarfile.open(archive, "w") as writer:
            for name, data in members.items():
                info = tarfile.TarInfo(name)
                info.size, info.mode = len(data), 0o750
                writer.addfile(info, io.BytesIO(data))
        vm.copy_out(archive, list(arguments))

    def test_are_named_from_the_root_or_from_home(self):
        self.assertEqual(vm.guest_path("/var/x"), "var/x")
        self.assertEqual(vm.guest_path("x/../y:/elsewhere"), "root/y")
        with self.assertRaises(Refused):
            vm.guest_path("/")

    def test_go_to_the_path_given_or_into_the_folder_given(self):
        into = self.folder / "into"
        into.mkdir()
        self.copy_out({"root/x": b"1"}, f"x:{self.folder / 'y'}", f"x:{into}")
        self.assertEqual((self.folder / "y").read_bytes(), b"1")
        self.assertEqual((self.folder / "y").stat().st_mode & 0o777, 0o750)
        self.assertEqual((into / "x").read_bytes(), b"1")

    def test_files_of_a_folder_come_whole_and_its_namesakes_not_at_all(self):
        self.copy_out({"root/d/a/b": b"1", "root/dd": b"2"}, f"d:{self.folder / 'out'}")
        self.assertEqual((self.folder / "out/a/b").read_bytes(), b"1")
        self.assertEqual([path.name for path in (self.folder / "out").iterdir()], ["a"])

    def test_never_leave_the_path_given(self):
        self.copy_out({"root/d/../../escaped": b"1"}, f"d:{self.folder / 'out'}")
        self.assertEqual([path.name for path in self.folder.iterdir()], ["get.tar"])


if __name__ == "__main__":
    unittest.main()
