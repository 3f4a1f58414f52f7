"""Import gathers by several index tensors whose sizes vary, which torch-mlir refuses where two of them vary along the same dimension.

Sizes that vary are one size where they meet, as they are in elementwise operations: torch has compared them when it traced the program.
"""

from collections.abc import Sequence

from inferno.mlir import arith, ir, linalg, owner, tensor, walk
from inferno.passes.generics import PARALLEL, build
from inferno.passes.torch_tensors import broadcast_map, element_name, from_builtin, load_casts, size_of, to_builtin

_OPERATIONS = ("torch.aten.index.Tensor", "torch.aten._unsafe_index.Tensor")


def import_gathers(module: ir.Module) -> None:
    """Replace every such gather by a generic operation that reads one element for each of the result's."""
    found = [(o, told) for name in _OPERATIONS for o in walk(module.operation, name) if _vary(told := _indices(o))]
    if not found:
        return
    load_casts(module.context)
    for op, told in found:
        with ir.InsertionPoint(op), op.location:
            _replace(op, {d: to_builtin(index) for d, index in told.items()})


def _indices(op: ir.Operation) -> dict[int, ir.Value]:
    """The index tensors by the dimensions that they are of; nothing where the list is not seen."""
    made = owner(op.operands[1])
    if made is None or made.name != "torch.prim.ListConstruct":
        return {}
    return {d: v for d, v in enumerate(made.operands) if str(v.type) != "!torch.none"}


def _vary(told: dict[int, ir.Value]) -> bool:
    """Whether they are several, of whole numbers, and the size of one varies."""
    return len(told) > 1 and all(element_name(v) in ("si64", "si32") for v in told.values()) and any("?" in str(v.type) for v in told.values())


def _replace(op: ir.Operation, told: dict[int, ir.Value]) -> None:
    source = to_builtin(op.operands[0])
    type_ = ir.RankedTensorType(source.type)
    meeting = _meeting_sizes(list(told.values()))
    dims = list(told)
    begin = dims[0] if dims[-1] - dims[0] + 1 == len(dims) else 0  # torch puts what stands apart in front
    kept = [d for d in range(type_.rank) if d not in told]
    places = {d: i if i < begin else i + len(meeting) for i, d in enumerate(kept)}  # the result's dimensions that are the source's
    sizes = [size_of(source, d) for d in kept]
    sizes[begin:begin] = meeting
    target = tensor.EmptyOp(sizes, type_.element_type).result
    maps = [broadcast_map(index, sizes, begin + len(meeting)) for index in told.values()] + [ir.AffineMap.get_identity(len(sizes))]

    def fill(arguments: list[ir.Value]) -> list[ir.Value]:
        numbers = dict(zip(told, arguments))
        at = [_place(numbers[d], source, d) if d in told else linalg.IndexOp(places[d]).result for d in range(type_.rank)]
        return [tensor.ExtractOp(source, at).result]

    generic = build(list(told.values()), [target], maps, [PARALLEL] * len(sizes), fill, op.location)
    result = op.results[0]
    result.replace_all_uses_with(from_builtin(generic.results[0], result.type))
    op.erase()


def _meeting_sizes(indices: Sequence[ir.Value]) -> list[ir.Value | int]:
    """The sizes that index tensors have together: of each dimension one that is known, where any but 1 is, or else the first that varies."""
    rank = max(i.type.rank for i in indices)
    found = []
    for d in range(-rank, 0):
        sizes = [size_of(i, i.type.rank + d) for i in indices if i.type.rank + d >= 0]
        known = [n for n in sizes if isinstance(n, int)]
        found.append(next((n for n in known if n != 1), next((n for n in sizes if not isinstance(n, int)), 1)))
    return found


def _place(number: ir.Value, source: ir.Value, d: int) -> ir.Value:
    """One that is negative counts from the end."""
    wide = ir.IntegerType.get_signless(64)
    number = number if number.type == wide else arith.extsi(wide, number)
    size = size_of(source, d)
    size = arith.constant(wide, size) if isinstance(size, int) else arith.index_cast(wide, size)
    negative = arith.cmpi(arith.CmpIPredicate.slt, number, arith.constant(wide, 0))
    return arith.index_cast(ir.IndexType.get(), arith.select(negative, arith.addi(number, size), number))
