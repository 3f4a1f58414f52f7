"""Analyse a kernel whose number of rows varies as if that were a number, and put the symbols back into the result.

What goes over rows is found by factors of sizes, which symbols do not tell.  So a kernel is read twice, with large primes in the symbols'
places, others each time: a number in what was found that is the same in both has nothing to do with the rows, and one that is the same multiple of
a product of either primes is that many times the symbols.  Anything else is not understood.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from inferno.dialect.sizes import SIZES
from inferno.mlir import func, ir, is_unread, isolated_copy, tensor
from inferno.passes.programs import operations_in
from inferno.passes.shapes import UnknownSize, shape, slice_parts, symbol_arguments
from inferno.schedule.analysis.accesses import sink_constants
from inferno.symbolic import Int, Symbol, evaluate, size_of

# For as many symbols, and no more: the elements of a tensor are to fit 64 bits.
_PRIMES = (1_000_003, 1_000_033), (1_500_007, 1_500_019)
_FOUR = (4001, 4007, 4013, 4021), (5003, 5009, 5011, 5021)
# What a kernel on rows consists of beside what computes sizes, and what has sizes as operands.
_KEPT = ("linalg.generic", "linalg.fill", "tm_tensor.scan", "tensor.collapse_shape", "tensor.pad", "arith.constant", "func.return")
_SIZED = ("tensor.empty", "tensor.expand_shape", "tensor.extract_slice")


class _Unlike(Exception):
    """What was found is not the same with either number."""


def read_varying(kernel: func.FuncOp, read: Callable[[func.FuncOp], Any], most: int = 1, bodies: bool = False) -> Any | None:
    """What ``read`` finds of ``kernel``, with the symbols in its sizes, at most so many (up to 4); None where there are more or none, or it is not
    understood.  ``read`` gets kernels of known sizes, whose ``index`` arguments nothing reads, or only ``bodies``, and must keep its own copy."""
    symbols = list(symbol_arguments(kernel.operation))
    if not 1 <= len(symbols) <= most:
        return None
    found, numbers = [], _PRIMES if len(symbols) <= len(_PRIMES[0]) else _FOUR
    for primes in numbers:
        copy = with_numbers(kernel, dict(zip(symbols, primes)), bodies)
        one = read(copy.body.operations[0]) if copy is not None else None
        if one is None:
            return None
        found.append(one)
    try:
        return _joined(*found, symbols, numbers)
    except _Unlike:
        return None


def with_numbers(kernel: func.FuncOp, numbers: Mapping[Symbol, int], bodies: bool = False) -> ir.Module | None:
    """A copy with known sizes, whose arguments are the same; None where an operation is none that can be changed like this.  With ``bodies`` those of
    structured operations compute what they take of sizes, from the arguments themselves."""
    with kernel.context, ir.Location.unknown():
        module = isolated_copy(kernel)
        function = module.body.operations[0]
        operations = operations_in(function)
        if bodies and not all(sink_constants(o, tables=True) for o in operations if o.name == "linalg.generic"):
            return None
        try:
            known = {v: _evaluated(shape(v), numbers) for v in _tensors(function, operations)}
            parts = {o.results[0]: [_evaluated(each, numbers) for each in slice_parts(o)] for o in operations if o.name == "tensor.extract_slice"}
        except UnknownSize:
            return None
        for value, size in known.items():
            value.set_type(ir.RankedTensorType.get(size, value.type.element_type))
        for op in operations:
            if op.name in _SIZED:
                with ir.InsertionPoint(op):
                    made = _of_known(op, parts)
                op.results[0].replace_all_uses_with(made.result)
                op.erase()
        for op in reversed(operations_in(function)):
            if op.name not in (*_KEPT, *_SIZED):
                if not is_unread(op) or op.name.startswith(("linalg.", "tensor.", "func.")):
                    return None
                op.erase()
        _retype(function)
        return module


def _evaluated(sizes: Sequence[Int], numbers: Mapping[Symbol, int]) -> list[int]:
    return [evaluate(s, numbers.__getitem__) for s in sizes]


def _of_known(op: ir.Operation, parts: Mapping[ir.Value, list[list[int]]]) -> ir.OpView:
    """The same operation without sizes as operands; of slices ``parts`` are what they take."""
    type_ = op.results[0].type
    if op.name == "tensor.empty":
        return tensor.EmptyOp(list(type_.shape), type_.element_type)
    if op.name == "tensor.expand_shape":
        return tensor.ExpandShapeOp(type_, op.operands[0], op.attributes["reassociation"], [], list(type_.shape))
    return tensor.ExtractSliceOp(type_, op.operands[0], [], [], [], *parts[op.results[0]])


def _tensors(function: func.FuncOp, operations: list[ir.Operation]) -> list[ir.Value]:
    """Those of sizes that vary."""
    values = [*function.entry_block.arguments, *(r for o in operations for r in o.results)]
    return [v for v in values if isinstance(v.type, ir.RankedTensorType) and not v.type.has_static_shape]


def _retype(function: func.FuncOp) -> None:
    """Let the function's type be what its arguments and results are, and nothing be said of their sizes."""
    arguments, end = list(function.entry_block.arguments), list(function.entry_block.operations)[-1]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([a.type for a in arguments], [v.type for v in end.operands]))
    entries = [{e.name: e.attr for e in ir.DictAttr(a) if e.name != SIZES} for a in function.attributes["arg_attrs"]]
    function.attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(e) for e in entries])


def _joined(a: Any, b: Any, symbols: Sequence[Symbol], numbers: Sequence[Sequence[int]]) -> Any:
    """``a``, which was found with the first numbers, with the symbols in their places; ``b`` with the second."""
    if type(a) is not type(b):
        raise _Unlike
    if isinstance(a, int) and not isinstance(a, bool):
        if a == b:
            return a
        (times, found), other = (_divided(x, primes) for x, primes in zip((a, b), numbers))
        if (times, found) != other:
            raise _Unlike
        size: Int = times
        for symbol, power in zip(symbols, found):
            for _ in range(power):
                size = size * size_of(symbol)
        return size
    if is_dataclass(a) and not isinstance(a, type):
        return replace(a, **{f.name: _joined(getattr(a, f.name), getattr(b, f.name), symbols, numbers) for f in fields(a) if f.init})
    if isinstance(a, tuple | list):
        if len(a) != len(b):
            raise _Unlike
        return type(a)(_joined(x, y, symbols, numbers) for x, y in zip(a, b))
    return a


def _divided(number: int, primes: Sequence[int]) -> tuple[int, tuple[int, ...]]:
    """What is left of a number without these primes, and how often each is in it."""
    powers = []
    for prime in primes:
        powers.append(0)
        while number and number % prime == 0:
            number, powers[-1] = number // prime, powers[-1] + 1
    return number, tuple(powers)
