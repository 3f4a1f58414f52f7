"""Reading and building ``linalg.generic``: what the fusion rewrites share."""

from collections.abc import Callable, Sequence

from inferno.mlir import arith, clone_onto, dim_of, ir, is_read, linalg, owner, terminator, walk
from inferno.passes.generic_attributes import alone, kinds_of, loops_of_map, maps_of, PARALLEL as PARALLEL, REDUCTION, writes_once
from inferno.passes.shapes import UnknownSize, shape
from inferno.symbolic import Int


def maps(op: ir.Operation) -> list[ir.AffineMap]:
    """The indexing map of each operand."""
    if op.name == "linalg.generic":  # its attribute as it is: half the time of the view
        return list(maps_of(op.attributes["indexing_maps"]))
    return [m if isinstance(m, ir.AffineMap) else m.value for m in op.opview.indexing_maps]


def loops_alone(op: ir.Operation) -> tuple[tuple[int | None, ...], ...]:
    """For each operand the loop that walks each of its dimensions alone; None where other expressions do."""
    if op.name == "linalg.generic":
        return alone(op.attributes["indexing_maps"])
    return tuple(map(loops_of_map, maps(op)))


def kinds(op: ir.Operation) -> list[str]:
    """The kind of each loop, PARALLEL or REDUCTION."""
    return list(kinds_of(op.attributes["iterator_types"]))


def inputs(op: ir.Operation) -> list[ir.Value]:
    """The operands that are read."""
    return list(op.operands)[: input_count(op)]


def outputs(op: ir.Operation) -> list[ir.Value]:
    """The operands that results are computed into, or reductions begin as."""
    return list(op.operands)[input_count(op) :]


def input_count(op: ir.Operation) -> int:
    """How many operands are read.  Of tensors all results have a destination; of buffers there are no results."""
    results = len(op.results)
    return len(op.operands) - results if results else op.attributes["operandSegmentSizes"][0]


def body(op: ir.Operation) -> ir.Block:
    """The block that computes an element."""
    return op.regions[0].blocks[0]


class Operands:
    """The inputs of a generic in the making: each tensor once for each map that it is read by."""

    def __init__(self) -> None:
        self.values: list[ir.Value] = []
        self.maps: list[ir.AffineMap] = []

    def number(self, value: ir.Value, map_: ir.AffineMap) -> int:
        """The place of ``value`` read by ``map_``, a new one if it is not there yet."""
        for i, (v, m) in enumerate(zip(self.values, self.maps)):
            if v == value and m == map_:
                return i
        self.values.append(value)
        self.maps.append(map_)
        return len(self.values) - 1


def is_generic(op: ir.Operation | None) -> bool:
    """Whether an operation is a ``linalg.generic``."""
    return op is not None and op.name == "linalg.generic"


def is_reduction(op: ir.Operation | None) -> bool:
    """Whether an operation reduces along a loop, at least."""
    return is_generic(op) and REDUCTION in kinds(op)


def knows_sizes(op: ir.Operation) -> bool:
    """Whether every tensor that the operation takes or makes has sizes that are known, as numbers or expressions of symbols."""
    values = [*op.operands, *(() if op.name.startswith("linalg.") else op.results)]  # linalg's results have the sizes of operands
    tensors = [v for v, t in zip(values, [v.type for v in values]) if isinstance(t, ir.RankedTensorType) and not t.has_static_shape]
    try:
        for v in tensors:
            shape(v)
    except UnknownSize:
        return False
    return True


def is_elementwise(op: ir.Operation | None) -> bool:
    """All loops parallel, results written once each (their maps are permutations), nothing read from ``outs``."""
    if not is_generic(op):
        return False
    said, count = op.attributes, input_count(op)
    return writes_once(said["iterator_types"], said["indexing_maps"], count) and not _reads(op, count)


def reads_outputs(op: ir.Operation) -> bool:
    """Whether the body uses the old values of ``outs``."""
    return _reads(op, input_count(op))


def _reads(op: ir.Operation, first: int) -> bool:
    """Whether the body uses any of its arguments from this one on."""
    arguments = body(op).arguments
    return any(is_read(arguments[i]) for i in range(first, len(arguments)))


def dims(map_: ir.AffineMap) -> list[int] | None:
    """The loops that a map selects, each at most once, in order; None where it does anything else."""
    found = [ir.AffineDimExpr(e).position if isinstance(e, ir.AffineDimExpr) else None for e in map_.results]
    return found if None not in found and len(set(found)) == len(found) else None


