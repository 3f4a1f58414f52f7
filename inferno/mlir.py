"""The one module that names the package of the MLIR bindings.

Everything else says ``from inferno.mlir import ir, linalg``.  Today the bindings are the ones in torch-mlir's wheel
(the PyPI name ``mlir-python-bindings`` is an empty placeholder); when upstream ships its own wheel, this file changes
and nothing else does.  Importing it does not import torch, so a process that only runs passes starts in 0.3 s.
"""

import ctypes
import importlib
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING

from torch_mlir import ir, rewrite
from torch_mlir._mlir_libs import _torchMlir
from torch_mlir.execution_engine import ExecutionEngine
from torch_mlir.passmanager import PassManager

from inferno.errors import CompileError
from inferno.fork_lock import ForkLock

if TYPE_CHECKING:
    from torch_mlir.dialects import (
        affine, arith, bufferization, cf, complex, ext, func, gpu, linalg, llvm, math, memref, nvvm, scf, tensor, vector,
    )

__all__ = [
    "ExecutionEngine", "PassManager", "affine", "arith", "backward_slice", "bufferization", "cf", "clone_onto", "complex", "erase_dead", "ext", "func", "gpu",
    "idle_context", "ir", "is_unread", "isolated_copy", "linalg", "llvm", "math", "memref", "new_context", "nvvm", "outside_values", "owner",
    "parse", "rewrite", "run_upstream", "scf", "tensor", "terminator", "vector", "walk",
]

_DIALECTS = frozenset({
    "affine", "arith", "bufferization", "cf", "complex", "ext", "func", "gpu", "linalg", "llvm", "math", "memref", "nvvm", "scf", "tensor",
    "vector",
})


def __getattr__(name: str) -> ModuleType:
    # When it is first asked for: the dialects take 0.16 s together, and a process that only launches kernels needs none of them.
    if name in _DIALECTS:
        return importlib.import_module(f"torch_mlir.dialects.{name}")
    raise AttributeError(f"module 'inferno.mlir' has no attribute {name!r}")


def _check_erase() -> None:
    """Let ``erase`` of an operation whose results are still used raise a CompileError.

    MLIR frees it whatever reads it, and who does so reads and writes freed memory: the process dies later, in another pass, or does not.  Asking
    takes 1 us, 3 ms of the 8 s for which a model of 2500 erased operations is fused.
    """
    base = next(c for c in ir.Operation.__mro__ if "erase" in vars(c))
    erase = base.erase

    def checked(operation: ir.OpView | ir.Operation) -> None:
        if any(next(iter(result.uses), None) is not None for result in operation.operation.results):
            raise CompileError(f"{operation.operation.name} is erased while its results are used; this is a fault of Inferno's")
        erase(operation)

    base.erase = checked


_check_erase()


def _hash_by_address() -> None:
    """Let the hash of an operation be where it is, as that of every other handle is: of values, blocks, attributes, types and maps.

    Operations are equal if they are one, but the bindings' hash is of what one says: its attributes, operands, types and location.  One that a set or a
    dictionary has is not found there any more as soon as any of these changes, which passes do; and the hash of one that was erased is read off freed memory.

    It takes 0.6 us, the bindings' 0.2: of the 2.7 s for which 12 layers of BERT are fused, in which 85000 are asked for, 0.04.  Addresses are used again:
    a set that lives on while operations are erased and made must not have the erased ones.
    """
    base = next(c for c in ir.Operation.__mro__ if "__hash__" in vars(c))
    # Of its own: what ``ctypes.pythonapi`` has by that name is everybody's.
    address = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
    capsule = f"{ir.__name__}.Operation._CAPIPtr".encode()
    base.__hash__ = lambda operation: address(operation._CAPIPtr, capsule) >> 4  # multiples of 16 would share 1 place of 16 of a set


_hash_by_address()

# Loading a dialect that is written in Python keeps its definition at the class meanwhile, where a second thread would put that of another context.
_loading = ForkLock()


