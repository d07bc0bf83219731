#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Topologies: what QEMU is told, worked out by hand, and what is refused."""

import copy
import pathlib
import tempfile
import unittest

import paths
from machine import topology
from machine.errors import Refused

TWO_NODES = {
    "description": "",
    "nodes": [{"has_cpus": True, "memory_mib": 1024},
              {"has_cpus": False, "memory_mib": 2048, "initiator": 0}],
    "distances": [[10, 20], [30, 10]],
    "accesses": [
        {"initiator": 0, "target": 1, "latency_ns": 250, "bandwidth_mib_per_s": 20480},
        {"initiator": 0, "target": 0, "latency_ns": 80, "bandwidth_mib_per_s": 102400}],
}

THREE_OWNERS = {
    "description": "",
    "nodes": [{"has_cpus": True, "memory_mib": 128},
              {"has_cpus": False, "memory_mib": 256, "initiator": 2},
              {"has_cpus": True, "memory_mib": 128},
              {"has_cpus": True, "memory_mib": 128}],
    "distances": [[10 if a == b else 20 for b in range(4)] for a in range(4)],
    "accesses": [{"initiator": a, "target": b, "latency_ns": 1, "bandwidth_mib_per_s": 1}
                 for a in (0, 2, 3) for b in range(4)],
}


class Arguments(unittest.TestCase):
    def test_say_nodes_distances_and_hmat(self):
        lb = "hmat-lb,initiator=0,target={},hierarchy=memory,data-type=access-{}"
        self.assertEqual(topology.qemu_arguments(topology.parse(TWO_NODES), 2), [
            "-smp", "2,sockets=1,cores=2,threads=1", "-m", "3072M",
            "-object", "memory-backend-ram,id=ram0,size=1024M",
            "-numa", "node,nodeid=0,cpus=0-1,memdev=ram0,initiator=0",
            "-object", "memory-backend-ram,id=ram1,size=2048M",
            "-numa", "node,nodeid=1,memdev=ram1,initiator=0",
            "-numa", "dist,src=0,dst=1,val=20",
            "-numa", "dist,src=1,dst=0,val=30",
            "-numa", lb.format(0, "latency,latency=80"),
            "-numa", lb.format(0, "bandwidth,bandwidth=102400M"),
            "-numa", lb.format(1, "latency,latency=250"),
            "-numa", lb.format(1, "bandwidth,bandwidth=20480M")])

    def test_give_each_node_with_cpus_a_socket(self):
        layout = topology.parse(THREE_OWNERS)
        self.assertEqual(topology.cpus_of_nodes(layout, 6),
                         [range(0, 2), range(0), range(2, 4), range(4, 6)])
        self.assertEqual(topology.qemu_arguments(layout, 6)[:2],
                         ["-smp", "6,sockets=3,cores=2,threads=1"])

    def test_refuse_cpus_that_cannot_be_shared_out_evenly(self):
        for cpus in (0, 2, 8):
            with self.assertRaisesRegex(Refused, f"^{cpus} CPUs: not a multiple of the topology's 3 "):
                topology.cpus_of_nodes(topology.parse(THREE_OWNERS), cpus)


class Scaling(unittest.TestCase):
    def test_keeps_proportions_in_whole_sections(self):
        # 1000 MiB: a third is 333, of which two sections of 128 are whole; two thirds are 666: five.
        scaled = topology.scaled(topology.parse(TWO_NODES), 1000)
        self.assertEqual([node.memory_mib for node in scaled.nodes], [256, 640])

    def test_refuses_to_leave_a_node_without_memory(self):
        with self.assertRaisesRegex(Refused, "300M: leaves node 0 less than 128M"):
            topology.scaled(topology.parse(TWO_NODES), 300)

    def test_reads_sizes_as_qemu_writes_them(self):
        self.assertEqual(topology.parse_size_mib("512M"), 512)
        self.assertEqual(topology.parse_size_mib("4G"), 4096)
        for text in ("", "4", "0G", "4g", "-1M", "1.5G", "1T", "4G "):
            with self.subTest(text), self.assertRaises(Refused):
                topology.parse_size_mib(text)


def changed(change) -> dict:
    document = copy.deepcopy(TWO_NODES)
    change(document)
    return document


def put(*path_and_value):
    """A change that sets the field at a path to a value."""
    *path, last, value = path_and_value

    def change(document):
        for step in path:
            document = document[step]
        document[last] = value
    return change


def drop(*path):
    """A change that removes the field at a path."""
    *path, last = path

    def change(document):
        for step in path:
            document = document[step]
        del document[last]
    return change


