# SPDX-License-Identifier: Apache-2.0
"""Builds tmprof.ko for a kernel of the testbed."""

import pathlib
import subprocess

from machine.errors import Refused
from machine.kernels import Kernel, locked

BUILD = pathlib.Path(__file__).resolve().parents[2] / "driver" / "build"


def build(kernel: Kernel, cache: pathlib.Path) -> pathlib.Path:
    """The built module. driver/build decides what has to be built anew."""
    output = cache / "driver" / kernel.name
    with locked(output):
        output.mkdir(exist_ok=True)
        try:
            result = subprocess.run([BUILD, "--headers", kernel.headers.absolute(),
                                     "--output", output.absolute()],
                                    capture_output=True, text=True, check=False)
        except OSError as error:
            raise Refused(f"running {BUILD}: {error.strerror}") from error
    if result.returncode != 0:
        raise Refused(f"building the driver for kernel {kernel.name} failed:\n"
                      f"{result.stdout}{result.stderr}".rstrip())
    return output / "tmprof.ko"
