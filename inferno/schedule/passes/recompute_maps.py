"""On a GPU, recompute a map's elements in each kernel that reads them, where that takes less time than writing and reading them.

``fuse-elementwise`` lets an element that costs more than a few operations be computed once, for it does not know yet which kernels there will be.  Where
``fuse-reductions`` has left such a map a kernel of its own, all of whose readers are maps, reductions or kernels that go over rows, this is known: the
exponentials of a softmax along the first dimension are written in float32, and read by a sum and by a division, though what they are computed of is as
wide or half of it.  A flip goes into its readers, too, which read from the end as fast as from the beginning, and so do rows that are looked up in a
tensor, which are in memory there.
"""

from collections.abc import Hashable, Iterable
from dataclasses import replace
from math import prod

from inferno.element_sizes import element_bytes
from inferno.mlir import erase_dead, func, ir, users, walk
from inferno.passes.fuse_elementwise import CHEAP, fuse
from inferno.passes.fuse_gathers import compute_where_gathered
from inferno.passes.gathered_producers import gathers_in_order
from inferno.passes.generics import PARALLEL, body, inputs, is_elementwise, kinds
from inferno.passes.neighbours import generic_around
from inferno.passes.places import is_looked_up, place_of
from inferno.passes.programs import callee, operations_in
from inferno.passes.reversals import flipped_dimensions
from inferno.passes.widen_arithmetic import drop_round_trips, mark_rounding
from inferno.schedule.analysis.accesses import loop_sizes
from inferno.schedule.analysis.cost import KERNEL_RATE, KERNEL_TIME, count_bytes, example_bytes
from inferno.schedule.assign import generator_for, is_for
from inferno.schedule.passes.calls import empty_like, generics_of, inputs_of, may_change, tell_sources
from inferno.schedule.passes.edges import Edges, edges_of, pattern
from inferno.schedule.passes.merge_calls import joint_kernel
from inferno.schedule.passes.rewrite import Rewrite, rewrite_calls
from inferno.schedule.rows.row_work import body_instructions, busy
from inferno.target import Target, find_target

_MOST = 4  # readers
# Operations of a kernel that computes a map again: of maps of maps, each with several readers, they would double with each one.
_LARGEST = 200
_GENERATORS = ("elementwise", "reductions", "rows")  # that take more operations of each point as they come
_INSTEAD = {("elementwise", "boxes")}  # generators of what readers were and of what they become, besides the same: both take maps


def recompute_maps(module: ir.Module, target: str) -> None:
    """Rewrite ``@main`` and its kernels; nothing for the CPU."""
    machine = find_target(target)
    if machine.kind == "nvptx":
        _Program.rewrite(module, machine)


class _Program(Rewrite):
    def run(self) -> bool:
        """Whether anything was changed."""
        refused: set[Hashable] = set()  # the steps of a loop ask for the same ones
        return rewrite_calls(self.main, lambda call: is_map(self.kernels.get(callee(call)), flips=True) and recompute_map(self, call, refused))


def _size(kernel: func.FuncOp) -> int:
    """How many operations its bodies have."""
    return sum(len(g.regions[0].blocks[0].operations) for g in generics_of(kernel))


def is_map(kernel: func.FuncOp | None, flips: bool = False) -> bool:
    """Whether it is one elementwise operation on points, whose result a reader can compute at any; with ``flips`` of tensors that it reads from the end, or
    whose rows it looks up, too: a reader may do that as fast."""
    generics = generics_of(kernel) if may_change(kernel) else []
    plain = len(generics) == 1 and len(kernel.type.results) == 1 and is_elementwise(generics[0]) and not walk(generics[0], "scf.if")
    gathers = walk(generics[0], "tensor.extract") if plain else []
    moved = not gathers or (flips and (all(flipped_dimensions(g, loop_sizes(generics[0])) for g in gathers) or _takes_rows(generics[0], gathers)))
    return plain and bool(inputs(generics[0]) or gathers) and moved


def _takes_rows(generic: ir.Operation, gathers: list[ir.Operation]) -> bool:
    """Whether a map looks up rows of one tensor, and computes nothing costly of them."""
    plain = all(op.operation.name in (*CHEAP, "tensor.extract") for op in body(generic).operations)
    return plain and len(gathers) == 1 and is_looked_up(gathers[0]) and gathers_in_order(gathers[0])


def recompute_map(program: Rewrite, call: ir.Operation, refused: set[Hashable]) -> bool:
    """Let the readers of a map compute it, if that pays; whether they do.  ``refused``: the patterns of those that do not."""
    readers = readers_of(program, call, call.results[0])
    if len(readers) < 2:
        return False
    pairs = pairs_of(call, readers)
    asked = tuple(map(pattern, pairs))
    if asked in refused:
        return False
    made = computing(program, pairs) if take_more(program, readers) else None
    if made is None or time_of(made, program.target) >= time_of([program.kernels[callee(c)] for c in (call, *readers)], program.target):
        erase(made or ())
        refused.add(asked)
        return False
    replace_readers(program, pairs, made)
    call.erase()
    return True


def readers_of(program: Rewrite, call: ir.Operation, result: ir.Value) -> list[ir.Operation]:
    """The calls that read what a map makes, if all that read it are such kernels, and few; none otherwise."""
    readers, kernels = list(dict.fromkeys(users(result))), program.kernels
    if len(readers) > _MOST or any(r.name != "func.call" or result not in inputs_of(r) or not may_change(kernels.get(callee(r))) for r in readers):
        return []
    large = any(_size(kernels[callee(r)]) + inputs_of(r).count(result) * _size(kernels[callee(call)]) > _LARGEST for r in readers)
    return [] if large else readers


