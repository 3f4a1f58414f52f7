"""On a GPU, let a kernel in front compute what a map or a reduction computes of a few elements, again for each of its many points.

A batch norm of an image with channels last divides two sums by their number and takes a root for each of its points, of each of which there is one a
channel: 56 instructions a point, where memory moves one in the time of 30.  The kernel in front of it is small, and becomes part of the small one that has
the sums (``fuse-small``).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import prod

from inferno.element_sizes import element_bytes
from inferno.mlir import clone_onto, dim_of, func, ir, owner, users, walk
from inferno.passes.affine import projection, renumber
from inferno.passes.generics import (
    PARALLEL, REDUCTION, body, build, dims, inputs, is_elementwise, is_reduction, kinds, maps, outputs, substitute, yielded,
)
from inferno.passes.programs import VIEWS, callee, operations_in, readers, whole_of
from inferno.schedule.analysis.accesses import loop_sizes
from inferno.schedule.analysis.cost import KERNEL_RATE, count_bytes
from inferno.schedule.maps.elementwise import choose
from inferno.schedule.maps.gathers import gathered
from inferno.schedule.maps.pointwise import aligned, parse_pointwise
from inferno.schedule.maps.shared_reads import reused
from inferno.schedule.maps.supported import supported
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.passes.calls import call_in_two, calls_in, inputs_of, may_change, new_kernel
from inferno.schedule.passes.gathered_vectors import Gathered, gathered_values, hoist_gathered, unread_without
from inferno.schedule.passes.rewrite import merge_in
from inferno.schedule.rows.row_work import busy
from inferno.target import Target, find_target

_PARTS = (*VIEWS, "tensor.extract_slice")
_FEWER = 64  # points for each element that is computed apart, at least
# The same of what is computed of the loops' numbers and of what is gathered there as well, as the sine of an angle of a token that all heads share, and
# instructions of that.
_COUNTED, _MUCH = 8, 32
_CACHE_RATE = 8e6  # bytes in a microsecond that come from the L2 cache
_SCANNED = 8  # of what a scan alone reads: it takes the kernel in, and what is for each point is in no memory
# Instructions of what takes more than one, as an elementwise kernel has it: quotients are rounded as they should be, with a branch for what is out of the
# usual range.
_LONG = {
    "arith.divf": 20, "math.exp": 10, "math.exp2": 10, "math.expm1": 12, "math.log": 16, "math.log1p": 20, "math.log2": 16, "math.sqrt": 12, "math.rsqrt": 8,
    "math.erf": 20, "math.tanh": 16, "math.sin": 20, "math.cos": 20, "math.powf": 40, "arith.remf": 30,
    **{f"arith.{op}": 20 for op in ("divsi", "divui", "remsi", "remui")},
}
_KEPT = ("f32", "f64", "i32", "i64")  # what is computed in them stays as it is
_ROUNDED = ("bf16", "f16")
_READ = 3  # instructions of what is brought again, once for a thread's points
# Instructions of an element that is read or written by itself: its address has 64 bits, and its place in a row that vectors do not divide is a remainder.  The
# kernel behind a log_softmax of the columns of differences of 4096x1024 numbers in bf16 has 55 a point, 16 of them for the logarithm: it took an H200 14.8 us.
_ELEMENT = 5
_LEAST = 8  # instructions of what is worth a tensor of its own
_BUSY = 0.7  # of all instructions that a multiprocessor could begin, beside loads and stores
_KERNEL = 1.0  # microseconds of a small kernel behind others


@dataclass
class _Value:
    """What a value of a body is computed of: operations in order, inputs by number, loops, and tensors that elements are gathered of."""

    operations: dict[ir.Operation, None] = field(default_factory=dict)
    reads: dict[int, None] = field(default_factory=dict)
    loops: frozenset[int] = frozenset()
    tables: dict[ir.Value, None] = field(default_factory=dict)


def hoist_vectors(module: ir.Module, target: str, always: str = "") -> None:
    """Rewrite ``@main`` and its kernels; nothing for the CPU.  ``always``: "1" for not asking whether it takes less time."""
    machine = find_target(target)
    if machine.kind != "nvptx":
        return

    def merge(main: func.FuncOp, kernels: dict[str, func.FuncOp]) -> bool:
        calls = calls_in(main)
        found = [(c, g, parts) for c in calls for g, parts in _parts(kernels.get(callee(c)), machine, always == "1", _is_scanned(c, kernels))]
        own = [call for call, _, _ in found]
        gathers = [(c, one) for c in calls if c not in own and (one := _gathered(kernels.get(callee(c)), machine, always == "1")) is not None]
        for call, generic, parts in found:
            _hoist(module, kernels[callee(call)], call, generic, parts)
        for call, one in gathers:
            kernel = kernels[callee(call)]
            while one is not None:
                call, kernel = hoist_gathered(module, kernel, call, *one)
                one = _gathered(kernel, machine, always == "1")
        return bool(found or gathers)

    merge_in(module, merge)


def _is_scanned(call: ir.Operation, kernels: dict[str, func.FuncOp]) -> bool:
    """Whether scans alone read what a call makes."""
    found = [kernels.get(callee(u)) if u.name == "func.call" else None for r in call.results for u in readers(r)]
    return bool(found) and all(k is not None and walk(k, "tm_tensor.scan") for k in found)


def _parts(kernel: func.FuncOp | None, target: Target, always: bool, scanned: bool) -> list[tuple[ir.Operation, dict[ir.Value, _Value]]]:
    """The operation of a kernel that has its points, with what is to be computed apart, of the same loops, if that pays; ``scanned``: scans read it."""
    generic = _with_points(kernel) if may_change(kernel) else None
    if generic is None:
        return []
    sizes, found = loop_sizes(generic), _vectors(generic, _SCANNED if scanned else _FEWER)
    bytes_ = count_bytes(kernel) - (sum(prod(t.shape) * t.element_type.width // 8 for t in map(ir.RankedTensorType, kernel.type.results)) if scanned else 0)
    moving = _moving(kernel, target) if found else 0
    for loops in sorted({v.loops for v in found.values()}, key=lambda d: -prod(sizes[i] for i in d)):
        parts = {value: v for value, v in found.items() if v.loops == loops}
        if always or _pays(bytes_, generic, parts, prod(sizes), _shared(kernel, loops, target), target, moving):
            return [(generic, parts)]
    if found or not is_elementwise(generic) or not all(isinstance(n, int) for n in sizes):
        return []
    counted = _vectors(generic, _COUNTED, counted=True)
    moving = _moving(kernel, target) if counted else 0
    for loops in sorted({v.loops for v in counted.values()}, key=lambda d: -prod(sizes[i] for i in d)):
        parts = {value: v for value, v in counted.items() if v.loops == loops}
        again = prod(sizes) * sum(element_bytes(v.type) for v in parts)
        if always or _pays(bytes_, generic, parts, prod(sizes), _shared(kernel, loops, target), target, moving, again):
            return [(generic, parts)]
    return []


def _gathered(kernel: func.FuncOp | None, target: Target, always: bool) -> tuple[ir.Value, Gathered] | None:
    """What a map is to gather instead of computing it of what it gathers, if that pays: that of which it computes most."""
    generic = _with_points(kernel) if may_change(kernel) else None
    if generic is None or not is_elementwise(generic) or not all(isinstance(n, int) for n in loop_sizes(generic)):
        return None
    found = [(_cost(unread_without(v, made)), v, made) for v, made in gathered_values(generic, _FEWER).items()]
    found = [one for one in found if one[0] >= _LEAST]
    if not found:
        return None
    saved, value, made = max(found, key=lambda one: one[0])
    points, whole = prod(loop_sizes(generic)), _cost([o.operation for o in body(generic).operations])
    memory = count_bytes(kernel) / KERNEL_RATE
    before, after = (max(memory, busy(points * n, target) / _BUSY) for n in (whole, whole - saved))
    return (value, made) if always or after + _KERNEL + made.written(value) / KERNEL_RATE < before else None


def _shared(kernel: func.FuncOp, loops: frozenset[int], target: Target) -> int:
    """Points that a thread computes such values once for: one that reads where they say does several channels."""
    point = parse_pointwise(kernel)
    if point is None or not supported(point) or not gathered(point):
        return 1
    schedule = choose(kernel, target)
    run = reused(point, schedule.across, schedule.vector) if schedule is not None and schedule.across > 1 else None
    return schedule.across if run is not None and not loops & set(point.runs[run]) else 1


def _moving(kernel: func.FuncOp, target: Target) -> int:
    """Instructions of a map's point for elements that no vector brings, or stores, of which each is at a place of its own."""
    point = parse_pointwise(kernel)
    if point is None or not supported(point) or not point.runs or (schedule := choose(kernel, target)) is None:
        return 0
    last = len(point.runs) - 1
    walked = [at for at in (*point.sources, *point.destinations) if at is not None and point.run_strides(at)[last] != 0]
    return _ELEMENT * sum(schedule.vector == 1 or aligned(point, at, last, schedule.vector) < schedule.vector for at in walked)


