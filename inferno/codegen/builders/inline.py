"""Inline the body of a ``linalg.generic`` on scalars or on vectors, lane by lane."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from inferno.codegen.builders.integers import Integers
from inferno.mlir import arith, dim_of, ir, outside_values, vector
from inferno.passes.shapes import function_of, symbol_arguments
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.matmul.contraction import Map
from inferno.schedule.rows.row_steps import RowStep

Custom = Callable[[ir.Operation, list[ir.Value]], ir.Value]
"""Builds what stands for an operation of the body, from the operation and its new operands, some of which may be vectors."""
Branch = Callable[[ir.Operation, ir.Value, Callable[[ir.Region], list[ir.Value]]], Sequence[ir.Value]]
"""Builds what stands for the results of an ``scf.if``, from it, its new condition, and what inlines one of its regions at the insertion point."""
Narrow = Callable[[ir.Operation, list[ir.Value]], ir.Value | None]
"""Builds the result of an operation in arith of which several lanes are known to be one number: a scalar, or a vector of as many lanes as there
are groups of neighbours that are; None where nothing is known."""


def epilogue_arguments(
    epilogue: Map, sums: ir.Value, read: Callable[[Access], ir.Value], others: ir.Value | None = None,
) -> list[ir.Value]:
    """What stands for the arguments of a contraction's epilogue: ``sums``, of two contractions ``others`` for the other one's, what ``read``
    gives, and anything for those that it does not use."""
    arguments = []
    for i, source in enumerate(epilogue.sources):
        if i in epilogue.accumulators:
            arguments.append(sums)
        elif i in epilogue.others:
            arguments.append(others)
        elif source is None:
            arguments.append(arith.constant(ir.IntegerType.get_signless(1), 0))
        else:
            arguments.append(read(source))
    return arguments


def size_values(map_: Map | RowStep, ints: Integers) -> dict[ir.Value, ir.Value]:
    """What stands for the sizes that the body of a map, or of a step, reads."""
    if not ints.symbols:
        return {}
    used = set(outside_values(map_.generic))
    return {v: ints.index(ints.symbols[s]) for s, v in symbol_arguments(function_of(map_.generic)).items() if v in used}


def inline_body(
    block: ir.Block, arguments: Sequence[ir.Value], indices: Sequence[ir.Value] = (), lanes: int = 0,
    custom: Mapping[str, Custom] | None = None, outside: Mapping[ir.Value, ir.Value] | None = None,
    branch: Branch | None = None, narrow: Narrow | None = None,
) -> list[ir.Value]:
    """Clone the operations of ``block`` at the insertion point and return what it yields.

    ``arguments`` stand for the block's arguments and ``indices`` for ``linalg.index``.  With ``lanes`` > 0 both may be
    vectors of that many lanes, mixed with scalars, which are broadcast where they meet vectors.  Operations in arith become
    operations on vectors; all others (libdevice functions, intrinsics, regions) are repeated for each lane.
    ``custom`` maps names of operations to builders, for what cannot be cloned, such as ``tensor.extract``; ``outside`` has what
    stands for values from around the operation.  ``branch`` builds what stands for an ``scf.if`` with results.
    """
    return inline_bodies(block, [(arguments, indices)], lanes, custom, outside, branch, narrow)[0]


def inline_bodies(
    block: ir.Block, points: Sequence[tuple[Sequence[ir.Value], Sequence[ir.Value]]], lanes: int = 0,
    custom: Mapping[str, Custom] | None = None, outside: Mapping[ir.Value, ir.Value] | None = None,
    branch: Branch | None = None, narrow: Narrow | None = None, sides: Mapping[ir.Value, int] | None = None,
) -> list[list[ir.Value]]:
    """The same for several ``points``, each (arguments, indices), of which all that ``tensor.extract`` reads is asked for before one computes.  ``sides``: the
    region that all take of an ``scf.if``, by its first result; any other is a branch of each point."""
    sides = sides or {}

    def as_vector(value: ir.Value, count: int) -> ir.Value:
        if not isinstance(value.type, ir.VectorType):
            return vector.broadcast(ir.VectorType.get([count], value.type), value)
        return value if _lane_count(value) == count else vector.shuffle(value, value, [i * _lane_count(value) // count for i in range(count)])

    def whole(value: ir.Value | None) -> ir.Value | None:
        return value if value is None or not _lane_count(value) else as_vector(value, lanes)

    def inline(block: ir.Block, each: list[tuple[dict[ir.Value, ir.Value], Sequence[ir.Value]]]) -> list[list[ir.Value]]:
        *body, (last, _) = _taken(block, sides)
        reads = _reads(body) if len(each) > 1 else [True] * len(body)
        for wanted in (True, False):
            for known, indices in each:
                for (op, yields), here in zip(body, reads):
                    if here == wanted:
                        known.update(zip(op.results, results_of(op, known, indices) if yields is None else [known.get(v, v) for v in yields.operands]))
        yielded = [[known.get(v, v) for v in last.operands] for known, _ in each]
        return [list(map(whole, values)) for values in yielded] if narrow is not None else yielded

    def results_of(op: ir.Operation, known: dict[ir.Value, ir.Value], indices: Sequence[ir.Value]) -> Sequence[ir.Value]:
        operands = [known.get(v, v) for v in op.operands]
        if op.name == "linalg.index":
            return [indices[dim_of(op)]]
        around = known if len(op.regions) else {}
        if op.name == "scf.if" and branch is not None and len(op.results):
            return branch(op, whole(operands[0]), lambda region: inline(region.blocks[0], [(dict(known), indices)])[0])
        if op.name in (custom or {}):
            return [custom[op.name](op, [whole(v) for v in operands])]
        if not lanes or not any(isinstance(v.type, ir.VectorType) for v in [*operands, *around.values()]):
            return _scalar(op, operands, around)
        if op.name.startswith("arith.") and not len(op.regions):
            found = narrow(op, operands) if narrow is not None else None
            count = max(_lane_count(v) for v in operands)
            return [found] if found is not None else on_vectors(op, [as_vector(v, count) for v in operands], count)
        count = max(_lane_count(v) for v in [*operands, *around.values()] if v is not None)
        each = [
            _scalar(op, [_lane(v, i, count) for v in operands], {k: _lane(v, i, count) for k, v in around.items()})
            for i in range(count)
        ]
        return [vector.FromElementsOp(ir.VectorType.get([count], r.type), [e[j] for e in each]).result for j, r in enumerate(op.results)]

    return inline(block, [({**(outside or {}), **dict(zip(block.arguments, arguments))}, indices) for arguments, indices in points])


def _taken(block: ir.Block, sides: Mapping[ir.Value, int]) -> Iterator[tuple[ir.Operation, ir.Operation | None]]:
    """The operations of a block, the last one what it yields; in place of an ``scf.if`` of which the side is known that side's, and (it, what this yields)."""
    for op in (view.operation for view in block.operations):
        side = sides.get(op.results[0]) if op.name == "scf.if" and len(op.results) else None
        if side is None:
            yield op, None
        else:
            *inside, (last, _) = _taken(op.regions[side].blocks[0], sides)
            yield from inside
            yield op, last


