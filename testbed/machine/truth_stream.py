# SPDX-License-Identifier: Apache-2.0
"""Reads what one process did out of a truth stream (profiler/sources/exact/plugin/format/truth_stream.h), by the frames it accessed.

tmprof's traces have one node for each page and epoch, where it was last; here an access counts for the node of
the frame that it went to, so that a page which moved within an epoch is no source of error.
"""

import dataclasses
import itertools
import pathlib
import struct
from typing import BinaryIO, Iterator

from machine.errors import Refused

MAGIC = b"TMPTRUTH"
VERSION = 1
PAGE_BYTES = 4096
MOST_RECORD_BYTES = 128 << 20
CLOCK_GUEST = 2
TARGET, PAGES, EPOCH_END, FINISH, NOT_FOLLOWED = 1, 3, 4, 5, 6
KNOWS_PID = 1 << 0
KNOWS_NODE = 1 << 1

HEADER = struct.Struct("<8s6I64s64s")
RECORD = struct.Struct("<II")
TARGET_FIELDS = struct.Struct("<8xIIII")  # target, flags, pid, command_bytes
TARGET_BYTES = 48
PAGES_FIELDS = struct.Struct("<8xII")  # count, entry_bytes
# vpn and pfn are passed over: target, node, flags, loads, stores, llc_misses, dtlb_misses
PAGE = struct.Struct("<16xIHHQQQQ")
EPOCH_END_FIELDS = struct.Struct("<8x9Q")  # index, start, end, instructions, then as SUMS, lost
FINISH_FIELDS = struct.Struct("<8x7Q")     # epochs, instructions, then as SUMS, lost
SUMS = ("loads", "stores", "LLC misses", "dTLB misses")


@dataclasses.dataclass
class Window:
    """Accesses of a process in the whole epochs of some time. misses: of the LLC, by the node of
    the frame; None: frames on no known node."""
    seconds: float = 0
    accesses: int = 0
    misses: dict[int | None, int] = dataclasses.field(default_factory=dict)

    def share(self, node: int | None) -> float:
        """Share of the node in the misses; 0 if no node has any."""
        return self.misses.get(node, 0) / max(1, sum(self.misses.values()))


@dataclasses.dataclass(frozen=True)
class _Epoch:
    """pages: the bytes of its entries, and of each entry."""
    index: int
    start_ns: int
    end_ns: int
    sums: tuple[int, ...]
    lost_accesses: int
    pages: list[tuple[bytes, int]]


