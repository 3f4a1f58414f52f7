"""Let a kernel whose last operation transposes the others' result go over its points in one order throughout.

A softmax along the first dimension that is given back transposed reads rows side by side and writes them one behind the other: with the loops of all its
operations as the result has them, what they exchange lies in one order, and only what is read is in another, as ``columns`` takes it.

Short rows that lie as arguments do are gone over as they lie, by ``rows``, which writes them apart: there what operations exchange lies as the arguments
do, be it imported as the result lies, as a softmax of ``x.t()`` along its first dimension is.
"""

from collections.abc import Collection
from math import prod

from inferno.mlir import func, ir, owner, tensor, terminator, users
from inferno.passes.generics import PARALLEL, body, build, clone_body, dims, inputs, is_elementwise, is_generic, is_reduction, kinds, maps, outputs
from inferno.passes.programs import operations_in
from inferno.passes.reorderings import Reordering, reorder
from inferno.schedule.analysis.accesses import filled, loop_sizes

_SHORT = 1024  # points of a row that is gone over as it lies, several by a warp, and written apart


def transpose_results(kernel: func.FuncOp) -> None:
    """Rewrite a kernel, in place, if there is such an order; nothing where none has to change."""
    operations = operations_in(kernel)
    returned = list(operations[-1].operands)
    last = owner(returned[0]) if returned else None
    if last is None or not is_elementwise(last) or filled(returned[0]) is not None:
        return
    if _reads_along(operations):  # ``rows`` goes over these as they lie, and writes them apart
        _turn_exchanged(kernel, returned)
        return
    plan = _plan(last, dims(maps(last)[-1]), returned)
    if plan is not None and plan.order:
        reorder(operations, plan)


def _turn_exchanged(kernel: func.FuncOp, returned: list[ir.Value]) -> None:
    """Let what operations exchange lie as the first rows that are reduced."""
    first = next((found for o in kernel.entry_block.operations if (found := _rows_of(o.operation)) is not None), None)
    if first is None:
        return
    given = set(returned)
    plan = _plan(*first, [], given)
    if plan is None or not plan.order:
        return
    if any(v in given for v in plan.order):  # what is given back, too, is a copy of what others read
        for value in [v for v in plan.order if v in given]:
            _copy_for_caller(value)
        _turn_exchanged(kernel, list(terminator(kernel.entry_block).operands))
        return
    reorder(operations_in(kernel), plan)


def _rows_of(op: ir.Operation) -> tuple[ir.Operation, list[int]] | None:
    """A reduction, and its loops as what it reads of each point lies; None for anything else."""
    if not is_generic(op) or is_elementwise(op):
        return None
    read = [dims(m) for m in maps(op)[: len(inputs(op))] if m.is_permutation]
    return (op, read[0]) if read else None


def _copy_for_caller(value: ir.Value) -> None:
    """Have a map write a tensor of its own, and another one copy it to where the kernel's caller wants it."""
    made = owner(value)
    written = maps(made)[-1]
    with ir.InsertionPoint(made), made.location:
        empty = tensor.EmptyOp(list(value.type.shape), value.type.element_type).result
        new = build(inputs(made), [empty], maps(made), kinds(made), lambda given: clone_body(body(made), given), made.location)
        copy = build(new.results, outputs(made), [written, written], kinds(made), lambda given: given[:1], made.location)
    for use in list(value.uses):
        reader = use.owner.operation
        reader.operands[use.operand_number] = copy.results[0] if reader.name == "func.return" else new.results[0]
    made.erase()


def _reads_along(operations: list[ir.Operation]) -> bool:
    """Whether what reduces arguments, or else what reduces anything first, goes over rows, which are not long, whose neighbours in memory are theirs."""
    found: dict[bool, list[bool]] = {True: [], False: []}
    for op in (o for o in operations if is_reduction(o)):
        sizes = loop_sizes(op)
        if any(not isinstance(n, int) for n in sizes) or prod(n for n, k in zip(sizes, kinds(op)) if k != PARALLEL) > _SHORT:
            return False
        for value, map_ in zip(inputs(op), maps(op)):
            if map_.is_permutation:
                found[owner(value) is None].append(kinds(op)[dims(map_)[-1]] != PARALLEL)
    return all(found[True]) if found[True] else bool(found[False]) and found[False][0]


def _plan(first: ir.Operation, along: list[int], returned: list[ir.Value], left: Collection[ir.Value] = ()) -> Reordering | None:
    """The loops of all that makes or reads tensors of the same points, as ``first`` goes ``along`` them; None where they contradict each other, or ``returned``
    would lie otherwise.  What is ``left`` is not followed where nothing in the kernel reads it."""
    loops, orders = {first: along}, {}
    pending = [first]
    while pending:
        op = pending.pop()
        wide = [(v, m) for v, m in zip([*inputs(op), *op.results], maps(op)) if m.is_permutation and isinstance(v.type, ir.RankedTensorType)]
        for value, map_ in (w for w in wide if filled(w[0]) is None):
            made = owner(value)
            if value in left and all(u.name == "func.return" for u in users(value)):
                continue
            order = [dims(map_).index(d) for d in loops[op]]
            if made is not None and (orders.setdefault(value, order) != order or (value in returned and order != sorted(order))):
                return None
            for other, read in _touching(value, made):
                if other.name == "func.return" or (made is None and read is None):
                    continue
                if read is None:
                    return None
                own = [dims(read)[d] for d in order]
                if (known := loops.setdefault(other, own)) is own:
                    pending.append(other)
                elif known != own and made is not None:
                    return None
    if any(not _keeps_rows(op, own) for op, own in loops.items()):
        return None
    return Reordering(loops, {v: order for v, order in orders.items() if order != sorted(order)})


def _touching(value: ir.Value, made: ir.Operation | None) -> list[tuple[ir.Operation, ir.AffineMap | None]]:
    """What makes a tensor, or an argument, and what reads it, each by which map; None where a map is no permutation of the loops, or there is none."""
    found = []
    for op in (*([made] if made is not None else []), *users(value)):
        read = [m for v, m in zip([*inputs(op), *op.results], maps(op)) if v == value] if is_generic(op) else []
        found.append((op, read[0] if read and all(m == read[0] and m.is_permutation for m in read) else None))
    return found


def _keeps_rows(op: ir.Operation, loops: list[int]) -> bool:
    """Whether a reduction's results have its rows in the order of its loops still."""
    if is_elementwise(op):
        return True
    left = [d for d in loops if kinds(op)[d] == PARALLEL]
    return all(dims(m) == left for m in maps(op)[len(inputs(op)):])
