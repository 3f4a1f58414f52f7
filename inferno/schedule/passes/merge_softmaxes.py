"""On a GPU, compute the maximum of some elements and the sum of exponentials below it in one kernel that reads a tensor once, and let all that reads the
exponentials compute them.

Where neighbours in memory are different sums (softmax along the first dimension) a cluster of blocks can keep all of its rows and read them once
(``columns``), but of long rows, which are few side by side, few blocks have much to do, and they wait for each other.  Sums that are cut into chunks read
as fast as memory can, and what follows reads the tensor once more, together with what else it reads.  Microseconds on an H100, as one kernel of columns
and so: softmax of 74850x222 in float16 160 and 57, of 35286x578 171 and 75, of 11075x64 11.1 and 7.1; of 3000x3000 26.4 and 21.1; in bf16 of 1500x12000 59
and 41, of 100000x16 21.5 and 11.8, of 8192x8192 146 and 147, of 2000x1000 9.2 and 9.5, of 2048x16384 69 and 77; in float32 of 6000x2000 59 and 55;
logsumexp of 20000x512 in bf16 19.9 and 11.2.  But where a block's rows are in registers, as one kernel: softmax of 150x131072 in bf16 32 and 45, of
1024x32768 in float32 113 and 141, of 4096x64 6.7 and 7.4.
"""

from math import inf, prod

from inferno.element_sizes import bit_width
from inferno.mlir import arith, clone_onto, func, ir, is_read, linalg, math, owner, tensor, users
from inferno.passes.generics import PARALLEL, body, build, inputs, is_reduction, kinds, maps
from inferno.passes.programs import callee, readers, root_of
from inferno.schedule.analysis.accesses import loop_sizes
from inferno.schedule.passes.calls import empty_like, generics_of, in_order, inputs_of, may_change, new_kernel, tell_sources
from inferno.schedule.passes.edges import Edges, edges_of, wait_for_each_other
from inferno.schedule.passes.kernel_times import alone
from inferno.schedule.passes.merge_calls import joint_kernel
from inferno.schedule.passes.recompute_maps import compute_first, pairs_of, replace_reader
from inferno.schedule.passes.rewrite import merge_in, rewrite_calls
from inferno.schedule.passes.softmax_calls import Softmax, find_softmax, is_largest, term_in
from inferno.schedule.passes.transpose_results import transpose_results
from inferno.schedule.reductions.exponential_sums import take_term
from inferno.schedule.reductions.reductions import read
from inferno.schedule.rows import columns, grid_rows, rows, transposed_results, transposed_rows
from inferno.schedule.rows.row_work import body_instructions, busy
from inferno.target import SECTOR, Target, find_target

_LEAST = 1 << 17  # points: of fewer, launches are what kernels take


def merge_softmaxes(module: ir.Module, target: str, always: str = "") -> None:
    """Rewrite ``@main`` and its kernels; nothing for the CPU.  ``always``: "1" for wherever that can be."""
    machine = find_target(target)
    if machine.kind != "nvptx":
        return

    def merge(main: func.FuncOp, kernels: dict[str, func.FuncOp]) -> bool:
        def rewrite(call: ir.Operation) -> bool:
            found = find_softmax(module, kernels, call) if is_largest(kernels.get(callee(call))) else None
            return found is not None and _merge(module, kernels, found, machine, always == "1")

        return rewrite_calls(main, rewrite)

    merge_in(module, merge)


def _merge(module: ir.Module, kernels: dict[str, func.FuncOp], found: Softmax, target: Target, always: bool) -> bool:
    """Put the one kernel in the place of the largest's, if that pays; whether it was."""
    readers = _computing(module, kernels, found)
    divisions = _divisions(found, readers)
    sums = _sums_kernel(module, kernels, found, bool(divisions))
    c = read(sums, target)
    pays = c is not None and (always or (c.count * c.length >= _LEAST and _pays(module, kernels, found, sums, readers, c.along, target)))
    if not pays:
        for new in (sums, *(kernel for _, kernel in readers)):
            new.operation.erase()
        return False
    kernels[sums.name.value] = sums
    for op in divisions:
        with ir.InsertionPoint(op), op.location:
            op.results[0].replace_all_uses_with(arith.mulf(*op.operands))
        op.erase()
    with ir.InsertionPoint(found.largest), found.largest.location:
        made = func.CallOp(sums, [*inputs_of(found.largest), *empty_like([found.largest.results[0], found.total.results[0]])]).operation
    tell_sources(made, [found.largest, found.total])
    known: dict[ir.Value, ir.Value] = {found.largest.results[0]: made.results[0], found.total.results[0]: made.results[1]}
    for edges, kernel in readers:
        replace_reader(edges, kernel, known)
        kernels[kernel.name.value] = kernel
    for call, result in ((found.largest, made.results[0]), (found.total, made.results[1])):
        call.results[0].replace_all_uses_with(result)
    found.total.erase()
    if found.exponentials is not None and not is_read(found.exponentials.results[0]):
        found.exponentials.erase()
    found.largest.erase()
    return True


