"""Operations and types of the inferno dialect, with their verifiers.

(No ``from __future__ import annotations`` here: the bindings read the annotations as classes.)
"""

from collections.abc import Sequence
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import ext

from inferno.pixel_limits import MOST_CHANNELS, MOST_PIXELS, MOST_STEP, fits_corner

AT_CALL = -1  # in place of a size that is known at the call
COPIES = "inferno.copies"
"""On a launch: it copies the first of its two buffers to the second, and does nothing else."""
COOPERATIVE = "inferno.cooperative"
"""On a launch: its blocks wait for each other, so it starts when all of them can run at once."""


class Inferno(ext.Dialect, name="inferno"):
    pass


class _Invalid(Exception):
    """What is wrong with an operation."""


def _verifier(check):
    """``check(op)`` raises _Invalid; it runs before the declared attributes are checked, so it may find none."""

    def verify_invariants(op) -> bool:
        try:
            check(op)
        except _Invalid as error:
            op.location.emit_error(f"{op.operation.name}: {error}")
            return False
        return True

    return staticmethod(verify_invariants)


def _integer(op, name: str) -> int:
    return _number(name, _attribute(op, name))


def _integers(op, name: str) -> list[int]:
    attribute = _attribute(op, name)
    if not isinstance(attribute, ir.ArrayAttr):
        raise _Invalid(f"{name} must be an array of integers, got {attribute}")
    return [_number(name, element) for element in attribute]


def _attribute(op, name: str) -> ir.Attribute:
    if name not in op.attributes:
        raise _Invalid(f"the attribute {name} is missing")
    return op.attributes[name]


def _number(name: str, attribute: ir.Attribute) -> int:
    if not isinstance(attribute, ir.IntegerAttr):
        raise _Invalid(f"{name} must hold integers, got {attribute}")
    return attribute.value


def _check_tensor_map(op) -> None:
    """Of a map of tiles: what the copy engine takes, as far as it is known here."""
    sizes, strides, box = (_integers(op, name) for name in ("sizes", "strides", "box"))
    if not 1 <= len(sizes) <= 5:
        raise _Invalid(f"a tensor map has 1 to 5 dimensions, got {len(sizes)}")
    if len(strides) != len(sizes) or len(box) != len(sizes):
        raise _Invalid(f"{len(sizes)} sizes need as many strides and box sizes, got {len(strides)} and {len(box)}")
    _check_strides(strides)
    if any(not 1 <= b <= 256 for b in box):
        raise _Invalid(f"box sizes must be 1 to 256, got {box}")
    _check_lines(op, strides[0] * box[0])
    _check_values(op, "sizes and strides", [*sizes, *strides].count(AT_CALL))


def _check_strides(strides: Sequence[int]) -> None:
    if any(s % 16 for s in strides[1:] if s != AT_CALL):
        raise _Invalid(f"strides but the innermost must be multiples of 16 bytes, got {strides}")


def _check_lines(op, line: int) -> None:
    """Of a box whose lines have so many bytes."""
    swizzle, l2 = _integer(op, "swizzle"), _integer(op, "l2")
    if swizzle not in (0, 32, 64, 128):
        raise _Invalid(f"swizzle must be 0, 32, 64 or 128 bytes, got {swizzle}")
    if swizzle and line > swizzle:
        raise _Invalid(f"a box's lines have {line} bytes, more than the {swizzle} that are swizzled")
    if l2 not in (0, 64, 128, 256):
        raise _Invalid(f"l2 must be 0, 64, 128 or 256 bytes, got {l2}")


def _check_values(op, what: str, count: int) -> None:
    """That there is an operand for each number that is known at the call, beside the buffer."""
    if count != len(op.operation.operands) - 1:
        raise _Invalid(f"{count} {what} are known at the call, got {len(op.operation.operands) - 1} values")


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

    verify_invariants = _verifier(_check_tensor_map)


