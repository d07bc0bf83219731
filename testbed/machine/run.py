# SPDX-License-Identifier: Apache-2.0
"""Boots a prepared guest in QEMU, follows it to its end and says how it ended.

One virtio-serial port each carries the command's standard output, its standard error, what the guest's
init says, and the files to copy out; the serial port carries the kernel's console, since it works up to
a panic's last line. virtio-serial because it is the fastest channel that both stock kernels and the
debug kernel have, with two modules at most; 9p would need three, and QEMU to write files itself. Files
go in through the initramfs: the guest's memory is the fastest channel of all.
"""

import contextlib
import dataclasses
import enum
import os
import pathlib
import selectors
import socket
import subprocess
import time
from collections.abc import Callable
from typing import BinaryIO

from machine import console
from machine.errors import Unavailable

KERNEL_ARGUMENTS = " ".join((
    "console=ttyS0,115200", "printk.time=1", "loglevel=5",
    # Ends a panic by a reset, which ends QEMU; a guest that lost a thread to an oops is of no use.
    "panic=-1", "oops=panic",
    # The guest's clock runs on while the host's CPUs are busy with something else: three times the
    # usual patience before that is taken for a lockup (10 s) or a stall (21 s).
    "watchdog_thresh=30", "rcupdate.rcu_cpu_stall_timeout=63",
    # A CPU that is stuck for twice that time seldom comes free, and the time limit may be far off.
    "softlockup_panic=1"))
# Keys that question a hanging kernel: SysRq w lists the blocked tasks, l each CPU's stack. Ctrl-A b
# is a serial break to QEMU's multiplexer; a key that comes right after it is a SysRq
# (drivers/tty/serial/serial_core.c). A second break would overtake the first key: they take turns.
QUESTIONS = (b"\x01bw", b"\x01bl")
READ_BYTES = 1 << 16
# An instruction takes 1 ns of guest time (shift=0), waiting none of the host's (sleep=off: idle guests
# jump to their next timer), and two runs differ by nothing but what comes in from outside.
ICOUNT_ARGUMENTS = ("-icount", "shift=0,sleep=off", "-seed", "1", "-rtc", "clock=vm,base=2026-01-01")


@dataclasses.dataclass(frozen=True)
class Patience:
    """Limits of a machine's time. limit_s: from power-on to COMMAND's end. last_words_s: for a
    dying kernel to print the rest. answer_s: for a hanging one to answer each question."""
    limit_s: float
    last_words_s: float = 5
    answer_s: float = 2


class End(enum.Enum):
    """The way in which the machine ended, whatever COMMAND's status."""
    FINISHED = "finished"      # COMMAND came to its end
    STOPPED = "stopped"        # the machine ended before COMMAND did
    FATAL = "fatal"            # oops or panic
    TIME_LIMIT = "time limit"
    UNFIT = "unfit"            # no fault of the kernel's (console.UNFIT); COMMAND may have begun


@dataclasses.dataclass
class Outcome:
    """status: COMMAND's, None unless FINISHED. missing: paths to copy out that were not there.
    refusals: what init could not do. hang: with TIME_LIMIT, the console's tail and the
    kernel's answer to what hangs."""
    end: End
    status: int | None
    missing: list[str]
    refusals: list[str]
    watch: console.Watch
    hang: list[str]
    qemu_said: str


class MarkedStream:
    """A stream of bytes that ends with a mark."""

    def __init__(self, mark: bytes) -> None:
        self._mark = mark
        self._held = b""
        self.ended = False

    def feed(self, data: bytes) -> bytes:
        """Takes data and returns the part of the stream that is now known to stand before the mark.
        """
        if self.ended:
            return b""
        data = self._held + data
        at = data.find(self._mark)
        if at >= 0:
            self.ended = True
            self._held = b""
            return data[:at]
        keep = next((size for size in range(min(len(self._mark) - 1, len(data)), 0, -1)
                     if self._mark.startswith(data[-size:])), 0)
        self._held = data[len(data) - keep:]
        return data[:len(data) - keep]

    def rest(self) -> bytes:
        """The bytes held back as the possible start of a mark that never came."""
        held, self._held = self._held, b""
        return held


@dataclasses.dataclass(frozen=True)
class Machine:
    """machine_arguments: -m, -smp and the NUMA layout. icount: guest time follows the instructions
    executed, not the host's clock; of one CPU only."""
    qemu: str
    image: pathlib.Path
    initramfs: pathlib.Path
    machine_arguments: tuple[str, ...]
    has_hmat: bool
    kernel_arguments: str
    icount: bool = False


