"""Drop the wrap-around of indices: ``x[-1]`` is imported as a select between the index and the index plus the dimension's size.

Where a place is computed of loops and numbers so that it is never negative, through tables of places too, as of a resized image, it is the place: what reads
neighbours along it is known to do so.  Nor is anything left of remainders and quotients of loops that are too short for them, as of a batch of one image,
nor of comparisons whose answer is known, by which a quotient is rounded down where it is negative.
"""

from inferno.mlir import arith, constant_number, dim_of, ir, owner, walk
from inferno.passes.generics import inputs, is_elementwise, is_generic, loop_sizes, yielded
from inferno.passes.programs import VIEWS
from inferno.symbolic import bounds

Range = tuple[int | None, int | None]
"""The smallest and the largest number that a value may be; None where nothing is known of it."""

_CASTS = ("arith.index_cast", "arith.extsi", "arith.trunci")
_QUOTIENTS = ("arith.divsi", "arith.divui", "arith.floordivsi")
_SAFE = ("arith.maxsi", "arith.minsi", "arith.extsi", *_QUOTIENTS)  # which are no larger than what they are made of
_REMAINDERS = ("arith.remsi", "arith.remui")
_KNOWN = {*_CASTS, *_SAFE, *_REMAINDERS, "arith.addi", "arith.subi", "arith.muli", "math.absi"}
# What a comparison's predicate says of ranges: whether it always holds, and whether it never does.
_DECIDED = {
    0: (lambda a, b: a[0] == a[1] == b[0] == b[1], lambda a, b: a[1] < b[0] or b[1] < a[0]),
    2: (lambda a, b: a[1] < b[0], lambda a, b: a[0] >= b[1]),
    3: (lambda a, b: a[1] <= b[0], lambda a, b: a[0] > b[1]),
}
_OPPOSITE = {1: 0, 5: 2, 4: 3}  # not equal, at least, more
_DEPTH = 64  # operations behind each other that are looked at


def fold_wraps(module: ir.Module) -> None:
    """Put a place in the place of a choice between it, where it is not negative, and another number, if it never is; fold remainders and quotients of what is
    less than the divisor, and comparisons that are decided."""
    ranges = _Ranges()
    for generic in walk(module.operation, "linalg.generic"):
        if walk(generic, "linalg.index"):
            for op in walk(generic, "arith.cmpi"):
                _fold_comparison(op, ranges)
        if not walk(generic, "tensor.extract"):
            continue
        for op in walk(generic, "arith.remui", "arith.divui"):
            value, (by, (low, high)) = op.operands[0], (constant_number(op.operands[1]), ranges.of(op.operands[0]))
            if by is None or low is None or low < 0 or high is None or high >= by:
                continue
            if op.name == "arith.divui":
                with ir.InsertionPoint(op), op.location:
                    value = arith.ConstantOp(value.type, ir.IntegerAttr.get(value.type, 0)).result
            op.results[0].replace_all_uses_with(value)
        for choice in walk(generic, "arith.select"):
            condition, _, kept = choice.operands
            test = owner(condition)
            if not _is_below_zero(test) or test.operands[0] != kept:
                continue
            if (least := ranges.of(kept)[0]) is not None and least >= 0:
                choice.results[0].replace_all_uses_with(kept)


def _fold_comparison(op: ir.Operation, ranges: "_Ranges") -> None:
    sides, predicate = [ranges.of(v) for v in op.operands], ir.IntegerAttr(op.attributes["predicate"]).value
    holds, fails = _DECIDED.get(_OPPOSITE.get(predicate, predicate), (None, None))
    if holds is None or None in (*sides[0], *sides[1]):
        return
    answer = True if holds(*sides) else False if fails(*sides) else None
    if answer is not None:
        with ir.InsertionPoint(op), op.location:
            type_ = op.results[0].type
            op.results[0].replace_all_uses_with(arith.ConstantOp(type_, ir.IntegerAttr.get(type_, int(answer != (predicate in _OPPOSITE)))).result)


def _is_below_zero(op: ir.Operation | None) -> bool:
    if op is None or op.name != "arith.cmpi" or ir.IntegerAttr(op.attributes["predicate"]).value != 2:  # slt
        return False
    return constant_number(op.operands[1]) == 0


