"""One GPU kernel out of operations of a host function on buffers: what it needs from outside is cloned into it.

Buffers become parameters, one flat pointer each; constants, views and scalars that are read from memory are computed again
inside, so that nothing but addresses crosses from host to device.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from inferno.codegen.integers import Integers
from inferno.errors import CompileError
from inferno.mlir import ir, memref, owner, walk

_LIMIT = 2**31


def is_root(value: ir.Value) -> bool:
    """Whether ``value`` is a buffer that the host owns: an argument of its function or an allocation."""
    op = owner(value)
    return op is None or op.name == "memref.alloc"


def outside_values(op: ir.Operation) -> list[ir.Value]:
    """The values that ``op``, with all that is inside it, takes from around it, in order."""
    inside = {r for o in walk(op) for r in o.results}
    inside |= {a for o in walk(op) for region in o.regions for b in region.blocks for a in b.arguments}
    return list(dict.fromkeys(v for o in walk(op) for v in o.operands if v not in inside))


def roots_of(value: ir.Value) -> list[ir.Value]:
    """The buffers that ``value`` is a view of or is computed from."""
    if is_root(value):
        return [value] if isinstance(value.type, ir.MemRefType) else []
    return list(dict.fromkeys(r for v in outside_values(owner(value)) for r in roots_of(v)))


def buffers_of(operations: Sequence[ir.Operation]) -> list[ir.Value]:
    """All buffers that the operations touch."""
    return list(dict.fromkeys(r for op in operations for v in outside_values(op) for r in roots_of(v)))


@dataclass
class DeviceFunction:
    """A ``gpu.func`` that is being filled.  ``buffers`` are the host's, one a parameter; ``shared`` its shared arrays."""

    operation: ir.Operation
    buffers: list[ir.Value]
    shared: list[ir.Value]
    ints: Integers
    _known: dict[ir.Value, ir.Value]

    @property
    def block(self) -> ir.Block:
        return self.operation.regions[0].blocks[0]

    def value(self, outside: ir.Value) -> ir.Value:
        """What stands for a value of the host function here."""
        if outside not in self._known:
            op = owner(outside)
            if op is None or len(op.regions):
                raise CompileError(f"{op.name if op is not None else 'an argument'} would have to run on the host")
            clone = self.clone(op)
            self._known.update(zip(op.results, clone.results))
        return self._known[outside]

    def define(self, outside: ir.Operation, inside: ir.Operation) -> None:
        """Let the results of a cloned operation stand for the original's."""
        self._known.update(zip(outside.results, inside.results))

    def clone(self, op: ir.Operation) -> ir.Operation:
        """``op`` at the insertion point, on values of this function."""
        known = {v: self.value(v) for v in outside_values(op)}
        new = op.clone()
        for inner in walk(new):
            for i, v in enumerate(inner.operands):
                if v in known:
                    inner.operands[i] = known[v]
        return new

    def drop_unused(self) -> None:
        """Remove the parameters that nothing uses."""
        attributes = list(self.operation.attributes["arg_attrs"])
        for i in reversed(range(len(self.buffers))):
            if not any(True for _ in self.block.arguments[i].uses):
                self.block.erase_argument(i)
                del self.buffers[i], attributes[i]
        inputs = [a.type for a in list(self.block.arguments)[: len(self.buffers)]]
        self.operation.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, []))
        self.operation.attributes["arg_attrs"] = ir.ArrayAttr.get(attributes)


def device_function(
    module: ir.Operation, name: str, buffers: Sequence[ir.Value], written: set[ir.Value], threads: int, work: int,
    shared: Sequence[tuple[int, ir.Type]] = (),
) -> DeviceFunction:
    """Add an empty kernel to ``module`` (a ``gpu.module``).  ``work`` is the largest number that its threads count to."""
    types = [ir.MemRefType(b.type) for b in buffers]
    counts = [math.prod(t.shape) for t in types]
    parameters = ", ".join(
        f"%b{i}: memref<{max(1, n)}x{t.element_type}> {{llvm.noalias, llvm.align = 16 : i64{'' if b in written else ', llvm.readonly'}}}"
        for i, (b, t, n) in enumerate(zip(buffers, types, counts))
    )
    arrays = ", ".join(f"%s{i} : memref<{n}x{t}, #gpu.address_space<workgroup>>" for i, (n, t) in enumerate(shared))
    text = f"""gpu.module @shell {{ gpu.func @"{name}"({parameters}) {f"workgroup({arrays})" if shared else ""} kernel
      attributes {{known_block_size = array<i32: {threads}, 1, 1>}} {{ gpu.return }} }}"""
    parsed = ir.Module.parse(text, module.context)
    function = parsed.body.operations[0].regions[0].blocks[0].operations[0].operation
    function.detach_from_parent()
    module.regions[0].blocks[0].append(function)
    block = function.regions[0].blocks[0]
    known: dict[ir.Value, ir.Value] = {}
    with ir.InsertionPoint.at_block_begin(block), ir.Location.unknown(module.context):
        for outside, type_, parameter in zip(buffers, types, block.arguments):
            strides = [math.prod(type_.shape[d + 1:]) for d in range(type_.rank)]
            known[outside] = memref.ReinterpretCastOp(type_, parameter, [], [], [], [0], list(type_.shape), strides).result
    width = 32 if max([work, *counts]) < _LIMIT else 64
    return DeviceFunction(function, list(buffers), list(block.arguments)[len(buffers):], Integers(width), known)
