"""One GPU kernel out of operations of a host function on buffers: what it needs from outside is cloned into it.

Buffers become parameters, one flat pointer each; constants, views and scalars that are read from memory are computed again
inside, so that nothing but addresses crosses from host to device.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from inferno.codegen.builders.gpu_function import stored_type
from inferno.codegen.builders.integers import Integers
from inferno.errors import CompileError
from inferno.mlir import clone_onto, ir, is_read, memref, outside_values, owner
from inferno.passes.shapes import is_dynamic, shape
from inferno.passes.size_values import materialise
from inferno.symbolic import Int, Symbol, product, reach

_LIMIT = 2**31  # what 32 bits do not hold


def is_root(value: ir.Value) -> bool:
    """Whether ``value`` is a buffer that the host owns: an argument of its function or an allocation."""
    op = owner(value)
    return op is None or op.name == "memref.alloc"


def roots_of(value: ir.Value) -> list[ir.Value]:
    """The buffers that ``value`` is a view of or is computed from."""
    if is_root(value):
        return [value] if isinstance(value.type, ir.MemRefType) else []
    return list(dict.fromkeys(r for v in outside_values(owner(value)) for r in roots_of(v)))


def buffers_of(operations: Sequence[ir.Operation]) -> list[ir.Value]:
    """All buffers that the operations touch."""
    return list(dict.fromkeys(r for op in operations for v in outside_values(op) for r in roots_of(v)))


def _parameter(value: ir.Value, number: int, written: set[ir.Value]) -> str:
    if isinstance(value.type, ir.IndexType):
        return f"%b{number}: index"
    type_ = ir.MemRefType(value.type)
    count = max(1, math.prod(type_.shape)) if type_.has_static_shape else 1  # what varies is reinterpreted
    readonly = "" if value in written else ", llvm.readonly"
    return f"%b{number}: memref<{count}x{type_.element_type}> {{llvm.noalias, llvm.align = 16 : i64{readonly}}}"


@dataclass
class DeviceFunction:
    """A ``gpu.func`` that is being filled.  ``buffers`` are the host's buffers and sizes, one a parameter; ``shared`` its shared arrays;
    ``layouts`` has for each buffer in it whose sizes vary the parameter that it is, and its strides."""

    operation: ir.Operation
    buffers: list[ir.Value]
    shared: list[ir.Value]
    ints: Integers
    _known: dict[ir.Value, ir.Value]
    layouts: dict[ir.Value, tuple[ir.Value, tuple[Int, ...]]] = field(default_factory=dict)

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

    def hold(self, buffer: ir.Value, array: ir.Value) -> None:
        """Let a shared array stand for a buffer of the host function, of known size."""
        type_ = ir.MemRefType(buffer.type)
        space = ir.MemRefType(array.type).memory_space
        here = ir.MemRefType.get(list(type_.shape), type_.element_type, memory_space=space)
        self._known[buffer] = reinterpreted(here, array, list(type_.shape), lambda size: size)

    def flat(self, buffer: ir.Value) -> ir.Value:
        """The parameter for a buffer of the host function, as a row of elements; booleans as the bytes that they are in memory.  For a function that does not
        use the buffer in any other way."""
        parameter = self.block.arguments[self.buffers.index(buffer)]
        for use in list(parameter.uses):  # as a buffer of its own shape
            self.layouts.pop(use.owner.operation.results[0], None)
            use.owner.operation.erase()
        type_ = ir.MemRefType(parameter.type)
        parameter.set_type(ir.MemRefType.get(type_.shape, stored_type(type_.element_type)))
        return parameter

    def define(self, outside: ir.Operation, inside: ir.Operation) -> None:
        """Let the results of a cloned operation stand for the original's."""
        self._known.update(zip(outside.results, inside.results))

    def clone(self, op: ir.Operation) -> ir.Operation:
        """``op`` at the insertion point, on values of this function."""
        return clone_onto(op, {v: self.value(v) for v in outside_values(op)})

    def drop_unused(self) -> None:
        """Remove the parameters that nothing uses."""
        for value in self.ints.symbols.values():
            if not is_read(value):
                owner(value).erase()
        attributes = list(self.operation.attributes["arg_attrs"])
        for i in reversed(range(len(self.buffers))):
            if not is_read(self.block.arguments[i]):
                self.block.erase_argument(i)
                del self.buffers[i], attributes[i]
        inputs = [a.type for a in list(self.block.arguments)[: len(self.buffers)]]
        self.operation.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, []))
        self.operation.attributes["arg_attrs"] = ir.ArrayAttr.get(attributes)


