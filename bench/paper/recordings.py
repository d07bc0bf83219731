# SPDX-License-Identifier: Apache-2.0
"""Shared parts of this folder's commands: their options, and recordings that are made once."""

import argparse
import contextlib
import copy
import csv
import dataclasses
import json
import pathlib
import sys
import tempfile

import machines
import measure

# Multiples of the sampling rate of TMP's Table IV (IPDPS 2021).
RATES = (1, 4, 8)
# The tier-1 ratios of TMP's Fig. 6.
RATIOS = ("1/8", "1/16", "1/32", "1/64", "1/128")
# Options of the virtual machine, and what they are where nobody says otherwise.
OF_VIRTUAL = {"topology": machines.Virtual.TOPOLOGY, "tiersim": ""}
SOURCES = ("references", "samples", "combined")


@dataclasses.dataclass(frozen=True)
class Size:
    """Size of recordings, unless another is asked for."""
    footprint_mib: int
    seconds: int


class Recordings:
    """Makes each recording once. Those in `--recordings DIR` are kept, and found again there."""

    def __init__(self, options):
        self._options = options
        self._machine = machines.MACHINES[options.machine](options)
        self._variant = machines.PLAIN
        self._scratch = None if options.recordings else tempfile.TemporaryDirectory(
            prefix="tmprof-bench.")
        self._folder = pathlib.Path(self._scratch.name) if self._scratch else options.recordings
        # The commits of this project that made the recordings asked for.
        self.commits: set[str] = set()

    @property
    def exact(self) -> bool:
        """True if the machine counts every access, by epoch."""
        return self._machine.counts_exactly

    def __enter__(self) -> "Recordings":
        return self

    def __exit__(self, *_) -> None:
        if self._scratch:
            self._scratch.cleanup()

    def of(self, variant: machines.Variant) -> "Recordings":
        """The same ones, to be asked for this variant where none is named. Ends with the whole."""
        view = copy.copy(self)
        view._variant = variant
        return view

    def get(self, workload: str, rate: int = 1,
            variant: machines.Variant | None = None) -> machines.Recording:
        variant = variant or self._variant
        folder = self._folder / "-".join(filter(None, (workload, f"{rate}x", variant.name)))
        made = folder / "made.json"  # there when all else is
        settings = {name: getattr(self._options, name)
                    for name in ("machine", "footprint_mib", "seconds", "seed", "record", *OF_VIRTUAL)}
        if variant != machines.PLAIN:
            settings |= {"variant": json.loads(json.dumps(dataclasses.asdict(variant)))}
        if made.exists():
            kept = json.loads(made.read_text(encoding="utf-8"))
            if kept["settings"] != settings:
                raise measure.Failed(f"{folder} was recorded with {kept['settings']}, not {settings}; "
                                     "name another folder for --recordings")
            self.commits.add(kept.get("commit", "unknown"))
            truth = kept["truth"] and folder / kept["truth"]
            return machines.Recording(workload, rate, folder / kept["trace"], truth)
        folder.mkdir(parents=True, exist_ok=True)
        print(f"recording {folder.name} ...", file=sys.stderr, flush=True)
        recording = self._machine.record(workload, rate, variant, folder)
        commit = measure.commit()
        made.write_text(json.dumps({"settings": settings, "commit": commit, "trace": recording.trace.name,
                                    "truth": recording.truth and recording.truth.name}),
                        encoding="utf-8")
        self.commits.add(commit)
        return recording


def arguments(description: str) -> argparse.ArgumentParser:
    """A parser with the options that every command of this folder has."""
    parser = measure.arguments(description)
    parser.add_argument("--machine", choices=machines.MACHINES, default=machines.Host.name, help="where to record")
    parser.add_argument("--workloads", nargs="+", choices=machines.WORKLOADS, default=list(machines.WORKLOADS),
                        help="which to record")
    parser.add_argument("--footprint-mib", type=int, metavar="MIB",
                        help="memory of each workload; None: as large as the machine's runs are")
    parser.add_argument("--seconds", type=int, help="length of a recording; None: the machine's")
    parser.add_argument("--seed", type=int, default=1, help="of the workloads")
    parser.add_argument("--topology", metavar="NAME", default=OF_VIRTUAL["topology"],
                        help="of the virtual machine: of testbed/topologies")
    parser.add_argument("--tiersim", metavar="OPTIONS", default=OF_VIRTUAL["tiersim"],
                        help="more of the virtual machine's, as prefetch_lines=8 (testbed/README.md)")
    parser.add_argument("--recordings", type=pathlib.Path, metavar="DIR",
                        help="keep recordings there, and use those that are there already")
    return parser