class PixelMapOp(Inferno.Operation, name="pixel_map"):
    """How the copy engine sees ``buffer``, images with channels innermost, in its im2col mode; ``sizes``, ``strides``, ``element``, ``swizzle`` and
    ``l2`` are as in ``tensor_map``.  ``box``: channels and pixels that are copied together.  Pixels are walked by ``steps`` through
    the box from corner ``lower`` to ``upper``, distances from the image's own corners, and on to the next image; these three have a number
    for each spatial dimension, innermost first.  A size that is known at the call is -1, and ``values`` are those."""

    buffer: ext.Operand[ir.MemRefType]
    values: Sequence[ext.Operand[ir.IndexType]]
    parameter: ext.Result[ParameterType]
    sizes: ir.ArrayAttr
    strides: ir.ArrayAttr
    box: ir.ArrayAttr
    lower: ir.ArrayAttr
    upper: ir.ArrayAttr
    steps: ir.ArrayAttr
    element: ir.StringAttr
    swizzle: ir.IntegerAttr
    l2: ir.IntegerAttr

    @_verifier
    def verify_invariants(op):
        sizes, strides, box, lower, upper, steps = (_integers(op, n) for n in ("sizes", "strides", "box", "lower", "upper", "steps"))
        if not 3 <= len(sizes) <= 5 or len(strides) != len(sizes):
            raise _Invalid(f"a map of pixels has 3 to 5 dimensions and as many strides, got {len(sizes)} and {len(strides)}")
        if {len(lower), len(upper), len(steps)} != {len(sizes) - 2}:
            raise _Invalid(f"{len(sizes) - 2} spatial dimensions have as many corners and steps, got {lower}, {upper} and {steps}")
        _check_strides(strides)
        if len(box) != 2 or not 1 <= box[0] <= MOST_CHANNELS or not 1 <= box[1] <= MOST_PIXELS:
            raise _Invalid(f"a box has 1 to {MOST_CHANNELS} channels of 1 to {MOST_PIXELS} pixels, got {box}")
        _check_lines(op, strides[0] * box[0])
        if any(not 1 <= s <= MOST_STEP for s in steps):
            raise _Invalid(f"steps must be 1 to {MOST_STEP}, got {steps}")
        if not all(fits_corner(c, len(lower)) for c in (*lower, *upper)):
            raise _Invalid(f"corners {lower} and {upper} are too far away")
        _check_values(op, "sizes", sizes.count(AT_CALL))


class SizedTensorMapOp(Inferno.Operation, name="sized_tensor_map"):
    """A tensor map with sizes or strides that are known at the call: those are -1, and ``values`` are they, sizes first."""

    buffer: ext.Operand[ir.MemRefType]
    values: Sequence[ext.Operand[ir.IndexType]]
    parameter: ext.Result[ParameterType]
    sizes: ir.ArrayAttr
    strides: ir.ArrayAttr
    box: ir.ArrayAttr
    element: ir.StringAttr
    swizzle: ir.IntegerAttr
    l2: ir.IntegerAttr

    verify_invariants = _verifier(_check_tensor_map)


class LaunchOp(Inferno.Operation, name="launch"):
    """Launch ``kernel`` (``@module::@function``) on ``grid`` blocks of ``block`` threads, in clusters of ``cluster``
    blocks, with ``shared`` bytes of dynamic shared memory.  A grid size of -1 is known at the call: the last operands, scalars,
    are these sizes in order and no parameters of the kernel.  A launch whose grid has a size of 0 does nothing.

    The operands have one type, ``!inferno.parameter``, because the bindings require a variadic operand to be uniform.
    """

    parameters: Sequence[ext.Operand[ParameterType]]
    kernel: ir.SymbolRefAttr
    grid: ir.ArrayAttr
    block: ir.ArrayAttr
    cluster: ir.ArrayAttr
    shared: ir.IntegerAttr

    @_verifier
    def verify_invariants(op):
        grid, block, cluster = (_integers(op, name) for name in ("grid", "block", "cluster"))
        for name, value in (("grid", grid), ("block", block), ("cluster", cluster)):
            if len(value) != 3 or any(v < 1 and not (v == AT_CALL and name == "grid") for v in value):
                raise _Invalid(f"{name} must be three positive numbers, got {value}")
        if block[0] * block[1] * block[2] > 1024:
            raise _Invalid(f"a block has at most 1024 threads, got {block[0] * block[1] * block[2]}")
        if any(g % c for g, c in zip(grid, cluster) if g != AT_CALL):
            raise _Invalid(f"grid {grid} is not a multiple of cluster {cluster}")
        if _integer(op, "shared") < 0:
            raise _Invalid("shared must not be negative")


class WorkspaceOp(Inferno.Operation, name="workspace"):
    """A buffer of the plan's workspace, ``offset`` bytes from its start."""

    buffer: ext.Result[ir.MemRefType]
    offset: ir.IntegerAttr

    @_verifier
    def verify_invariants(op):
        offset = _integer(op, "offset")
        if offset < 0 or offset % 256:
            raise _Invalid(f"offset must be a multiple of 256, got {offset}")


class SizedWorkspaceOp(Inferno.Operation, name="sized_workspace"):
    """A buffer of the plan's workspace whose place depends on the call: ``operands`` are the offset in bytes from its start, a
    multiple of 256, and the sizes that vary of the buffer."""

    buffer: ext.Result[ir.MemRefType]
    values: Sequence[ext.Operand[ir.IndexType]]


class LibraryOp(Inferno.Operation, name="library"):
    """Call the library function ``function`` on the operands, the last one being the destination.
    ``options`` are the function's own, documented where it is implemented."""

    parameters: Sequence[ext.Operand[ParameterType]]
    function: ir.StringAttr
    options: ir.DictAttr
