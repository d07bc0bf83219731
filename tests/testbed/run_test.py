#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How a machine's end is told, with fake_qemu for a machine."""

import io
import pathlib
import time
import unittest
from collections.abc import Callable

import paths
from machine import run
from machine.console import Kind

MARK = "0123456789abcdef"


class MarkedStream(unittest.TestCase):
    def test_passes_on_what_cannot_belong_to_the_mark_at_once(self):
        stream = run.MarkedStream(b"--END")
        self.assertEqual(stream.feed(b"a-b"), b"a-b")
        self.assertEqual(stream.feed(b"c--E"), b"c")
        self.assertEqual(stream.feed(b"Nx"), b"--ENx")
        self.assertFalse(stream.ended)

    def test_ends_at_the_mark_however_it_comes(self):
        for cut in range(6):
            stream = run.MarkedStream(b"--END")
            got = stream.feed(b"a-" + b"--END"[:cut]) + stream.feed(b"--END"[cut:] + b"behind")
            self.assertEqual((got, stream.ended), (b"a-", True))
            self.assertEqual(stream.feed(b"more"), b"")

    def test_gives_the_held_back_when_no_mark_came(self):
        stream = run.MarkedStream(b"--END")
        self.assertEqual(stream.feed(b"x--"), b"x")
        self.assertEqual(stream.rest(), b"--")


class Machine(unittest.TestCase):
    def play(self, name: str, patience: run.Patience = run.Patience(60),
             clock_s: Callable[[], float] = time.monotonic) -> run.Outcome:
        self.output, self.errors, self.files = io.BytesIO(), io.BytesIO(), io.BytesIO()
        self.log = io.BytesIO()
        follower = run.Follower(MARK, self.output, self.errors, self.files, self.log, None)
        nothing = pathlib.Path("/dev/null")
        machine = run.Machine(str(paths.HERE / "fake_qemu"), nothing, nothing, (), False,
                              f"mark={MARK} play={name}")
        return run.run(machine, follower, patience, clock_s)

    def test_that_finishes_passes_status_and_streams_on(self):
        outcome = self.play("finish")
        self.assertEqual((outcome.end, outcome.status), (run.End.FINISHED, 3))
        self.assertEqual(outcome.missing, ["/root/x"])
        self.assertEqual(self.output.getvalue(), b"output")
        self.assertEqual(self.errors.getvalue(), b"errors")
        self.assertEqual(self.files.getvalue(), b"files")
        self.assertEqual(self.log.getvalue(), f"[    1.000000] testbed: end {MARK}\n".encode())

    def test_whose_kernel_warned_says_so_though_the_command_succeeded(self):
        outcome = self.play("finish_after_warning")
        self.assertEqual((outcome.end, outcome.status), (run.End.FINISHED, 0))
        self.assertEqual(outcome.watch.first(Kind.COMPLAINT).text,
                         "WARNING: CPU: 0 PID: 1 at x.c:1")

    def test_that_refused_the_driver_says_so(self):
        self.assertEqual(self.play("refuse_driver").refusals, ["insmod did not load the driver"])

    def test_that_ends_early_gives_no_status_and_qemus_words(self):
        outcome = self.play("stop")
        self.assertEqual((outcome.end, outcome.status), (run.End.STOPPED, None))
        self.assertEqual(self.output.getvalue(), b"before")
        self.assertEqual(outcome.qemu_said, "fake_qemu: could not go on")

    def test_that_panics_is_fatal_whether_it_then_ends_or_stays(self):
        for name in ("panic_and_stop", "panic_and_stay"):
            with self.subTest(name):
                outcome = self.play(name, run.Patience(60, last_words_s=0.1))
                self.assertEqual((outcome.end, outcome.status), (run.End.FATAL, None))

    def test_whose_timer_the_kernel_refused_is_given_up_at_once(self):
        outcome = self.play("refuse_timer")
        self.assertEqual((outcome.end, outcome.status), (run.End.UNFIT, None))

    def test_that_hangs_is_asked_why_at_the_time_limit(self):
        # An hour passes with each line of the console, and none without: nothing waits for real time.
        outcome = self.play("hang", run.Patience(3600, answer_s=3600),
                            clock_s=lambda: 3600.0 * self.log.getvalue().count(b"\n"))
        self.assertEqual((outcome.end, outcome.status), (run.End.TIME_LIMIT, None))
        self.assertEqual(outcome.hang, ["[    1.000000] last words",
                                        "asked \x01bw", "asked \x01bl"])


class Command(unittest.TestCase):
    def command(self, has_hmat: bool, icount: bool = False) -> list[str]:
        file = pathlib.Path("k")
        return run.qemu_command(
            run.Machine("q", file, file, ("-m", "1M"), has_hmat, "more=1", icount),
            {"console": 3, "output": 4, "errors": 5, "init": 6, "files": 7})

    def test_gives_the_ports_the_numbers_that_the_guest_knows(self):
        line = " ".join(self.command(False))
        self.assertIn("-serial chardev:console", line)
        for number, name in ((1, "output"), (2, "errors"), (3, "init"), (4, "files")):
            self.assertIn(f"virtserialport,chardev={name},nr={number}", line)

    def test_turns_hmat_on_only_where_a_topology_fills_it(self):
        self.assertIn("q35", self.command(False))
        self.assertIn("q35,hmat=on", self.command(True))

    def test_counts_instructions_without_any_chance_only_when_asked_to(self):
        counted = " ".join(self.command(False, icount=True))
        for words in ("-icount shift=0,sleep=off", "-seed 1", "-rtc clock=vm,base=",
                      "-cpu max,-rdrand,-rdseed "):
            self.assertIn(words, counted)
        plain = self.command(False)
        self.assertFalse({"-icount", "-seed", "-rtc"} & set(plain))
        self.assertEqual(plain[plain.index("-cpu") + 1], "max")

    def test_lets_more_kernel_arguments_have_the_last_word(self):
        command = self.command(False)
        self.assertTrue(command[command.index("-append") + 1].endswith(" more=1"))


if __name__ == "__main__":
    unittest.main()
