# SPDX-License-Identifier: Apache-2.0
"""NUMA layouts of the virtual machine: read from JSON, checked whole, turned into QEMU arguments.

QEMU lends the guest the layout only: distances and HMAT tell the guest's kernel what they say here,
while every access takes the emulator the same time.
"""

import dataclasses
import json
import pathlib
import re
from typing import Any

from machine.errors import Refused

# Linux adds memory by sections (SECTION_SIZE_BITS of arch/x86/include/asm/sparsemem.h): a node that
# ends inside one shares it with the next.
SECTION_MIB = 128
MAX_NODES = 16
# ACPI, SLIT: a node to itself is 10, 255 is unreachable.
LOCAL_DISTANCE = 10
MAX_DISTANCE = 254

SIZE = re.compile(r"(\d+)([MG])")


@dataclasses.dataclass(frozen=True)
class Node:
    """initiator: the node whose CPUs are nearest; a node with CPUs is its own."""
    has_cpus: bool
    memory_mib: int
    initiator: int


@dataclasses.dataclass(frozen=True)
class Access:
    """HMAT's figures for the CPUs of one node that use the memory of another."""
    initiator: int
    target: int
    latency_ns: int
    bandwidth_mib_per_s: int


@dataclasses.dataclass(frozen=True)
class Topology:
    """distances[from][to], as in ACPI's SLIT. accesses: one for each node with CPUs and each node."""
    nodes: tuple[Node, ...]
    distances: tuple[tuple[int, ...], ...]
    accesses: tuple[Access, ...]

    @property
    def memory_mib(self) -> int:
        return sum(node.memory_mib for node in self.nodes)


def parse_size_mib(text: str) -> int:
    """'512M' or '4G', as QEMU writes them."""
    match = SIZE.fullmatch(text)
    if not match or int(match.group(1)) == 0:
        raise Refused(f"memory size '{text}': give a number and M or G, as in 512M")
    return int(match.group(1)) * (1024 if match.group(2) == "G" else 1)


def load(path: pathlib.Path) -> Topology:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise Refused(f"topology {path}: {error.strerror}") from error
    try:
        return parse(json.loads(text))
    except json.JSONDecodeError as error:
        raise Refused(f"topology {path}: line {error.lineno}: {error.msg}") from error
    except Refused as error:
        raise Refused(f"topology {path}: {error}") from error


def parse(document: Any) -> Topology:
    """The topology, or Refused with the path of the first field that is wrong."""
    root = _fields(document, "", {"description": str, "nodes": list, "distances": list,
                                  "accesses": list})
    count = len(root["nodes"])
    if not 1 <= count <= MAX_NODES:
        raise Refused(f"nodes: {count} nodes, allowed are 1 to {MAX_NODES}")
    nodes = tuple(_node(value, index, root["nodes"]) for index, value in enumerate(root["nodes"]))
    if not any(node.has_cpus for node in nodes):
        raise Refused("nodes: none has CPUs")
    for index, node in enumerate(nodes):
        if not nodes[node.initiator].has_cpus:
            raise Refused(f"nodes[{index}].initiator: node {node.initiator} has no CPUs")
    return Topology(nodes, _distances(root["distances"], count),
                    _accesses(root["accesses"], nodes))


def _fields(value: Any, path: str, types: dict[str, type],
            optional: dict[str, type] | None = None) -> dict[str, Any]:
    """The object at path, having exactly these fields; optional ones may be left out."""
    optional = optional or {}
    dot = f"{path}." if path else ""
    if not isinstance(value, dict):
        raise Refused(f"{path or 'the document'}: not an object")
    for name in value:
        if name not in types and name not in optional:
            raise Refused(f"{dot}{name}: unknown field")
    for name, kind in (types | optional).items():
        if name not in value:
            if name in optional:
                continue
            raise Refused(f"{dot}{name}: missing")
        # In Python, True is an int.
        if not isinstance(value[name], kind) or (kind is int and isinstance(value[name], bool)):
            raise Refused(f"{dot}{name}: not {'an' if kind is int else 'a'} {kind.__name__}")
    return value


def _in_range(value: int, path: str, low: int, high: int) -> int:
    if not low <= value <= high:
        raise Refused(f"{path}: {value}, allowed are {low} to {high}")
    return value


def _node(value: Any, index: int, all_nodes: list[Any]) -> Node:
    path = f"nodes[{index}]"
    fields = _fields(value, path, {"has_cpus": bool, "memory_mib": int}, {"initiator": int})
    memory_mib = fields["memory_mib"]
    if memory_mib < SECTION_MIB or memory_mib % SECTION_MIB:
        raise Refused(f"{path}.memory_mib: {memory_mib}, not a multiple of {SECTION_MIB}")
    if fields["has_cpus"]:
        if "initiator" in fields:
            raise Refused(f"{path}.initiator: a node with CPUs is its own")
        return Node(True, memory_mib, index)
    if "initiator" not in fields:
        raise Refused(f"{path}.initiator: missing, and the node has no CPUs")
    return Node(False, memory_mib,
                _in_range(fields["initiator"], f"{path}.initiator", 0, len(all_nodes) - 1))


