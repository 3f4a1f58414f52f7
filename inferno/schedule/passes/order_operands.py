"""Copy a contraction's operand whose layout tensor cores cannot read to one that they can, where that pays.

So do the patches of an image: rows of a patch are apart, and so are rows of patches, which together is more than a tensor map has dimensions for, or leaves
tiles of few rows.  And so does a factor of TF32 whose terms are not innermost: tiles of it would be transposed in shared memory, each as often as it is read.
And so does the smaller factor of a batch of products of one row (``batch_sums.py``), whose neighbours in the batch are apart: the larger one has them together.
"""

from dataclasses import dataclass, replace
from math import prod

from inferno.element_sizes import element_bytes
from inferno.mlir import clone_onto, func, ir, tensor, walk
from inferno.passes.affine import projection
from inferno.passes.deduplicate_kernels import deduplicate_kernels
from inferno.passes.generics import PARALLEL, REDUCTION, build, inputs, is_reduction, kinds, loop_sizes, maps, outputs, use_count
from inferno.passes.kernel_names import Names
from inferno.passes.outline_kernels import outline_program
from inferno.passes.programs import callee, frozen_weights, programs, root_of, wants_library
from inferno.schedule.analysis.cost import MEMORY_RATE, fastest, moved_bytes
from inferno.schedule.assign import choose, kernels
from inferno.schedule.attributes import ATTRIBUTE
from inferno.schedule.matmul import wgmma, wgmma_schedule
from inferno.schedule.matmul.contraction import Contraction
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.passes.calls import replace_call
from inferno.schedule.reductions import batch_sums
from inferno.schedule.spaces import estimate_of
from inferno.schedule.tiles.tiling import tile_contraction
from inferno.target import Target, find_target

# 6272x768x768 of 32 images' patches: 6.3 us to order them and 23.2 to multiply, where element by element 212 are estimated.
_LAUNCH = 2.0  # microseconds of the kernel in front, beside its bytes (an estimate, as wgmma's for its own temporaries)
_PAYS = 0.8  # of the time without, by estimates that are some percent off
# Of the time where the generator would transpose the factor.  Of 768^3 and 1024^3 that time is estimated right (15.8 for 15.7 us, 20.6 for 19.7), and the one
# without anything to transpose too long (8.2 for 6.3, 10.4 for 8.3).  A copy by its launcher is estimated like the kernel in front, which alone writes whole
# lines.
_PAYS_TRANSPOSED = 1.05
# The same where its lines begin anywhere, so that the launcher copies them first (on an H200, TF32, 3000x2056x2501 159.8 us, 111 are estimated; transposed in
# front 133.5, 121 estimated).
_PAYS_COPIED = 1.3
_LEAST = 0.8  # of what memory takes, which no estimate of wgmma's is below: a third of the orders of training steps need not be tried for that


@dataclass(frozen=True)
class _Order:
    """Argument ``number`` of a kernel, which its contraction reads by ``before``, is to have the dimensions of ``loops``, in this order.
    ``transposes``: the generator takes the kernel without that too, and transposes the factor."""

    number: int
    loops: tuple[int, ...]
    before: ir.AffineMap
    shape: tuple[int, ...]
    transposes: bool = False


def order_operands(module: ir.Module, target: str) -> None:
    """For Hopper's tensor cores, and reductions, give kernels without a schedule a factor in the order of their loops, where the estimates say that it pays.
    Calls that take one tensor in one order share the ordered one.

    A frozen weight that would only be transposed stays as it is: ``prepare-operands`` does that once."""
    machine = find_target(target)
    if not machine.hopper:
        return
    with module.context, ir.Location.unknown():
        if made := _order_once(module, machine, {k.name.value for k in kernels(module)}):
            _order_once(module, machine, made)  # the other factor
            deduplicate_kernels(module)