class Validation(unittest.TestCase):
    CASES = [
        (drop("nodes"), "nodes: missing"),
        (put("nodes", {}), "nodes: not a list"),
        (put("nodes", []), "nodes: 0 nodes, allowed are 1 to 16"),
        (put("speed", 1), "speed: unknown field"),
        (put("nodes", 1, 7), r"nodes\[1\]: not an object"),
        (put("nodes", 1, "size", 7), r"nodes\[1\]\.size: unknown field"),
        (drop("nodes", 0, "memory_mib"), r"nodes\[0\]\.memory_mib: missing"),
        (put("nodes", 0, "memory_mib", True), r"nodes\[0\]\.memory_mib: not an int"),
        (put("nodes", 0, "memory_mib", 1.5), r"nodes\[0\]\.memory_mib: not an int"),
        (put("nodes", 0, "memory_mib", 0), r"nodes\[0\]\.memory_mib: 0, not a multiple of 128"),
        (put("nodes", 0, "memory_mib", 1000), r"nodes\[0\]\.memory_mib: 1000, not a multiple"),
        (put("nodes", 0, "has_cpus", 1), r"nodes\[0\]\.has_cpus: not a bool"),
        (put("nodes", 0, "initiator", 0), r"nodes\[0\]\.initiator: a node with CPUs is its own"),
        (drop("nodes", 1, "initiator"), r"nodes\[1\]\.initiator: missing"),
        (put("nodes", 1, "initiator", 2), r"nodes\[1\]\.initiator: 2, allowed are 0 to 1"),
        (put("nodes", 1, "initiator", 1), r"nodes\[1\]\.initiator: node 1 has no CPUs"),
        (put("nodes", 0, {"has_cpus": False, "memory_mib": 128, "initiator": 1}),
         "nodes: none has CPUs"),
        (put("distances", [[10, 20]]), "distances: 1 rows for 2 nodes"),
        (put("distances", 1, [10]), r"distances\[1\]: not a list of 2 numbers"),
        (put("distances", 1, 0, "20"), r"distances\[1\]\[0\]: not an int"),
        (put("distances", 1, 1, 11), r"distances\[1\]\[1\]: 11, a node is 10 from itself"),
        (put("distances", 0, 1, 10), r"distances\[0\]\[1\]: 10, allowed are 11 to 254"),
        (put("distances", 0, 1, 255), r"distances\[0\]\[1\]: 255, allowed are 11 to 254"),
        (put("accesses", []), "accesses: none from node 0 to node 0"),
        (drop("accesses", 0), "accesses: none from node 0 to node 1"),
        (put("accesses", 0, "target", 0), r"accesses\[1\]: node 0 to node 0 is given twice"),
        (put("accesses", 0, "target", 2), r"accesses\[0\]\.target: 2, allowed are 0 to 1"),
        (put("accesses", 0, "initiator", 1), r"accesses\[0\]\.initiator: node 1 has no CPUs"),
        (put("accesses", 0, "latency_ns", 0), r"accesses\[0\]\.latency_ns: 0, allowed"),
        (put("accesses", 0, "bandwidth_mib_per_s", -1),
         r"accesses\[0\]\.bandwidth_mib_per_s: -1, allowed"),
    ]

    def test_names_the_field_that_is_wrong(self):
        for change, message in self.CASES:
            with self.subTest(message), self.assertRaisesRegex(Refused, f"^{message}"):
                topology.parse(changed(change))

    def test_refuses_what_is_not_an_object(self):
        with self.assertRaisesRegex(Refused, "the document: not an object"):
            topology.parse([])

    def test_names_the_file_and_the_line_of_broken_json(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "t.json")
            file.write_text('{\n"nodes": [,]}', encoding="utf-8")
            with self.assertRaisesRegex(Refused, r"t\.json: line 2: "):
                topology.load(file)
            with self.assertRaisesRegex(Refused, r"none\.json: No such file"):
                topology.load(pathlib.Path(folder, "none.json"))


class Shipped(unittest.TestCase):
    def test_are_valid_and_have_the_nodes_that_their_names_promise(self):
        shape = {}
        for file in sorted((paths.TESTBED / "topologies").glob("*.json")):
            shape[file.stem] = [node.has_cpus for node in topology.load(file).nodes]
        self.assertEqual(shape, {"dram-cxl": [True, False],
                                 "three-expanders": [True, False, False, False],
                                 "three-tier": [True, False, False],
                                 "two-socket-cxl": [True, True, False]})


if __name__ == "__main__":
    unittest.main()
