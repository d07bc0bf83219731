# SPDX-License-Identifier: Apache-2.0
"""Reads a kernel's console: finds the lines with which a kernel says that something is wrong."""

import collections
import dataclasses
import enum
import re

# "[    1.234567] " and, with CONFIG_PRINTK_CALLER, "[    1.234567][  T123] ". It tells the kernel's
# messages from what programs write to the console, which may also leave a line open before one.
TIME = re.compile(r"\[ *\d+\.\d{6}\](?:\[ *[TC]\d+\])? ")

# The patterns match at the start of a message. Thus "sh[7]: segfault", or a program named in a
# message, is not taken for the kernel's own complaint. A stack dump alone is no complaint: fault
# injection prints one for each failure that it was asked for.
FATAL = re.compile(
    r"Kernel panic - not syncing"                                # kernel/panic.c
    r"|Oops: |BUG: unable to handle |BUG: kernel NULL pointer "  # arch/x86/mm/fault.c
    r"|general protection fault, |invalid opcode: |double fault: |kernel BUG at ")
# The kernel holds the local APIC's timer against its own ticks unless the ACPI timer has vouched
# for it (arch/x86/kernel/apic/apic.c, calibrate_APIC_clock()). On a busy host the two may disagree.
# Then there are no high-resolution timers, and a task that sleeps on one CPU may not wake while the
# other is busy.
#
# An unknown breakpoint: QEMU 7.2 translates code on one CPU while another CPU writes to it, and may
# keep the old code for a moment. The kernel patches itself by way of breakpoints
# (arch/x86/kernel/alternative.c, text_poke_bp_batch()), for example when it finds its clock
# unstable on a busy host. It then dies of a breakpoint that it had removed.
UNFIT = re.compile(r"APIC timer disabled due to verification failure|(?:Oops: )?int3: ")
COMPLAINT = re.compile(
    r"WARNING: |BUG: "       # WARN(), lockdep, RCU; BUG: KASAN, sleeping in atomic, page state, …
    r"|\[ BUG: "             # lockdep: invalid wait context
    r"|BUG \S+ \(.*\): "     # mm/slub.c, object_err()
    r"|UBSAN: "
    r"|INFO: task .* blocked for more than "              # kernel/hung_task.c
    r"|INFO: trying to register non-static key"           # lockdep
    r"|rcu: INFO: .*(?:stall|starved)"
    r"|watchdog: BUG: "      # soft and hard lockups
    r"|kmemleak: \d+ new suspected memory leaks")


class Kind(enum.Enum):
    """FATAL: the kernel cannot go on. COMPLAINT: it goes on, but must not be trusted. UNFIT: the emulated
    machine was none that a kernel could run on; to be booted again."""
    FATAL = "fatal"
    COMPLAINT = "complaint"
    UNFIT = "unfit"


@dataclasses.dataclass(frozen=True)
class Finding:
    """line_number counts from 1, as in the console's log."""
    kind: Kind
    line_number: int
    text: str


def message_of(line: str) -> str | None:
    """The kernel's message in a line of the console, without its time; None where there is none."""
    times = list(TIME.finditer(line))
    return line[times[-1].end():] if times else None


def judge(message: str) -> Kind | None:
    """The kind of a kernel message."""
    if UNFIT.match(message):
        return Kind.UNFIT
    if FATAL.match(message):
        return Kind.FATAL
    return Kind.COMPLAINT if COMPLAINT.match(message) else None


class Watch:
    """Takes the console's bytes as they come. Keeps the findings and the last lines."""

    KEPT_LINES = 60  # A lockdep report of one cycle has about 50.

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.line_count = 0
        self._open_line = b""
        self._recent: collections.deque[str] = collections.deque(maxlen=self.KEPT_LINES)
        self._after_first: list[str] = []

    def feed(self, data: bytes) -> list[str]:
        """Judges the lines that data completes, and returns them."""
        *lines, self._open_line = (self._open_line + data).split(b"\n")
        texts = [line.decode("utf-8", "replace").rstrip("\r") for line in lines]
        for text in texts:
            self._judge(text)
        return texts

    def close(self) -> None:
        """The console has ended: judges a last line without an end, too."""
        if self._open_line:
            self.feed(b"\n")

    def first(self, kind: Kind) -> Finding | None:
        return next((finding for finding in self.findings if finding.kind == kind), None)

    def tail(self) -> list[str]:
        return list(self._recent)

    def report(self) -> list[str]:
        """The lines from the first finding on: the kernel's account of it."""
        return list(self._after_first)

    def _judge(self, text: str) -> None:
        self.line_count += 1
        self._recent.append(text)
        message = message_of(text)
        kind = judge(message) if message else None
        if kind:
            self.findings.append(Finding(kind, self.line_count, message))
        if self.findings and len(self._after_first) < self.KEPT_LINES:
            self._after_first.append(text)
