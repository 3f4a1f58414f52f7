"""Operations and types of the inferno dialect, with their verifiers.

(No ``from __future__ import annotations`` here: the bindings read the annotations as classes.)
"""

from collections.abc import Sequence
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import ext


class Inferno(ext.Dialect, name="inferno"):
    pass


def _reject(op, message: str) -> bool:
    op.location.emit_error(f"{op.operation.name}: {message}")
    return False


def _integers(attribute) -> list[int]:
    return [ir.IntegerAttr(v).value for v in ir.ArrayAttr(attribute)]


class ParameterType(Inferno.Type, name="parameter"):
    """One parameter of a kernel: a pointer, a scalar, or a tensor map (128 bytes, passed by value)."""


class PointerOp(Inferno.Operation, name="pointer"):
    """The address of ``buffer``, as a kernel's parameter."""

    buffer: ext.Operand[ir.MemRefType]
    parameter: ext.Result[ParameterType]


class ScalarOp(Inferno.Operation, name="scalar"):
    """An integer or float, as a kernel's parameter; ``index`` is passed as 64 bits."""

    value: ext.Operand[Any]
    parameter: ext.Result[ParameterType]


class TensorMapOp(Inferno.Operation, name="tensor_map"):
    """How the copy engine sees ``buffer``: ``sizes`` and ``box`` innermost dimension first, in elements;
    ``strides`` in bytes, the innermost one the element's size; ``swizzle`` is the span in bytes (0, 32, 64 or 128);
    ``element`` is bf16, f16, f32, tf32, ...; ``l2`` is the promotion in bytes (0, 64, 128, 256)."""

    buffer: ext.Operand[ir.MemRefType]
    parameter: ext.Result[ParameterType]
    sizes: ir.ArrayAttr
    strides: ir.ArrayAttr
    box: ir.ArrayAttr
    element: ir.StringAttr
    swizzle: ir.IntegerAttr
    l2: ir.IntegerAttr

    @staticmethod
    def verify_invariants(op):
        sizes, strides, box = (_integers(op.attributes[name]) for name in ("sizes", "strides", "box"))
        swizzle = ir.IntegerAttr(op.attributes["swizzle"]).value
        if not 1 <= len(sizes) <= 5:
            return _reject(op, f"a tensor map has 1 to 5 dimensions, got {len(sizes)}")
        if len(strides) != len(sizes) or len(box) != len(sizes):
            return _reject(op, f"{len(sizes)} sizes need as many strides and box sizes, got {len(strides)} and {len(box)}")
        if any(s % 16 for s in strides[1:]):
            return _reject(op, f"strides but the innermost must be multiples of 16 bytes, got {strides}")
        if any(not 1 <= b <= 256 for b in box):
            return _reject(op, f"box sizes must be 1 to 256, got {box}")
        if swizzle not in (0, 32, 64, 128):
            return _reject(op, f"swizzle must be 0, 32, 64 or 128 bytes, got {swizzle}")
        return True


class LaunchOp(Inferno.Operation, name="launch"):
    """Launch ``kernel`` (``@module::@function``) on ``grid`` blocks of ``block`` threads, in clusters of ``cluster``
    blocks, with ``shared`` bytes of dynamic shared memory.

    The operands have one type, ``!inferno.parameter``, because the bindings require a variadic operand to be uniform.
    """

    parameters: Sequence[ext.Operand[ParameterType]]
    kernel: ir.SymbolRefAttr
    grid: ir.ArrayAttr
    block: ir.ArrayAttr
    cluster: ir.ArrayAttr
    shared: ir.IntegerAttr

    @staticmethod
    def verify_invariants(op):
        grid, block, cluster = (_integers(op.attributes[name]) for name in ("grid", "block", "cluster"))
        for name, value in (("grid", grid), ("block", block), ("cluster", cluster)):
            if len(value) != 3 or any(v < 1 for v in value):
                return _reject(op, f"{name} must be three positive numbers, got {value}")
        if block[0] * block[1] * block[2] > 1024:
            return _reject(op, f"a block has at most 1024 threads, got {block[0] * block[1] * block[2]}")
        if any(g % c for g, c in zip(grid, cluster)):
            return _reject(op, f"grid {grid} is not a multiple of cluster {cluster}")
        if ir.IntegerAttr(op.attributes["shared"]).value < 0:
            return _reject(op, "shared must not be negative")
        return True


class WorkspaceOp(Inferno.Operation, name="workspace"):
    """A buffer of the plan's workspace, ``offset`` bytes from its start."""

    buffer: ext.Result[ir.MemRefType]
    offset: ir.IntegerAttr

    @staticmethod
    def verify_invariants(op):
        offset = ir.IntegerAttr(op.attributes["offset"]).value
        if offset < 0 or offset % 256:
            return _reject(op, f"offset must be a multiple of 256, got {offset}")
        return True


class LibraryOp(Inferno.Operation, name="library"):
    """Call the library function ``function`` on the operands, the last one being the destination.
    ``options`` are the function's own, documented where it is implemented."""

    parameters: Sequence[ext.Operand[ParameterType]]
    function: ir.StringAttr
    options: ir.DictAttr
