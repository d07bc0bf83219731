# SPDX-License-Identifier: Apache-2.0
"""What the commands of this folder share: their options, and recordings that are made once."""

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
SOURCES = ("references", "samples", "combined")


class Recordings:
    """Makes each recording once. Those in `--recordings DIR` are kept, and found again there."""

    def __init__(self, options):
        self._options = options
        self._machine = machines.MACHINES[options.machine](options)
        self._variant = machines.PLAIN
        self._scratch = None if options.recordings else tempfile.TemporaryDirectory(
            prefix="tmprof-bench.")
        self._folder = pathlib.Path(self._scratch.name) if self._scratch else options.recordings

    @property
    def exact(self) -> bool:
        """Whether the machine counts every access, by epoch."""
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
                    for name in ("machine", "footprint_mib", "seconds", "seed", "record")}
        if variant != machines.PLAIN:
            settings |= {"variant": json.loads(json.dumps(dataclasses.asdict(variant)))}
        if made.exists():
            kept = json.loads(made.read_text(encoding="utf-8"))
            if kept["settings"] != settings:
                raise measure.Failed(f"{folder} was recorded with {kept['settings']}, not {settings}; "
                                     "name another folder for --recordings")
            truth = kept["truth"] and folder / kept["truth"]
            return machines.Recording(workload, rate, folder / kept["trace"], truth)
        folder.mkdir(parents=True, exist_ok=True)
        print(f"recording {folder.name} ...", file=sys.stderr, flush=True)
        recording = self._machine.record(workload, rate, variant, folder)
        made.write_text(json.dumps({"settings": settings, "trace": recording.trace.name,
                                    "truth": recording.truth and recording.truth.name}),
                        encoding="utf-8")
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


def add_ranking(parser: argparse.ArgumentParser) -> None:
    """The options of a command that ranks the pages of such a recording."""
    add_rate(parser)
    parser.add_argument("--rank-model", choices=("rate", "sum"), default="rate",
                        help="rate: estimated accesses; sum: references + samples, meant for --record '--abit plain'")


def parse(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The options, footprint and length filled in."""
    options = parser.parse_args()
    machine = machines.MACHINES[options.machine]
    if options.footprint_mib is None:
        options.footprint_mib = machine.quick_footprint_mib if options.quick else machine.footprint_mib
    if options.seconds is None:
        options.seconds = machine.quick_seconds if options.quick else machine.seconds
    if options.footprint_mib < 1 or options.seconds < 2:
        parser.error("at least 1 MiB and 2 seconds")
    return options


def made_as(options) -> dict:
    """What a result says of its recordings."""
    return {"recorded_on": options.machine, "footprint_mib": options.footprint_mib,
            "seconds": options.seconds}


def made_text(result: dict) -> str:
    return (f"recorded on {result['recorded_on']}: {result['footprint_mib']} MiB, "
            f"{result['seconds']} s each")


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
           variant: machines.Variant = machines.PLAIN) -> list[dict]:
    """Of tmprof score, by rank, at k of this ratio. `variant` is the recording's."""
    phase = (["--truth-phase", f"{machines.phase_s(options.seconds, variant)}s"] if recording.truth_in_trace else [])
    return measure.tmprof_json(options.build, "score", str(recording.trace), "--rank-model",
                               options.rank_model, "--truth", str(recording.truth), *phase,
                               "--k-ratio", ratio)["results"]


def run(rows, to_text, options) -> int:
    """The main part of a command: rows(workload, recordings, options) gives those of one workload."""
    def measured(_) -> dict:
        with Recordings(options) as kept:
            return {**made_as(options), "rows": [row for workload in options.workloads
                                                 for row in rows(workload, kept, options)]}

    return measure.run(measured, lambda result: f"{made_text(result)}\n{to_text(result)}", options)