def new_context() -> ir.Context:
    """A context that knows every dialect that a stage may hold: upstream's, torch, tm_tensor and inferno.

    tm_tensor has no registration function of its own: it is loaded as a dependent dialect of a pass that runs.
    """
    from inferno.dialect import Inferno

    context = ir.Context()
    _torchMlir.register_dialect(context)  # and not by way of its Python module, whose classes take 0.1 s
    with context, ir.Location.unknown():
        with _loading:
            Inferno.load()
            Inferno._mlir_module = None  # the definition, a module of this context
        run_upstream(ir.Module.parse("module {}"), "func.func(tm-tensor-bufferize)")
    return context


# A context takes 10 ms, what a kernel goes through 20 to 200.  It never forgets a type or an attribute, so that one is not used for ever, nor
# for a text with data.
_USES = 32
_LARGE = 1 << 20  # bytes of text


@dataclass
class _Kept:
    """``managers`` of passes by their text: canonicalization collects what all dialects know in 0.4 ms, as long as it then takes for a kernel."""

    managers: dict[str, PassManager]  # before their context, which they must not outlive
    context: ir.Context
    left: int = _USES - 1


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.kept: list[_Kept] = []


_of_thread = _OfThread()


def idle_context() -> ir.Context:
    """As ``new_context``, or one that this thread has used before and that no module is in any more."""
    for kept in _of_thread.kept:
        if kept.left and not kept.context._get_live_module_count():
            kept.left -= 1
            return kept.context
    made = _Kept({}, new_context())
    # Modules that wait for the garbage collector, or that the caller has, keep their context from being used: so there are several.
    _of_thread.kept = [*(k for k in _of_thread.kept if k.left), made][-4:]
    return made.context


def parse(text: str) -> ir.Module:
    """The module of ``text``."""
    has_data = len(text) > _LARGE or "dialect_resources" in text
    return ir.Module.parse(text, new_context() if has_data else idle_context())


_LOWERING = "torch-backend-to-linalg"


def run_upstream(module: ir.Module, passes: str) -> None:
    """Run a comma-separated list of upstream passes on a valid ``module``, in place.

    What they make is not verified, which takes as long as the passes do: that is for who hands it on.  But torch-mlir's lowering may make
    what is invalid of arguments that it does not know, on which canonicalization need not come to an end: it is verified after each.
    """
    context = module.context
    managers = next((k.managers for k in _of_thread.kept if k.context is context), {})
    manager = managers.get(passes)
    if manager is None:
        manager = managers[passes] = PassManager.parse(f"builtin.module({passes})", context)
        manager.enable_verifier(_LOWERING in passes)
    manager.run(module.operation)


# What is in no body of a generic, which computes elements: there most of a program's operations are.  None has another one inside.
_OUTSIDE = frozenset({
    "func.call", "linalg.fill", "linalg.generic", "tensor.collapse_shape", "tensor.concat", "tensor.expand_shape", "tm_tensor.scan", "tm_tensor.sort",
})


def terminator(block: ir.Block) -> ir.Operation:
    """The operation that ends a block: what it yields or returns are its operands."""
    return block.operations[len(block.operations) - 1].operation


def walk(op, *names: str) -> list[ir.Operation]:
    """The operations below ``op`` (itself included) in post-order; only those with one of ``names``, if any is given.

    A list, so that the caller may erase what it visits.
    """
    op = op.operation
    if not len(op.regions):  # as most: what is asked of every operation of a program is asked of a few of its bodies
        return [op] if not names or op.name in names else []
    found: list[ir.Operation] = []
    add, advance, skip = found.append, ir.WalkResult.ADVANCE, ir.WalkResult.SKIP

    def visit(o: ir.Operation) -> ir.WalkResult:
        add(o)
        return advance

    def visit_named(o: ir.Operation) -> ir.WalkResult:
        if o.name in names:
            add(o)
        return advance

    def visit_outside(o: ir.Operation) -> ir.WalkResult:
        name = o.name
        if name in names:
            add(o)
        return skip if name == "linalg.generic" else advance

    if names and _OUTSIDE.issuperset(names):
        op.walk(visit_outside, ir.WalkOrder.PRE_ORDER)
    else:
        op.walk(visit_named if names else visit)
    return found


