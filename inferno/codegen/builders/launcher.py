"""The host's side of a kernel: after generation, a kernel function is a *launcher*, a function on buffers that holds
``memref.alloc`` for its temporaries and ``inferno.launch`` for its kernels.  The pass ``plan-launches`` inlines it into ``@main``.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from inferno.dialect import AT_CALL, COOPERATIVE, COPIES, LaunchOp, LibraryOp, ParameterType, PixelMapOp, PointerOp, ScalarOp, SizedTensorMapOp, TensorMapOp
from inferno.dialect.sizes import integer
from inferno.mlir import func, ir, memref
from inferno.passes.shapes import function_of, static, symbol_arguments
from inferno.passes.size_values import materialise
from inferno.symbolic import Int, Size


def buffer_type(tensor: ir.Type) -> ir.Type:
    """The contiguous buffer that holds a tensor of this type; the type itself for a size."""
    if not isinstance(tensor, ir.RankedTensorType):
        return tensor  # a size, which is passed as it is
    t = ir.RankedTensorType(tensor)
    return ir.MemRefType.get(list(t.shape), t.element_type)


@contextmanager
def launcher(kernel: func.FuncOp) -> Iterator[list[ir.Value]]:
    """Replace the kernel function (on tensors, destinations last) by its launcher of the same name.

    Yields the launcher's arguments, for each tensor of the function's a memref, for each size an index; the insertion point is its body.  Read what
    you need of the old body before: it is erased when the launcher is done.
    """
    types = [buffer_type(t) for t in kernel.type.inputs]
    with ir.InsertionPoint(kernel.operation), kernel.location:
        new = func.FuncOp(kernel.name.value + "__launcher", (types, []))
        if any(isinstance(t, ir.IndexType) for t in types):
            new.attributes["arg_attrs"] = kernel.attributes["arg_attrs"]
    block = new.add_entry_block()
    with ir.InsertionPoint(block), kernel.location:
        yield list(block.arguments)
        func.ReturnOp([])
    name = kernel.name.value
    for key in ("inferno.schedule", "inferno.overwrites"):
        if key in kernel.attributes:
            new.attributes[key] = kernel.attributes[key]
    kernel.operation.erase()
    new.attributes["sym_name"] = ir.StringAttr.get(name)
    new.attributes["sym_visibility"] = ir.StringAttr.get("private")


def pointer(buffer: ir.Value) -> ir.Value:
    """The buffer's address as a kernel parameter."""
    return PointerOp(buffer, ParameterType.get()).parameter


def scalar(value: ir.Value) -> ir.Value:
    """A number as a kernel parameter."""
    return ScalarOp(value, ParameterType.get()).parameter


def parameter(argument: ir.Value) -> ir.Value:
    """An argument of a launcher as a kernel parameter: a buffer's address, or a size."""
    return scalar(argument) if isinstance(argument.type, ir.IndexType) else pointer(argument)


def size(value: Int) -> ir.Value:
    """A size as an index value, in a launcher: an expression of the kernel's sizes."""
    return materialise(value, symbol_arguments(function_of(ir.InsertionPoint.current.block.owner.operation)))


def temporary(shape: Sequence[Int], element: ir.Type) -> ir.Value:
    """A buffer that lives in the workspace while this kernel function runs."""
    return memref.AllocOp(ir.MemRefType.get(static(shape), element), [size(s) for s in shape if not isinstance(s, int)], []).memref


def tensor_map(
    buffer: ir.Value, *, sizes: Sequence[Int], strides: Sequence[Int], box: Sequence[int], element: str,
    swizzle: int = 128, l2: int = 256,
) -> ir.Value:
    """The buffer as a TMA tensor, innermost dimension first; strides in bytes, the first the element's size.  A boolean is a byte."""
    element = "ui8" if element == "i1" else element
    varying = [size(v) for v in (*sizes, *strides) if not isinstance(v, int)]
    if varying:
        fixed = ([v if isinstance(v, int) else AT_CALL for v in each] for each in (sizes, strides))
        return SizedTensorMapOp(
            buffer, varying, ParameterType.get(), *map(integers, fixed), integers(box), ir.StringAttr.get(element), integer(swizzle), integer(l2),
        ).parameter
    return TensorMapOp(
        buffer, ParameterType.get(), integers(sizes), integers(strides), integers(box), ir.StringAttr.get(element),
        integer(swizzle), integer(l2),
    ).parameter


def pixel_map(
    buffer: ir.Value, *, sizes: Sequence[Int], strides: Sequence[int], channels: int, pixels: int, lower: Sequence[int], upper: Sequence[int],
    steps: Sequence[int], element: str, swizzle: int = 128,
) -> ir.Value:
    """The buffer as a TMA tensor of images, channels innermost, of which ``channels`` of ``pixels`` pixels are copied together; see the
    operation."""
    fixed = [v if isinstance(v, int) else AT_CALL for v in sizes]
    return PixelMapOp(
        buffer, [size(v) for v in sizes if not isinstance(v, int)], ParameterType.get(),
        *map(integers, (fixed, strides, [channels, pixels], lower, upper, steps)), ir.StringAttr.get(element), integer(swizzle), integer(256),
    ).parameter


def launch(
    module: str, kernel: str, parameters: Sequence[ir.Value], grid: Sequence[Int], block: Sequence[int],
    cluster: Sequence[int] = (1, 1, 1), shared: int = 0, copies: bool = False, cooperative: bool = False,
) -> None:
    """Launch ``@module::@kernel``; ``shared`` is dynamic shared memory in bytes.  The grid's sizes may vary.  ``copies``: the kernel copies the
    first of its two buffers to the second, and does nothing else; ``cooperative``: its blocks wait for each other."""
    varying = [scalar(size(g)) for g in grid if not isinstance(g, int)]
    fixed = [g if isinstance(g, int) else AT_CALL for g in grid]
    made = LaunchOp(
        [*parameters, *varying], ir.SymbolRefAttr.get([module, kernel]), integers(fixed), integers(block), integers(cluster), integer(shared),
    )
    if copies:
        made.attributes[COPIES] = ir.UnitAttr.get()
    if cooperative:
        made.attributes[COOPERATIVE] = ir.UnitAttr.get()


def library(parameters: Sequence[ir.Value], function: str, options: Mapping[str, Int | Sequence[Int] | float | bool | str]) -> None:
    """Call a library's function; numbers among the options that vary are operands behind the others, in the order of names."""
    varying, fixed = [], {}
    for name in sorted(options):
        value = options[name]
        if isinstance(value, bool):
            fixed[name] = ir.BoolAttr.get(value)
        elif isinstance(value, float):
            fixed[name] = ir.FloatAttr.get(ir.F64Type.get(), value)
        elif isinstance(value, str):
            fixed[name] = ir.StringAttr.get(value)
        else:
            numbers = [value] if isinstance(value, (int, Size)) else list(value)
            varying += [scalar(size(v)) for v in numbers if not isinstance(v, int)]
            known = [v if isinstance(v, int) else AT_CALL for v in numbers]
            fixed[name] = integer(known[0]) if isinstance(value, (int, Size)) else integers(known)
    LibraryOp([*parameters, *varying], ir.StringAttr.get(function), ir.DictAttr.get(fixed))


def integers(values: Sequence[int]) -> ir.ArrayAttr:
    """Numbers as an attribute."""
    return ir.ArrayAttr.get([integer(v) for v in values])
