"""A kernel that is a contraction as parts: the elementwise maps of its operands, the sums, and the map of what comes of them.

For those whose sums a library computes: each map is a kernel of its own.  Where it can, the sums are in the kernel's destination, and the last
map goes over it in place.
"""

from dataclasses import dataclass

from inferno.dialect.sizes import SIZES, sizes_attribute, symbol_attributes
from inferno.mlir import arith, clone_onto, func, ir, linalg, owner, walk
from inferno.passes.generics import input_count, is_reduction, maps
from inferno.passes.programs import root_of
from inferno.passes.shapes import shape, symbol_arguments
from inferno.schedule.analysis.accesses import Access, access, placed
from inferno.schedule.matmul.contraction import Contraction, Map
from inferno.symbolic import Int


@dataclass(frozen=True, eq=False)
class Temporary:
    """A buffer that lives while the kernel runs."""

    shape: tuple[Int, ...]
    element: ir.Type


@dataclass(frozen=True)
class Part:
    """An elementwise map as a kernel of its own, and the outer buffer for each of its arguments: a number of the kernel's
    arguments, or a temporary."""

    module: ir.Module
    kernel: func.FuncOp
    buffers: tuple[int | Temporary, ...]


class ContractionParts:
    """The parts of one contraction kernel: maps ``before`` and ``after``, ``operands`` (lhs and rhs) and ``result``, each a buffer and how the
    contraction walks over it."""

    def __init__(self, c: Contraction) -> None:
        self._c = c
        self._function = c.module.body.operations[0]
        self._arguments = list(self._function.entry_block.arguments)
        self._symbols = symbol_arguments(self._function.operation)
        self._op = next(o for o in walk(self._function, "linalg.generic") if is_reduction(o))
        self.before: list[Part] = []
        self.after: list[Part] = []
        self.operands = [self._operand(number) for number in range(2)]
        if c.lhs.access is not None and c.rhs.access is not None:
            swapped = self.operands[0][1] != c.lhs.access
        else:
            mine = c.lhs.prologue if c.lhs.prologue is not None else c.rhs.prologue
            first = owner(self._op.operands[0])
            swapped = (first is not None and first == mine.generic) != (c.lhs.prologue is not None)
        if swapped:
            self.operands.reverse()
        self.result = self._place_result()

    def _operand(self, number: int) -> tuple[int | Temporary, Access]:
        """The buffer of a factor, computed first where it has to be, and how the contraction walks over it."""
        value, map_ = self._op.operands[number], maps(self._op)[number]
        if (found := placed(self._function, value, map_)) is not None:
            return found.argument, found
        temporary = Temporary(shape(value), value.type.element_type)
        generic = owner(value)
        self.before.append(self._part(generic, {}, [temporary]))
        return temporary, access(value, map_, -1)

    def _place_result(self) -> tuple[int | Temporary, Access]:
        """Where the contraction's result goes; with an epilogue, the part that goes over it comes after."""
        total, epilogue = self._op.results[0], self._c.epilogue
        element = self.sum_type()
        if epilogue is None:
            argument = self._c.destinations[0].access.argument
            return argument, access(total, maps(self._op)[-1], argument)
        destinations: list[int | Temporary] = self._destinations(epilogue)
        returned = next((d.access.argument for d in self._c.destinations if d.source is None), None)
        if returned is not None:
            self.after.append(self._part(epilogue.generic, {"read": returned}, destinations))
            return returned, access(total, maps(self._op)[-1], returned)
        place = self._in_place(epilogue, element, destinations)
        if place is None:
            temporary = Temporary(shape(total), element)
            self.after.append(self._part(epilogue.generic, {"read": temporary}, destinations))
            return temporary, access(total, maps(self._op)[-1], -1)
        self.after.append(self._part(epilogue.generic, {"in place": place}, destinations))
        return destinations[place], access(total, maps(self._op)[-1], -1)

    def sum_type(self) -> ir.Type:
        """The type that the library multiplies in and rounds sums to: the factors', where all results are rounded to it anyway."""
        factor = ir.RankedTensorType(self._op.operands[0].type).element_type
        results = [t.element_type for t in self._function.type.results]
        return factor if all(t == factor for t in results) else self._c.accumulator

    def _destinations(self, epilogue: Map) -> list[int | Temporary]:
        """The buffer of each of the epilogue's results; one that is not returned has a temporary."""
        found = {d.source: d.access.argument for d in self._c.destinations}
        results = list(epilogue.generic.results)
        return [found[i] if i in found else Temporary(shape(r), r.type.element_type) for i, r in enumerate(results)]

    def _in_place(self, epilogue: Map, element: ir.Type, destinations: list) -> int | None:
        """The result of the epilogue that can take the contraction's: it has its shape and type, and element for element."""
        generic, total = epilogue.generic, self._op.results[0]
        every = maps(generic)
        reads = {every[i] for i in epilogue.accumulators}
        if len(reads) != 1:
            return None
        for i, result in enumerate(generic.results):
            out = every[len(every) - len(generic.results) + i]
            if out in reads and shape(result) == shape(total) and result.type.element_type == element:
                return i if isinstance(destinations[i], int) else None
        return None

    def _part(self, generic: ir.Operation, accumulator: dict, destinations: list) -> Part:
        """``generic`` as a kernel function: its inputs, then its destinations."""
        total = self._op.results[0]
        count = input_count(generic)
        inputs: list[tuple[ir.Value | None, int | Temporary]] = []
        for value in list(generic.operands)[:count]:
            if value == total:
                if "read" in accumulator and accumulator["read"] not in [b for _, b in inputs]:
                    inputs.append((value, accumulator["read"]))
            elif isinstance(tensor := _read(value), ir.BlockArgument) and tensor not in [v for v, _ in inputs]:
                inputs.append((tensor, tensor.arg_number))
        element = self.sum_type()
        types = [ir.RankedTensorType.get(list(v.type.shape), element) if v == total else v.type for v, _ in inputs]
        results, first = [r.type for r in generic.results], len(self._symbols)
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            function = func.FuncOp("part", ([*[ir.IndexType.get()] * first, *types, *results], results), visibility="private")
        if self._symbols:
            self._describe(function, [*(v for v, _ in inputs), *generic.results])
        block = function.add_entry_block()
        known = dict(zip((v for v, _ in inputs), list(block.arguments)[first:]))
        known.update(zip(self._symbols.values(), block.arguments))
        outs = list(block.arguments)[first + len(inputs):]
        with ir.InsertionPoint(block):
            new = self._rebuilt(generic, known, outs, accumulator.get("in place"))
            func.ReturnOp(list(new.results))
        sizes = [v.arg_number for v in self._symbols.values()]
        return Part(module, function, (*sizes, *(b for _, b in inputs), *destinations))

    def _describe(self, function: func.FuncOp, tensors: list[ir.Value]) -> None:
        """Say what the part's sizes are: those of the kernel."""
        symbols = list(self._symbols)
        entries = [symbol_attributes(s) for s in symbols]
        entries += [{SIZES: sizes_attribute(shape(v), symbols)} for v in tensors]
        function.attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(e) for e in entries])

    def _rebuilt(self, generic: ir.Operation, known: dict, outs: list[ir.Value], in_place: int | None) -> ir.Operation:
        """A copy of ``generic`` on other tensors.  The contraction's result may be narrower than the body takes it, or be in
        destination ``in_place``."""
        total, count = self._op.results[0], input_count(generic)
        every, old = maps(generic), generic.regions[0].blocks[0]
        kept = [i for i in range(count) if not (in_place is not None and generic.operands[i] == total)]
        operands = [known[v] if v in known else self._clone(v, known) for v in (generic.operands[i] for i in kept)]
        indexing = [every[i] for i in (*kept, *range(count, len(every)))]
        new = linalg.GenericOp(
            [o.type for o in outs], operands, outs, ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in indexing]), generic.attributes["iterator_types"],
        )
        types = [v.type.element_type for v in (*operands, *outs)]
        body = new.regions[0].blocks.append(*types, arg_locs=[ir.Location.unknown()] * len(types))
        with ir.InsertionPoint(body):
            values: dict[ir.Value, ir.Value] = {}
            for i, argument in zip((*kept, *range(count, len(every))), body.arguments):
                values[old.arguments[i]] = self._widened(argument, old.arguments[i].type)
            for i in set(range(count)) - set(kept):
                values[old.arguments[i]] = self._widened(body.arguments[len(kept) + in_place], old.arguments[i].type)
            for op in old.operations:
                clone_onto(op.operation, values)
        return new.operation

    def _widened(self, value: ir.Value, type_: ir.Type) -> ir.Value:
        if value.type == type_:
            return value
        return arith.extsi(type_, value) if isinstance(type_, ir.IntegerType) else arith.extf(type_, value)

    def _clone(self, value: ir.Value, known: dict) -> ir.Value:
        """A filled or empty tensor, or a part of one that is known, made anew."""
        if isinstance(value, ir.BlockArgument):
            return known[value]
        op = owner(value)
        operands = [self._clone(v, known) for v in op.operands]
        new = op.clone()
        for i, v in enumerate(operands):
            new.operands[i] = v
        return new.results[0]


def _read(value: ir.Value) -> ir.Value:
    """The tensor that a value is, maybe in another shape, or a part of."""
    value = root_of(value)
    while (op := owner(value)) is not None and op.name == "tensor.extract_slice":
        value = root_of(op.operands[0])
    return value
