"""What a kernel computes that is a contraction followed by operations on the rows of its result: maps, and reductions of whole rows.

``parse_rows`` reads a kernel function that holds a contraction, in fused or split form, and after it structured operations each of which
goes over the result's points, or over its rows alone.  Rows are all of the result's dimensions but those of the contraction's n.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from math import prod

from inferno.passes.programs import VIEWS, root_of
from inferno.mlir import arith, func, ir, owner, walk
from inferno.schedule.accesses import (
    Access, access, argument_index, destination_index, filled, iterators, knows_arguments, loop_sizes, maps, merge, outputs,
    sink_constants,
)
from inferno.schedule.combiners import Combiner, read_combiner, to_term
from inferno.schedule.contraction import Contraction, Destination, Group, parse_contraction



@dataclass(frozen=True)
class RowValue:
    """What the operations exchange: an element for each of the result's points or, with ``per_row``, for each row."""

    element: ir.Type
    per_row: bool


@dataclass(frozen=True)
class RowStep:
    """A structured operation.  ``sources``, by argument of its block: the number of a value, where to read it, or None for what its body does
    not use.  ``results`` are numbers of values, None for those that nothing uses.

    With ``combiners``, one a result, it is a reduction of rows whose body yields terms, and ``starts`` are what results begin with.
    ``indices``: the contraction's loop behind each of its own, for ``linalg.index``; None for one of one iteration, or that is not read.
    ``phase``: how many reductions lie in front of it, one behind the other.
    """

    generic: ir.Operation
    sources: tuple[Access | int | None, ...]
    results: tuple[int | None, ...]
    combiners: tuple[Combiner | None, ...]
    starts: tuple[ir.Attribute | None, ...]
    indices: tuple[int | None, ...]
    per_row: bool
    phase: int

    @property
    def block(self) -> ir.Block:
        return self.generic.regions[0].blocks[0]

    @property
    def reduces(self) -> bool:
        return any(c is not None for c in self.combiners)

    @property
    def extras(self) -> tuple[Access, ...]:
        """The tensors that it reads."""
        return tuple(s for s in self.sources if isinstance(s, Access))


@dataclass(frozen=True)
class RowContraction(Contraction):
    """A contraction whose value 0 is result ``head`` of its epilogue (None: the sum), rounded to its element type.  The steps
    compute the others, and a destination's ``source`` is the number of a value."""

    head: int | None
    values: tuple[RowValue, ...]
    steps: tuple[RowStep, ...]
    kernel: ir.Module = field(repr=False)  # a copy of all of it, which the steps' operations are in

    @property
    def extras(self) -> tuple[Access, ...]:
        return tuple(dict.fromkeys([*super().extras, *(a for s in self.steps for a in s.extras)]))

    @property
    def head_extras(self) -> tuple[Access, ...]:
        """Those of the contraction's own epilogue."""
        return super().extras

    @property
    def reduces(self) -> bool:
        return any(s.reduces for s in self.steps)

    @property
    def phases(self) -> int:
        return max(s.phase for s in self.steps) + 1

    def computed(self, value: int) -> int:
        """The phase in which a value becomes known."""
        step = next((s for s in self.steps if value in s.results), None)
        return 0 if step is None else step.phase + step.reduces

    def held_bits(self) -> int:
        """Bits a point that lie in registers from one phase to the next, where they are most."""
        last = [max((s.phase for s in self.steps if v in s.sources), default=0) for v in range(len(self.values))]
        return max(
            (sum(v.element.width for i, v in enumerate(self.values) if not v.per_row and self.computed(i) < p <= last[i])
             for p in range(1, self.phases)), default=0,
        )


def parse_rows(kernel: func.FuncOp) -> RowContraction | None:
    """What ``kernel`` computes, or None if it is anything else or has sizes that vary."""
    if not knows_arguments(kernel) or any(not a.type.has_static_shape for a in kernel.entry_block.arguments if isinstance(a.type, ir.ShapedType)):
        return None
    if any(isinstance(a.type, ir.IndexType) for a in kernel.entry_block.arguments):
        return None
    with kernel.context, kernel.location:
        module = ir.Module.create()
        module.body.append(kernel.operation.clone(ip=False))
        return _Parser(module).parse()