def _computing(module: ir.Module, kernels: dict[str, func.FuncOp], found: Softmax) -> list[tuple[Edges, func.FuncOp]]:
    """Exponentials and what reads them, each with the kernel that computes both, where that can be."""
    made = []
    for reader in found.readers:
        if reader.name != "func.call" or found.exponentials.results[0] not in inputs_of(reader) or not may_change(kernels.get(callee(reader))):
            continue
        if len(generics_of(kernels[callee(reader)])) != 1:
            continue
        (edges,) = pairs_of(found.exponentials, [reader])
        kernel = joint_kernel(module, kernels, edges)
        if compute_first(kernel) and len(generics_of(kernel)) == 1:  # which does not gather exponentials by their places
            made.append((edges, kernel))
        else:
            kernel.operation.erase()
    return made


def _divisions(found: Softmax, readers: list[tuple[Edges, func.FuncOp]]) -> list[ir.Operation]:
    """Those by the sum, if nothing else is done with it: a product with its reciprocal, of which there is one a column, is one instruction of each point.  (The
    largest's own exponential is 1, so no sum is less.)"""
    total, divisions = found.total.results[0], []
    if found.base is not None or any(u not in [edges.calls[-1] for edges, _ in readers] for u in users(total)):
        return []
    for edges, kernel in readers:
        (generic,) = generics_of(kernel)
        for argument in (kernel.entry_block.arguments[n] for n, v in enumerate(edges.captured) if v == total):
            points = [p for v, p in zip(inputs(generic), body(generic).arguments) if v == argument]
            taken = [op for p in points for op in users(p)]
            if any(u != generic for u in users(argument)) or any(op.name != "arith.divf" or op.operands[0] in points for op in taken):
                return []
            divisions += taken
    return list(dict.fromkeys(divisions))


def _pays(
    module: ir.Module, kernels: dict[str, func.FuncOp], found: Softmax, sums: func.FuncOp, readers: list[tuple[Edges, func.FuncOp]],
    along: bool, target: Target,
) -> bool:
    """Whether the kernels take less time than one that keeps its rows, or than those that there are."""
    left = found.exponentials is not None and len(readers) < len(found.readers)
    apart = alone(sums, target) + sum(_computing_time(k, target) for _, k in readers) + (alone(kernels[callee(found.exponentials)], target) if left else 0)
    now = [*found.calls, *(edges.calls[-1] for edges, _ in readers)]
    front = _in_front(kernels, now)
    for more in [front, []] if front else [[]]:
        held, whole = (_by_rows if along else _by_columns)(module, kernels, [*more, *now], target)
        if held:
            return False
        if whole is None:
            whole = _transposed(module, kernels, [*more, *now], target)
        if whole is not None:
            return apart + sum(alone(kernels[callee(c)], target) for c in more) < whole
    return apart < sum(alone(kernels[callee(c)], target) for c in now)


def _in_front(kernels: dict[str, func.FuncOp], calls: list[ir.Operation]) -> list[ir.Operation]:
    """Calls that make what these alone read, or numbers of their rows, out of tensors that one of them reads, as a norm in front of a softmax: they may be one
    kernel with it, which reads rows once."""
    count, every, changed = prod(calls[0].results[0].type.shape), list(calls), True
    while changed:
        read = dict.fromkeys(root_of(v) for c in every for v in inputs_of(c))
        able = [c for c in map(owner, read) if c is not None and c not in every and c.name == "func.call" and may_change(kernels.get(callee(c)))]
        changed = [c for c in able if _is_theirs(c, every, count) and not (_reduces(kernels[callee(c)]) and _large(c, count).isdisjoint(read))]
        every += changed
    found = [c for c in every if c not in calls]
    return [] if wait_for_each_other(set(every)) else in_order(found)


def _is_theirs(call: ir.Operation, calls: list[ir.Operation], count: int) -> bool:
    return all(prod(r.type.shape) <= count or all(u in calls for u in readers(r)) for r in call.results)


def _large(call: ir.Operation, count: int) -> set[ir.Value]:
    """Tensors that a call reads of more than so many elements."""
    return {root_of(v) for v in inputs_of(call) if prod(v.type.shape) > count}


def _reduces(kernel: func.FuncOp) -> bool:
    return any(is_reduction(g) for g in generics_of(kernel))


def _computing_time(kernel: func.FuncOp, target: Target) -> float:
    """Microseconds of a kernel that computes exponentials: of a divergence of two softmaxes, whose terms have logarithms as well, memory waits for these."""
    (generic,) = generics_of(kernel)
    return max(alone(kernel, target), busy(prod(loop_sizes(generic)) * body_instructions(generic), target))


