"""The fused contraction: a multiply-add, what happens to its operands before and to its result after, as one generic.

    ^bb0(%a, %b, %bias, %acc):
      %p = mulf prologue(%a), prologue(%b)
      %s = addf %acc, %p
      %last = cmpi eq, linalg.index k, K - 1
      yield select(%last, epilogue(%s, %bias), %s)

Where K varies, ``%last`` is ``linalg.index k + 1 == K``: what a kernel knows by name is K itself.
Where accumulator and result differ in type there are two results, the accumulator, dead outside, and the value.  The form
is valid only where the reduction is not empty, and only walked in ascending order.  This module alone knows it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from inferno.mlir import arith, backward_slice, dim_of, ir, is_unread, linalg, makes, owner, tensor, users
from inferno.passes.generics import (
    Operands, PARALLEL, REDUCTION, body, build, clone_body, dims, inputs, inverse, is_elementwise, is_reduction, kinds, loop_sizes,
    loops_of, maps, outputs, substitute, yielded,
)
from inferno.passes.locations import merge
from inferno.passes.padding import zero_padding
from inferno.passes.programs import RESHAPES
from inferno.passes.shapes import function_of
from inferno.passes.shapes import number as size_of
from inferno.passes.size_values import mixed, sizes as tensor_sizes
from inferno.symbolic import Int, bounds

EXTENSIONS = {"arith.extf", "arith.extsi", "arith.extui"}
# On the multiplication of a convolution's sum (see ``mark-convolutions``): wherever its body goes, it says what it is.
CONVOLUTION = "inferno.convolution"
# On the multiplication of a sum of products of float32 numbers that is never rounded to TF32 (see ``mark-convolutions`` and ``keep-exact``).
EXACT = "inferno.exact"
# On a module that has such.
CONVOLUTIONS = "inferno.convolutions"
_MULTIPLY, _ADD = {"arith.mulf", "arith.muli"}, {"arith.addf", "arith.addi"}


@dataclass(frozen=True)
class FusedContraction:
    """The parts of a generic in this form.

    ``lhs``, ``rhs`` are the body's values that are multiplied, ``sum`` the new value of the accumulator, ``value`` what is
    yielded at the last step (None without an epilogue).  ``accumulator`` and ``result`` are numbers of results.
    """

    op: ir.Operation
    lhs: ir.Value
    rhs: ir.Value
    sum: ir.Value
    value: ir.Value | None
    accumulator: int
    result: int


_CONTRACTIONS = (
    "linalg.matmul", "linalg.batch_matmul", "linalg.matvec", "linalg.vecmat", "linalg.batch_matvec", "linalg.batch_vecmat", "linalg.dot",
)


def is_contraction(op: ir.Operation | None) -> bool:
    """Whether ``op`` is a plain multiply-add of two operands, at most extended from one type, over at least one reduction loop, which both walk along."""
    if not is_reduction(op) or len(inputs(op)) != 2 or len(op.results) != 1 or not sums_along_both(op):
        return False
    found = parse_fused(op)
    return found is not None and found.value is None and all(_is_plain(v, op) for v in (found.lhs, found.rhs)) and alike(found)


def sums_along_both(op: ir.Operation) -> bool:
    """Of terms of which one operand's part is the same it is a reduction that scales them."""
    both = set.intersection(*(set().union(*map(loops_of, m.results)) for m in maps(op)[:2]))
    apart = [d for d, kind in enumerate(kinds(op)) if kind == REDUCTION and d not in both]
    return not apart or all(loop_sizes(op)[d] == 1 for d in apart)


def alike(fused: FusedContraction) -> bool:
    """Whether both factors are numbers of one width, be they extended: if one is not, its extension is a map of that operand."""
    widths = []
    for value in (fused.lhs, fused.rhs):
        producer = owner(value)
        type_ = producer.operands[0].type if producer is not None and producer.name in EXTENSIONS else value.type
        widths.append(getattr(type_, "width", str(type_)))
    return widths[0] == widths[1]


def is_factor(op: ir.Operation) -> bool:
    """Whether ``op`` is elementwise and only contractions read it, which can compute it themselves where nothing else would."""
    if is_reduction(op):
        return False
    readers = [reader for r in op.results for reader in users(r)]
    return bool(readers) and all(r.name in _CONTRACTIONS or (is_contraction(r) and not has_windows(r)) for r in readers)


def is_sum_of_products(op: ir.Operation | None) -> bool:
    """Whether ``op`` is a plain multiply-add of two operands by whatever maps: a contraction, or a convolution."""
    if not is_reduction(op) or len(inputs(op)) != 2 or len(op.results) != 1:
        return False
    factors = _factors(yielded(op)[0], body(op).arguments[2])
    return factors is not None and all(_is_plain(v, op) for v in factors)


