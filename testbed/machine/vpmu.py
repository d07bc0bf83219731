# SPDX-License-Identifier: Apache-2.0
"""Builds vpmu.ko, the guest's side of tiersim, for a kernel of the testbed."""

import pathlib
import shutil
import subprocess

from machine.errors import Refused
from machine.kernels import Kernel, locked

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("testbed/vpmu", "testbed/tiersim/format")


def build(kernel: Kernel, cache: pathlib.Path) -> pathlib.Path:
    """The built module. Sources are copied out of the tree with their times, so that make builds
    what has changed."""
    output = (cache / "vpmu" / kernel.name).absolute()
    headers = kernel.headers.absolute()
    if any(" " in str(path) for path in (output, headers)):
        raise Refused(f"kbuild takes no path with a space: {output}, {headers}")
    with locked(output):
        for folder in FOLDERS:
            (output / folder).mkdir(parents=True, exist_ok=True)
            for source in (ROOT / folder).iterdir():
                copy = output / folder / source.name
                if not copy.exists() or copy.stat().st_mtime_ns != source.stat().st_mtime_ns:
                    shutil.copy2(source, copy)
        result = subprocess.run(["make", "--no-print-directory", "-C", headers,
                                 f"M={output / FOLDERS[0]}", "W=1", "KCFLAGS=-Werror", "modules"],
                                capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise Refused(f"building vpmu for kernel {kernel.name} failed:\n"
                      f"{result.stdout}{result.stderr}".rstrip())
    return output / FOLDERS[0] / "vpmu.ko"
