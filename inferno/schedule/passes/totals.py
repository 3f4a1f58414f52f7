"""Totals of all points of a box, and such a total as one of each row and one of these."""

from collections.abc import Callable
from dataclasses import dataclass

from inferno.mlir import arith, clone_onto, func, ir, linalg, owner, tensor, users, walk
from inferno.passes.generics import PARALLEL, REDUCTION, body, build, inputs, kinds, maps, outputs, use_count, yielded
from inferno.passes.programs import VIEWS, callee, operations_in, returned
from inferno.schedule.analysis.accesses import filled
from inferno.schedule.analysis.combiners import read_combiner
from inferno.schedule.passes.calls import generics_of, inputs_of, may_change, new_kernel, tell_sources
from inferno.schedule.passes.rewrite import merge_in, rewrite_calls
from inferno.target import Target, find_target

_PARTS = VIEWS | {"tensor.extract_slice"}


@dataclass(frozen=True)
class Total:
    """A call of a kernel that is one reduction of all points of a box: ``combining`` is the operation that takes a term in, to what there is ``before``.  Of
    16 bits both are in float32, between ``casts``."""

    call: ir.Operation
    kernel: func.FuncOp
    generic: ir.Operation
    combining: ir.Operation
    before: ir.Value
    casts: tuple[ir.Operation, ...]

    @property
    def element(self) -> ir.Type:
        """Of what rows come to, which is not rounded to 16 bits."""
        return self.combining.results[0].type


def find_total(call: ir.Operation, kernels: dict[str, func.FuncOp]) -> Total | None:
    """The total that a call makes, whose terms are combined in any order; None where it makes anything else."""
    kernel = kernels.get(callee(call))
    if not may_change(kernel) or len(kernel.type.results) != 1 or ir.ShapedType(kernel.type.results[0]).rank:
        return None
    generic, *behind = generics_of(kernel) or [None]
    if generic is None or len(generic.results) != 1 or set(kinds(generic)) != {REDUCTION} or len(kinds(generic)) < 2:
        return None
    if any(kinds(o) or any(isinstance(v, ir.BlockArgument) for v in inputs(o)) for o in behind):
        return None  # what is behind it is of one number
    running, last = body(generic).arguments[len(inputs(generic))], owner(yielded(generic)[0])
    if filled(outputs(generic)[0]) is None or last is None or last.parent != generic or walk(generic, "linalg.index", "scf.if"):
        return None
    gives = returned(kernel) == list((behind or [generic])[-1].results)
    plain = gives and _parts_of_arguments(generic) is not None and use_count(running) == 1
    combiner = read_combiner(body(generic), running, 0) if plain else None
    if combiner is None or combiner.name == "arith.mulf":
        return None
    casts: tuple[ir.Operation, ...] = ()
    if last.name == "arith.truncf":
        (widening,) = users(running)
        casts, running, last = (widening, last), widening.results[0], owner(last.operands[0])
    if len(last.operands) != 2 or list(last.operands).count(running) != 1 or (combiner.sums and last.results[0].type.width < 32):
        return None  # what rows come to would be rounded, or beyond the largest number
    return Total(call, kernel, generic, last, running, casts)


def rewrite_totals(module: ir.Module, target: str, rewrite: Callable[[dict[str, func.FuncOp], Total, Target], bool]) -> None:
    """Let ``rewrite`` put something in the place of each total of ``@main``, which it says whether it did; nothing for the CPU."""
    machine = find_target(target)
    if machine.kind != "nvptx":
        return

    def merge(main: func.FuncOp, kernels: dict[str, func.FuncOp]) -> bool:
        def replace(call: ir.Operation) -> bool:
            found = find_total(call, kernels)
            return found is not None and rewrite(kernels, found, machine)

        return rewrite_calls(main, replace)

    merge_in(module, merge)


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


def named_kernel(module: ir.Module, name: str) -> func.FuncOp:
    """A function of a module."""
    return next(o for o in module.body.operations if isinstance(o, func.FuncOp) and o.name.value == name)


def split_total(module: ir.Module, found: Total, sizes: tuple[int, ...], leading: int) -> tuple[ir.Operation, ir.Operation]:
    """Calls in front of the total's of kernels that make the rows' totals and add these up."""
    generic, given, parts = found.generic, inputs_of(found.call), _parts_of_arguments(found.generic)
    element, narrow, count = found.element, generic.results[0].type.element_type, len(sizes)
    made, name = ir.RankedTensorType.get(sizes[:leading], element), found.kernel.name.value
    combiner = read_combiner(body(generic), body(generic).arguments[len(inputs(generic))], 0)
    outer = [ir.AffineDimExpr.get(d) for d in range(leading)]
    first = new_kernel(module, found.kernel, name, [v.type for v in given], [made])
    with ir.InsertionPoint(first.entry_block):
        *arguments, to = first.entry_block.arguments
        known = dict(zip(found.kernel.entry_block.arguments, arguments))
        for op in [o for o in operations_in(found.kernel) if o.name == "arith.constant" or o in parts]:
            clone_onto(op, known)

        def term(values: list[ir.Value]) -> list[ir.Value]:
            known.update(zip(body(generic).arguments, values))
            known[found.before] = values[-1]
            for op in [o.operation for o in body(generic).operations if o.operation.name != "linalg.yield"]:
                if op not in found.casts:
                    clone_onto(op, known)
            return [known[found.combining.results[0]]]

        begin = linalg.fill(combiner.identity(element), outs=[to])
        every = [*maps(generic)[: len(inputs(generic))], ir.AffineMap.get(count, 0, outer)]
        order = [PARALLEL] * leading + [REDUCTION] * (count - leading)
        func.ReturnOp(build([known[v] for v in inputs(generic)], [begin], every, order, term, generic.location).results)
    second = new_kernel(module, found.kernel, name, [made], [found.kernel.type.results[0]])

    def combine(values: list[ir.Value]) -> list[ir.Value]:
        before = arith.extf(element, values[1]) if found.casts else values[1]
        operands = [before if v == found.before else values[0] for v in found.combining.operands]
        attributes = {n: found.combining.attributes[n] for n in found.combining.attributes}
        (result,) = ir.Operation.create(found.combining.name, results=[element], operands=operands, attributes=attributes).results
        return [arith.truncf(narrow, result) if found.casts else result]

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
