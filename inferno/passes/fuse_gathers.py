"""An elementwise operation of which only some elements are picked is computed for those alone.

``log_softmax(x)[i, target[i]]``, the loss of a classifier, needs one element of each row: what makes the elements goes to where
``tensor.extract`` picks one, and the tensor of all of them is never made.
"""

from inferno.mlir import arith, clone_onto, ir, tensor, users, walk
from inferno.passes.generics import body, dims, inputs, is_elementwise, knows_sizes, loop_sizes, maps, yielded
from inferno.passes.shapes import shape
from inferno.symbolic import hint, product


def fuse_gathers(module: ir.Module) -> None:
    """Rewrite every operation whose result nothing reads but ``tensor.extract``, if that reads no more elements than all of them are: from there
    on each of the operation's tensors is read at places that need not be neighbours."""
    for producer in reversed(walk(module.operation, "linalg.generic")):
        if is_elementwise(producer) and len(producer.results) == 1 and knows_sizes(producer) and _is_picked(producer):
            for pick in list(users(producer.results[0])):
                with ir.InsertionPoint(pick), pick.location:
                    pick.results[0].replace_all_uses_with(_element(producer, list(pick.operands)[1:]))
                pick.erase()
            producer.erase()


def _is_picked(producer: ir.Operation) -> bool:
    """Whether all readers pick elements, and the body can be computed for one."""
    picks, number = list(users(producer.results[0])), 0
    if not picks or any(p.name != "tensor.extract" for p in picks):
        return False
    for pick in picks:
        place = _generic_around(pick)
        sizes = loop_sizes(place) if place is not None else [None]
        if any(s is None for s in sizes):
            return False
        number += product(hint(s) for s in sizes)
    read = sum(any(True for _ in a.uses) for a in list(body(producer).arguments)[: len(inputs(producer))])
    if number * max(1, read) > product(hint(s) for s in shape(producer.results[0])):
        return False
    simple = all(isinstance(e, (ir.AffineDimExpr, ir.AffineConstantExpr)) for m in maps(producer)[: len(inputs(producer))] for e in m.results)
    return simple and _loops(producer) is not None


def _generic_around(op: ir.Operation) -> ir.Operation | None:
    parent = op.parent
    while parent is not None and parent.name not in ("linalg.generic", "func.func"):
        parent = parent.parent
    return parent.operation if parent is not None and parent.name == "linalg.generic" else None


def _loops(producer: ir.Operation) -> list[int] | None:
    """The loop behind each dimension of the result."""
    return dims(maps(producer)[len(inputs(producer))])


def _element(producer: ir.Operation, place: list[ir.Value]) -> ir.Value:
    """The element of the result at ``place``."""
    at = dict(zip(_loops(producer), place))

    def index(expr: ir.AffineExpr) -> ir.Value:
        if isinstance(expr, ir.AffineDimExpr):
            return at[ir.AffineDimExpr(expr).position]
        return arith.constant(ir.IndexType.get(), ir.AffineConstantExpr(expr).value)

    known: dict[ir.Value, ir.Value] = {}
    for argument, value, map_ in zip(body(producer).arguments, inputs(producer), maps(producer)):
        if any(True for _ in argument.uses):
            is_tensor = isinstance(value.type, ir.RankedTensorType)
            known[argument] = tensor.extract(value, [index(e) for e in map_.results]) if is_tensor else value
    result = yielded(producer)[0]
    for op in body(producer).operations:
        op = op.operation
        if op.name == "linalg.index":
            known[op.results[0]] = at[ir.IntegerAttr(op.attributes["dim"]).value]
        elif op.name != "linalg.yield":
            clone_onto(op, known)
    return known.get(result, result)
