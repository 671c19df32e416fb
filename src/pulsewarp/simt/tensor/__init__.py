"""Tensor cores: fragments of one mma over 32 lanes, and a product issued as warps of mma beside FFMA.

NVIDIA documents what a warp does (which shapes there are, which lane holds which element) and how many
multiply-adds a tensor core makes a cycle. How it is built inside is not documented, so nothing here says
that it is a systolic array: an mma is one instruction that holds its unit for so many cycles.
"""

from __future__ import annotations

from pulsewarp.simt.tensor._programs import ROLE_COLUMNS, ROLES
from pulsewarp.simt.tensor.frame import TiledTally
from pulsewarp.simt.tensor.kernel import ffma_kernel, tensor_kernel
from pulsewarp.simt.tensor.shapes import Fragment, MmaShape, fragment, mma_shapes
from pulsewarp.simt.tensor.staging import matrix_load
from pulsewarp.simt.tensor.trace import (
    FILL_COLUMNS,
    STAGE_STATES,
    WORK_COLUMNS,
    TiledCounts,
    TiledKernel,
    TiledTrace,
)

__all__ = [
    "FILL_COLUMNS",
    "ROLES",
    "ROLE_COLUMNS",
    "STAGE_STATES",
    "WORK_COLUMNS",
    "Fragment",
    "MmaShape",
    "TiledCounts",
    "TiledKernel",
    "TiledTally",
    "TiledTrace",
    "ffma_kernel",
    "fragment",
    "matrix_load",
    "mma_shapes",
    "tensor_kernel",
]
