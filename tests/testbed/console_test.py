#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Complaints are found in consoles recorded from real kernels (consoles/; the build folder's path
and the run's mark shortened), and in lines that their sources print."""

import unittest

import paths
from machine import console
from machine.console import Finding, Kind

# File -> its first finding, read off the file by eye.
RECORDED = {
    "leak-debug": Finding(Kind.COMPLAINT, 17, "kmemleak: 16 new suspected memory leaks "
                                              "(see /sys/kernel/debug/kmemleak)"),
    "lock_order-debug": Finding(Kind.COMPLAINT, 25,
                                "WARNING: possible circular locking dependency detected"),
    "use_after_free-debug": Finding(Kind.COMPLAINT, 17,
                                    "BUG: KASAN: slab-use-after-free in "
                                    "complain_use_after_free+0x76/0x90 [complain]"),
    "shift-debug": Finding(Kind.COMPLAINT, 17, "UBSAN: shift-out-of-bounds in complain.c:68:2"),
    "sleep_in_atomic-debug": Finding(Kind.COMPLAINT, 17,
                                     "BUG: scheduling while atomic: insmod/73/0x00000002"),
    "warn-6.1": Finding(Kind.COMPLAINT, 14, "WARNING: CPU: 0 PID: 120 at complain.c:25 "
                                            "complain_warn+0x11/0x18 [complain]"),
    "warn-6.12": Finding(Kind.COMPLAINT, 10, "WARNING: CPU: 1 PID: 164 at complain.c:25 "
                                             "complain_warn+0x15/0xdb0 [complain]"),
    "overflow-6.12": Finding(Kind.COMPLAINT, 23, "BUG kmalloc-64 (Tainted: G           OE     ): "
                                                 "Object corrupt"),
    "hung_task-6.12": Finding(Kind.COMPLAINT, 8,
                              "INFO: task insmod:169 blocked for more than 4 seconds."),
    "soft_lockup-6.12": Finding(Kind.COMPLAINT, 7, "watchdog: BUG: soft lockup - CPU#0 stuck for "
                                                   "5s! [insmod:162]"),
    "rcu_stall-6.12": Finding(Kind.COMPLAINT, 7, "rcu: INFO: rcu_preempt self-detected stall on CPU"),
    "oops-6.1": Finding(Kind.FATAL, 11, "BUG: kernel NULL pointer dereference, "
                                        "address: 0000000000000000"),
    "oops-6.12": Finding(Kind.FATAL, 8, "BUG: kernel NULL pointer dereference, "
                                        "address: 0000000000000000"),
    "panic-6.1": Finding(Kind.FATAL, 10, "Kernel panic - not syncing: sysrq triggered crash"),
    "hang-6.1": None,  # A kernel that waits for good says nothing of it.
}


def watched(data: bytes, chunk_bytes: int) -> console.Watch:
    watch = console.Watch()
    for start in range(0, len(data), chunk_bytes):
        watch.feed(data[start:start + chunk_bytes])
    watch.close()
    return watch


class Recorded(unittest.TestCase):
    def test_first_finding_is_found_however_the_bytes_come(self):
        files = sorted((paths.HERE / "consoles").glob("*.log"))
        self.assertEqual([file.stem for file in files], sorted(RECORDED))
        for file in files:
            for chunk_bytes in (1, 7, 1 << 20):
                with self.subTest(file.stem, chunk_bytes=chunk_bytes):
                    watch = watched(file.read_bytes(), chunk_bytes)
                    # One of them was recorded on a busy host, whose machine was unfit besides.
                    first = next((finding for finding in watch.findings
                                  if finding.kind != Kind.UNFIT), None)
                    self.assertEqual(first, RECORDED[file.stem])

    def test_serial_line_ends_change_nothing(self):
        data = (paths.HERE / "consoles" / "warn-6.1.log").read_bytes().replace(b"\n", b"\r\n")
        self.assertEqual(watched(data, 64).findings, [RECORDED["warn-6.1"]])


