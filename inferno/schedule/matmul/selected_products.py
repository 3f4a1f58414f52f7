"""A product of every matrix of a batch with all rows, of which each row's result is selected: that is a product of groups of rows.

The kernel holds the contraction, whose result nothing else reads, and one elementwise operation on rows and columns that selects its elements by
``tensor.extract`` at [f(row), row, column], maybe of two chunks of the columns, as a SwiGLU's.  What it computes is the contraction with the operation
as its epilogue, of each matrix with those rows alone for which ``f`` is the matrix's number: no order of the rows is asked for.
"""

from dataclasses import dataclass, replace

from inferno.mlir import arith, constant_number, func, ir, is_unread, isolated_copy, linalg, owner, tensor, walk
from inferno.passes.contraction import is_sum_of_products
from inferno.passes.generics import (
    PARALLEL, body, build, clone_body, dims, inputs, is_elementwise, is_reduction, kinds, loop_of, maps, outputs, substitute,
)
from inferno.passes.programs import operations_in
from inferno.passes.split_contractions import split_contractions
from inferno.schedule.matmul.contraction import Contraction, Operand
from inferno.schedule.matmul.parser import parse_split

_COMPUTED = ("arith.", "linalg.index")  # what a row's number is computed by


@dataclass(frozen=True)
class SelectedProduct:
    """``contraction`` has loops for the matrices, along which its destinations have no stride, the rows and the columns, which are ``loops``; ``second``:
    the rhs of the second chunk's.  ``number`` is the value in a body that says which matrix a row has, by what the function's arguments ``given``, which
    are its block's, have of the row; ``source`` is where it lives."""

    contraction: Contraction
    second: Operand | None
    loops: tuple[int, int, int]
    number: ir.Value
    given: dict[ir.Value, int]
    source: ir.Module

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Of the loops: how many matrices there are, how many rows and how many columns."""
        return tuple(self.contraction.sizes[d] for d in self.loops)


@dataclass(frozen=True)
class _Found:
    """The contraction ``sum``, what rounds its result, and what selects ``offsets`` of its columns, in the order of the ``selections``."""

    sum: ir.Operation
    rounding: ir.Operation | None
    selection: ir.Operation
    selections: tuple[tuple[ir.Operation, int], ...]

    @property
    def offsets(self) -> list[int]:
        return list(dict.fromkeys(offset for _, offset in self.selections))


def parse_selected(kernel: func.FuncOp, looked_up: bool = False) -> SelectedProduct | None:
    """What ``kernel`` is, if it is of this form and its sizes are known; None if it is anything else.  ``looked_up``: as if what it looks up in other
    tensors were 0, to be estimated."""
    if any(not isinstance(a.type, ir.RankedTensorType) or not a.type.has_static_shape for a in kernel.entry_block.arguments):
        return None
    if not any(owner(e.operands[0]) is not None for e in walk(kernel.operation, "tensor.extract")):
        return None
    with kernel.context, kernel.location:
        source = isolated_copy(kernel)
        split_contractions(source)
        found = _find(source.body.operations[0])
        given = _given(found) if found is not None else None
        if given is None:
            return None
        module = _derive(source, looked_up)
        parsed = parse_split(module, len(found.offsets))
    batch, rows, columns = dims(maps(found.sum)[-1])
    if parsed is None or any(c.m.dims != (rows,) or {*c.batch.dims, *c.n.dims} != {batch, columns} for c in parsed):
        return None
    first, *others = (_without_batch(c, batch) for c in parsed)
    same = ("sizes", "batch", "m", "n", "k", "lhs", "accumulator", "destinations")
    if any(getattr(first, name) != getattr(other, name) for other in others for name in same):
        return None
    return SelectedProduct(first, others[0].rhs if others else None, (batch, rows, columns), found.selections[0][0].operands[1], given, source)


def _without_batch(c: Contraction, batch: int) -> Contraction:
    """Results lie in memory without the dimension that they are computed by."""
    return replace(c, destinations=tuple(
        replace(d, access=replace(d.access, strides=tuple(0 if i == batch else s for i, s in enumerate(d.access.strides)), shape=d.access.shape[1:]))
        for d in c.destinations))


def _find(kernel: func.FuncOp) -> _Found | None:
    generics = [o for o in operations_in(kernel) if o.name == "linalg.generic"]
    sums = [g for g in generics if is_reduction(g)]
    selections = [e for e in walk(kernel.operation, "tensor.extract") if owner(e.operands[0]) is not None]
    if len(sums) != 1 or not is_sum_of_products(sums[0]) or len({e.operands[0] for e in selections}) != 1 or len({e.parent for e in selections}) != 1:
        return None
    selection, every = selections[0].parent, owner(selections[0].operands[0])
    rounding = None if every == sums[0] else every
    written = dims(maps(sums[0])[-1])
    if set(generics) != {sums[0], selection} | ({rounding} - {None}) or written is None or len(written) != 3:
        return None
    if rounding is not None and not (is_elementwise(rounding) and inputs(rounding) == [sums[0].results[0]] and set(maps(rounding)) == {
            ir.AffineMap.get_identity(3)}):
        return None
    identity = ir.AffineMap.get_identity(2)
    if selection.name != "linalg.generic" or kinds(selection) != [PARALLEL] * 2 or any(m != identity for m in maps(selection)[len(inputs(selection)):]):
        return None
    if not is_elementwise(selection) or not all(isinstance(v, ir.BlockArgument) for v in outputs(selection)) or None in map(dims, maps(selection)):
        return None
    size, (batch, rows, columns) = outputs(selection)[0].type.shape, every.results[0].type.shape
    offsets = [_offset(e) for e in selections]
    if None in offsets or len({e.operands[1] for e in selections}) != 1 or len(set(offsets)) > 2 or min(batch, rows) < 2 or size[0] != rows:
        return None
    found = _Found(sums[0], rounding, selection, tuple(zip(selections, offsets)))
    return found if all(0 <= x <= columns - size[1] for x in offsets) else None


def _offset(selection: ir.Operation) -> int | None:
    """How far from the operation's own column the element is that it selects of its own row; None where it is elsewhere."""
    _, _, row, column = selection.operands
    if loop_of(row) != 0:
        return None
    made, constant = owner(column), 0
    if made is not None and made.name == "arith.addi":
        number = [v for v in made.operands if loop_of(v) is None]
        if len(number) != 1 or (constant := constant_number(number[0])) is None:
            return None
        column = next(v for v in made.operands if v != number[0])
    return constant if loop_of(column) == 1 else None


