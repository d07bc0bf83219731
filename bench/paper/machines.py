# SPDX-License-Identifier: Apache-2.0
"""The machines that workloads are recorded on: this one, and the virtual tiered one.

Each recording is made of a program at work: all its memory is there when the recorder comes, and its start
is in no recording. bench/README.md says which programs stand for the papers'.
"""

import dataclasses
import pathlib
import shlex
import sys

BENCH = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(BENCH))

import measure

WORKLOADS = ("gups", "zipf", "hotset", "xslookup", "bfs", "stencil", "kv")
WITH_TRUTH_FILE = ("gups", "zipf", "hotset", "bfs", "stencil")
# RssAnon of redis-server 7.0.15 under redis_load --serve: 435 per key of 131 072, 420 of 1 048 576.
BYTES_PER_KEY = 430


@dataclasses.dataclass(frozen=True)
class Variant:
    """Differences from a plain recording. program, record: more arguments of the program and of
    tmprof record. alone: there is no recorder, and the trace has nothing but the exact accesses, in
    epochs of a second. seed: the program's. phases: of a recording, in each of which heat stays
    where it is; None: it stays for good."""
    name: str
    program: tuple[str, ...] = ()
    record: tuple[str, ...] = ()
    alone: bool = False
    seed: int | None = None
    phases: int | None = 4


PLAIN = Variant("")
# TMP's scan (IPDPS 2021): each page's bit is read and cleared once a second. At 1 % of overhead,
# the default, a page of 64 MiB gets 9 looks in 12 s.
ONE_LOOK = Variant("one-look", record=("--abit", "plain", "--max-overhead", "10%"))


