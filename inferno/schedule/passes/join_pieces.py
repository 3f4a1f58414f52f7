"""A concatenation of slices of one tensor, such as a recurrent layer's states of all steps, which one kernel has written.

Parts that follow each other, forwards or backwards, are one piece; of few pieces each element is chosen by its place, which elementwise kernels read by whole
vectors.
"""

from dataclasses import dataclass, replace

from inferno.mlir import arith, dim_of, func, ir, is_read, linalg, owner, tensor, users, walk
from inferno.passes.expand_pieces import either
from inferno.passes.generics import PARALLEL, build
from inferno.passes.programs import VIEWS
from inferno.passes.shapes import reassociation_attribute
from inferno.schedule.passes.stacks import Parts, erase_unused

_FEW = 16  # pieces that are chosen between


@dataclass(frozen=True)
class _Piece:
    """``count`` positions of the first dimension of ``whole``, from ``place`` on, by ``step``; or where ``count`` is 0 all of it."""

    whole: ir.Value
    place: int = 0
    count: int = 0
    step: int = 1

    def follows(self, place: int) -> int:
        """The step by which a position is the next one; 0 if it is not."""
        for step in (1, -1) if self.count == 1 else (self.step,):
            if place == self.place + step * self.count:
                return step
        return 0


def join_pieces(kernel: func.FuncOp, parts: Parts) -> None:
    """Let a concatenation read pieces that follow each other in a tensor as one."""
    for op in walk(kernel.operation, "tensor.concat"):
        found = [_part(v, parts) for v in op.operands]
        if dim_of(op) != 0 or not any(found):
            continue
        pieces: list[_Piece] = []
        for value, part in zip(op.operands, found):
            step = pieces[-1].follows(part[1]) if part is not None and pieces and pieces[-1].count and pieces[-1].whole == part[0] else 0
            if step:
                pieces[-1] = replace(pieces[-1], count=pieces[-1].count + 1, step=step)
            else:
                pieces.append(_Piece(value) if part is None else _Piece(*part, 1))
        before = dict.fromkeys(op.operands)  # each once: a view may be several pieces
        if len(pieces) <= _FEW and _can_choose(kernel, op, pieces):
            _choose(op, pieces)
        else:
            _concatenate(op, pieces)
        for value in before:
            if (view := owner(value)) is not None and view.name in VIEWS and not is_read(value):
                view.erase()
    erase_unused(parts)


def _part(value: ir.Value, parts: Parts) -> tuple[ir.Value, int] | None:
    """Which part a piece is, maybe with a dimension of one in front."""
    op = owner(value)
    if op is not None and op.name == "tensor.expand_shape" and list(value.type.shape) == [1, *op.operands[0].type.shape]:
        value = op.operands[0]
    return parts.get(value)


def _concatenate(op: ir.Operation, pieces: list[_Piece]) -> None:
    """Put pieces that go forwards together, each part of others by itself."""
    type_ = op.results[0].type
    with ir.InsertionPoint(op), op.location:
        values = []
        for p in pieces:
            forwards = [p] if p.step == 1 else [replace(p, place=p.place - i, count=1) for i in range(p.count)]
            values += [_run(x.whole, x.place, x.count, type_.rank) if x.count else x.whole for x in forwards]
        made = values[0] if len(values) == 1 else tensor.ConcatOp(type_, 0, values).result
    op.results[0].replace_all_uses_with(made)
    op.erase()


def _run(whole: ir.Value, place: int, count: int, rank: int) -> ir.Value:
    """So many parts from one on."""
    shape = [count, *list(whole.type.shape)[1:]]
    type_ = ir.RankedTensorType.get(shape, whole.type.element_type)
    value = tensor.ExtractSliceOp(type_, whole, [], [], [], [place, *[0] * (len(shape) - 1)], shape, [1] * len(shape)).result
    if rank == len(shape):
        return value
    flat = ir.RankedTensorType.get([shape[0] * shape[1], *shape[2:]], whole.type.element_type)
    return tensor.CollapseShapeOp(flat, value, reassociation_attribute([[0, 1], *([d] for d in range(2, len(shape)))])).result


def _can_choose(kernel: func.FuncOp, op: ir.Operation, pieces: list[_Piece]) -> bool:
    """Whether a copy to the kernel's result is all that reads it, and pieces are arguments."""
    readers = list(users(op.results[0]))
    arguments = list(kernel.entry_block.arguments)
    return len(readers) == 1 and readers[0].name == "linalg.copy" and (len(pieces) > 1 or pieces[0].step < 0) and all(p.whole in arguments for p in pieces)


def _choose(op: ir.Operation, pieces: list[_Piece]) -> None:
    """Make each element of what a copy gives of its place."""
    copy, type_ = next(users(op.results[0])), op.results[0].type
    rank = type_.rank
    sizes = [p.count * (p.whole.type.shape[1] if p.whole.type.rank > rank else 1) if p.count else p.whole.type.shape[0] for p in pieces]
    begins = [sum(sizes[:i]) for i in range(len(pieces))]

    def element(at: list[ir.Value], number: int) -> ir.Value:
        p, x = pieces[number], _plus(at[0], -begins[number])
        if not p.count:
            return tensor.extract(p.whole, [x, *at[1:]])
        inner = []
        if p.whole.type.rank > rank:
            width = arith.constant(ir.IndexType.get(), p.whole.type.shape[1])
            x, inner = arith.divui(x, width), [arith.remui(x, width)]
        x = _plus(x, p.place) if p.step == 1 else arith.subi(arith.constant(ir.IndexType.get(), p.place), x)
        return tensor.extract(p.whole, [x, *inner, *at[1:]])

    def chosen(at: list[ir.Value], low: int, high: int) -> ir.Value:
        if high - low == 1:
            return element(at, low)
        middle = (low + high) // 2
        before = arith.cmpi(arith.CmpIPredicate.ult, at[0], arith.constant(ir.IndexType.get(), begins[middle]))
        return either(before, lambda: chosen(at, low, middle), lambda: chosen(at, middle, high), type_.element_type)

    def fill(_: list[ir.Value]) -> list[ir.Value]:
        return [chosen([linalg.IndexOp(d).result for d in range(rank)], 0, len(pieces))]

    with ir.InsertionPoint(copy), copy.location:
        made = build([], [copy.operands[1]], [ir.AffineMap.get_identity(rank)], [PARALLEL] * rank, fill, copy.location)
    copy.results[0].replace_all_uses_with(made.results[0])
    copy.erase()
    op.erase()


def _plus(place: ir.Value, number: int) -> ir.Value:
    number_of = lambda n: arith.constant(ir.IndexType.get(), n)  # noqa: E731
    return place if number == 0 else arith.addi(place, number_of(number)) if number > 0 else arith.subi(place, number_of(-number))
