"""Random programs as data: inputs, lines of Python, outputs.

A program is text, so that what fails can be read, run and cut down.  Its lines call dtypes by short names (``bf16``), which are
float64 when the program is run as its own reference.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

DTYPES = {
    "f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16,
    "i64": torch.int64, "i32": torch.int32, "b1": torch.bool,
}
ALL_DTYPES = {**DTYPES, "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8, "c64": torch.complex64}  # with those that data is moved of
FLOATS = ("f64", "f32", "f16", "bf16")


def as_wide(dtype: torch.dtype, wide: torch.dtype) -> torch.dtype:
    """What stands in a type's place where all floating-point numbers are ``wide``."""
    return wide.to_complex() if dtype.is_complex else wide if dtype.is_floating_point else dtype


@dataclass(frozen=True)
class Input:
    """``layout``: how the tensor lies in memory; the same values in every layout."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    layout: str = "contiguous"

    def make(self, generator: torch.Generator) -> Tensor:
        """Normal numbers, integers in -8..8, or 0..8 where there are no others, coins."""
        dtype, shape = ALL_DTYPES[self.dtype], self.shape
        if dtype.is_floating_point:
            values = torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)
        elif dtype.is_complex:
            values = torch.randn(shape, generator=generator, dtype=dtype)
        elif dtype is torch.bool:
            values = torch.rand(shape, generator=generator) > 0.5
        else:
            values = torch.randint(-8 if dtype.is_signed else 0, 9, shape, generator=generator, dtype=dtype)
        return lay_out(values, self.layout)


def lay_out(values: Tensor, layout: str) -> Tensor:
    """The values in memory of another layout: dimensions reversed, every other element, an odd offset, one row for all."""
    if layout == "reversed" and values.dim() > 1:
        order = tuple(range(values.dim()))[::-1]
        return values.permute(order).contiguous().permute(order)
    if layout == "strided" and values.dim():
        room = torch.zeros((*values.shape[:-1], 2 * values.shape[-1]), dtype=values.dtype)
        room[..., ::2] = values
        return room[..., ::2]
    if layout == "offset":
        room = torch.zeros(values.numel() + 1, dtype=values.dtype)
        room[1:] = values.reshape(-1)
        return room[1:].view(values.shape)
    if layout == "expanded" and values.dim() and values.shape[0] > 0:
        return values[:1].expand(values.shape)
    return values


LAYOUTS = ("contiguous", "reversed", "strided", "offset", "expanded")


@dataclass(frozen=True)
class Line:
    """One statement; ``made`` are the names that it binds, ``used`` those that it reads or, in place, changes."""

    text: str
    made: tuple[str, ...]
    used: tuple[str, ...]


@dataclass(frozen=True)
class Program:
    inputs: tuple[Input, ...]
    lines: tuple[Line, ...]
    outputs: tuple[str, ...]
    seed: int = 0

    def source(self) -> str:
        body = [f"    {line.text}" for line in self.lines]
        return "\n".join([f"def f({', '.join(i.name for i in self.inputs)}):", *body, f"    return ({', '.join(self.outputs)},)", ""])

    def __str__(self) -> str:
        tensors = "\n".join(f"# {i.name}: {i.dtype} {list(i.shape)} {i.layout}" for i in self.inputs)
        return f"{tensors}\n# seed {self.seed}\n{self.source()}"

    def function(self, dtype: torch.dtype | None = None) -> Callable[..., tuple[Tensor, ...]]:
        """The program as a function, with ``dtype`` in every floating-point dtype's place."""
        names = dict(ALL_DTYPES) if dtype is None else {n: as_wide(d, dtype) for n, d in ALL_DTYPES.items()}
        scope = {"torch": torch, "F": F, "inf": float("inf"), **names}
        exec(compile(self.source(), "<program>", "exec"), scope)
        return scope["f"]

    def make_inputs(self, draw: int = 0) -> tuple[Tensor, ...]:
        generator = torch.Generator().manual_seed(self.seed * 1000 + draw)
        return tuple(i.make(generator) for i in self.inputs)

    def cut(self) -> "Program":
        """Without the lines that no output needs; what changes a tensor in place is needed where one of its names is."""
        needed, kept = set(self.outputs), set()
        changed = True
        while changed:
            changed = False
            for i, line in enumerate(self.lines):
                if i not in kept and (needed & set(line.made) or (not line.made and needed & set(line.used))):
                    needed |= set(line.used)
                    kept.add(i)
                    changed = True
        return replace(self, lines=tuple(line for i, line in enumerate(self.lines) if i in kept))


def minimise(program: Program, fails: Callable[[Program], bool], budget: int = 60) -> Program:
    """A smaller program that fails as well: fewer outputs, then an earlier value as the output, then fewer lines."""
    tries = 0

    def attempt(candidate: Program) -> bool:
        nonlocal tries
        tries += 1
        return tries <= budget and bool(candidate.outputs) and fails(candidate)

    for name in program.outputs:
        candidate = replace(program, outputs=(name,)).cut()
        if len(program.outputs) > 1 and attempt(candidate):
            program = candidate
            break
    changed = True
    while changed and tries < budget:
        changed = False
        for i, line in enumerate(program.lines):
            shorter = replace(program, lines=program.lines[:i + 1], outputs=line.made or line.used[:1]).cut()
            if len(shorter.lines) < len(program.lines) and attempt(shorter):
                program, changed = shorter, True
                break
            without = replace(program, lines=program.lines[:i] + program.lines[i + 1:])
            if not line.made and attempt(without):
                program, changed = without, True
                break
    for i, one in enumerate(program.inputs):
        plain = replace(one, layout="contiguous")
        candidate = replace(program, inputs=(*program.inputs[:i], plain, *program.inputs[i + 1:]))
        if one != plain and attempt(candidate):
            program = candidate
    return program
