"""Move a batch dimension that is innermost in memory outermost, where that pays: ``einsum("ikc,jkc->ijc")``, AlphaFold's triangle updates.

Neighbours in memory are of different products then, so who gathers a tile for the tensor core reads one element of each sector of memory, and who writes
one's results writes one.  Kernels that transpose tensors go over tiles of both sides, and move whole sectors: factors are transposed in front, results behind.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from inferno.element_sizes import element_bytes
from inferno.mlir import erase_dead, func, ir, linalg, owner, tensor, walk
from inferno.passes.affine import projection
from inferno.passes.deduplicate_kernels import deduplicate_kernels
from inferno.passes.generics import (
    PARALLEL, body, build, clone_body, dims, inputs, is_reduction, keep_attributes, kinds, loop_sizes, maps, outputs, permuted, use_count,
)
from inferno.passes.kernel_names import Names
from inferno.passes.outline_kernels import outline_program
from inferno.passes.programs import callee, main_and_kernels, operations_in, programs, returned, wants_library
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.analysis.cost import MEMORY_RATE, accessed_bytes, tensor_bytes
from inferno.schedule.assign import choose
from inferno.schedule.matmul.contraction import Contraction
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.passes.calls import inputs_of, may_change
from inferno.schedule.passes.rewrite import erase_unused
from inferno.schedule.spaces import estimate_of
from inferno.target import Target, find_target

_GENERATORS = ("wgmma", "mma", "bf16x6", "simt")  # which bring tiles of one product; others may go over the batch
# On an H200, 128 products of 128x128x128 in bf16: 18.8 us for a factor of 2M elements by its launcher, 37 for products that gather both, and as much for ones
# that write 2M results apart: a sector of 32 bytes for each element, at the rate of memory and at half of it.
_SECTOR, _WRITTEN_RATE = 32, 2.2e6
_LAUNCH = 2.0  # microseconds of a kernel that transposes a tensor, beside its bytes (an estimate, as that of ``order-operands``)
_PAYS = 0.8  # of the time without, by estimates that are some percent off

Orders = dict[int, tuple[int, ...]]
"""By argument of a kernel, its dimensions in the order that they are to have."""


@dataclass(frozen=True)
class _Transposed:
    """A kernel that takes and gives some of its tensors in other orders."""

    kernel: func.FuncOp
    orders: Orders


def batches_first(module: ir.Module, target: str) -> None:
    """Rewrite ``@main`` and its kernels that have no schedule; nothing for the CPU, or where a library multiplies, which reads any strides."""
    machine = find_target(target)
    main, found = main_and_kernels(module)
    if machine.kind != "nvptx" or main is None or wants_library(module):
        return
    with module.context, ir.Location.unknown():
        names = Names(module)
        transposed = {n: t for n, k in found.items() if may_change(k) and (t := _transposed(k, machine, names)) is not None}
        if not transposed:
            return
        for program in programs(module):
            made: dict[tuple, ir.Value] = {}
            for call in [c for c in walk(program, "func.call") if callee(c) in transposed]:
                _replace(call, transposed[callee(call)], made)
            outline_program(program, names)
        erase_unused(module, main)
        deduplicate_kernels(module)


def _transposed(kernel: func.FuncOp, target: Target, names: Names) -> _Transposed | None:
    """The kernel with its batch outermost in all of its tensors; None where that does not pay."""
    c, op = parse_contraction(kernel), _only_generic(kernel)
    if c is None or op is None or c.varies or c.windows is not None or tuple(loop_sizes(op)) != tuple(c.sizes) or not c.batch.dims:
        return None
    apart = [a for a in _tensors(c) if _lies_innermost(a, c)]
    if not apart or (chosen := choose(kernel, target)).generator not in _GENERATORS:
        return None
    before = estimate_of(kernel, chosen, target)
    written = {d.access.argument for d in c.destinations}
    gathered = sum(_more(a, c) / (_WRITTEN_RATE if a.argument in written else MEMORY_RATE) for a in apart)
    best, least = None, _PAYS * (before + gathered) if before is not None else 0.0
    for orders in _orders(kernel, op, c, {a.argument for a in apart}):
        new = _with_orders(kernel, orders)
        after = estimate_of(new, choose(new, target), target)
        time = None if after is None else after + sum(_LAUNCH + 2 * tensor_bytes(kernel.type.inputs[n]) / MEMORY_RATE for n in orders)
        if time is None or time >= least:
            new.operation.erase()
            continue
        if best is not None:
            best.kernel.operation.erase()
        best, least = _Transposed(new, orders), time
    if best is not None:
        best.kernel.attributes["sym_name"] = ir.StringAttr.get(names.unique(kernel.name.value))
    return best


def _only_generic(kernel: func.FuncOp) -> ir.Operation | None:
    """The contraction, where it is all that a kernel is."""
    found = [o for o in operations_in(kernel) if o.name not in ("arith.constant", "tensor.empty", "linalg.fill", "func.return")]
    if len(found) != 1 or not is_reduction(found[0]):
        return None
    return found[0] if all(v in list(found[0].results) for v in returned(kernel)) else None


def _tensors(c: Contraction) -> list[Access]:
    """All that a contraction reads and writes, each once."""
    every = [*c.lhs.reads, *c.rhs.reads, *c.extras, *(d.access for d in c.destinations)]
    return list({a.argument: a for a in every}.values())


def _lies_innermost(access: Access, c: Contraction) -> bool:
    """Whether a tensor's innermost loop is one of the batch, and others are further out."""
    return any(access.strides[d] == 1 for d in c.batch.dims) and any(n != 1 and access.strides[d] > 1 for d, n in enumerate(c.sizes) if d not in c.batch.dims)