def _given(found: _Found) -> dict[ir.Value, int] | None:
    """The function's argument for each of the block's that a row's number is computed of; None where it is not computed of numbers of the row."""
    selection, given, todo = found.selection, {}, [found.selections[0][0].operands[1]]
    block = list(body(selection).arguments)
    while todo:
        value = todo.pop()
        op = owner(value)
        if op is not None:
            if not op.name.startswith(_COMPUTED) or len(op.regions) or loop_of(value) not in (None, 0):
                return None
            todo += op.operands
            continue
        number = block.index(value) if value in block else len(block)
        if number >= len(inputs(selection)) or dims(maps(selection)[number]) != [0] or not isinstance(inputs(selection)[number], ir.BlockArgument):
            return None
        given[value] = ir.BlockArgument(inputs(selection)[number]).arg_number
    return given


def _derive(source: ir.Module, looked_up: bool = False) -> ir.Module:
    """The kernel as a contraction, or two, with an epilogue: every matrix's results are left, in destinations with a dimension for the matrices."""
    module = ir.Module.parse(str(source), source.context)
    kernel = module.body.operations[0]
    found = _find(kernel)
    selection, every, old = found.selection, found.selections[0][0].operands[0], outputs(found.selection)
    shape = [every.type.shape[0], *old[0].type.shape]
    with ir.InsertionPoint(selection), selection.location:
        sums = [_part(found.sum, offset, shape) for offset in found.offsets]
        for argument in old:
            argument.set_type(ir.RankedTensorType.get(shape, argument.type.element_type))
        loops, identity = [ir.AffineDimExpr.get(1), ir.AffineDimExpr.get(2)], ir.AffineMap.get_identity(3)

        def fill(arguments: list[ir.Value]) -> list[ir.Value]:
            values = arguments[: len(sums)]
            if found.rounding is not None:
                values = [clone_body(body(found.rounding), [v, None])[0] for v in values]
            results = clone_body(body(selection), [*arguments[len(sums): len(sums) + len(inputs(selection))], *[None] * len(old)], loops)
            block = ir.InsertionPoint.current.block
            extracts = [o.operation for o in block.operations if o.operation.name == "tensor.extract"]
            for new, (_, offset) in zip([o for o in extracts if o.operands[0] == every], found.selections):
                results = [values[found.offsets.index(offset)] if r == new.results[0] else r for r in results]
                new.results[0].replace_all_uses_with(values[found.offsets.index(offset)])
                new.erase()
            for other in [o.operation for o in block.operations if looked_up and o.operation.name == "tensor.extract"]:
                type_ = other.results[0].type
                with ir.InsertionPoint(other):
                    zero = arith.constant(type_, 0.0 if isinstance(type_, ir.FloatType) else 0)
                other.results[0].replace_all_uses_with(zero)
                other.erase()
            _drop_dead(block, results)
            return results

        indexing = [*[identity] * len(sums), *(substitute(m, loops, 3) for m in maps(selection)[: len(inputs(selection))]), *[identity] * len(old)]
        made = build([*sums, *inputs(selection)], old, indexing, [PARALLEL] * 3, fill, selection.location)
    for before, after in zip(selection.results, made.results):
        before.replace_all_uses_with(after)
    _drop_dead(kernel.entry_block, [])
    types = [a.type for a in kernel.entry_block.arguments]
    kernel.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, types[len(types) - len(old):]))
    return module


def _part(sum_: ir.Operation, offset: int, shape: list[int]) -> ir.Value:
    """The same sums for as many columns as ``shape`` has, from ``offset`` on."""
    if offset == 0 and sum_.results[0].type.shape[2] == shape[2]:
        return sum_.results[0]
    column, values = dims(maps(sum_)[-1])[2], []
    for value, map_ in zip(inputs(sum_), maps(sum_)):
        at = [i for i, e in enumerate(map_.results) if e == ir.AffineDimExpr.get(column)]
        if at:
            first, size = [0] * value.type.rank, list(value.type.shape)
            first[at[0]], size[at[0]] = offset, shape[2]
            value = tensor.extract_slice(ir.RankedTensorType.get(size, value.type.element_type), value, [], [], [], first, size, [1] * len(size))
        values.append(value)
    zero = owner(outputs(sum_)[0]).operands[0]
    start = linalg.fill(zero, outs=[tensor.EmptyOp(shape, sum_.results[0].type.element_type).result])
    return build(values, [start], maps(sum_), kinds(sum_), lambda a: clone_body(body(sum_), a), sum_.location).results[0]


def _drop_dead(block: ir.Block, used: list[ir.Value]) -> None:
    """Erase what nothing reads, but for what is ``used`` later."""
    for op in reversed([o.operation for o in block.operations]):
        if len(op.results) and is_unread(op) and not any(r in used for r in op.results):
            op.erase()
