"""On a GPU, let the steps of an unrolled loop whose values are stacked be one kernel, which stores each where it belongs in the stack.

``y1, y2 = x[t] - a * y1 - b * y2, y1`` in a loop in Python, and ``torch.stack`` of what it comes to: each step is read by later ones and by the stack, so that
``fuse-elementwise`` has to leave it a kernel, and the stack is another one, which reads all steps once more.  All of them go over the same points.  As one map
with a result for each piece, computed into its part of the stack (``written_parts.py``), a thread goes through the steps, and what they exchange is in its
registers.  So do maps that read the stack element by element.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from inferno.errors import PassError
from inferno.mlir import erase_dead, func, ir, owner, walk
from inferno.passes.generics import (
    PARALLEL, Operands, body, build, clone_body, dims, indices_are_simple, inputs, is_elementwise, kinds, loop_sizes, maps, outputs, substitute,
)
from inferno.passes.locations import merge
from inferno.passes.programs import RESHAPES, callee, operations_in, readers
from inferno.passes.widen_arithmetic import drop_round_trips, mark_rounding
from inferno.schedule.assign import choose
from inferno.schedule.maps.elementwise import Elementwise
from inferno.schedule.passes.calls import generics_of, in_order, inputs_of, may_change, places_in
from inferno.schedule.passes.edges import edges_of
from inferno.schedule.passes.map_calls import MapCalls
from inferno.schedule.passes.merge_calls import names_of
from inferno.schedule.passes.pairs import MOST_INPUTS
from inferno.schedule.passes.rewrite import Rewrite, rewrite_calls
from inferno.schedule.passes.stacked import Stack, stack_of, unstack
from inferno.target import Target, find_target

_SHARE = 2  # times: the pieces of a stack, beside those that are made of steps: all others have been made side by side before
_LARGEST = 2000  # operations of a body
_MOST_READERS = 2  # each has as many results as there are pieces


def join_steps(module: ir.Module, target: str) -> None:
    """Rewrite ``@main`` and its kernels; nothing for the CPU."""
    machine = find_target(target)
    if machine.kind == "nvptx":
        _Program.rewrite(module, machine)


@dataclass
class _Program(Rewrite):
    stacks: dict[str, Stack] = field(default_factory=dict)  # of kernels by their names

    def run(self) -> bool:
        """Whether anything was changed."""
        for name, kernel in self.kernels.items():
            generic = _single(kernel)
            found = stack_of(generic) if generic is not None else None
            if found is not None and found.even is not None:
                self.stacks[name] = found.even
        self.maps = MapCalls(self.kernels)
        return bool(self.stacks) and rewrite_calls(self.main, lambda call: callee(call) in self.stacks and self.join(call))

    def join(self, call: ir.Operation) -> bool:
        """Make a stack and the steps that it is of one kernel, with maps that read it if that can be; whether it was done."""
        stack, places = self.stacks[callee(call)], places_in(self.main)
        steps = {m for v in inputs_of(call) if (m := owner(v)) is not None and self.is_step(m, stack)}
        if not steps:
            return False
        steps |= self.made_for({call, *steps}, stack)
        behind = [u for u in dict.fromkeys(readers(call.results[0])) if self.is_behind(u, call)][:_MOST_READERS]
        return any(self.replace({call, *steps, *more}, call, stack, places) for more in ((behind, ()) if behind else ((),)))

    def made_for(self, group: set[ir.Operation], stack: Stack) -> set[ir.Operation]:
        """The maps over the points of a piece that make something for a group alone, or for others of these."""
        found: set[ir.Operation] = set()
        pending = list(group)
        while pending:
            for made in dict.fromkeys(owner(v) for v in inputs_of(pending.pop())):
                if made is None or made in group | found or not self.is_step(made, stack):
                    continue
                if all(u in group | found for r in made.results for u in readers(r)):
                    found.add(made)
                    pending.append(made)
        return found

    def is_step(self, call: ir.Operation, stack: Stack) -> bool:
        """Whether a call may be one of a map that goes over the points of a piece."""
        return call in self.maps and may_change(self.kernels[callee(call)]) and prod(call.results[0].type.shape) == prod(stack.box)

    def is_behind(self, call: ir.Operation, stack: ir.Operation) -> bool:
        """Whether a call is of a map that makes as many points as the stack has."""
        return (
            call in self.maps and _single(self.kernels[callee(call)]) is not None and stack.results[0] in inputs_of(call)
            and list(call.results[0].type.shape) == list(stack.results[0].type.shape)
        )

    def replace(self, group: set[ir.Operation], call: ir.Operation, stack: Stack, places: dict[ir.Operation, int]) -> bool:
        """Whether the calls of a group, and those between them, became one."""
        between = _between(group, places)
        if not all(self.is_step(c, stack) for c in between - group):
            return False
        edges = edges_of(in_order(group | between), views=True)
        if len(edges.captured) > MOST_INPUTS or sum(_size(self.kernels[callee(c)]) for c in edges.calls) > _LARGEST:
            return False
        at, behind = edges.calls.index(call), [i for i, c in enumerate(edges.calls) if self.is_behind(c, call)]
        takes = lambda kernel: _join(kernel, stack, at, behind) and _is_taken(kernel, self.target)  # noqa: E731
        return self.merges.merge(edges, takes, names_of(call)) is not None


def _is_taken(kernel: func.FuncOp, target: Target) -> bool:
    try:
        found = choose(kernel, target)
    except PassError:
        return False
    return isinstance(found, Elementwise) and not found.tile


def _single(kernel: func.FuncOp) -> ir.Operation | None:
    """A kernel's one operation beside views and constants, if that is elementwise with one result."""
    found = generics_of(kernel) if may_change(kernel) else []
    return found[0] if len(found) == 1 and len(found[0].results) == 1 and is_elementwise(found[0]) else None


