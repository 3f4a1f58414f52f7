"""Reads a kernel as a contraction.

``parse_contraction`` reads a kernel function in split form - [elementwise maps of the operands] -> multiply-add -> [elementwise map of the result] - or in the
fused form, which it splits on a copy.
"""

from collections.abc import Sequence
from dataclasses import replace

from inferno.mlir import arith, func, ir, is_read, isolated_copy, outside_values, run_upstream, walk
from inferno.passes.affine import Linear, linear, loop_alone
from inferno.passes.programs import VIEWS, root_of, takes_tf32
from inferno.passes.shapes import symbol_arguments
from inferno.passes.split_contractions import split_contractions
from inferno.passes.widen_sums import widen_every_sum
from inferno.passes.generics import PARALLEL, REDUCTION, is_reduction, kinds, maps, outputs
from inferno.schedule.analysis.accesses import (
    Access, access, compose, filled, is_of_sizes, knows_arguments, loop_sizes, merge, placed, sink_constants, written_results,
)
from inferno.schedule.analysis.unchanged import asked_once, read_by_text
from inferno.schedule.convolution.unfolded import unfold
from inferno.schedule.matmul.contraction import Contraction, Destination, Group, Map, Operand
from inferno.symbolic import bounds, hint, symbols_of

_OTHERS = ("linalg.fill", "linalg.generic", "arith.constant", "tensor.empty", "tensor.extract_slice", "func.return")
_WIDEN = ("arith.extf", "arith.extsi", "arith.extui")
_MULTIPLY_ADD = {"arith.addf": "arith.mulf", "arith.addi": "arith.muli"}


def parse_contraction(kernel: func.FuncOp, unfolded: bool = False, narrow: bool = False) -> Contraction | None:
    """The contraction that ``kernel`` is, or None if it is anything else, has empty dimensions, a sum that may be empty, or reads by a
    map that is not linear.  With ``unfolded`` an operand may be an image that is read through windows, which may be padded; with ``narrow`` products
    of 16 bits may be added in their own type, which is as good as in float32."""
    found = _parse(kernel, 1, unfolded, narrow)
    return None if found is None else found[0]


def parse_both(kernel: func.FuncOp) -> tuple[Contraction, Contraction] | None:
    """The two contractions of a kernel that has no other ones and one elementwise operation that reads both, their epilogue; None if it is
    anything else.  Each has the whole epilogue and all destinations; whether loops and operands agree the caller has to look at."""
    return _parse(kernel, 2)


def _may_be(kernel: func.FuncOp, count: int) -> bool:
    """Whether so many of the kernel's operations reduce, as far as that is told without taking anything apart."""
    others = [o for o in kernel.entry_block.operations if o.name.startswith("linalg.")]
    generics = [o for o in others if o.name == "linalg.generic"]
    reductions = sum(is_reduction(o.operation) for o in generics)
    return reductions <= count <= reductions + sum(o.name not in ("linalg.generic", "linalg.fill", "linalg.yield") for o in others)


@asked_once
def _parse(kernel: func.FuncOp, count: int, unfolded: bool = False, narrow: bool = False) -> tuple[Contraction, ...] | None:
    """The ``count`` contractions that a kernel consists of; None if they are not so many, or there is anything else."""
    return _read(kernel, count, unfolded, narrow) if knows_arguments(kernel) and _may_be(kernel, count) else None


@read_by_text
def _read(kernel: func.FuncOp, count: int, unfolded: bool, narrow: bool) -> tuple[Contraction, ...] | None:
    """The same, of a copy."""
    with kernel.context, kernel.location:
        module = isolated_copy(kernel)
        split_contractions(module)
        rounds = widen_every_sum(module) if narrow else None
        found = parse_split(module, count, unfolded)
        return found if found is None or rounds is None else tuple(replace(c, rounds=rounds) for c in found)


