"""What cuBLASLt's epilogues compute of a sum, recognised in the body of a kernel's: ``activation(alpha * sum + what is added)``.

The body is read as arithmetic, not by how it is written: a value is a linear form of the sum and of what is read, and what is computed of one
such value alone is compared, as a polynomial of it and of one hyperbolic tangent, with the activation.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from inferno.mlir import constant_number, ir, owner
from inferno.schedule.matmul.contraction import Map

SUM = -1  # no argument's number
Linear = dict[int, float]
"""Factors of the arguments of an epilogue's body, ``SUM`` standing for the sum."""
Polynomial = dict[tuple[int, int], float]
"""Factors of x^i * tanh(...)^j."""

# GELU with tanh: x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))), whose constants are written with 7 digits or more.
_GELU: Polynomial = {(1, 0): 0.5, (1, 1): 0.5}
_GELU_ARGUMENT: Polynomial = {(1, 0): 0.7978845608028654, (3, 0): 0.7978845608028654 * 0.044715}
_DIGITS = 1e-6
_HIGHEST = 8  # power that is looked at
_WIDEN = ("arith.extf", "arith.extsi")


@dataclass(frozen=True)
class Epilogue:
    """``added``: pairs of the number of an argument of the epilogue's body, and its factor."""

    alpha: float = 1.0
    added: tuple[tuple[int, float], ...] = ()
    activation: str = "none"


def match_epilogue(map_: Map | None, result: int | None) -> Epilogue | None:
    """The epilogue of a kernel's ``result`` (None: the sum itself); None if cuBLASLt has no such."""
    if map_ is None or result is None:
        return Epilogue() if map_ is None else None
    value = list(map_.block.operations)[-1].operands[result]
    made = owner(value)
    if made is not None and made.name == "arith.truncf":
        value = made.operands[0]
    forms = _Forms(map_)
    for of, activation in _candidates(value, forms):
        form = forms.linear(of)
        if form is not None and form.get(SUM) and all(form.values()):  # what is added and taken away again may have been infinite
            added = tuple((number, factor) for number, factor in form.items() if number != SUM)
            return Epilogue(form[SUM], added, activation)
    return None


def _candidates(value: ir.Value, forms: "_Forms") -> Iterator[tuple[ir.Value, str]]:
    """Values of which ``value`` may be the activation."""
    yield value, "none"
    for inner in forms.inner(value):
        form = forms.linear(inner)
        if form is not None and form.get(SUM) and _is_gelu(value, inner):
            yield inner, "gelu_tanh"


class _Forms:
    """Linear forms of the values of a body; a value that is none has None."""

    def __init__(self, map_: Map) -> None:
        self._map, self._known = map_, {}

    def linear(self, value: ir.Value) -> Linear | None:
        if value not in self._known:
            self._known[value] = self._linear(value)
        return self._known[value]

    def inner(self, value: ir.Value) -> list[ir.Value]:
        """Every value that ``value`` is computed of, and itself."""
        found, left = {}, [value]
        while left:
            at = left.pop()
            if at not in found:
                found[at] = None
                left += list(made.operands) if (made := owner(at)) is not None else []
        return list(found)

    def _linear(self, value: ir.Value) -> Linear | None:
        made = owner(value)
        if made is None:
            number = ir.BlockArgument(value).arg_number
            if number in self._map.accumulators:
                return {SUM: 1.0}
            return {number: 1.0} if self._map.sources[number] is not None else None
        if made.name in _WIDEN:
            return self.linear(made.operands[0])
        if made.name in ("arith.addf", "arith.addi", "arith.subf", "arith.subi"):
            a, b = (self.linear(v) for v in made.operands)
            sign = -1.0 if "sub" in made.name else 1.0
            return None if a is None or b is None else {n: a.get(n, 0.0) + sign * b.get(n, 0.0) for n in {**a, **b}}
        if made.name == "arith.negf":
            return _scaled(self.linear(made.operands[0]), -1.0)
        if made.name in ("arith.mulf", "arith.muli"):
            a, b = made.operands
            for factor, other in ((a, b), (b, a)):
                if (number := _constant(factor)) is not None:
                    return _scaled(self.linear(other), number)
        if made.name == "arith.divf" and _constant(made.operands[1]):
            return _scaled(self.linear(made.operands[0]), 1 / _constant(made.operands[1]))
        return None