def _order_once(module: ir.Module, target: Target, among: set[str]) -> set[str]:
    """Give kernels one of their factors in its order, of those with these names: the names of what they are by then."""
    names, library = Names(module), wants_library(module)
    free = [k for k in kernels(module) if ATTRIBUTE not in k.attributes and k.name.value in among]
    orders = {k.name.value: (k, *found) for k in free if (found := _ordered(k, target, names, library)) is not None}
    for program in programs(module) if orders else ():
        made: dict[tuple, ir.Value] = {}
        frozen = frozen_weights(program)
        for call in [c for c in walk(program, "func.call") if callee(c) in orders]:
            _, new, order = orders[callee(call)]
            if not (order.transposes and root_of(call.operands[order.number]) in frozen):
                _replace(call, new, order, made)
        outline_program(program, names)
    called = {callee(c) for c in walk(module.operation, "func.call")}
    made = {new.name.value for _, new, _ in orders.values()}
    for kernel, new, _ in orders.values():
        for each in (kernel, new):
            if each.name.value not in called:
                each.operation.erase()
    return made


def _ordered(kernel: func.FuncOp, target: Target, names: Names, library: bool) -> tuple[func.FuncOp, _Order] | None:
    """The kernel with a factor in another order, and which."""
    c = parse_contraction(kernel)
    if c is None or c.varies or None in (c.lhs.access, c.rhs.access) or c.lhs.access.argument == c.rhs.access.argument:
        return None
    op = next((o for o in walk(kernel, "linalg.generic") if is_reduction(o)), None)
    if op is not None and (found := _beside_batch(kernel, op, target)) is not None:
        found[0].attributes["sym_name"] = ir.StringAttr.get(names.unique(found[0].name.value))
        return found
    orders = [] if op is None else [o for o in (_order_of(op, number) for number in (0, 1)) if o is not None]
    most = _most(kernel, c, target, library) if orders and wgmma_schedule.precision(kernel, c) is not None else None
    for order in orders if most is not None else ():
        order = replace(order, transposes=most[1])
        if _ordering(kernel, order) + _LEAST * moved_bytes(c) / MEMORY_RATE >= most[0]:
            continue
        new = _with_order(kernel, order)
        made = parse_contraction(new)
        times = [time for time, _ in wgmma.candidates(new, made, target)] if made is not None else []
        if times and min(times) + _ordering(new, order) < most[0]:
            new.attributes["sym_name"] = ir.StringAttr.get(names.unique(new.name.value))
            return new, order
        new.operation.erase()
    return None


def _ordering(kernel: func.FuncOp, order: _Order) -> float:
    """Microseconds of what makes the factor that a kernel takes in its order."""
    return _LAUNCH + 2 * prod(order.shape) * element_bytes(kernel.type.inputs[order.number].element_type) / MEMORY_RATE


def _beside_batch(kernel: func.FuncOp, op: ir.Operation, target: Target) -> tuple[func.FuncOp, _Order] | None:
    """A batch of products of one row that is a reduction, with its smaller factor in the larger one's order, where that pays."""
    walked = [_plain(m) for m in maps(op)[:2]]
    if len(inputs(op)) != 2 or None in walked or (before := batch_sums.candidate(kernel, target)) is None:
        return None
    number = min((0, 1), key=lambda n: prod(inputs(op)[n].type.shape))
    loops = [d for d in walked[1 - number] if d in walked[number]]
    if sorted(loops) != sorted(walked[number]) or loops == walked[number] or not _is_own(kernel, inputs(op)[number]):
        return None
    order = _Order(inputs(op)[number].arg_number, tuple(loops), maps(op)[number], tuple(loop_sizes(op)[d] for d in loops))
    new = _with_order(kernel, order)
    after = batch_sums.candidate(new, target)
    if after is not None and after[0] + _ordering(new, order) < _PAYS * before[0]:
        return new, order
    new.operation.erase()
    return None


def _is_own(kernel: func.FuncOp, value: ir.Value) -> bool:
    """Whether it is an argument that nothing else reads."""
    return isinstance(value, ir.BlockArgument) and value.owner == kernel.entry_block and use_count(value) == 1


def _most(kernel: func.FuncOp, c: Contraction, target: Target, library: bool) -> tuple[float, bool] | None:
    """Microseconds that a kernel may take with what orders its factor, and whether it would be taken without; None where another generator has it.
    A ``library`` transposes no tiles."""
    found = wgmma.candidates(kernel, c, target)
    if not found:
        own = estimate_of(kernel, choose(kernel, target), target)
        return (_PAYS * own, False) if own is not None else None
    if library or not isinstance(choose(kernel, target), wgmma_schedule.Wgmma):  # few rows or columns, and windows, are other generators'
        return None
    pays = _PAYS if not _transposes(c) else _PAYS_COPIED if wgmma.copies(fastest(found)[1], c) else _PAYS_TRANSPOSED
    return pays * min(time for time, _ in found), True