def is_convolution(op: ir.Operation | None) -> bool:
    """Whether ``op``, with what may be fused into it, is marked as a convolution; one whose window is one element is a contraction as well, and a depthwise
    one of those is no sum any more."""
    return is_reduction(op) and any(
        CONVOLUTION in o.operation.attributes for o in body(op).operations if o.operation.name == "arith.mulf")


def is_exact(op: ir.Operation) -> bool:
    """Whether a convolution or a sum is marked as one that is computed in float32, whatever torch is told of TF32."""
    return any(EXACT in o.operation.attributes for o in body(op).operations)


def has_windows(op: ir.Operation | None) -> bool:
    """Whether ``op`` is a convolution that reads by sums of two loops, so that no plain contraction is like it."""
    return is_convolution(op) and any(dims(m) is None for m in maps(op)[:2])


def pads_convolutions(op: ir.Operation | None) -> bool:
    """Whether ``op`` surrounds an image with zeros along its windows, for convolutions alone, whose kernels can leave out what is not there."""
    zeros = zero_padding(op)
    readers = list(users(op.results[0])) if zeros is not None else []
    return bool(readers) and all(
        has_windows(r) and r.operands[0] == op.results[0] and op.results[0] not in list(r.operands)[1:]
        and all(not (a or b) or not isinstance(e, ir.AffineDimExpr) for a, b, e in zip(*zeros, maps(r)[0].results)) for r in readers
    )


def ended_convolution(op: ir.Operation | None) -> ir.Operation | None:
    """The convolution that ``op`` is, or of whose result, which nothing else reads, it is elementwise, point by point: it may be the end of that one's
    kernel.  Of several the last; None if there is none."""
    return _ended(op, is_convolution)[0]


def ends_of_convolution(op: ir.Operation | None) -> set[ir.Operation] | None:
    """What is computed on the way from the convolution that ``op`` is, or is the end of, to ``op``, with that; None if there is no convolution."""
    found, inside = _ended(op, is_convolution)
    return inside if found is not None else None


def ended_contraction(op: ir.Operation | None, reshaped: bool = False) -> ir.Operation | None:
    """The same of contractions and convolutions; ``reshaped``: also where their results have other dimensions on the way."""
    return _ended(op, lambda found: is_contraction(found) or is_convolution(found), reshaped)[0]


def _ended(
    op: ir.Operation | None, is_one: Callable[[ir.Operation | None], bool], reshaped: bool = False,
) -> tuple[ir.Operation | None, set[ir.Operation]]:
    """What ``op`` ends, and the elementwise operations behind it."""
    inside, pending, found = set(), [op], None
    while pending:
        op = pending.pop()
        if is_one(op):
            found = op if found is None or found.is_before_in_block(op) else found
        elif reshaped and op is not None and op.name in RESHAPES:
            pending += [owner(op.operands[0])] if has_one_reader(op.operands[0]) else []
        elif is_elementwise(op) and op not in inside:
            inside.add(op)
            # A value may be read twice on its way, as by `x * sigmoid(x)`: what makes it is looked at with the last of its readers.
            own = {v for v, m in zip(inputs(op), maps(op)) if m == maps(op)[-1]}
            pending += [owner(v) for v in own if all(r in inside and _reads_points(r, v) for r in live_readers(v))]
    return found, inside


def _reads_points(op: ir.Operation, value: ir.Value) -> bool:
    """Whether an elementwise operation reads ``value`` only where it writes."""
    return all(m == maps(op)[-1] for v, m in zip(inputs(op), maps(op)) if v == value)


def live_readers(value: ir.Value) -> list[ir.Operation]:
    """The operations that read a tensor, apart from those that nothing reads: what has been fused is there until the end of a rewriting."""
    return [r for r in users(value) if len(r.results) and not is_unread(r)]


def has_one_reader(value: ir.Value) -> bool:
    """Whether one operation reads a tensor."""
    return len({r.results[0] for r in live_readers(value)}) <= 1


def _is_plain(value: ir.Value, op: ir.Operation) -> bool:
    producer = owner(value)
    if producer is not None and producer.name in EXTENSIONS:
        value = producer.operands[0]
    return isinstance(value, ir.BlockArgument) and value.owner == body(op)


