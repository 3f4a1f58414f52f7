"""The sizes that vary, read off a call's tensors and checked."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from inferno.capture.signature import Argument, Signature
from inferno.errors import InputError
from inferno.size_forms import as_python
from inferno.symbolic import Int, Size, Symbol, evaluate, symbols_of
from inferno.told_sizes import read_off, solve


def size_reader(shapes: Sequence[Sequence[Int]], symbols: Sequence[Symbol]) -> Callable[[Sequence[Tensor]], tuple[int, ...]]:
    """The function (tensors of these shapes) -> the values of ``symbols``, in order."""
    found = {place.symbol.name: place for place in read_off(shapes)}
    places = [found[s.name] for s in symbols]
    values = [p.value(f"tensors[{p.argument}].shape[{p.dim}]") for p in places]
    return eval(f"lambda tensors: ({', '.join(values)},)", {})


class SizeCheck:
    """Whether a call's tensors have sizes that the program takes: in range, equal where they must be, and as the guards say."""

    def __init__(self, signature: Signature) -> None:
        self._arguments, self._guards = signature.arguments, signature.guards
        shapes = [a.shape for a in signature.arguments]
        self._places = read_off(shapes)
        self._varying = [i for i, s in enumerate(shapes) if any(isinstance(v, Size) for v in s)]
        symbols = list({s: None for shape in shapes for size in shape for s in symbols_of(size)})
        read = size_reader(shapes, symbols)
        conditions = [f"{s.low} <= {s.name} <= {s.high}" for s in symbols]
        conditions += [f"tensors[{i}].shape == ({', '.join(as_python(v) for v in shapes[i])},)" for i in self._varying]
        conditions += [f"({g})" for g in signature.guards]
        names = ", ".join(s.name for s in symbols)
        scope: dict[str, Any] = {"read": read}
        exec(f"def fits(tensors):\n    {names}, = read(tensors)\n    return {' and '.join(conditions)}", scope)
        self._fits = scope["fits"]
        self._ranks = [(i, len(shapes[i])) for i in self._varying]

    def __call__(self, tensors: Sequence[Any]) -> None:
        """InputError for sizes that do not fit.  Whether something is a tensor at all is for others to say."""
        if all(isinstance(tensors[i], Tensor) and tensors[i].dim() == rank for i, rank in self._ranks):
            if not self._fits(tensors):
                self._refuse(tensors)
        elif all(isinstance(tensors[i], Tensor) for i in self._varying):
            argument, tensor = next((self._arguments[i], tensors[i]) for i, rank in self._ranks if tensors[i].dim() != rank)
            raise InputError(f"argument {argument.name}: expected {len(argument.shape)} dimensions, {_shape(argument)}, got {tuple(tensor.shape)}")

    def _refuse(self, tensors: Sequence[Tensor]) -> None:
        values: dict[str, int] = {}
        told: dict[str, str] = {}
        for place in self._places:
            argument, symbol = self._arguments[place.argument], place.symbol
            actual = tensors[place.argument].shape[place.dim]
            value = solve(argument.shape[place.dim], actual)
            where = f"argument {argument.name}, dimension {place.dim}"
            if value is None:
                raise InputError(f"{where}: expected {argument.shape[place.dim]}, which {actual} is for no {symbol}")
            if not symbol.low <= value <= symbol.high:
                low, high = (evaluate(argument.shape[place.dim], lambda s, v=v: v) for v in (symbol.low, symbol.high))
                raise InputError(
                    f"{where}: expected a size from {low} to {high}, got {actual}; give a wider range in dynamic_shapes to compile for it"
                )
            values[symbol.name], told[symbol.name] = value, where
        for i in self._varying:
            for d, (size, actual) in enumerate(zip(self._arguments[i].shape, tensors[i].shape)):
                expected = evaluate(size, lambda s: values[s.name])
                if expected != actual:
                    sources = "; ".join(dict.fromkeys(told[s.name] for s in symbols_of(size)))
                    raise InputError(
                        f"argument {self._arguments[i].name}, dimension {d}: expected {expected}"
                        f"{f', because of the size of {sources}' if sources else ''}, got {actual}"
                    )
        broken = next(g for g in self._guards if not eval(g, {}, dict(values)))
        named = ", ".join(f"{name} is {values[name]} ({told[name]})" for name in values if name in broken)
        raise InputError(f"the sizes of this call are not what the program was captured for: {broken} must hold, where {named}")


def _shape(argument: Argument) -> str:
    return f"({', '.join(map(str, argument.shape))})"


def expected_shape(argument: Argument) -> torch.Size | None:
    """The shape that every call's tensor has, as ``arguments_of`` gives it; None where it varies."""
    if not all(isinstance(s, int) for s in argument.shape):
        return None
    return torch.Size(argument.shape if argument.kind == "input" else argument.outer_shape)
