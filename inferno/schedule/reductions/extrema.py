"""An extremum and its index (argmax, max along a dimension) as one reduction that may be regrouped.

Of equal values the first one counts, and NaN counts as beyond every number, as in eager: then the order in which candidates
meet does not matter.
"""

from dataclasses import dataclass

from inferno.mlir import arith, dim_of, ir, owner, terminator
from inferno.passes.generics import use_count
from inferno.schedule.analysis.combiners import Combiner

_F, _I = arith.CmpFPredicate, arith.CmpIPredicate
# Strict comparison of a new value with the running one -> the combiner of values.
_FLOAT = {_F.OGT: "arith.maximumf", _F.OLT: "arith.minimumf", _F.UGT: "arith.maximumf", _F.ULT: "arith.minimumf"}
_INTEGER = {_I.sgt: "arith.maxsi", _I.slt: "arith.minsi", _I.ugt: "arith.maxui", _I.ult: "arith.minui"}
_SAME_VALUE = {
    "arith.maximumf": ("arith.maximumf", "arith.maxnumf"), "arith.minimumf": ("arith.minimumf", "arith.minnumf"),
    "arith.maxsi": ("arith.maxsi",), "arith.minsi": ("arith.minsi",), "arith.maxui": ("arith.maxui",), "arith.minui": ("arith.minui",),
}


@dataclass(frozen=True)
class Extremum:
    """``value`` combines values, which have ``type`` in registers and ``narrow`` in memory; the place is an integer of type ``place``."""

    value: str
    narrow: ir.Type
    type: ir.Type
    place: ir.Type

    @property
    def combiners(self) -> tuple[Combiner, Combiner]:
        """The two running values' types and neutral values: a place behind all others loses every tie."""
        return (
            Combiner(self.value, self.narrow, self.type, self.type), Combiner("arith.minsi", self.place, self.place, self.place),
        )

    def combine(self, a: list[ir.Value], b: list[ir.Value]) -> list[ir.Value]:
        """The better of two candidates (value, place)."""
        (x, i), (y, j) = a, b
        if isinstance(self.type, ir.IntegerType):
            predicate = next(p for p, name in _INTEGER.items() if name == self.value)
            better, same = arith.cmpi(predicate, y, x), arith.cmpi(_I.eq, y, x)
        else:
            better = arith.cmpf(_F.OGT if self.value == "arith.maximumf" else _F.OLT, y, x)
            x_nan, y_nan = arith.cmpf(_F.UNO, x, x), arith.cmpf(_F.UNO, y, y)
            better = arith.ori(better, arith.andi(y_nan, arith.cmpf(_F.ORD, x, x)))
            same = arith.ori(arith.cmpf(_F.OEQ, y, x), arith.andi(x_nan, y_nan))
        first = arith.select(same, arith.minsi(i, j), i)
        return [arith.select(better, y, x), arith.select(better, j, first)]


@dataclass(frozen=True)
class _Parts:
    """The operations of such a body: ``chosen``, which may be ``rounded``, and ``place`` are what it yields; the candidate is (``new``, ``at``).
    ``extended`` is the running value in the type that is compared."""

    comparison: ir.Operation
    chosen: ir.Operation
    place: ir.Operation
    new: ir.Value
    at: ir.Value
    value: str
    rounded: ir.Operation | None
    extended: ir.Operation | None


def read_extremum(body: ir.Block, inputs: int, loop: int) -> Extremum | None:
    """The reduction over ``loop`` that ``body`` makes of (value, place); None if it is another."""
    parts = _parts(body, inputs)
    if parts is None:
        return None
    source = owner(parts.at)
    if source is not None and source.name == "arith.index_cast":
        source = owner(source.operands[0])
    if source is None or source.name != "linalg.index" or dim_of(source) != loop:
        return None
    narrow = body.arguments[inputs].type
    return Extremum(parts.value, narrow, parts.new.type, parts.at.type) if isinstance(parts.at.type, ir.IntegerType) else None


def to_candidate(body: ir.Block, inputs: int) -> None:
    """Make ``body`` yield the candidate (value, place); the running values are not read then."""
    parts = _parts(body, inputs)
    end = terminator(body)
    candidate = parts.new
    if parts.rounded is not None:
        with ir.InsertionPoint(end):
            candidate = arith.truncf(body.arguments[inputs].type, candidate)
    end.operands[0], end.operands[1] = candidate, parts.at
    for op in (parts.place, parts.rounded, parts.chosen, parts.comparison, parts.extended):
        if op is not None:
            op.erase()


def unround(body: ir.Block, extremum: Extremum) -> None:
    """Let the candidate be the number that is compared, and not what it is rounded to."""
    end = terminator(body)
    value = owner(end.operands[0])
    if value is not None and value.name == "arith.truncf" and value.operands[0].type == extremum.type:
        end.operands[0] = value.operands[0]


def _parts(body: ir.Block, inputs: int) -> _Parts | None:
    running = list(body.arguments)[inputs:]
    end = terminator(body)
    if len(running) != 2 or len(end.operands) != 2:
        return None
    chosen, place = (owner(v) for v in end.operands)
    rounded, extended, compared = None, None, running[0]
    if chosen is not None and chosen.name == "arith.truncf":
        rounded, chosen = chosen, owner(chosen.operands[0])
        uses = [u.owner.operation for u in running[0].uses]
        if len(uses) != 1 or uses[0].name != "arith.extf":
            return None
        extended = uses[0]
        compared = extended.results[0]
    if place is None or place.name != "arith.select" or place.operands[2] != running[1] or chosen is None:
        return None
    comparison = owner(place.operands[0])
    if comparison is None or comparison.name not in ("arith.cmpf", "arith.cmpi") or comparison.operands[1] != compared:
        return None
    code = ir.IntegerAttr(comparison.attributes["predicate"]).value
    value = _FLOAT.get(_F(code)) if comparison.name == "arith.cmpf" else _INTEGER.get(_I(code))
    new = comparison.operands[0]
    if value is None:
        return None
    if chosen.name == "arith.select":
        right = list(chosen.operands) == [comparison.results[0], new, compared]
    else:
        right = chosen.name in _SAME_VALUE[value] and set(chosen.operands) == {new, compared}
    readers = {compared: 2, running[1]: 1, comparison.results[0]: 2 if chosen.name == "arith.select" else 1, chosen.results[0]: 1, place.results[0]: 1}
    if not right or any(use_count(v) != n for v, n in readers.items()):
        return None
    return _Parts(comparison, chosen, place, new, place.operands[1], value, rounded, extended)
