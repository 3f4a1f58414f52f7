"""On a GPU, let a kernel that goes over rows add up each row of what it makes, where nothing but one total of all of it is wanted.

The mean of squares of a norm's result reads what the norm has written, though each row's part of it could be added up where the row is in registers.  The
total becomes the rows' totals, which ``rows`` computes like any other reduction, and a small kernel that adds these up.  It is done where the estimates
say so: a total by itself is read by all multiprocessors at the rate of memory, and rows that are few leave most of them without work.
"""

from dataclasses import dataclass
from math import prod

from inferno.mlir import clone_onto, func, ir, linalg, owner, tensor, walk
from inferno.passes.generics import PARALLEL, REDUCTION, body, build, inputs, is_generic, kinds, maps, outputs, yielded
from inferno.passes.programs import VIEWS, callee, readers
from inferno.schedule import rows
from inferno.schedule.accesses import filled, loop_sizes
from inferno.schedule.combiners import read_combiner
from inferno.schedule.fuse_reductions import alone
from inferno.schedule.merge_calls import (
    Edges, defer, edges_of, inputs_of, joint_name, may_change, merge_in, merged_kernel, new_kernel, operations_in, places_in, replace_calls, rewrite_calls,
    tell_sources, waits,
)
from inferno.target import Target, find_target

_PARTS = VIEWS | {"tensor.extract_slice"}


@dataclass(frozen=True)
class _Total:
    """A call of a kernel that is one reduction of all points of a box: ``combining`` is the operation that takes a term in."""

    call: ir.Operation
    kernel: func.FuncOp
    generic: ir.Operation
    combining: ir.Operation


def fuse_totals(module: ir.Module, target: str, always: str = "") -> None:
    """Rewrite ``@main`` and its kernels; nothing for the CPU.  ``always``: "1" for fusing wherever that can be."""
    machine = find_target(target)
    if machine.kind != "nvptx":
        return

    def merge(main: func.FuncOp, kernels: dict[str, func.FuncOp]) -> bool:
        def rewrite(call: ir.Operation) -> bool:
            found = _total(call, kernels)
            makers = _makers(found, kernels) if found is not None else ()
            return any(_fuse(module, main, kernels, found, made, machine, always == "1") for made in makers)

        return rewrite_calls(main, rewrite)

    merge_in(module, merge)


def _total(call: ir.Operation, kernels: dict[str, func.FuncOp]) -> _Total | None:
    kernel = kernels.get(callee(call))
    if not may_change(kernel) or len(kernel.type.results) != 1 or ir.ShapedType(kernel.type.results[0]).rank:
        return None
    generic, *behind = [o for o in operations_in(kernel) if is_generic(o) and filled(o.results[0]) is None] or [None]
    if generic is None or len(generic.results) != 1 or set(kinds(generic)) != {REDUCTION} or len(kinds(generic)) < 2:
        return None
    if any(kinds(o) or any(isinstance(v, ir.BlockArgument) for v in inputs(o)) for o in behind):
        return None  # what is behind it is of one number
    running, last = body(generic).arguments[len(inputs(generic))], owner(yielded(generic)[0])
    if filled(outputs(generic)[0]) is None or last is None or last.parent != generic or len(last.operands) != 2 or walk(generic, "linalg.index", "scf.if"):
        return None
    returned = list(operations_in(kernel)[-1].operands) == list((behind or [generic])[-1].results)
    plain = returned and _parts_of_arguments(generic) is not None
    combiner = read_combiner(body(generic), running, 0) if plain and list(last.operands).count(running) == 1 and sum(1 for _ in running.uses) == 1 else None
    if combiner is None or combiner.name == "arith.mulf" or (combiner.sums and combiner.narrow.width < 32):
        return None  # what rows come to would be rounded, or beyond the largest number
    return _Total(call, kernel, generic, last)


def _parts_of_arguments(generic: ir.Operation) -> list[ir.Operation] | None:
    """The operations that take parts of a kernel's arguments, or give them another shape, for a generic that reads nothing else; None if it does."""
    found = []
    for value in inputs(generic):
        while (op := owner(value)) is not None and op.name in _PARTS and len(op.operands) == 1:
            found.append(op)
            value = op.operands[0]
        if not isinstance(value, ir.BlockArgument):
            return None
    return found


def _makers(found: _Total, kernels: dict[str, func.FuncOp]) -> list[ir.Operation]:
    """The calls that make what a total is of, if they go over rows."""
    made = dict.fromkeys(owner(v) for v in inputs_of(found.call))
    return [m for m in made if m is not None and m.name == "func.call" and may_change(kernels.get(callee(m)))]


