"""Split loops of elementwise operations between which dimensions are regrouped into the common refinement of both groupings.

Eight numbers of 4 bits in each word of [256, 4096] are unpacked to [256, 8, 4096], which is [2048, 4096]; their scales are those of [16, 128, 4096].
Neither shape is a grouping of the other, so neither reshape could go and what is unpacked was in memory.  Both are groupings of [16, 16, 8, 4096], on whose
loops one reads the other element by element, and fuse-elementwise makes them one.
"""

from collections.abc import Sequence
from itertools import accumulate
from operator import mul

from inferno.mlir import ir, owner, tensor, walk
from inferno.passes.expand_loops import replace, split
from inferno.passes.generics import dims, inputs, is_elementwise, is_generic, knows_sizes, maps, only_user
from inferno.passes.programs import VIEWS
from inferno.passes.propagate_reshapes import grouping
from inferno.passes.shapes import reassociation_attribute, shape

_PLACED = (*VIEWS, "tensor.concat", "tensor.extract_slice")


def refine_reshapes(module: ir.Module) -> None:
    """Split the loops of elementwise operations of the program's arguments, between which there is a ``tensor.collapse_shape`` and then a
    ``tensor.expand_shape`` that are no one reshape, and nothing else reads.  (What ends a contraction or a sum keeps its loops.)"""
    for expanded in walk(module.operation, "tensor.expand_shape"):
        collapsed = owner(expanded.operands[0])
        if collapsed is None or collapsed.name != "tensor.collapse_shape" or only_user(collapsed.results[0]) is None:
            continue
        producer, reader = owner(collapsed.operands[0]), only_user(expanded.results[0])
        if _can_split(producer) and _can_split(reader) and only_user(producer.results[0]) is not None and _is_of_arguments(reader):
            _refine(producer, collapsed, expanded, reader)


def _can_split(op: ir.Operation | None) -> bool:
    """Whether it is elementwise, has one result, and reads elements at loops' and constant places, all of sizes that are known."""
    if op is None or not is_elementwise(op) or len(op.results) != 1 or not knows_sizes(op):
        return False
    plain = all(isinstance(e, (ir.AffineDimExpr, ir.AffineConstantExpr)) for m in maps(op) for e in m.results)
    return plain and all(isinstance(s, int) for v in op.operands for s in shape(v))


def _is_of_arguments(op: ir.Operation) -> bool:
    """Whether it is made of the program's arguments alone, element by element, in other shapes and side by side."""
    def is_of(made: ir.Operation | None) -> bool:
        return made is None or ((is_elementwise(made) or made.name in _PLACED) and _is_of_arguments(made))

    return all(map(is_of, map(owner, inputs(op) if is_generic(op) else op.operands)))


def _refine(producer: ir.Operation, collapsed: ir.Operation, expanded: ir.Operation, reader: ir.Operation) -> None:
    old, new = shape(producer.results[0]), shape(expanded.results[0])
    sizes = common_parts(old, new)
    written, read = dims(maps(producer)[-1]), dims(maps(reader)[inputs(reader).index(expanded.results[0])])
    if sizes is None or written is None or read is None or len(set(read)) < len(read):
        return
    by_old, by_new = grouping(sizes, old), grouping(sizes, new)
    with ir.InsertionPoint(expanded), expanded.location:
        (made, _), = split(producer, {written[d]: [sizes[n] for n in group] for d, group in enumerate(by_old) if len(group) > 1})
        flat = tensor.CollapseShapeOp(expanded.results[0].type, made, reassociation_attribute(by_new)).result
    expanded.results[0].replace_all_uses_with(flat)
    for op in (expanded, collapsed, producer):
        op.erase()
    replace(reader, {read[d]: [sizes[n] for n in group] for d, group in enumerate(by_new) if len(group) > 1})


def common_parts(first: Sequence[int], second: Sequence[int]) -> list[int] | None:
    """The fewest sizes, in order, that group to both shapes of one number of elements: [256, 8] and [16, 128] are groupings of [16, 16, 8].  None where there
    are no such sizes, or one shape is empty or has a dimension of one element, which belongs to any group."""
    if min((*first, *second), default=0) < 2:
        return None
    ends = sorted({*accumulate(first, mul), *accumulate(second, mul)})
    if any(b % a for a, b in zip(ends, ends[1:])):
        return None
    return [b // a for a, b in zip([1, *ends], ends)]
