# SPDX-License-Identifier: Apache-2.0
"""Lets the tests beside it import the testbed's modules."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TESTBED = ROOT / "testbed"
sys.dont_write_bytecode = True
sys.path.insert(0, str(TESTBED))
