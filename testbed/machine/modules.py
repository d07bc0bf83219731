# SPDX-License-Identifier: Apache-2.0
"""Builds the project's kernel modules for a kernel of the testbed."""

import pathlib
import subprocess

from machine.errors import Refused
from machine.kernels import Kernel, locked

BUILD = pathlib.Path(__file__).resolve().parents[2] / "tools" / "build_module"
# The folders of each module: its own sources and those that they include.
FOLDERS = {"tmprof": ("driver",), "vpmu": ("testbed/vpmu", "testbed/tiersim/format")}


def build(module: str, kernel: Kernel, cache: pathlib.Path) -> pathlib.Path:
    """The built MODULE.ko of FOLDERS. make decides what has to be built anew."""
    output = cache / "modules" / module / kernel.name
    with locked(output):
        output.mkdir(exist_ok=True)
        try:
            result = subprocess.run([BUILD, "--headers", kernel.headers.absolute(),
                                     "--output", output.absolute(), *FOLDERS[module]],
                                    capture_output=True, text=True, check=False)
        except OSError as error:
            raise Refused(f"running {BUILD}: {error.strerror}") from error
    if result.returncode != 0:
        raise Refused(f"building {module} for kernel {kernel.name} failed:\n"
                      f"{result.stdout}{result.stderr}".rstrip())
    return output / f"{module}.ko"
