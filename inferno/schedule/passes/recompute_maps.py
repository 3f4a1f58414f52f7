"""On a GPU, recompute a map's elements in each kernel that reads them, where that takes less time than writing and reading them.

``fuse-elementwise`` lets an element that costs more than a few operations be computed once, for it does not know yet which kernels there will be.  Where
``fuse-reductions`` has left such a map a kernel of its own, all of whose readers are maps, reductions or kernels that go over rows, this is known: the
exponentials of a softmax along the first dimension are written in float32, and read by a sum and by a division, though what they are computed of is as
wide or half of it.  A flip goes into its readers, too, which read from the end as fast as from the beginning.
"""

from collections.abc import Hashable, Iterable
from dataclasses import replace
from math import prod
from types import SimpleNamespace

from inferno.mlir import erase_dead, func, ir, users, walk
from inferno.passes.fuse_elementwise import fuse
from inferno.passes.generics import PARALLEL, inputs, is_elementwise, kinds
from inferno.passes.places import place_of
from inferno.passes.programs import callee
from inferno.passes.reversals import flipped_dimensions
from inferno.passes.widen_arithmetic import drop_round_trips, mark_rounding
from inferno.schedule.analysis.accesses import loop_sizes
from inferno.schedule.analysis.cost import KERNEL_RATE, KERNEL_TIME, count_bytes, example_bytes
from inferno.schedule.assign import generator_for, is_for
from inferno.schedule.passes.calls import empty_like, generics_of, inputs_of, may_change, operations_in, tell_sources
from inferno.schedule.passes.merge_calls import Edges, edges_of, joint_kernel, merge_in, pattern, rewrite_calls
from inferno.schedule.rows.row_work import body_instructions, busy
from inferno.target import Target, find_target

_MOST = 4  # readers
# Operations of a kernel that computes a map again: of maps of maps, each with several readers, they would double with each one.
_LARGEST = 200
_GENERATORS = ("elementwise", "reductions", "rows")  # that take more operations of each point as they come


def recompute_maps(module: ir.Module, target: str) -> None:
    """Rewrite ``@main`` and its kernels; nothing for the CPU."""
    machine = find_target(target)
    if machine.kind != "nvptx":
        return

    def merge(main: func.FuncOp, kernels: dict[str, func.FuncOp]) -> bool:
        refused: set[Hashable] = set()  # the steps of a loop ask for the same ones
        return rewrite_calls(main, lambda call: is_map(kernels.get(callee(call)), flips=True) and recompute_map(module, kernels, call, machine, refused))

    merge_in(module, merge)


def _size(kernel: func.FuncOp) -> int:
    """How many operations its bodies have."""
    return sum(len(g.regions[0].blocks[0].operations) for g in generics_of(kernel))


def is_map(kernel: func.FuncOp | None, flips: bool = False) -> bool:
    """Whether it is one elementwise operation on points, whose result a reader can compute at any; with ``flips`` of tensors that it reads from the end,
    too: a reader may do that as fast."""
    generics = generics_of(kernel) if may_change(kernel) else []
    plain = len(generics) == 1 and len(kernel.type.results) == 1 and is_elementwise(generics[0]) and not walk(generics[0], "scf.if")
    gathers = walk(generics[0], "tensor.extract") if plain else []
    flipped = not gathers or (flips and all(flipped_dimensions(g, loop_sizes(generics[0])) for g in gathers))
    return plain and bool(inputs(generics[0]) or gathers) and flipped


def recompute_map(module: ir.Module, kernels: dict[str, func.FuncOp], call: ir.Operation, target: Target, refused: set[Hashable]) -> bool:
    """Let the readers of a map compute it, if that pays; whether they do.  ``refused``: the patterns of those that do not."""
    readers = readers_of(kernels, call, call.results[0])
    if len(readers) < 2:
        return False
    pairs = pairs_of(call, readers)
    asked = tuple(map(pattern, pairs))
    if asked in refused:
        return False
    before = time_of(kernels[callee(call)], target) + sum(time_of(kernels[callee(r)], target) for r in readers)
    made = computing(module, kernels, pairs, target) if take_more(readers, kernels, target) else None
    if made is None or sum(time_of(kernel, target) for _, _, kernel in made) >= before:
        drop(made or ())
        refused.add(asked)
        return False
    replace_readers(kernels, made)
    call.erase()
    return True


def readers_of(kernels: dict[str, func.FuncOp], call: ir.Operation, result: ir.Value) -> list[ir.Operation]:
    """The calls that read what a map makes, if all that read it are such kernels, and few; none otherwise."""
    readers = list(dict.fromkeys(users(result)))
    if len(readers) > _MOST or any(r.name != "func.call" or result not in inputs_of(r) or not may_change(kernels.get(callee(r))) for r in readers):
        return []
    large = any(_size(kernels[callee(r)]) + inputs_of(r).count(result) * _size(kernels[callee(call)]) > _LARGEST for r in readers)
    return [] if large else readers


