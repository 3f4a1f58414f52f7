"""Where in its buffer a structured operation reads or writes: an offset, and one stride for each loop.

Every buffer is a contiguous row-major tensor, so an affine indexing map is an offset and a stride per loop dimension.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from inferno.element_sizes import element_bytes
from inferno.mlir import destination_of, func, ir, owner, walk
from inferno.passes.affine import Linear, linear
from inferno.passes.generics import kinds, loops_alone
from inferno.passes.programs import returned, root_of
from inferno.passes.shapes import UnknownSize, kept_dimensions, layout, row_major, shape, slice_parts
from inferno.symbolic import Int, product


@dataclass(frozen=True)
class Access:
    """The element at ``offset + sum(strides[d] * loop[d])`` of kernel argument ``argument``; all counted in elements.

    A stride of 0 is a broadcast.  ``shape`` is the argument's.
    """

    argument: int
    element: ir.Type
    strides: tuple[Int, ...]
    offset: Int = 0
    shape: tuple[Int, ...] = ()

    @property
    def bytes(self) -> Int:
        """Of the whole argument."""
        return product(self.shape) * element_bytes(self.element)


@dataclass(frozen=True)
class Joined(Access):
    """A concatenation along the innermost loop: of each of its ``pieces`` the first place, and where it is read by the same loops.  All else is as if it
    were a tensor, in the place of the first piece."""

    pieces: tuple[tuple[int, Access], ...] = ()


def steps_in_memory(value: ir.Value, map_: ir.AffineMap) -> tuple[tuple[Int, ...], Int] | None:
    """Elements by which an access of a buffer moves when each loop takes a step, and where it begins; None where a stride is not
    known or ``map_`` is not linear."""
    try:
        strides, offset = layout(value)
    except UnknownSize:
        return None
    steps: list[Int] = [0] * map_.n_dims
    for stride, expr in zip(strides, map_.results):
        part = linear(expr, map_.n_dims)
        if part is None:
            return None
        steps = [t + stride * c for t, c in zip(steps, part[0])]
        offset = offset + stride * part[1]
    return tuple(steps), offset


def loop_sizes(op: ir.Operation) -> tuple[Int, ...] | None:
    """The size of each loop of a ``linalg.generic``; None if one is not known or appears in no map on its own."""
    sizes: list[Int | None] = [None] * len(kinds(op))
    for value, along in zip(op.operands, loops_alone(op)):
        if not isinstance(value.type, ir.RankedTensorType):
            continue
        try:
            known = shape(value)
        except UnknownSize:
            return None
        for size, loop in zip(known, along):
            if loop is not None and not isinstance(sizes[loop], int):
                sizes[loop] = size
    return None if any(s is None for s in sizes) else tuple(sizes)


def access(value: ir.Value, map_: ir.AffineMap, argument: int) -> Access | None:
    """How ``map_`` walks over the buffer of kernel argument ``argument``, of ``value``'s type; None if not linear."""
    type_, sizes = ir.RankedTensorType(value.type), shape(value)
    strides: list[Int] = [0] * map_.n_dims
    offset: Int = 0
    for stride, expr in zip(row_major(sizes), map_.results):
        part = linear(expr, map_.n_dims)
        if part is None:
            return None
        strides = [s + stride * c for s, c in zip(strides, part[0])]
        offset = offset + stride * part[1]
    return Access(argument, type_.element_type, tuple(strides), offset, sizes)


def placed(kernel: func.FuncOp, value: ir.Value, map_: ir.AffineMap) -> Access | None:
    """How ``map_`` walks over a value that is an argument of the kernel, maybe in another shape, or a part of one; None for any other."""
    op = owner(value)
    if op is None or op.name != "tensor.extract_slice":
        argument = argument_index(kernel, root_of(value))
        return None if argument is None else access(value, map_, argument)
    try:
        offsets, sizes, steps = slice_parts(op)
    except UnknownSize:
        return None
    whole = placed(kernel, op.operands[0], ir.AffineMap.get_identity(len(sizes)))
    if whole is None:
        return None
    begin = whole.offset + sum(o * w for o, w in zip(offsets, whole.strides))
    part = Access(whole.argument, whole.element, tuple(whole.strides[d] * steps[d] for d in kept_dimensions(op)), begin, whole.shape)
    loops = [linear(e, map_.n_dims) for e in map_.results]
    if None in loops:
        return None
    if not loops:
        return Access(part.argument, part.element, (0,) * map_.n_dims, part.offset, part.shape)
    return compose(part, loops)


def compose(inner: Access, outer: Sequence[Linear]) -> Access:
    """``inner``, whose loops are each a linear function of some other loops, as an access by those."""
    count = len(outer[0][0]) if outer else 0
    strides = [sum(s * coefficients[d] for s, (coefficients, _) in zip(inner.strides, outer)) for d in range(count)]
    offset = inner.offset + sum(s * constant for s, (_, constant) in zip(inner.strides, outer))
    return Access(inner.argument, inner.element, tuple(strides), offset, inner.shape)


def has_known_sizes(kernel: func.FuncOp) -> bool:
    """Whether all arguments are tensors whose sizes are numbers."""
    return all(isinstance(t, ir.RankedTensorType) and t.has_static_shape for t in kernel.type.inputs)


