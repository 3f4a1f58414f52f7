"""Concatenations that rows are read from: what chooses between pieces by a point's place in its row is an operand, of which each piece is read where it lies.

``expand-pieces`` makes of a concatenation an operation whose body chooses between its pieces (``scf.if``) and reads one by ``tensor.extract``.
"""

from collections.abc import Sequence

from inferno.mlir import arith, clone_onto, func, ir, owner, tensor, walk
from inferno.passes.generics import body, build, inputs, kinds, maps, outputs
from inferno.schedule.accesses import argument_index, loop_sizes

Pieces = list[tuple[int, ir.Value, int]]
"""Of each piece the first place, the tensor, and how much less a place there is."""


def join_pieces(kernel: func.FuncOp) -> dict[ir.Value, Pieces]:
    """Rewrite such operations, and say what their new operands are."""
    found: dict[ir.Value, Pieces] = {}
    for generic in walk(kernel.operation, "linalg.generic"):
        choices = [o.operation for o in body(generic).operations if o.operation.name == "scf.if"]
        pieces = [_read(kernel, generic, c) for c in choices]
        if choices and None not in pieces:
            found.update(zip(_rewrite(generic, choices), pieces))
    return found


def _rewrite(generic: ir.Operation, choices: Sequence[ir.Operation]) -> list[ir.Value]:
    sizes, given, outs, block = loop_sizes(generic), inputs(generic), outputs(generic), body(generic)
    identity = ir.AffineMap.get_identity(len(sizes))
    with ir.InsertionPoint(generic), generic.location:
        wholes = [tensor.EmptyOp(list(sizes), c.results[0].type).result for c in choices]

        def fill(arguments: list[ir.Value]) -> list[ir.Value]:
            chosen = arguments[len(given): len(given) + len(wholes)]
            known = dict(zip(block.arguments, [*arguments[: len(given)], *arguments[len(given) + len(wholes):]]))
            known.update({c.results[0]: v for c, v in zip(choices, chosen)})
            operations = [o.operation for o in block.operations]
            for op in operations[:-1]:
                if not any(op == c for c in choices):
                    clone_onto(op, known)
            return [known.get(v, v) for v in operations[-1].operands]

        new = build([*given, *wholes], outs, [*maps(generic)[: len(given)], *[identity] * len(wholes), *maps(generic)[len(given):]], kinds(generic), fill,
                    generic.location)
    for op in reversed([o.operation for o in body(new).operations]):
        if len(op.results) and not any(True for r in op.results for _ in r.uses):
            op.erase()
    for old, result in zip(generic.results, new.results):
        old.replace_all_uses_with(result)
    generic.erase()
    return wholes


def _read(kernel: func.FuncOp, generic: ir.Operation, choice: ir.Operation, low: int = 0) -> Pieces | None:
    """The pieces of a choice by the innermost loop, which begin at ``low``; None if it is any other."""
    sizes, condition = loop_sizes(generic), owner(choice.operands[0])
    if sizes is None or len(choice.results) != 1 or condition is None or condition.name != "arith.cmpi":
        return None
    bound, below = _number(condition.operands[1]), ir.IntegerAttr(condition.attributes["predicate"]).value == arith.CmpIPredicate.ult
    if not below or bound is None or _place(condition.operands[0], len(sizes) - 1) != 0:
        return None
    found: Pieces = []
    for region, begin in zip(choice.regions, (low, bound)):
        end = region.blocks[0].operations[len(region.blocks[0].operations) - 1].operation
        made = owner(end.operands[0])
        part = _read(kernel, generic, made, begin) if made is not None and made.name == "scf.if" else _piece(kernel, made, len(sizes), begin)
        if part is None:
            return None
        found += part
    return found


def _piece(kernel: func.FuncOp, op: ir.Operation | None, rank: int, begin: int) -> Pieces | None:
    """What is read of one tensor."""
    if op is None or op.name != "tensor.extract" or len(op.operands) != rank + 1 or argument_index(kernel, op.operands[0]) is None:
        return None
    places = [_place(v, d) for d, v in enumerate(list(op.operands)[1:])]
    if places[-1] is None or any(p != 0 for p in places[:-1]):
        return None
    return [(begin, op.operands[0], places[-1])]


def _place(value: ir.Value, loop: int) -> int | None:
    """How much less a number is than a loop's; None if it is anything else."""
    op = owner(value)
    if op is not None and op.name == "arith.subi" and (number := _number(op.operands[1])) is not None and _place(op.operands[0], loop) == 0:
        return number
    return 0 if op is not None and op.name == "linalg.index" and ir.IntegerAttr(op.attributes["dim"]).value == loop else None


def _number(value: ir.Value) -> int | None:
    op = owner(value)
    return ir.IntegerAttr(op.attributes["value"]).value if op is not None and op.name == "arith.constant" else None
