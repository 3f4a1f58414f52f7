"""Write a computed operand, such as normalised rows, to memory first, where computing it again for each tile takes longer.

``fuse-contractions`` puts what is cheap into the contractions that read it, which is right of few rows: nothing is launched, and nothing written.  Of many
rows every column of tiles computes its factor again, in the time of the tensor core, and so does every other contraction that reads it.
"""

from collections import defaultdict
from dataclasses import dataclass
from math import inf

from inferno.element_sizes import bit_width, element_bytes
from inferno.mlir import clone_onto, func, ir, isolated_copy, tensor, users, walk
from inferno.passes.contraction import parse_fused
from inferno.passes.deduplicate_kernels import deduplicate_kernels
from inferno.passes.generics import (
    body, build, clone_body, dims, inputs, inverse, is_elementwise, is_generic, is_reduction, kinds, maps, permuted, substitute,
)
from inferno.passes.kernel_names import Names
from inferno.passes.outline_kernels import outline_program
from inferno.passes.programs import anonymous, callee, keep_precision, operations_in, programs, readers, root_of
from inferno.passes.shapes import function_of, shape
from inferno.passes.size_values import mixed
from inferno.passes.split_contractions import split_contractions
from inferno.schedule.analysis.accesses import sink_constants
from inferno.schedule.analysis.cost import MEMORY_RATE
from inferno.schedule.analysis.unchanged import unchanged
from inferno.schedule.assign import choose, kernels
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.product_times import product_time
from inferno.schedule.passes.call_times import elementwise_time
from inferno.schedule.passes.calls import may_change, new_kernel, replace_call
from inferno.schedule.passes.rewrite import hopper_for_products
from inferno.symbolic import product
from inferno.target import Target


_WIDEST, _STEPS = 256, 16  # columns of attention's queries and keys; kernels between scores and what is multiplied by their softmax
_CLEARLY = 0.02  # of a product's time, less of which is no reason to transpose its factor (an estimate)


@dataclass(frozen=True, eq=False)
class _Split:
    """A kernel ``without`` the operation that makes a factor, which reads ``numbers`` of its arguments; of these ``kept`` are read by others too, and those
    that are not read by it.  ``saved``: microseconds at each call.  ``maker`` holds that operation, its inputs being its arguments."""

    without: func.FuncOp
    maker: func.FuncOp
    numbers: tuple[int, ...]
    kept: tuple[int, ...]
    saved: float
    lies: bool  # in the order of what the factor is made of

    def time(self, joins: bool) -> float:
        """Microseconds that the factor takes by itself, or where it ``joins`` a kernel that reads what it is made of."""
        if not joins:
            return elementwise_time(self.maker)
        (factor,) = self.maker.type.results
        return product(factor.shape) * element_bytes(factor.element_type) / MEMORY_RATE


def split_operands(module: ir.Module, target: str, always: str = "") -> None:
    """Take what computes a factor out of kernels without a schedule, if that takes less time by the estimates.  Calls that compute the same factor share it,
    and have to save together what it takes.  Nothing for targets other than Hopper.  ``always``: "1" for wherever a generator takes what is left."""
    machine = hopper_for_products(module, target)
    if machine is None:
        return
    with module.context, ir.Location.unknown():
        whole: set[str] = set()
        while _split_once(module, machine, always == "1", whole):
            pass


def split_scores(module: ir.Module, target: Target) -> bool:
    """Take what computes a factor of scores out of their kernel, wherever the softmax of these is multiplied by something; whether there was any."""
    with module.context, ir.Location.unknown():
        changed, whole = False, set()
        while _split_once(module, target, True, whole, scores=True):
            changed = True
        return changed


