"""The compiled module: what a user calls, prints and asks."""

import re
from dataclasses import dataclass
from typing import Any

import torch

from inferno.capture import Signature
from inferno.errors import InputError, LaunchError, OptionError
from inferno.runtime.device import target_of
from inferno.runtime.jobs import Kernel, PassRecord
from inferno.target import Target

STAGES = ("torch", "linalg", "fused", "scheduled", "gpu", "llvm", "ptx", "sass")


@dataclass(frozen=True)
class Program:
    """All that compiling made, as data: text by stage, compiled kernels by name, the passes as they ran."""

    signature: Signature
    target: Target
    stages: dict[str, str]
    kernels: dict[str, Kernel]
    constants: list[tuple[str, tuple[int, ...], bytes]]
    passes: list[PassRecord]


class CompiledModule:
    """A compiled model.  Call it like the model; ``ir(stage)`` prints it at any stage, ``explain()`` says what became of it.

    Inputs must have the shapes, dtypes and device of the examples; any strides will do.  Safe to call from several threads.
    """

    def __init__(self, program: Program, device: torch.device, seconds: float) -> None:
        self.program = program
        self.device = device
        self.compile_seconds = seconds
        self._executable = _executable(program, device)
        arguments = program.signature.arguments
        self._inputs = [(i, a) for i, a in enumerate(arguments) if a.kind == "input"]
        self._mutations = [(i, r.target) for i, r in enumerate(program.signature.results) if r.kind == "mutation"]
        self._outputs = [i for i, r in enumerate(program.signature.results) if r.kind == "output"]
        self._constants = [_tensor(*c).to(device) for c in program.constants]
        self._expected = [(torch.Size(a.shape), a.dtype) for a in arguments]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._executable is None:
            raise LaunchError(
                f"compiled for {self.program.target.name}, which is not what {self.device} is; "
                f"ir() and explain() work, calls need that machine"
            )
        signature = self.program.signature
        tensors = signature.arguments_of(args, kwargs)
        ready = [self._check(i, t) for i, t in enumerate(tensors)]
        if self._constants:
            ready += self._constants
        results = self._executable.run(ready)
        if self._mutations:
            for i, target in self._mutations:
                tensors[target].copy_(results[i])
            results = [results[i] for i in self._outputs]
        return signature.build_output(results)

    def _check(self, index: int, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor as the kernels need it: on the device, contiguous and 16-byte aligned; InputError if it does not fit."""
        shape, dtype = self._expected[index]
        if not isinstance(tensor, torch.Tensor):
            name = self.program.signature.arguments[index].name
            raise InputError(f"argument {name}: expected a tensor of {tuple(shape)} {dtype}, got {type(tensor).__name__} {tensor!r:.100}")
        if tensor.shape != shape or tensor.dtype is not dtype or tensor.device != self.device:
            self._refuse(index, tensor)
        if tensor.requires_grad and torch.is_grad_enabled() and self.program.signature.arguments[index].kind == "input":
            name = self.program.signature.arguments[index].name
            raise InputError(
                f"argument {name}: expected a tensor that needs no gradient, got one with requires_grad=True; "
                f"compiled modules compute no gradients: call under torch.no_grad() or pass {name}.detach()",
            )
        if not tensor.is_contiguous():
            tensor = tensor.contiguous()
        return tensor.clone() if tensor.data_ptr() % 16 else tensor

    def _refuse(self, index: int, tensor: torch.Tensor) -> None:
        argument = self.program.signature.arguments[index]
        expected = f"{tuple(argument.shape)} {argument.dtype} on {self.device}"
        got = f"{tuple(tensor.shape)} {tensor.dtype} on {tensor.device}"
        raise InputError(
            f"argument {argument.name}: expected {expected}, got {got}; "
            f"pass a tensor like the example's or compile again for this one",
        )

    def ir(self, stage: str) -> str:
        """The program's text at ``stage``, one of torch, linalg, fused, scheduled, gpu, llvm, ptx, sass."""
        if stage not in STAGES:
            raise OptionError(f"unknown stage {stage!r}; the stages are {', '.join(STAGES)}")
        if stage in self.program.stages:
            return strip_locations(self.program.stages[stage])
        if self.program.target.kind == "cpu" and stage in ("ptx", "sass"):
            raise OptionError(f"stage {stage!r} is for GPUs; this module was compiled for the cpu target")
        parts = []
        for kernel in self.program.kernels.values():
            text = kernel.llvm if stage == "llvm" else kernel.ptx if stage == "ptx" else _sass(kernel)
            if text:
                parts.append(f"// ----- {kernel.name}\n{text.rstrip()}\n")
        return "\n".join(parts)

    def explain(self) -> Any:
        """A report: each kernel with what it fuses, its generator and schedule, grid, registers, flops and bytes."""
        from inferno.runtime.report import explain

        return explain(self)

    def __repr__(self) -> str:
        return f"CompiledModule({len(self.program.kernels)} kernels for {self.program.target.name})"


def _tensor(element: str, shape: tuple[int, ...], data: bytes) -> torch.Tensor:
    """A constant that the compiler made, as a tensor."""
    from inferno.runtime.cpu import DTYPES

    return torch.frombuffer(bytearray(data), dtype=DTYPES[element]).reshape(shape) if data else torch.empty(shape, dtype=DTYPES[element])


def _sass(kernel: Kernel) -> str:
    from inferno.targets.nvptx import disassemble

    return disassemble(kernel.cubin) if kernel.cubin else ""


def _executable(program: Program, device: torch.device) -> Any:
    """What runs the program on ``device``; None where the program is for another machine."""
    from inferno.runtime.plan import read_plan

    dtypes = [r.dtype for r in program.signature.results]
    if program.target.kind == "cpu":
        if device.type != "cpu":
            return None
        from inferno.runtime.cpu import CpuExecutable

        return CpuExecutable(read_plan(program.stages["gpu"]), {n: k.llvm for n, k in program.kernels.items()}, dtypes)
    if device.type != "cuda" or not _runs(program.target, target_of(device)):
        return None
    from inferno.runtime.executable import GpuExecutable

    binaries = {n: k.cubin or k.ptx.encode() for n, k in program.kernels.items() if k.ptx}
    return GpuExecutable(read_plan(program.stages["gpu"]), binaries, device, dtypes)


def _runs(code: Target, machine: Target) -> bool:
    """Whether code for one target runs on a machine of another: the same, or a later one of the same major version."""
    same_major = code.capability // 10 == machine.capability // 10
    return code == machine or (same_major and code.capability <= machine.capability and not code.hopper)


def strip_locations(text: str) -> str:
    """MLIR text without ``loc(...)``: what a reader wants to see."""
    if " loc(" not in text:
        return text
    from inferno.mlir import ir, new_context

    return ir.Module.parse(text, new_context()).operation.get_asm(enable_debug_info=False)


def kernel_of(symbol: str) -> str:
    """The gpu.module of a kernel symbol ``@module::@function``."""
    return re.sub(r"::.*", "", symbol).lstrip("@")
