"""Operands in pages (paged KV caches): a table says in which page a row of the tensor is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from inferno.schedule.analysis.accesses import Access
from inferno.schedule.analysis.expression_folding import linear, predicate_of
from inferno.schedule.analysis.expressions import READ, Expression, Loop, Place
from inferno.symbolic import Int, bounds, product

PAGED = "paged"
"""The name of the expression of an element whose place along one dimension, its page, another tensor says: that READ is its only operand, strides
and offset are those without the page, ``page`` says the rest."""


@dataclass(frozen=True)
class PageStep:
    """Of ``count`` pages each begins ``step`` elements behind the one before; ``wraps``: negative numbers count from the last one."""

    step: Int
    count: int
    wraps: bool


@dataclass(frozen=True)
class Pages:
    """Pages of ``rows`` rows.  The ``table`` has a number for each, one ``entry`` behind the other; row j is in the (j / rows)-th."""

    table: Access
    entry: Int
    rows: int
    of: PageStep


@dataclass(frozen=True)
class PageNumber:
    """A place along a dimension: ``scale`` times what a READ of an integer gives, and a sum of loops that is less than ``scale``; ``wraps``:
    the dimension's size is added to what is negative."""

    read: Expression
    scale: int
    inside: Place
    wraps: bool


def page_number(number: Expression, size: int) -> PageNumber | None:
    """What ``number`` is, a place along a dimension of this size, if it is a page's, or a place in a page."""
    number, wraps = without_casts(number), False
    if number.name == "arith.select":
        condition, more, plain = number.operands
        if condition.name != "arith.cmpi" or predicate_of(condition) != "slt" or condition.operands[1].constant != 0 or more.name != "arith.addi":
            return None
        if condition.operands[0] is not plain or plain not in more.operands or size not in [e.constant for e in more.operands]:
            return None
        number, wraps = plain, True
    found = _scaled(number)
    reads = [e for e in (found or ({}, 0))[0] if isinstance(e, Expression)]
    if len(reads) != 1 or (scale := found[0].pop(reads[0])) <= 0 or size % scale or not reads[0].name == READ:
        return None
    steps, begin = found
    ends = [begin, *(c * (bounds(loop.size)[1] - 1) for loop, c in steps.items())]
    if any(not isinstance(e, int) or e < 0 for e in ends) or sum(ends) >= scale:
        return None
    return PageNumber(reads[0], scale, (tuple(steps.items()), begin), wraps)


def _scaled(number: Expression) -> tuple[dict, int] | None:
    """An integer as a sum of loops and of READs, each times a number, and a constant.  What is computed of READs is taken to fit its type: a place
    that does not is none of the tensor's."""
    number = without_casts(number)
    if number.name == "arith.muli":
        factors = sorted(number.operands, key=lambda e: e.constant is None)
        value, by = _scaled(factors[1]), factors[0].constant
        return None if value is None or by is None else ({e: c * by for e, c in value[0].items()}, value[1] * by)
    if number.name == "arith.addi":
        parts = list(map(_scaled, number.operands))
        if None in parts or set(parts[0][0]) & set(parts[1][0]):
            return None
        return {**parts[0][0], **parts[1][0]}, parts[0][1] + parts[1][1]
    return linear(number, leaves=True)


def without_casts(number: Expression) -> Expression:
    """A number before its type was widened."""
    while number.name in ("arith.index_cast", "arith.extsi"):
        number = number.operands[0]
    return number


def paged_access(
    element: Expression, keys: Sequence[Loop], batch: Sequence[Loop], access_of: Callable[[Expression], Access],
) -> tuple[Access, Pages] | None:
    """Where an operand with these ``keys`` as rows is: as if its pages lay in order, and how they lie.  None where they are not whole pages, each
    of rows that follow each other, which are others for the loops of the ``batch`` alone."""
    (table,) = element.operands
    steps, entries = dict(element.strides), dict(table.strides)
    if any(loop not in keys and loop not in batch for loop in entries):
        return None
    outer = [loop for loop in keys if entries.get(loop, 0)]
    inner = [loop for loop in keys if loop not in outer]
    if not outer or not inner or [*outer, *inner] != list(keys) or any(loop in steps for loop in outer) or not all(loop in steps for loop in inner):
        return None
    if any(not isinstance(loop.size, int) for loop in inner):
        return None
    rows, row, entry = _count(inner), steps[inner[-1]], entries[outer[-1]]
    if any(steps[loop] != row * _count(inner[n + 1:]) for n, loop in enumerate(inner)):
        return None
    if any(entries[loop] != entry * _count(outer[n + 1:]) for n, loop in enumerate(outer)):
        return None
    ordered = (*element.strides, *((loop, row * rows * _count(outer[n + 1:])) for n, loop in enumerate(outer)))
    in_order = Expression(READ, element.type, argument=element.argument, strides=ordered, offset=element.offset, shape=element.shape)
    return access_of(in_order), Pages(access_of(table), entry, rows, element.page)


def _count(loops: Sequence[Loop]) -> Int:
    return product(loop.size for loop in loops)