def _split_once(module: ir.Module, target: Target, always: bool, whole: set[str], scores: bool = False) -> bool:
    """Write one factor of each kernel, or if ``scores`` of each that makes scores, first: whether there are any.  ``whole``: texts of kernels that are known
    to stay as they are."""
    names, changed, every, found = Names(module), False, {k.name.value: k for k in kernels(module)}, {}
    if scores:
        making = {callee(c) for p in programs(module) for c in walk(p, "func.call") if _makes_scores(c, every)}
        every = {name: k for name, k in every.items() if name in making}
    for name, kernel in every.items():
        text = anonymous(kernel)
        if text in whole:
            continue
        with unchanged(kernel):
            split = _split(module, kernel, target, always) if may_change(kernel) else None
        if split is None:
            whole.add(text)
        else:
            found[name] = split
    texts = {name: _text(split.maker) for name, split in found.items()}
    for program in programs(module) if found else ():
        groups = defaultdict(list)
        for call in [c for c in walk(program, "func.call") if callee(c) in found]:
            split = found[callee(call)]
            groups[tuple(call.operands[n] for n in split.numbers), texts[callee(call)]].append(call)
        for calls in groups.values():
            # (which other values than in the groups' keys where a group before has replaced what these read)
            largest = max((calls[0].operands[n] for n in found[callee(calls[0])].numbers), key=lambda v: product(v.type.shape))
            joins = any(u.name == "func.call" and _reduces(every.get(callee(u))) for u in readers(root_of(largest)))
            if always or sum(found[callee(c)].saved for c in calls) > found[callee(calls[0])].time(joins):
                _replace(calls, found)
                changed = True
        if changed:
            outline_program(program, names)
    called = {callee(c) for c in walk(module.operation, "func.call")}
    for name, split in found.items():
        split.maker.operation.erase()
        for kernel in (every[name], split.without):
            if kernel.name.value not in called:
                kernel.operation.erase()
    if changed:
        deduplicate_kernels(module)
    return changed


def _makes_scores(call: ir.Operation, every: dict[str, func.FuncOp]) -> bool:
    """Whether a call makes scores whose softmax multiplies something and is nothing else: attention's kernel takes queries and keys as they lie in memory."""
    kernel = every.get(callee(call))
    c = parse_contraction(kernel) if kernel is not None else None
    if c is None or c.is_reduction or not isinstance(c.K, int) or c.K > _WIDEST or any(o.element.width != 16 for o in (c.lhs, c.rhs)):
        return False
    pending, seen, products = [call], set(), set()
    while pending and len(seen) < _STEPS:
        for reader in {u for r in pending.pop(0).results for u in readers(r)} - seen - products:
            if reader.name != "func.call" or callee(reader) not in every:
                return False
            if any(parse_fused(o) is not None for o in walk(every[callee(reader)], "linalg.generic")):
                products.add(reader)
            else:
                seen.add(reader)
                pending.append(reader)
    made = [every[callee(u)] for u in seen]
    one = not pending and len(products) == 1
    return one and any(walk(k, "math.exp") for k in made) and any(walk(k, "arith.maximumf", "arith.maxnumf") for k in made)


def _reduces(kernel: func.FuncOp | None) -> bool:
    """Whether a kernel reduces rows, say, and is no product: fuse-reductions adds maps of what it reads to it."""
    if not may_change(kernel):
        return False
    c = parse_contraction(kernel)
    return (c is None or c.is_reduction) and any(is_reduction(op) for op in walk(kernel, "linalg.generic"))


def _text(maker: func.FuncOp) -> str:
    """What it computes: its text but for its name."""
    return f"{maker.type} " + anonymous(maker).partition("\n")[2]


def _split(module: ir.Module, kernel: func.FuncOp, target: Target, always: bool) -> _Split | None:
    """The kernel without what makes one of its factors."""
    c = parse_contraction(kernel)
    if c is None or c.is_reduction or (c.lhs.prologue is None and c.rhs.prologue is None):
        return None
    before = product_time(kernel, target)
    if before is None and choose(kernel, target).generator == "universal":
        before = inf  # a factor of which places tell what counts, say, which kernels of products compute of few shapes
    best = None
    for lies in (True, False) if before is not None else ():
        holder = isolated_copy(kernel)
        split_contractions(holder)
        copy = holder.body.operations[0]
        made = [o for o in operations_in(copy) if _makes_factor(o)]
        for op in [_as_it_lies(op) for op in made] if lies else made:
            if op is None:
                continue
            kept = _kept(copy, op)
            without = _without(module, kernel, copy, op, kept)
            time = product_time(without, target) if parse_contraction(without) is not None else None
            if time is None or (time >= before and not always) or (best is not None and before - time <= best.saved + _CLEARLY * time * best.lies):
                without.operation.erase()
                continue
            if best is not None:
                best.without.operation.erase()
                best.maker.operation.erase()
            best = _Split(without, _maker(module, kernel, op), tuple(v.arg_number for v in inputs(op)), kept, before - time, lies)
    return best


