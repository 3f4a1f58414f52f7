"""Transposes, broadcasts and copies become indexing maps of whoever reads them.

A layout is only a way of addressing: a matmul with a transposed weight is the same multiply-add with another map.
"""

from inferno.mlir import ir, linalg, owner, rewrite, run_upstream, walk
from inferno.passes.contraction import has_windows
from inferno.passes.expand_pieces import EXPAND
from inferno.passes.generics import (
    body, build, clone_body, covers_loops, dims, inputs, inverse, is_copy, knows_sizes, kinds, maps, outputs, substitute, yielded,
)
from inferno.passes.greedy import rewrite_greedily
from inferno.passes.hoist_slices import slice_before_moving
from inferno.passes.locations import merge


def fold_transposes(module: ir.Module) -> None:
    """Generalize the module's named operations, and fold every generic that only moves its input into the generics that read it.

    Reads of its result stay as they are where something else (a return, a reshape) needs the moved tensor.  For a GPU (``inferno.expand_pieces``) slices of
    it are taken first: libraries of the CPU read a batch of whole matrices faster than one whose rows lie apart, by 4% to 12% around attention."""
    run_upstream(module, "func.func(linalg-generalize-named-ops)")
    _restore_fills(module)
    if EXPAND in module.operation.attributes:
        slice_before_moving(module)
    patterns = rewrite.RewritePatternSet(module.context)
    patterns.add("linalg.generic", _fold)
    rewrite_greedily(module, patterns)


def _restore_fills(module: ir.Module) -> None:
    """A fill is the start of an accumulator, and is looked for as one: generalizing spells it as a generic of a scalar."""
    for op in walk(module.operation, "linalg.generic"):
        scalar = len(inputs(op)) == 1 and not isinstance(inputs(op)[0].type, ir.ShapedType) and yielded(op) == [body(op).arguments[0]]
        if scalar and len(op.results) == 1:
            with ir.InsertionPoint(op), op.location:
                op.results[0].replace_all_uses_with(linalg.fill(inputs(op)[0], outs=outputs(op)))
            op.erase()


def _fold(op, rewriter) -> bool:
    """Falsy when the operation was rewritten, as the bindings want it."""
    op = op.operation
    for number, value in enumerate(inputs(op)):
        producer = owner(value)
        if not is_copy(producer) or not knows_sizes(producer):
            continue
        if not knows_sizes(op) or has_windows(op):  # of these choose-layouts says how the operands have to lie
            return True
        loops = _loops_of(producer, maps(op)[number])
        new_map = substitute(maps(producer)[0], loops, len(kinds(op)))
        with rewriter.ip, op.location:
            values, indexing = inputs(op), maps(op)
            values[number], indexing[number] = inputs(producer)[0], new_map
            if not covers_loops(indexing, len(kinds(op))):
                continue
            new = build(
                values, outputs(op), indexing, kinds(op), lambda a: clone_body(body(op), a, _identity(len(kinds(op)))),
                merge(op.location, producer.location),
            )
        rewriter.replace_op(op, new)
        return False
    return True


def _loops_of(producer: ir.Operation, read: ir.AffineMap) -> list[ir.AffineExpr]:
    """The producer's loops as expressions of its reader's: its result's map undone, then the reader's map."""
    order = dims(maps(producer)[1])
    return [list(read.results)[i] for i in inverse(order)]


def _identity(count: int) -> list[ir.AffineExpr]:
    return [ir.AffineDimExpr.get(i) for i in range(count)]
