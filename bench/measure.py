# SPDX-License-Identifier: Apache-2.0
"""Shared parts of this folder's measuring commands: options, processes, windows and output.

A workload runs through the whole measurement; the recorder comes and goes beside it. Both sides of
a ratio therefore come from one process on one machine within seconds of each other.
"""

import argparse
import contextlib
import dataclasses
import functools
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import platform
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent

# The first recording of a command measures prices anew, and the others use what it has kept: no figure
# rests on what another program of this machine measured before.
FIGURES = tempfile.TemporaryDirectory(prefix="tmprof-bench-figures-")
os.environ.setdefault("TMPROF_RUN_DIRECTORY", os.path.join(FIGURES.name, "run"))


def arguments(description: str, recorder: bool = True) -> argparse.ArgumentParser:
    """A parser with the options that every command has; with `recorder`, those of one that runs
    tmprof record, too."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--quick", action="store_true",
                        help="a short run that shows the shape, not the figures")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="output")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release",
                        metavar="DIR", help="build folder with tmprof and the workloads")
    if recorder:
        parser.add_argument("--record", default="", metavar="ARGS",
                            help="more arguments for tmprof record, as one shell word: '--abit plain'")
    return parser


@functools.cache
def command(path: str):
    """A command of this folder as a module, loaded once: its file has no suffix."""
    loader = importlib.machinery.SourceFileLoader(path.replace("/", "_"), str(ROOT / "bench" / path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


@functools.cache
def commit() -> str:
    """The commit of this project's tree, with "-dirty" if it differs; "unknown" outside a
    repository."""
    try:
        found = subprocess.run(["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude=*"],
                               capture_output=True, text=True, check=False)
    except OSError:
        return "unknown"
    return found.stdout.strip() or "unknown"


def machine() -> dict:
    """The facts that a figure must be read with."""
    cpu_model = "unknown"
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as cpuinfo:
        models = [line.split(":", 1)[1].strip() for line in cpuinfo if line.startswith("model name")]
        cpu_model = models[0] if models else cpu_model
    return {"cpu_model": cpu_model, "cpus": os.cpu_count(), "kernel": platform.release(),
            "commit": commit(), "load_1min_at_start": os.getloadavg()[0]}


def machine_text(info: dict) -> str:
    return (f"{info['cpu_model']}, {info['cpus']} CPUs, Linux {info['kernel']}, "
            f"commit {info['commit']}, load {info['load_1min_at_start']:.2f} at the start")


def quartiles(values: list[float]) -> dict:
    """Median with spread; quartiles by linear interpolation, all three the value if there is one."""
    low, middle, high = (statistics.quantiles(values, n=4, method="inclusive")
                         if len(values) > 1 else values * 3)
    return {"median": middle, "q1": low, "q3": high, "min": min(values), "max": max(values),
            "n": len(values)}


class Failed(Exception):
    """The world refused; the message says what."""


# Exit statuses of tmprof record that mean it recorded, enough or little (docs/recording.md).
# The measurement shows which of the two.
RECORDED = (0, 3)


def output(command_: list[str], environment: dict[str, str] | None = None,
           statuses: tuple[int, ...] = (0,)) -> str:
    """Standard output of a program that ends by itself, with one of these statuses."""
    try:
        done = subprocess.run(command_, capture_output=True, text=True, check=False, env=environment)
    except OSError as error:
        raise Failed(f"cannot run {command_[0]}: {error.strerror}; build it first") from error
    if done.returncode not in statuses:
        raise Failed(f"{shlex.join(command_)} ended with status {done.returncode}:\n"
                     f"{done.stderr.rstrip()}")
    return done.stdout


class Recorder:
    """tmprof record, from start to exit, with the CPU time the kernel charged to it and to the
    children it waited for: the start-up calibration, and a program given after `--`."""

    def __init__(self, build: pathlib.Path, trace: pathlib.Path, arguments_: list[str]):
        self.trace = trace
        self.command = [str(build / "tmprof"), "record", "-o", str(trace), *arguments_]
        self.start_ns = time.monotonic_ns()
        try:
            self._process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL,
                                             stderr=subprocess.PIPE, text=True)
        except OSError as error:
            raise Failed(f"cannot run {self.command[0]}: {error.strerror}; build it first") from error
        self.pid = self._process.pid

    def finish(self) -> None:
        """Waits for it; afterwards end_ns and cpu_s are set."""
        messages = self._process.stderr.read()
        _, status, usage = os.wait4(self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        self.end_ns = time.monotonic_ns()
        self.cpu_s = usage.ru_utime + usage.ru_stime
        if self._process.returncode not in RECORDED:
            raise Failed(f"{shlex.join(self.command)} ended with status {self._process.returncode}:\n"
                         f"{messages.rstrip()}")

    @property
    def cpu_share(self) -> float:
        return self.cpu_s / ((self.end_ns - self.start_ns) / 1e9)


def stat_of(pid: int) -> list[str]:
    """The fields of /proc/PID/stat behind the process's name, from its state on."""
    text = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return text.rpartition(")")[2].split()


def cpu_s(pid: int) -> float:
    """CPU time of a process, all its threads, so far."""
    fields = stat_of(pid)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def target_pid(line: str) -> int:
    """The PID in a workload's first line: "gups: PID 7, …", its own or that of the server under its
    load."""
    found = re.match(r"\w+: PID (\d+),", line)
    if not found:
        raise Failed(f"a workload's first line names no PID: {line.rstrip()}")
    return int(found.group(1))


