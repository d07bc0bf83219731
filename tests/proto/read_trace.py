# SPDX-License-Identifier: Apache-2.0
"""Reads a trace by docs/trace-format.md and proto/trace.proto alone: no code of tmprof, no generated code.

    read_trace.py FILE    prints the sum of each column over all page records
"""

import ctypes
import struct
import sys
import zlib

MAGIC = b"\x89TMPROF\n"
EPOCH, END = 2, 3

_zstd = ctypes.CDLL("libzstd.so.1")
_zstd.ZSTD_decompress.restype = ctypes.c_size_t


def decompress(payload, length):
    buffer = ctypes.create_string_buffer(length + 1)
    got = _zstd.ZSTD_decompress(buffer, ctypes.c_size_t(length), payload, ctypes.c_size_t(len(payload)))
    if got != length:
        raise ValueError(f"{len(payload)} bytes do not decompress to {length}")
    return buffer.raw[:length]


def frames(data, magic=MAGIC, versions=(1, 2)):
    """(kind, message) of each frame."""
    if data[:8] != magic:
        raise ValueError(f"begins with {data[:8].hex()} instead of {magic.hex()}")
    version, checksum = struct.unpack_from("<II", data, 8)
    if checksum != zlib.crc32(data[:12]) or version not in versions:
        raise ValueError(f"preamble of version {version}")
    at = 16
    while at < len(data):
        kind, payload_bytes, message_bytes, checksum = struct.unpack_from("<IIII", data, at)
        payload = data[at + 16 : at + 16 + payload_bytes]
        if zlib.crc32(payload, zlib.crc32(data[at : at + 12])) != checksum:
            raise ValueError(f"frame at byte {at} is damaged")
        yield kind, decompress(payload, message_bytes)
        at += 16 + payload_bytes


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def fields(message):
    """Field number -> list of its values: numbers, or bytes of what has a length."""
    found = {}
    at = 0
    while at < len(message):
        tag, at = varint(message, at)
        if tag & 7 == 0:
            value, at = varint(message, at)
        elif tag & 7 == 1:
            value, at = struct.unpack_from("<d", message, at)[0], at + 8
        elif tag & 7 == 2:
            length, at = varint(message, at)
            value, at = message[at : at + length], at + length
        else:
            raise ValueError(f"wire type {tag & 7}")
        found.setdefault(tag >> 3, []).append(value)
    return found


def last(found, number, default=None):
    return found[number][-1] if number in found else default


def packed(found, number):
    values = []
    for part in found.get(number, []):
        if isinstance(part, int):
            values.append(part)
            continue
        at = 0
        while at < len(part):
            value, at = varint(part, at)
            values.append(value)
    return values


def column(message, records):
    found = fields(message)
    coding = last(found, 1)
    if coding == 1:
        return [last(found, 2, 0)] * records
    if coding == 2:
        dictionary = packed(found, 4)
        overflow = iter(packed(found, 5))
        codes = last(found, 3, b"")
        values = [
            next(overflow) if code == 255 else dictionary[code] if dictionary else code for code in codes
        ]
    elif coding == 3:
        values = []
        for value, length in zip(packed(found, 6), packed(found, 7), strict=True):
            values += [value] * length
    else:
        raise ValueError(f"coding {coding}")
    if len(values) != records:
        raise ValueError(f"{len(values)} values for {records} records")
    return values


COLUMNS = {
    4: "span_pages",
    5: "looks",
    6: "references",
    7: "first_accesses",
    8: "time_at_risk",
    9: "load_samples",
    10: "store_samples",
    11: "node",
    12: "loads",
    13: "stores",
    16: "fast_looks",
    17: "fast_found",
    18: "fast_time",
    19: "same_as",
    21: "fast_earlier",
    22: "fast_earlier_time",
    23: "first_read_finds",
    24: "first_read_time",
    25: "later_read_time",
}


def records_of(epoch):
    """One dictionary for each page record."""
    pages = fields(last(epoch, 7, b""))
    groups = list(zip(packed(pages, 1), packed(pages, 2), strict=True))
    count = sum(size for _, size in groups)
    values = {name: column(pages[number][-1], count) for number, name in COLUMNS.items() if number in pages}
    gaps = column(last(pages, 3, b""), count)
    i = 0
    for target, size in groups:
        end = 0
        for _ in range(size):
            record = {name: column_values[i] for name, column_values in values.items()}
            record |= {"target": target, "start": end + gaps[i]}
            end = record["start"] + record["span_pages"]
            record["node"] = record["node"] - 1 if record["node"] else None
            for time in [name for name in COLUMNS.values() if "time" in name]:
                code = record.get(time, 0)
                record[time] = 2 ** ((code - 1) / 16) * 1e-9 if code else 0.0
            yield record
            i += 1


def targets_of(epoch, before):
    """Target -> its mappings as (start, end, kind, file), where `before` has those of the epoch before."""
    targets = {}
    for message in epoch.get(6, []):
        target = fields(message)
        number = last(target, 1, 0)
        mappings = []
        end = 0
        for mapping in map(fields, target.get(9, [])):
            start = end + last(mapping, 1, 0)
            end = start + last(mapping, 2, 0)
            file = (last(mapping, 5), last(mapping, 6), last(mapping, 7)) if 6 in mapping else None
            mappings.append((start, end, last(mapping, 3), file))
        targets[number] = before[number] if last(target, 8, 0) else mappings
    return targets


def read(path):
    """(index, targets, records) of each epoch; checks the totals of the end."""
    with open(path, "rb") as file:
        data = file.read()
    targets = {}
    epochs = count = 0
    for kind, message in frames(data):
        found = fields(message)
        if kind == EPOCH:
            targets = targets_of(found, targets)
            records = list(records_of(found))
            epochs += 1
            count += len(records)
            yield last(found, 1, 0), targets, records
        elif kind == END and (last(found, 1, 0), last(found, 2, 0)) != (epochs, count):
            raise ValueError(f"the end does not tell of {epochs} epochs and {count} records")


def sums(path):
    total = {}
    for _, _, records in read(path):
        for record in records:
            for name, value in record.items():
                total[name] = total.get(name, 0) + (value or 0)
    return total


if __name__ == "__main__":
    for name, value in sums(sys.argv[1]).items():
        print(f"{name}\t{value}")