def loops_of(expression: ir.AffineExpr) -> set[int]:
    """The loops that an expression depends on."""
    if isinstance(expression, ir.AffineDimExpr):
        return {ir.AffineDimExpr(expression).position}
    return loops_of(expression.lhs) | loops_of(expression.rhs) if isinstance(expression, ir.AffineBinaryExpr) else set()


def loop_sizes(op: ir.Operation) -> list[Int | None]:
    """The extent of each loop; None where no operand says."""
    every = maps(op)
    sizes: list[Int | None] = [None] * every[0].n_dims if every else []
    for value, along in zip(op.operands, loops_alone(op)):
        if isinstance(value.type, ir.RankedTensorType):
            for size, loop in zip(_shape_or_none(value), along):
                if loop is not None and size is not None and not isinstance(sizes[loop], int):
                    sizes[loop] = size
    return sizes


def covers_loops(indexing: Sequence[ir.AffineMap], count: int) -> bool:
    """Whether each of ``count`` loops has an operand, read by these maps, that tells its extent."""
    return len({ir.AffineDimExpr(e).position for m in indexing for e in m.results if isinstance(e, ir.AffineDimExpr)}) == count


def _shape_or_none(value: ir.Value) -> Sequence[Int | None]:
    try:
        return shape(value)
    except UnknownSize:
        return [None if value.type.is_dynamic_dim(d) else value.type.shape[d] for d in range(value.type.rank)]


def yielded(op: ir.Operation) -> list[ir.Value]:
    """What the body makes, one value a result."""
    return list(terminator(body(op)).operands)


def is_copy(op: ir.Operation | None) -> bool:
    """Whether an elementwise generic only moves its one input: a transpose, a broadcast or a copy."""
    return is_generic(op) and len(op.results) == 1 == input_count(op) and is_elementwise(op) and yielded(op) == [body(op).arguments[0]]


def is_widening(op: ir.Operation | None) -> bool:
    """Whether an elementwise generic does nothing but extend the elements of its one input, wherever it reads them."""
    return is_generic(op) and input_count(op) == 1 and is_elementwise(op) and [o.operation.name for o in body(op).operations] in (
        ["arith.extf", "linalg.yield"], ["arith.extsi", "linalg.yield"])


def inverse(permutation: Sequence[int]) -> list[int]:
    """The permutation that takes ``permutation`` back."""
    return [list(permutation).index(i) for i in range(len(permutation))]


def permuted(map_: ir.AffineMap, order: Sequence[int]) -> ir.AffineMap:
    """The map of a tensor whose dimensions are another's in this order."""
    return ir.AffineMap.get(map_.n_dims, 0, [map_.results[d] for d in order])


def substitute(map_: ir.AffineMap, loops: Sequence[ir.AffineExpr], count: int) -> ir.AffineMap:
    """``map_`` with its loops replaced by expressions of ``count`` other loops."""
    renaming = ir.AffineMap.get(count, 0, list(loops))
    return ir.AffineMap.get(count, 0, [e.compose(renaming) for e in map_.results])


def indices_are_simple(op: ir.Operation, loops: Sequence[ir.AffineExpr]) -> bool:
    """Whether every ``linalg.index`` of the body becomes one loop or a constant under ``loops``."""
    used = {dim_of(i) for i in walk(op, "linalg.index")}
    return all(isinstance(loops[d], (ir.AffineDimExpr, ir.AffineConstantExpr)) for d in used)


def clone_body(block: ir.Block, arguments: Sequence[ir.Value | None], loops: Sequence[ir.AffineExpr] | None = None) -> list[ir.Value]:
    """Clone a body at the insertion point on other values and return what it yields; ``loops`` are what each
    ``linalg.index`` becomes: sums of products of loops and constants."""
    return clone_at(block, arguments, loop if loops is None else lambda dim: evaluate(loops[dim]))


def clone_uncast(block: ir.Block, arguments: Sequence[ir.Value | None]) -> list[ir.Value]:
    """Clone a body that yields the result of a cast, without the cast."""
    cast = owner(clone_body(block, arguments)[0])
    value = cast.operands[0]
    cast.erase()
    return [value]


def keep_attributes(new: ir.Operation, old: ir.Operation) -> None:
    """Let an operation that is made anew say what the old one said beside what makes it."""
    for name in old.attributes:
        if name not in new.attributes:
            new.attributes[name] = old.attributes[name]


