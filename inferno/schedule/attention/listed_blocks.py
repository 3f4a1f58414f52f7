"""Block masks of attention: a table says for each block of queries and of keys whether it is computed, and whether its elements are masked as well.

That is what the block lists of torch's ``flex_attention`` say.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, inf

from inferno.mlir import ir
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.analysis.expression_folding import predicate_of
from inferno.schedule.analysis.expressions import READ, Expression, Expressions, Loop
from inferno.schedule.analysis.pages import without_casts
from inferno.schedule.matmul.contraction import Map
from inferno.symbolic import Int, is_multiple, product

LEAST = 16  # keys of a block, the fewest that a tile has
HIDDEN, MASKED, WHOLE = 0, 1, 2
"""What a table says of a block: nothing is seen; the score function counts, as it does where the table says any other number; another one does."""


@dataclass(frozen=True)
class Blocks:
    """The number that says what is seen is at ``table``'s place in the batch plus ``step`` for each ``queries`` queries, plus 1 for each ``keys`` keys,
    of which there are ``count`` blocks; 0 queries or keys: all are one block.

    ``whole``: what is made of scores where it says ``WHOLE``.
    """

    table: Access
    queries: int
    step: int
    keys: int
    count: int
    whole: "Whole"


@dataclass(frozen=True)
class Whole:
    """``score``: a map as ``AttentionKernel.score``, and ``differs``: another one; or the same, if the table says no more of a block than that it is seen.
    ``hides``: masks do nothing but hide scores, which are scaled products; so they may be scaled behind."""

    score: Map | None
    differs: bool
    hides: bool


@dataclass(frozen=True)
class Peeled:
    """What is taken off scores: ``read`` is the element of the table, ``whole`` are the scores of whole blocks."""

    read: Expression
    whole: Expression


def peel_blocks(made: Expressions, scores: Expression) -> tuple[Expression, Peeled | None]:
    """The scores where the table says ``MASKED``, and the rest; the scores as they are, and None, where there is no table."""
    if scores.name != "arith.select" or scores.operands[2].constant != -inf:
        return scores, None
    condition, inside, _ = scores.operands
    read = _element(condition, "ne", HIDDEN)
    if read is None or not any(is_multiple(loop.inside, LEAST) for loop, _ in read.strides):
        return scores, None

    def decided(whole: bool) -> Expression:
        truth = made.constant(ir.IntegerAttr.get(ir.IntegerType.get_signless(1), int(whole)))
        return made.rebuild(inside, lambda e: truth if _element(e, "eq", WHOLE) is read else e)

    found = [decided(whole) for whole in (False, True)]
    if any(e is read for one in found for e in one.walk()):
        return scores, None
    return found[0], Peeled(read, found[1])


def only_hides(scores: Expression, product: Expression) -> bool:
    """Whether scores are the product or -inf."""
    if scores is product or scores.constant == -inf:
        return True
    if scores.name != "arith.select" or any(e is product for e in scores.operands[0].walk()):
        return False
    return all(only_hides(e, product) for e in scores.operands[1:])


def _element(condition: Expression, predicate: str, number: int) -> Expression | None:
    """The integer that is read and compared with a number."""
    if condition.name != "arith.cmpi" or predicate_of(condition) != predicate:
        return None
    element, constant = without_casts(condition.operands[0]), condition.operands[1]
    is_number = element.name == READ and isinstance(element.type, ir.IntegerType) and element.type.width == 32
    return element if is_number and constant.constant == number else None


def queries_of(peeled: Peeled, rows: Sequence[Loop], shared: Sequence[Loop]) -> list[Loop] | None:
    """The loops that are queries: those of the longest dimension that keys do not have and that the table's blocks are of; None where there are none."""
    steps = {loop: step for loop, step in peeled.read.strides if loop in shared or loop not in rows}
    found = [_walked(steps, [r for r in shared if r.base == base]) for base in dict.fromkeys(loop.base for loop in steps)]
    found = [f for f in found if f]
    return max(found, key=lambda f: product(r.size for r in f)) if found else None


def _walked(steps: dict[Loop, Int], loops: Sequence[Loop]) -> list[Loop]:
    """Of a dimension's loops the inner ones, as far as blocks of them lie one behind the other."""
    own = {loop: step for loop, step in steps.items() if loops and loop.base == loops[0].base}
    if any(loop not in loops for loop in own):
        return [loop for loop in loops if loop.inside == 1]
    block, found = min((loop.inside for loop in own), default=0), []
    for loop in reversed(loops):
        if loop.inside >= block and own.get(loop, 0) != next(s for o, s in own.items() if o.inside == block) * (loop.inside // block):
            break
        found.insert(0, loop)
    return found


def make_blocks(
    peeled: Peeled, queries: Sequence[Loop], keys: Sequence[Loop], batch: Sequence[Loop], access_of: Callable[[Expression], Access],
    whole: Whole,
) -> Blocks | None:
    """None where the table's elements are not those of blocks."""
    steps, read = dict(peeled.read.strides), peeled.read
    of_queries, of_keys = (_steps(steps, loops, batch) for loops in (queries, keys))
    if of_queries is None or of_keys is None or any(loop not in batch for loop in steps):
        return None
    (each_query, step), (each_key, one) = of_queries, of_keys
    count = ceil(product(loop.size for loop in keys) / each_key) if each_key else 1
    inside = Expression(READ, read.type, argument=read.argument, strides=tuple(steps.items()), offset=read.offset, shape=read.shape)
    table = access_of(inside)
    if (one != 1 and each_key) or not all(is_multiple(x, count) for x in (step, table.offset, product(table.shape), *table.strides)):
        return None
    return Blocks(table, each_query, step, each_key, count, whole)


def _steps(steps: dict[Loop, Int], loops: Sequence[Loop], batch: Sequence[Loop]) -> tuple[int, Int] | None:
    """How many points of a dimension, all of whose ``loops`` are given, are a block, and the step from one to the next; they are taken out of
    ``steps``.  0 and 0 where it has no step."""
    bases = {loop.base for loop in loops}
    own = {loop: steps.pop(loop) for loop in list(steps) if loop.base in bases and loop not in batch}
    if not own:
        return 0, 0
    block = min(loop.inside for loop in own)
    if len(bases) != 1 or not all(isinstance(loop.size, int) and isinstance(loop.inside, int) for loop in (*loops, *own)):
        return None
    step = next(s for loop, s in own.items() if loop.inside == block)
    wanted = {loop: step * (loop.inside // block) for loop in loops if loop.inside >= block}
    if not all(loop in loops for loop in own):  # of blocks of which the last one may be less
        wanted = {Loop(loops[0].base, block, ceil(product(loop.size for loop in loops) / block)): step}
    return (block, step) if own == wanted else None
