# SPDX-License-Identifier: Apache-2.0
"""What the measuring commands of this folder share: options, processes, windows and output.

A workload runs through the whole measurement; the recorder comes and goes beside it. Both sides of a
ratio therefore come from one process on one machine within seconds of each other.
"""

import argparse
import contextlib
import json
import os
import pathlib
import platform
import shlex
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


def arguments(description: str) -> argparse.ArgumentParser:
    """A parser with the options that every command has."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--quick", action="store_true",
                        help="a short run that shows the shape, not the figures")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="output")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release",
                        metavar="DIR", help="build folder with tmprof and the workloads")
    parser.add_argument("--record", default="", metavar="ARGS",
                        help="more arguments for tmprof record, as one shell word: '--abit plain'")
    return parser


def machine() -> dict:
    """What a figure must be read with."""
    cpu_model = "unknown"
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as cpuinfo:
        models = [line.split(":", 1)[1].strip() for line in cpuinfo if line.startswith("model name")]
        cpu_model = models[0] if models else cpu_model
    return {"cpu_model": cpu_model, "cpus": os.cpu_count(), "kernel": platform.release(),
            "load_1min_at_start": os.getloadavg()[0]}


def machine_text(info: dict) -> str:
    return (f"{info['cpu_model']}, {info['cpus']} CPUs, Linux {info['kernel']}, "
            f"load {info['load_1min_at_start']:.2f} at the start")


def quartiles(values: list[float]) -> dict:
    """Median with spread; quartiles by linear interpolation, all three the value if there is one."""
    low, middle, high = (statistics.quantiles(values, n=4, method="inclusive")
                         if len(values) > 1 else values * 3)
    return {"median": middle, "q1": low, "q3": high, "min": min(values), "max": max(values),
            "n": len(values)}


class Failed(Exception):
    """The world refused; the message says what."""


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

    def finish(self) -> None:
        """Waits for it; afterwards end_ns and cpu_s are set."""
        messages = self._process.stderr.read()
        _, status, usage = os.wait4(self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        self.end_ns = time.monotonic_ns()
        self.cpu_s = usage.ru_utime + usage.ru_stime
        if self._process.returncode != 0:
            raise Failed(f"{shlex.join(self.command)} ended with status {self._process.returncode}:\n"
                         f"{messages.rstrip()}")

    @property
    def cpu_share(self) -> float:
        return self.cpu_s / ((self.end_ns - self.start_ns) / 1e9)


class Workload:
    """A workload under way. Its JSON lines gather in `lines` while it runs."""

    def __init__(self, build: pathlib.Path, arguments_: list[str]):
        command = [str(build / arguments_[0]), *arguments_[1:]]
        try:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        except OSError as error:
            raise Failed(f"cannot run {command[0]}: {error.strerror}; build it first") from error
        self.pid = self._process.pid
        self.lines: list[dict] = []
        if not self._process.stdout.readline():  # printed when all its memory is there
            raise Failed(f"{shlex.join(command)} ended with status {self._process.wait()}")
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._process.stdout:
            if line.startswith("{"):
                self.lines.append(json.loads(line))

    def __enter__(self) -> "Workload":
        return self

    def __exit__(self, *_) -> None:
        self._process.terminate()
        self._process.wait()
        self._reader.join()


def tmprof_json(build: pathlib.Path, *arguments_: str) -> dict:
    """The parsed output of a tmprof command with --format json."""
    command = [str(build / "tmprof"), *arguments_, "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"{shlex.join(command)} ended with status {done.returncode}:\n"
                     f"{done.stderr.rstrip()}")
    return json.loads(done.stdout)


def alternate(workload: Workload, build: pathlib.Path, record_arguments: list[str], pairs: int,
              window_s: float):
    """Yields per pair the (start_ns, end_ns) of the window without, that with, and the Recorder.

    The order within a pair alternates (off on, on off, …), so that drift cancels.
    """
    with tempfile.TemporaryDirectory(prefix="tmprof-bench.") as folder:
        trace = pathlib.Path(folder) / "tmprof.data"

        def with_recorder():
            recorder = Recorder(build, trace, ["--duration", f"{window_s:g}s", *record_arguments,
                                               "-p", str(workload.pid)])
            recorder.finish()
            return (recorder.start_ns, recorder.end_ns), recorder

        def without():
            start_ns = time.monotonic_ns()
            time.sleep(window_s)
            return start_ns, time.monotonic_ns()

        for pair in range(pairs):
            if pair % 2 == 0:
                off = without()
                on, recorder = with_recorder()
            else:
                on, recorder = with_recorder()
                off = without()
            yield off, on, recorder


def table(header: list[str], rows: list[list[str]]) -> str:
    """Columns padded to their widest cell; the first is flush left, the others flush right."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    lines = []
    for row in [header, *rows]:
        cells = [row[0].ljust(widths[0])] + [cell.rjust(width)
                                             for cell, width in zip(row[1:], widths[1:])]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def show(result: dict, form: str, to_text) -> None:
    """Prints the result as JSON or as what to_text makes of it."""
    print(json.dumps(result, indent=1) if form == "json" else to_text(result))


def run(measure, to_text, options) -> int:
    """The main part of a command: the exit status of measuring and printing."""
    try:
        result = {"machine": machine(), **measure(options)}
    except Failed as failure:
        print(f"{pathlib.Path(sys.argv[0]).name}: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    show(result, options.format, lambda r: f"{machine_text(r['machine'])}\n{to_text(r)}")
    return 0
