# SPDX-License-Identifier: Apache-2.0
"""The virtual machine in which kernels, the driver and tmprof itself are tested."""