def take_more(program: Rewrite, readers: list[ir.Operation]) -> bool:
    """Whether the generators of all these calls' kernels take more operations of each point as they come."""
    return all(generator_for(program.kernels[callee(r)], program.target) in _GENERATORS for r in readers)


def pairs_of(call: ir.Operation, readers: list[ir.Operation]) -> list[Edges]:
    """A map and each of its readers, which leave its result to nobody."""
    pairs = [edges_of([call, reader], views=True) for reader in readers]
    return [replace(edges, exported=tuple(v for v in edges.exported if v != call.results[0])) for edges in pairs]


def computing(program: Rewrite, pairs: list[Edges]) -> list[func.FuncOp] | None:
    """For each of these pairs a kernel that computes the map and what reads it, and has the reader's generator, or one for the same; None where one cannot."""
    made: list[func.FuncOp] = []
    for edges in pairs:
        before, kernel = program.kernels[callee(edges.calls[-1])], joint_kernel(program.module, program.kernels, edges)
        made.append(kernel)
        at_once = len(generics_of(before)) == 1 or is_for("reductions", before, program.target)  # where it is read, and not once for all operations
        takes = not at_once or compute_first(kernel) or _compute_gathered(kernel)
        if not takes or not _stays(generator_for(before, program.target), generator_for(kernel, program.target)):
            erase(made)
            return None
    return made


def _stays(before: str | None, after: str | None) -> bool:
    """Whether a reader's generator is the same, or one that takes the same maps."""
    return after == before or (before, after) in _INSTEAD


def erase(kernels: Iterable[func.FuncOp]) -> None:
    """Erase kernels that nothing calls."""
    for kernel in kernels:
        kernel.operation.erase()


def replace_readers(program: Rewrite, pairs: list[Edges], made: list[func.FuncOp]) -> None:
    """Call the kernels that compute a map in place of those that read it."""
    known: dict[ir.Value, ir.Value] = {}  # a reader may take what another one makes
    for edges, kernel in zip(pairs, made):
        replace_reader(edges, kernel, known)
        program.kernels[kernel.name.value] = kernel


def replace_reader(edges: Edges, kernel: func.FuncOp, known: dict[ir.Value, ir.Value]) -> None:
    """Call a kernel in place of the last call; ``known`` is what stands for results of calls that are replaced already, and gets this one's."""
    reader = edges.calls[-1]
    with ir.InsertionPoint(reader), reader.location:
        new = func.CallOp(kernel, [*(known.get(v, v) for v in edges.captured), *empty_like(edges.exported)]).operation
    tell_sources(new, edges.calls)
    for old, result in zip(edges.exported, new.results):
        old.replace_all_uses_with(result)
        known[old] = result
    reader.erase()


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
        new = fuse(first, second, inputs(second).index(first.results[0]))
        if new is None:
            return False
        for old, result in zip(second.results, new.results):
            old.replace_all_uses_with(result)
        second.erase()
        second = new.operation if isinstance(new, ir.OpView) else new
    drop_round_trips(second)
    erase_dead(operations_in(kernel))
    return True


def _compute_gathered(kernel: func.FuncOp) -> bool:
    """Let a map that gathers elements of what the first operation looks up, or flips, look them up; whether that can be."""
    first = generics_of(kernel)[0]
    if not walk(first, "tensor.extract") or not is_elementwise(generic_around(next(users(first.results[0])))):
        return False
    mark_rounding(first)
    return gather_first(kernel)


def gather_first(kernel: func.FuncOp) -> bool:
    """Compute the first operation where its elements are gathered; whether that can be."""
    if not compute_where_gathered(generics_of(kernel)[0]):
        return False
    erase_dead(operations_in(kernel))
    for generic in generics_of(kernel):
        drop_round_trips(generic)
    return True


def time_of(kernels: Iterable[func.FuncOp], target: Target) -> float:
    """Microseconds of kernels that follow each other: of each what memory takes, or the arithmetic."""
    def alone(kernel: func.FuncOp) -> float:
        work = sum(prod(loop_sizes(g)) * body_instructions(g) for g in generics_of(kernel))
        return KERNEL_TIME + max((count_bytes(kernel) - _unread_bytes(kernel)) / KERNEL_RATE, busy(work, target))

    return sum(map(alone, kernels))


def _unread_bytes(kernel: func.FuncOp) -> int:
    """Those of arguments of which a kernel reads slices alone, or looks up fewer elements than there are."""
    found = sum(_not_looked_up(argument) for argument in kernel.entry_block.arguments)
    for argument in (a for a in kernel.entry_block.arguments if isinstance(a.type, ir.RankedTensorType)):
        readers = list(users(argument))
        if readers and all(op.name == "tensor.extract_slice" for op in readers):
            slices = {_place(op): op.results[0] for op in readers}
            found += max(0, example_bytes(argument) - sum(map(example_bytes, slices.values())))
    return found


def _not_looked_up(argument: ir.Value) -> int:
    """Bytes of a tensor that is only looked up in which no point asks for."""
    gathers = [op for op in users(argument) if op.name == "tensor.extract" and is_looked_up(op)]
    if not gathers or len(gathers) != len(list(users(argument))):
        return 0
    asked = sum(prod(loop_sizes(generic_around(op))) for op in gathers)
    return max(0, example_bytes(argument) - asked * element_bytes(argument.type.element_type))


def _place(part: ir.Operation) -> tuple[Hashable, ...]:
    """What tells a slice from others of a tensor; it may begin at a loop's counter."""
    return (*(str(part.attributes[f"static_{name}"]) for name in ("offsets", "sizes", "strides")), *list(part.operands)[1:])
