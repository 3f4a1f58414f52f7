"""The schedule of a contraction that cuBLASLt computes on a GPU: one call, and where its epilogues cannot do what comes of the sums, an
elementwise kernel of ours behind it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from inferno.library_matmul import LibraryMatmul
from inferno.mlir import func, ir
from inferno.passes.programs import takes_tf32
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.maps.pointwise import parse_pointwise
from inferno.schedule.maps.supported import supported
from inferno.schedule.matmul.contraction import Contraction, Destination, Group
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.contraction_parts import ContractionParts, Part, Temporary
from inferno.schedule.matmul.library_epilogue import Epilogue, match_epilogue
from inferno.symbolic import Undecided
from inferno.target import Target

# What NVIDIA's documentation recommends for Hopper and later, and for GPUs before.  It lies where the plan's other buffers are.
_WORKSPACE, _WORKSPACE_BEFORE = 32 << 20, 4 << 20
_VARIES = "its sizes vary"
_OFFERED = 4  # of the library's algorithms are in the space


@dataclass(frozen=True)
class CublasLt:
    """``algorithm`` counts what the library's heuristic offers for the call, the best by its estimate first; ``workspace`` is in bytes."""

    generator: ClassVar[str] = "cublaslt"
    multiplies: ClassVar[bool] = True

    algorithm: int = 0
    workspace: int = _WORKSPACE


@dataclass(frozen=True)
class Found:
    """A kernel as a call; ``arguments`` are the numbers of the kernel's arguments that are its operands, the workspace left out.  ``after``:
    what a kernel of ours does then; the result's argument is -1 where the call's is ``sums``, one of the buffers of that."""

    call: LibraryMatmul
    arguments: tuple[int, ...]
    after: Part | None = None
    sums: Temporary | None = None


class Refused(Exception):
    """Why cuBLASLt does not compute a kernel."""


def choose(kernel: func.FuncOp, target: Target) -> CublasLt | None:
    """The first of the heuristic's algorithms, where the kernel is a call of cuBLASLt's."""
    return next(iter(space(kernel, target)), None)


def space(kernel: func.FuncOp, target: Target) -> list[CublasLt]:
    """The schedules to measure, the one that the library expects most of first; none where the kernel is no call of cuBLASLt's."""
    try:
        found = recognise(kernel)
    except Refused:
        return []
    workspace = _WORKSPACE if target.capability >= 90 else _WORKSPACE_BEFORE
    return [CublasLt(number, workspace) for number in range(_OFFERED)] if found is not None else []


def refusal(kernel: func.FuncOp) -> str | None:
    """Why cuBLASLt does not compute a contraction; None where it does, and of what multiplies no matrices."""
    try:
        recognise(kernel)
    except Refused as error:
        return str(error)
    except Undecided:
        return _VARIES
    return None


def recognise(kernel: func.FuncOp) -> Found | None:
    """The call that a kernel is, maybe with what is elementwise behind it as a kernel of its own; None if it multiplies no matrices.  Refused
    says why one that does is none."""
    c = parse_contraction(kernel)
    if c is None or c.is_reduction:
        return None
    if c.varies:
        raise Refused(_VARIES)
    if c.lhs.access is None or c.rhs.access is None:
        raise Refused("an operand is computed in the kernel")
    if {d.access.argument for d in c.destinations} & {a.argument for a in (*c.lhs.reads, *c.rhs.reads, *c.extras)}:
        raise Refused("its result takes the place of what it reads")
    if len(c.k.runs) > 1:
        raise Refused("the terms of a sum lie in more than one dimension")
    try:
        return _whole(kernel, c)
    except Refused:
        if c.epilogue is None or any(d.source is None for d in c.destinations):
            raise
    return _in_two(kernel, c)


def _whole(kernel: func.FuncOp, c: Contraction) -> Found:
    """The kernel as one call."""
    if len(c.destinations) != 1:
        raise Refused("it has several results")
    epilogue = match_epilogue(c.epilogue, c.destinations[0].source)
    if epilogue is None:
        raise Refused("its epilogue is none of cuBLASLt's")
    reasons = []
    for axes in _axes(c):
        try:
            return _call(kernel, c, epilogue, axes)
        except Refused as error:
            reasons.append(str(error))
    raise Refused(reasons[0] if reasons else "rows, columns or batches lie in more than one dimension")


