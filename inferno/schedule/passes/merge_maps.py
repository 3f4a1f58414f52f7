"""On a GPU, merge elementwise kernels over the same points into one kernel with several results.

``fuse-elementwise`` puts what makes a value into its reader, where that is the only one or may compute it again.  A value that is given back or read by
others, too, has to be in memory, but who reads it need not read it from there: the kernel that makes it makes what is made of it as well, as the cell and the
output of an LSTM, an optimizer's moments and its step.  And maps that read the same tensor read it once: a sine and a cosine, the parts of a gate.

Nothing is rounded otherwise than before: what is read elsewhere is as wide for all its readers as it is in memory.
"""

from dataclasses import dataclass

from inferno.errors import PassError
from inferno.mlir import erase_dead, func, ir, users
from inferno.passes.generics import (
    Operands, build, clone_body, indices_are_simple, inputs, kinds, maps, outputs, substitute,
)
from inferno.passes.locations import merge
from inferno.passes.programs import callee, operations_in, root_of
from inferno.passes.shapes import shape
from inferno.passes.widen_arithmetic import drop_round_trips, mark_rounding
from inferno.schedule.analysis.cost import count_bytes
from inferno.schedule.analysis.shared_points import loops_at, same
from inferno.schedule.assign import choose
from inferno.schedule.maps.elementwise import Elementwise
from inferno.schedule.passes.calls import generics_of, inputs_of
from inferno.schedule.passes.edges import edges_by_symbols, wait_for_each_other
from inferno.schedule.passes.explain_boundaries import note
from inferno.schedule.passes.map_calls import MapCalls
from inferno.schedule.passes.pairs import LARGEST, MOST_INPUTS, MOST_RESULTS, Pairs, SHARE, SMALL
from inferno.symbolic import product
from inferno.target import Target, find_target


def merge_maps(module: ir.Module, target: str) -> None:
    """Rewrite ``@main`` and its kernels; nothing for the CPU."""
    machine = find_target(target)
    if machine.kind == "nvptx":
        _Maps.rewrite(module, machine)


@dataclass
class _Maps(Pairs):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.maps = MapCalls(self.kernels)

    def tell(self) -> None:
        """Note of maps that read what others of as many points make why they are not one."""
        left = [(call, made) for call in self.places for made in self.others(call)]
        for call, made in left:
            if not any(r in inputs_of(call) for r in made.results) or product(shape(call.results[0])) != product(shape(made.results[0])):
                continue
            note(call, made, "one kernel for both would save little of what they move, or its results would lie in different orders")

    def others(self, call: ir.Operation) -> list[ir.Operation]:
        """Maps in front of a call that could be one with it."""
        return [o for o in self.near(call) if o in self.maps] if call in self.maps else []

    def join(self, first: ir.Operation, second: ir.Operation) -> ir.Operation | None:
        """Make two calls one, if that pays; the new call."""
        if len(first.results) + len(second.results) > MOST_RESULTS or wait_for_each_other((first, second)):
            return None
        edges = edges_by_symbols([first, second], views=True)
        if edges is None:
            return None
        made, kernels = set(first.results), [self.kernels[callee(c)] for c in edges.calls]
        reads = any(root_of(v) in made for v in inputs_of(second))

        def takes(kernel: func.FuncOp) -> bool:
            before = sum(map(count_bytes, kernels))
            pays = SHARE * (before - count_bytes(kernel)) >= before or (reads and before <= SMALL)
            return len(edges.captured) <= MOST_INPUTS and pays and _join_operations(kernel) and _alike(kernel, kernels, self.target)

        return self.merges.merge(edges, takes)


def _alike(kernel: func.FuncOp, before: list[func.FuncOp], target: Target) -> bool:
    """Whether the generator of maps takes a kernel as it takes what it stands for, and by vectors that are no shorter."""
    try:
        new, *old = [choose(k, target) for k in (kernel, *before)]
    except PassError:
        return False
    if not all(isinstance(s, Elementwise) for s in (new, *old)):
        return False
    wide = new.tile > 0 or count_bytes(kernel) <= SMALL or new.vector >= min(s.vector for s in old)
    return wide and new.tile == max(s.tile for s in old)


def _join_operations(kernel: func.FuncOp) -> bool:
    """Make a kernel's two maps one operation, in place; whether that can be."""
    first, second = generics_of(kernel)
    for number, value in enumerate(inputs(second)):  # a part of a tensor that each has of its own is read once
        second.operands[number] = next((v for v in inputs(first) if same(v, value)), value)
    loops = loops_at(first, second)
    if loops is None or sum(len(g.regions[0].blocks[0].operations) for g in (first, second)) > LARGEST:
        return False
    made, count = list(first.results), len(kinds(second))
    operands, own = Operands(), [substitute(m, loops, count) for m in maps(first)]
    outs = [*maps(second)[len(inputs(second)):], *own[len(inputs(first)):]]
    read = [m for v, m in zip(inputs(second), maps(second)) if v in made]
    if any(m != outs[0] for m in (*outs, *read)) or not indices_are_simple(first, loops):
        return False
    end = operations_in(kernel)[-1]
    if any(user not in (second, end) for v in made for user in users(v)):
        return False  # reshaped, in part, or by places
    returned = list(end.operands)
    if any(v not in (*first.results, *second.results) for v in returned):
        return False  # a result in another shape
    mark_rounding(first)  # others read it, too
    added = [operands.number(v, m) for v, m in zip(inputs(first), own)]
    kept = [-1 - made.index(v) if v in made else operands.number(v, m) for v, m in zip(inputs(second), maps(second))]
    results = {**dict(zip(first.results, outputs(first))), **dict(zip(second.results, outputs(second)))}

    def fill(arguments: list[ir.Value]) -> list[ir.Value]:
        ones = clone_body(first.regions[0].blocks[0], [*(arguments[i] for i in added), *[None] * len(made)], loops)
        values = [ones[-1 - i] if i < 0 else arguments[i] for i in kept]
        others = clone_body(second.regions[0].blocks[0], [*values, *[None] * len(second.results)])
        known = {**dict(zip(first.results, ones)), **dict(zip(second.results, others))}
        return [known[r] for r in returned]

    with ir.InsertionPoint(second), second.location:
        new = build(operands.values, [results[r] for r in returned], [*operands.maps, *[outs[0]] * len(returned)], kinds(second), fill,
                    merge(second.location, first.location))
    for old, result in zip(returned, new.results):
        old.replace_all_uses_with(result)
    for op in (second, first):
        op.erase()
    drop_round_trips(new)
    erase_dead(operations_in(kernel))
    return True
