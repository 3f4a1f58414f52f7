"""On a GPU, reduce the pieces of a concatenation instead of concatenating them.

What is elementwise of their concatenation is computed of each piece, and a reduction takes a term of each: the largest element of a row of two tensors side by
side is the largest of the larger one of two elements.  A softmax's or a norm's sums of such rows, and what becomes of these, need no tensor that holds both.
What makes a piece has rows as long, and is one kernel with them (``fuse-reductions``).  Columns are those of one piece each, and what is left of them is put
together behind their reduction.  It is done where all pieces are as long, and where all that is made of the concatenation ends in reductions.
"""

from dataclasses import dataclass, field
from math import prod

from inferno.mlir import arith, backward_slice, clone_onto, dim_of, ir, is_read, linalg, owner, tensor, users, walk
from inferno.passes.expand_pieces import EXPAND
from inferno.passes.generics import (
    PARALLEL, body, build, clone_body, dims, inputs, is_elementwise, is_generic, is_widening, kinds, loops_of, maps, outputs, yielded,
)

_ORDERLESS = {f"arith.{name}" for name in (
    "addf", "maximumf", "minimumf", "maxnumf", "minnumf", "addi", "maxsi", "minsi", "maxui", "minui", "andi", "ori", "xori",
)}
_MOST = 4  # pieces: a point has registers for each
# Terms of float32 of which rows are added in float64 (``codegen/rows/row_turns.py``): those that are added before would be rounded.
_SHORT = 64
# Rows of arguments alone, which kernels read side by side where they lie, too: on an H200 logsumexp of two of 16384x1024 in bf16 took 22.7 us so and 58.3
# before, the norms of two of 8192x2048 in float32 33.8 and 33.5, but seven steps of two of 27x12352 in float16 0.9 more.
_MANY = 8192
# Of columns: elements of a concatenation from which each piece has kernels of its own, and how many times smaller what is put together behind them has to be.
_LARGE, _SMALLER = 1 << 20, 8
_BEHIND = 256  # operations behind a concatenation that are looked at


@dataclass
class _Region:
    """``split``: the concatenated values and along which dimension; ``loops``: of the operations that read them, the loop along it; ``joined``: results of
    reductions of columns, with what else reads them, whole."""

    count: int
    split: dict[ir.Value, int] = field(default_factory=dict)
    loops: dict[ir.Operation, int] = field(default_factory=dict)
    joined: list[tuple[ir.Value, ir.Operation]] = field(default_factory=list)
    reduces: bool = False


def sink_concats(module: ir.Module) -> None:
    """Rewrite such concatenations.  Only modules that ask for it (``inferno.expand_pieces``) are changed."""
    if EXPAND not in module.operation.attributes:
        return
    left = walk(module.operation, "tensor.concat")
    while left:
        concat = left.pop(0)
        region = _region(concat) if concat.parent is not None and concat.parent.name == "func.func" else None
        if region is not None:
            _rewrite(region)
            left = walk(module.operation, "tensor.concat")  # what read another concatenation may reduce now


def _region(concat: ir.Operation) -> _Region | None:
    """All that is made of a concatenation, if that ends in reductions."""
    region, size = _Region(len(concat.operands)), prod(concat.results[0].type.shape)
    pending = [concat]
    while pending:
        op = pending.pop()
        if op.name == "tensor.concat":
            if not _is_even(op, region.count):
                return None
            region.split[op.results[0]] = dim_of(op)
        for value in op.results:
            for user in users(value) if value in region.split else ():
                if user not in region.loops:
                    others = _take(region, user, value)
                    if others is None and _SMALLER * prod(value.type.shape) <= size and op.name != "tensor.concat":
                        region.joined.append((value, user))
                        continue
                    if others is None or len(region.loops) > _BEHIND:
                        return None
                    pending += [user, *others]
    if not region.reduces or not all(_is_known(region, op) for op in region.loops):
        return None
    if region.joined and size < _LARGE:
        return None
    pieces = [v for made in map(owner, region.split) if made is not None and made.name == "tensor.concat" for v in made.operands]
    rows = size // concat.results[0].type.shape[region.split[concat.results[0]]]
    return region if rows >= _MANY or any(owner(v) is not None for v in pieces) else None


