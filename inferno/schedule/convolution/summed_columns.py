"""What a kernel computes that is a contraction and sums of a result of its over all but the last dimension: of each column, or channel."""

from dataclasses import dataclass
from math import prod

from inferno.mlir import func, ir, isolated_copy, owner
from inferno.passes.generics import PARALLEL, body, dims, inputs, is_generic, kinds, maps, outputs, yielded
from inferno.passes.programs import operations_in, root_of
from inferno.schedule.analysis.accesses import destination_index, filled
from inferno.schedule.convolution.im2col import parse_unfolded
from inferno.schedule.matmul.contraction import Contraction
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.wgmma_schedule import precision, supported
from inferno.target import Target


@dataclass(frozen=True)
class Summed:
    """What such a kernel computes: ``head``, a kernel function of the first arguments, is the contraction, result ``source`` of which is added up
    over all but its last dimension.  ``squares``, ``into`` and ``elements``: of each sum whether it is of squares, the argument that it
    goes to, one of the last, and its type there."""

    head: func.FuncOp
    contraction: Contraction
    source: int
    squares: tuple[bool, ...]
    into: tuple[int, ...]
    elements: tuple[ir.Type, ...]
    module: ir.Module


def parse_summed(kernel: func.FuncOp, target: Target, windows: bool) -> Summed | None:
    """What ``kernel`` computes, if it is a contraction and sums of the columns of a result of its in one operation; None for anything else.  ``windows``:
    a factor is those of an image."""
    if not target.hopper or len(kernel.type.results) < 2:
        return None
    with kernel.context, kernel.location:
        module = isolated_copy(kernel)
        found = _take_sums(module.body.operations[0])
        if found is None:
            return None
        (summed, squares, into), head = found, module.body.operations[0]
        elements = tuple(ir.RankedTensorType(kernel.type.inputs[a]).element_type for a in into)
        c = parse_unfolded(head, target) if windows else parse_contraction(head)
        if c is None or c.varies or precision(head, c) is None or not supported(c) or not c.n.flat or (c.windows is not None and c.windows.group is not None):
            return None
        place = next((i for i, d in enumerate(c.destinations) if d.access.argument == summed), None)
        if place is None:
            return None
        access = c.destinations[place].access
        columns = c.n.stride(access) == 1 and access.offset == 0 and c.n.size == access.shape[-1] and prod(access.shape) == c.B * c.M * c.N
        exact = not any(squares) or str(access.element) == "bf16"
        return Summed(head, c, place, squares, into, elements, module) if columns and exact else None


def _take_sums(kernel: func.FuncOp) -> tuple[int, tuple[bool, ...], tuple[int, ...]] | None:
    """Take the sums out of a kernel function: the argument that is summed, which sums are of squares, and the arguments that they go to."""
    operations = operations_in(kernel)
    last, sums = operations[-1], next((o for o in reversed(operations) if is_generic(o) and filled(o.results[0]) is None), None)
    if sums is None or len(inputs(sums)) != 1 or not all(r in list(last.operands) for r in sums.results):
        return None
    whole = root_of(inputs(sums)[0])
    if owner(whole) is None or not is_generic(owner(whole)) or whole not in list(last.operands) or not _of_columns(sums):
        return None
    squares, into, summed = _squares(sums), tuple(destination_index(kernel, r) for r in sums.results), destination_index(kernel, whole)
    count = len(kernel.type.inputs)
    if squares is None or summed is None or into != tuple(range(count - len(into), count)):
        return None  # they are the last ones
    kept = [v for v in last.operands if v not in list(sums.results)]
    with ir.InsertionPoint(last):
        func.ReturnOp(kept)
    starts = [owner(v) for v in outputs(sums)]
    for op in (last, sums, *starts):
        op.erase()
    for number in reversed(into):
        kernel.entry_block.erase_argument(number)
    taken = list(kernel.type.inputs)[: into[0]]
    kernel.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(taken, [v.type for v in kept]))
    return summed, squares, into


def _of_columns(sums: ir.Operation) -> bool:
    """Whether an operation adds up, from zero, what lies along all but the last dimension of a tensor."""
    read, results, loops = dims(maps(sums)[0]), [dims(m) for m in maps(sums)[1:]], kinds(sums)
    if not read or any(r != [read[-1]] for r in results) or sorted(read) != list(range(len(loops))):
        return False
    starts = [filled(v) for v in outputs(sums)]
    zero = all(s is not None and isinstance(s.type, ir.FloatType) and s.type.width >= 32 and ir.FloatAttr(s).value == 0 for s in starts)
    return zero and [d for d, k in enumerate(loops) if k == PARALLEL] == [read[-1]]


def _squares(sums: ir.Operation) -> tuple[bool, ...] | None:
    """Of each result whether it is a sum of squares, otherwise of the numbers; None where one is neither."""
    block, found = body(sums), []
    term, *running = block.arguments
    for value, total in zip(yielded(sums), running):
        add = owner(value)
        if add is None or add.name != "arith.addf" or list(add.operands).count(total) != 1:
            return None
        (taken,) = [v for v in add.operands if v != total]
        op, wide = owner(taken), str(total.type) in ("f32", "f64")
        is_square = op is not None and op.name == "arith.mulf" and op.operands[0] == op.operands[1]
        if not wide or not _is_widened(op.operands[0] if is_square else taken, term):
            return None
        found.append(is_square)
    return tuple(found)


def _is_widened(value: ir.Value, term: ir.Value) -> bool:
    op = owner(value)
    return value == term or (op is not None and op.name == "arith.extf" and op.operands[0] == term)