def _fuse(
    module: ir.Module, main: func.FuncOp, kernels: dict[str, func.FuncOp], found: _Total, maker: ir.Operation, target: Target, always: bool,
) -> bool:
    """Let ``maker`` have the rows' totals, if that pays; whether it does."""
    before = rows.read(kernels[callee(maker)], target)
    if before is None or before.varies or waits(found.call, {maker}, places_in(main)):
        return False
    sizes = loop_sizes(found.generic)
    leading = next((n for n in range(1, len(sizes)) if prod(sizes[:n]) == before.count), None)
    if leading is None or prod(sizes) != before.count * before.width:
        return False
    each, total = _split(module, found, sizes, leading)
    edges = edges_of([maker, each], views=True)
    wanted = [r for r in maker.results if any(u not in (maker, each, found.call) for u in readers(r))]
    edges = Edges(edges.calls, edges.captured, (*wanted, *each.results))
    merged = merged_kernel(kernels | {callee(each): _named(module, callee(each))}, edges, joint_name(module, edges.calls))
    after = rows.read(merged, target)
    if after is not None:
        time = rows.estimate(rows.pick(after, target), after, target)
        now = rows.estimate(rows.pick(before, target), before, target) + alone(found.kernel, target)
        if always or time + alone(_named(module, callee(total)), target) < now:
            found.call.results[0].replace_all_uses_with(total.results[0])
            found.call.erase()
            kernels[callee(total)], kernels[merged.name.value] = _named(module, callee(total)), merged
            defer(edges)
            replace_calls(edges, merged)
            return True
    merged.operation.erase()
    for call in (total, each):
        kernel = _named(module, callee(call))
        call.erase()
        kernel.operation.erase()
    return False


def _named(module: ir.Module, name: str) -> func.FuncOp:
    return next(o for o in module.body.operations if isinstance(o, func.FuncOp) and o.name.value == name)


def _split(module: ir.Module, found: _Total, sizes: tuple[int, ...], leading: int) -> tuple[ir.Operation, ir.Operation]:
    """Calls in front of the total's of kernels that make the rows' totals and add these up."""
    generic, given, parts = found.generic, inputs_of(found.call), _parts_of_arguments(found.generic)
    element, count = generic.results[0].type.element_type, len(sizes)
    made, name = ir.RankedTensorType.get(sizes[:leading], element), found.kernel.name.value
    running = body(generic).arguments[len(inputs(generic))]
    combiner = read_combiner(body(generic), running, 0)
    outer = [ir.AffineDimExpr.get(d) for d in range(leading)]
    first = new_kernel(module, found.kernel, name, [v.type for v in given], [made])
    with ir.InsertionPoint(first.entry_block):
        *arguments, to = first.entry_block.arguments
        known = dict(zip(found.kernel.entry_block.arguments, arguments))
        for op in [o for o in operations_in(found.kernel) if o.name == "arith.constant" or o in parts]:
            clone_onto(op, known)

        def term(values: list[ir.Value]) -> list[ir.Value]:
            known.update(zip(body(generic).arguments, values))
            *operations, end = [o.operation for o in body(generic).operations]
            for op in operations:
                clone_onto(op, known)
            return [known[v] for v in end.operands]

        begin = linalg.fill(combiner.identity(element), outs=[to])
        every = [*maps(generic)[: len(inputs(generic))], ir.AffineMap.get(count, 0, outer)]
        order = [PARALLEL] * leading + [REDUCTION] * (count - leading)
        func.ReturnOp(build([known[v] for v in inputs(generic)], [begin], every, order, term, generic.location).results)
    second = new_kernel(module, found.kernel, name, [made], [found.kernel.type.results[0]])

    def combine(values: list[ir.Value]) -> list[ir.Value]:
        operands = [values[1] if v == running else values[0] for v in found.combining.operands]
        attributes = {n: found.combining.attributes[n] for n in found.combining.attributes}
        return list(ir.Operation.create(found.combining.name, results=[element], operands=operands, attributes=attributes).results)

    with ir.InsertionPoint(second.entry_block):
        x, to = second.entry_block.arguments
        known = {found.kernel.entry_block.arguments[len(given)]: to}
        for op in operations_in(found.kernel):
            if op == generic:
                to_one = [ir.AffineMap.get_identity(leading), ir.AffineMap.get(leading, 0, [])]
                known[op.results[0]] = build([x], [known[outputs(generic)[0]]], to_one, [REDUCTION] * leading, combine, generic.location).results[0]
            elif op.name == "func.return":
                func.ReturnOp([known[v] for v in op.operands])
            elif op not in parts:
                clone_onto(op, known)
    with ir.InsertionPoint(found.call), found.call.location:
        each = func.CallOp(first, [*given, tensor.EmptyOp(list(sizes[:leading]), element).result]).operation
        total = func.CallOp(second, [each.results[0], found.call.operands[len(given)]]).operation
    for call in (each, total):
        tell_sources(call, [found.call])
    return each, total
