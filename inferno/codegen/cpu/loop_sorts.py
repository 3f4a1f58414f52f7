"""Sorts (``tm_tensor.sort``) on the CPU: runs of twice the length are merged until one is the whole row.

Upstream's loops would compare neighbours again and again, which costs the square of a row's length.
"""

from collections.abc import Sequence

from inferno.codegen.builders.inline import inline_body
from inferno.codegen.universal.sort import order_nan
from inferno.mlir import arith, func, ir, memref, scf, walk


def merge_sorts(function: func.FuncOp) -> None:
    """Rewrite the sorts of known sizes in a function on buffers as loops, which need buffers of the same sizes; the others stay."""
    for op in walk(function, "tm_tensor.sort"):
        order_nan(op.regions[0].blocks[0])
        if all(ir.MemRefType(v.type).has_static_shape for v in op.operands):
            with op.location:
                _merge_sort(op, function.regions[0].blocks[0])
            op.erase()


def _merge_sort(op: ir.Operation, block: ir.Block) -> None:
    rows, shape = list(op.operands), list(ir.MemRefType(op.operands[0].type).shape)
    dim = ir.IntegerAttr(op.attributes["dimension"]).value
    if 0 in shape or shape[dim] == 1:
        return
    length = _index(shape[dim], ir.InsertionPoint(op))
    with ir.InsertionPoint.at_block_begin(block):
        merged = [memref.AllocOp(ir.MemRefType.get([shape[dim]], ir.MemRefType(v.type).element_type), [], []).memref for v in rows]
    with ir.InsertionPoint(op):
        zero, one = _index(0), _index(1)
        others = [d for d in range(len(shape)) if d != dim]
        place, loops = {}, []
        for d in others:
            loops.append(scf.ForOp(zero, _index(shape[d]), one))
            place[d] = loops[-1].induction_variable
            ir.InsertionPoint(loops[-1].body).__enter__()
        try:
            _merge_row(op.regions[0].blocks[0], rows, merged, lambda i: [place.get(d, i) for d in range(len(shape))], length)
        finally:
            for _loop in loops:
                scf.yield_([])
                ir.InsertionPoint.current.__exit__(None, None, None)


def _merge_row(body: ir.Block, rows: Sequence[ir.Value], merged: Sequence[ir.Value], at, length: ir.Value) -> None:
    """Runs of the row become longer, by way of ``merged``; of two that may stand in either order the first stays first."""
    zero, one = _index(0), _index(1)
    last = arith.subi(length, one)
    index = ir.IndexType.get()
    widths = scf.WhileOp([index], [one])
    before, after = (region.blocks.append(index, arg_locs=[ir.Location.current]) for region in (widths.before, widths.after))
    with ir.InsertionPoint(before):
        scf.condition(arith.cmpi(arith.CmpIPredicate.ult, before.arguments[0], length), [before.arguments[0]])
    with ir.InsertionPoint(after):
        width = after.arguments[0]
        twice = arith.addi(width, width)
        pairs = scf.ForOp(zero, length, twice)
        with ir.InsertionPoint(pairs.body):
            begin = pairs.induction_variable
            middle, end = (arith.minui(arith.addi(begin, w), length) for w in (width, twice))
            items = scf.ForOp(begin, end, one, [begin, middle])
            with ir.InsertionPoint(items.body):
                i, j = items.inner_iter_args
                a, b = ([memref.load(r, at(arith.minui(x, last))) for r in rows] for x in (i, j))
                first = inline_body(body, [x for pair in zip(a, b) for x in pair])[0]
                over = arith.cmpi(arith.CmpIPredicate.uge, j, end)
                takes = arith.andi(arith.cmpi(arith.CmpIPredicate.ult, i, middle), arith.ori(over, first))
                for x, y, target in zip(a, b, merged):
                    memref.store(arith.select(takes, x, y), target, [items.induction_variable])
                scf.yield_([arith.select(takes, arith.addi(i, one), i), arith.select(takes, j, arith.addi(j, one))])
            scf.yield_([])
        copies = scf.ForOp(zero, length, one)
        with ir.InsertionPoint(copies.body):
            for row, source in zip(rows, merged):
                memref.store(memref.load(source, [copies.induction_variable]), row, at(copies.induction_variable))
            scf.yield_([])
        scf.yield_([twice])


def _index(value: int, where: ir.InsertionPoint | None = None) -> ir.Value:
    with where or ir.InsertionPoint.current:
        return arith.constant(ir.IndexType.get(), value)