def _reads(body: Sequence[tuple[ir.Operation, ir.Operation | None]]) -> list[bool]:
    """Which operations are a ``tensor.extract``, or what one is computed of; of none where that takes a branch."""
    needed, reads = set(), [False] * len(body)
    for i, (op, yields) in reversed(list(enumerate(body))):
        if op.name == "tensor.extract" or any(v in needed for v in op.results):
            if yields is None and len(op.regions):
                return [False] * len(body)
            reads[i] = True
            needed.update((op if yields is None else yields).operands)
    return reads


def _scalar(op: ir.Operation, operands: Sequence[ir.Value], outside: Mapping) -> list[ir.Value]:
    """Clone one operation; ``outside`` replaces the values that its regions take from around it."""
    new = op.clone()
    for i, v in enumerate(operands):
        new.operands[i] = v
    for old, value in ((o, v) for o, v in outside.items() if v is not None):  # what no operation reads has no value
        _replace_inside(new, old, value)
    return list(new.results)


def on_vectors(op: ir.Operation, operands: Sequence[ir.Value], count: int) -> Sequence[ir.Value]:
    """An operation in arith on vectors of ``count`` lanes."""
    attributes = {name: op.attributes[name] for name in op.attributes}
    types = [ir.VectorType.get([count], r.type) for r in op.results]
    return ir.Operation.create(op.name, results=types, operands=list(operands), attributes=attributes, loc=op.location).results


def on_scalars(op: ir.Operation, operands: Sequence[ir.Value]) -> ir.Value:
    """The only result of an operation on scalars."""
    return _scalar(op, operands, {})[0]


def _lane_count(value: ir.Value | None) -> int:
    """How many lanes a vector has; 0 of a scalar."""
    return ir.VectorType(value.type).shape[0] if value is not None and isinstance(value.type, ir.VectorType) else 0


def _lane(value: ir.Value, lane: int, count: int) -> ir.Value:
    """Lane ``lane`` of ``count``."""
    return vector.ExtractOp(value, [], [lane * _lane_count(value) // count]).result if _lane_count(value) else value


def _replace_inside(op: ir.Operation, old: ir.Value, new: ir.Value) -> None:
    def visit(o: ir.Operation) -> ir.WalkResult:
        o.replace_uses_of_with(old, new)
        return ir.WalkResult.ADVANCE

    op.walk(visit)
