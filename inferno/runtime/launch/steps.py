"""What stands behind the steps of a plan on a GPU: a kernel's handle, or a call of the library that is ready to be made."""

from collections.abc import Mapping
from math import prod
from typing import Any

from inferno.errors import CompileError
from inferno.library_matmul import FUNCTION
from inferno.runtime.launch import driver
from inferno.runtime.launch.cublaslt import MatmulCall, cublaslt, describe
from inferno.runtime.plan.plan import Launch, LibraryCall, Plan
from inferno.symbolic import reach


def functions_of(plan: Plan, modules: Mapping[str, Any], device: int) -> list[int | MatmulCall]:
    """One for each step, on the current device, whose number is ``device``; ``modules`` are the loaded kernels.  LaunchError for what is
    not there."""
    found: list[int | MatmulCall] = []
    shared: dict[str, int] = {}  # the most that a kernel asks for in any of its launches
    for step in plan.steps:
        if isinstance(step, Launch):
            shared[step.kernel] = max(reach(step.shared), shared.get(step.kernel, 0))
    for step in plan.steps:
        if isinstance(step, LibraryCall):
            if step.function != FUNCTION:
                raise CompileError(f"a plan for a GPU calls the library function {step.function}; there it can call {FUNCTION}")
            found.append(MatmulCall(step, cublaslt(device)))
        else:
            module, name = step.kernel.split("::")
            found.append(driver.function(modules[module], name, shared[step.kernel], prod(step.cluster)))
    return found


def failure(step: Launch | LibraryCall, code: int, when: str = "") -> str:
    """What to say of a step that failed with a code of the driver's or the library's."""
    if isinstance(step, LibraryCall):
        return f"calling cuBLASLt for kernel {step.kernel}{when}: {describe(code)}"
    return f"launching {step.kernel}{when}: {driver.describe(code)}"