def parse_fused(op: ir.Operation | None) -> FusedContraction | None:
    """The parts of a contraction, fused or plain; None if ``op`` is something else."""
    if not is_reduction(op) or len(op.results) > 2:
        return None
    count = len(inputs(op))
    if any(dims(m) is None for m in maps(op)[count:]) or (any(dims(m) is None for m in maps(op)[:2]) and not is_convolution(op)):
        return None
    parallel = [i for i, k in enumerate(kinds(op)) if k != REDUCTION]
    if any(sorted(dims(m)) != parallel for m in maps(op)[count:]):
        return None
    values = yielded(op)
    value, result = None, 0
    if len(values) == 2:
        chosen = _selected(op, values[1])
        if chosen is None or chosen[1] != body(op).arguments[count + 1]:
            return None
        sum_, value, result = values[0], chosen[0], 1
    else:
        chosen = _selected(op, values[0])
        sum_, value = (values[0], None) if chosen is None else (chosen[1], chosen[0])
    factors = _factors(sum_, body(op).arguments[count])
    if factors is None:
        return None
    before = list(body(op).arguments)[count:]  # what was accumulated before this step is nothing but a term of the sum
    if any(_needs(v, before, op) for v in factors) or (value is not None and _needs(value, before, op, stop=sum_)):
        return None
    return FusedContraction(op, *factors, sum_, value, 0, result)


def _selected(op: ir.Operation, value: ir.Value) -> tuple[ir.Value, ir.Value] | None:
    """(value at the last step, value before) if ``value`` is a selection by "every reduction loop is at its last step".

    Loops of one step may be left out: canonicalization knows where they are.
    """
    select = owner(value)
    if select is None or select.name != "arith.select":
        return None
    sizes, reductions = loop_sizes(op), {i for i, k in enumerate(kinds(op)) if k == REDUCTION}
    pending, seen = [select.operands[0]], set()
    while pending:
        made = owner(pending.pop())
        if made is not None and made.name == "arith.andi":
            pending += list(made.operands)
            continue
        if made is None or made.name != "arith.cmpi" or arith.CmpIPredicate(ir.IntegerAttr(made.attributes["predicate"]).value) != arith.CmpIPredicate.eq:
            return None
        loop = _at_last(made, sizes)
        if loop not in reductions:
            return None
        seen.add(loop)
    return (select.operands[1], select.operands[2]) if all(sizes[i] == 1 for i in reductions - seen) else None


def _at_last(compare: ir.Operation, sizes: Sequence[Int | None]) -> int | None:
    """The loop that is at its last step where the comparison holds: its index is its size - 1, or the index + 1 its size."""
    index, after = owner(compare.operands[0]), 1
    if index is not None and index.name == "arith.addi" and size_of(index.operands[1]) == 1:
        index, after = owner(index.operands[0]), 0
    if index is None or index.name != "linalg.index":
        return None
    loop, limit = dim_of(index), size_of(compare.operands[1])
    return loop if limit is not None and sizes[loop] is not None and limit + after == sizes[loop] else None


def _factors(sum_: ir.Value, accumulator: ir.Value) -> tuple[ir.Value, ir.Value] | None:
    add = owner(sum_)
    if add is None or add.name not in _ADD or accumulator not in list(add.operands):
        return None
    term = next(v for v in add.operands if v != accumulator) if add.operands[0] != add.operands[1] else None
    multiply = owner(term) if term is not None else None
    if multiply is None or multiply.name not in _MULTIPLY or accumulator in list(multiply.operands):
        return None
    return multiply.operands[0], multiply.operands[1]


def _needs(value: ir.Value, wanted: list[ir.Value], op: ir.Operation, stop: ir.Value | None = None) -> bool:
    """Whether the body computes ``value`` from one of ``wanted``, other than through ``stop``."""
    return any(v in wanted for v in backward_slice([value], lambda made: made.parent == op and (stop is None or not makes(made, stop))))


def zero_start(op: ir.Operation) -> ir.Value | None:
    """The scalar that a contraction's accumulator is filled with; None if it starts from anything but a fill."""
    fill = owner(outputs(op)[0])
    return fill.operands[0] if fill is not None and fill.name == "linalg.fill" else None


def start_from_zero(op: ir.Operation) -> ir.Operation:
    """Let a sum of products start from zero, and add to it what it starts from; returns the sum."""
    start = outputs(op)[0]
    type_, count = start.type, len(kinds(op))
    floats = isinstance(type_.element_type, ir.FloatType)
    with ir.InsertionPoint(op), op.location:
        empty = tensor.EmptyOp(tensor_sizes(start, function_of(op)), type_.element_type).result
        zero = linalg.fill(arith.constant(type_.element_type, 0.0 if floats else 0), outs=[empty])
        same, identity = [ir.AffineDimExpr.get(i) for i in range(count)], ir.AffineMap.get_identity(type_.rank)
        products = build(inputs(op), [zero], maps(op), kinds(op), lambda a: clone_body(body(op), a, same), op.location)
        add = arith.addf if floats else arith.addi
        total = build([products.results[0], start], [empty], [identity] * 3, [PARALLEL] * type_.rank, lambda a: [add(a[0], a[1])], op.location)
    op.results[0].replace_all_uses_with(total.results[0])
    op.erase()
    return products