def _in_two(kernel: func.FuncOp, c: Contraction) -> Found:
    """The sums as one call, and what comes of them."""
    with kernel.context, ir.Location.unknown():
        parts = ContractionParts(c)
        point = parse_pointwise(parts.after[0].kernel)
    if point is None or not supported(point):
        raise Refused("its epilogue is none of cuBLASLt's, and no elementwise kernel")
    buffer, sums = parts.result
    temporary = buffer if isinstance(buffer, Temporary) else None
    sums = replace(sums, argument=-1 if temporary else buffer, element=parts.sum_type())
    found = _whole(kernel, replace(c, epilogue=None, destinations=(Destination(None, sums),)))
    return replace(found, after=parts.after[0], sums=temporary)


Run = tuple[int, tuple[int, ...]]
"""A size, and the loops behind it, of which the last has the stride; no loops where the size is 1."""


def _axes(c: Contraction) -> Iterator[tuple[Run, Run, Run, Run]]:
    """How the loops may be cuBLASLt's (batch, m, n, k).  Without a batch, an outer dimension of one operand is one: the other has a stride of 0."""
    batch, m, n, k = (_runs(g) for g in (c.batch, c.m, c.n, c.k))
    one = ((1, ()),)
    if max(len(batch), len(m), len(n)) <= 1:
        yield tuple((runs or one)[0] for runs in (batch, m, n, k))
    elif not batch:
        for mine, other, transposed in ((m, n, False), (n, m, True)):
            if len(mine) == 2 and len(other) <= 1:
                for outer, inner in (mine, mine[::-1]):
                    rows, columns = (inner, (other or one)[0]) if not transposed else ((other or one)[0], inner)
                    yield outer, rows, columns, (k or one)[0]


def _runs(group: Group) -> tuple[Run, ...]:
    return tuple(zip(group.run_sizes, (tuple(r) for r in group.runs)))


def _call(kernel: func.FuncOp, c: Contraction, epilogue: Epilogue, axes: tuple[Run, Run, Run, Run]) -> Found:
    batch, m, n, k = axes
    out = c.destinations[0].access
    sources = {"lhs": c.lhs.access, "rhs": c.rhs.access, "out": out}
    strides = {"lhs": _strides(c.lhs.access, batch, m, k), "rhs": _strides(c.rhs.access, batch, k, n), "out": _strides(out, batch, m, n)}
    beta = 0.0
    for number, factor in epilogue.added:
        access = c.epilogue.sources[number]
        along = _strides(access, batch, m, n)
        if factor == 1 and "bias" not in sources and along[:2] == (0, 0) and (along[2] == 1 or n[0] == 1):
            sources["bias"] = access
        elif beta == 0:
            sources["start"], strides["start"], beta = access, along, factor
        else:
            raise Refused("it adds more than a bias and one tensor")
    call = LibraryMatmul(
        (batch[0], m[0], n[0], k[0]), **strides, offsets=tuple(sources[r].offset if r in sources else 0 for r in ("lhs", "rhs", "start", "bias", "out")),
        compute=compute_of(kernel, c), alpha=epilogue.alpha, beta=beta, bias="bias" in sources, activation=epilogue.activation,
    )
    if c.lhs.extend != c.rhs.extend or c.lhs.extend == "arith.extui":
        raise Refused("its operands are widened in different ways")
    operands = [sources[r] for r in call.roles if r != "workspace"]
    elements = iter(str(a.element) for a in operands)
    if reason := call.refusal(["i8" if r == "workspace" else next(elements) for r in call.roles]):
        raise Refused(reason)
    return Found(call, tuple(a.argument for a in operands))


def _strides(access: Access, *axes: Run) -> tuple[int, int, int]:
    return tuple(access.strides[dims[-1]] if dims else 0 for _, dims in axes)


def compute_of(kernel: func.FuncOp, c: Contraction) -> str:
    """How products are computed: in the sum's type, or of float32 in TF32 where that is allowed."""
    allowed = c.tf32 or takes_tf32(kernel)
    kind = str(c.accumulator)
    if kind not in ("f32", "f64", "i32"):
        raise Refused(f"sums of {kind}")
    return "tf32" if kind == str(c.lhs.element) == "f32" and allowed else kind
