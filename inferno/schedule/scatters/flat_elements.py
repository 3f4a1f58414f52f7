"""Elements of a kernel's tensor by their row-major index: read from an argument, or computed of such elements.

A tensor that is reshaped has the same elements by the same numbers, so that maps of different shapes follow each other.
"""

from dataclasses import dataclass

from inferno.mlir import func, ir, is_read, owner
from inferno.passes.generics import is_elementwise, maps
from inferno.passes.programs import root_of
from inferno.passes.shapes import shape
from inferno.schedule.analysis.accesses import Access, argument_index, filled, loop_sizes, placed, sink_constants
from inferno.schedule.maps.supported import supported_body
from inferno.symbolic import Int, product


@dataclass(frozen=True)
class Computed:
    """Element n is what the body of ``generic``, which may be a copy, yields at the n-th point of a box of ``sizes``, of elements of ``sources`` there: an
    argument's, where it says, those with the same number, or one value.  The body may take sizes that the kernel is given from outside."""

    generic: ir.Operation
    sizes: tuple[Int, ...]
    sources: "tuple[Elements, ...]"

    @property
    def body(self) -> ir.Block:
        return self.generic.regions[0].blocks[0]


Elements = Access | Computed | ir.Attribute
"""An access that is no source of others has one loop, over all elements."""


def read_elements(kernel: func.FuncOp, value: ir.Value) -> Elements | None:
    """The elements of a tensor; None where they are something else.  Constants that a body takes are copied into it."""
    constant = filled(value)
    if constant is not None:
        return constant
    root = root_of(value)
    if argument_index(kernel, root) is not None:
        count = product(shape(value))
        return Access(argument_index(kernel, root), value.type.element_type, (1,), 0, (count,))
    op = owner(root)
    if op is not None and op.name == "linalg.copy":
        return _copied(kernel, op)
    if not is_elementwise(op) or len(op.results) != 1 or any(isinstance(v.type, ir.IndexType) for v in op.operands):
        return None
    *given, own = maps(op)
    sizes = loop_sizes(op)
    if sizes is None or own != ir.AffineMap.get_identity(len(sizes)) or not sink_constants(op, tables=True):
        return None
    block = op.regions[0].blocks[0]
    if not supported_body(op) or any(len(o.regions) or o.operation.name == "tensor.extract" for o in block.operations):
        return None
    if is_read(block.arguments[len(given)]):
        return None  # (what was in the destination)
    sources = []
    for operand, map_ in zip(op.operands, given):
        source = filled(operand)
        if source is None:
            source = placed(kernel, operand, map_)
        if source is None and map_ == own:
            source = read_elements(kernel, operand)
        if source is None:
            return None
        sources.append(source)
    return Computed(op, tuple(sizes), tuple(sources))


def _copied(kernel: func.FuncOp, copy: ir.Operation) -> Computed | None:
    """The elements of a copy of an argument, or of a part of one."""
    value, sizes = copy.operands[0], copy.results[0].type.shape
    if value.type != copy.results[0].type or not value.type.has_static_shape:
        return None
    source = placed(kernel, value, ir.AffineMap.get_identity(len(sizes)))
    return None if source is None else Computed(copy, tuple(sizes), (source,))