def _more(access: Access, c: Contraction) -> float:
    """Bytes of the sectors that a tensor's elements are in, where neighbours that are taken together lie apart, beside its own."""
    width = element_bytes(access.element)
    step = min(access.strides[d] for d, n in enumerate(c.sizes) if n != 1 and d not in c.batch.dims and access.strides[d] > 0) * width
    return accessed_bytes(access, c.sizes) * (min(_SECTOR, step) / width - 1)


def _orders(kernel: func.FuncOp, op: ir.Operation, c: Contraction, wanted: set[int]) -> list[Orders]:
    """The orders that tensors may get: the batch first and the rest as it is, or factors with their terms innermost; none where a tensor is no plain one."""
    kept, terms, left = {}, {}, set(wanted)
    for value, map_ in zip(op.operands, maps(op)):
        number, read = _argument(value), dims(map_)
        if number not in left:
            continue
        if read is None or len(set(read)) != len(read) or use_count(kernel.entry_block.arguments[number]) != 1:
            return []
        left.remove(number)
        kept[number] = _batch_first(read, c, ())
        terms[number] = _batch_first(read, c, c.k.dims)
    if left:
        return []  # something that is read otherwise
    return [kept, terms] if kept != terms else [kept]


def _argument(value: ir.Value) -> int | None:
    """The number of the kernel's argument that an operand is, or that is filled for it."""
    made = owner(value)
    if made is None:
        return value.arg_number
    return _argument(made.operands[1]) if made.name == "linalg.fill" else None


def _batch_first(read: Sequence[int], c: Contraction, last: Sequence[int]) -> tuple[int, ...]:
    """The dimensions of a tensor that these loops walk along: the batch's, others, and those of the loops that come ``last``."""
    rank = lambda d: 0 if d in c.batch.dims else 2 if d in last else 1  # noqa: E731
    return tuple(sorted(range(len(read)), key=lambda i: rank(read[i])))


def _with_orders(kernel: func.FuncOp, orders: Orders) -> func.FuncOp:
    """A copy of the kernel behind it, with tensors in these orders."""
    new = kernel.operation.clone(ip=ir.InsertionPoint(kernel.operation))
    new.attributes["sym_name"] = ir.StringAttr.get(f"{kernel.name.value}_transposed")
    block, op = new.entry_block, _only_generic(new)
    taken = [orders.get(_argument(v)) for v in op.operands]
    for number, order in orders.items():
        block.arguments[number].set_type(_type(block.arguments[number].type, order))
    indexing = [m if o is None else permuted(m, o) for m, o in zip(maps(op), taken)]
    with ir.InsertionPoint(op), op.location:
        outs = [v if o is None else _start(v) for v, o in zip(outputs(op), taken[len(inputs(op)):])]
        made = build(inputs(op), outs, indexing, kinds(op), lambda given: clone_body(body(op), given), op.location)
    keep_attributes(made, op)
    for old, result in zip(op.results, made.results):
        for use in list(old.uses):
            use.owner.operation.operands[use.operand_number] = result
    op.erase()
    erase_dead(operations_in(new))
    types = [a.type for a in block.arguments]
    new.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, types[len(types) - len(new.type.results):]))
    return new


def _start(value: ir.Value) -> ir.Value:
    """What a result begins with, of a destination that has another type now."""
    made = owner(value)
    return value if made is None else linalg.fill(made.operands[0], outs=[_start(made.operands[1])])


def _type(type_: ir.Type, order: Sequence[int]) -> ir.Type:
    return ir.RankedTensorType.get([type_.shape[i] for i in order], type_.element_type)


def _replace(call: ir.Operation, transposed: _Transposed, made: dict[tuple, ir.Value]) -> None:
    """Call the kernel that takes and gives tensors in its orders; calls that take one tensor in one order share the transposed one."""
    operands, count = list(call.operands), len(inputs_of(call))
    with ir.InsertionPoint(call), call.location:
        for number, order in transposed.orders.items():
            value = operands[number]
            if number >= count:
                type_ = _type(value.type, order)
                operands[number] = tensor.EmptyOp(list(type_.shape), type_.element_type).result
                continue
            if (value, order) not in made:
                type_ = _type(value.type, order)
                empty = tensor.EmptyOp(list(type_.shape), type_.element_type).result
                made[value, order] = _copy(value, empty, order)
            operands[number] = made[value, order]
        new = func.CallOp(transposed.kernel, operands)
        for name in call.attributes:
            if name not in ("callee", "operandSegmentSizes"):
                new.operation.attributes[name] = call.attributes[name]
        for i, result in enumerate(call.results):
            order = transposed.orders.get(count + i)
            back = new.results[i] if order is None else _copy(new.results[i], call.operands[count + i], [list(order).index(d) for d in range(len(order))])
            result.replace_all_uses_with(back)
    call.erase()


def _copy(value: ir.Value, out: ir.Value, order: Sequence[int]) -> ir.Value:
    """A tensor with its dimensions in this order, written to ``out``."""
    count = len(order)
    read = projection([list(order).index(d) for d in range(count)], count)
    return build([value], [out], [read, ir.AffineMap.get_identity(count)], [PARALLEL] * count, lambda a: [a[0]], ir.Location.current).results[0]