def phase_s(seconds: int, variant: Variant = PLAIN) -> int:
    """How long heat stays where it is in a recording of so many seconds: some whole epochs of 1 s."""
    return max(3, seconds // (variant.phases or 1))


def target_name(workload: str) -> str:
    """Name of the observed process."""
    return "redis-server" if workload == "kv" else workload


def ready_lines(workload: str) -> int:
    """All memory of a workload is there when it has printed so many lines."""
    return 2 if workload == "kv" else 1


def program(workload: str, footprint_mib: int, seconds: int, seed: int,
            variant: Variant = PLAIN) -> list[str]:
    """The command of a workload that works until it is ended, to be recorded for so long."""
    footprint = ["--footprint", f"{footprint_mib}MiB"]
    common = ["--duration", "1h", "--seed", str(seed if variant.seed is None else variant.seed), *variant.program]
    if workload == "kv":
        return ["redis_load", "--serve", "--keys", str((footprint_mib << 20) // BYTES_PER_KEY), *common]
    shift = "1h" if variant.phases is None else f"{phase_s(seconds, variant)}s"
    own = {"gups": ["--write"], "hotset": ["--shift", shift]}
    return [workload, *footprint, *own.get(workload, []), *common]


@dataclasses.dataclass(frozen=True)
class Recording:
    workload: str
    rate: int  # a multiple of the sampling rate, of RATES
    trace: pathlib.Path
    # Argument of tmprof score --truth. None: nobody counted.
    truth: pathlib.Path | None

    @property
    def truth_in_trace(self) -> bool:
        """True if the trace itself has the exact accesses, by epoch."""
        return self.truth == self.trace


class Host:
    """This machine, as it is. Truth is what a workload says of itself."""

    name = "host"
    counts_exactly = False
    footprint_mib = 512
    seconds = 60
    quick_footprint_mib = 64
    quick_seconds = 6

    def __init__(self, options):
        self._options = options
        samplers = [source for source in measure.tmprof_json(options.build, "doctor")["sources"]
                    if source["job"] == "address samples" and source["usable"]]
        self._hardware = any(source["name"] != "clock" for source in samplers)

    def rate_arguments(self, rate: int, variant: Variant) -> list[str]:
        """The clock takes as many samples as the budget pays for, which is 1 % by default, and pays
        for accessed bits, too; a variant may have its own."""
        if self._hardware:
            return ["--sample-rate", f"{rate}x"]
        return [] if "--max-overhead" in variant.record else ["--max-overhead", f"{rate}%"]

    def record(self, workload: str, rate: int, variant: Variant, folder: pathlib.Path) -> Recording:
        options = self._options
        truth = folder / "truth.json" if workload in WITH_TRUTH_FILE else None
        command = program(workload, options.footprint_mib, options.seconds, options.seed, variant)
        with measure.Workload(options.build,
                              [*command, *(["--truth", str(truth)] if truth else [])],
                              ready_lines(workload)) as running:
            recorder = measure.Recorder(
                options.build, folder / "tmprof.data",
                ["--duration", f"{options.seconds}s", *self.rate_arguments(rate, variant),
                 *variant.record, *shlex.split(options.record), "-p", str(running.target_pid)])
            recorder.finish()
        return Recording(workload, rate, recorder.trace, truth)


# measure.target_pid() for the guest's shell.
TARGET_PID = r"sed -n '1s/.*: PID \([0-9]*\),.*/\1/p'"


class Virtual:
    """The tiered machine of testbed/vm --tiersim, with the driver and a sampling PMU, both emulated.
    Truth is every access, in the trace itself. Seconds are the guest's."""

    name = "virtual"
    counts_exactly = True
    footprint_mib = 64
    seconds = 12
    quick_footprint_mib = 16
    quick_seconds = 6

    KERNEL = "6.12"
    TOPOLOGY = "dram-cxl"
    # An epoch of the truth goes to the recording's epoch that holds its middle: a tenth of one, so
    # that at most a twentieth of an epoch's accesses is counted beside it.
    TRUTH_EPOCH_MS = 100
    # hotset on 16 MiB takes 14 CPU seconds of the host per second (bench/paper/ranking --machine virtual --quick,
    # 2-CPU KVM guest on an AMD EPYC, boot included). The limits are for a host that does much besides.
    HOST_SECONDS_TO_BE_READY = 600
    HOST_SECONDS_PER_SECOND = 120

    def __init__(self, options):
        self._options = options

    @classmethod
    def boot(cls, build: pathlib.Path, seconds: int, epoch_ms: int, exact: pathlib.Path,
             arguments: list[str], topology: str = TOPOLOGY, tiersim: str = "") -> str:
        """Runs a machine for so many of its seconds, beside what it takes to begin, and returns what it prints.
        `arguments`, of testbed/vm, end with the guest's command; `tiersim`: more of its --tiersim. Leaves the truth
        in the file `exact`."""
        return measure.output([
            str(measure.ROOT / "testbed" / "vm"), "--kernel", cls.KERNEL, "--driver", "--topology", topology,
            f"--tiersim={','.join(filter(None, (f'epoch_ms={epoch_ms}', tiersim)))}", "--truth", str(exact),
            "--build", str(build),
            "--time-limit", str(cls.HOST_SECONDS_TO_BE_READY + seconds * cls.HOST_SECONDS_PER_SECOND), *arguments])

    def guest_script(self, workload: str, rate: int, variant: Variant) -> str:
        """Runs in the guest; leaves recorded.data there, but for a program that runs alone. The truth then ends
        with the last of the seconds."""
        options = self._options
        command = program(workload, options.footprint_mib, options.seconds, options.seed, variant)
        record = ["tmprof", "record", "-q", "-o", "recorded.data", "--duration", f"{options.seconds}s",
                  "--sample-rate", f"{rate}x", *variant.record, *shlex.split(options.record)]
        observe = (f"sleep {options.seconds + 1}; echo 1 > /sys/kernel/debug/vpmu/finish" if variant.alone else
                   f"{shlex.join(record)} -p $({TARGET_PID} said)")
        return (f"traced {shlex.join(command)} > said & "
                f"while [ $(wc -l < said) -lt {ready_lines(workload)} ]; do "
                "kill -0 $! || exit 1; sleep 0.1; done; "
                f"{observe}; status=$?; kill $!; wait $!; exit $status")

    def record(self, workload: str, rate: int, variant: Variant, folder: pathlib.Path) -> Recording:
        options = self._options
        exact, recorded, trace = (folder / name for name in ("exact", "recorded.data", "tmprof.data"))
        self.boot(options.build, options.seconds, 1000 if variant.alone else self.TRUTH_EPOCH_MS, exact,
                  [*([] if variant.alone else ["--get", f"recorded.data:{recorded}"]),
                   self.guest_script(workload, rate, variant)], options.topology, options.tiersim)
        measure.output([str(options.build / "tmprof"), "convert", str(exact), "--to", "trace",
                        *([] if variant.alone else ["--beside", str(recorded)]), "-o", str(trace)])
        exact.unlink()
        recorded.unlink(missing_ok=True)
        return Recording(workload, rate, trace, trace)


MACHINES = {machine.name: machine for machine in (Host, Virtual)}
