"""What a kernel computes that is a recurrence: equal steps, each with products of what the step before made and elementwise functions of these.

``parse_recurrences`` reads a kernel function that is one ``scf.for`` (see ``roll-steps``) or several: states are carried by a loop, and each new state is a
function of the states at its place, of sums of products of one state's row with columns of weights, and of what is read of other tensors, which may be
a step's own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from operator import add, mul, sub

from inferno.mlir import constant_number, func, ir, owner, run_upstream, tensor, terminator, walk
from inferno.passes.programs import operations_in
from inferno.passes.split_contractions import split_contractions
from inferno.schedule.analysis.accesses import Access, argument_index, filled, placed
from inferno.schedule.analysis.expression_maps import make_map
from inferno.schedule.analysis.expression_tracer import NotUnderstood, Tracer
from inferno.schedule.analysis.expressions import CONTRACTION, INDEX, READ, Expression, Loop, place_of
from inferno.schedule.matmul.contraction import Map


@dataclass(frozen=True)
class Order:
    """How states lie one behind the other: with ``initial`` with the one that there was before the first step, and ``backwards`` the last one first."""

    initial: bool
    backwards: bool

    def place(self, step: int, steps: int) -> int:
        """Of what a step made; of step -1 the initial one's."""
        return steps - 1 - step if self.backwards else step + self.initial


@dataclass(frozen=True)
class History:
    """A state, by number, is written to an argument in each step."""

    state: int
    argument: int
    order: Order


@dataclass(frozen=True)
class Recurrence:
    """``steps`` steps of ``rows`` rows of ``units`` elements of each state, which begin as the function's arguments that ``initial`` reads, by (row, unit),
    or as zeros.

    In each step ``map`` makes the new states, of types ``elements``.  Its sources are read by (row, unit): those with a negative argument number are sums,
    of -1 the first one of ``weights``, and those with the numbers from ``first`` on are the states.  What ``strides`` has is read so many elements further
    in every step.  A sum is over terms, of the state ``product`` and of weights by (row, unit, term), whose stride along rows is 0.
    """

    steps: int
    rows: int
    units: int
    elements: tuple[ir.Type, ...]
    initial: tuple[Access | None, ...]
    product: int
    weights: tuple[Access, ...]
    map: Map
    first: int
    strides: dict[Access, int]
    histories: tuple[History, ...]
    module: ir.Module = field(repr=False)

    def state(self, access: Access) -> int | None:
        """The number of the state that a source is."""
        return access.argument - self.first if access.argument >= self.first else None


def parse_recurrences(kernel: func.FuncOp) -> tuple[Recurrence, ...]:
    """What ``kernel`` computes, a loop that does not wait for the others by the other; none if it is anything else."""
    operations = operations_in(kernel)
    loops = [o for o in operations if o.name == "scf.for"]
    others = {"arith.constant", "tensor.empty", "tensor.insert_slice", "tensor.expand_shape", "tensor.collapse_shape", "linalg.fill", "func.return"}
    if not loops or any(o.name not in others for o in operations if o not in loops):
        return ()
    with kernel.context, kernel.location:
        try:
            return tuple(_Parser(kernel, loop).parse() for loop in loops)
        except NotUnderstood:
            return ()


