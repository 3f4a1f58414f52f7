"""Change the layout of gathered tensors, or of a gather's result, where both differ: of a resized image with channels last, whose input has channels first, a
thread that stores eight channels reads one element of each of eight sectors, for every tap.

Such tensors are transposed in front of the kernel, which then reads and writes whole vectors; so are its other inputs that lie so, for tiles of shared memory
are for kernels that read at no computed places.  Where that is more than the result, as of an image that becomes smaller, the kernel computes in the order
of its inputs, and the result is transposed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, prod

from inferno.errors import PassError
from inferno.mlir import clone_onto, func, ir, owner, tensor, walk
from inferno.passes.deduplicate_kernels import deduplicate_kernels
from inferno.passes.generics import PARALLEL, body, build, clone_body, dims, inputs, is_copy, kinds, maps
from inferno.passes.kernel_names import Names
from inferno.passes.outline_kernels import outline_program
from inferno.passes.programs import callee, main_and_kernels, operations_in, programs
from inferno.schedule.analysis.cost import tensor_bytes
from inferno.schedule.maps.uncoalesced_arguments import Uncoalesced, read_time, reads_in_order, uncoalesced_arguments
from inferno.schedule.passes.calls import calls_in, may_change
from inferno.schedule.passes.split_pieces import generic_of, split, transposed_by_tiles
from inferno.target import find_target

# Bytes that a transpose moves in a µs, and µs that another launch takes.
_MOVED, _LAUNCH = 2.5e6, 2.0
_SURE = 1.5  # times as long as what stands for it that uncoalesced reads have to take


@dataclass(frozen=True)
class _Plan:
    """What is to be transposed in front of a kernel; or ``order``: that of loops in which it had better compute."""

    uncoalesced: tuple[Uncoalesced, ...]
    order: list[int] | None = None


def order_tables(module: ir.Module, target: str, always: str = "0") -> None:
    """Rewrite the programs; ``always=1`` does not ask what it saves, nor what launches take."""
    if always not in ("0", "1"):
        raise PassError(f"order-tables: always is 0 or 1, not {always}")
    if find_target(target).kind != "nvptx":
        return
    kernels = main_and_kernels(module)[1]
    plans = {name: plan for name, k in kernels.items() if (plan := _plan(k, always == "1")) is not None}
    if not plans:
        return
    with module.context, ir.Location.unknown():
        names, left = Names(module), set()
        for program in programs(module):
            calls = [o for o in calls_in(program) if callee(o) in plans]
            changed = [c for c in calls if _is_free(c.operands[len(c.operands) - 1]) and _follows_numbers(c, plans[callee(c)])]
            left |= {callee(c) for c in calls if c not in changed}
            known = _transposes(program, kernels)
            for call in changed:
                kernel, plan, old = kernels[callee(call)], plans[callee(call)], call.results[0]
                behind = {order: known.pop((v, order)) for v, order in list(known) if v == old}  # of what is another value then
                new = split(call, kernel, plan.order) if plan.order is not None else _order(call, kernel, plan.uncoalesced, known)
                known.update({(new, order): made for order, made in behind.items()})
            if changed:
                outline_program(program, names)
        for name in set(plans) - left:
            kernels[name].operation.erase()
    deduplicate_kernels(module)


def _is_free(value: ir.Value) -> bool:
    made = owner(value)
    return made is not None and made.name == "tensor.empty"


def _follows_numbers(call: ir.Operation, plan: _Plan) -> bool:
    """Whether the tables by which the call would read neighbours are made by kernels that read nothing else."""
    return all(_is_of_numbers(call.operands[n]) for s in plan.uncoalesced for n in s.tables)


def _is_of_numbers(value: ir.Value) -> bool:
    made = owner(value)
    return _is_free(value) or (made is not None and made.name == "func.call" and all(map(_is_of_numbers, made.operands)))


def _transposes(program: func.FuncOp, kernels: dict[str, func.FuncOp]) -> dict[tuple[ir.Value, tuple[int, ...]], ir.Value]:
    """What the program has in another order already."""
    found = {}
    for call in (o for o in operations_in(program) if o.name == "func.call" and len(o.operands) == 2):
        generic = generic_of(kernels[callee(call)]) if callee(call) in kernels and may_change(kernels[callee(call)]) else None
        if generic is None or not is_copy(generic) or not all(m.is_permutation for m in maps(generic)):
            continue
        read, written = (dims(m) for m in maps(generic))
        found.setdefault((call.operands[0], tuple(read.index(d) for d in written)), call.results[0])
    return found


def _plan(kernel: func.FuncOp, always: bool) -> _Plan | None:
    """None where a kernel is best as it is."""
    generic = generic_of(kernel, slices=True) if may_change(kernel) else None
    if generic is None or not walk(generic, "tensor.extract") or transposed_by_tiles(kernel):
        return None
    loops, type_ = dims(maps(generic)[-1]), generic.results[0].type
    uncoalesced = uncoalesced_arguments(kernel, generic)
    if not uncoalesced:
        return None

    def moving(types: Sequence[ir.Type]) -> float:
        return sum(2 * tensor_bytes(t) / _MOVED + (0.0 if always else _LAUNCH) for t in types)

    arguments = kernel.entry_block.arguments
    before, behind = moving([arguments[s.argument].type for s in uncoalesced]), moving([type_])
    before = inf if any(s.short for s in uncoalesced) or generic_of(kernel) is None else before
    along = {s.along for s in uncoalesced}
    own = len(along) == 1 and not reads_in_order(kernel, generic, loops[-1], {s.argument for s in uncoalesced}, prod(type_.shape))
    least = min(before, behind) if own else before
    if least == inf or (not always and read_time(uncoalesced) < _SURE * least):
        return None
    if own and behind < before:
        inner = along.pop()
        return _Plan(tuple(uncoalesced), [d for d in loops if d != inner] + [inner])
    return _Plan(tuple(uncoalesced))


def _order(
    call: ir.Operation, kernel: func.FuncOp, uncoalesced: tuple[Uncoalesced, ...], transposed: dict[tuple[ir.Value, tuple[int, ...]], ir.Value],
) -> ir.Value:
    """The kernel's operation in the place of its call, with inputs in other orders: its result."""
    known, orders, generic = dict(zip(kernel.entry_block.arguments, call.operands)), {}, generic_of(kernel)
    with ir.InsertionPoint(call), call.location:
        for s in uncoalesced:
            value = call.operands[s.argument]
            key = value, s.order
            if key not in transposed or not owner(transposed[key]).is_before_in_block(call):
                transposed[key] = _transpose(value, s.order)
            known[kernel.entry_block.arguments[s.argument]] = transposed[key]
            orders[transposed[key]] = s.order
        for op in operations_in(kernel)[:-1]:
            if op == generic:
                _clone(op, known, orders)
            else:
                clone_onto(op, known)
    made = known[generic.results[0]]
    call.results[0].replace_all_uses_with(made)
    call.erase()
    return made


