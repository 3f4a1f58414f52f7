"""What an elementwise kernel computes: one map over the points of a box, and where every tensor lies.

``parse_pointwise`` reads a kernel function whose only structured operation is all-parallel: any number of inputs, results
and types, broadcast, permuted or strided operands, and tables read by ``tensor.extract`` (embeddings, index_select).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from inferno.mlir import arith, dim_of, func, ir, is_read, isolated_copy, owner, run_upstream, walk
from inferno.passes.generics import is_reduction, maps, outputs
from inferno.passes.programs import VIEWS, operations_in, returned
from inferno.schedule.analysis.accesses import (
    Access, access, argument_index, destination_index, filled, given_sizes, knows_arguments, loop_sizes, merge, placed, sink_constants,
)
from inferno.schedule.analysis.affine_extracts import linear_place, read_by_maps, strides_at
from inferno.schedule.analysis.unchanged import asked_once, read_by_text
from inferno.schedule.analysis.written_parts import Begin, take_parts, writes_parts
from inferno.schedule.maps.channels import channel_loop
from inferno.symbolic import Int, bounds, divisor, hint, product

_NAMED = (
    "linalg.transpose", "linalg.broadcast", "linalg.copy", "linalg.map", "linalg.fill", "linalg.elementwise", "linalg.add",
    "linalg.sub", "linalg.mul", "linalg.div", "linalg.div_unsigned", "linalg.exp", "linalg.log", "linalg.abs", "linalg.ceil",
    "linalg.floor", "linalg.negf", "linalg.max", "linalg.min", "linalg.select", "linalg.sqrt", "linalg.rsqrt", "linalg.square",
    "linalg.tanh", "linalg.erf", "linalg.powf", "linalg.reciprocal", "linalg.round",
)


@dataclass(frozen=True)
class Pointwise:
    """``sources``: for each argument of the body where it is read, None if it is not; ``destinations``: where results go.

    ``order`` lists the loops of size > 1, outermost in the first destination first, and ``runs`` merges neighbours that
    every tensor walks with one stride, the stride of the run's last loop.
    """

    generic: ir.Operation
    sizes: tuple[Int, ...]
    runs: tuple[tuple[int, ...], ...]
    sources: tuple[Access | None, ...]
    destinations: tuple[Access, ...]
    tables: tuple[tuple[ir.Value, int], ...]  # tensors that the body extracts from: the value, its argument
    module: ir.Module = field(repr=False)
    begins: tuple[Begin, ...] = ()  # what destinations are copies of at first
    parts: bool = False  # results go to parts of destinations

    @property
    def block(self) -> ir.Block:
        return self.generic.regions[0].blocks[0]

    def outside(self, values: Sequence[ir.Value]) -> dict[ir.Value, ir.Value]:
        """What stands for the kernel's sizes, which the body may read, where ``values`` stand for its arguments."""
        return given_sizes(self.module.body.operations[0].operation, values)

    @property
    def points(self) -> Int:
        return product(self.sizes)

    @property
    def run_sizes(self) -> tuple[Int, ...]:
        return tuple(product(self.sizes[d] for d in run) for run in self.runs)

    @cached_property
    def channels(self) -> int | None:
        """The run of a few channels that lie side by side in all that is gathered, and not in what is made; None where there is none."""
        loop = channel_loop(self.generic, self.sizes, self.sources)
        return self.runs.index((loop,)) if (loop,) in self.runs[:-1] else None

    def run_strides(self, at: Access) -> tuple[Int, ...]:
        return tuple(at.strides[run[-1]] for run in self.runs)

    def flat(self, at: Access) -> bool:
        """Whether the tensor is walked in memory order: element ``offset + i`` belongs to point i."""
        sizes = self.run_sizes
        return all(s == product(sizes[i + 1:]) for i, s in enumerate(self.run_strides(at)))


@asked_once
def parse_pointwise(kernel: func.FuncOp, views: bool = False, parts: bool = False) -> Pointwise | None:
    """The elementwise kernel that ``kernel`` is, or None.  ``views``: what it reads may be its arguments in other shapes.  ``parts``: results may go to
    parts of tensors that are copies of arguments otherwise (``written_parts.py``)."""
    if not knows_arguments(kernel):
        return None
    if parts and writes_parts(kernel):
        return _read_parts(kernel, views)
    structured = [o for o in operations_in(kernel) if o.name.startswith("linalg.")]
    if len(structured) > 1:  # tensors full of one constant may be operands
        structured = [o for o in structured if o.name != "linalg.fill"]
    known = len(structured) == 1 and structured[0].name in ("linalg.generic", *_NAMED)
    return _read(kernel, views, structured[0].name != "linalg.generic") if known else None


@read_by_text
def _read_parts(kernel: func.FuncOp, views: bool) -> Pointwise | None:
    with kernel.context, kernel.location:
        module = isolated_copy(kernel)
        begins = take_parts(module.body.operations[0])
        return _parse(module, views, begins) if begins is not None else None


@read_by_text
def _read(kernel: func.FuncOp, views: bool, named: bool) -> Pointwise | None:
    with kernel.context, kernel.location:
        module = isolated_copy(kernel)
        if named:
            run_upstream(module, "func.func(linalg-generalize-named-ops)")
        return _parse(module, views)