def _size(kernel: func.FuncOp) -> int:
    return sum(len(walk(g)) for g in generics_of(kernel))


def _between(group: set[ir.Operation], places: dict[ir.Operation, int]) -> set[ir.Operation]:
    """What needs a result of the group and is needed by it, with the group."""
    first, last = min(places[o] for o in group), max(places[o] for o in group)
    inside = [o for o, place in places.items() if first <= place <= last]
    behind: set[ir.Operation] = set()
    for op in inside:
        if op in group or any(owner(v) in behind for v in op.operands):
            behind.add(op)
    ahead = set(group)
    for op in reversed(inside):
        if any(u in ahead for r in op.results for u in readers(r)):
            ahead.add(op)
    return behind & ahead


# In a kernel that has the operations of all calls.


def _join(kernel: func.FuncOp, stack: Stack, at: int, behind: Sequence[int]) -> bool:
    """Let a kernel with the operations of all be one map, which computes into the parts of stacks; whether that can be.  ``at``, ``behind``: the numbers of
    the stack, and of what reads it, among the operations."""
    generics = generics_of(kernel)
    whole = generics[at].results[0]
    pieces: dict[ir.Value, list[ir.Value]] = {}
    order: list[ir.Operation] = []
    for number, generic in enumerate(generics):
        if number != at and number not in behind:
            order.append(generic)
            continue
        made = unstack(generic, stack, outputs(generic)[0], *((whole, pieces[whole]) if number in behind else ()))
        if made is None:
            return False
        steps = {r for g in order for r in g.results}
        if number == at and _SHARE * sum(not steps.isdisjoint(inputs(m)) for m in made) < stack.count:
            return False
        pieces[generic.results[0]] = [m.results[0] for m in made]
        order += made
    *_, end = operations_in(kernel)
    stored = {r for r in pieces if r in list(end.operands)}
    every, given = {r for g in order for r in g.results}, list(kernel.entry_block.arguments)
    returned = [p for v in end.operands for p in (pieces[v] if v in stored else [v])]
    if any(v not in every for v in returned):
        return False
    made = _as_one(order, returned, stack.box)
    if made is None:
        return False
    values = iter(made.results)
    destinations = given[len(given) - len(end.operands):]
    with ir.InsertionPoint(end), end.location:
        results = []
        for value, destination in zip(end.operands, destinations):
            if value not in stored:
                results.append(next(values))
                continue
            filled = destination
            for number in range(stack.count):
                filled = stack.insert(next(values), filled, number)
            results.append(filled)
        func.ReturnOp(results)
    end.erase()
    erase_dead(operations_in(kernel)[:-1])
    return True


