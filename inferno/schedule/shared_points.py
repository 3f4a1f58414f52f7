"""Operations on the same points: which loops of one are those of another."""

from inferno.mlir import ir, owner
from inferno.passes.generics import dims, inputs, inverse, loop_sizes, maps


def loops_at(first: ir.Operation, second: ir.Operation) -> list[ir.AffineExpr] | None:
    """For each loop of the first operation that of the second with the same points, by what it makes for the second, or both read; None where there is none."""
    for value, read in zip(inputs(second), maps(second)):
        if not read.is_permutation:
            continue
        places = [m for v, m in zip(first.results, maps(first)[len(inputs(first)):]) if v == value]
        places += [m for v, m in zip(inputs(first), maps(first)) if v == value and m.is_permutation]
        for place in places:
            loops = [list(read.results)[i] for i in inverse(dims(place))]
            sizes = loop_sizes(second)
            if loop_sizes(first) == [sizes[ir.AffineDimExpr(e).position] for e in loops]:
                return loops
    return None


def same(a: ir.Value, b: ir.Value) -> bool:
    """Whether two values are one, or the same part or shape of one."""
    if a == b:
        return True
    one, other = owner(a), owner(b)
    if one is None or other is None or one.name != other.name or one.name not in ("tensor.extract_slice", "tensor.expand_shape", "tensor.collapse_shape"):
        return False
    says = [{n: o.attributes[n] for n in o.attributes} for o in (one, other)]
    return says[0] == says[1] and a.type == b.type and len(one.operands) == len(other.operands) and all(map(same, one.operands, other.operands))
