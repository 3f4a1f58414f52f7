"""Concatenations that rows are read from: a select between pieces by a point's index in its row is an operand, each piece of which is read in place.

``expand-pieces`` makes of a concatenation an operation whose body chooses between its pieces (``scf.if``) and reads one by ``tensor.extract``.  What a piece
is computed of is read like that, too: the first tensor of each piece is one operand, the second another, and so on, and of what is computed of them one is
selected.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from inferno.mlir import arith, clone_onto, constant_number, dim_of, erase_dead, func, ir, is_read, owner, tensor, terminator, walk
from inferno.passes.affine import projection
from inferno.passes.generics import body, build, clone_body, inputs, kinds, loop_of, maps, outputs
from inferno.schedule.analysis.accesses import argument_index, loop_sizes
from inferno.schedule.analysis.affine_extracts import walk_of


@dataclass(frozen=True)
class Piece:
    """Where a tensor is read from place ``begin`` of the innermost loop on: ``strides`` by the operation's loops, and ``offset``, in elements."""

    begin: int
    table: ir.Value
    strides: tuple[int, ...]
    offset: int


@dataclass(frozen=True)
class _Branch:
    """What is computed from place ``begin`` on, and what its reads are."""

    begin: int
    reads: dict[ir.Operation, Piece]

    def of(self, type_: ir.Type) -> list[Piece]:
        return [p for p in dict.fromkeys(self.reads.values()) if p.table.type.element_type == type_]


def join_pieces(kernel: func.FuncOp) -> dict[ir.Value, list[Piece]]:
    """Rewrite such operations, and say what their new operands are."""
    found: dict[ir.Value, list[Piece]] = {}
    for generic in walk(kernel.operation, "linalg.generic"):
        generic = _read_values(kernel, generic)
        choices = [o.operation for o in body(generic).operations if o.operation.name == "scf.if"]
        branches = [_branches(kernel, generic, c) for c in choices]
        if choices and None not in branches and all(_wholes(each) for each in branches):
            found.update(_rewrite(generic, branches))
    return found


def _read_values(kernel: func.FuncOp, generic: ir.Operation) -> ir.Operation:
    """The same with what pieces read of totals of rows, which are none of the kernel's arguments, as operands."""
    sizes = loop_sizes(generic)
    reads = [op for op in walk(generic, "tensor.extract") if argument_index(kernel, op.operands[0]) is None]
    loops = {op: [loop_of(v) for v in list(op.operands)[1:]] for op in reads}
    if not reads or sizes is None or any(
        None in found or len(set(found)) != len(found) or [sizes[d] for d in found] != list(op.operands[0].type.shape) for op, found in loops.items()
    ):
        return generic
    number, count, block = len(inputs(generic)), len(reads), body(generic)
    added = [projection(loops[op], len(sizes)) for op in reads]

    def fill(arguments: list[ir.Value]) -> list[ir.Value]:
        for op, argument in zip(reads, arguments[number:]):
            op.results[0].replace_all_uses_with(argument)
        return clone_body(block, [*arguments[:number], *arguments[number + count:]])

    with ir.InsertionPoint(generic), generic.location:
        new = build([*inputs(generic), *(op.operands[0] for op in reads)], outputs(generic), [*maps(generic)[:number], *added, *maps(generic)[number:]],
                    kinds(generic), fill, generic.location)
    for old, result in zip(generic.results, new.results):
        old.replace_all_uses_with(result)
    generic.erase()
    for op in walk(new, "tensor.extract"):
        if not is_read(op.results[0]):
            op.erase()
    return new


def _wholes(branches: Sequence[_Branch]) -> list[tuple[ir.Type, int]]:
    """The types of the operands that stand for what branches read, and which of its reads of that type each has; none where a branch has no such read."""
    types = list(dict.fromkeys(p.table.type.element_type for b in branches for p in b.reads.values()))
    if not all(b.of(t) for t in types for b in branches):
        return []
    return [(t, i) for t in types for i in range(max(len(b.of(t)) for b in branches))]


