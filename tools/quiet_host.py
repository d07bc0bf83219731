#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a test that measures time, unless the host does other work.

Usage: tools/quiet_host.py COMMAND…
Watches the CPUs for two seconds. In the first one this program sleeps: whatever runs belongs to others. In the second one
it keeps all CPUs busy, because a hypervisor takes time only from a guest that wants it.
Exit status: COMMAND's; 119 if the host is not quiet, with the reason as the last line.
"""

import dataclasses
import os
import pathlib
import sys
import time

# Choices. Two CPUs count 200 ticks in a second (CLK_TCK is 100): 2 % are four of them.
MOST_OTHERS = 0.05
MOST_STOLEN = 0.02
WATCHED_S = 1.0
SKIPPED = 119


@dataclasses.dataclass(frozen=True)
class Counts:
    """Ticks of all CPUs since the host's start, or between two such readings."""
    busy: int
    idle: int
    stolen: int  # by the hypervisor

    def since(self, before: "Counts") -> "Counts":
        return Counts(self.busy - before.busy, self.idle - before.idle, self.stolen - before.stolen)

    @property
    def all(self) -> int:
        return self.busy + self.idle + self.stolen


def counts_of(stat: str) -> Counts:
    """The sum over all CPUs, of the text of /proc/stat: proc(5)."""
    user, nice, system, idle, iowait, irq, softirq, steal = map(int, stat.split("\n", 1)[0].split()[1:9])
    return Counts(user + nice + system + irq + softirq, idle + iowait, steal)


def refusal(asleep: Counts, busy: Counts) -> str:
    """Why nothing can be measured; empty if it can. asleep, busy: while this program was so."""
    if asleep.all <= 0 or busy.all <= 0:
        return "not a quiet host: /proc/stat does not count here"
    others, stolen = asleep.busy / asleep.all, busy.stolen / busy.all
    if others > MOST_OTHERS:
        return f"not a quiet host: others use {others:.0%} of its CPUs, which may be {MOST_OTHERS:.0%}"
    if stolen > MOST_STOLEN:
        return f"not a quiet host: its hypervisor takes {stolen:.0%} of its CPUs, which may be {MOST_STOLEN:.0%}"
    return ""


def read() -> Counts:
    return counts_of(pathlib.Path("/proc/stat").read_text(encoding="ascii"))


def keep_busy() -> None:
    """All CPUs that this process may use, for WATCHED_S."""
    end_s = time.monotonic() + WATCHED_S
    children = []
    for _ in os.sched_getaffinity(0):
        child = os.fork()
        if child == 0:
            while time.monotonic() < end_s:
                pass
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


def watch() -> str:
    """The refusal of this host, now."""
    readings = [read()]
    for step in (lambda: time.sleep(WATCHED_S), keep_busy):
        step()
        readings.append(read())
    return refusal(readings[1].since(readings[0]), readings[2].since(readings[1]))


def run(command: list[str], why_not: str) -> int:
    """Becomes the command, unless there is a reason why not."""
    if why_not:
        print(why_not)
        return SKIPPED
    os.execvp(command[0], command)


def main() -> int:
    if len(sys.argv) < 2:
        print("usage: tools/quiet_host.py COMMAND…", file=sys.stderr)
        return 2
    return run(sys.argv[1:], watch())


if __name__ == "__main__":
    sys.exit(main())