class _Parser:
    """One try: ``parse`` and the methods that it is made of return None for what is not understood."""

    def __init__(self, module: ir.Module) -> None:
        self.module, self.kernel = module, module.body.operations[0]
        self.operations = [o.operation for o in self.kernel.entry_block.operations]
        self.known: dict[ir.Value, int] = {}
        self.values: list[RowValue] = []
        self.ready: list[int] = []  # the phase in which each value becomes known

    def parse(self) -> RowContraction | None:
        structured = [o for o in self.operations if o.name == "linalg.generic" and filled(o.results[0]) is None]
        others = ("linalg.generic", "linalg.fill", "arith.constant", "tensor.empty", "func.return", *VIEWS)
        if len(structured) < 2 or any(o.name not in others for o in self.operations) or "reduction" not in iterators(structured[0]):
            return None
        c, head = self.contraction(structured[0])
        if c is None or not self.shape(c):
            return None
        self.add(head, False, 0)
        steps = []
        for generic in structured[1:]:
            step = self.step(generic)
            if step is None:
                return None
            steps.append(step)
        destinations = self.destinations()
        return self.whole(c, tuple(steps), destinations) if destinations else None

    # The contraction.

    def contraction(self, generic: ir.Operation) -> tuple[Contraction | None, ir.Value | None]:
        """The contraction on its own, with its result in a further argument; and the result."""
        used = [r for r in generic.results if any(True for _ in r.uses)]
        if len(used) != 1:
            return None, None
        head, needed = used[0], [generic]
        for op in reversed(self.operations[: self.operations.index(generic)]):
            if any(r in o.operands for r in op.results for n in needed for o in walk(n)):
                needed.insert(0, op)
        into = outputs(generic)[ir.OpResult(head).result_number]
        while (start := owner(into)) is not None and start.name == "linalg.fill":
            into = outputs(start)[0]
        arguments = list(self.kernel.entry_block.arguments)
        alone = ir.Module.create()
        with ir.InsertionPoint(alone.body):
            function = func.FuncOp("head", ([*(a.type for a in arguments), head.type], [head.type]), visibility="private")
        for name in self.kernel.attributes:
            if name not in ("sym_name", "function_type", "sym_visibility", "arg_attrs"):
                function.attributes[name] = self.kernel.attributes[name]
        if "arg_attrs" in self.kernel.attributes:
            function.attributes["arg_attrs"] = ir.ArrayAttr.get([*self.kernel.attributes["arg_attrs"], ir.DictAttr.get({})])
        block = function.add_entry_block()
        known = dict(zip(arguments, block.arguments))
        with ir.InsertionPoint(block):
            for op in needed:
                clone = op.clone()
                for inner in walk(clone):
                    for i, value in enumerate(inner.operands):
                        # Its destination, but not the tensor of the same kind that the sum is in.
                        if value == into and op.name in ("linalg.fill", "linalg.generic") and self.leads(op, i, generic, head):
                            inner.operands[i] = block.arguments[len(arguments)]
                        elif value in known:
                            inner.operands[i] = known[value]
                known.update(zip(op.results, clone.results))
            func.ReturnOp([known[head]])
        return parse_contraction(function), head

    @staticmethod
    def leads(op: ir.Operation, operand: int, generic: ir.Operation, head: ir.Value) -> bool:
        """Whether an operand is where ``head`` is computed into."""
        if op == generic:
            return operand == len(op.operands) - len(op.results) + ir.OpResult(head).result_number
        into = outputs(generic)[ir.OpResult(head).result_number]
        return op.results[0] == into and operand == len(op.operands) - 1

    def shape(self, c: Contraction) -> bool:
        """Take the loops of rows and columns, outermost first; False where the result is not laid out by them."""
        into = c.destinations[0].access
        if not c.n.flat or c.n.size < 2 or c.n.stride(into) != 1 or into.offset != 0 or any(not isinstance(s, int) for s in c.sizes):
            return False
        rows = sorted((*c.batch.dims, *c.m.dims), key=lambda d: -into.strides[d])
        self.c, self.rows, self.columns = c, rows, list(c.n.dims)
        loops = [*rows, *self.columns]
        sizes = [c.sizes[d] for d in loops]
        self.count, self.width = prod(c.sizes[d] for d in rows), c.n.size
        dense = [prod(sizes[i + 1:]) for i in range(len(sizes))]
        return [into.strides[d] for d in loops] == dense and prod(sizes) == prod(into.shape)

    # The steps.

    def add(self, value: ir.Value, per_row: bool, ready: int) -> int:
        self.known[value] = len(self.values)
        self.values.append(RowValue(value.type.element_type, per_row))
        self.ready.append(ready)
        return len(self.values) - 1

    def find(self, value: ir.Value) -> int | None:
        """The number of the value that this is, maybe in another shape."""
        while value not in self.known and (op := owner(value)) is not None and op.name in VIEWS:
            value = op.operands[0]
        return self.known.get(value)

    def step(self, generic: ir.Operation) -> RowStep | None:
        kinds, sizes, every = iterators(generic), loop_sizes(generic), maps(generic)
        count = len(generic.operands) - len(generic.results)
        if sizes is None or any(not isinstance(s, int) for s in sizes) or not sink_constants(generic):
            return None
        live = [any(True for _ in r.uses) for r in generic.results]
        reduces = "reduction" in [k for k, s in zip(kinds, sizes) if s != 1]
        _forget(generic, live)
        numbers = [self.find(v) for v in generic.operands][:count]
        if reduces:
            full = [m for v, m, n in zip(generic.operands, every, numbers) if n is not None and not self.values[n].per_row]
            order = _order(full[0], sizes) if full else None
        else:
            order = _order(every[count], sizes)
        if order is None or sorted(order) != [d for d, s in enumerate(sizes) if s != 1] or not any(live):
            return None
        points = prod(sizes)
        per_row = points == self.count and not reduces
        if not per_row and points != self.count * self.width:
            return None
        cut = _cut(order, sizes, self.count)  # the loops of rows
        if cut is None or any((kinds[d] == "reduction") != (reduces and i >= cut) for i, d in enumerate(order)):
            return None
        row_order, indices = order[:cut], self.indices(generic, order, sizes, per_row)
        if indices is None:
            return None
        sources: list[Access | int | None] = []
        for i, (value, map_, number) in enumerate(zip(generic.operands, every, numbers)):
            argument = generic.regions[0].blocks[0].arguments[i]
            if not any(True for _ in argument.uses):
                sources.append(None)
            elif number is not None:
                if _order(map_, sizes) != (row_order if self.values[number].per_row else order):
                    return None
                sources.append(number)
            elif (constant := filled(value)) is not None:
                with ir.InsertionPoint.at_block_begin(argument.owner):
                    argument.replace_all_uses_with(arith.constant(constant.type, constant))
                sources.append(None)
            else:
                found = self.extra(value, map_, order, sizes, per_row)
                if found is None:
                    return None
                sources.append(found)
        results = range(len(generic.results))
        if any(_order(every[count + i], sizes) != (row_order if reduces else order) for i in results if live[i]):
            return None
        body = generic.regions[0].blocks[0]
        combiners: list[Combiner | None] = [None] * len(live)
        starts: list[ir.Attribute | None] = [None] * len(live)
        if reduces:
            for i in results:
                if live[i]:
                    combiners[i], starts[i] = read_combiner(body, body.arguments[count + i], i), filled(outputs(generic)[i])
                    if combiners[i] is None or starts[i] is None:
                        return None
            for i in results:
                if live[i]:
                    to_term(body, body.arguments[count + i], i)
        end = body.operations[len(body.operations) - 1].operation
        if any(any(u.owner != end for u in body.arguments[count + i].uses) for i in results):
            return None  # a body that reads what was there before
        phase = max((self.ready[n] for n in sources if isinstance(n, int)), default=0)
        made = tuple(self.add(r, per_row or reduces, phase + reduces) if live[i] else None for i, r in enumerate(generic.results))
        return RowStep(generic, tuple(sources), made, tuple(combiners), tuple(starts), indices, per_row, phase)

    def indices(self, generic: ir.Operation, order: list[int], sizes: Sequence[int], per_row: bool) -> tuple[int | None, ...] | None:
        """The contraction's loops behind those that the body reads the numbers of; None where there is one without."""
        read = {ir.IntegerAttr(o.attributes["dim"]).value for o in walk(generic, "linalg.index")}
        loops = [*self.rows, *self.columns]
        known = {(p, size): d for d, (p, size, _) in zip(loops, _inner([(self.c.sizes[d], 0) for d in loops]))}
        own = {d: known.get((p, size)) for d, (p, size, _) in zip(order, _inner([(sizes[d], 0) for d in order]))}
        if any(sizes[d] != 1 and (per_row or own[d] is None) for d in read):
            return None
        return tuple(own.get(d) if d in read else None for d in range(len(sizes)))

    def extra(self, value: ir.Value, map_: ir.AffineMap, order: list[int], sizes: Sequence[int], per_row: bool) -> Access | None:
        """Where a kernel argument is read, by the contraction's loops."""
        argument = argument_index(self.kernel, root_of(value))
        found = access(value, map_, argument) if argument is not None else None
        if found is None:
            return None
        loops = self.rows if per_row else [*self.rows, *self.columns]
        steps = regroup([(sizes[d], found.strides[d]) for d in order], [self.c.sizes[d] for d in loops])
        if steps is None:
            return None
        strides = [0] * len(self.c.sizes)
        for d, s in zip(loops, steps):
            strides[d] = s
        return Access(found.argument, found.element, tuple(strides), found.offset, found.shape)

    # The whole.

    def destinations(self) -> tuple[Destination, ...]:
        returned, arguments = list(self.operations[-1].operands), len(self.kernel.type.inputs)
        into, found = self.c.destinations[0].access, []
        for i, value in enumerate(returned):
            argument, number = arguments - len(returned) + i, self.known.get(value)
            if number is None or destination_index(self.kernel, value) != argument:
                return ()
            strides = list(into.strides)
            if self.values[number].per_row:
                strides = [0 if d in self.columns else s // self.width for d, s in enumerate(strides)]
            found.append(Destination(number, Access(argument, value.type.element_type, tuple(strides), 0, tuple(value.type.shape))))
        return tuple(found)

    def whole(self, c: Contraction, steps: tuple[RowStep, ...], destinations: tuple[Destination, ...]) -> RowContraction:
        extras = [a for s in steps for a in s.extras]
        every = [*c.lhs.reads, *c.rhs.reads, *c.extras, *extras, *(d.access for d in destinations)]

        def group(g: Group) -> Group:
            return Group(g.dims, g.sizes, tuple(tuple(r) for r in merge(g.dims, c.sizes, every)))

        own = {f.name: getattr(c, f.name) for f in fields(c)}
        own.update({name: group(own[name]) for name in ("batch", "m", "n", "k")}, destinations=destinations)
        return RowContraction(**own, head=c.destinations[0].source, values=tuple(self.values), steps=steps, kernel=self.module)


def _order(map_: ir.AffineMap, sizes: Sequence[int]) -> list[int] | None:
    """The loops behind a tensor's dimensions, without those of one iteration."""
    found = []
    for expr in map_.results:
        if isinstance(expr, ir.AffineConstantExpr) and ir.AffineConstantExpr(expr).value == 0:
            continue
        if not isinstance(expr, ir.AffineDimExpr):
            return None
        found.append(ir.AffineDimExpr(expr).position)
    found = [d for d in found if sizes[d] != 1]
    return found if len(set(found)) == len(found) else None


def _cut(order: Sequence[int], sizes: Sequence[int], count: int) -> int | None:
    """How many of the first loops have so many points together."""
    points, cut = 1, 0
    while points < count and cut < len(order):
        points *= sizes[order[cut]]
        cut += 1
    return cut if points == count else None


def _forget(generic: ir.Operation, live: Sequence[bool]) -> None:
    """Let the body not compute results that nothing uses."""
    body, count = generic.regions[0].blocks[0], len(generic.operands) - len(generic.results)
    end = body.operations[len(body.operations) - 1].operation
    for i, used in enumerate(live):
        if not used:
            end.operands[i] = body.arguments[count + i]
    for op in reversed([o.operation for o in body.operations]):
        if len(op.results) and not any(any(True for _ in r.uses) for r in op.results):
            op.erase()


def regroup(loops: Sequence[tuple[int, int]], sizes: Sequence[int]) -> list[int] | None:
    """The strides of a nest with these ``sizes`` that walks like ``loops``, (size, stride) each, outermost first, over as many points; None
    where there are none."""
    given, wanted = _inner(loops), _inner([(s, 0) for s in sizes])
    ends = sorted({p for p, _, _ in (*given, *wanted)} | {prod(sizes)})
    if prod(s for s, _ in loops) != prod(sizes) or any(b % a for a, b in zip(ends, ends[1:])):
        return None
    found = [0] * len(sizes)
    for begin in ends[:-1]:
        stride = next(x * (begin // p) for p, s, x in given if p <= begin < p * s)
        i = next(i for i, (p, s, _) in enumerate(wanted) if p <= begin < p * s)
        inner = wanted[i][0]
        if begin == inner:
            found[i] = stride
        elif stride != found[i] * (begin // inner):
            return None
    return found


def _inner(loops: Sequence[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """(points inside, size, stride) of each loop."""
    return [(prod(s for s, _ in loops[i + 1:]), size, stride) for i, (size, stride) in enumerate(loops)]