def _rewrite(generic: ir.Operation, branches: Sequence[list[_Branch]]) -> dict[ir.Value, list[Piece]]:
    sizes, given, outs, block = loop_sizes(generic), inputs(generic), outputs(generic), body(generic)
    identity = ir.AffineMap.get_identity(len(sizes))
    wanted = [(each, t, i) for each in branches for t, i in _wholes(each)]
    with ir.InsertionPoint(generic), generic.location:
        wholes = [tensor.EmptyOp(list(sizes), t).result for _, t, _ in wanted]

        def fill(arguments: list[ir.Value]) -> list[ir.Value]:
            known = dict(zip(block.arguments, [*arguments[: len(given)], *arguments[len(given) + len(wholes):]]))
            for (each, type_, number), value in zip(wanted, arguments[len(given):]):
                for branch in each:
                    piece = next(iter(branch.of(type_)[number:]), None)
                    known.update({op.results[0]: value for op, read in branch.reads.items() if read == piece})
            _clone(block, known)
            return [known.get(v, v) for v in terminator(block).operands]

        new = build([*given, *wholes], outs, [*maps(generic)[: len(given)], *[identity] * len(wholes), *maps(generic)[len(given):]], kinds(generic), fill,
                    generic.location)
    erase_dead(o.operation for o in body(new).operations)
    for old, result in zip(generic.results, new.results):
        old.replace_all_uses_with(result)
    generic.erase()
    return {whole: [_nth(b, t, i) for b in each] for whole, (each, t, i) in zip(wholes, wanted)}


def _nth(branch: _Branch, type_: ir.Type, number: int) -> Piece:
    """What stands for a branch's read of this number: any of its own where it has fewer."""
    own = branch.of(type_)
    return own[min(number, len(own) - 1)]


def _clone(block: ir.Block, known: dict[ir.Value, ir.Value]) -> None:
    """All but the last operation of a block, with a selection of what a choice's branches compute in the place of the choice."""
    for op in [o.operation for o in block.operations][:-1]:
        if op.name == "scf.if":
            found = []
            for region in op.regions:
                inner = region.blocks[0]
                _clone(inner, known)
                value = terminator(inner).operands[0]
                found.append(known.get(value, value))
            known[op.results[0]] = found[0] if found[0] == found[1] else arith.select(known[op.operands[0]], *found)
        elif op.results[0] not in known:
            clone_onto(op, known)


def _branches(kernel: func.FuncOp, generic: ir.Operation, choice: ir.Operation, low: int = 0) -> list[_Branch] | None:
    """Those of a choice by the innermost loop, from ``low`` on; None if it is any other."""
    sizes, condition = loop_sizes(generic), owner(choice.operands[0])
    if sizes is None or len(choice.results) != 1 or condition is None or condition.name != "arith.cmpi":
        return None
    bound, below = constant_number(condition.operands[1]), ir.IntegerAttr(condition.attributes["predicate"]).value == arith.CmpIPredicate.ult
    if not below or bound is None or _place(condition.operands[0], len(sizes) - 1) != 0:
        return None
    found: list[_Branch] = []
    for region, begin in zip(choice.regions, (low, bound)):
        inner = [o.operation for o in region.blocks[0].operations]
        made = owner(inner[-1].operands[0])
        if made is not None and made.name == "scf.if":
            part = _branches(kernel, generic, made, begin) if all(o == made or _is_of_places(o) for o in inner[:-1]) else None
        else:
            part = _branch(kernel, inner[:-1], len(sizes), begin)
        if part is None:
            return None
        found += part
    return found


def _is_of_places(op: ir.Operation) -> bool:
    return op.name.startswith("arith.") and isinstance(op.results[0].type, (ir.IndexType, ir.IntegerType)) and not _may_trap(op)


def _may_trap(op: ir.Operation) -> bool:
    """Whether an operation must not be computed where its result is not wanted."""
    return len(op.regions) > 0 or (op.name.startswith("arith.") and ("div" in op.name or "rem" in op.name) and not op.name.endswith("f"))


def _branch(kernel: func.FuncOp, operations: Sequence[ir.Operation], rank: int, begin: int) -> list[_Branch] | None:
    """What is computed of tensors that rows are read from."""
    reads = {op: _piece(kernel, op, rank, begin) for op in operations if op.name == "tensor.extract"}
    others = all(op in reads or (op.name.startswith(("arith.", "math.")) and not _may_trap(op)) for op in operations)
    return [_Branch(begin, reads)] if reads and None not in reads.values() and others else None


def _piece(kernel: func.FuncOp, op: ir.Operation, rank: int, begin: int) -> Piece | None:
    """How a tensor is read at places of the loops, or at numbers."""
    if argument_index(kernel, op.operands[0]) is None:
        return None
    if (place := walk_of(op, rank)) is None:
        return None
    strides, offset = place
    return Piece(begin, op.operands[0], strides, offset) if strides[-1] in (0, 1) and min(strides) >= 0 else None


def _place(value: ir.Value, loop: int) -> int | None:
    """How much less a number is than a loop's; None if it is anything else."""
    op = owner(value)
    if op is not None and op.name == "arith.subi" and (number := constant_number(op.operands[1])) is not None and _place(op.operands[0], loop) == 0:
        return number
    return 0 if op is not None and op.name == "linalg.index" and dim_of(op) == loop else None
