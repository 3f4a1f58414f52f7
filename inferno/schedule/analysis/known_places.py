"""The body of a map where its loops are linear functions of others: choices by place that are decided there are none any more."""

from collections.abc import Sequence

from inferno.mlir import arith, clone_onto, dim_of, ir, owner
from inferno.passes.affine import Linear, add, extent, multiply
from inferno.passes.generics import index, loop

_EQ, _NE, _ULT, _ULE, _UGT, _UGE = 0, 1, 6, 7, 8, 9  # arith.cmpi's predicates of places
_AND, _OR = "arith.andi", "arith.ori"


class Undecided(Exception):
    """A choice is left open."""


class KnownPlaces:
    """Clones a body at the insertion point, with loops of these ``sizes`` around it."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self._sizes = sizes
        self._known: dict[ir.Value, ir.Value] = {}
        self._places: dict[ir.Value, Linear] = {}
        self._truths: dict[ir.Value, bool] = {}

    def clone(self, block: ir.Block, arguments: Sequence[ir.Value | None], loops: Sequence[Linear]) -> list[ir.Value]:
        """What the body yields, on these values, where its loops are at these places; Undecided where a choice of branches stays."""
        self._known.update((a, v) for a, v in zip(block.arguments, arguments) if v is not None)
        return self._inline(block, loops)

    def _inline(self, block: ir.Block, loops: Sequence[Linear]) -> list[ir.Value]:
        for op in block.operations:
            op = op.operation
            if op.name in ("linalg.yield", "scf.yield"):
                return [self._value(v) for v in op.operands]
            if op.name == "linalg.index":
                self._places[op.results[0]] = loops[dim_of(op)]
            elif op.name == "scf.if":
                if (truth := self._truths.get(op.operands[0])) is None:
                    raise Undecided
                self._known.update(zip(op.results, self._inline(op.regions[0 if truth else 1].blocks[0], loops)))
            elif len(op.regions):
                raise Undecided
            elif (place := self._place_made(op)) is not None:
                self._places[op.results[0]] = place
            elif (truth := self._truth_made(op)) is not None:
                self._truths[op.results[0]] = truth
            elif op.name == "arith.select" and (truth := self._truths.get(op.operands[0])) is not None:
                self._known[op.results[0]] = self._value(op.operands[1 if truth else 2])
            else:
                for v in op.operands:
                    self._known[v] = self._value(v)
                clone_onto(op, self._known)
        raise ValueError("a block without an end")

    def _value(self, value: ir.Value) -> ir.Value:
        """What stands for a value here."""
        if value in self._known:
            return self._known[value]
        if value in self._places:
            (steps, found), sum_ = self._places[value], None
            for d, step in enumerate(steps):
                term = loop(d) if step == 1 else arith.muli(loop(d), index(step)) if step else None
                sum_ = term if sum_ is None else sum_ if term is None else arith.addi(sum_, term)
            found = index(found) if sum_ is None else arith.addi(sum_, index(found)) if found else sum_
        elif value in self._truths:
            found = arith.constant(value.type, int(self._truths[value]))
        else:
            return value  # from outside of the body
        return found

    def _place(self, value: ir.Value) -> Linear | None:
        if value in self._places:
            return self._places[value]
        made = owner(value)
        if isinstance(value.type, ir.IndexType) and made is not None and made.name == "arith.constant":
            return (0,) * len(self._sizes), ir.IntegerAttr(made.attributes["value"]).value
        return None

    def _place_made(self, op: ir.Operation) -> Linear | None:
        """The place that an operation makes of others, if it is linear, too."""
        if op.name not in ("arith.addi", "arith.subi", "arith.muli", "arith.remui", "arith.divui"):
            return None
        (first, second) = (self._place(v) for v in op.operands)
        if first is None or second is None:
            return None
        if op.name in ("arith.addi", "arith.subi"):
            return add(first, second, 1 if op.name == "arith.addi" else -1)
        if op.name == "arith.muli":
            return multiply(first, second)
        (steps, begin), (others, number) = first, second
        if any(others):
            return None
        rest = tuple(0 if c % number == 0 else c for c in steps), begin % number
        low, high = extent(rest, self._sizes)
        if low < 0 or high >= number or extent(first, self._sizes)[0] < 0:
            return None
        return rest if op.name == "arith.remui" else (tuple(c // number if c % number == 0 else 0 for c in steps), begin // number)

    def _truth_made(self, op: ir.Operation) -> bool | None:
        """The truth that an operation makes, if it is known."""
        if op.name in (_AND, _OR) and str(op.results[0].type) == "i1":
            found = [self._truths.get(v) for v in op.operands]
            decides = op.name == _OR
            return decides if decides in found else None if None in found else not decides
        if op.name != "arith.cmpi":
            return None
        first, second = (self._place(v) for v in op.operands)
        if first is None or second is None or any(second[0]):
            return None
        (low, high), number = extent(first, self._sizes), second[1]
        if high < 0:  # without a sign it is larger than any size
            low = high = 1 << 62
        if low < 0 or number < 0:
            return None
        below = {_ULT: number, _UGE: number, _ULE: number + 1, _UGT: number + 1}
        predicate = ir.IntegerAttr(op.attributes["predicate"]).value
        if predicate in below:
            inside = True if high < below[predicate] else False if low >= below[predicate] else None
            return inside if inside is None or predicate in (_ULT, _ULE) else not inside
        if predicate in (_EQ, _NE):
            equal = True if low == high == number else False if number < low or number > high else None
            return equal if equal is None or predicate == _EQ else not equal
        return None