class _Parser:
    def __init__(self, kernel: func.FuncOp, loop: ir.Operation) -> None:
        self.kernel, self.loop, self.body = kernel, loop, loop.regions[0].blocks[0]
        self.first = len(kernel.type.inputs)

    def parse(self) -> Recurrence:
        begin, end, step = (constant_number(v) for v in list(self.loop.operands)[:3])
        if begin != 0 or step != 1 or end is None or end < 1:
            raise NotUnderstood
        carried, given = list(self.body.arguments)[1:], list(self.loop.operands)[3:]
        made = list(terminator(self.body).operands)
        writes = {i: self.write(carried[i], made[i], given[i], end) for i in range(len(carried)) if _inserted(made[i]) is not None}
        states = [i for i in range(len(carried)) if i not in writes]
        shapes = {tuple(carried[i].type.shape) for i in states}
        if len(shapes) != 1 or len(shape := shapes.pop()) not in (1, 2):
            raise NotUnderstood
        zeros = [(start := filled(given[i])) is not None and start.value == 0 and not str(start).startswith("-") for i in states]
        initial = [None if zero else placed(self.kernel, given[i], ir.AffineMap.get_identity(len(shape))) for i, zero in zip(states, zeros)]
        histories = list(writes.values())
        known = states and all(a is not None or zero for a, zero in zip(initial, zeros))
        if not known or any(written not in [made[i] for i in states] for written, *_ in histories):
            raise NotUnderstood
        if len(shape) == 1:
            shape, initial = (1, *shape), [a and replace(a, strides=(0, *a.strides)) for a in initial]
        numbers = {made[i]: n for n, i in enumerate(states)}
        self.values, self.made = [carried[i] for i in states], [made[i] for i in states]
        traced = [self.trace(step) for step in dict.fromkeys((0, min(1, end - 1), end - 1))]
        return self.read(end, shape, initial, [History(numbers[v], *where) for v, *where in histories], traced)

    def write(self, history: ir.Value, made: ir.Value, given: ir.Value, steps: int) -> tuple[ir.Value, int, Order]:
        """The state that goes to ``history``, the argument that this is, and in which order; the state that there was may be in it."""
        inserted, begun = _inserted(made), _inserted(given)
        argument = argument_index(self.kernel, given if begun is None else begun.operands[1])
        order = Order(begun is not None, _offset(inserted, 0) < _offset(inserted, -1))
        if inserted.operands[1] != history or argument is None or any(_offset(inserted, n) != order.place(n, steps) for n in (0, steps - 1)):
            raise NotUnderstood
        source, yielded = inserted.operands[0], list(terminator(self.body).operands)
        if source not in yielded:
            raise NotUnderstood
        first = list(self.loop.operands)[3 + yielded.index(source)]
        if begun is not None and (begun.operands[0] != first or _offset(begun, 0) != order.place(-1, steps)):
            raise NotUnderstood
        return source, argument, order

    def trace(self, step: int) -> tuple[Tracer, list[Expression], tuple[Loop, Loop], ir.Module]:
        """The new states of a step, as expressions of what the function is given and of the states."""
        module = ir.Module.create()
        types = [*self.kernel.type.inputs, *(v.type for v in self.values), *(v.type for v in self.values)]
        with ir.InsertionPoint(module.body):
            function = func.FuncOp("step", (types, [v.type for v in self.values]))
        block = function.add_entry_block()
        known = dict(zip(self.kernel.entry_block.arguments, block.arguments))
        known.update(zip(self.values, list(block.arguments)[self.first:]))
        with ir.InsertionPoint(block):
            for op in self.kernel.entry_block.operations:
                if op.operation.name in ("arith.constant", "tensor.empty", "tensor.expand_shape", "tensor.collapse_shape"):
                    _clone(op.operation, known)
            for op in self.body.operations:
                if op.operation.name not in ("scf.yield", "tensor.insert_slice"):
                    _clone(op.operation, known, step)
            func.ReturnOp([known[v] for v in self.made])
        split_contractions(module)
        run_upstream(module, "func.func(linalg-generalize-named-ops,cse)")
        function = module.body.operations[0]
        shape, tracer = [1, *self.values[0].type.shape][-2:], Tracer(function)

        def element(t: Tracer) -> tuple[list[Expression], tuple[Loop, Loop]]:
            loops = t.loops("row", shape[0]), t.loops("unit", shape[1])
            if any(len(own) > 1 for own in loops):
                raise NotUnderstood
            last = terminator(function.entry_block)
            where = [place_of(own) for own in loops][2 - self.values[0].type.rank:]
            return [t.element(v, where) for v in last.operands], loops

        found = tracer.run(element)
        if found is None:
            raise NotUnderstood
        return tracer, found[0], tuple(own[0] if own else None for own in found[1]), module

    def read(self, steps: int, shape: Sequence[int], initial: list[Access | None], histories: list[History], traced: list) -> Recurrence:
        tracer, results, (row, unit), module = traced[0]
        sums: dict[Expression, int] = {}
        products: set[int] = set()
        weights: list[Access] = []
        strides = self.strides(steps, traced)
        moved: dict[Access, int] = {}

        def change(e: Expression) -> Expression:
            if e.name == CONTRACTION:
                if e not in sums:
                    product, weight = self.factors(e, row, unit, shape)
                    products.add(product)
                    sums[e] = -1 - len(weights)
                    weights.append(weight)
                return tracer.make(READ, e.type, argument=sums[e], strides=tuple(_by_row(row, unit, shape).items()), shape=tuple(shape))
            if e.name == READ:
                if {loop for loop, _ in e.strides} - {row, unit}:
                    raise NotUnderstood
                if e.argument >= self.first and (e.offset != 0 or dict(e.strides) != _by_row(row, unit, shape)):
                    raise NotUnderstood
            elif e.name == INDEX or (e.name != "arith.constant" and not e.name.startswith(("arith.", "math."))):
                raise NotUnderstood
            return e

        results = [tracer.rebuild(r, change) for r in results]
        if len(products) != 1 or unit is None:
            raise NotUnderstood
        map_ = make_map(module, results, {unit: 0} if row is None else {row: 0, unit: 1})
        if row is None:
            map_ = replace(map_, sources=tuple(a and replace(a, strides=(0, *a.strides)) for a in map_.sources))
        for source in map_.sources:
            if source is not None and (key := (source.argument, source.offset)) in strides:
                moved[source] = strides[key]
        return Recurrence(
            steps, shape[0], shape[1], tuple(v.type.element_type for v in self.values), tuple(initial), products.pop(), tuple(weights),
            map_, self.first, moved, tuple(histories), module,
        )

    def factors(self, e: Expression, row: Loop | None, unit: Loop | None, shape: Sequence[int]) -> tuple[int, Access]:
        """Which state a sum has the products of, and where the weights are."""
        if len(e.loops) != 1 or e.loops[0].size != shape[1] or str(e.type) != "f32":
            raise NotUnderstood
        term = e.loops[0]
        plain = [o.operands[0] if o.name == "arith.extf" else o for o in e.operands]
        if any(o.name != READ for o in plain):
            raise NotUnderstood
        for state, weight in (plain, plain[::-1]):
            if state.argument >= self.first and weight.argument < self.first:
                if state.offset != 0 or dict(state.strides) != _by_row(row, term, shape) or {loop for loop, _ in weight.strides} - {unit, term}:
                    raise NotUnderstood
                along = dict(weight.strides)
                return state.argument - self.first, Access(
                    weight.argument, weight.type, (0, along.get(unit, 0), along.get(term, 0)), weight.offset, weight.shape)
        raise NotUnderstood

    def strides(self, steps: int, traced: list) -> dict[tuple[int, int], int]:
        """By argument and offset in the first step, how much further it is read in each step."""
        found: dict[tuple[int, int], int] = {}
        for number, (_, results, _, _) in enumerate(traced[1:], 1):
            step = 1 if number == 1 and steps > 1 else steps - 1
            pairs, seen = list(zip(traced[0][1], results, strict=True)), set()
            while pairs:
                a, b = pairs.pop()
                if (id(a), id(b)) in seen:
                    continue
                seen.add((id(a), id(b)))
                if a.name != b.name or len(a.operands) != len(b.operands) or a.argument != b.argument:
                    raise NotUnderstood
                if a.name == READ:
                    each, rest = divmod(b.offset - a.offset, step)
                    if rest or found.setdefault((a.argument, a.offset), each) != each:
                        raise NotUnderstood
                pairs += zip(a.operands, b.operands)
        if any(n for (argument, _), n in found.items() if argument >= self.first):
            raise NotUnderstood
        return {key: n for key, n in found.items() if n}