def knows_arguments(kernel: func.FuncOp) -> bool:
    """Whether the kernel's arguments are sizes, and tensors of known sizes of which none is always empty."""
    for value in kernel.entry_block.arguments:
        if isinstance(value.type, ir.IndexType):
            continue
        try:
            if not isinstance(value.type, ir.RankedTensorType) or 0 in shape(value):
                return False
        except UnknownSize:
            return False
    return True


def argument_index(kernel: func.FuncOp, value: ir.Value) -> int | None:
    """Which argument of the kernel function ``value`` is."""
    block = kernel.entry_block
    return ir.BlockArgument(value).arg_number if isinstance(value, ir.BlockArgument) and value.owner == block else None


def destination_index(kernel: func.FuncOp, value: ir.Value) -> int | None:
    """The argument whose buffer ``value`` is computed into: followed through the destinations of structured operations."""
    while not isinstance(value, ir.BlockArgument):
        op = value.owner.operation
        if not op.name.startswith(("linalg.", "tm_tensor.")) or not len(op.results):
            return None
        value = destination_of(value)
    return argument_index(kernel, value)


def written_results(kernel: func.FuncOp) -> list[tuple[ir.Value, int]] | None:
    """What a kernel gives back, each with the number of its argument; None where one is computed into anything else."""
    values = returned(kernel)
    found = list(zip(values, range(len(kernel.type.inputs) - len(values), len(kernel.type.inputs))))
    return found if all(destination_index(kernel, v) == number for v, number in found) else None


def merge(dims: Sequence[int], sizes: Sequence[int], accesses: Sequence[Access]) -> list[list[int]]:
    """Group ``dims``, outermost first, into runs that every access walks with one stride: that of the run's last."""
    runs: list[list[int]] = []
    for d in dims:
        if runs and all(a.strides[runs[-1][-1]] == sizes[d] * a.strides[d] for a in accesses):
            runs[-1].append(d)
        else:
            runs.append([d])
    return runs


def sink_constants(generic: ir.Operation, tables: bool = False, sizes: bool = False) -> bool:
    """Copy the constants that a body takes from outside into it; False if it takes any other value.

    With ``sizes`` numbers that are computed of sizes are copied, too, and the sizes themselves let through; with ``tables`` also the tensors
    that ``tensor.extract`` reads.
    """
    block = generic.regions[0].blocks[0]
    copies: dict[ir.Value, ir.Value] = {}
    for op in walk(generic):
        if op == generic:
            continue
        for i, value in enumerate(list(op.operands)):
            if _defined_in(value, generic) or (tables and op.name == "tensor.extract" and i == 0):
                continue
            if isinstance(value, ir.BlockArgument) or value.owner.operation.name != "arith.constant":
                if not (tables or sizes) or not is_of_sizes(value):
                    return False
            op.operands[i] = _copy(value, copies, block)
    return True


def given_sizes(kernel: ir.Operation, values: Sequence[ir.Value] | Mapping[int, ir.Value]) -> dict[ir.Value, ir.Value]:
    """What stands for the sizes that a kernel is given, which bodies may read, where ``values`` stand for its arguments, by their numbers."""
    return {a: values[i] for i, a in enumerate(kernel.regions[0].blocks[0].arguments) if isinstance(a.type, ir.IndexType)}


def is_of_sizes(value: ir.Value) -> bool:
    """Whether a number is a size that the kernel is given, or is computed of such and of constants."""
    if isinstance(value, ir.BlockArgument):
        return isinstance(value.type, ir.IndexType)
    op = value.owner.operation
    return op.name.startswith("arith.") and not len(op.regions) and all(is_of_sizes(v) for v in op.operands)


def _copy(value: ir.Value, copies: dict[ir.Value, ir.Value], block: ir.Block) -> ir.Value:
    """``value`` computed at the beginning of the block; a size itself stays."""
    if isinstance(value, ir.BlockArgument):
        return value
    if value not in copies:
        op = value.owner.operation
        operands = [_copy(v, copies, block) for v in op.operands]
        made = [owner(v) for v in operands if owner(v) is not None]
        after = [o.operation for o in block.operations]
        place = max((after.index(m) for m in made), default=-1) + 1
        with ir.InsertionPoint(after[place]):
            clone = op.clone()
        for i, v in enumerate(operands):
            clone.operands[i] = v
        copies[value] = clone.results[0]
    return copies[value]


def filled(value: ir.Value) -> ir.Attribute | None:
    """The constant that ``value`` is a tensor full of: by ``linalg.fill``, or a generic that only yields it."""
    if isinstance(value, ir.BlockArgument):
        return None
    op = value.owner.operation
    if op.name == "linalg.fill":
        source = op.operands[0]
    elif op.name == "linalg.generic" and len(op.results) == 1 and len(list(op.regions[0].blocks[0].operations)) == 1:
        source = op.regions[0].blocks[0].operations[0].operands[0]
        if isinstance(source, ir.BlockArgument) and source.owner == op.regions[0].blocks[0]:
            source = op.operands[ir.BlockArgument(source).arg_number]
    else:
        return None
    if isinstance(source, ir.BlockArgument) or source.owner.operation.name != "arith.constant":
        return None
    value = source.owner.operation.attributes["value"]
    return value if isinstance(value, (ir.FloatAttr, ir.IntegerAttr, ir.BoolAttr)) else None


def _defined_in(value: ir.Value, op: ir.Operation) -> bool:
    at = value.owner.owner.operation if isinstance(value, ir.BlockArgument) else value.owner.operation.parent
    while at is not None and at.operation != op:
        at = at.operation.parent
    return at is not None