def _with_points(kernel: func.FuncOp) -> ir.Operation | None:
    """The only operation of an elementwise kernel, or the only reduction of one that has no more than it, its start and a map of what it comes to; None where
    that is not computed of arguments."""
    operations, arguments = operations_in(kernel), list(kernel.entry_block.arguments)
    structured = [o for o in operations if o.name not in ("arith.constant", "tensor.empty", *_PARTS)][:-1]
    if len(structured) == 1 and is_elementwise(structured[0]):
        (generic,) = structured
        places = arguments[len(arguments) - len(generic.results):]
        if len(generic.results) != len(kernel.type.results) or outputs(generic) != places or list(operations[-1].operands) != list(generic.results):
            return None
    else:
        reductions = [o for o in structured if is_reduction(o)]
        others = [o for o in structured if o.name != "linalg.fill" and o not in reductions]
        if len(reductions) != 1 or len(others) > 1 or not all(is_elementwise(o) for o in others):
            return None
        if (c := parse_contraction(kernel)) is not None and not c.is_reduction:
            return None  # what a factor is made of is computed as it is brought
        (generic,) = reductions
    read = [whole_of(v) for v in (*inputs(generic), *_tables(generic))]
    return generic if all(v in arguments or _is_empty(v) for v in read) else None


def _vectors(generic: ir.Operation, fewer: int, counted: bool = False) -> dict[ir.Value, _Value]:
    """The numbers that a body computes of few elements, each of ``fewer`` points at least, and that are read with others, or say where others are.  What is
    the same for all terms of a sum is computed once for them as it is.  ``counted``: of the loops' numbers and of elements that are gathered, too, where that
    is much; what is rounded behind it is kept as it is rounded."""
    sizes, block, terms = loop_sizes(generic), body(generic), {d for d, kind in enumerate(kinds(generic)) if kind == REDUCTION}
    selected = [dims(m) for m in maps(generic)[: len(inputs(generic))]]
    known = {a: _Value({}, {i: None}, frozenset(d)) for i, (a, d) in enumerate(zip(block.arguments, selected)) if d is not None}
    known = {a: v for a, v in known.items() if fewer * prod(sizes[d] for d in v.loops) <= prod(sizes)}
    found: dict[ir.Value, _Value] = {}
    for op in [o.operation for o in block.operations]:
        own = [v for o in walk(op) for v in o.operands if (v.owner == block if isinstance(v, ir.BlockArgument) else v.owner.operation.block == block)]
        made = _Value()
        for value in own:
            if value in known:
                made.operations.update(known[value].operations)
                made.reads.update(known[value].reads)
                made.tables.update(known[value].tables)
                made.loops |= known[value].loops
        if counted:
            made.loops |= {dim_of(o) for o in walk(op) if o.name == "linalg.index"}
            made.tables.update((o.operands[0], None) for o in walk(op) if o.name == "tensor.extract")
        pure = _is_counted(op) if counted else _is_pure(op) and not isinstance(op.results[0].type, ir.IndexType)
        if pure and all(v in known for v in own) and fewer * prod(sizes[d] for d in made.loops) <= prod(sizes):
            made.operations[op] = None
            known[op.results[0]] = made
        else:
            found.update((v, known[v]) for v in own if v in known)
    if counted:
        return {v: part for v, part in found.items() if str(v.type) in (*_KEPT, *_ROUNDED) and part.loops and _cost(part.operations) >= _MUCH}
    return {
        v: part for v, part in found.items()
        if part.reads and str(v.type) in _KEPT and _cost(part.operations) >= _LEAST and (not terms or terms & part.loops)
    }


