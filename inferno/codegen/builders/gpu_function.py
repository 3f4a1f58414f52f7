"""The shell of a GPU kernel: a ``gpu.module`` with one ``gpu.func`` on flat buffers in global memory."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from inferno.codegen.builders.integers import Integers
from inferno.mlir import func, ir, llvm
from inferno.passes.shapes import shape, symbol_arguments
from inferno.symbolic import Int, product, reach


@dataclass(frozen=True)
class Buffer:
    """A parameter: ``count`` elements of type ``element``; ``readonly`` lets it be read through the non-coherent cache.

    Booleans are bytes in memory, so the buffer of an i1 tensor is one of i8.
    """

    element: ir.Type
    count: int
    readonly: bool

    @property
    def stored(self) -> ir.Type:
        return stored_type(self.element)


def stored_type(element: ir.Type) -> ir.Type:
    """The type that an element has in memory."""
    return ir.IntegerType.get_signless(8) if str(element) == "i1" else element


@dataclass(frozen=True)
class Function:
    """The new kernel's parameters (memrefs of address space 1, and sizes), its shared arrays, and the address of its dynamic shared memory."""

    buffers: list[ir.Value]
    shared: list[ir.Value]
    dynamic: ir.Value | None = None


def parameters_of(kernel: func.FuncOp, written: set[int]) -> list[Buffer | None]:
    """What the kernel function's arguments are as parameters; ``written`` are the numbers of those that are stored to."""
    return [
        None if isinstance(a.type, ir.IndexType) else Buffer(a.type.element_type, reach(product(shape(a))), i not in written)
        for i, a in enumerate(kernel.entry_block.arguments)
    ]


def index_width(buffers: Sequence[Buffer | None], *counts: Int) -> int:
    """The bits that a kernel computes indices in: 32 if its buffers have fewer than 2^31 elements, and these ``counts`` are below as well, else 64.
    A number among these is one that was asked for as it is: it may be of more than 31 bits where a size has no upper bound."""
    return 32 if max([*(n if isinstance(n, int) else reach(n) for n in counts), *(b.count for b in buffers if b is not None)]) < 2**31 else 64


def integers_for(kernel: func.FuncOp, width: int, values: Sequence[ir.Value] | Mapping[int, ir.Value]) -> Integers:
    """Arithmetic that knows the kernel's sizes, in a GPU kernel where ``values`` stand for its arguments, or for some of them by their numbers."""
    symbols = {s: Integers(width).narrow(values[v.arg_number]) for s, v in symbol_arguments(kernel.operation).items()}
    return Integers(width, symbols)


@contextmanager
def gpu_function(
    kernel: func.FuncOp, buffers: Sequence[Buffer | None], threads: int, shared: Sequence[tuple[int, ir.Type]] = (),
    minimum_blocks: int = 0, cluster: int = 1, suffix: str = "", dynamic: bool = False,
) -> Iterator[Function]:
    """Add ``gpu.module @<name>_gpu`` in front of the kernel function ``name``, with one GPU kernel of that name in it, and
    yield its values; the insertion point is its body.  (The launcher keeps the symbol ``@<name>`` of the outer module.)

    A buffer that is None is a size, which the kernel gets as an index.

    ``shared``: (count, element type) of arrays in shared memory, 16-byte aligned.  ``minimum_blocks`` a multiprocessor
    bounds the registers.  ``cluster``: how many blocks are one.  A kernel with a ``suffix`` to its name joins the module that is there.
    ``dynamic``: whether it has dynamic shared memory too.
    """
    parameters = ", ".join(
        f"%b{i}: index" if b is None else
        f"%b{i}: memref<{b.count}x{b.stored}, 1> {{llvm.noalias, llvm.align = 16 : i64{', llvm.readonly' if b.readonly else ''}}}"
        for i, b in enumerate(buffers)
    )
    arrays = ", ".join(
        f"%s{i} : memref<{count}x{element}, #gpu.address_space<workgroup>> {{llvm.align = 16 : i64}}"
        for i, (count, element) in enumerate(shared)
    )
    bounds = f", nvvm.minctasm = {minimum_blocks} : i32" if minimum_blocks else ""
    clusters = f", known_cluster_size = array<i32: {cluster}, 1, 1>" if cluster > 1 else ""
    name = kernel.name.value
    # An external array: of any other one LLVM would make static shared memory, which would lie where the dynamic one does.
    memory = "llvm.mlir.global external @shared() {addr_space = 3 : i32, alignment = 128 : i64} : !llvm.array<0 x i8>" if dynamic else ""
    text = f"""gpu.module @"{name}_gpu" {{ {memory}
      gpu.func @"{name}{suffix}"({parameters}) {f"workgroup({arrays})" if shared else ""} kernel
          attributes {{known_block_size = array<i32: {threads}, 1, 1>{bounds}{clusters}}} {{ gpu.return }}
    }}"""
    shell = ir.Module.parse(text, kernel.context)
    module = shell.body.operations[0].operation
    function = next(o.operation for o in module.regions[0].blocks[0].operations if o.operation.name == "gpu.func")
    block = function.regions[0].blocks[0]
    with ir.InsertionPoint.at_block_terminator(block), kernel.location:
        base = None
        if dynamic:
            address = llvm.mlir_addressof(ir.Type.parse("!llvm.ptr<3>"), "shared")
            base = llvm.PtrToIntOp(ir.IntegerType.get_signless(32), address).result
        yield Function(list(block.arguments)[:len(buffers)], list(block.arguments)[len(buffers):], base)
    if suffix:
        function.detach_from_parent()
        device_module_of(kernel).regions[0].blocks[0].append(function)
    else:
        ir.InsertionPoint(kernel.operation).insert(module.detach_from_parent())


def device_module_of(kernel: func.FuncOp) -> ir.Operation:
    """The ``gpu.module`` that ``gpu_function`` has added for a kernel function."""
    name = f"{kernel.name.value}_gpu"
    return next(o.operation for o in kernel.operation.block.operations if o.operation.name == "gpu.module" and o.sym_name.value == name)