class Lines(unittest.TestCase):
    def kind(self, message: str) -> Kind | None:
        watch = console.Watch()
        watch.feed(f"[   12.345678] {message}\n".encode())
        return watch.findings[0].kind if watch.findings else None

    def test_that_are_fatal(self):
        for message in (
                "BUG: unable to handle page fault for address: ffffffffc0232fdd",
                "general protection fault, probably for non-canonical address 0xdead: 0000 [#1] SMP",
                "Oops: general protection fault, probably for non-canonical address 0x1: 0000 [#1]",
                "kernel BUG at mm/slub.c:435!",
                "invalid opcode: 0000 [#1] PREEMPT SMP NOPTI",
                "double fault: 0000 [#1] PREEMPT SMP"):
            with self.subTest(message):
                self.assertEqual(self.kind(message), Kind.FATAL)

    def test_that_are_complaints(self):
        for message in (
                "WARNING: suspicious RCU usage",
                "WARNING: inconsistent lock state",
                "WARNING: sh/70 still has locks held!",
                "BUG: sleeping function called from invalid context at mm/slab.h:420",
                "BUG: using smp_processor_id() in preemptible [00000000] code: sh/70",
                "BUG: Bad page state in process sh  pfn:12345",
                "BUG: workqueue lockup - pool cpus=0 node=0 flags=0x0 nice=0 stuck for 40s!",
                "[ BUG: Invalid wait context ]",
                "INFO: trying to register non-static key.",
                "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
                "rcu: INFO: rcu_preempt detected expedited stalls on CPUs/tasks: { 0-... }"):
            with self.subTest(message):
                self.assertEqual(self.kind(message), Kind.COMPLAINT)

    def test_that_say_that_the_machine_is_unfit(self):
        for message in ("APIC timer disabled due to verification failure",
                        "Oops: int3: 0000 [#1] PREEMPT SMP KASAN", "int3: 0000 [#1] PREEMPT SMP NOPTI"):
            with self.subTest(message):
                self.assertEqual(self.kind(message), Kind.UNFIT)

    def test_that_are_neither(self):
        for message in (
                "mtrr: your CPUs had inconsistent fixed MTRR settings",
                "FAULT_INJECTION: forcing a failure.",
                "Call Trace:",
                "sh[70]: segfault at 0 ip 0000000000401136 sp 00007ffd error 6",
                "traps: sh[70] general protection fault ip:401136 sp:7ffd error:0",
                "INFO: NMI handler (nmi_cpu_backtrace_handler) took too long to run: 2.470 msecs",
                "kmemleak: Kernel memory leak detector initialized (mem pool available: 39000)",
                "echo: WARNING: said a program",
                "Warning: unable to open an initial console."):
            with self.subTest(message):
                self.assertIsNone(self.kind(message))

    def test_without_a_time_are_not_the_kernels(self):
        watch = console.Watch()
        watch.feed(b"WARNING: a program's own\nKernel panic - not syncing\n")
        self.assertEqual(watch.findings, [])

    def test_are_found_behind_what_a_program_left_open(self):
        watch = console.Watch()
        watch.feed(b"half a line[    1.000000] BUG: Bad page state in process sh  pfn:1\n")
        self.assertEqual(watch.findings,
                         [Finding(Kind.COMPLAINT, 1, "BUG: Bad page state in process sh  pfn:1")])

    def test_may_name_the_caller(self):
        watch = console.Watch()
        watch.feed(b"[    1.000000][   T70] WARNING: suspicious RCU usage\n")
        self.assertEqual(watch.findings, [Finding(Kind.COMPLAINT, 1, "WARNING: suspicious RCU usage")])

    def test_count_though_the_console_broke_off_inside(self):
        self.assertEqual(len(watched(b"[    1.000000] Kernel panic - not syncing: x", 100).findings), 1)


class Excerpts(unittest.TestCase):
    def test_report_starts_at_the_first_finding(self):
        watch = watched((paths.HERE / "consoles" / "panic-6.1.log").read_bytes(), 512)
        self.assertTrue(watch.report()[0].endswith("sysrq triggered crash"))

    def test_tail_keeps_the_last_lines(self):
        watch = console.Watch()
        watch.feed(b"".join(b"line %d\n" % number for number in range(1000)))
        self.assertEqual(watch.tail(), [f"line {number}" for number in range(940, 1000)])


if __name__ == "__main__":
    unittest.main()
