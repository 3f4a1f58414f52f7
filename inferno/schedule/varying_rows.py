"""Reads a kernel whose number of rows varies as if that were a number, and puts the symbol back into what was found.

What goes over rows is found by factors of sizes, which symbols do not tell.  So a kernel is read twice, with two large primes in the symbol's
place: a number in what was found that is the same in both has nothing to do with the rows, and one that is the same multiple of either
prime is that many times the symbol.  Anything else is not understood.
"""

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any

from inferno.dialect.sizes import SIZES
from inferno.mlir import func, ir, tensor
from inferno.passes.shapes import UnknownSize, shape, symbol_arguments
from inferno.symbolic import Int, Symbol, evaluate, size_of

_PRIMES = 1_000_003, 1_500_007
# What a kernel on rows consists of beside what computes sizes.
_KEPT = ("linalg.generic", "linalg.fill", "tensor.collapse_shape", "tensor.pad", "arith.constant", "func.return")


class _Unlike(Exception):
    """What was found is not the same with either number."""


def read_varying(kernel: func.FuncOp, read: Callable[[func.FuncOp], Any]) -> Any | None:
    """What ``read`` finds of ``kernel``, with the only symbol in its sizes; None where there is not one, or it is not understood.  ``read`` gets
    kernels of known sizes, whose ``index`` argument nothing reads, and must keep its own copy."""
    symbols = list(symbol_arguments(kernel.operation))
    if len(symbols) != 1:
        return None
    found = []
    for number in _PRIMES:
        copy = with_number(kernel, symbols[0], number)
        one = read(copy.body.operations[0]) if copy is not None else None
        if one is None:
            return None
        found.append(one)
    try:
        return _joined(*found, symbols[0])
    except _Unlike:
        return None


def with_number(kernel: func.FuncOp, symbol: Symbol, number: int) -> ir.Module | None:
    """A copy with known sizes, whose arguments are the same; None where an operation is none that can be changed like this."""
    with kernel.context, ir.Location.unknown():
        module = ir.Module.create()
        module.body.append(kernel.operation.clone(ip=False))
        function = module.body.operations[0]
        operations = [o.operation for o in function.entry_block.operations]
        try:
            known = {v: tuple(_at(s, symbol, number) for s in shape(v)) for v in _tensors(function, operations)}
        except UnknownSize:
            return None
        for value, size in known.items():
            value.set_type(ir.RankedTensorType.get(size, value.type.element_type))
        for op in operations:
            if op.name in ("tensor.empty", "tensor.expand_shape"):
                with ir.InsertionPoint(op):
                    size = list(op.results[0].type.shape)
                    made = tensor.EmptyOp(size, op.results[0].type.element_type) if op.name == "tensor.empty" else (
                        tensor.ExpandShapeOp(op.results[0].type, op.operands[0], op.attributes["reassociation"], [], size))
                op.results[0].replace_all_uses_with(made.result)
                op.erase()
        for op in reversed([o.operation for o in function.entry_block.operations]):
            if op.name not in (*_KEPT, "tensor.empty", "tensor.expand_shape"):
                if any(any(True for _ in r.uses) for r in op.results) or op.name.startswith(("linalg.", "tensor.", "func.")):
                    return None
                op.erase()
        _retype(function)
        return module


def _tensors(function: func.FuncOp, operations: list[ir.Operation]) -> list[ir.Value]:
    """Those of sizes that vary."""
    values = [*function.entry_block.arguments, *(r for o in operations for r in o.results)]
    return [v for v in values if isinstance(v.type, ir.RankedTensorType) and not v.type.has_static_shape]


def _at(size: Int, symbol: Symbol, number: int) -> int:
    return evaluate(size, {symbol: number}.__getitem__)


def _retype(function: func.FuncOp) -> None:
    """Let the function's type be what its arguments and results are, and nothing be said of their sizes."""
    arguments, end = list(function.entry_block.arguments), list(function.entry_block.operations)[-1]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([a.type for a in arguments], [v.type for v in end.operands]))
    entries = [{e.name: e.attr for e in ir.DictAttr(a) if e.name != SIZES} for a in function.attributes["arg_attrs"]]
    function.attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(e) for e in entries])


def _joined(a: Any, b: Any, symbol: Symbol) -> Any:
    """``a``, which was found with the first number, with the symbol in its place; ``b`` with the second."""
    if type(a) is not type(b):
        raise _Unlike
    if isinstance(a, int) and not isinstance(a, bool):
        times, rest = divmod(a, _PRIMES[0])
        if a == b:
            return a
        if rest or divmod(b, _PRIMES[1]) != (times, 0):
            raise _Unlike
        return size_of(symbol) * times
    if is_dataclass(a) and not isinstance(a, type):
        return replace(a, **{f.name: _joined(getattr(a, f.name), getattr(b, f.name), symbol) for f in fields(a) if f.init})
    if isinstance(a, tuple | list):
        if len(a) != len(b):
            raise _Unlike
        return type(a)(_joined(x, y, symbol) for x, y in zip(a, b))
    return a
