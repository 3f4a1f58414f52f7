"""Kernels that concatenate tensors along the outermost dimension, and kernels that read slices of a tensor that consists of them."""

from math import prod

from inferno.mlir import arith, dim_of, func, ir, is_read, isolated_copy, tensor, walk
from inferno.passes.programs import VIEWS, operations_in, root_of
from inferno.passes.shapes import reassociation_attribute
from inferno.schedule.analysis.accesses import argument_index
from inferno.schedule.analysis.expression_tracer import Tracer
from inferno.schedule.analysis.expressions import READ, place_of

_MOST = 1 << 10  # pieces

Parts = dict[ir.Value, tuple[ir.Value, int]]
"""Slices of one position of a tensor's first dimension: the tensor, and the position."""


def stacked(kernel: func.FuncOp) -> list[int] | None:
    """The arguments that a kernel puts one behind the other, whole, and does nothing else; None for any other kernel."""
    if len(kernel.type.results) != 1:
        return None
    operations = operations_in(kernel)
    structured = [o for o in operations if o.name not in (*VIEWS, "tensor.empty", "arith.constant", "func.return")]
    if [o.name for o in structured] == ["tensor.concat", "linalg.copy"] and structured[1].operands[0] == structured[0].results[0]:
        if dim_of(structured[0]) != 0:
            return None
        found = [argument_index(kernel, root_of(v)) for v in structured[0].operands]
        return None if None in found else found
    if [o.name for o in structured] != ["linalg.generic"]:
        return None
    return _chosen(kernel, structured[0].results[0])


def _chosen(kernel: func.FuncOp, value: ir.Value) -> list[int] | None:
    """The same of an elementwise operation that chooses pieces by their places: each row, or matrix, is an argument's."""
    result, shapes = list(value.type.shape), {tuple(a.type.shape) for a in list(kernel.entry_block.arguments)[:-1] if isinstance(a.type, ir.RankedTensorType)}
    shape = next((s for s in shapes if len(s) in (1, 2) and list(s) == result[len(result) - len(s):]), None)  # matrices or rows, in a dimension of their own
    if shape is None:
        shape = next((s for s in shapes if len(s) == len(result) == 2 and s[1] == result[1] and result[0] % s[0] == 0), None)
    if shape is None or prod(result) // prod(shape) > _MOST:
        return None
    lead = result[: len(result) - len(shape)]
    if prod(lead) != max(lead, default=1):
        return None

    def read(tracer: Tracer) -> list[int] | None:
        loops = [tracer.loops(("along", d), size) for d, size in enumerate(shape)]
        if any(len(own) > 1 for own in loops):
            return None
        strides = {own[0]: prod(shape[d + 1:]) for d, own in enumerate(loops) if own}
        found = []
        for n in range(prod(result) // prod(shape)):
            where = [(place_of(own)[0], 0) for own in loops]
            if lead:
                where = [*(((), n if size != 1 else 0) for size in lead), *where]
            else:
                where[0] = where[0][0], n * shape[0]
            e = tracer.element(value, where)
            if e.name != READ or e.offset != 0 or dict(e.strides) != strides:
                return None
            found.append(e.argument)
        return found

    with kernel.context, ir.Location.unknown():
        module = isolated_copy(kernel)
        copy = module.body.operations[0]
        value = next(o.operation.results[0] for o in copy.entry_block.operations if o.operation.name == "linalg.generic")
        return Tracer(copy).run(read)


def position(whole: ir.Value, place: int, type_: ir.Type) -> ir.Value:
    """One position of a tensor's first dimension, as a tensor without that."""
    shape = list(type_.shape)
    return tensor.ExtractSliceOp(type_, whole, [], [], [], [place, *[0] * len(shape)], [1, *shape], [1] * (len(shape) + 1)).result


def reshaped(value: ir.Value, type_: ir.Type) -> ir.Value:
    """A tensor in another shape, of as many elements in the same order."""
    if value.type == type_:
        return value
    rank, count = value.type.rank, prod(value.type.shape)
    if rank > 1:
        flat = ir.RankedTensorType.get([count], type_.element_type)
        value = tensor.CollapseShapeOp(flat, value, reassociation_attribute([list(range(rank))])).result
    if type_.rank == 1:
        return value
    return tensor.ExpandShapeOp(type_, value, reassociation_attribute([list(range(type_.rank))]), [], list(type_.shape)).result


def read_elements(kernel: func.FuncOp, parts: Parts) -> None:
    """Let what reads single elements of ``parts`` read them of the whole."""
    for op in walk(kernel.operation, "tensor.extract"):
        if op.operands[0] in parts:
            whole, place = parts[op.operands[0]]
            with ir.InsertionPoint(op), op.location:
                made = tensor.ExtractOp(whole, [arith.constant(ir.IndexType.get(), place), *list(op.operands)[1:]]).result
            op.results[0].replace_all_uses_with(made)
            op.erase()
    erase_unused(parts)


def erase_unused(parts: Parts) -> None:
    """Erase the parts that nothing reads."""
    for value in list(parts):
        if not is_read(value):
            del parts[value]
            value.owner.operation.erase()
