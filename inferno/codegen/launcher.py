"""The host's side of a kernel: after generation, a kernel function is a *launcher*, a function on buffers that holds
``memref.alloc`` for its temporaries and ``inferno.launch`` for its kernels.  ``inferno-plan`` inlines it into ``@main``.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from inferno.dialect import LaunchOp, ParameterType, PointerOp, ScalarOp, TensorMapOp
from inferno.mlir import func, ir, memref


def buffer_type(tensor: ir.Type) -> ir.MemRefType:
    """The contiguous buffer that holds a tensor of this type."""
    t = ir.RankedTensorType(tensor)
    return ir.MemRefType.get(list(t.shape), t.element_type)


@contextmanager
def launcher(kernel: func.FuncOp) -> Iterator[list[ir.Value]]:
    """Replace the kernel function (on tensors, destinations last) by its launcher of the same name.

    Yields the launcher's arguments, one memref for each of the function's; the insertion point is its body.  Read what
    you need of the old body before: it is erased when the launcher is done.
    """
    types = [buffer_type(t) for t in kernel.type.inputs]
    with ir.InsertionPoint(kernel.operation), kernel.location:
        new = func.FuncOp(kernel.name.value + "__launcher", (types, []))
    block = new.add_entry_block()
    with ir.InsertionPoint(block), kernel.location:
        yield list(block.arguments)
        func.ReturnOp([])
    name = kernel.name.value
    for key in ("inferno.schedule",):
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


def temporary(shape: Sequence[int], element: ir.Type) -> ir.Value:
    """A buffer that lives in the workspace while this kernel function runs."""
    return memref.AllocOp(ir.MemRefType.get(list(shape), element), [], []).memref


def tensor_map(
    buffer: ir.Value, *, sizes: Sequence[int], strides: Sequence[int], box: Sequence[int], element: str,
    swizzle: int = 128, l2: int = 256,
) -> ir.Value:
    """The buffer as a TMA tensor, innermost dimension first; strides in bytes, the first the element's size."""
    return TensorMapOp(
        buffer, ParameterType.get(), integers(sizes), integers(strides), integers(box), ir.StringAttr.get(element),
        integer(swizzle), integer(l2),
    ).parameter


def launch(
    module: str, kernel: str, parameters: Sequence[ir.Value], grid: Sequence[int], block: Sequence[int],
    cluster: Sequence[int] = (1, 1, 1), shared: int = 0,
) -> None:
    """Launch ``@module::@kernel``; ``shared`` is dynamic shared memory in bytes."""
    LaunchOp(
        list(parameters), ir.SymbolRefAttr.get([module, kernel]), integers(grid), integers(block), integers(cluster),
        integer(shared),
    )


def integer(value: int) -> ir.IntegerAttr:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)


def integers(values: Sequence[int]) -> ir.ArrayAttr:
    return ir.ArrayAttr.get([integer(v) for v in values])
