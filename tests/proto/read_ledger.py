# SPDX-License-Identifier: Apache-2.0
"""Reads a ledger by docs/ledger.md, docs/trace-format.md and proto/ledger.proto alone: no code of tmprof, no generated code.

    read_ledger.py FILE    prints a line for each move, and for each move that was settled
"""

import struct
import sys

from read_trace import column, fields, frames, last

MAGIC = b"\x89TMLEDG\n"
EPOCH, END = 2, 3

SPANS = {1: "target", 2: "step", 3: "span_pages", 4: "from", 5: "to"}
MOVES = SPANS | {7: "reason", 8: "error", 9: "attempts", 10: "latency_ns"}
SETTLED = SPANS | {6: "age", 7: "cause", 8: "epochs", 9: "epochs_known"}


def doubles(found, number):
    """All values of a repeated double, which is packed."""
    return [value for part in found.get(number, []) for (value,) in struct.iter_unpack("<d", part)]


def records(message, names, double_names):
    """One dictionary for each move of MoveColumns or SettledColumns."""
    found = fields(message)
    values = {name: doubles(found, number) for number, name in double_names.items()}
    count = len(next(iter(values.values())))
    values |= {name: column(found[number][-1], count) for number, name in names.items()}
    end = 0
    for i in range(count):
        record = {name: of_column[i] for name, of_column in values.items()}
        step = record.pop("step")
        record["start"] = end + step // 2 if step % 2 == 0 else end - (step + 1) // 2
        end = record["start"] + record["span_pages"]
        yield record


def read(path):
    """(index, targets so far, moves, settled moves) of each epoch; checks the totals of the end."""
    with open(path, "rb") as file:
        data = file.read()
    targets = {}
    totals = [0, 0, 0]
    for kind, message in frames(data, MAGIC, (1,)):
        found = fields(message)
        if kind == EPOCH:
            for target in map(fields, found.get(4, [])):
                targets[last(target, 1, 0)] = (last(target, 2, 0), last(target, 4, b""))
            moves = list(records(found[12][-1], MOVES, {6: "score"})) if 12 in found else []
            settled = list(records(found[13][-1], SETTLED, {10: "seen", 11: "weight"})) if 13 in found else []
            totals = [totals[0] + 1, totals[1] + len(moves), totals[2] + len(settled)]
            yield last(found, 1, 0), dict(targets), moves, settled
        elif kind == END and [last(found, number, 0) for number in (1, 2, 3)] != totals:
            raise ValueError(f"the end does not have {totals} epochs, moves and settled moves")


if __name__ == "__main__":
    for index, _, moves, settled in read(sys.argv[1]):
        for record in moves + settled:
            print(index, record)