def take_place(new: ir.Operation, old: ir.Operation) -> None:
    """Put an operation that is made anew in the place of the old one."""
    keep_attributes(new, old)
    for before, result in zip(old.results, new.results):
        before.replace_all_uses_with(result)
    old.erase()


def clone_at(block: ir.Block, arguments: Sequence[ir.Value | None], loops: Callable[[int], ir.Value]) -> list[ir.Value]:
    """The same, where ``loops`` gives the value that each ``linalg.index`` becomes."""
    known: dict[ir.Value, ir.Value] = dict(zip(block.arguments, arguments))
    for op in block.operations:
        op = op.operation
        if op.name == "linalg.yield":
            return [known.get(v, v) for v in op.operands]
        if op.name == "linalg.index":
            known[op.results[0]] = loops(dim_of(op))
            continue
        clone_onto(op, known)
    raise ValueError("a body without linalg.yield")


def index(value: int) -> ir.Value:
    """A place as a constant, at the insertion point."""
    return arith.constant(ir.IndexType.get(), value)


def loop(dim: int) -> ir.Value:
    """The number of an iteration of the loop around the insertion point."""
    return linalg.IndexOp(dim).result


def loop_of(value: ir.Value) -> int | None:
    """The loop that a value is the number of an iteration of; None of any other value."""
    made = owner(value)
    return dim_of(made) if made is not None and made.name == "linalg.index" else None


def float32(value: float) -> ir.Value:
    """A number as a constant, at the insertion point."""
    return arith.constant(ir.F32Type.get(), value)


def evaluate(expr: ir.AffineExpr, loops: Callable[[int], ir.Value] = loop) -> ir.Value:
    """A sum of products of loops and constants, at the insertion point."""
    if isinstance(expr, ir.AffineDimExpr):
        return loops(ir.AffineDimExpr(expr).position)
    if isinstance(expr, ir.AffineConstantExpr):
        return index(ir.AffineConstantExpr(expr).value)
    parts = ir.AffineBinaryExpr(expr)
    return (arith.addi if isinstance(expr, ir.AffineAddExpr) else arith.muli)(evaluate(parts.lhs, loops), evaluate(parts.rhs, loops))


def element_at(op: ir.Operation, place: Sequence[ir.Value], read: Callable[[ir.Value, list[ir.Value]], ir.Value]) -> ir.Value:
    """The element at ``place`` of an elementwise operation's result, computed at the insertion point; ``read`` gives those of its operands."""
    at = dict(zip(dims(maps(op)[-1]), place)).__getitem__
    arguments = [
        None if not is_read(a) else read(v, [evaluate(e, at) for e in m.results]) if isinstance(v.type, ir.RankedTensorType) else v
        for v, m, a in zip(inputs(op), maps(op), body(op).arguments)
    ]
    return clone_at(body(op), arguments, at)[0]


def build(
    ins: Sequence[ir.Value], outs: Sequence[ir.Value], indexing: Sequence[ir.AffineMap], loop_kinds: Sequence[str],
    fill: Callable[[list[ir.Value]], list[ir.Value]], location: ir.Location,
) -> ir.Operation:
    """A generic at the insertion point; ``fill`` gets the block's arguments and returns what to yield."""
    generic = linalg.GenericOp(
        [v.type for v in outs], list(ins), list(outs), ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in indexing]),
        ir.ArrayAttr.get([ir.Attribute.parse(k) for k in loop_kinds]), loc=location,
    )
    elements = [v.type.element_type if isinstance(v.type, ir.RankedTensorType) else v.type for v in (*ins, *outs)]
    block = generic.regions[0].blocks.append(*elements, arg_locs=[location] * len(elements))
    with ir.InsertionPoint(block), location:
        linalg.YieldOp(fill(list(block.arguments)))
    return generic.operation


def use_count(value: ir.Value) -> int:
    """How many operands a value is."""
    return sum(1 for _ in value.uses)


def only_user(value: ir.Value) -> ir.Operation | None:
    """The one operation that uses ``value``, however often; None if there are none or several."""
    found: ir.Operation | None = None
    for use in value.uses:
        op = use.owner.operation
        if found is None:
            found = op
        elif op != found:  # a mask is read by every layer: no need to look at all of them
            return None
    return found


def started_like(made: ir.Operation, empty: ir.Value) -> ir.Value:
    """``empty`` as a result may start from it where others start from what ``made`` gives: filled with the number that a ``linalg.fill`` has, else as it is."""
    return empty if made.name == "tensor.empty" else linalg.fill(made.operands[0], outs=[empty])
