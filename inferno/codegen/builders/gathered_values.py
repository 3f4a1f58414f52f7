"""Elements that a body gathers at computed indices, maybe under a condition on indices: pieces of a concatenation, a padded tensor, a shift.

Both sides of such a choice are computed in every lane, and each lane has one of them; what is read for the other one is kept inside of the tensor.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from inferno.codegen.builders.elements import as_vector, join, lanes_of, load, load_lanes
from inferno.codegen.builders.integers import Integers
from inferno.codegen.builders.lane_patterns import Pattern, Patterns
from inferno.mlir import arith, ir
from inferno.passes.shapes import row_major
from inferno.schedule.analysis.accesses import Access
from inferno.symbolic import product


def gather(
    ints: Integers, buffers: Sequence[ir.Value], patterns: Patterns, op: ir.Operation, operands: Sequence[ir.Value], clamped: bool = False,
) -> ir.Value:
    """``tensor.extract`` from an argument of the kernel: of neighbours, as ``patterns`` know them, by vectors, otherwise for each lane by itself; within it,
    for a vector's lanes may be beyond the ends, and what is computed of their numbers is anywhere.  ``clamped``: see ``load_lanes``."""
    table, where = ir.RankedTensorType(op.operands[0].type), operands[1:]
    buffer, strides = buffers[ir.BlockArgument(op.operands[0]).arg_number], row_major(table.shape)
    lanes = max((v.type.shape[0] for v in where if isinstance(v.type, ir.VectorType)), default=0)
    if (found := gather_neighbours(ints, buffer, patterns, where, Access(0, table.element_type, strides, 0, tuple(table.shape)), clamped)) is not None:
        return found
    each = [[lanes_of(v)[i] if isinstance(v.type, ir.VectorType) else v for v in where] for i in range(max(1, lanes))]
    inside = [[ints.min(ints.narrow(v), size - 1) for v, size in zip(at, table.shape)] for at in each]
    found = [load(ints, buffer, ints.dot(at, strides), table.element_type) for at in inside]
    return join(found) if lanes else found[0]


def gather_neighbours(
    ints: Integers, buffer: ir.Value, patterns: Patterns, where: Sequence[ir.Value], table: Access, clamped: bool = False,
) -> ir.Value | None:
    """The elements of a table in memory that lanes gather, by vectors; None where ``patterns`` do not know how they lie, or there are no lanes."""
    lanes = max((v.type.shape[0] for v in where if isinstance(v.type, ir.VectorType)), default=0)
    pattern = _pattern(patterns, where, table.strides, lanes) if lanes else None
    if pattern is None:
        return None
    first = [lanes_of(v)[0] if isinstance(v.type, ir.VectorType) else v for v in where]
    place = ints.dot([ints.narrow(v) for v in first], table.strides)
    return load_lanes(ints, buffer, place, pattern, table.element, product(table.shape), clamped=clamped)


def _pattern(patterns: Patterns, where: Sequence[ir.Value], strides: Sequence[int], lanes: int) -> Pattern | None:
    """Where lanes are in a table, which all points of vectors lie in; None where that is not known."""
    found = Pattern(0, (0,) * lanes)
    for value, stride in zip(where, strides):
        place = patterns.of(value, lanes)
        if place is None:
            return None
        found = found.plus(place.times(stride))
    return found


@dataclass
class GatheredValues:
    """For ``inline_body``, of vectors of ``vector`` neighbours."""

    ints: Integers
    buffers: list[ir.Value]
    vector: int
    _known: dict[ir.Value, Pattern] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._patterns = Patterns(self._known)

    def know(self, index: ir.Value, size: int) -> None:
        """A vector of indices is of neighbours, of ``size`` that vectors divide."""
        self._known[index] = Pattern(self.vector, tuple(range(self.vector)), True, size // self.vector - 1)

    def extract(self, op: ir.Operation, operands: list[ir.Value]) -> ir.Value:
        return gather(self.ints, self.buffers, self._patterns, op, operands, clamped=True)

    def branch(self, op: ir.Operation, condition: ir.Value, inline: Callable[[ir.Region], list[ir.Value]]) -> Sequence[ir.Value]:
        """``scf.if``: both sides, of which each lane has one."""
        then, other = (inline(region) for region in op.regions)
        if isinstance(condition.type, ir.VectorType) or any(isinstance(v.type, ir.VectorType) for v in (*then, *other)):
            then, other = ([as_vector(v, self.vector) for v in values] for values in (then, other))
        return [arith.select(condition, a, b) for a, b in zip(then, other)]