def _as_one(order: Sequence[ir.Operation], returned: Sequence[ir.Value], sizes: Sequence[int]) -> ir.Operation | None:
    """One map, behind several that read each other's results at the same points, that makes what is ``returned``; None where they do not all go over a box of
    these sizes."""
    loops, count = _loops(order, sizes), len(sizes)
    if loops is None or any(not indices_are_simple(g, at) for g, at in zip(order, loops)):
        return None
    made = {r: (n, i) for n, g in enumerate(order) for i, r in enumerate(g.results)}
    if any(op.operands[0] in made for g in order for op in walk(g, "tensor.extract")):
        return None  # read at a place that is computed
    operands, alike, given = Operands(), {}, []
    for generic, at in zip(order, loops):
        mark_rounding(generic)
        own = []
        for value, map_ in zip(inputs(generic), maps(generic)):
            value = alike.setdefault(_key(value), value)
            own.append(made[value] if value in made else operands.number(value, substitute(map_, at, count)))
        given.append(own)
    outs, indexing = [], []
    for value in returned:
        number, result = made[value]
        outs.append(outputs(order[number])[result])
        indexing.append(substitute(maps(order[number])[len(inputs(order[number])) + result], loops[number], count))

    def fill(arguments: list[ir.Value]) -> list[ir.Value]:
        values: list[list[ir.Value]] = []
        for generic, at, own in zip(order, loops, given):
            known = [values[n[0]][n[1]] if isinstance(n, tuple) else arguments[n] for n in own]
            values.append(clone_body(body(generic), [*known, *[None] * len(generic.results)], at))
        return [values[n][i] for n, i in (made[v] for v in returned)]

    with ir.InsertionPoint.after(order[-1]), order[-1].location:
        new = build(operands.values, outs, [*operands.maps, *indexing], [PARALLEL] * count, fill, merge(*(g.location for g in order)))
    drop_round_trips(new)
    return new


def _loops(order: Sequence[ir.Operation], sizes: Sequence[int]) -> list[list[ir.AffineExpr]] | None:
    """For each of several maps its loops, by those of a box of these sizes, which the last one has: what reads a result says where its elements are.  None
    where two read it at different places, or not all of it."""
    at: dict[ir.Value, list[ir.AffineExpr]] = {}
    made, count, found = {r for g in order for r in g.results}, len(sizes), []
    for generic in reversed(order):
        own: list[ir.AffineExpr | None] = [None] * len(kinds(generic))
        placed = [(at[r], m) for r, m in zip(generic.results, maps(generic)[len(inputs(generic)):]) if r in at]
        if not placed and len(own) == count:
            own = [ir.AffineExpr.get_dim(d) for d in range(count)]
        for places, map_ in placed:
            for d, place in zip(dims(map_), places):
                if own[d] is not None and own[d] != place:
                    return None
                own[d] = place
        walked = [ir.AffineDimExpr(e).position if isinstance(e, ir.AffineDimExpr) else None for e in own]
        if sorted(d for d in walked if d is not None) != list(range(count)):
            return None
        if any(e is None or n != (1 if d is None else sizes[d]) for e, n, d in zip(own, loop_sizes(generic), walked)):
            return None
        found.append(own)
        for value, map_ in zip(inputs(generic), maps(generic)):
            if value in made and at.setdefault(value, places := list(substitute(map_, own, count).results)) != places:
                return None
    return found[::-1]


def _key(value: ir.Value) -> object:
    """What is equal for values that are the same part or shape of one."""
    made = owner(value)
    if made is None or made.name not in ("tensor.extract_slice", *RESHAPES):
        return value
    return made.name, str(value.type), tuple((n, made.attributes[n]) for n in made.attributes), tuple(map(_key, made.operands))
