"""Recompute differences of neighbours in a map that gathers few of them for each of its points.

``(x[1:] - x[:-1]).abs().mean()`` has the gradient ``pad(s, 0, 1) - pad(s, 1, 0)`` of signs ``s``, of which each point gathers two: what makes them again reads
``x`` alone, whose neighbours are in caches, where the signs would be written and read as often as they are gathered.
"""

from inferno.mlir import ir, owner, users, walk
from inferno.passes.fuse_elementwise import CHEAP, bytes_of
from inferno.passes.generics import body, dims, inputs, is_elementwise, loop_sizes, maps
from inferno.passes.places import place_of

_FEW = 4  # elements that a point gathers
_MOST = 12  # cheap operations of each: the sign of a difference, scaled, is seven
_QUOTIENT = 4  # operations of a quotient by a known number (``codegen/builders/constant_divisions.py``)
_SMALLER = 8  # times, of what caches keep
_AS_MANY = 1.25  # times the bytes that are made, of an image that slices without a border are of


def is_of_neighbours(producer: ir.Operation) -> bool:
    """Whether one map has the readers of what an elementwise operation makes: a few gathers, each of elements in order, and each element at most once.  What
    they are made of is in memory and no larger, and is read in order, too."""
    result = producer.results[0]
    gathers = list(users(result))
    if not 1 < len(gathers) <= _FEW or any(p.name != "tensor.extract" for p in gathers) or not _is_cheap(producer):
        return False
    places = {generic_around(p) for p in gathers}
    place = places.pop()
    if places or not is_elementwise(place) or any(s is None for s in loop_sizes(place)):
        return False
    return all(_is_in_order(p, place) for p in gathers) and _reads_little(producer)


def hoist_numbers(place: ir.Operation) -> None:
    """Compute what is the same for all points in front of the choices in a body, so that a quotient of numbers is made once for each thread."""
    first, inside = body(place).operations[0].operation, {r for op in walk(place) if op != place for r in op.results} | set(body(place).arguments)
    for op in [o for o in walk(place) if o != place and o.parent != place]:
        if _is_of_numbers(op) and not any(v in inside for v in op.operands):
            op.move_before(first)
            inside -= set(op.results)


def _is_of_numbers(op: ir.Operation) -> bool:
    divides = op.name in ("arith.divsi", "arith.divui", "arith.remsi", "arith.remui")  # by what a choice may keep from being 0
    return (op.name.startswith("arith.") and not divides) or (op.name == "tensor.extract" and len(op.operands) == 1)


def _is_cheap(producer: ir.Operation) -> bool:
    """Whether its body is cheap operations, but for what is computed of numbers that are the same for all points."""
    same = {a for a, m in zip(body(producer).arguments, maps(producer)) if not len(m.results)}
    operations = [o.operation for o in body(producer).operations if o.operation.name not in ("arith.constant", "linalg.yield", "linalg.index")]
    count = 0
    for op in operations:
        if _is_of_numbers(op) and all(v in same or getattr(owner(v), "name", "") == "arith.constant" for v in op.operands):
            same |= set(op.results)
        elif op.name in CHEAP:
            count += 1
        elif op.name == "arith.divf" and getattr(owner(op.operands[1]), "name", "") == "arith.constant":
            count += _QUOTIENT
        else:
            return False
    return count <= _MOST


def _is_in_order(gather: ir.Operation, place: ir.Operation) -> bool:
    """Whether each loop's number tells one dimension's, and the innermost one's the last."""
    found = [place_of(v) for v in list(gather.operands)[1:]]
    written = dims(maps(place)[-1])
    return bool(found) and None not in found and [p[0] for p in found] == written and all(p[1] == 1 for p in found)


def _reads_little(producer: ir.Operation) -> bool:
    """Whether tensors that it reads are small, or have an element for each that it makes, and all of them together have no more bytes."""
    own, made = maps(producer)[-1], bytes_of(producer.results[0])
    read: set[ir.Value] = set()
    for value, map_ in zip(inputs(producer), maps(producer)):
        if not isinstance(value.type, ir.RankedTensorType):
            continue
        if not all(isinstance(e, (ir.AffineDimExpr, ir.AffineConstantExpr)) for e in map_.results):
            return False
        if _SMALLER * bytes_of(value) > made:
            if map_ != own:
                return False
            read.add(_whole(value))
    return sum(map(bytes_of, read)) <= _AS_MANY * made


def _whole(value: ir.Value) -> ir.Value:
    """The tensor that a slice is of."""
    made = owner(value)
    return _whole(made.operands[0]) if made is not None and made.name == "tensor.extract_slice" else value


def generic_around(op: ir.Operation) -> ir.Operation | None:
    """The ``linalg.generic`` whose body an operation is in, at any depth; None outside of one."""
    parent = op.parent
    while parent is not None and parent.name not in ("linalg.generic", "func.func"):
        parent = parent.parent
    return parent.operation if parent is not None and parent.name == "linalg.generic" else None
