"""Branches of a map's body in vectors of points, as pieces of a concatenation are: only what lanes take is computed where it is known which do.

Where all lanes take the same branch, it is a branch; where they do not, both are computed, and each lane has one.  What is read meanwhile asks which lanes
are ``active``, and whether others that are not may be outside of a table.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from inferno.codegen.builders.elements import as_vector, branch_together, lanes_of, splat
from inferno.codegen.builders.lane_patterns import Condition, Patterns
from inferno.mlir import arith, ir, owner, scf, vector, walk
from inferno.schedule.maps.pointwise import Pointwise

_MUCH = 16  # operations of a branch that lanes of a vector may all leave out
_WARPS = 8  # of a row, from which on that is so of most


@dataclass
class Branches:
    """Of vectors of ``vector`` points.  ``patterns``: what is known of the values that conditions are computed of.  ``active``: the lanes that take the branch
    that is inlined, all where it is None; ``clamped``: what is inlined is computed in lanes that do not take its branch, too."""

    point: Pointwise
    vector: int
    patterns: Patterns = field(default_factory=lambda: Patterns({}))
    active: tuple[bool, ...] | None = None
    clamped: bool = False

    def emit(self, lanes: int, op: ir.Operation, condition: ir.Value, inline: Callable[[ir.Region], list[ir.Value]]) -> Sequence[ir.Value]:
        """A branch where all lanes take the same; both of them, of which each lane has one, where they do not."""
        known = self.patterns.condition(condition) if isinstance(condition.type, ir.VectorType) else Condition((), True)
        if known.same and not (lanes and any(_is_constant(region) for region in op.regions)):
            return branch_together(op, condition, lanes, inline)
        before, found = (self.active, self.clamped), []
        whole = known.lanes or (None,) * lanes
        for region, wanted in zip(op.regions, (True, False)):
            self.active = tuple((before[0] is None or before[0][i]) and whole[i] in (wanted, None) for i in range(lanes))
            self.clamped = before[1] or None in whole
            if not any(self.active):
                found.append(None)
            elif None in whole and self.is_long() and (_computes_much(region) or _read_one_table(op)):
                found.append(self.where_any(lanes_of(as_vector(condition, lanes)), wanted, op, region, inline))
            else:
                found.append([as_vector(v, lanes) for v in inline(region)])
        self.active, self.clamped = before
        then, other = found
        if then is None or other is None:
            return then or other
        if None in whole:
            return [self.chosen(condition, known, a, b) for a, b in zip(then, other)]
        return [vector.shuffle(a, b, [i if w else lanes + i for i, w in enumerate(whole)]) for a, b in zip(then, other)]

    def is_long(self) -> bool:
        """Whether most warps have points of one piece alone: of 1026 columns beside 1026 a kernel took 90 us so, and 116; of 129 beside 129 138, and 122."""
        inner = self.point.run_sizes[-1]
        return isinstance(inner, int) and inner >= _WARPS * 32 * self.vector

    def where_any(
        self, conditions: list[ir.Value], wanted: bool, op: ir.Operation, region: ir.Region, inline: Callable[[ir.Region], list[ir.Value]],
    ) -> list[ir.Value]:
        """The values of a branch that is taken if any lane takes it, else 0: most vectors lie in one piece."""
        some, lanes = conditions[0], len(conditions)
        for x in conditions[1:]:
            some = arith.ori(some, x) if wanted else arith.andi(some, x)
        types = [ir.VectorType.get([lanes], r.type) for r in op.results]
        choice = scf.IfOp(some, types, has_else=True)
        taken, left = (choice.then_block, choice.else_block) if wanted else (choice.else_block, choice.then_block)
        with ir.InsertionPoint(taken):
            scf.yield_([as_vector(v, lanes) for v in inline(region)])
        with ir.InsertionPoint(left):
            scf.yield_([splat(t, 0) for t in types])
        return list(choice.results)

    def chosen(self, condition: ir.Value, known: Condition, a: ir.Value, b: ir.Value) -> ir.Value:
        """Lanes of ``a`` where the condition is true, of ``b`` where not: all at once where it is one for all, lane by lane where few differ."""
        op = owner(condition) if isinstance(condition.type, ir.VectorType) else None
        if known.same:
            return arith.select(lanes_of(condition)[0], a, b)
        if op is not None and op.name == "arith.andi":
            for first, second in (op.operands, reversed(op.operands)):
                if (one := self.patterns.condition(first)).same:
                    return self.chosen(first, one, self.chosen(second, self.patterns.condition(second), a, b), b)
        open_ = [i for i, w in enumerate(known.lanes) if w is None]
        if len(open_) > 2:
            return arith.select(condition, a, b)
        asked = lanes_of(condition)
        found = vector.shuffle(a, b, [i + len(known.lanes) * (w is False) for i, w in enumerate(known.lanes)])
        for i in open_:
            one = arith.select(asked[i], lanes_of(a)[i], lanes_of(b)[i])
            found = vector.InsertOp(one, found, [], [i]).result
        return found


def _is_constant(region: ir.Region) -> bool:
    """Whether a branch yields nothing but constants, and values from around it."""
    return all(o.operation.name in ("arith.constant", "scf.yield") for o in region.blocks[0].operations)


def _computes_much(region: ir.Region) -> bool:
    """Whether a branch computes more than going around it costs."""
    inside = [op for o in region.blocks[0].operations for op in walk(o)]
    return sum(op.name.startswith(("arith.", "math.", "llvm.")) and op.name != "arith.constant" for op in inside) > _MUCH


def _read_one_table(op: ir.Operation) -> bool:
    """Whether both branches read the same, at other places: what a vector's other lanes would have is somewhere else in memory.  (A roll of 8192x8192 took
    an H200 138.0 us in float32 and 70.7 in bf16, with both read, 126.1 and 65.0 so.)"""
    tables = [{r.operands[0] for o in region.blocks[0].operations for r in walk(o, "tensor.extract")} for region in op.regions]
    return not tables[0].isdisjoint(tables[1])
