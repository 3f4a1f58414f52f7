"""An elementwise operation of which only some elements are picked is computed for those alone.

``log_softmax(x)[i, target[i]]``, the loss of a classifier, needs one element of each row: what makes the elements goes to where
``tensor.extract`` picks one, and the tensor of all of them is never made.
"""

from inferno.mlir import ir, tensor, users, walk
from inferno.passes.generics import body, element_at, inputs, is_elementwise, knows_sizes, loop_sizes, maps
from inferno.passes.shapes import shape
from inferno.symbolic import hint, product


def fuse_gathers(module: ir.Module) -> None:
    """Rewrite every operation whose result nothing reads but ``tensor.extract``, if that reads no more elements than all of them are: from there
    on each of the operation's tensors is read at places that need not be neighbours."""
    for producer in reversed(walk(module.operation, "linalg.generic")):
        if is_elementwise(producer) and len(producer.results) == 1 and knows_sizes(producer) and _is_picked(producer):
            for pick in list(users(producer.results[0])):
                with ir.InsertionPoint(pick), pick.location:
                    pick.results[0].replace_all_uses_with(element_at(producer, list(pick.operands)[1:], tensor.extract))
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
    return all(isinstance(e, (ir.AffineDimExpr, ir.AffineConstantExpr)) for m in maps(producer)[: len(inputs(producer))] for e in m.results)


def _generic_around(op: ir.Operation) -> ir.Operation | None:
    parent = op.parent
    while parent is not None and parent.name not in ("linalg.generic", "func.func"):
        parent = parent.parent
    return parent.operation if parent is not None and parent.name == "linalg.generic" else None
