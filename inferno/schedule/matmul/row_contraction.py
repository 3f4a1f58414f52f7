"""What a kernel computes that is a contraction followed by operations on the rows of its result: maps, and reductions of whole rows.

``parse_rows`` reads a kernel function that holds a contraction, in fused or split form, and after it structured operations each of which
goes over the result's points, or over its rows alone.  Rows are all of the result's dimensions but those of the contraction's n.
"""

from dataclasses import dataclass, field, fields
from math import prod

from inferno.mlir import destination_of, func, ir, is_read, owner, walk
from inferno.passes.generics import is_reduction, outputs
from inferno.passes.programs import VIEWS
from inferno.passes.shapes import symbol_arguments
from inferno.schedule.analysis.accesses import Access, filled, merge, written_results
from inferno.schedule.analysis.varying_rows import read_varying
from inferno.schedule.matmul.contraction import Contraction, Destination, Group
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.rows.row_steps import RowStep, RowValue, StepParser


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

    def wide(self, access: Access) -> bool:
        """Whether an access differs between the points of a row."""
        return any(access.strides[d] for d in self.n.dims)

    def maker(self, value: int) -> RowStep:
        """The step that computes a value."""
        return next(s for s in self.steps if value in s.results)

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
    """What ``kernel`` computes, or None if it is anything else or has other sizes that vary than one, as often as it is in the rows."""
    return read_varying(kernel, _Parser.read) if symbol_arguments(kernel.operation) else _Parser.read(kernel)


class _Parser(StepParser):
    """One try: ``parse`` and the methods that it is made of return None for what is not understood."""

    def parse(self) -> RowContraction | None:
        structured = [o for o in self.operations if o.name == "linalg.generic" and filled(o.results[0]) is None]
        others = ("linalg.generic", "linalg.fill", "arith.constant", "tensor.empty", "tensor.extract_slice", "func.return", *VIEWS)
        if len(structured) < 2 or any(o.name not in others for o in self.operations) or not is_reduction(structured[0]):
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
        used = [r for r in generic.results if is_read(r)]
        if len(used) != 1:
            return None, None
        head, needed = used[0], [generic]
        for op in reversed(self.operations[: self.operations.index(generic)]):
            if any(r in o.operands for r in op.results for n in needed for o in walk(n)):
                needed.insert(0, op)
        into = destination_of(head)
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
        into = destination_of(head)
        return op.results[0] == into and operand == len(op.operands) - 1

    def shape(self, c: Contraction) -> bool:
        """Take the loops of rows and columns, outermost first; False where the result is not laid out by them."""
        into = c.destinations[0].access
        if not c.n.flat or c.n.size < 2 or c.n.stride(into) != 1 or into.offset != 0 or any(not isinstance(s, int) for s in c.sizes):
            return False
        rows = sorted((*c.batch.dims, *c.m.dims), key=lambda d: -into.strides[d])
        self.c, self.sizes, self.rows, self.columns = c, c.sizes, rows, list(c.n.dims)
        self.loops = [*rows, *self.columns]
        loops = [*rows, *self.columns]
        sizes = [c.sizes[d] for d in loops]
        self.count, self.width = prod(c.sizes[d] for d in rows), c.n.size
        dense = [prod(sizes[i + 1:]) for i in range(len(sizes))]
        return [into.strides[d] for d in loops] == dense and prod(sizes) == prod(into.shape)

    # The whole.

    def destinations(self) -> tuple[Destination, ...]:
        into, found = self.c.destinations[0].access, []
        for value, argument in written_results(self.kernel) or ():
            number = self.known.get(value)
            if number is None:
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