def _parse(module: ir.Module, views: bool, begins: tuple[Begin, ...] | None = None) -> Pointwise | None:
    kernel = module.body.operations[0]
    others = ("tensor.empty", "tensor.extract_slice", "func.return", *(VIEWS if views else ()))
    generics = [o for o in operations_in(kernel) if o.name not in others and not o.name.startswith("arith.")]
    if len(generics) > 1:
        generics = [o for o in generics if filled(o.results[0]) is None]
    if len(generics) != 1 or generics[0].name != "linalg.generic" or is_reduction(generics[0]):
        return None
    generic = read_by_maps(generics[0])
    sizes = loop_sizes(generic)
    if sizes is None or not sink_constants(generic, tables=True):
        return None
    block = generic.regions[0].blocks[0]
    arguments, results = len(kernel.type.inputs), len(generic.results)
    if returned(kernel) != list(generic.results):
        return None
    all_maps, inputs = maps(generic), len(generic.operands) - results
    destinations: list[Access] = []
    for i, value in enumerate(outputs(generic)):
        if begins is not None:
            place = placed(kernel, value, all_maps[inputs + i])
        else:
            argument = destination_index(kernel, value)
            place = access(value, all_maps[inputs + i], argument) if argument == arguments - results + i else None
        if place is None or not _injective(place, sizes):
            return None
        destinations.append(place)
    sources: list[Access | None] = []
    for number, (value, map_) in enumerate(zip(generic.operands, all_maps)):
        if not is_read(block.arguments[number]):
            sources.append(None)
            continue
        if (constant := _constant(value)) is not None:
            with ir.InsertionPoint.at_block_begin(block):
                block.arguments[number].replace_all_uses_with(arith.constant(constant.type, constant))
            sources.append(None)
            continue
        if not isinstance(value.type, ir.RankedTensorType):
            return None
        found = placed(kernel, value, map_)
        if found is None or any(d.argument == found.argument and d != found for d in destinations):
            return None
        sources.append(found)
    tables = []
    for op in walk(generic, "tensor.extract"):
        argument = argument_index(kernel, op.operands[0])
        if argument is None or any(d.argument == argument for d in destinations):
            return None
        tables.append((op.operands[0], argument))
    order = sorted((d for d, size in enumerate(sizes) if size != 1), key=lambda d: -hint(destinations[0].strides[d]))
    computed = [Access(-1, destinations[0].element, _as_if_contiguous(loops, order, sizes)) for loops in _loops_of_operations(generic)]
    channels = channel_loop(generic, sizes, sources)
    alone = [] if channels in (None, *order[-1:]) else [Access(-1, destinations[0].element, tuple(int(d == channels) for d in range(len(sizes))))]
    runs = merge(order, sizes, [s for s in sources if s is not None] + destinations + computed + alone + _transposed(generic, sizes, order))
    return Pointwise(
        generic, sizes, tuple(tuple(r) for r in runs), tuple(sources), tuple(destinations), tuple(tables), module, begins or (), begins is not None,
    )


def _loops_of_operations(generic: ir.Operation) -> set[frozenset[int]]:
    """For each operation of the body, the loops whose coordinates it is computed of."""
    known: dict[ir.Value, frozenset[int]] = {}
    for op in walk(generic):
        if op.name == "linalg.index":
            known[op.results[0]] = frozenset((dim_of(op),))
        elif op != generic and not len(op.regions):
            known.update({r: frozenset().union(*(known.get(v, ()) for v in op.operands)) for r in op.results})
    return {loops for value, loops in known.items() if loops and owner(value).name != "linalg.index"}


def _as_if_contiguous(loops: frozenset[int], order: list[int], sizes: tuple[Int, ...]) -> tuple[Int, ...]:
    """Strides of a tensor that some loops walk, so that loops which it has are one run, and others are not of it."""
    return tuple(product(sizes[e] for e in order[order.index(d) + 1:] if e in loops) if d in loops and d in order else 0 for d in range(len(sizes)))


def _transposed(generic: ir.Operation, sizes: tuple[Int, ...], order: list[int]) -> list[Access]:
    """What branches gather at sums of loops and lies along another loop than results do, as pieces of images that are put together with channels last: tiles in
    shared memory transpose it (``transposed_gathers.py``), along runs that it is walked by as well."""
    found, innermost = [], order[-1] if order else 0
    for op in walk(generic, "tensor.extract"):
        table, places = op.operands[0].type, [linear_place(v, len(sizes)) for v in list(op.operands)[1:]]
        if op.parent == generic or None in places or not table.has_static_shape:
            continue
        strides = strides_at(places, table.shape, len(sizes))
        if abs(strides[innermost]) > 1 and 1 in map(abs, strides):
            found.append(Access(-1, table.element_type, strides))
    return found


def _constant(value: ir.Value) -> ir.Attribute | None:
    """The constant that a scalar operand is, or that a tensor operand is full of."""
    if isinstance(value, ir.BlockArgument):
        return None
    if isinstance(value.type, ir.RankedTensorType):
        return filled(value)
    return value.owner.operation.attributes["value"] if value.owner.operation.name == "arith.constant" else None


def _injective(place: Access, sizes: tuple[Int, ...]) -> bool:
    """Whether different points go to different elements: each stride is beyond the reach of all smaller ones."""
    reach: Int = 0
    steps = [(s, n) for s, n in zip(place.strides, sizes) if n != 1]
    for stride, size in sorted(steps, key=lambda step: (hint(step[0]), hint(step[1]))):
        if bounds(stride - reach)[0] <= 0:
            return False
        reach = reach + stride * (size - 1)
    return True


def aligned(point: Pointwise, at: Access, run: int, lanes: int) -> int:
    """How many of ``lanes`` neighbours along a run of loops, from a multiple of them on, are known to be aligned together."""
    strides = [s for r, s in enumerate(point.run_strides(at)) if r != run]
    return math.gcd(lanes, *(divisor(s) for s in [*strides, at.offset]))