class _Stream:
    """Its epochs in order, all of them: a stream that does not end as it should is refused when it is read to there."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self._name = name
        self._at = 0
        self._epochs = 0
        self._lost = 0
        self._sums = (0, 0, 0, 0)
        self.pids: dict[int, int] = {}
        """Of targets."""
        self._read_header()

    def refused(self, reason: str) -> Refused:
        return Refused(f"truth stream {self._name}: {reason} at byte {self._at}")

    def _bytes(self, count: int) -> bytes:
        read = self._file.read(count)
        if len(read) < count:
            raise self.refused("it is cut short")
        return read

    def _read_header(self) -> None:
        header = self._bytes(HEADER.size)
        magic, version, header_bytes, page_bytes, _, clock, _, llc_model, _ = HEADER.unpack(header)
        if magic != MAGIC:
            raise self.refused("no such stream")
        if version != VERSION:
            raise self.refused(f"version {version}, known is {VERSION}")
        if not HEADER.size <= header_bytes <= MOST_RECORD_BYTES or header_bytes % 8:
            raise self.refused(f"a header of {header_bytes} bytes")
        if page_bytes != PAGE_BYTES:
            raise self.refused(f"pages of {page_bytes} bytes")
        if clock != CLOCK_GUEST:
            raise self.refused(f"the clock {clock}, which is not the virtual machine's")
        if not llc_model.rstrip(b"\0"):
            raise self.refused("no model of an LLC, whose misses are therefore unknown")
        self._bytes(header_bytes - HEADER.size)
        self._at = header_bytes

    def _fields(self, of: struct.Struct, record: bytes, least: int = 0) -> tuple[int, ...]:
        if len(record) < max(least, of.size):
            raise self.refused("a record that is too short for what it is")
        return of.unpack_from(record)

    def _page_entries(self, record: bytes) -> tuple[bytes, int]:
        count, entry_bytes = self._fields(PAGES_FIELDS, record)
        end = PAGES_FIELDS.size + count * entry_bytes
        if entry_bytes < PAGE.size or entry_bytes % 8 or end > len(record):
            raise self.refused(f"{count} page entries of {entry_bytes} bytes in a record of {len(record)}")
        return record[PAGES_FIELDS.size:end], entry_bytes

    def _end_epoch(self, record: bytes, last: _Epoch | None, pages: list[tuple[bytes, int]]) -> _Epoch:
        index, start_ns, end_ns, _, *sums, lost = self._fields(EPOCH_END_FIELDS, record)
        if start_ns > end_ns or (last and (index <= last.index or start_ns < last.end_ns)):
            raise self.refused(f"epoch {index}, which does not follow the one before")
        self._epochs += 1
        self._lost += lost
        self._sums = tuple(a + b for a, b in zip(self._sums, sums))
        return _Epoch(index, start_ns, end_ns, tuple(sums), lost, pages)

    def _finish(self, record: bytes) -> None:
        epochs, _, *sums, lost = self._fields(FINISH_FIELDS, record)
        if (epochs, tuple(sums), lost) != (self._epochs, self._sums, self._lost):
            raise self.refused("an end whose sums are not those of its epochs")
        if self._file.read(1):
            raise self.refused("something after the last record")

    def epochs(self) -> Iterator[_Epoch]:
        pages: list[tuple[bytes, int]] = []
        last: _Epoch | None = None
        while head := self._file.read(RECORD.size):
            if len(head) < RECORD.size:
                raise self.refused("it is cut short")
            kind, length = RECORD.unpack(head)
            if not RECORD.size <= length <= MOST_RECORD_BYTES or length % 8:
                raise self.refused(f"a record of {length} bytes")
            record = head + self._bytes(length - RECORD.size)
            if kind == TARGET:
                target, flags, pid, _ = self._fields(TARGET_FIELDS, record, TARGET_BYTES)
                if flags & KNOWS_PID:
                    self.pids[target] = pid
            elif kind == PAGES:
                pages.append(self._page_entries(record))
            elif kind == EPOCH_END:
                last = self._end_epoch(record, last, pages)
                yield last
                pages = []
            elif kind == NOT_FOLLOWED:
                raise self.refused("processes that were not followed")
            elif kind == FINISH:
                self._finish(record)
                return
            # The record is of a later version's kind: the format tells readers to skip it.
            self._at += length
        raise self.refused("no last record: it is cut short")


def _add(window: Window, epoch: _Epoch, stream: _Stream, pid: int) -> None:
    ours = {target for target, its_pid in stream.pids.items() if its_pid == pid}
    sums = [0, 0, 0, 0]
    misses = window.misses
    for entries, entry_bytes in epoch.pages:
        layout = PAGE if entry_bytes == PAGE.size else struct.Struct(f"{PAGE.format}{entry_bytes - PAGE.size}x")
        for target, node, flags, loads, stores, llc_misses, dtlb_misses in layout.iter_unpack(entries):
            sums[0] += loads
            sums[1] += stores
            sums[2] += llc_misses
            sums[3] += dtlb_misses
            if target in ours:
                window.accesses += loads + stores
                if llc_misses:
                    known = node if flags & KNOWS_NODE else None
                    misses[known] = misses.get(known, 0) + llc_misses
    if tuple(sums) != epoch.sums:
        wrong = next(name for name, a, b in zip(SUMS, sums, epoch.sums) if a != b)
        raise stream.refused(f"epoch {epoch.index}, whose pages have other {wrong} than itself,")
    window.seconds += (epoch.end_ns - epoch.start_ns) / 1e9


def window(file: pathlib.Path, pid: int, start_s: float, end_s: float) -> Window:
    """Sums up the process's accesses in the epochs within [start_s, end_s) of the guest's time.
    Raises Refused unless all are there: for a damaged or cut stream, lost accesses, missing epochs,
    or a process that was not traced."""
    found = Window()
    within: list[_Epoch] = []
    with open(file, "rb") as opened:
        stream = _Stream(opened, str(file))
        ended_ns = 0
        for epoch in stream.epochs():
            ended_ns = epoch.end_ns
            if epoch.start_ns < start_s * 1e9 or epoch.end_ns > end_s * 1e9:
                continue
            if epoch.lost_accesses:
                raise stream.refused(f"epoch {epoch.index}, which lost {epoch.lost_accesses} accesses,")
            _add(found, epoch, stream, pid)
            within.append(dataclasses.replace(epoch, pages=[]))
        if ended_ns < end_s * 1e9:
            raise stream.refused(f"an end at {ended_ns / 1e9:.3f} s, before the {end_s:.3f} s that were asked for,")
        if not within:
            raise stream.refused(f"no epoch from {start_s:.3f} s to {end_s:.3f} s")
        for one, next_one in itertools.pairwise(within):
            if next_one.index != one.index + 1:
                raise stream.refused(f"no epoch between {one.index} and {next_one.index}")
        if pid not in stream.pids.values():
            raise stream.refused(f"no process {pid}")
    return found