def add_rate(parser: argparse.ArgumentParser) -> None:
    """The option of a command that reads one recording per workload."""
    parser.add_argument("--rate", type=int, choices=RATES, default=4,
                        help="multiple of the sampling rate")


def add_rates(parser: argparse.ArgumentParser) -> None:
    """The option of a command that compares the recordings of one workload."""
    parser.add_argument("--rates", nargs="+", type=int, choices=RATES, default=list(RATES),
                        help="multiples of the sampling rate")


def add_seeds(parser: argparse.ArgumentParser) -> None:
    """The option of a command whose figures differ by chance."""
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3], metavar="N",
                        help="of the programs of gate and modes, each with recordings of its own")


def add_ranking(parser: argparse.ArgumentParser) -> None:
    """The options of a command that ranks the pages of such a recording."""
    add_rate(parser)
    parser.add_argument("--rank-model", choices=("rate", "sum"), default="rate",
                        help="rate: estimated accesses; sum: references + samples, meant for --record '--abit plain'")


def parse(parser: argparse.ArgumentParser, own: Size | None = None) -> argparse.Namespace:
    """The options, footprint and length filled in."""
    options = parser.parse_args()
    for name, usual in OF_VIRTUAL.items():
        if options.machine != machines.Virtual.name and getattr(options, name) != usual:
            parser.error(f"--{name}: needs --machine {machines.Virtual.name}")
    filled = sized(options, own)
    if filled.footprint_mib < 1 or filled.seconds < 2:
        parser.error("at least 1 MiB and 2 seconds")
    return filled


def sized(asked: argparse.Namespace, own: Size | None = None) -> argparse.Namespace:
    """What was asked for, also as `asked`, with a size: where none was asked for, the command's own or the machine's
    usual one, and with --quick the machine's short one."""
    machine = machines.MACHINES[asked.machine]
    usual = (Size(machine.quick_footprint_mib, machine.quick_seconds) if asked.quick
             else own or Size(machine.footprint_mib, machine.seconds))
    return argparse.Namespace(**{
        **vars(asked), "asked": asked,
        "footprint_mib": usual.footprint_mib if asked.footprint_mib is None else asked.footprint_mib,
        "seconds": usual.seconds if asked.seconds is None else asked.seconds})


def made_as(options) -> dict:
    """A result's facts about its recordings."""
    return {"recorded_on": options.machine, "footprint_mib": options.footprint_mib,
            "seconds": options.seconds, **{name: getattr(options, name) for name in OF_VIRTUAL}}


def made_text(result: dict) -> str:
    virtual = ""
    if result["recorded_on"] == machines.Virtual.name:
        virtual = f", {result['topology']}" + (f", --tiersim={result['tiersim']}" if result["tiersim"] else "")
    return (f"recorded on {result['recorded_on']}{virtual}, at {', '.join(result['commits']) or 'no commit'}: "
            f"{result['footprint_mib']} MiB, {result['seconds']} s each")


@contextlib.contextmanager
def records(options, recording: machines.Recording):
    """Those of its trace one by one, as dictionaries by the column names of tmprof convert --to csv."""
    with tempfile.TemporaryDirectory(prefix="tmprof-bench.") as folder:
        written = pathlib.Path(folder, "trace.csv")
        measure.output([str(options.build / "tmprof"), "convert", str(recording.trace), "--to", "csv",
                        "-o", str(written)])
        with open(written, encoding="utf-8", newline="") as lines:
            yield csv.DictReader(lines)


def scores(options, recording: machines.Recording, ratio: str,
           variant: machines.Variant = machines.PLAIN, by: str = "accesses") -> list[dict]:
    """Scores of tmprof score, by rank, at k of this ratio. `variant` is the recording's; `by`: the
    kind of heat."""
    phase = (["--truth-phase", f"{machines.phase_s(options.seconds, variant)}s"] if recording.truth_in_trace else [])
    return measure.tmprof_json(options.build, "score", str(recording.trace), "--rank-model",
                               options.rank_model, "--truth", str(recording.truth), *phase,
                               "--by", by, "--k-ratio", ratio)["results"]


def goals(judged, rows: list[dict]) -> dict:
    """The goals of a result, which `judged` finds in its rows, if there is such a function."""
    return {"goals": [dataclasses.asdict(goal) for goal in judged(rows)]} if judged else {}


def run(rows, to_text, options, judged=None) -> int:
    """The main part of a command: rows(workload, recordings, options) gives those of one workload."""
    def measured(_) -> dict:
        with Recordings(options) as kept:
            found = [row for workload in options.workloads for row in rows(workload, kept, options)]
            return {**made_as(options), "commits": sorted(kept.commits), "rows": found, **goals(judged, found)}

    return measure.run(measured, lambda result: f"{made_text(result)}\n{to_text(result)}", options)