class Follower:
    """Moves the guest's bytes to where they belong until all have come or the machine has ended."""

    def __init__(self, mark: str, output: BinaryIO, errors: BinaryIO, files: BinaryIO,
                 console_log: BinaryIO, console_copy: BinaryIO | None) -> None:
        self._mark = mark
        self._sinks = {"output": output, "errors": errors, "files": files}
        self._streams = {name: MarkedStream(mark.encode()) for name in self._sinks}
        self._console_log = console_log
        self._console_copy = console_copy
        self._open_line = b""
        self._console_ended = False
        self.watch = console.Watch()
        self.hang: list[str] | None = None  # A list once the kernel was asked what hangs.
        self.status: int | None = None
        self.missing: list[str] = []
        self.refusals: list[str] = []

    @property
    def complete(self) -> bool:
        return (self.status is not None and self._console_ended
                and all(stream.ended for stream in self._streams.values()))

    def take(self, name: str, data: bytes) -> None:
        if name == CONSOLE:
            self._take_console(data)
        elif name == "init":
            self._take_init(data)
        else:
            self._write(name, self._streams[name].feed(data))

    def close(self) -> None:
        """No more will come."""
        self.watch.close()
        for name, stream in self._streams.items():
            self._write(name, stream.rest())

    def _write(self, name: str, data: bytes) -> None:
        if data:
            self._sinks[name].write(data)
            self._sinks[name].flush()

    def _take_console(self, data: bytes) -> None:
        if self._console_ended:
            return
        self._console_log.write(data)
        self._console_log.flush()
        if self._console_copy:
            self._console_copy.write(data)
            self._console_copy.flush()
        lines = self.watch.feed(data)
        if self.hang is not None:
            self.hang += lines
        self._console_ended = any(f"testbed: end {self._mark}" in line for line in lines)

    def _take_init(self, data: bytes) -> None:
        *lines, self._open_line = (self._open_line + data).split(b"\n")
        for line in lines:
            word, _, rest = line.decode().partition(" ")
            if word == "status":
                self.status = int(rest)
            elif word == "missing":
                self.missing.append(rest)
            elif word == "refused":
                self.refusals.append(rest)


CONSOLE = "console"
PORTS = ("output", "errors", "init", "files")  # vport0p1 and on, as in guest_init


def qemu_command(machine: Machine, sockets: dict[str, int]) -> list[str]:
    """sockets: channel -> file descriptor that QEMU inherits."""
    command = [
        machine.qemu, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
        "-accel", "tcg", "-cpu", "max,-rdrand,-rdseed" if machine.icount else "max",
        *(ICOUNT_ARGUMENTS if machine.icount else ()),
        "-machine", "q35,hmat=on" if machine.has_hmat else "q35", *machine.machine_arguments,
        "-kernel", str(machine.image), "-initrd", str(machine.initramfs),
        "-append", f"{KERNEL_ARGUMENTS} {machine.kernel_arguments}".strip()]
    for name, descriptor in sockets.items():
        multiplexer = ",mux=on" if name == CONSOLE else ""
        command += ["-chardev", f"socket,id={name},fd={descriptor}{multiplexer}"]
    command += ["-serial", f"chardev:{CONSOLE}", "-device", "virtio-serial-pci"]
    for number, name in enumerate(PORTS, start=1):
        command += ["-device", f"virtserialport,chardev={name},nr={number}"]
    return command


def run(machine: Machine, follower: Follower, patience: Patience,
        clock_s: Callable[[], float] = time.monotonic) -> Outcome:
    """Returns once the machine is gone. Raises Unavailable if QEMU cannot be run at all. clock_s gives
    the seconds that patience counts. It is read after each piece of the guest's output."""
    ours: dict[str, socket.socket] = {}
    theirs: dict[str, socket.socket] = {}
    for name in (CONSOLE, *PORTS):
        ours[name], theirs[name] = socket.socketpair()
    command = qemu_command(machine, {name: end.fileno() for name, end in theirs.items()})
    try:
        # Should this process be killed, the machine goes with it.
        qemu = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *command],
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE,
                                pass_fds=[end.fileno() for end in theirs.values()])
    except OSError as error:
        raise Unavailable(f"running setpriv: {error.strerror}. Install util-linux.") from error
    finally:
        for end in theirs.values():
            end.close()
    try:
        end_kind = _follow(ours, follower, patience, clock_s)
    finally:
        qemu.kill()
        qemu_said = qemu.communicate()[1].decode("utf-8", "replace").strip()
        for end in ours.values():
            end.close()
    follower.close()
    return Outcome(end_kind, follower.status if end_kind == End.FINISHED else None,
                   follower.missing, follower.refusals, follower.watch, follower.hang or [],
                   qemu_said)


def _follow(ours: dict[str, socket.socket], follower: Follower, patience: Patience,
            clock_s: Callable[[], float]) -> End:
    """Until everything has come, the machine has ended or its time is up."""
    # After the first sign of a dying or hanging kernel, the end of its next chance to say more.
    deadline_s = clock_s() + patience.limit_s
    selector = selectors.DefaultSelector()
    for name, end in ours.items():
        selector.register(end, selectors.EVENT_READ, name)
    end_kind: End | None = None
    questions = list(QUESTIONS)
    while selector.get_map() and not follower.complete:
        now_s = clock_s()
        if follower.watch.first(console.Kind.UNFIT):
            return End.UNFIT
        if end_kind is None and follower.watch.first(console.Kind.FATAL):
            end_kind, deadline_s = End.FATAL, now_s + patience.last_words_s
        if now_s >= deadline_s:
            if end_kind is None:
                end_kind = End.TIME_LIMIT
                follower.hang = follower.watch.tail()
            if end_kind == End.FATAL or not questions:
                break
            with contextlib.suppress(OSError):  # It ended just now: the next read says so.
                ours[CONSOLE].sendall(questions.pop(0))
            deadline_s = now_s + patience.answer_s
            continue
        for key, _ in selector.select(deadline_s - now_s):
            try:
                data = os.read(key.fd, READ_BYTES)
            except ConnectionResetError:
                data = b""
            if data:
                follower.take(key.data, data)
            else:
                selector.unregister(key.fileobj)
    selector.close()
    if follower.watch.first(console.Kind.FATAL):
        return End.FATAL
    return end_kind or (End.FINISHED if follower.complete else End.STOPPED)
