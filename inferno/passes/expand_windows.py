"""Rewrite a reduction over small windows (pooling), or of few rows, as an elementwise operation that combines the elements of its window.

Neighbouring windows read neighbouring elements, so that a thread that computes several points reads them by whole vectors; and the padding in
front of a pooling, and what is done with its result, are in the same kernel.
"""

from itertools import product

from inferno.mlir import ir, is_read, linalg, owner, walk
from inferno.passes.affine import projection
from inferno.passes.contraction import is_sum_of_products, parse_fused
from inferno.passes.drop_results import drop_unread
from inferno.passes.expand_pieces import EXPAND, element_of
from inferno.passes.few_terms import few_terms
from inferno.passes.fuse_elementwise import CHEAP
from inferno.passes.generics import (
    PARALLEL, REDUCTION, body, build, clone_at, dims, evaluate, index, inputs, is_elementwise, is_reduction, kinds, loop_sizes, maps,
    outputs, use_count,
)
from inferno.passes.programs import VIEWS
from inferno.passes.shapes import function_of, shape
from inferno.symbolic import hint
from inferno.symbolic import product as size_of_all

_MOST = 32  # elements of a window
_MADE_AGAIN = 48  # elements of windows of windows
# Terms, and neighbours of a row of them, of sums of rows: the sum of a token's two experts, 256x2x1024 in float32 by a block for 16 columns, took an H100
# 20.3 us, where memory takes 1; and what makes the terms, with the weights that they are multiplied by, was a kernel of its own.
_FEW, _ROW = 8, 64


def expand_windows(module: ir.Module) -> None:
    """Rewrite every reduction whose input moves by sums of two loops' steps, if its windows are small, and of few rows.  Convolutions stay, which are
    contractions.
    Only modules that ask for it (``inferno.expand_pieces``) are changed."""
    if EXPAND not in module.operation.attributes:
        return
    for op in walk(module.operation, "linalg.generic"):
        if function_of(op) != op.parent:
            continue
        op = drop_unread(op) if few_terms(op) is not None else op  # an extremum's place
        if (sizes := _window(op)) is not None:
            _rewrite(op, sizes)


def _window(op: ir.Operation) -> list[int | None] | None:
    """The sizes of the loops that are the window's, None for others; None if there is no window."""
    if not is_reduction(op) or is_sum_of_products(op) or parse_fused(op) is not None:
        return None
    simple = (ir.AffineDimExpr, ir.AffineConstantExpr)
    plain = all(isinstance(e, simple) for m in maps(op) for e in m.results)
    if (plain and not _is_short(op)) or any(not m.is_projected_permutation for m in maps(op)[len(inputs(op)):]):
        return None
    sizes = [n if k == REDUCTION else None for n, k in zip(loop_sizes(op), kinds(op))]
    window = [n for n, k in zip(sizes, kinds(op)) if k == REDUCTION]
    if not all(isinstance(n, int) for n in window) or not 0 < size_of_all(window) <= _MOST or None in loop_sizes(op):
        return None
    starts = [owner(v) for v in outputs(op)]
    return sizes if all(s is not None and s.name == "linalg.fill" and shape(v) for s, v in zip(starts, outputs(op))) else None


def _is_short(op: ir.Operation) -> bool:
    """Whether it is one reduction of a few terms that are whole rows, of what nothing else reads and no contraction makes: those end with it."""
    if len(op.results) != 1 or len(inputs(op)) != 1 or not _is_number(outputs(op)[0].type.element_type):
        return False
    value, sizes = inputs(op)[0], loop_sizes(op)
    read, terms = dims(maps(op)[0]), [n for n, k in zip(sizes, kinds(op)) if k == REDUCTION]
    if not read or kinds(op)[read[-1]] == REDUCTION or len(terms) != 1 or sizes[read[-1]] is None:
        return False
    return isinstance(terms[0], int) and terms[0] <= _FEW and hint(sizes[read[-1]]) >= _ROW and not _is_of_others(value)


def _is_number(type_: ir.Type) -> bool:
    """Whether it is one of floats, or of whole numbers, as which say how often each expert is chosen; not of truths and bytes."""
    return isinstance(type_, ir.FloatType) or (isinstance(type_, ir.IntegerType) and type_.width >= 32)


def _is_of_others(value: ir.Value) -> bool:
    """Whether something else reads a tensor too, or a contraction or a reduction made it, with maps behind them or not."""
    if use_count(value) != 1:
        return True
    op = owner(value)
    if op is None or op.name in ("linalg.fill", "tensor.empty"):
        return False
    if op.name in VIEWS:
        return _is_of_others(op.operands[0])
    terms = [v for v in inputs(op) if isinstance(v.type, ir.RankedTensorType) and isinstance(v.type.element_type, ir.FloatType)]  # and not places
    return not is_elementwise(op) or any(map(_is_of_others, terms))


def _rewrite(op: ir.Operation, sizes: list[int | None]) -> None:
    loops = [d for d, n in enumerate(sizes) if n is None]
    indexing = maps(op)[len(inputs(op)):]
    order = [projection([loops.index(ir.AffineDimExpr(e).position) for e in m.results], len(loops)) for m in indexing]

    count = size_of_all(n or 1 for n in sizes)

    def wanted(maker: ir.Operation, reader: ir.Operation) -> bool:
        return _is_repeated(maker) and count * len(walk(maker, "tensor.extract")) <= max(count, _MADE_AGAIN)

    def fill(_: list[ir.Value]) -> list[ir.Value]:
        place = [linalg.IndexOp(i).result for i in range(len(loops))]
        running = [owner(v).operands[0] for v in outputs(op)]
        for step in product(*(range(n or 1) for n in sizes)):
            at = [place[loops.index(d)] if d in loops else index(step[d]) for d in range(len(sizes))].__getitem__
            elements = [
                element_of(v, [evaluate(e, at) for e in m.results], op, wanted) if is_read(a) else None
                for v, m, a in zip(inputs(op), maps(op), body(op).arguments)
            ]
            running = clone_at(body(op), [*elements, *running], at)
        return running

    with ir.InsertionPoint(op), op.location:
        outs = [owner(v).operands[1] for v in outputs(op)]
        made = build([], outs, order, [PARALLEL] * len(loops), fill, op.location)
    for old, new in zip(op.results, made.results):
        old.replace_all_uses_with(new)
    op.erase()


def _is_repeated(op: ir.Operation) -> bool:
    """Whether an element is computed anew in every window that it is in: it takes little more than to read it."""
    names = {o.name for o in walk(op) if o != op}
    return all(n in CHEAP or n in ("scf.if", "scf.yield", "tensor.extract") for n in names)