def parse_split(module: ir.Module, count: int, unfolded: bool = False) -> tuple[Contraction, ...] | None:
    """As ``parse_both``, on a module of its own with one kernel, whose contractions are split already; it is changed."""
    if any(op.name.startswith("linalg.") and op.name not in ("linalg.generic", "linalg.fill", "linalg.yield", "linalg.index")
           and len(op.regions) and op.parent.name == "func.func" for op in walk(module)):
        run_upstream(module, "func.func(linalg-generalize-named-ops)")
    kernel = module.body.operations[0]
    generics = []
    for op in kernel.entry_block.operations:
        op = op.operation
        if op.name == "linalg.generic" and filled(op.results[0]) is None:
            if not sink_constants(op, sizes=not unfolded):
                return None
            generics.append(op)
        elif len(op.results) == 1 and is_of_sizes(op.results[0]):
            continue
        elif op.name not in (*_OTHERS, *VIEWS, "tensor.pad" if unfolded else ""):
            return None
    contractions = [op for op in generics if is_reduction(op)]
    if len(contractions) != count:
        return None
    found = [_Parser(kernel, generics, op, [o for o in contractions if o != op], unfolded).parse(module) for op in contractions]
    return None if None in found else tuple(found)


class _Parser:
    """One try: ``parse`` and the methods that it is made of return None for what is not a contraction, maybe next to ``others``."""

    def __init__(
        self, kernel: func.FuncOp, generics: Sequence[ir.Operation], contraction: ir.Operation, others: Sequence[ir.Operation], unfolded: bool,
    ) -> None:
        self.kernel, self.generics, self.op, self.unfolded = kernel, generics, contraction, unfolded
        self.dims = len(kinds(contraction))
        self.used, self.sums = [contraction, *others], [o.results[0] for o in (contraction, *others)]

    def parse(self, module: ir.Module) -> Contraction | None:
        self.sizes = loop_sizes(self.op)
        body = multiply_add(self.op)
        initial = filled(outputs(self.op)[0]) if len(self.op.results) == 1 else None
        if self.sizes is None or body is None or initial is None or initial.value != 0 or str(initial).startswith("-"):
            return None
        if any(bounds(s)[0] < 1 for s, kind in zip(self.sizes, kinds(self.op)) if kind == REDUCTION):
            return None
        lhs, rhs = self.operand(*body[0]), self.operand(*body[1])
        out = [linear(e, self.dims) for e in maps(self.op)[-1].results]
        where = [_single(part) for part in out]
        if lhs is None or rhs is None or any(w is None for w in where):
            return None
        # The loop behind each dimension of the result; -1 where that dimension is a constant 0.
        if len({w for w in where if w >= 0}) != len([w for w in where if w >= 0]):
            return None
        epilogue = self.epilogue([None if w < 0 else w for w in where])
        if epilogue is None:
            return None
        map_, destinations = epilogue
        if any(g not in self.used for g in self.generics) or not self.knows_sizes(None if map_ is None else map_.generic):
            return None
        return self.classify(module, lhs, rhs, map_, destinations)

    def knows_sizes(self, epilogue: ir.Operation | None) -> bool:
        """Whether sizes are read by the epilogue alone, and only those of loops: offsets that reach all elements hold these, too."""
        loops = {s for size in self.sizes for s in symbols_of(size)}
        known = {value: symbol for symbol, value in symbol_arguments(self.kernel.operation).items()}
        read = {g: [v for v in outside_values(g) if isinstance(v.type, ir.IndexType)] for g in self.generics}
        return all(epilogue is not None and g == epilogue and all(known.get(v) in loops for v in values) for g, values in read.items() if values)

    def operand(self, number: int, extend: str | None) -> Operand | None:
        value, map_ = self.op.operands[number], maps(self.op)[number]
        element = ir.RankedTensorType(value.type).element_type
        if self.unfolded and (found := unfold(self.kernel, value, map_, self.sizes, kinds(self.op), self.shared())) is not None:
            return Operand(element, found[0], None, extend, found[1])
        if _lies_in_memory(value):
            found = placed(self.kernel, value, map_)
            return None if found is None else Operand(element, found, None, extend)
        producer = value.owner.operation
        if producer not in self.generics or len(producer.results) != 1 or is_reduction(producer):
            return None
        outer = [linear(e, self.dims) for e in map_.results]
        place = [_single(linear(e, len(kinds(producer)))) for e in maps(producer)[-1].results]
        if any(p is None or p < 0 for p in place) or sorted(place) != list(range(len(kinds(producer)))) or None in outer:
            return None
        by_dim: list[Linear] = [outer[place.index(d)] for d in range(len(place))]
        sources = self.sources(producer, by_dim, sums=())
        if sources is None:
            return None
        self.used.append(producer)
        indices = tuple(_single(part) for part in by_dim)
        if _uses_index(producer) and any(i is None for i in indices):
            return None
        return Operand(element, None, Map(producer, sources, tuple(None if i == -1 else i for i in indices)), extend)

    def sources(self, generic: ir.Operation, dims: Sequence[Linear], sums: Sequence[ir.Value]) -> tuple | None:
        """Where each argument of an elementwise generic's block comes from; ``dims`` are its loops by ours."""
        count, sources = len(list(generic.operands)) - len(generic.results), []
        for number, (value, map_) in enumerate(zip(generic.operands, maps(generic))):
            if value in sums:
                sources.append(None)
                continue
            if number >= count:
                if is_read(generic.regions[0].blocks[0].arguments[number]):
                    return None
                sources.append(None)
                continue
            if (constant := filled(value)) is not None:
                block = generic.regions[0].blocks[0]
                with ir.InsertionPoint.at_block_begin(block):
                    block.arguments[number].replace_all_uses_with(arith.constant(constant.type, constant))
                sources.append(None)
                continue
            found = placed(self.kernel, value, map_) if _lies_in_memory(value) else None
            if found is None:
                return None
            sources.append(self.by_loops(found, dims))
        return tuple(sources)

    def by_loops(self, found: Access, dims: Sequence[Linear]) -> Access:
        """An access by an elementwise generic's loops as one by the contraction's; a generic may have no loops at all."""
        if dims:
            return compose(found, dims)
        return Access(found.argument, found.element, (0,) * self.dims, found.offset, found.shape)

    def epilogue(self, where: list[int | None]) -> tuple[Map | None, tuple[Destination, ...]] | None:
        total = self.op.results[0]
        users = [u for u in self.generics if u != self.op and total in list(u.operands)]
        if len(users) > 1 or (len(self.sums) > 1 and not users):
            return None
        map_, known, by_dim = None, {}, None
        if users:
            generic = users[0]
            self.used.append(generic)
            count = len(kinds(generic))
            read = [m for v, m in zip(generic.operands, maps(generic)) if v in self.sums]
            places = [tuple(_single(linear(e, count)) for e in m.results) for m in read]
            if is_reduction(generic) or len(set(places)) != 1 or sorted(places[0]) != list(range(count)):
                return None
            loops = [where[places[0].index(d)] for d in range(count)]
            by_dim = [loop_alone(w, self.dims) for w in loops]
            sources = self.sources(generic, by_dim, self.sums)
            if sources is None:
                return None
            at, others = (tuple(i for i, v in enumerate(generic.operands) if v in sums) for sums in (self.sums[:1], self.sums[1:]))
            map_ = Map(generic, sources, tuple(loops), at, others)
            known = {r: (i, m) for i, (r, m) in enumerate(zip(generic.results, maps(generic)[-len(generic.results):]))}
        results, destinations = written_results(self.kernel), []
        if results is None:
            return None
        for value, argument in results:
            if value == total:
                found = access(value, maps(self.op)[-1], argument)
                destinations.append(Destination(None, found))
            elif value in known:
                found = access(value, known[value][1], argument)
                if found is None:
                    return None
                destinations.append(Destination(known[value][0], self.by_loops(found, by_dim)))
            else:
                return None
        return map_, tuple(destinations)

    def classify(self, module, lhs: Operand, rhs: Operand, epilogue: Map | None, destinations) -> Contraction | None:
        in_lhs, in_rhs, in_out = (self.loops(accesses) for accesses in
                                  (lhs.reads, rhs.reads, [destinations[0].access]))
        kind = kinds(self.op)
        roles: dict[str, list[int]] = {"batch": [], "m": [], "n": [], "k": []}
        for d in range(self.dims):
            if self.sizes[d] == 1:
                continue
            if kind[d] == REDUCTION:
                roles["k"].append(d)
            elif d not in in_out or (d not in in_lhs and d not in in_rhs):
                return None
            else:
                roles["batch" if d in in_lhs and d in in_rhs else "m" if d in in_lhs else "n"].append(d)
        into = destinations[0].access
        innermost = min((d for d in roles["batch"] + roles["m"] + roles["n"]), key=lambda d: (into.strides[d] != 1, hint(into.strides[d])), default=None)
        if innermost in roles["m"]:
            lhs, rhs, roles["m"], roles["n"] = rhs, lhs, roles["n"], roles["m"]
        every = [*lhs.reads, *rhs.reads, *(s for s in (epilogue.sources if epilogue else ()) if s is not None),
                 *(d.access for d in destinations)]

        def group(role: str) -> Group:
            by = lhs.reads[0] if role == "k" and lhs.reads else into
            dims = sorted(roles[role], key=lambda d: -hint(by.strides[d]))
            apart = role == "k" and any(o.unfolded is not None and not o.unfolded.summed for o in (lhs, rhs))  # taps are positions, not terms in a row
            runs = [[d] for d in dims] if apart else merge(dims, self.sizes, every)
            return Group(tuple(dims), tuple(self.sizes[d] for d in dims), tuple(tuple(r) for r in runs))

        return Contraction(
            self.sizes, group("batch"), group("m"), group("n"), group("k"), lhs, rhs,
            ir.RankedTensorType(self.op.results[0].type).element_type, epilogue, destinations,
            takes_tf32(self.op), module,
        )

    def shared(self) -> set[int]:
        """The parallel loops that both factors are walked by."""
        lhs, rhs = ({d for part in (linear(e, self.dims) for e in m.results) if part for d, c in enumerate(part[0]) if c} for m in maps(self.op)[:2])
        return {d for d in lhs & rhs if kinds(self.op)[d] == PARALLEL and self.sizes[d] != 1}

    def loops(self, accesses: Sequence[Access]) -> set[int]:
        return {d for a in accesses for d in range(self.dims) if a.strides[d] != 0 and self.sizes[d] != 1}