def _is_pure(op: ir.Operation) -> bool:
    return op.name.startswith(("arith.", "math.")) and not len(op.regions) and len(op.results) == 1


def _is_counted(op: ir.Operation) -> bool:
    """Whether it makes a number of others, of the loops' numbers and of what is gathered; not what only widens what was rounded."""
    if op.name == "arith.extf" and str(op.operands[0].type) in _ROUNDED and (made := owner(op.operands[0])) is not None and made.name == "arith.truncf":
        return False
    inside = [o for o in walk(op) if o != op]
    free = ("linalg.index", "tensor.extract", "scf.yield")
    return (_is_pure(op) or op.name in free[:2] or (op.name == "scf.if" and len(op.results) == 1)) and all(
        _is_pure(o) or o.name in free or (o.name == "scf.if" and len(o.results) == 1) for o in inside
    )


def _cost(operations: Iterable[ir.Operation]) -> int:
    """Instructions; of branches those of the longer one."""
    return sum(
        _LONG.get(op.name, 1) + max((_cost(o.operation for b in region.blocks for o in b.operations) for region in op.regions), default=0)
        for op in operations if op.name not in ("arith.constant", "linalg.yield", "linalg.index", "scf.yield")
    )


def _pays(
    bytes_: int, generic: ir.Operation, parts: dict[ir.Value, _Value], points: int, shared: int, target: Target, moving: int, again: int = 0,
) -> bool:
    """Whether a kernel less of work for each point, and one more, take less time: what memory takes, or the arithmetic, if that is more.  ``shared``: points
    that a thread does such work once for; ``moving``: instructions of what a point reads and writes by itself; ``again``: bytes that come from the cache
    then."""
    whole = moving + _cost([o.operation for o in body(generic).operations])
    saved = _cost(_unread_then(generic, parts))
    memory, read = bytes_ / KERNEL_RATE, _READ * len(parts) if shared > 1 else 0
    before, after = (max(memory, busy(points * n, target) / _BUSY) for n in (whole - saved + saved / shared, whole - saved + read / shared))
    after = max(after, memory + again / _CACHE_RATE)
    return after + _KERNEL + _written(generic, parts) / KERNEL_RATE < before


