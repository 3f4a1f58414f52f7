"""Operands that lie in pages: rows of a tensor are found by a table of the pages that they are in, as caches of keys and values have them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from inferno.mlir import ir
from inferno.schedule.accesses import Access
from inferno.schedule.expression_folding import predicate_of
from inferno.schedule.expressions import READ, Expression, Loop
from inferno.symbolic import Int, product

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


def page_number(number: Expression, count: int) -> tuple[Expression, bool] | None:
    """The READ of an integer that ``number`` is, and whether ``count`` is added to it where it is negative; None for anything else."""
    number, wraps = _same(number), False
    if number.name == "arith.select":
        condition, more, plain = number.operands
        if condition.name != "arith.cmpi" or predicate_of(condition) != "slt" or condition.operands[1].constant != 0 or more.name != "arith.addi":
            return None
        if condition.operands[0] is not plain or plain not in more.operands or count not in [e.constant for e in more.operands]:
            return None
        number, wraps = _same(plain), True
    integer = isinstance(number.type, ir.IntegerType) and number.type.width in (32, 64)
    return (number, wraps) if number.name == READ and integer else None


def _same(number: Expression) -> Expression:
    """A number before its type was widened."""
    while number.name in ("arith.index_cast", "arith.extsi"):
        number = number.operands[0]
    return number


def paged_access(element: Expression, keys: Sequence[Loop], access_of: Callable[[Expression], Access]) -> tuple[Access, Pages] | None:
    """Where an operand with these ``keys`` as rows is: as if its pages lay in order, and how they lie.  None where they are not whole pages, each
    of rows that follow each other."""
    (table,) = element.operands
    steps, entries = dict(element.strides), dict(table.strides)
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