def _distances(rows: list[Any], count: int) -> tuple[tuple[int, ...], ...]:
    if len(rows) != count:
        raise Refused(f"distances: {len(rows)} rows for {count} nodes")
    for source, row in enumerate(rows):
        path = f"distances[{source}]"
        if not isinstance(row, list) or len(row) != count:
            raise Refused(f"{path}: not a list of {count} numbers")
        for target, distance in enumerate(row):
            where = f"{path}[{target}]"
            if not isinstance(distance, int) or isinstance(distance, bool):
                raise Refused(f"{where}: not an int")
            if source == target and distance != LOCAL_DISTANCE:
                raise Refused(f"{where}: {distance}, a node is {LOCAL_DISTANCE} from itself")
            if source != target:
                _in_range(distance, where, LOCAL_DISTANCE + 1, MAX_DISTANCE)
    return tuple(tuple(row) for row in rows)


def _accesses(values: list[Any], nodes: tuple[Node, ...]) -> tuple[Access, ...]:
    seen: dict[tuple[int, int], Access] = {}
    for index, value in enumerate(values):
        path = f"accesses[{index}]"
        fields = _fields(value, path, {"initiator": int, "target": int, "latency_ns": int,
                                       "bandwidth_mib_per_s": int})
        initiator = _in_range(fields["initiator"], f"{path}.initiator", 0, len(nodes) - 1)
        target = _in_range(fields["target"], f"{path}.target", 0, len(nodes) - 1)
        if not nodes[initiator].has_cpus:
            raise Refused(f"{path}.initiator: node {initiator} has no CPUs")
        if (initiator, target) in seen:
            raise Refused(f"{path}: node {initiator} to node {target} is given twice")
        # HMAT entries are 16-bit multiples of one base unit.
        _in_range(fields["latency_ns"], f"{path}.latency_ns", 1, 0xFFFE)
        _in_range(fields["bandwidth_mib_per_s"], f"{path}.bandwidth_mib_per_s", 1, 0xFFFE * 1024)
        seen[initiator, target] = Access(**fields)
    wanted = [(initiator, target) for initiator, node in enumerate(nodes) if node.has_cpus
              for target in range(len(nodes))]
    for pair in wanted:
        if pair not in seen:
            raise Refused(f"accesses: none from node {pair[0]} to node {pair[1]}")
    return tuple(seen[pair] for pair in wanted)


def scaled(topology: Topology, memory_mib: int) -> Topology:
    """The same layout with memory_mib in all, shared out in the given proportions; each node's
    share is rounded down to whole sections."""
    total = topology.memory_mib
    nodes = []
    for index, node in enumerate(topology.nodes):
        share = node.memory_mib * memory_mib // total // SECTION_MIB * SECTION_MIB
        if share == 0:
            raise Refused(f"memory size {memory_mib}M: leaves node {index} less than {SECTION_MIB}M; "
                          f"its share is {node.memory_mib} of {total}")
        nodes.append(dataclasses.replace(node, memory_mib=share))
    return dataclasses.replace(topology, nodes=tuple(nodes))


def cpus_of_nodes(topology: Topology, cpus: int) -> list[range]:
    """The node of each CPU. CPUs are shared out evenly and in order, since each node with CPUs is a
    socket and QEMU's sockets are alike."""
    owners = [index for index, node in enumerate(topology.nodes) if node.has_cpus]
    each = cpus // len(owners)
    if cpus % len(owners) or not each:
        raise Refused(f"{cpus} CPUs: not a multiple of the topology's {len(owners)} nodes with CPUs")
    shares = [range(0)] * len(topology.nodes)
    for socket, index in enumerate(owners):
        shares[index] = range(socket * each, (socket + 1) * each)
    return shares


def qemu_arguments(topology: Topology, cpus: int) -> list[str]:
    """Everything that QEMU needs to know of CPUs and memory, hmat=on of -machine aside."""
    shares = cpus_of_nodes(topology, cpus)
    sockets = sum(node.has_cpus for node in topology.nodes)
    # Linux warns of a socket whose CPUs are on two nodes.
    arguments = ["-smp", f"{cpus},sockets={sockets},cores={cpus // sockets},threads=1",
                 "-m", f"{topology.memory_mib}M"]
    for index, (node, owned) in enumerate(zip(topology.nodes, shares)):
        arguments += ["-object", f"memory-backend-ram,id=ram{index},size={node.memory_mib}M"]
        place = f"cpus={owned.start}-{owned.stop - 1}," if owned else ""
        arguments += ["-numa", f"node,nodeid={index},{place}memdev=ram{index},"
                               f"initiator={node.initiator}"]
    for source, row in enumerate(topology.distances):
        for target, distance in enumerate(row):
            if source != target:
                arguments += ["-numa", f"dist,src={source},dst={target},val={distance}"]
    for access in topology.accesses:
        pair = f"initiator={access.initiator},target={access.target},hierarchy=memory"
        arguments += ["-numa", f"hmat-lb,{pair},data-type=access-latency,"
                               f"latency={access.latency_ns}"]
        arguments += ["-numa", f"hmat-lb,{pair},data-type=access-bandwidth,"
                               f"bandwidth={access.bandwidth_mib_per_s}M"]
    return arguments
