"""Dropout in attention: by what the weight of a score is multiplied, from a random number that is a function of the score's position.

Those are told by what they are: the arithmetic that ``draw-numbers`` leaves is computed here for places and seeds of all sizes, and has to give what
``philox.score`` does.
"""

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from inferno.mlir import ir
from inferno.philox import SCORES, Draw, score
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.analysis.expression_folding import Linear, linear, predicate_of
from inferno.schedule.analysis.expression_maps import access_of
from inferno.schedule.analysis.expression_tracer import NotUnderstood
from inferno.schedule.analysis.expressions import CONTRACTION, INDEX, MAXIMUM, READ, SUM, Expression, Loop, Loops, place_of
from inferno.symbolic import Int

_TRIES = 32  # each of 16 bits


@dataclass(frozen=True)
class Dropout:
    """A weight is kept, and multiplied by ``scale``, where the number of its score is less than ``limit`` of 65536.

    ``seed``: where that is.  ``head`` and ``query`` are of no tensor; their numbers are the offsets and strides.
    """

    seed: Access
    head: Access
    query: Access
    limit: int
    scale: float


    @property
    def places(self) -> tuple[Access, Access, Access]:
        return self.seed, self.head, self.query

    def has(self, queries: Sequence[int], sizes: Sequence[Int]) -> bool:
        """Whether queries are counted along these loops, the outermost first, and nothing else counts for them."""
        step = 1
        wanted = [0] * len(sizes)
        for d in reversed(queries):
            wanted[d], step = step, step * sizes[d]
        return self.query.offset == 0 and all(a == b for a, b, size in zip(self.query.strides, wanted, sizes) if size != 1)


def find_factor(product: Expression) -> tuple[Expression, Expression | None]:
    """What is multiplied by 0 where it is dropped, and by what; the expression alone where it is no such product."""
    if product.name == "arith.mulf":
        for value, factor in itertools.permutations(product.operands):
            if _is_factor(factor) and not _is_factor(value):
                return value, factor
    return product, None


def _is_factor(expression: Expression) -> bool:
    if expression.name != "arith.select" or any(e.name in (CONTRACTION, MAXIMUM, SUM) for e in expression.walk()):
        return False
    condition, kept, dropped = expression.operands
    reads = [e for e in condition.walk() if e.name == READ]
    return dropped.constant == 0 and (kept.constant or 0) > 0 and len(reads) == 1 and not reads[0].strides


def read_dropout(factor: Expression, keys: Loops, numbers: dict[Loop, int]) -> Dropout:
    """What ``factor`` is by loops of these ``numbers``; NotUnderstood unless its random numbers are those of scores with ``keys``."""
    condition, kept, _ = factor.operands
    if condition.name != "arith.cmpi" or predicate_of(condition) != "ult" or condition.operands[1].constant is None:
        raise NotUnderstood
    drawn, limit = condition.operands[0], condition.operands[1].constant
    seed = next(e for e in drawn.walk() if e.name == READ)
    if drawn.type.width != 32 or str(seed.type) != "i64" or not 0 < limit < 1 << 16:
        raise NotUnderstood
    of_key: Linear = (dict(place_of(keys)[0]), 0)
    sums = [s for s in _sums(drawn) if s != of_key]
    loops = {loop for steps, _ in (*sums, of_key) for loop in steps}
    if len(sums) > 2 or not all(isinstance(n, int) for steps, offset in sums for n in (offset, *steps.values())):
        raise NotUnderstood
    if any(not isinstance(loop.size, int) for loop in loops) or any(loop in steps for loop in keys for steps, _ in sums):
        raise NotUnderstood
    for of_head, of_query in itertools.permutations([*sums, *[({}, 0)] * 2], 2):
        if _draws(drawn, seed, (of_head, of_query, of_key), loops):
            head, query = (Access(-1, seed.type, tuple(steps.get(loop, 0) for loop in numbers), offset) for steps, offset in (of_head, of_query))
            return Dropout(access_of(seed, numbers), head, query, limit, kept.constant)
    raise NotUnderstood


def _sums(drawn: Expression) -> list[Linear]:
    """The sums of loops that a number is computed of."""
    found: list[Linear] = []

    def inside(e: Expression) -> bool:
        own = linear(e) if e.name in (INDEX, "arith.index_cast") else None
        if own is not None and own[0] and own not in found:
            found.append(own)
        return own is not None

    for _ in drawn.walk(inside):
        pass
    return found


def _draws(drawn: Expression, seed: Expression, places: Sequence[Linear], loops: set[Loop]) -> bool:
    """Whether ``drawn`` is the number of the score whose head, query and key are ``places``."""
    draws, draw, inner = random.Random(0), Draw(SCORES, (), 0), sorted(loops, key=str)
    for i in range(_TRIES):
        at, value = {loop: loop.size - 1 if i == 0 else draws.randrange(loop.size) for loop in inner}, draws.randrange(1 << 64)
        where = [sum(step * at[loop] for loop, step in steps.items()) + offset for steps, offset in places]
        if not all(0 <= n < 1 << 31 for n in where) or _evaluate(drawn, at, seed, value) != score(_Numbers(), draw, value, *where):
            return False
    return True


def _evaluate(expression: Expression, at: dict[Loop, int], seed: Expression, value: int) -> int:
    """An integer of ``expression``, not negative, with loops at these numbers and the seed's ``value``."""
    known: dict[Expression, int] = {seed: value}

    def visit(e: Expression) -> int:
        if e not in known:
            known[e] = _result(e, [visit(o) for o in e.operands], at) % (1 << _width(e.type))
        return known[e]

    return visit(expression)


def _result(e: Expression, given: Sequence[int], at: dict[Loop, int]) -> int:
    if e.constant is not None:
        return int(e.constant)
    if e.name == INDEX:
        return e.offset + sum(step * at[loop] for loop, step in e.strides)
    match e.name.removeprefix("arith."), given:
        case "addi", [a, b]:
            return a + b
        case "muli", [a, b]:
            return a * b
        case "xori", [a, b]:
            return a ^ b
        case "andi", [a, b]:
            return a & b
        case "shrui", [a, b]:
            return a >> b
        case "shrsi", [a, b]:
            width = _width(e.type)
            return (a - (a >> width - 1 << width)) >> b
        case "trunci" | "extui" | "index_cast", [a]:
            return a
        case "select", [condition, a, b]:
            return a if condition else b
        case "cmpi", [a, b] if predicate_of(e) == "eq":
            return a == b
    raise NotUnderstood


def _width(type_: ir.Type) -> int:
    return 64 if isinstance(type_, ir.IndexType) else ir.IntegerType(type_).width


class _Numbers:
    """``Words`` on numbers."""

    def divide(self, a: int, by: int) -> tuple[int, int]:
        return divmod(a, by)

    def add(self, a: int, b: int) -> int:
        return (a + b) % (1 << 32)

    def multiply(self, a: int, by: int) -> tuple[int, int]:
        return divmod(a * by % (1 << 64), 1 << 32)

    def xor(self, a: int, b: int) -> int:
        return a ^ b

    def select(self, which: int, values: list[int]) -> int:
        return values[which]

    def split(self, number: int) -> tuple[int, int]:
        return number % (1 << 32), number >> 32

    def block(self, offset: int, ahead: int) -> int:
        return (offset >> 2) + ahead

    def convert(self, draw: Any, words: list[int]) -> int:
        return words[0]
