"""Operations over the same points: which loops of one correspond to those of another."""

from inferno.element_sizes import element_bytes
from inferno.mlir import ir, owner
from inferno.passes.generics import dims, inputs, inverse, loop_sizes, maps
from inferno.passes.programs import RESHAPES
from inferno.passes.shapes import row_major
from inferno.target import SECTOR



def loops_at(first: ir.Operation, second: ir.Operation) -> list[ir.AffineExpr] | None:
    """For each loop of the first operation that of the second with the same points, by what it makes for the second, or both read; None where there is none."""
    for value, read in zip(inputs(second), maps(second)):
        if not read.is_permutation:
            continue
        places = [m for v, m in zip(first.results, maps(first)[len(inputs(first)):]) if v == value]
        places += [m for v, m in zip(inputs(first), maps(first)) if (v == value or beside(v, value)) and m.is_permutation]
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
    if one is None or other is None or one.name != other.name or one.name not in ("tensor.extract_slice", *RESHAPES):
        return False
    says = [{n: o.attributes[n] for n in o.attributes} for o in (one, other)]
    return says[0] == says[1] and a.type == b.type and len(one.operands) == len(other.operands) and all(map(same, one.operands, other.operands))


def beside(a: ir.Value, b: ir.Value) -> bool:
    """Whether two values are parts of one tensor, such as two columns of short rows, of which each element lies in a sector of memory with the same one of the
    other."""
    one, other = owner(a), owner(b)
    if one is None or other is None or one.name != "tensor.extract_slice" or other.name != one.name or a.type != b.type:
        return False
    alike = all(one.attributes[n] == other.attributes[n] for n in ("static_sizes", "static_strides"))
    source = one.operands[0]
    if not alike or len(one.operands) != 1 or len(other.operands) != 1 or source != other.operands[0] or not source.type.has_static_shape:
        return False
    begins = [list(ir.DenseI64ArrayAttr(o.attributes["static_offsets"])) for o in (one, other)]
    apart = sum((x - y) * s for x, y, s in zip(*begins, row_major(source.type.shape)))
    return abs(apart) * element_bytes(source.type.element_type) < SECTOR
