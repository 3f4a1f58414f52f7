"""What a native function takes from outside of its operation: parameters in the place of buffers, clones of what scalars are computed of, and which buffers
these are read from."""

from collections.abc import Callable
from math import prod

from inferno.codegen.cpu.loop_nests import Nest
from inferno.codegen.cpu.loop_operands import root_of
from inferno.mlir import ir, memref, owner, walk
from inferno.passes.shapes import shape
from inferno.symbolic import Int, product


class Scope:
    """What stands in a new function for values of the kernel: parameters for buffers, clones for the rest."""

    def __init__(self, known: dict[ir.Value, ir.Value], inside: ir.Block, number: Callable[[Int], ir.Value] | None = None) -> None:
        self._known = dict(known)
        self._flat: dict[ir.Value, ir.Value] = {}
        self._inside, self._number = inside, number

    def value(self, value: ir.Value) -> ir.Value:
        op = owner(value)
        if value in self._known or op is None or not self._outside(op):
            return self._known.get(value, value)
        operands = [self.value(v) for v in op.operands]
        with ir.InsertionPoint.at_block_begin(self._inside) if not operands else self._after(operands):
            new = op.clone()
        for i, v in enumerate(operands):
            new.operands[i] = v
        self._known.update(zip(op.results, new.results))
        return self._known[value]

    def _after(self, operands: list[ir.Value]) -> ir.InsertionPoint:
        """Behind the last of the operands that are made in the entry block."""
        made = [owner(v) for v in operands if owner(v) is not None]
        last = None
        for op in self._inside.operations:
            if op.operation in made:
                last = op.operation
        if last is None:
            return ir.InsertionPoint.at_block_begin(self._inside)
        following = list(self._inside.operations)
        at = next(i for i, o in enumerate(following) if o.operation == last)
        return ir.InsertionPoint(following[at + 1]) if at + 1 < len(following) else ir.InsertionPoint(self._inside)

    def _outside(self, op: ir.Operation) -> bool:
        at = op
        while at.name != "func.func":
            at = at.parent
        return at.operation != self._inside.owner.operation

    def flat(self, root: ir.Value) -> ir.Value:
        """A root as one dimension."""
        buffer = self.value(root)
        if buffer not in self._flat:
            type_ = ir.MemRefType(buffer.type)
            if type_.rank == 1:
                self._flat[buffer] = buffer
            elif not type_.has_static_shape:
                with self._after([buffer]):
                    count = self._number(product(shape(root)))
                    flat = ir.MemRefType.get([ir.ShapedType.get_dynamic_size()], type_.element_type)
                    self._flat[buffer] = memref.ReinterpretCastOp(flat, buffer, [], [count], [], [0], list(flat.shape), [1]).result
            else:
                count = prod(type_.shape)
                with self._after([buffer]):
                    self._flat[buffer] = memref.ReinterpretCastOp(
                        ir.MemRefType.get([count], type_.element_type), buffer, [], [], [], [0], [count], [1]
                    ).result
        return self._flat[buffer]


def taken_by(nest: Nest) -> list[ir.Value]:
    """The values that the body takes from outside of the operation."""
    inside: set[ir.Value] = set(nest.block.arguments)
    found: dict[ir.Value, None] = {}
    for op in walk(nest.op):
        if op == nest.op:
            continue
        inside.update(op.results)
        inside.update(a for region in op.regions for block in region.blocks for a in block.arguments)
    for op in walk(nest.op):
        if op != nest.op:
            found.update((v, None) for v in op.operands if v not in inside)
    return list(found)


def read_by(nest: Nest) -> list[ir.Value]:
    """The buffers that scalars from outside are read from, also through what is computed from them."""
    found: dict[ir.Value, None] = {}
    scalars = [v for v in nest.op.operands if not isinstance(v.type, ir.MemRefType)]
    pending = [*taken_by(nest), *scalars, *(r.start for r in getattr(nest, "results", ()) if r.start is not None)]
    while pending:
        value = pending.pop(0)
        if isinstance(value.type, ir.MemRefType):
            found[root_of(value)] = None
        elif owner(value) is not None:
            pending += owner(value).operands
    return list(found)