def can_fuse(op: ir.Operation) -> bool:
    """Whether the fused form is valid: a filled accumulator, and a reduction known not to be empty.

    A reduction of one step alone is no sum: canonicalization would fold the selection, and leave a form that is not this one.
    """
    sizes = [s for s, k in zip(loop_sizes(op), kinds(op)) if k == REDUCTION]
    return zero_start(op) is not None and all(s is not None and bounds(s)[0] > 0 for s in sizes) and any(s != 1 for s in sizes)


def build_fused(contraction: ir.Operation, prologues: Sequence[ir.Operation | None], epilogue: ir.Operation | None, read: int = -1) -> ir.Operation:
    """One generic for ``epilogue(contraction(prologues...))`` at the insertion point.

    ``prologues`` are elementwise generics that make the contraction's operands, or None; ``epilogue`` an elementwise
    generic whose input ``read`` is the contraction's result, or None.  Its results are those of the new operation, the
    epilogue's last.
    """
    count = len(kinds(contraction))
    same = [ir.AffineDimExpr.get(i) for i in range(count)]
    operands = Operands()
    values, indexing, operand = operands.values, operands.maps, operands.number

    factors: list[tuple[list[int], list[ir.AffineExpr] | None]] = []
    for number, prologue in enumerate(prologues):
        if prologue is None:
            factors.append(([operand(inputs(contraction)[number], maps(contraction)[number])], None))
            continue
        made = maps(prologue)[len(inputs(prologue))]
        loops = [list(maps(contraction)[number].results)[i] for i in inverse(dims(made))]
        factors.append(([operand(v, substitute(m, loops, count)) for v, m in zip(inputs(prologue), maps(prologue))], loops))
    accumulator_map = maps(contraction)[2]
    extras: list[int] = []
    loops_after: list[ir.AffineExpr] = []
    if epilogue is not None:
        order = dims(maps(epilogue)[read])
        loops_after = [list(accumulator_map.results)[i] for i in inverse(order)]
        result = inputs(epilogue)[read]
        for v, m in zip(inputs(epilogue), maps(epilogue)):
            extras.append(-1 if v == result else operand(v, substitute(m, loops_after, count)))
    start = zero_start(contraction)
    element = outputs(contraction)[0].type.element_type
    outs, out_maps = _destinations(contraction, epilogue, loops_after, accumulator_map, start, element, count)
    sizes = [s if kind == REDUCTION else 0 for s, kind in zip(loop_sizes(contraction), kinds(contraction))]
    limits = mixed(sizes, function_of(contraction))

    def fill(arguments: list[ir.Value]) -> list[ir.Value]:
        block = body(contraction)
        made = []
        for (numbers, loops), prologue in zip(factors, prologues):
            taken = [arguments[i] for i in numbers]
            made.append(taken[0] if prologue is None else clone_body(body(prologue), [*taken, None], loops)[0])
        old = arguments[len(values) :]
        sum_ = clone_body(block, [*made, old[0]], same)[0]
        if epilogue is None:
            return [sum_]
        last = None
        for i, kind in enumerate(kinds(contraction)):
            if kind == REDUCTION:
                here = _is_last(linalg.IndexOp(i).result, limits[i])
                last = here if last is None else arith.andi(last, here)
        final = clone_body(body(epilogue), [sum_ if i < 0 else arguments[i] for i in extras] + [None], loops_after)[0]
        return [arith.select(last, final, sum_)] if len(outs) == 1 else [sum_, arith.select(last, final, old[1])]

    parts = [contraction, *(p for p in (*prologues, epilogue) if p is not None)]
    return build(values, outs, [*indexing, *out_maps], kinds(contraction), fill, merge(*(p.location for p in parts)))


def _is_last(index: ir.Value, size: int | ir.Value) -> ir.Value:
    """Whether a loop is at its last step."""
    if isinstance(size, int):
        return arith.cmpi(arith.CmpIPredicate.eq, index, arith.constant(index.type, size - 1))
    return arith.cmpi(arith.CmpIPredicate.eq, arith.addi(index, arith.constant(index.type, 1)), size)


def _destinations(contraction, epilogue, loops_after, accumulator_map, start, element, count):
    """``outs`` and their maps: one tensor that is accumulator and result where the types agree, else two."""
    if epilogue is None:
        return outputs(contraction), [accumulator_map]
    result_map = substitute(maps(epilogue)[len(inputs(epilogue))], loops_after, count)
    destination = outputs(epilogue)[0]
    type_ = destination.type
    # A kernel's destination stays; anything else may be made by what the fused operation replaces.
    if not isinstance(destination, ir.BlockArgument):
        destination = tensor.EmptyOp(tensor_sizes(destination, function_of(contraction)), type_.element_type).result
    if type_.element_type == element:
        return [linalg.fill(start, outs=[destination])], [result_map]
    return [outputs(contraction)[0], destination], [accumulator_map, result_map]
