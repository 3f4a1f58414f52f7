"""What a call of cuBLASLt's matmul computes, as data: an ``inferno.library`` of function "cublaslt" has it as its options.

Needs neither MLIR nor torch: code generation writes it, and a plan, also one from a file, is checked by it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from inferno.errors import PlanError

FUNCTION = "cublaslt"
# What is multiplied and what comes out, by how it is computed: as cuBLASLt's table of types has them.
TYPES = {
    "f32": (("bf16", "bf16"), ("bf16", "f32"), ("f16", "f16"), ("f16", "f32"), ("f32", "f32")),
    "tf32": (("f32", "f32"),), "f64": (("f64", "f64"),), "i32": (("i8", "i32"),),
}
# No ReLU: some of the library's kernels make 0 of NaN (13.0 on an H200: float16 at 33x7x65, float32 at 2048x2048x512).
ACTIVATIONS = ("none", "gelu_tanh")
_MOST = 2**31  # cuBLASLt's sizes of a matrix, and numbers of matrices, are below it


@dataclass(frozen=True)
class Matrix:
    """A matrix as cuBLASLt has it in memory: columns of ``rows`` elements, from one to the next ``ld``; ``transposed`` where those are
    the rows of what is multiplied."""

    rows: int
    columns: int
    ld: int
    transposed: bool


def matrix(rows: int, columns: int, row_stride: int, column_stride: int, transposed: bool | None = None) -> Matrix | None:
    """What is multiplied as rows x columns, with these strides in elements; None if cuBLASLt has no such matrix.  ``transposed`` asks for
    one of the ways to see it."""
    ways = (_stored(rows, columns, row_stride, column_stride, False), _stored(columns, rows, column_stride, row_stride, True))
    found = [w for w in ways if w is not None and transposed in (None, w.transposed)]
    return min(found, key=lambda w: w.rows == 1, default=None)  # a line is one column, rather than columns of one element


def _stored(size: int, count: int, stride: int, step: int, transposed: bool) -> Matrix | None:
    if (size > 1 and stride != 1) or (count > 1 and step < size):
        return None
    return Matrix(size, count, step if count > 1 else size, transposed)


@dataclass(frozen=True)
class LibraryMatmul:
    """``out[b, m, n] = activation(alpha * sum over k of lhs[b, m, k] * rhs[b, k, n] + beta * start[b, m, n] + bias[n])``.

    ``sizes`` are those of (b, m, n, k).  ``lhs``, ``rhs``, ``start`` and ``out`` are the strides, in elements, for (b, m, k),
    (b, k, n), (b, m, n) and (b, m, n); ``offsets`` where lhs, rhs, start, bias and out begin.  ``compute`` is one of ``TYPES``.
    The operands are lhs, rhs, start if ``beta`` is not 0, the bias if ``bias``, a workspace, and out.
    """

    sizes: tuple[int, int, int, int]
    lhs: tuple[int, int, int]
    rhs: tuple[int, int, int]
    out: tuple[int, int, int]
    start: tuple[int, int, int] = (0, 0, 0)
    offsets: tuple[int, int, int, int, int] = (0, 0, 0, 0, 0)
    compute: str = "f32"
    alpha: float = 1.0
    beta: float = 0.0
    bias: bool = False
    activation: str = "none"
    algorithm: int = 0

    @property
    def roles(self) -> tuple[str, ...]:
        """What the operands are, in order."""
        return ("lhs", "rhs", *(["start"] if self.beta else []), *(["bias"] if self.bias else []), "workspace", "out")

    @property
    def matrices(self) -> tuple[Matrix | None, Matrix | None, Matrix | None, Matrix | None]:
        """cuBLASLt's A, B, C and D.  Its matrices are by columns and ours by rows: it computes the transpose of ``out``, so A is the rhs
        and B the lhs."""
        _, m, n, k = self.sizes
        layouts = (True, False) if self.compute == "i32" else (None, None)  # its integer kernels take one layout
        a = matrix(n, k, self.rhs[2], self.rhs[1], layouts[0])
        b = matrix(k, m, self.lhs[2], self.lhs[1], layouts[1])
        d = matrix(n, m, self.out[2], self.out[1], False)
        return a, b, matrix(n, m, self.start[2], self.start[1], False) if self.beta else d, d

    def options(self) -> dict[str, Any]:
        """The options of the library's call; ``from_options`` is the inverse."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    def refusal(self, elements: Sequence[str]) -> str | None:
        """Why cuBLASLt has no such call on operands of these element types, in the order of ``roles``; None if it has."""
        types = dict(zip(self.roles, elements))
        if (types["lhs"], types["out"]) not in TYPES[self.compute] or types["rhs"] != types["lhs"]:
            return f"{types['lhs']} times {types['rhs']} to {types['out']}, which it does not multiply"
        if any(types.get(role, types["out"]) != types["out"] for role in ("start", "bias")):
            return "what is added has another type than the result"
        if (self.bias or self.activation != "none") and self.compute in ("f64", "i32"):
            return f"an epilogue on {types['out']}"
        if self.activation == "gelu_tanh" and types["out"] == "f32":  # off by 3.5e-7 where eager is by 1e-7 (13.0 on an H200)
            return "GELU of float32, which it computes less exactly than eager"
        if self.compute == "i32" and (self.alpha != 1 or self.beta not in (0, 1)):
            return "scaled integers"
        if any(x is None for x in self.matrices):
            if self.compute == "i32":
                return "integers that do not lie along the sum in both operands"
            return "an operand or the result whose elements lie neither by rows nor by columns"
        if any(x.ld >= _MOST for x in self.matrices) or max(self.sizes) >= _MOST:
            return "more than 2^31 elements in a row"
        if self.compute == "i32" and any(v % 4 for v in (self.sizes[2], self.sizes[3], *(x.ld for x in self.matrices), *self.offsets, *self._steps)):
            return "integers in rows that are no multiple of 4 long"
        return None

    @property
    def _steps(self) -> tuple[int, ...]:
        """From one matrix of a batch to the next."""
        return (self.lhs[0], self.rhs[0], self.start[0], self.out[0]) if self.sizes[0] > 1 else ()

    def last(self, role: str) -> int:
        """The number of an operand's last element that is touched."""
        b, m, n, k = self.sizes
        at = dict(zip(("lhs", "rhs", "start", "bias", "out"), self.offsets))[role]
        if role == "bias":
            return at + n - 1
        sizes = {"lhs": (b, m, k), "rhs": (b, k, n)}.get(role, (b, m, n))
        return at + sum((size - 1) * stride for size, stride in zip(sizes, getattr(self, role)))


