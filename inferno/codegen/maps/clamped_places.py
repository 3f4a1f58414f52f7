"""Indices that are clamped to a tensor: ``min(max(u, 0), n - 1)`` of a ``u`` whose lanes are known to be contiguous.

What is near its edges alone is somewhere else than ``u``.  Of the eight columns of a vector of an image that is made twice as large, seven lie, for every
thread, where ``u`` says, in one aligned vector; the first one does not where it is the image's first.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from inferno.codegen.builders.lane_patterns import Pattern, computed
from inferno.mlir import constant_number, dim_of, ir, owner

_CASTS = ("arith.index_cast", "arith.index_castui", "arith.extsi", "arith.trunci")
_WITH_NUMBERS = ("arith.addi", "arith.subi", "arith.muli", "arith.divsi", "arith.divui", "arith.floordivsi")
_BOUNDS = ("arith.maxsi", "arith.minsi")

Apart = tuple[tuple[int, int] | None, ...]
"""Of each lane None, if it is where the pattern says in every thread; lanes that are not, and have the same key here, are in one place."""


@dataclass(frozen=True)
class Place:
    """What is computed of the number of ``loop``."""

    pattern: Pattern
    apart: Apart
    loop: int


@dataclass
class ClampedPlaces:
    """Of the body of a generic, before it is inlined; ``dims``: what the lanes of a vector are in each loop."""

    dims: Sequence[Pattern | None]
    found: dict[ir.Value, Place | None] = field(default_factory=dict)

    def of(self, value: ir.Value) -> Place | None:
        if value not in self.found:
            self.found[value] = self._find(value)
        return self.found[value]

    def _find(self, value: ir.Value) -> Place | None:
        op = owner(value)
        if op is None:
            return None
        if op.name == "linalg.index":
            loop = dim_of(op)
            pattern = self.dims[loop]
            return Place(pattern, (None,) * len(pattern.residues), loop) if pattern is not None and _is_small(pattern) else None
        if op.name in _CASTS:
            return self.of(op.operands[0])
        if op.name not in (*_WITH_NUMBERS, *_BOUNDS) or (number := constant_number(op.operands[1])) is None or (first := self.of(op.operands[0])) is None:
            return None
        if op.name in _BOUNDS:
            return _bounded(first, number, op.name == "arith.maxsi", len(self.found))
        pattern = computed(op.name, first.pattern, Pattern(0, (number,) * len(first.apart)))
        return Place(pattern, first.apart, first.loop) if pattern is not None and _is_small(pattern) else None


def _bounded(place: Place, number: int, below: bool, key: int) -> Place:
    p = place.pattern
    inside = [r >= number if below else p.modulus * p.most + r <= number for r in p.residues]
    return Place(p, tuple(a or (None if i else (key, r)) for a, i, r in zip(place.apart, inside, p.residues)), place.loop)


def _is_small(pattern: Pattern) -> bool:
    """Whether numbers are known to fit into any type that places are computed in."""
    return pattern.most is not None and pattern.modulus * pattern.most + max(map(abs, pattern.residues)) < 2**31