def _transposes(c: Contraction) -> bool:
    """Whether tiles of a factor would be transposed in shared memory."""
    width = element_bytes(c.lhs.element)
    if width != 4:
        return False
    tilings = {rewrite: tile_contraction(c, width, only_along_k=True, rewrite=rewrite) for rewrite in (True, False)}
    sides = [side for t in tilings.values() if t is not None for side in ((c.lhs, t.lhs, t.m, t.k), (c.rhs, t.rhs, t.n, t.k))]
    return any(o.prologue is None and (s.raw is not None or s.copied) and r.stride(o.access) == 1 != k.stride(o.access) for o, s, r, k in sides)


def _order_of(op: ir.Operation, number: int) -> _Order | None:
    """The order in which a factor is a matrix: rows as in the result, terms as in the other factor; None where it has that, or is not read as it is."""
    value, map_, other = inputs(op)[number], maps(op)[number], maps(op)[1 - number]
    if not isinstance(value, ir.BlockArgument) or use_count(value) > 1:
        return None
    read, there = (_plain(m) for m in (map_, other))
    written = _plain(maps(op)[len(inputs(op))])
    if read is None or there is None or written is None or value in outputs(op):
        return None
    kind = kinds(op)
    rows = [d for d in written if d in read]
    terms = [d for d in there if d in read and kind[d] == REDUCTION]
    if sorted(rows + terms) != sorted(read) or rows + terms == read:
        return None
    sizes = loop_sizes(op)
    return _Order(value.arg_number, (*rows, *terms), map_, tuple(sizes[d] for d in (*rows, *terms)))


def _plain(map_: ir.AffineMap) -> list[int] | None:
    """The loops of a map that are its results, each once."""
    if not all(isinstance(e, ir.AffineDimExpr) for e in map_.results):
        return None
    found = [ir.AffineDimExpr(e).position for e in map_.results]
    return found if len(set(found)) == len(found) else None


def _with_order(kernel: func.FuncOp, order: _Order) -> func.FuncOp:
    """The kernel with the factor in this order, in front of it and of its name."""
    types = list(kernel.type.inputs)
    types[order.number] = ir.RankedTensorType.get(order.shape, types[order.number].element_type)
    with ir.InsertionPoint(kernel.operation):
        new = func.FuncOp(f"{kernel.name.value}_ordered", (types, list(kernel.type.results)), visibility="private")
    for attribute in kernel.attributes:
        if attribute not in ("sym_name", "function_type", "sym_visibility"):
            new.attributes[attribute] = kernel.attributes[attribute]
    block = kernel.regions[0].blocks[0]
    known = dict(zip(block.arguments, new.add_entry_block().arguments))
    with ir.InsertionPoint(new.regions[0].blocks[0]):
        for op in block.operations:
            clone = clone_onto(op.operation, known)
            if block.arguments[order.number] in list(op.operands):
                indexing = maps(clone)
                place = list(op.operands).index(block.arguments[order.number])
                indexing[place] = projection(order.loops, indexing[place].n_dims)
                clone.attributes["indexing_maps"] = ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in indexing])
    return new


def _replace(call: ir.Operation, kernel: func.FuncOp, order: _Order, made: dict[tuple, ir.Value]) -> None:
    """Call the kernel that takes the factor in its order."""
    operands = list(call.operands)
    key = operands[order.number], order.loops, str(order.before)
    with ir.InsertionPoint(call), call.location:
        if key not in made:
            made[key] = _matrix(operands[order.number], order)
        operands[order.number] = made[key]
        replace_call(call, func.CallOp(kernel, operands))


def _matrix(value: ir.Value, order: _Order) -> ir.Value:
    """The tensor with its dimensions in the order of the loops."""
    count = len(order.loops)
    out = tensor.EmptyOp(list(order.shape), value.type.element_type).result
    read = projection([order.loops.index(d) for d in _plain(order.before)], count)
    indexing = [read, ir.AffineMap.get_identity(count)]
    return build([value], [out], indexing, [PARALLEL] * count, lambda a: [a[0]], ir.Location.current).results[0]