def _is_even(concat: ir.Operation, count: int) -> bool:
    """Whether it is of so many pieces of one size that is known, none of which is cut from the dimension that they are put together along."""
    dim, shapes = dim_of(concat), {tuple(v.type.shape) for v in concat.operands}
    if not 1 < count == len(concat.operands) <= _MOST or len(shapes) != 1 or not all(v.type.has_static_shape for v in concat.operands):
        return False
    return not any(_is_cut(v, dim) for v in concat.operands) and not ir.ShapedType(concat.results[0].type).shape[dim] == count


def _is_cut(value: ir.Value, dim: int, depth: int = 16) -> bool:
    """Whether elements come from a part of a dimension, of which something else may go over all."""
    op = owner(value)
    if op is None or not depth:
        return False
    if op.name == "tensor.extract_slice":
        before, after = op.operands[0].type, op.results[0].type
        return before.rank != after.rank or before.shape[dim] != after.shape[dim]
    alike = [v for v, m in zip(inputs(op), maps(op)) if m == maps(op)[-1]] if is_elementwise(op) else []
    return any(_is_cut(v, dim, depth - 1) for v in alike)


def _take(region: _Region, op: ir.Operation, value: ir.Value) -> list[ir.Operation] | None:
    """Take an operation that reads a value into the region; further concatenations that it reads, None where it cannot be."""
    if not is_generic(op) or any(v in region.split for v in outputs(op)):
        return None
    dim, every = region.split[value], maps(op)
    loops = {_loop(m, dim) for v, m in zip(inputs(op), every) if v == value}
    if len(loops) != 1 or None in loops:
        return None
    (loop,), others = loops, []
    if any(dim_of(i) == loop and _counts(op, i) for i in walk(op, "linalg.index")) or walk(op, "tensor.extract"):
        return None
    if kinds(op)[loop] != PARALLEL:
        if _term(op) is None:
            return None
        region.loops[op], region.reduces = loop, True
        return []
    if not is_elementwise(op) and not _starts_anywhere(op):
        return None
    region.loops[op], region.reduces = loop, region.reduces or not is_elementwise(op)
    for result, m in zip(op.results, every[len(inputs(op)):]):
        region.split[result] = dims(m).index(loop)
    for v, m in zip(inputs(op), every):
        made = owner(v)
        if made is not None and made.name == "tensor.concat" and v not in region.split and _along(m, loop) == [dim_of(made)]:
            others.append(made)
    return others


def _starts_anywhere(op: ir.Operation) -> bool:
    """Whether it is a reduction of columns that begins with numbers, which each piece has as well."""
    starts = [owner(v) for v in outputs(op)]
    return all(s is not None and s.name == "linalg.fill" for s in starts)


def _is_known(region: _Region, op: ir.Operation) -> bool:
    """Whether all that an operation reads along the dimension is in pieces, or can be cut."""
    loop = region.loops[op]
    for v, m in zip(inputs(op), maps(op)):
        along = _along(m, loop)
        if not along and v not in region.split:
            continue
        if len(along) != 1 or _loop(m, along[0]) != loop:
            return False
        if v in region.split:
            if region.split[v] != along[0]:
                return False
        elif not isinstance(v.type, ir.RankedTensorType) or not v.type.has_static_shape or not _can_be_cut(v, along[0]):
            return False
    return all(r in region.split or kinds(op)[loop] != PARALLEL for r in op.results)


def _loop(map_: ir.AffineMap, dim: int) -> int | None:
    """The loop that a dimension goes along."""
    found = map_.results[dim]
    return ir.AffineDimExpr(found).position if isinstance(found, ir.AffineDimExpr) else None


