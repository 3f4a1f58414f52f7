"""The inferno dialect: what the stages need and upstream lacks.

| operation             | stage | meaning |
|-----------------------|-------|---------|
| ``inferno.launch``     | gpu   | run one kernel on parameters, in order |
| ``inferno.pointer``    | gpu   | a buffer's address, as a parameter |
| ``inferno.scalar``     | gpu   | a number, as a parameter |
| ``inferno.tensor_map`` | gpu   | a buffer as the copy engine (TMA) sees it, as a parameter: boxes of a strided tensor of up to 5 dimensions |
| ``inferno.pixel_map``  | gpu   | images as the copy engine sees them in its im2col mode: pixels that a convolution's windows begin at |
| ``inferno.sized_tensor_map`` | gpu | the same where sizes or strides depend on the call |
| ``inferno.workspace``  | gpu   | a buffer inside the plan's workspace, at a byte offset |
| ``inferno.sized_workspace`` | gpu | the same where its offset or its sizes depend on the call |
| ``inferno.library``    | gpu   | call a library function (an ATen operator, cuBLASLt) on the operands |

Text is MLIR's generic form: ``"inferno.launch"(%p, %q) {kernel = @k::@k, ...} : (!inferno.parameter, !inferno.parameter) -> ()``.
"""

import sys

from torch_mlir.dialects import ext

from inferno.dialect.ops import (
    AT_CALL, COOPERATIVE, COPIES, Inferno, LaunchOp, LibraryOp, ParameterType, PixelMapOp, PointerOp, ScalarOp, SizedTensorMapOp,
    SizedWorkspaceOp, TensorMapOp, WorkspaceOp,
)

__all__ = [
    "AT_CALL", "COOPERATIVE", "COPIES", "Inferno", "LaunchOp", "LibraryOp", "ParameterType", "PixelMapOp", "PointerOp", "ScalarOp", "SizedTensorMapOp",
    "SizedWorkspaceOp", "TensorMapOp", "WorkspaceOp",
]

# The bindings import a module of the dialect's name for each operation that they meet: where there is none, they look for it
# on all of sys.path each time, which was half of the time of planning launches.
sys.modules.setdefault(f"{ext.__package__}.{Inferno.DIALECT_NAMESPACE}", sys.modules[__name__])