def _clone(generic: ir.Operation, known: dict[ir.Value, ir.Value], orders: dict[ir.Value, tuple[int, ...]]) -> None:
    """The generic at the insertion point, reading tensors in their ``orders``."""
    count, given = len(inputs(generic)), [known.get(v, v) for v in generic.operands]
    indexing = [ir.AffineMap.get(m.n_dims, 0, [m.results[d] for d in orders[v]]) if v in orders else m for v, m in zip(given, maps(generic))]
    made = build(given[:count], given[count:], indexing, kinds(generic), lambda a: clone_body(body(generic), a), generic.location)
    for op in walk(made, "tensor.extract"):
        table, place = known.get(op.operands[0], op.operands[0]), list(op.operands)[1:]
        with ir.InsertionPoint(op), op.location:
            found = tensor.extract(table, [place[d] for d in orders[table]] if table in orders else place)
        op.results[0].replace_all_uses_with(found)
        op.erase()
    for op in walk(made):
        for i, v in enumerate(op.operands):
            if op != made and v in known:
                op.operands[i] = known[v]
    known[generic.results[0]] = made.results[0]


def _transpose(value: ir.Value, order: tuple[int, ...]) -> ir.Value:
    sizes = [value.type.shape[d] for d in order]
    out = tensor.EmptyOp(sizes, value.type.element_type).result
    back = ir.AffineMap.get_permutation([order.index(d) for d in range(len(order))])
    return build([value], [out], [back, ir.AffineMap.get_identity(len(order))], [PARALLEL] * len(order), lambda a: a[:1], ir.Location.current).results[0]