def pairs_of(call: ir.Operation, readers: list[ir.Operation]) -> list[Edges]:
    """A map and each of its readers, which leave its result to nobody."""
    pairs = [edges_of([call, reader], views=True) for reader in readers]
    return [replace(edges, exported=tuple(v for v in edges.exported if v != call.results[0])) for edges in pairs]


def computing(
    module: ir.Module, kernels: dict[str, func.FuncOp], pairs: list[Edges], target: Target,
) -> list[tuple[ir.Operation, Edges, func.FuncOp]] | None:
    """The readers of a map, with which each is one of ``pairs``, each with a kernel that computes it and has the reader's generator; None where one cannot."""
    made: list[tuple[ir.Operation, Edges, func.FuncOp]] = []
    for edges in pairs:
        reader = edges.calls[-1]
        before, kernel = kernels[callee(reader)], joint_kernel(module, kernels, edges)
        made.append((reader, edges, kernel))
        if (_computes_at_once(before, target) and not compute_first(kernel)) or generator_for(kernel, target) != generator_for(before, target):
            drop(made)
            return None
    return made


def drop(made: Iterable[tuple[ir.Operation, Edges, func.FuncOp]]) -> None:
    """Erase kernels that are not to be called."""
    for _, _, kernel in made:
        kernel.operation.erase()


def replace_readers(kernels: dict[str, func.FuncOp], made: Iterable[tuple[ir.Operation, Edges, func.FuncOp]]) -> None:
    """Call the kernels that compute a map in place of those that read it."""
    known: dict[ir.Value, ir.Value] = {}  # a reader may take what another one makes
    for reader, edges, kernel in made:
        replace_reader(reader, edges, kernel, known)
        kernels[kernel.name.value] = kernel


def _computes_at_once(kernel: func.FuncOp, target: Target) -> bool:
    """Whether a kernel computes what it reads where it reads it, and not once for all of its operations."""
    return len(generics_of(kernel)) == 1 or is_for("reductions", kernel, target)


def compute_first(kernel: func.FuncOp) -> bool:
    """Let the second operation compute what the first one makes, and only it reads; whether that can be."""
    first, second = generics_of(kernel)[:2]
    if any(r.owner.operation != second for r in first.results[0].uses):
        return False
    counted = {u.owner.operation for o in walk(first, "linalg.index") for u in o.results[0].uses}
    if set(kinds(second)) != {PARALLEL} and any(op.name != "tensor.extract" and place_of(op.results[0]) is None for op in counted):
        return False
    mark_rounding(first)  # the others read it, too
    while first.results[0] in inputs(second):
        new = fuse(first, second, inputs(second).index(first.results[0]), SimpleNamespace(ip=ir.InsertionPoint(second)))
        if new is None:
            return False
        for old, result in zip(second.results, new.results):
            old.replace_all_uses_with(result)
        second.erase()
        second = new.operation if isinstance(new, ir.OpView) else new
    drop_round_trips(second)
    erase_dead(operations_in(kernel))
    return True


def take_more(readers: Iterable[ir.Operation], kernels: dict[str, func.FuncOp], target: Target) -> bool:
    """Whether the generators of all these calls' kernels take more operations of each point as they come."""
    return all(generator_for(kernels[callee(r)], target) in _GENERATORS for r in readers)


def replace_reader(reader: ir.Operation, edges: Edges, kernel: func.FuncOp, known: dict[ir.Value, ir.Value]) -> None:
    with ir.InsertionPoint(reader), reader.location:
        new = func.CallOp(kernel, [*(known.get(v, v) for v in edges.captured), *empty_like(edges.exported)]).operation
    tell_sources(new, edges.calls)
    for old, result in zip(edges.exported, new.results):
        old.replace_all_uses_with(result)
        known[old] = result
    reader.erase()


def time_of(kernel: func.FuncOp, target: Target) -> float:
    """Microseconds: what memory takes, or the arithmetic."""
    work = sum(prod(loop_sizes(g)) * body_instructions(g) for g in generics_of(kernel))
    return KERNEL_TIME + max((count_bytes(kernel) - _unread_bytes(kernel)) / KERNEL_RATE, busy(work, target))


def _unread_bytes(kernel: func.FuncOp) -> int:
    """Those of arguments of which a kernel reads slices alone."""
    found = 0
    for argument in (a for a in kernel.entry_block.arguments if isinstance(a.type, ir.RankedTensorType)):
        readers = list(users(argument))
        if readers and all(op.name == "tensor.extract_slice" for op in readers):
            slices = {_place(op): op.results[0] for op in readers}
            found += max(0, example_bytes(argument) - sum(map(example_bytes, slices.values())))
    return found


def _place(part: ir.Operation) -> tuple[Hashable, ...]:
    """What tells a slice from others of a tensor; it may begin at a loop's counter."""
    return (*(str(part.attributes[f"static_{name}"]) for name in ("offsets", "sizes", "strides")), *list(part.operands)[1:])