def _lies_in_memory(value: ir.Value) -> bool:
    """Whether a value is an argument, maybe in another shape, or a part of one."""
    root = root_of(value)
    return isinstance(root, ir.BlockArgument) or root.owner.operation.name == "tensor.extract_slice"


def _single(part: Linear | None) -> int | None:
    """The dimension that a linear function is, -1 for the constant 0, None for anything else."""
    if part is None or part[1]:
        return None
    found = [d for d, c in enumerate(part[0]) if c]
    if not found:
        return -1
    return found[0] if len(found) == 1 and part[0][found[0]] == 1 else None


def _uses_index(generic: ir.Operation) -> bool:
    return bool(walk(generic, "linalg.index"))


def multiply_add(op: ir.Operation) -> list[tuple[int, str | None]] | None:
    """For ``acc + widen(a) * widen(b)``: the operand number of a and b, each with what widens it."""
    block = op.regions[0].blocks[0]
    acc = list(block.arguments)[-1]
    total = list(block.operations)[-1].operands[0]
    if isinstance(total, ir.BlockArgument) or total.owner.operation.name not in _MULTIPLY_ADD:
        return None
    add = total.owner.operation
    product = [v for v in add.operands if v != acc]
    if len(product) != 1 or isinstance(product[0], ir.BlockArgument):
        return None
    multiply = product[0].owner.operation
    if multiply.name != _MULTIPLY_ADD[add.name]:
        return None
    factors, operations = [], [add, multiply, list(block.operations)[-1].operation]
    for value in multiply.operands:
        extend = None
        if not isinstance(value, ir.BlockArgument):
            if value.owner.operation.name not in _WIDEN:
                return None
            extend = value.owner.operation.name
            operations.append(value.owner.operation)
            value = value.owner.operation.operands[0]
        if not isinstance(value, ir.BlockArgument) or value == acc:
            return None
        factors.append((ir.BlockArgument(value).arg_number, extend))
    return factors if all(o.operation in operations for o in block.operations) else None