def _unread_then(generic: ir.Operation, parts: dict[ir.Value, _Value]) -> list[ir.Operation]:
    """The operations of a body that nothing needs once it reads the parts: a place that other tensors are read at is computed as before."""
    computed, gone = {op for part in parts.values() for op in part.operations}, {}
    for op in reversed([o.operation for o in body(generic).operations]):
        if op in computed and (op.results[0] in parts or all(_around(u, generic) in gone for u in users(op.results[0]))):
            gone[op] = None
    return list(gone)


def _around(op: ir.Operation, generic: ir.Operation) -> ir.Operation:
    """The operation of a body that another one is, or is in."""
    while op.block != body(generic):
        op = op.parent.operation
    return op


def _written(generic: ir.Operation, parts: dict[ir.Value, _Value]) -> int:
    """Bytes of what is computed apart."""
    sizes = loop_sizes(generic)
    return sum(prod(sizes[d] for d in part.loops) * element_bytes(value.type) for value, part in parts.items())


def _hoist(module: ir.Module, kernel: func.FuncOp, call: ir.Operation, generic: ir.Operation, parts: dict[ir.Value, _Value]) -> None:
    """Two calls in the place of one: of a kernel that computes the parts, and of one for the rest."""
    first, read = _kernel_of_parts(module, kernel, generic, parts)
    rest, left_in = _kernel_of_rest(module, kernel, call, generic, parts)
    call_in_two(call, first, read, rest, left_in)


def _loops_of(parts: dict[ir.Value, _Value]) -> list[int]:
    """The loops that the parts depend on, which are the same for all of them."""
    return sorted(next(iter(parts.values())).loops)


def _kernel_of_parts(
    module: ir.Module, kernel: func.FuncOp, generic: ir.Operation, parts: dict[ir.Value, _Value],
) -> tuple[func.FuncOp, list[ir.Value]]:
    """A kernel that computes the parts, each as a tensor over their loops, and the arguments of ``kernel`` that it reads."""
    block, sizes, loops = body(generic), loop_sizes(generic), _loops_of(parts)
    reads = sorted({i for part in parts.values() for i in part.reads})
    types = [ir.RankedTensorType.get([sizes[d] for d in loops], v.type) for v in parts]
    indexing = maps(generic)
    tables = list(dict.fromkeys(t for part in parts.values() for t in part.tables))
    read = list(dict.fromkeys([*_roots(generic, reads), *map(whole_of, tables)]))
    first = new_kernel(module, kernel, f"{kernel.name.value}_vectors", [v.type for v in read], types)
    with ir.InsertionPoint(first.entry_block):
        own = list(first.entry_block.arguments)
        outside = dict(zip(read, own))
        for op in operations_in(kernel):
            if op.name == "arith.constant":
                clone_onto(op, outside)
        renamed = renumber(loops, len(sizes))

        def compute(arguments: list[ir.Value]) -> list[ir.Value]:
            known = {**outside, **dict(zip((block.arguments[i] for i in reads), arguments))}
            wanted = {op for part in parts.values() for op in part.operations}
            for op in [o.operation for o in block.operations if o.operation in wanted]:
                for index in walk(clone_onto(op, known), "linalg.index"):
                    index.attributes["dim"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), loops.index(dim_of(index)))
            return [known[v] for v in parts]

        every = [*(substitute(indexing[i], renamed, len(loops)) for i in reads), *[ir.AffineMap.get_identity(len(loops))] * len(parts)]
        taken = [_brought(inputs(generic)[i], outside) for i in reads]
        for table in tables:
            _brought(table, outside)
        func.ReturnOp(build(taken, own[len(read):], every, [PARALLEL] * len(loops), compute, generic.location).results)
    return first, read