def _by_columns(module: ir.Module, kernels: dict[str, func.FuncOp], calls: list[ir.Operation], target: Target) -> tuple[bool, float | None]:
    """Whether one kernel of all calls has its rows in registers, and its microseconds; None where there is none.  Rows that are given back transposed have
    whole sectors: of 96768 rows of 32 points one kernel took an H200 6.9 us in float32 and 8.0 in bf16, and two 11.4 and 11.9, of 5 points 7.8 and 4.7."""
    kernel = _together(module, kernels, calls)
    c, s = columns.read(kernel, target), columns.choose(kernel, target)
    kernel.operation.erase()
    if c is None or s is None:
        return False, None
    held = s.held and all(prod(c.run_sizes) * bit_width(a.element) >= 8 * SECTOR for a in transposed_results.apart(c))
    return held, columns.longest_time(s, c, target)


def _by_rows(module: ir.Module, kernels: dict[str, func.FuncOp], calls: list[ir.Operation], target: Target) -> tuple[bool, float | None]:
    """The same of long rows, which a block, a cluster or all blocks keep."""
    kernel = _together(module, kernels, calls)
    read = ((form, form.read(kernel, target)) for form in (grid_rows, rows))
    form, c = next((found for found in read if found[1] is not None), (None, None))
    held, time = False, None
    if form is not None:
        s = form.pick(c, target)
        held, time = form is grid_rows or s.cluster == 1, form.estimate(s, c, target)
    kernel.operation.erase()
    return held, time


def _transposed(module: ir.Module, kernels: dict[str, func.FuncOp], calls: list[ir.Operation], target: Target) -> float | None:
    """Microseconds of one kernel that goes over rows of which some tensors have neighbours beside each other and others points; None where there is none."""
    kernel = _together(module, kernels, calls)
    c = transposed_rows.read(kernel, target)
    kernel.operation.erase()
    return None if c is None else transposed_rows.estimate(transposed_rows.pick(c, target), c, target)


def _together(module: ir.Module, kernels: dict[str, func.FuncOp], calls: list[ir.Operation]) -> func.FuncOp:
    """All calls as one kernel, to be estimated."""
    kernel = joint_kernel(module, kernels, edges_of(in_order(calls), views=True))
    with kernel.context:
        transpose_results(kernel)
    return kernel


def _sums_kernel(module: ir.Module, kernels: dict[str, func.FuncOp], found: Softmax, reciprocal: bool) -> func.FuncOp:
    """The largest, and the sum or its reciprocal: where the largest is infinite and nothing replaces that, the sum is no number."""
    kernel = kernels[callee(found.largest)]
    (first,) = generics_of(kernel)
    result = found.largest.results[0].type
    new = new_kernel(module, kernel, "reduce_exponentials", [v.type for v in inputs_of(found.largest)], [result, result])
    values, block, running = list(new.entry_block.arguments), body(first), body(first).arguments[len(inputs(first))]

    def fill(arguments: list[ir.Value]) -> list[ir.Value]:
        known, term = dict(zip(block.arguments, arguments)), term_in(first)
        for op in [o.operation for o in block.operations]:
            if op.name != "linalg.yield" and running not in list(op.operands):
                for constant in [v for v in op.operands if v not in known and owner(v) is not None and owner(v).block != block]:
                    known[constant] = owner(constant).clone().results[0]
                clone_onto(op, known)
        return take_term(known[term], *arguments[-2:])

    def correct(arguments: list[ir.Value]) -> list[ir.Value]:
        largest, total, *_ = arguments
        f32 = largest.type
        infinite = arith.cmpf(arith.CmpFPredicate.OEQ, math.absf(largest), arith.constant(f32, ir.FloatAttr.get(f32, inf)))
        total = arith.select(infinite, arith.constant(f32, ir.FloatAttr.get(f32, float("nan"))), total)
        return [largest, arith.divf(arith.constant(f32, 1.0), total) if reciprocal else total]

    to = values[-2:]
    with ir.InsertionPoint(new.entry_block), first.location:
        given = [values[ir.BlockArgument(v).arg_number] for v in inputs(first)]
        starts = [arith.constant(result.element_type, ir.FloatAttr.get(result.element_type, x)) for x in (-inf, 0.0)]
        begun = to if found.base is not None else [tensor.EmptyOp(list(result.shape), result.element_type).result for _ in to]
        every = [*maps(first)[:-1], maps(first)[-1], maps(first)[-1]]
        made = build(given, [linalg.fill(x, outs=[v]) for x, v in zip(starts, begun)], every, kinds(first), fill, first.location)
        if found.base is None:
            identity = ir.AffineMap.get_identity(result.rank)
            made = build(list(made.results), to, [identity] * 4, [PARALLEL] * result.rank, correct, first.location)
        func.ReturnOp(list(made.results))
    return new