class Workload:
    """A workload under way. Its JSON lines gather in `lines` while it runs.

    All its memory is there when it has printed `ready_lines` lines: redis_load --serve loads its
    keys between its first and its second."""

    def __init__(self, build: pathlib.Path, arguments_: list[str], ready_lines: int = 1):
        command = [str(build / arguments_[0]), *arguments_[1:]]
        try:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        except OSError as error:
            raise Failed(f"cannot run {command[0]}: {error.strerror}; build it first") from error
        self.pid = self._process.pid
        self.lines: list[dict] = []
        first = [self._process.stdout.readline() for _ in range(ready_lines)]
        if not first[-1]:
            raise Failed(f"{shlex.join(command)} ended with status {self._process.wait()}")
        self.first_lines = first
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._process.stdout:
            if line.startswith("{"):
                self.lines.append(json.loads(line))

    @property
    def target_pid(self) -> int:
        """Whom to observe: itself, or the server that it loads."""
        return target_pid(self.first_lines[0])

    def __enter__(self) -> "Workload":
        return self

    def __exit__(self, *_) -> None:
        self._process.terminate()
        self._process.wait()
        self._reader.join()


def tmprof_json(build: pathlib.Path, *arguments_: str, statuses: tuple[int, ...] = (0,)) -> dict:
    """The parsed output of a tmprof command with --format json."""
    return json.loads(output([str(build / "tmprof"), *arguments_, "--format", "json"], statuses=statuses))


def alternate(workload: Workload, build: pathlib.Path, record_arguments: list[str], pairs: int,
              window_s: float):
    """Yields per pair the windows (start_ns, end_ns) before, with and after, and the Recorder.

    What comes after one recording is what comes before the next, so that each is held against its
    two neighbours and drift cancels.
    """
    with tempfile.TemporaryDirectory(prefix="tmprof-bench.") as folder:
        trace = pathlib.Path(folder) / "tmprof.data"

        def without():
            start_ns = time.monotonic_ns()
            time.sleep(window_s)
            return start_ns, time.monotonic_ns()

        before = without()
        for _ in range(pairs):
            recorder = Recorder(build, trace, ["--duration", f"{window_s:g}s", *record_arguments,
                                               "-p", str(workload.pid)])
            recorder.finish()
            after = without()
            yield before, (recorder.start_ns, recorder.end_ns), after, recorder
            before = after


def frame_text(frame: dict) -> str:
    """Name of a frame that tmprof report gives as JSON: the function, or else the offset in the
    file."""
    return frame["function"] or f"{pathlib.Path(frame['module'] or 'nowhere').name}+{frame['offset']:#x}"


def rate_text(rate: dict) -> str:
    """A told hit rate beside the true one, in per cent: "76? [62, 98] / 79"."""
    told, true = rate["told"], rate["true"]
    left = "-" if told is None else (
        f"{100 * told['value']:.0f}{'' if told['told'] else '?'} "
        f"[{100 * told['low']:.0f}, {100 * told['high']:.0f}]")
    return f"{left} / {'-' if true is None else f'{100 * true:.0f}'}"


def table(header: list[str], rows: list[list[str]]) -> str:
    """Columns padded to their widest cell; the first is flush left, the others flush right."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    lines = []
    for row in [header, *rows]:
        cells = [row[0].ljust(widths[0])] + [cell.rjust(width)
                                             for cell, width in zip(row[1:], widths[1:])]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def cell(value: float | None, form: str = ".3f") -> str:
    """A figure for table(); "-" where it is unknown."""
    return "-" if value is None else format(value, form)


@dataclasses.dataclass
class Goal:
    """A goal. missed: the figures that miss it, with their subjects. unknown: subjects without a
    figure."""
    name: str
    missed: list[str]
    unknown: list[str] = dataclasses.field(default_factory=list)

    def text(self) -> str:
        lacking = [f"{word}: {', '.join(of)}" for word, of in (("missed", self.missed), ("unknown", self.unknown)) if of]
        return f"{self.name}: " + ("; ".join(lacking) or "met")


def test(bench: pathlib.Path, arguments_: list[str], refused: str, result: dict, unittest_arguments: list[str]) -> int:
    """The main part of a command's test: the exit status of running the command, filling `result` with what it
    gives as JSON, and of the caller's test cases. `refused` says why it cannot run here; empty where it can."""
    if refused:
        print(f"skipped: {refused}")
        return 119
    done = subprocess.run([str(bench), *arguments_, "--format", "json"], capture_output=True, text=True, check=False)
    print(done.stderr, file=sys.stderr, end="")
    if done.returncode:
        return done.returncode
    result.update(json.loads(done.stdout))
    program = unittest.main(argv=[sys.argv[0], *unittest_arguments], exit=False)
    if not program.result.wasSuccessful():
        print(done.stdout)
    return not program.result.wasSuccessful()


def show(result: dict, form: str, to_text) -> None:
    """Prints the result as JSON or as what to_text makes of it."""
    print(json.dumps(result, indent=1) if form == "json" else to_text(result))


def run_each(cases, one, name_of) -> tuple[list, list[str]]:
    """The results of `one` for each of the cases, and the reasons of those that failed: one that
    fails leaves the others. Fails if all do."""
    done, failed = [], []
    for case in cases:
        try:
            done.append(one(*case))
        except Failed as failure:
            failed.append(f"{name_of(*case)}: {failure}")
            print(failed[-1], file=sys.stderr, flush=True)
    if not done:
        raise Failed("no run has a result")
    return done, failed


def run(measure, to_text, options) -> int:
    """The main part of a command: the exit status of measuring and printing. A result that lists what failed is printed, too."""
    try:
        result = {"machine": machine(), **measure(options)}
    except Failed as failure:
        print(f"{pathlib.Path(sys.argv[0]).name}: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    show(result, options.format, lambda r: f"{machine_text(r['machine'])}\n{to_text(r)}")
    return 1 if result.get("failed") else 0