def _along(map_: ir.AffineMap, loop: int) -> list[int]:
    """The dimensions that depend on a loop."""
    return [d for d, e in enumerate(map_.results) if loop in loops_of(e)]


def _counts(op: ir.Operation, number: ir.Operation) -> bool:
    """Whether a result that something reads depends on a loop's number."""
    return number.results[0] in backward_slice(v for r, v in zip(op.results, yielded(op)) if is_read(r))


def _term(op: ir.Operation) -> ir.Value | None:
    """What a reduction of one tensor takes in of each point, if it is of a kind that takes terms in any order and only one result is read."""
    live = [i for i, r in enumerate(op.results) if is_read(r)]
    if len(inputs(op)) != 1 or len(live) != 1:
        return None
    running = body(op).arguments[1 + live[0]]
    last = owner(yielded(op)[live[0]])
    if last is None or last.name not in _ORDERLESS or list(last.operands).count(running) != 1:
        return None
    type_ = inputs(op)[0].type
    length = 1
    for d, kind in enumerate(kinds(op)):
        length *= 1 if kind == PARALLEL else next((type_.shape[i] for i in range(type_.rank) if _loop(maps(op)[0], i) == d), 1)
    if last.name == "arith.addf" and length <= _SHORT:
        return None
    term = next(v for v in last.operands if v != running)
    return None if running in backward_slice([term]) else term


def _can_be_cut(value: ir.Value, dim: int) -> bool:
    """Whether a value is an argument, or a part of one, maybe widened."""
    made = owner(value)
    if is_widening(made):
        along = _along(maps(made)[0], dims(maps(made)[1])[dim])
        return len(along) == 1 and isinstance(inputs(made)[0].type, ir.RankedTensorType) and _can_be_cut(inputs(made)[0], along[0])
    return _source(value, dim) is not None


def _source(value: ir.Value, dim: int) -> tuple[ir.Value, list[int], list[int], int] | None:
    """The argument that a value is a part of: it, where the part begins, how large it is, and which of its dimensions ``dim`` is; None of anything else."""
    shape, op = list(value.type.shape), owner(value)
    if op is None:
        return value, [0] * len(shape), shape, dim
    if op.name != "tensor.extract_slice" or len(op.operands) != 1 or owner(op.operands[0]) is not None or not op.operands[0].type.has_static_shape:
        return None
    offsets, sizes, steps = (list(ir.DenseI64ArrayAttr(op.attributes[f"static_{n}"])) for n in ("offsets", "sizes", "strides"))
    kept = [d for d, n in enumerate(sizes) if n != 1]
    if any(s != 1 for s in steps) or [sizes[d] for d in kept] != [n for n in shape if n != 1] or shape[dim] == 1:
        return None
    return op.operands[0], offsets, sizes, kept[[d for d, n in enumerate(shape) if n != 1].index(dim)]


def _rewrite(region: _Region) -> None:
    order = [o.operation for o in next(iter(region.loops)).block.operations]
    mine = [o for o in order if o in region.loops or (len(o.results) and o.results[0] in region.split)]
    parts: dict[ir.Value, list[ir.Value]] = {}
    for op in mine:
        if op.name == "tensor.concat":
            parts[op.results[0]] = list(op.operands)
            continue
        loop = region.loops[op]
        with ir.InsertionPoint(op), op.location:
            given = [_pieces(region, parts, v, m, loop) for v, m in zip(inputs(op), maps(op))]
            if kinds(op)[loop] == PARALLEL:
                each = [_of_piece(region, op, [g[i] for g in given]) for i in range(region.count)]
                parts.update({r: [e.results[n] for e in each] for n, r in enumerate(op.results)})
                _join(region, parts, list(op.results))
            else:
                _reduce(op, given[0])
    for op in reversed(mine):
        op.erase()