def owner(value: ir.Value) -> ir.Operation | None:
    """The operation that defines ``value``; None for a block argument."""
    return None if isinstance(value, ir.BlockArgument) else value.owner.operation


def destination_of(value: ir.Value) -> ir.Value:
    """What ``value`` is computed into: the operand for this result of a structured operation or a call of a kernel, which has one for each, the last ones."""
    op = value.owner.operation
    return op.operands[len(op.operands) - len(op.results) + ir.OpResult(value).result_number]


def backward_slice(values: Iterable[ir.Value], through: Callable[[ir.Operation], bool] = lambda op: True) -> Iterator[ir.Value]:
    """``values`` and all values that they are computed of, also inside of operations with regions, each once; not what is behind operations that
    ``through`` does not let pass."""
    pending, seen = list(values), set()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        yield value
        made = owner(value)
        if made is not None and through(made):
            pending += [v for op in walk(made) for v in op.operands]


def dim_of(op: ir.Operation) -> int:
    """What an operation's ``dim`` is: the loop of a ``linalg.index``, the dimension of a concatenation."""
    return ir.IntegerAttr(op.attributes["dim"]).value


def constant_number(value: ir.Value) -> int | float | None:
    """The number that ``value``, a scalar, is, if an ``arith.constant`` defines it; None otherwise, and of one that is i1."""
    op = owner(value)
    number = op.attributes["value"] if op is not None and op.name == "arith.constant" else None
    return number.value if isinstance(number, (ir.FloatAttr, ir.IntegerAttr)) else None


def makes(op: ir.Operation, value: ir.Value) -> bool:
    """Whether ``op`` defines ``value``, which may be a block argument.  (The bindings' operations are compared with nothing but operations.)"""
    made = owner(value)
    return made is not None and made == op


def outside_values(op: ir.Operation) -> list[ir.Value]:
    """The values that ``op``, with all that is inside it, takes from around it, in order."""
    if not len(op.regions):
        return list(dict.fromkeys(op.operands))
    every = walk(op)
    inside = {r for o in every for r in o.results}
    inside |= {a for o in every for region in o.regions for b in region.blocks for a in b.arguments}
    return list(dict.fromkeys(v for o in every for v in o.operands if v not in inside))


def clone_onto(op: ir.Operation, known: dict[ir.Value, ir.Value]) -> ir.Operation:
    """``op`` cloned at the insertion point, with all that is inside it, on the values that ``known`` has for its operands; its results
    are added there."""
    clone = op.clone()
    # Most have no regions, and are cloned by the thousand where long bodies are fused.
    for inner in walk(clone) if len(clone.regions) else (clone,):
        for i, value in enumerate(inner.operands):
            if value in known:
                inner.operands[i] = known[value]
    known.update(zip(op.results, clone.results))
    return clone


def isolated_copy(function: ir.OpView) -> ir.Module:
    """A module that holds nothing but a copy of ``function``, to be looked at in another form than it has in its own module."""
    module = ir.Module.create()
    module.body.append(function.operation.clone(ip=False))
    return module


def is_read(value: ir.Value) -> bool:
    """Whether anything uses ``value``."""
    return next(iter(value.uses), None) is not None


def is_unread(op: ir.Operation) -> bool:
    """Whether nothing uses any result of ``op``."""
    return not any(map(is_read, op.results))


def erase_dead(operations: Iterable[ir.Operation]) -> None:
    """Erase those of these operations, which are in order, that have results of which nothing uses any, from the last to the first."""
    for op in reversed(list(operations)):
        if len(op.results) and is_unread(op):
            op.erase()


def users(value: ir.Value) -> Iterator[ir.Operation]:
    """The operations that use ``value``, one entry a use."""
    for use in value.uses:
        yield use.owner.operation
