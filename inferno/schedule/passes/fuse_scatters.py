"""On a GPU, let a scatter compute its indices itself; and the elements, where its kernel is one that has whole rows in shared memory, or adds rows to others.

The import makes a tensor of the places: for each element the number of its index in the result.  Only with how it is computed is it known which
elements stay in which row.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from inferno.mlir import func, ir, owner
from inferno.passes.generics import is_elementwise
from inferno.passes.programs import callee, operations_in, readers, root_of
from inferno.passes.shapes import UnknownSize
from inferno.schedule.analysis.accesses import argument_index, knows_arguments
from inferno.schedule.attributes import ATTRIBUTE, from_attribute
from inferno.schedule.passes.calls import calls_in, inputs_of
from inferno.schedule.passes.edges import by_symbols, edges_of
from inferno.schedule.passes.flatten_places import flatten_places
from inferno.schedule.passes.looked_up_rows import give_each, join_left, looks_up, tells_places
from inferno.schedule.passes.merge_calls import Merges, names_of
from inferno.schedule.passes.rewrite import merge_in
from inferno.schedule.scatters import matched_rows, row_sums, scatters, sorted_rows
from inferno.schedule.universal.universal import Universal
from inferno.target import find_target


# Which of a scatter's operands it may compute, and whether what they are computed of, too: what is tried, in order.  What has rows reads parts of them.
Parts = Sequence[tuple[Sequence[int], bool]]
_WHOLE: Parts = (((0, 1), True),)
_ROWS: Parts = (((0, 1), True), ((0, 1), False), ((0,), False), ((1,), True))


def fuse_scatters(module: ir.Module, target: str, always: str = "") -> None:
    """Let scatters into rows, and of rows, compute what they put there.  Nothing for the CPU; ``always``: "1" for doing so wherever a generator could."""
    machine = find_target(target)
    if machine.kind == "nvptx":
        for m, parts in ((scatters, _WHOLE), (matched_rows, _ROWS), (sorted_rows, _ROWS), (row_sums, _ROWS)):
            choose = m.fit if always == "1" else partial(m.choose, target=machine)
            give_each(module, looks_up if parts is _ROWS else tells_places)
            _fuse_all(module, parts, lambda kernel, choose=choose: choose(kernel) is not None, lambda kernel: ATTRIBUTE not in kernel.attributes)
            join_left(module)


def fold_places(module: ir.Module, target: str) -> None:
    """Let the last generator's scatters compute the places alone.  Nothing for the CPU."""
    if find_target(target).kind == "nvptx":
        give_each(module, tells_places)
        _fuse_all(module, (((1,), True),), flatten_places, _is_universal)
        join_left(module)


def _is_universal(kernel: func.FuncOp) -> bool:
    return ATTRIBUTE in kernel.attributes and from_attribute(kernel.attributes[ATTRIBUTE]).generator == Universal.generator


def _fuse_all(module: ir.Module, parts: Parts, takes: Callable[[func.FuncOp], bool], asks: Callable[[func.FuncOp], bool]) -> None:
    """Make each scatter whose kernel ``asks`` for it, and the maps that only it reads by way of some of its operands, one kernel that is taken."""
    def merge(main: func.FuncOp, kernels: dict[str, func.FuncOp]) -> bool:
        calls = calls_in(main)
        mine = [c for c in calls if _scatter(kernels[callee(c)]) is not None and asks(kernels[callee(c)])]
        return sum([any(_fuse(module, kernels, c, *part, takes) for part in parts) for c in mine]) > 0

    merge_in(module, merge)


def _scatter(kernel: func.FuncOp) -> ir.Operation | None:
    """The kernel's only scatter."""
    found = [o for o in operations_in(kernel) if o.name == "tm_tensor.scatter"]
    return found[0] if len(found) == 1 else None


def _fuse(
    module: ir.Module, kernels: dict[str, func.FuncOp], call: ir.Operation, operands: Sequence[int], deep: bool, takes: Callable[[func.FuncOp], bool],
) -> bool:
    group, kernel = _makers(kernels, call, operands, deep), kernels[callee(call)]
    if len(group) == 1:
        return False
    calls = [o.operation for o in call.block.operations if o.operation in group]
    edges, taken = edges_of(calls, views=True), [v for c in calls for v in inputs_of(c)]
    # In the shape that all take it in: maps read tables at places in it, and the result may take the place of what it begins as.
    begins = [v for v in inputs_of(call) if v.type == call.results[0].type]
    shapes = {root_of(v): v for v in (*begins, *(v for c in calls if c != call for v in inputs_of(c)))}
    shapes = {root: v for root, v in shapes.items() if all(t == v for t in taken if root_of(t) == root)}
    try:
        edges = by_symbols(replace(edges, captured=tuple(shapes.get(v, v) for v in edges.captured)))
    except UnknownSize:
        return False

    def scheduled(merged: func.FuncOp) -> bool:
        if not takes(merged):
            return False
        if ATTRIBUTE in kernel.attributes:
            merged.attributes[ATTRIBUTE] = kernel.attributes[ATTRIBUTE]
        return True

    return Merges(module, kernels).merge(edges, scheduled, names_of(call)) is not None


def _makers(kernels: dict[str, func.FuncOp], call: ir.Operation, operands: Sequence[int], deep: bool) -> set[ir.Operation]:
    """The call of a scatter, and those of maps, and of copies of parts of tensors, that only it reads by way of some of its operands; ``deep``: and of those
    that only these read."""
    kernel = kernels[callee(call)]
    arguments = [argument_index(kernel, root_of(_scatter(kernel).operands[n])) for n in operands]
    group, pending = {call}, [root_of(call.operands[n]) for n in arguments if n is not None]
    while pending:
        maker = owner(pending.pop())
        if maker in group or maker is None or maker.name != "func.call" or not _is_map(kernels[callee(maker)]):
            continue
        if all(u in group for r in maker.results for u in readers(r)):
            group.add(maker)
            pending += [root_of(v) for v in inputs_of(maker)] if deep else []
    return group


def _is_map(kernel: func.FuncOp) -> bool:
    """Whether it is one elementwise operation, of tensors or parts of them, or a copy of such a part."""
    others = ("func.return", "tensor.empty", "tensor.extract_slice")
    operations = [o for o in operations_in(kernel) if o.name not in others and not o.name.startswith("arith.")]
    if not knows_arguments(kernel) or len(operations) != 1 or len(kernel.type.results) != 1:
        return False
    return is_elementwise(operations[0]) or operations[0].name == "linalg.copy"