def _as_it_lies(op: ir.Operation) -> ir.Operation | None:
    """The same in the order of the largest tensor that it reads: nothing is transposed, and contractions that read a factor in two orders share it.
    None where it is in that order."""
    whole = [(v, d) for v, m in zip(inputs(op), maps(op)) if m.is_permutation and (d := dims(m)) is not None]
    order = max(whole, key=lambda x: bit_width(x[0].type.element_type), default=(None, None))[1]
    if order is None or list(order) == sorted(order):
        return None
    value, loops = op.results[0], [ir.AffineDimExpr.get(d) for d in inverse(order)]
    with ir.InsertionPoint(op), op.location:
        sizes = shape(value)
        empty = tensor.EmptyOp(mixed([sizes[d] for d in order], function_of(op)), value.type.element_type).result
        made = build(
            inputs(op), [empty], [substitute(m, loops, len(loops)) for m in (*maps(op)[:-1], permuted(maps(op)[-1], order))],
            kinds(op), lambda given: clone_body(body(op), given, loops), op.location,
        )
    (reader,) = users(value)
    indexing = [permuted(m, order) if v == value else m for v, m in zip(reader.operands, maps(reader))]
    reader.attributes["indexing_maps"] = ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in indexing])
    reader.operation.replace_uses_of_with(value, made.results[0])
    op.erase()
    return made


def _makes_factor(op: ir.Operation) -> bool:
    """Whether it is elementwise, reads the kernel's arguments alone, and only the contraction reads it."""
    if not is_generic(op) or len(op.results) != 1 or not is_elementwise(op) or not inputs(op):
        return False
    if any(not isinstance(v, ir.BlockArgument) for v in inputs(op)):
        return False
    readers = list(users(op.results[0]))
    return len(readers) == 1 and is_reduction(readers[0]) and sink_constants(op)


def _kept(kernel: func.FuncOp, made: ir.Operation) -> tuple[int, ...]:
    """The numbers of the kernel's inputs that something else reads than what is ``made``, or nothing."""
    arguments = list(kernel.entry_block.arguments)[: len(kernel.type.inputs) - len(kernel.type.results)]
    return tuple(a.arg_number for a in arguments if {u.operation for u in users(a)} != {made})


def _without(module: ir.Module, kernel: func.FuncOp, copy: func.FuncOp, made: ir.Operation, kept: tuple[int, ...]) -> func.FuncOp:
    """The kernel's split form with what is ``made`` as an argument behind those that are ``kept``, in front of the destinations."""
    results = list(kernel.type.results)
    given = [kernel.type.inputs[n] for n in kept]
    new = new_kernel(module, kernel, kernel.name.value, [*given, made.results[0].type], results)
    keep_precision(new, kernel)
    before, arguments = list(copy.entry_block.arguments), list(new.entry_block.arguments)
    known = dict(zip([*(before[n] for n in kept), made.results[0], *before[-len(results):]], arguments))
    with ir.InsertionPoint(new.entry_block):
        for op in copy.entry_block.operations:
            if op.operation != made:
                clone_onto(op.operation, known)
    return new


def _maker(module: ir.Module, before: func.FuncOp, op: ir.Operation) -> func.FuncOp:
    """A function of what the operation reads and writes, which is all that it does."""
    maker = new_kernel(module, before, f"{before.name.value}_factor", [v.type for v in inputs(op)], [op.results[0].type])
    known = dict(zip(op.operands, maker.entry_block.arguments))
    with ir.InsertionPoint(maker.entry_block):
        func.ReturnOp(clone_onto(op, known).results)
    return maker


def _replace(calls: list[ir.Operation], found: dict[str, _Split]) -> None:
    """Make the factor of these calls in front of the first one."""
    first = found[callee(calls[0])]
    with ir.InsertionPoint(calls[0]), calls[0].location:
        op = first.maker.entry_block.operations[0].operation
        type_ = op.results[0].type
        empty = tensor.EmptyOp(list(type_.shape), type_.element_type).result
        factor = clone_onto(op, dict(zip(op.operands, [*(calls[0].operands[n] for n in first.numbers), empty]))).results[0]
    for call in calls:
        split, operands = found[callee(call)], list(call.operands)
        with ir.InsertionPoint(call), call.location:
            replace_call(call, func.CallOp(split.without, [*(operands[n] for n in split.kept), factor, *operands[-len(call.results):]]))
