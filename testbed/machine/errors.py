# SPDX-License-Identifier: Apache-2.0
"""What can keep a machine from being had. Each message names the object and what to do."""


class Refused(Exception):
    """Bad input, or a step of our own that failed."""


class Unavailable(Exception):
    """This host lacks something that only its owner can provide: QEMU, network, a debug kernel."""