def _join(region: _Region, parts: dict[ir.Value, list[ir.Value]], made: list[ir.Value]) -> None:
    """Put together what others read whole."""
    whole: dict[ir.Value, ir.Value] = {}
    for value, user in region.joined:
        if value in made:
            if value not in whole:
                whole[value] = tensor.ConcatOp(value.type, region.split[value], parts[value]).result
            for i, operand in enumerate(user.operands):
                if operand == value:
                    user.operands[i] = whole[value]


def _pieces(region: _Region, parts: dict[ir.Value, list[ir.Value]], value: ir.Value, map_: ir.AffineMap, loop: int) -> list[ir.Value]:
    """What an operation reads of a value for each piece."""
    along = _along(map_, loop)
    if value in parts and along:
        return parts[value]
    if not along:
        return [value] * region.count
    return _cut(value, along[0], region.count)


def _cut(value: ir.Value, dim: int, count: int) -> list[ir.Value]:
    """A value in so many pieces."""
    made, shape = owner(value), list(value.type.shape)
    shape[dim] //= count
    if is_widening(made):
        (given,), (read, written) = inputs(made), maps(made)
        return [
            build([piece], [tensor.EmptyOp(shape, value.type.element_type).result], [read, written], kinds(made),
                  lambda arguments: clone_body(body(made), arguments), made.location).results[0]
            for piece in _cut(given, _along(read, dims(written)[dim])[0], count)
        ]
    (source, offsets, sizes, dim), size = _source(value, dim), shape[dim]
    found = []
    for i in range(count):
        begins, extents = list(offsets), list(sizes)
        begins[dim], extents[dim] = begins[dim] + i * size, size
        type_ = ir.RankedTensorType.get(shape, value.type.element_type)
        found.append(tensor.ExtractSliceOp(type_, source, [], [], [], begins, extents, [1] * len(sizes)).result)
    return found


def _of_piece(region: _Region, op: ir.Operation, given: list[ir.Value]) -> ir.Operation:
    """An elementwise operation of one piece, or a reduction of its columns."""
    outs = []
    for result, before in zip(op.results, outputs(op)):
        shape = list(result.type.shape)
        shape[region.split[result]] //= region.count
        outs.append(tensor.EmptyOp(shape, result.type.element_type).result)
        if not is_elementwise(op):
            outs[-1] = linalg.fill(owner(before).operands[0], outs=[outs[-1]])
    return build(given, outs, maps(op), kinds(op), lambda arguments: clone_body(body(op), arguments), op.location)


def _reduce(op: ir.Operation, pieces: list[ir.Value]) -> None:
    """A reduction that takes a term of each piece at once."""
    live = next(i for i, r in enumerate(op.results) if is_read(r))
    last, wanted = owner(yielded(op)[live]), _term(op)
    every, out = maps(op), outputs(op)[live]

    def fill(arguments: list[ir.Value]) -> list[ir.Value]:
        *given, running = arguments
        terms = [_clone(wanted, {body(op).arguments[0]: v}, body(op)) for v in given]
        narrow = running.type
        wide = ir.F32Type.get() if last.name == "arith.addf" and isinstance(narrow, (ir.F16Type, ir.BF16Type)) else narrow
        total, *others = [*terms, running] if wide == narrow else [arith.extf(wide, v) for v in (*terms, running)]
        for value in others:
            total = ir.Operation.create(last.name, results=[wide], operands=[total, value]).results[0]
        return [total if wide == narrow else arith.truncf(narrow, total)]

    made = build(pieces, [out], [every[0]] * len(pieces) + [every[1 + live]], kinds(op), fill, op.location)
    op.results[live].replace_all_uses_with(made.results[0])


def _clone(value: ir.Value, known: dict[ir.Value, ir.Value], block: ir.Block) -> ir.Value:
    """A value of a body, computed at the insertion point, with what it takes."""
    made = owner(value)
    if value in known or made is None or made.block != block:
        return known.get(value, value)
    for operand in made.operands:
        known[operand] = _clone(operand, known, block)
    clone_onto(made, known)
    return known[value]