class _Ranges:
    """What is known of whole numbers in the bodies of generics, and in the tensors that elementwise ones make of loops and numbers."""

    def __init__(self) -> None:
        self.known: dict[ir.Value, Range] = {}

    def of(self, value: ir.Value, depth: int = 0) -> Range:
        if value not in self.known:
            self.known[value] = None, None  # which is what it is while it is looked for
            self.known[value] = self._find(value, depth + 1) if depth < _DEPTH else (None, None)
        return self.known[value]

    def _find(self, value: ir.Value, depth: int) -> Range:
        op, number = owner(value), constant_number(value)
        if isinstance(value.type, ir.RankedTensorType):
            return self._of_tensor(op, value, depth)
        if number is not None or not isinstance(value.type, (ir.IntegerType, ir.IndexType)):
            return number, number
        if op is None:
            return self._of_argument(ir.BlockArgument(value), depth)
        if op.name == "linalg.index":
            size = loop_sizes(op.parent.operation)[dim_of(op)] if is_generic(op.parent.operation) else None
            return 0, None if size is None else bounds(size)[1] - 1
        if op.name == "arith.select":
            return _either(*(self.of(v, depth) for v in list(op.operands)[1:]))
        if (divided := _divided(op)) is not None:
            return _computed("arith.remsi", *(self.of(v, depth) for v in divided))
        low, high = _computed(op.name, *(self.of(v, depth) for v in op.operands)) if op.name in _KNOWN else (None, None)
        most = 2 ** (63 if isinstance(value.type, ir.IndexType) else value.type.width - 1)
        fits = op.name in _SAFE or (op.name == "arith.index_cast" and most >= 2**63) or (low is not None and high is not None and -most <= low and high < most)
        return (low, high) if fits else (None, None)

    def _of_argument(self, argument: ir.BlockArgument, depth: int) -> Range:
        generic = argument.owner.owner.operation
        read = inputs(generic) if is_generic(generic) else []
        return self.of(read[argument.arg_number], depth) if argument.arg_number < len(read) else (None, None)

    def _of_tensor(self, op: ir.Operation | None, value: ir.Value, depth: int) -> Range:
        if op is not None and (op.name in VIEWS or op.name == "tensor.extract_slice"):
            return self.of(op.operands[0], depth)
        return self.of(yielded(op)[list(op.results).index(value)], depth) if is_elementwise(op) else (None, None)


def _divided(op: ir.Operation) -> list[ir.Value] | None:
    """What a difference between a number and the multiple of a quotient is the remainder of: the number and the divisor."""
    multiple = owner(op.operands[1]) if op.name == "arith.subi" else None
    quotient = owner(multiple.operands[0]) if multiple is not None and multiple.name == "arith.muli" else None
    if quotient is None or quotient.name != "arith.divsi" or not _is_same(quotient.operands[0], op.operands[0]):
        return None
    by = constant_number(quotient.operands[1])
    return list(quotient.operands) if by is not None and by == constant_number(multiple.operands[1]) else None


def _is_same(first: ir.Value, second: ir.Value, depth: int = 0) -> bool:
    """Whether both are computed alike: bodies that have been put together compute things twice."""
    if first == second:
        return True
    a, b = owner(first), owner(second)
    if a is None or b is None or a.name != b.name or len(a.operands) != len(b.operands) or first.type != second.type or depth == _DEPTH:
        return False
    says = [{n: op.attributes[n] for n in op.attributes} for op in (a, b)]
    return says[0] == says[1] and all(_is_same(x, y, depth + 1) for x, y in zip(a.operands, b.operands))


def _either(first: Range, second: Range) -> Range:
    lows, highs = zip(first, second)
    return None if None in lows else min(lows), None if None in highs else max(highs)


def _computed(name: str, first: Range, second: Range = (None, None)) -> Range:
    """What an operation makes of such numbers, if nothing overflows."""
    (low, high), (least, most) = first, second
    if name in _CASTS:
        return first
    if name == "math.absi":
        ends = [] if low is None or high is None else [abs(low), abs(high)]
        return (min(ends) if ends and low * high > 0 else 0), max(ends, default=None)
    if name in ("arith.maxsi", "arith.minsi"):
        pick = max if name == "arith.maxsi" else min
        bounds = [[n for n in pair if n is not None] for pair in ((low, least), (high, most))]
        loose = bounds[0] if pick is max else bounds[1]  # of which one is enough
        either = pick(loose) if loose else None
        both = [pick(b) if len(b) == 2 else None for b in bounds]
        return (either, both[1]) if pick is max else (both[0], either)
    if name in _QUOTIENTS:
        known = least is not None and least == most and least > 0 and low is not None and low >= 0
        return (low // least, None if high is None else high // least) if known else (None, None)
    if name in _REMAINDERS:
        known = least is not None and least == most and least > 0 and low is not None and low >= 0
        return (0, least - 1 if high is None else min(high, least - 1)) if known else (None, None)
    if None in (low, high, least, most):
        return None, None
    corners = {"arith.addi": [low + least, high + most], "arith.subi": [low - most, high - least]}.get(name, [a * b for a in first for b in second])
    return min(corners), max(corners)
