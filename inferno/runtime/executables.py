"""What runs a program on a machine: its plan made executable, with the constants and the prepared weights that it takes."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import torch

from inferno.runtime.device import target_of
from inferno.runtime.elements import DTYPES
from inferno.runtime.plan.complex_numbers import as_complex
from inferno.runtime.plan.in_place import write_in_place
from inferno.runtime.plan.kernel import Kernel
from inferno.runtime.plan.plan import Launch, Plan
from inferno.runtime.prepared import Prepared
from inferno.runtime.program import Program
from inferno.target import Target


def tensor_of(element: str, shape: tuple[int, ...], data: bytes) -> torch.Tensor:
    """A constant that the compiler made, as a tensor."""
    return torch.frombuffer(bytearray(data), dtype=DTYPES[element]).reshape(shape) if data else torch.empty(shape, dtype=DTYPES[element], device="cpu")


def constants_of(program: Program, device: torch.device) -> list[torch.Tensor]:
    """The constants that became arguments behind the program's own."""
    return [tensor_of(*c).to(device) for c in program.constants]


def further_arguments(program: Program, device: torch.device, arguments: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """What ``@main`` takes behind the arguments of a call: constants, and what is prepared of both."""
    constants = constants_of(program, device)
    prepared = make_prepared(program, device, constants)
    return constants if prepared is None else [*constants, *prepared.get(arguments, [a.contiguous() for a in arguments])]


def make_prepared(program: Program, device: torch.device, constants: Sequence[torch.Tensor], interpret: bool = False) -> Prepared | None:
    """What keeps the program's prepared weights; None where it prepares none."""
    if program.preparation is None:
        return None
    plan = program.preparation.plan
    part = replace(program, signature=None, plan=plan, preparation=None)
    return Prepared(program, make_executable(part, device, [DTYPES[o.element] for o in plan.outputs], interpret), constants)


def make_executable(
    program: Program, device: torch.device, dtypes: list[torch.dtype], interpret: bool = False, cuda_graphs: bool = False,
    given: Collection[int] = (), writes: Sequence[tuple[int, int]] = (),
) -> Any:
    """What runs the program on ``device``; None where the program is for another machine.  ``dtypes`` are the results'; ``given``:
    the numbers of the arguments that are given away to it; ``writes``: results that belong in the place of arguments, beside those of its signature."""
    if program.target.kind == "cpu":
        if device.type != "cpu":
            return None
        from inferno.runtime.launch.cpu import Code, CpuExecutable
        from inferno.runtime.launch.sized_cpu import SizedCpuExecutable

        plan = as_complex(plan_in_place(program, writes), dtypes)
        code = Code(plan, {n: k.llvm for n, k in _launched(program, plan).items()})
        return SizedCpuExecutable(plan, code, dtypes) if plan.symbols else CpuExecutable(plan, code, dtypes)
    if device.type != "cuda" or not runs(program.target, target_of(device)):
        return None
    from inferno.runtime.launch.executable import GpuExecutable
    from inferno.runtime.launch.sized_executable import SizedGpuExecutable

    plan = as_complex(plan_in_place(program, writes), dtypes)
    binaries = {k.code: k.cubin or k.ptx.encode() for k in _launched(program, plan).values() if k.ptx}
    early = program.target.early_launch
    if plan.symbols:
        return SizedGpuExecutable(plan, binaries, device, dtypes, early, interpret, cuda_graphs)
    return GpuExecutable(plan, binaries, device, dtypes, early, interpret, cuda_graphs, given)


def _launched(program: Program, plan: Plan) -> dict[str, Kernel]:
    """The kernels that a plan launches: a program that prepares weights has others, too."""
    codes = {s.kernel.split("::")[0] for s in plan.steps if isinstance(s, Launch)}
    return {name: k for name, k in program.kernels.items() if k.code in codes}


def plan_in_place(program: Program, writes: Sequence[tuple[int, int]] = ()) -> Plan:
    """The program's plan, with what its model writes, and ``writes``, written in place as far as that may be."""
    plan, signature = program.launch_plan(), program.signature
    own = [] if signature is None else [(i, r.target) for i, r in enumerate(signature.results) if r.kind == "mutation"]
    return write_in_place(plan, [*own, *writes])


def runs(code: Target, machine: Target) -> bool:
    """Whether code for one target runs on a machine of another: the same, or a later one of the same major version."""
    same_major = code.capability // 10 == machine.capability // 10
    return code == machine or (same_major and code.capability <= machine.capability and not code.hopper)