def _by_row(row: Loop | None, along: Loop | None, shape: Sequence[int]) -> dict[Loop, int]:
    return {loop: step for loop, step in ((row, shape[1]), (along, 1)) if loop is not None}


def _inserted(value: ir.Value) -> ir.Operation | None:
    op = owner(value)
    return op if op is not None and op.name == "tensor.insert_slice" else None


def _offset(op: ir.Operation, step: int) -> int:
    """Where a slice begins in the first dimension in a step; in the others at 0."""
    first, *others = ir.DenseI64ArrayAttr(op.attributes["static_offsets"])
    if first == ir.ShapedType.get_dynamic_size():
        first = _evaluate(next(v for v in op.operands if isinstance(v.type, ir.IndexType)), step)
    if first is None or any(others):
        raise NotUnderstood
    return first


def _clone(op: ir.Operation, known: dict[ir.Value, ir.Value], step: int | None = None) -> None:
    """Clone an operation; numbers that are computed of the step's become constants, and slices begin at these."""
    if step is not None and op.results and all(isinstance(r.type, ir.IndexType) for r in op.results):
        if op.name == "arith.constant":
            known[op.results[0]] = op.clone().results[0]
        return  # of others only slices know, which evaluate them
    if op.name == "tensor.extract_slice" and len(op.operands) > 1:
        given = [_evaluate(v, step) for v in list(op.operands)[1:]]
        parts = [list(ir.DenseI64ArrayAttr(op.attributes[f"static_{name}"])) for name in ("offsets", "sizes", "strides")]
        if None in given or any(ir.ShapedType.get_dynamic_size() in p for p in parts[1:]):
            raise NotUnderstood
        offsets = [given.pop(0) if o == ir.ShapedType.get_dynamic_size() else o for o in parts[0]]
        source = known[op.operands[0]]
        known[op.results[0]] = tensor.ExtractSliceOp(op.results[0].type, source, [], [], [], offsets, parts[1], parts[2]).result
        return
    clone = op.clone()
    for i, v in enumerate(op.operands):
        if v in known:
            clone.operands[i] = known[v]
    inner = {v for o in walk(op) for v in o.operands if v in known}
    if len(op.regions) and inner:
        def visit(o: ir.Operation) -> ir.WalkResult:
            for v in inner:
                o.replace_uses_of_with(v, known[v])
            return ir.WalkResult.ADVANCE

        clone.walk(visit)
    known.update(zip(op.results, clone.results))


def _evaluate(value: ir.Value, step: int) -> int | None:
    """A number that is computed of the step's."""
    op = owner(value)
    if op is None:
        return step
    if op.name == "arith.constant":
        return constant_number(value)
    if op.name not in _NUMBERS:
        return None
    a, b = (_evaluate(v, step) for v in op.operands)
    return None if a is None or b is None else _NUMBERS[op.name](a, b)


_NUMBERS = {"arith.addi": add, "arith.subi": sub, "arith.muli": mul}
