# SPDX-License-Identifier: Apache-2.0
"""Options of --tiersim, and what they become: arguments of QEMU, the plugin and the guest's module."""

import dataclasses
import pathlib
import re

from machine import topology
from machine.errors import Refused

PLUGIN = "tiersim.so"
# The size of the shared memory; testbed/tiersim/format/shared_page.h has it, too.
SHARED_BYTES = 4 << 20
# The plugin checks what they are.
PLUGIN_OPTIONS = ("clock", "dtlb_entries", "dtlb_policy", "dtlb_ways", "l1_kib", "latencies_ns", "line_bytes",
                  "llc_kib", "llc_policy", "llc_ways", "prefetch_lines", "ring_samples", "walk_ns")
EPOCH = "epoch_ms"
NAMES = tuple(sorted((*PLUGIN_OPTIONS, EPOCH)))
# The values of the kernel's argument transparent_hugepage=.
THP_MODES = ("never", "madvise", "always")
DIGITS = re.compile(r"[1-9][0-9]*")


@dataclasses.dataclass(frozen=True)
class Options:
    """plugin: its own, as given. epoch_ms: of the truth."""
    plugin: dict[str, str]
    epoch_ms: int = 1000

    @property
    def charges(self) -> bool:
        """True if latencies are charged to the guest's clock, which takes icount."""
        return self.plugin.get("clock", "charge") == "charge"


def parse(text: str) -> Options:
    """'llc_kib=2048,epoch_ms=100'; empty for all defaults."""
    plugin: dict[str, str] = {}
    epoch_ms = Options.epoch_ms
    seen = set()
    for word in filter(None, text.split(",")):
        name, equals, value = word.partition("=")
        if name not in NAMES or not equals:
            raise Refused(f"--tiersim: '{word}': not one of {', '.join(NAMES)} with a value")
        if name in seen:
            raise Refused(f"--tiersim: {name} is given twice")
        seen.add(name)
        if name != EPOCH:
            plugin[name] = value
        elif DIGITS.fullmatch(value):
            epoch_ms = int(value)
        else:
            raise Refused(f"--tiersim: {EPOCH}={value}: not a whole number of milliseconds above 0")
    return Options(plugin, epoch_ms)


def thp_mode(asked: str, kernel_arguments: str) -> str:
    """The mode that the kernel takes from both: of the words that it knows, the last one wins."""
    for word in kernel_arguments.split():
        name, _, value = word.partition("=")
        if name == "transparent_hugepage" and value in THP_MODES:
            asked = value
    return asked


def latencies_ns(layout: topology.Topology, cpus: int) -> str:
    """Latencies from each CPU, in order, to each node, in the plugin's format: "80:250/120:250"."""
    rows: dict[int, str] = {}
    for initiator, owned in enumerate(topology.cpus_of_nodes(layout, cpus)):
        row = ":".join(str(access.latency_ns) for access in layout.accesses
                       if access.initiator == initiator)
        rows.update(dict.fromkeys(owned, row))
    return "/".join(rows[cpu] for cpu in sorted(rows))


def find_plugin(build: pathlib.Path) -> pathlib.Path:
    file = build / PLUGIN
    if not file.is_file():
        raise Refused(f"{file}: there is none. Build the target {PLUGIN}, or name another folder with "
                      "--build.")
    return file.absolute()


def make_shared(file: pathlib.Path) -> None:
    with open(file, "wb") as memory:
        memory.truncate(SHARED_BYTES)


def _escaped(value: str) -> str:
    """A comma ends an option of QEMU's; two are one."""
    return value.replace(",", ",,")


def qemu_arguments(options: Options, layout: topology.Topology | None, cpus: int,
                   plugin: pathlib.Path, shared: pathlib.Path, truth: pathlib.Path,
                   thp: str) -> list[str]:
    """shared: as make_shared() makes it. The layout's latencies hold unless others were given. thp: of
    THP_MODES, for the truth to tell."""
    arguments = dict(options.plugin)
    if layout is not None:
        arguments.setdefault("latencies_ns", latencies_ns(layout, cpus))
    arguments |= {"shared": str(shared), "truth": str(truth), "thp": thp}
    words = "".join(f",{name}={_escaped(value)}" for name, value in arguments.items())
    return ["-object", f"memory-backend-file,id=tiersim,share=on,size={SHARED_BYTES},"
                       f"mem-path={_escaped(str(shared))}",
            "-device", "ivshmem-plain,memdev=tiersim",
            "-plugin", f"{_escaped(str(plugin))}{words}"]
