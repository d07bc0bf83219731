#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""testbed/vm with real kernels: each way to end is told apart, and layouts are what they say.

Usage: machine_test.py KERNEL BUILD [unittest's arguments]
BUILD is the build folder whose programs the guest gets. Where KERNEL is not to be had, all is skipped,
as GoogleTest would say it.
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import paths

VM = paths.TESTBED / "vm"
KERNEL, BUILD = sys.argv[1:3]
STOCK = KERNEL != "debug"
# One of those that boot fast is enough for what does not depend on the kernel.
FOR_ALL = KERNEL == "6.12"
OF_VM_ALONE = unittest.skipUnless(FOR_ALL, "does not depend on the kernel; 6.12 stands for all")
# The debug kernel boots in half a minute and more, for what its checks find.
OF_STOCK = unittest.skipUnless(STOCK, "does not depend on a kernel's checks; 6.1 and 6.12 stand for it")
# A boot takes seconds; this is for a host that does a lot besides.
TIME_LIMIT_S = 180


def command_line(*arguments: str, time_limit_s: int = TIME_LIMIT_S) -> list[str]:
    return [str(VM), "--kernel", KERNEL, "--build", BUILD, "--time-limit", str(time_limit_s),
            *arguments]


def boot(*arguments: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run(command_line(*arguments, **options), capture_output=True, text=True,
                          check=False)


class Machine(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def assert_ends(self, result: subprocess.CompletedProcess, status: int, *words: str) -> None:
        """The status, and each of the words somewhere in what vm says at last."""
        self.assertEqual(result.returncode, status, result.stderr)
        said = [line for line in result.stderr.splitlines() if line.startswith("vm: ")]
        for word in words:
            self.assertIn(word, "\n".join(said))


class Commands(Machine):
    def test_pass_their_status_and_both_streams_on(self):
        result = boot("--", "echo out; echo err >&2; echo err again >/dev/stderr; exit 3")
        # vm may say itself that it began anew: an emulated machine is unfit now and then.
        said = [line for line in result.stderr.splitlines() if not line.startswith("vm: ")]
        self.assertEqual((result.returncode, result.stdout, said), (3, "out\n", ["err", "err again"]))

    @OF_VM_ALONE
    def test_stream_while_they_run(self):
        with subprocess.Popen(command_line("--", "echo first; sleep 1000"),
                              stdout=subprocess.PIPE) as process:
            self.assertEqual(process.stdout.readline(), b"first\n")
            self.assertIsNone(process.poll())
            process.terminate()
            self.assertEqual(process.wait(), 143)

    @OF_VM_ALONE
    def test_find_the_projects_programs(self):
        result = boot("--", "tmprof --version && for p in bfs gups hotset stencil steps xslookup zipf; do "
                            "$p --help || exit; done")
        self.assert_ends(result, 0)
        self.assertRegex(result.stdout, r"\d+\.\d+\.\d+")

    @OF_STOCK
    def test_take_files_in_and_out(self):
        (self.folder / "in").write_bytes(b"x" * 1_000_003)
        result = boot("--put", f"{self.folder / 'in'}:/srv/in", "--put", "/bin/ls",
                      "--get", f"/srv/out:{self.folder / 'out'}", "--get", f"tree:{self.folder}",
                      "--", "./ls /srv; mv /srv/in /srv/out; mkdir -p tree/a; echo leaf >tree/a/b")
        self.assert_ends(result, 0)
        self.assertEqual(result.stdout, "in\n")
        self.assertEqual((self.folder / "out").read_bytes(), b"x" * 1_000_003)
        self.assertEqual((self.folder / "tree/a/b").read_text(encoding="utf-8"), "leaf\n")

    @OF_VM_ALONE
    def test_that_leave_no_file_to_copy_out_do_not_pass(self):
        self.assert_ends(boot("--get", "gone", "--", "true"), 123, "--get /root/gone: not there")


class GuestTime(Machine):
    @unittest.skipUnless(FOR_ALL, "the clock is QEMU's; 6.12 stands for all")
    def test_with_icount_follows_the_instructions_executed_and_not_the_host(self):
        # /proc/uptime counts hundredths of a second, and the loop takes some two seconds. The first
        # run shares the CPU with what 6.12 leaves to kworkers at boot (eval_map_wq).
        result = boot("--icount", "--", """
          now() { cut -d" " -f1 /proc/uptime; }
          loop() { awk "BEGIN { while (i++ < 600000) sum += i }"; }
          loop; now; loop; now; loop; now; sleep 1000; now; nproc""")
        self.assert_ends(result, 0)
        *times_s, cpus = map(float, result.stdout.split())
        first_s, second_s, sleep_s = (later - earlier
                                      for earlier, later in zip(times_s, times_s[1:]))
        self.assertGreater(first_s, 0)
        self.assertLessEqual(abs(first_s - second_s), 0.01 * first_s + 0.01)
        # Longer than the host waits for any machine: an idle guest jumps to its next timer.
        self.assertGreater(1000, TIME_LIMIT_S)
        self.assertAlmostEqual(sleep_s, 1000, delta=1)
        self.assertEqual(cpus, 1)


@OF_STOCK
class Layouts(Machine):
    # Computed by hand, for four CPUs: node -> its CPUs and its distances.
    NODES = {
        "dram-cxl": [("0-3", "10 20"), ("", "20 10")],
        "two-socket-cxl": [("0-1", "10 21 32"), ("2-3", "21 10 20"), ("", "32 20 10")],
        "three-tier": [("0-3", "10 17 28"), ("", "17 10 28"), ("", "28 28 10")],
    }
    # Prints a line for each node. MemTotal lacks what the kernel keeps for itself.
    LIST = ("cd /sys/devices/system/node; for n in node*; do"
            " echo \"$n|$(cat $n/cpulist)|$(cat $n/distance)|"
            "$(sed -n 's/.*MemTotal: *\\([0-9]*\\) kB/\\1/p' $n/meminfo)|"
            "$(cat $n/access0/initiators/read_latency)\"; done")

    def test_are_what_the_guest_sees(self):
        # The layout is QEMU's: that a kernel reads it is shown by one.
        for name in self.NODES if FOR_ALL else ["dram-cxl"]:
            nodes = self.NODES[name]
            with self.subTest(name):
                layout = json.loads((paths.TESTBED / "topologies" / f"{name}.json").read_text("utf-8"))
                nearest_ns = {access["target"]: access["latency_ns"]
                              for access in sorted(layout["accesses"], reverse=True,
                                                   key=lambda access: access["latency_ns"])}
                result = boot("--topology", name, "--cpus", "4", "--", self.LIST)
                self.assert_ends(result, 0)
                lines = result.stdout.splitlines()
                self.assertEqual(len(lines), len(nodes), result.stdout)
                for index, (line, (cpus, distances)) in enumerate(zip(lines, nodes)):
                    node, seen_cpus, seen_distances, memory_kib, latency_ns = line.split("|")
                    self.assertEqual((node, seen_cpus, seen_distances),
                                     (f"node{index}", cpus, distances))
                    memory_mib = layout["nodes"][index]["memory_mib"]
                    self.assertTrue(memory_mib / 2 < int(memory_kib) / 1024 <= memory_mib, line)
                    self.assertEqual(int(latency_ns), nearest_ns[index])

    def test_without_one_have_a_single_node_of_the_memory_asked_for(self):
        result = boot("--memory", "512M", "--cpus", "1", "--",
                      "ls -d /sys/devices/system/node/node* | wc -l; nproc; free -m | awk '/Mem/ {print $2}'")
        self.assert_ends(result, 0)
        nodes, cpus, memory_mib = map(int, result.stdout.split())
        self.assertEqual((nodes, cpus), (1, 1))
        self.assertTrue(300 < memory_mib <= 512, memory_mib)


class Kernels(Machine):
    """Tests kernels in which something goes wrong, by request of a module or of SysRq."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        source = pathlib.Path(folder.name, "complain")
        shutil.copytree(paths.HERE / "complain", source)
        headers = subprocess.run([paths.TESTBED / "kernel_headers", KERNEL], check=True,
                                 capture_output=True, text=True).stdout.strip()
        made = subprocess.run(["make", "-s", "-C", headers, f"M={source}", "W=1", "modules"],
                              check=False, capture_output=True, text=True)
        if made.returncode != 0:
            raise RuntimeError(made.stdout + made.stderr)
        cls.module = source / "complain.ko"

    def complain(self, how: str, *arguments: str, then: str = "",
                 **options) -> subprocess.CompletedProcess:
        return boot(*arguments, "--put", str(self.module), "--",
                    f"insmod complain.ko how={how}{then}", **options)

    def test_that_warn_fail_a_command_that_succeeds(self):
        result = self.complain("warn", then=" && echo went on")
        self.assert_ends(result, 120, "WARNING: CPU: ", "complain_warn")
        self.assertEqual(result.stdout, "went on\n")

    def test_that_oops_are_told_from_those_that_warn(self):
        self.assert_ends(self.complain("oops"), 121, "the kernel died: ")

    def test_that_panic_are_told_from_those_that_stop(self):
        self.assert_ends(boot("--", "echo c >/proc/sysrq-trigger"), 121,
                         "Kernel panic - not syncing: sysrq triggered crash")
        self.assert_ends(boot("--", "poweroff -f"), 122, "ended before COMMAND")

    @OF_VM_ALONE
    def test_that_hang_are_stopped_and_say_where_they_hang(self):
        result = self.complain("hang", time_limit_s=30)
        self.assert_ends(result, 124, "time limit of 30 s")
        self.assertRegex(result.stderr, r"(?s)sysrq: Show Blocked State.*complain_hang")

    @unittest.skipUnless(STOCK, "needs SLUB's checks switched on, where KASAN is in their place")
    def test_that_find_a_broken_heap_when_asked_to_look_say_so(self):
        self.assert_ends(self.complain("overflow", "--append", "slub_debug=FZ"), 120,
                         "BUG kmalloc-64 (")

    @unittest.skipIf(STOCK, "needs the debug kernel's checks")
    def test_with_checks_name_each_kind_of_error(self):
        scan = ("; sleep 6; echo scan >/sys/kernel/debug/kmemleak"
                "; sleep 6; echo scan >/sys/kernel/debug/kmemleak")  # It spares the youngest 5 s.
        for how, then, message in (
                ("use_after_free", "", "BUG: KASAN: slab-use-after-free in complain_use_after_free"),
                ("lock_order", "", "WARNING: possible circular locking dependency detected"),
                ("sleep_in_atomic", "", "BUG: scheduling while atomic: insmod"),
                ("shift", "", "UBSAN: shift-out-of-bounds in "),
                ("leak", scan, "new suspected memory leaks")):
            with self.subTest(how):
                self.assert_ends(self.complain(how, then=then), 120, message)


def main() -> None:
    first = boot("--", "true")
    if first.returncode == 119:
        print(f"machine_test.py: Skipped\n{first.stderr.strip()}\n\n[  SKIPPED ] kernel {KERNEL}")
        sys.exit(119)
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[3:]])


if __name__ == "__main__":
    main()