def device_function(
    module: ir.Operation, name: str, buffers: Sequence[ir.Value], written: set[ir.Value], threads: int, work: Int,
    shared: Sequence[tuple[int, ir.Type]] = (), sizes: Mapping[Symbol, ir.Value] | None = None,
) -> DeviceFunction:
    """Add an empty kernel to ``module`` (a ``gpu.module``).  ``work`` is the largest number that its threads count to, ``sizes`` the
    host's values of the symbols, which become parameters too."""
    sizes = sizes or {}
    counts = [reach(product(shape(b))) for b in buffers]
    buffers = [*sizes.values(), *buffers]
    parameters = ", ".join(_parameter(b, i, written) for i, b in enumerate(buffers))
    arrays = ", ".join(f"%s{i} : memref<{n}x{t}, #gpu.address_space<workgroup>> {{llvm.align = 16 : i64}}" for i, (n, t) in enumerate(shared))
    text = f"""gpu.module @shell {{ gpu.func @"{name}"({parameters}) {f"workgroup({arrays})" if shared else ""} kernel
      attributes {{known_block_size = array<i32: {threads}, 1, 1>}} {{ gpu.return }} }}"""
    parsed = ir.Module.parse(text, module.context)
    function = parsed.body.operations[0].regions[0].blocks[0].operations[0].operation
    function.detach_from_parent()
    module.regions[0].blocks[0].append(function)
    block = function.regions[0].blocks[0]
    width = 32 if max([reach(work), *counts]) < _LIMIT else 64
    known: dict[ir.Value, ir.Value] = {}
    layouts: dict[ir.Value, tuple[ir.Value, tuple[Int, ...]]] = {}
    with ir.InsertionPoint.at_block_begin(block), ir.Location.unknown(module.context):
        numbers = dict(zip(sizes, block.arguments))
        ints = Integers(width, {s: Integers(width).narrow(v) for s, v in numbers.items()})
        for outside, parameter in zip(buffers, block.arguments):
            if isinstance(outside.type, ir.IndexType):
                known[outside] = parameter
                continue
            extents = shape(outside)
            known[outside] = reinterpreted(outside.type, parameter, extents, lambda size: materialise(size, numbers))
            if is_dynamic(outside):
                layouts[known[outside]] = parameter, tuple(product(extents[d + 1:]) for d in range(len(extents)))
    return DeviceFunction(function, list(buffers), list(block.arguments)[len(buffers):], ints, known, layouts)


def reinterpreted(type_: ir.MemRefType, memory: ir.Value, sizes: Sequence[Int], number: Callable[[Int], ir.Value]) -> ir.Value:
    """A flat piece of memory as a contiguous buffer; ``number`` gives a size as an index."""
    unknown = ir.ShapedType.get_dynamic_stride_or_offset()
    steps = list(type_.get_strides_and_offset()[0])
    extents = [number(s) for d, s in enumerate(sizes) if type_.is_dynamic_dim(d)]
    strides = [number(product(sizes[d + 1:])) for d, s in enumerate(steps) if s == unknown]
    return memref.ReinterpretCastOp(type_, memory, [], extents, strides, [0], list(type_.shape), steps).result