def _scaled(form: Linear | None, factor: float) -> Linear | None:
    return None if form is None else {n: factor * f for n, f in form.items()}


def _is_gelu(value: ir.Value, x: ir.Value) -> bool:
    """Whether ``value`` is computed of ``x`` alone, as GELU with tanh is."""
    reader = _OfOne(x)
    found = reader.polynomial(value)
    return found is not None and reader.argument is not None and _close(found, _GELU) and _close(reader.argument, _GELU_ARGUMENT)


class _OfOne:
    """Values as polynomials of one value x and of the hyperbolic tangent of one polynomial of x, which is ``argument``."""

    def __init__(self, x: ir.Value) -> None:
        self._x, self.argument = x, None

    def polynomial(self, value: ir.Value) -> Polynomial | None:
        if value == self._x:
            return {(1, 0): 1.0}
        if (number := _constant(value)) is not None:
            return {(0, 0): number}
        made = owner(value)
        if made is None:
            return None
        if made.name == "math.tanh":
            return self._tanh(made.operands[0])
        if made.name in ("math.fpowi", "math.powf"):
            return self._power(made.operands[0], _constant(made.operands[1]))
        if made.name not in ("arith.addf", "arith.subf", "arith.mulf", "arith.divf", "arith.negf"):
            return None
        parts = [self.polynomial(v) for v in made.operands]
        if any(p is None for p in parts):
            return None
        if made.name == "arith.negf":
            return _product(parts[0], {(0, 0): -1.0})
        if made.name == "arith.mulf":
            return _product(*parts)
        if made.name == "arith.divf":
            divisor = _constant(made.operands[1])
            return _product(parts[0], {(0, 0): 1 / divisor}) if divisor else None
        sign = -1.0 if made.name == "arith.subf" else 1.0
        return {p: parts[0].get(p, 0.0) + sign * parts[1].get(p, 0.0) for p in {**parts[0], **parts[1]}}

    def _tanh(self, value: ir.Value) -> Polynomial | None:
        before, self.argument = self.argument, None
        found = self.polynomial(value)
        nested, self.argument = self.argument is not None, before if before is not None else found
        return {(0, 1): 1.0} if found is not None and not nested and _close(found, self.argument) else None

    def _power(self, value: ir.Value, exponent: float | None) -> Polynomial | None:
        base, result = self.polynomial(value), {(0, 0): 1.0}
        if base is None or exponent not in range(1, _HIGHEST + 1):
            return None
        for _ in range(int(exponent)):
            result = _product(result, base)
        return result


def _product(a: Polynomial | None, b: Polynomial | None) -> Polynomial | None:
    if a is None or b is None:
        return None
    result: Polynomial = {}
    for (i, j), f in a.items():
        for (k, m), g in b.items():
            result[i + k, j + m] = result.get((i + k, j + m), 0.0) + f * g
    return result if max(i + j for i, j in result) <= _HIGHEST else None


def _close(a: Polynomial, b: Polynomial) -> bool:
    return all(abs(a.get(p, 0.0) - b.get(p, 0.0)) <= _DIGITS * max(abs(a.get(p, 0.0)), abs(b.get(p, 0.0))) for p in {**a, **b})


def _constant(value: ir.Value) -> float | None:
    """A constant's value, rounded ones too."""
    while (made := owner(value)) is not None and made.name in ("arith.truncf", "arith.extf"):
        value = made.operands[0]
    return constant_number(value)