def from_options(options: Mapping[str, Any], where: str = "a library call") -> LibraryMatmul:
    """The call of a plan's options, which may come from a file: PlanError where they are none."""
    known = {f.name: f for f in fields(LibraryMatmul)}
    values: dict[str, Any] = {}
    for name, value in options.items():
        if name not in known:
            raise PlanError(f"{where}: unknown option {name!r:.60} of {FUNCTION}; it has {', '.join(known)}")
        values[name] = tuple(value) if isinstance(value, list) else value
    lengths = {"sizes": 4, "lhs": 3, "rhs": 3, "out": 3, "start": 3, "offsets": 5}
    for name, length in lengths.items():
        value = values.get(name, (0,) * length if name in ("start", "offsets") else None)
        low = 1 if name == "sizes" else 0
        if type(value) is not tuple or len(value) != length or any(type(v) is not int or not low <= v < 2**62 for v in value):
            raise PlanError(f"{where}: {name} is {options.get(name)!r:.60}; expected {length} numbers from {low} on")
    call = LibraryMatmul(**values)
    for name, allowed in (("compute", tuple(TYPES)), ("activation", ACTIVATIONS)):
        if getattr(call, name) not in allowed:
            raise PlanError(f"{where}: {name} is {getattr(call, name)!r:.60}; expected one of {', '.join(allowed)}")
    numbers = all(type(v) is float and math.isfinite(v) for v in (call.alpha, call.beta))
    if not numbers or type(call.bias) is not bool or type(call.algorithm) is not int or not 0 <= call.algorithm < 100:
        raise PlanError(f"{where}: alpha {call.alpha!r:.60}, beta {call.beta!r:.60}, bias {call.bias!r:.60}, algorithm {call.algorithm!r:.60}")
    return call


def check_call(options: Mapping[str, Any], buffers: Sequence[tuple[int, str]], where: str) -> None:
    """PlanError if a call does not fit its operands, given as (number of elements, element type)."""
    call = from_options(options, where)
    if len(buffers) != len(call.roles):
        raise PlanError(f"{where}: {len(buffers)} operands; expected {', '.join(call.roles)}")
    if reason := call.refusal([element for _, element in buffers]):
        raise PlanError(f"{where}: {reason}")
    for role, (count, _) in zip(call.roles, buffers):
        if role != "workspace" and call.last(role) >= count:
            raise PlanError(f"{where}: {role} has {count} elements, and the call touches element {call.last(role)}")
