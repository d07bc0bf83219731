#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""--tiersim's options, and what QEMU is told of them."""

import pathlib
import re
import tempfile
import unittest

import paths
from machine import tiersim, topology
from machine.errors import Refused

PLUGIN, SHARED, TRUTH = (pathlib.Path(name) for name in ("/p/tiersim.so", "/s/shared", "/t/truth"))


class Options(unittest.TestCase):
    def test_are_all_defaults_where_none_is_given(self):
        self.assertEqual(tiersim.parse(""), tiersim.Options({}, 1000))

    def test_are_the_plugins_but_for_the_epoch(self):
        self.assertEqual(tiersim.parse("llc_kib=2048,epoch_ms=100,llc_policy=round-robin"),
                         tiersim.Options({"llc_kib": "2048", "llc_policy": "round-robin"}, 100))

    def test_that_are_unknown_or_twice_or_no_number_are_refused_by_name(self):
        for text, message in (
                ("llc=1", "'llc=1': not one of clock, dtlb_entries, "),
                ("llc_kib", "'llc_kib': not one of"),
                ("walk_ns=1,walk_ns=2", "walk_ns is given twice"),
                ("epoch_ms=0", "epoch_ms=0: not a whole number of milliseconds"),
                ("epoch_ms=1s", "epoch_ms=1s: not a whole number"),
                # The plugin's own, which vm sets.
                ("truth=x", "'truth=x': not one of")):
            with self.subTest(text), self.assertRaisesRegex(Refused, re.escape(message)):
                tiersim.parse(text)

    def test_charge_the_clock_unless_it_is_to_be_reported(self):
        self.assertTrue(tiersim.parse("").charges)
        self.assertTrue(tiersim.parse("clock=charge").charges)
        self.assertFalse(tiersim.parse("clock=report").charges)

    def test_are_the_ones_that_the_plugin_takes(self):
        source = (paths.TESTBED / "tiersim/tiersim.c").read_text(encoding="utf-8")
        taken = set(re.findall(r'!strcmp\(name, "(\w+)"\)', source))
        self.assertEqual(taken, {*tiersim.PLUGIN_OPTIONS, "shared", "truth", "thp"})


class HugePages(unittest.TestCase):
    def test_are_as_asked_unless_a_kernel_argument_says_otherwise(self):
        for asked, arguments, mode in (
                ("never", "", "never"), ("always", "quiet", "always"),
                ("never", "transparent_hugepage=always x=1", "always"),
                ("always", "transparent_hugepage=madvise transparent_hugepage=never", "never"),
                ("madvise", "transparent_hugepage=sometimes", "madvise")):
            with self.subTest(asked=asked, arguments=arguments):
                self.assertEqual(tiersim.thp_mode(asked, arguments), mode)


class Latencies(unittest.TestCase):
    def latencies(self, name: str, cpus: int) -> str:
        return tiersim.latencies_ns(topology.load(paths.TESTBED / f"topologies/{name}.json"), cpus)

    def test_are_the_layouts_for_each_cpu_and_node(self):
        self.assertEqual(self.latencies("dram-cxl", 1), "80:250")
        self.assertEqual(self.latencies("dram-cxl", 2), "80:250/80:250")

    def test_differ_between_the_cpus_of_two_nodes(self):
        document = {
            "description": "", "distances": [[10, 20], [20, 10]],
            "nodes": [{"has_cpus": True, "memory_mib": 128}, {"has_cpus": True, "memory_mib": 128}],
            "accesses": [{"initiator": cpu, "target": node, "bandwidth_mib_per_s": 1,
                          "latency_ns": latency}
                         for (cpu, node), latency in {(0, 0): 80, (0, 1): 130, (1, 0): 140,
                                                      (1, 1): 90}.items()]}
        self.assertEqual(tiersim.latencies_ns(topology.parse(document), 4),
                         "80:130/80:130/140:90/140:90")


class Arguments(unittest.TestCase):
    def arguments(self, options: str = "", layout: topology.Topology | None = None,
                  truth: pathlib.Path = TRUTH) -> dict[str, str]:
        words = tiersim.qemu_arguments(tiersim.parse(options), layout, 1, PLUGIN, SHARED, truth, "never")
        self.assertEqual(len(words), 6)
        return dict(zip(words[::2], words[1::2]))

    def test_share_one_file_with_the_guest_and_the_plugin(self):
        found = self.arguments("walk_ns=5")
        self.assertEqual(found["-object"],
                         "memory-backend-file,id=tiersim,share=on,size=4194304,mem-path=/s/shared")
        self.assertEqual(found["-device"], "ivshmem-plain,memdev=tiersim")
        self.assertEqual(found["-plugin"], "/p/tiersim.so,walk_ns=5,shared=/s/shared,truth=/t/truth,thp=never")

    def test_take_the_layouts_latencies_unless_others_are_given(self):
        layout = topology.load(paths.TESTBED / "topologies/dram-cxl.json")
        self.assertIn(",latencies_ns=80:250,", self.arguments("", layout)["-plugin"])
        self.assertIn(",latencies_ns=1:2,", self.arguments("latencies_ns=1:2", layout)["-plugin"])
        self.assertNotIn("latencies_ns", self.arguments()["-plugin"])

    def test_double_the_commas_of_a_files_name(self):
        self.assertIn(",truth=/t/a,,b", self.arguments(truth=pathlib.Path("/t/a,b"))["-plugin"])

    def test_have_room_for_what_is_shared(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "shared")
            tiersim.make_shared(file)
            header = (paths.TESTBED / "tiersim/format/shared_page.h").read_text(encoding="utf-8")
            self.assertIn("#define TIERSIM_SHARED_BYTES (4U << 20)", header)
            self.assertEqual(file.stat().st_size, 4 << 20)

    def test_need_a_plugin_that_was_built(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(Refused, "tiersim.so: there is none. Build the target"):
                tiersim.find_plugin(pathlib.Path(folder))


if __name__ == "__main__":
    unittest.main()