def _kernel_of_rest(
    module: ir.Module, kernel: func.FuncOp, call: ir.Operation, generic: ir.Operation, parts: dict[ir.Value, _Value],
) -> tuple[func.FuncOp, list[ir.Value]]:
    """``kernel`` with the parts as arguments, and the arguments of its own that it still reads, which come before these."""
    block, sizes, loops = body(generic), loop_sizes(generic), _loops_of(parts)
    values, count, indexing = list(parts), len(inputs(generic)), maps(generic)
    left = _left(block, values)
    # (What is not read says how many there are of a reduction's terms.)
    kept = [i for i in range(count) if block.arguments[i] in left or not set(dims(indexing[i]) or range(len(sizes))) <= set(loops)]
    operations, arguments = operations_in(kernel), list(kernel.entry_block.arguments)
    inside = [v for op in _still(block, left) for o in walk(op) for v in o.operands]
    needed, values_read = _needed(operations, generic, [*(inputs(generic)[i] for i in kept), *outputs(generic), *inside])
    places = arguments[len(inputs_of(call)):]
    left_in = [v for v in arguments if v in values_read and v not in places]
    types = [ir.RankedTensorType.get([sizes[d] for d in loops], v.type) for v in values]
    rest = new_kernel(module, kernel, kernel.name.value, [*(v.type for v in left_in), *types], list(kernel.type.results))
    with ir.InsertionPoint(rest.entry_block):
        own, taken_in = list(rest.entry_block.arguments), len(left_in) + len(values)
        around = dict(zip([*left_in, *places], [*own[:len(left_in)], *own[taken_in:]]))

        def apply(arguments: list[ir.Value]) -> list[ir.Value]:
            known = {**around, **dict(zip([*(block.arguments[i] for i in kept), *values, *list(block.arguments)[count:]], arguments))}
            for op in _still(block, left)[:-1]:
                clone_onto(op, known)
            return [known.get(v, v) for v in yielded(generic)]

        place = projection(loops, len(sizes))
        every = [*(indexing[i] for i in kept), *[place] * len(values), *indexing[count:]]
        for op in operations:
            if op == generic:
                taken = [*(around[inputs(generic)[i]] for i in kept), *own[len(left_in):taken_in]]
                new = build(taken, [around[v] for v in outputs(generic)], every, kinds(generic), apply, generic.location)
                around.update(zip(generic.results, new.results))
            elif op in needed:
                clone_onto(op, around)
    return rest, left_in


def _needed(operations: list[ir.Operation], generic: ir.Operation, read: list[ir.Value]) -> tuple[set[ir.Operation], set[ir.Value]]:
    """The other operations that a kernel needs where ``generic`` reads this alone, and all that they and it read."""
    needed, values = set(), set(read)
    for op in reversed(operations):
        if op != generic and (op.name == "func.return" or any(r in values for r in op.results)):
            needed.add(op)
            values.update(v for o in walk(op) for v in o.operands)
    return needed, values


def _still(block: ir.Block, left: set[ir.Value]) -> list[ir.Operation]:
    """The operations of a body that make what is left, and the last one."""
    return [o.operation for o in block.operations if o.operation.name == "linalg.yield" or any(r in left for r in o.operation.results)]


def _tables(generic: ir.Operation) -> list[ir.Value]:
    """What elements are gathered of."""
    return [op.operands[0] for op in walk(generic, "tensor.extract")]


def _is_empty(value: ir.Value) -> bool:
    return (op := owner(value)) is not None and op.name == "tensor.empty"


def _roots(generic: ir.Operation, numbers: list[int]) -> list[ir.Value]:
    return list(dict.fromkeys(whole_of(inputs(generic)[i]) for i in numbers))


def _brought(value: ir.Value, known: dict[ir.Value, ir.Value]) -> ir.Value:
    """The same part of what ``known`` has for its root, at the insertion point."""
    if value not in known:
        _brought(owner(value).operands[0], known)
        clone_onto(owner(value), known)
    return known[value]


def _left(block: ir.Block, made: list[ir.Value]) -> set[ir.Value]:
    """The values of a body that are still read or yielded where some are made elsewhere."""
    left: set[ir.Value] = set()
    for op in reversed([o.operation for o in block.operations]):
        if op.name == "linalg.yield" or any(r in left for r in op.results):
            left.update(v for inner in walk(op) for v in inner.operands if v not in made)
    return left
