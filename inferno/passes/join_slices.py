"""A part of a part of a tensor is one part of it: ``x[64:128, :512]`` is imported as two slices, each of which could become a copy."""

from collections.abc import Sequence

from inferno.mlir import ir, owner, tensor, walk

_Part = tuple[int, int, int]  # where it begins, how many there are, and how far apart


def join_slices(module: ir.Module) -> None:
    """Let slices of slices, of known sizes, read what those are slices of."""
    for op in walk(module.operation, "tensor.extract_slice"):
        outer = owner(op.operands[0])
        if outer is None or outer.name != "tensor.extract_slice" or len(op.operands) != 1 or len(outer.operands) != 1:
            continue
        joined = _joined(_parts(outer), _kept(outer), _parts(op))
        with ir.InsertionPoint(op), op.location:
            new = tensor.ExtractSliceOp(op.results[0].type, outer.operands[0], [], [], [], *map(list, zip(*joined)))
        op.results[0].replace_all_uses_with(new.result)
        op.erase()
        if not list(outer.results[0].uses):
            outer.erase()


def _parts(op: ir.Operation) -> list[_Part]:
    """Of each dimension of the tensor that a slice is of."""
    return list(zip(*(list(ir.DenseI64ArrayAttr(op.attributes[f"static_{name}"])) for name in ("offsets", "sizes", "strides"))))


def _kept(op: ir.Operation) -> list[int]:
    """The dimensions that the slice has, too; the others have one element, and are gone.  Which of several of one element is gone makes no difference."""
    wanted, found = list(op.results[0].type.shape), []
    for d, (_, size, _) in enumerate(_parts(op)):
        if len(found) < len(wanted) and size == wanted[len(found)]:
            found.append(d)
    return found


def _joined(outer: Sequence[_Part], kept: Sequence[int], inner: Sequence[_Part]) -> list[_Part]:
    found = list(outer)
    for d, (begin, size, step) in zip(kept, inner, strict=True):
        found[d] = outer[d][0] + begin * outer[d][2], size, outer[d][2] * step
    return found
