# SPDX-License-Identifier: Apache-2.0
"""Reasons why a machine cannot be had. Each message names the object and what to do."""


class Refused(Exception):
    """Bad input, or a step of our own that failed."""


class Unavailable(Exception):
    """This host lacks something that only its owner can provide: QEMU, network, a debug kernel."""
