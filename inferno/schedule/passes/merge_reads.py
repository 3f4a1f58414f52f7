"""On a GPU, merge maps and sums over the same points into one kernel: what all of them read is read once.

``fuse-elementwise`` puts what makes the terms of a sum into it, where nothing else reads these.  A difference whose magnitudes and squares are added up,
gradients that are scaled and asked whether they are finite, a residual that is added and goes on, with its sum: there a map writes what sums read again, or
both read the same.  The kernel of sums computes the map's elements where it has them, as the first part of its terms, and writes those that are given back
or read by others.  What is behind sums, a mean's quotient, stays behind them, and what is made of several, as a loss of two others, joins.

Sums over rows that ``rows`` or ``columns`` keep have such maps beside them before.  Places of extrema, sums of what is gathered and products for tensor cores
stay apart.  Sizes that vary are those of the program: equal loops are of the same expression of its symbols.
"""

from dataclasses import dataclass, field, replace

from inferno.mlir import func, ir, walk
from inferno.passes.generics import body, inputs, is_elementwise, is_reduction, kinds, maps
from inferno.passes.programs import callee, operations_in, readers, root_of, whole_of
from inferno.schedule.analysis.cost import count_bytes
from inferno.schedule.assign import is_for
from inferno.schedule.passes.behind_sums import put_behind
from inferno.schedule.passes.calls import generics_of, is_open, tensors_of
from inferno.schedule.passes.changed_places import changes_places
from inferno.schedule.passes.kernel_times import alone
from inferno.schedule.passes.mark_overwrites import stored_at, updated
from inferno.schedule.analysis.written_parts import writes_parts
from inferno.schedule.passes.edges import Edges, edges_by_symbols, wait_for_each_other
from inferno.schedule.passes.pairs import LARGEST, MOST_INPUTS, MOST_RESULTS, Pairs, SHARE, SMALL
from inferno.schedule.reductions import reductions
from inferno.schedule.reductions.merge_generics import merge_generics
from inferno.target import Target, find_target

_MOST_SUMS = 6  # running values of each of a thread's terms: all of them take registers


def merge_reads(module: ir.Module, target: str) -> None:
    """Rewrite ``@main`` and its kernels; nothing for the CPU."""
    machine = find_target(target)
    if machine.kind == "nvptx":
        _Reads.rewrite(module, machine)


@dataclass
class _Reads(Pairs):
    """``kinds`` by kernels' names."""

    kinds: dict[str, str | None] = field(default_factory=dict)

    def kind(self, call: ir.Operation) -> str | None:
        """"map" or "sums" of a call that may be one with another, None of any other."""
        name = callee(call) if call.name == "func.call" else ""
        if name not in self.kinds:
            self.kinds[name] = _kind(self.kernels.get(name), self.target)
        found = self.kinds[name]
        return None if found == "map" and changes_places(call, self.kernels[name]) else found

    def others(self, call: ir.Operation) -> list[ir.Operation]:
        """Calls in front of a call that could be one with it."""
        if self.kind(call) is None:
            return []
        return [o for o in self.near(call) if {self.kind(o), self.kind(call)} in ({"map", "sums"}, {"sums"})]

    def join(self, first: ir.Operation, second: ir.Operation) -> ir.Operation | None:
        """Make two calls one, if that pays; the new call."""
        if wait_for_each_other((first, second)):
            return None
        edges = edges_by_symbols([first, second], views=True)
        if edges is None:
            return None
        kernel = self.merges.kernel(edges, self.build)
        return self.merges.replace(edges, self.build) if kernel is not None and self.overwrites(edges, kernel) else None

    def overwrites(self, edges: Edges, kernel: func.FuncOp) -> bool:
        """Whether the kernel of all calls can write to those arguments of the program which a map by itself could, as scaled gradients are their own place:
        those that it reads nowhere else, and that nobody reads later, for a kernel of several results is not put behind others."""
        last = self.places[edges.calls[-1]]
        for call in edges.calls:
            for number in updated(call, self.kernels[callee(call)]):
                argument = root_of(call.operands[number])
                later = any(self.places.get(u, -1) > last and u.name == "func.call" for u in readers(argument))
                if later or edges.captured.index(argument) not in stored_at(kernel, edges.exported.index(call.results[0])):
                    return False
        return True

    def build(self, edges: Edges) -> func.FuncOp | None:
        """The kernel that calls become; None if they do not."""
        if len(edges.captured) > MOST_INPUTS or len(edges.exported) > MOST_RESULTS:
            return None
        kernels = [self.kernels[callee(c)] for c in edges.calls]
        before = sum(map(count_bytes, kernels))
        made, taken = set(edges.calls[0].results), {root_of(v) for v in tensors_of(edges.calls[1])}
        if made.isdisjoint(taken):  # a map comes first, that is read before sums are known
            edges = replace(edges, calls=tuple(sorted(edges.calls, key=lambda c: self.kind(c) != "map")))

        def takes(kernel: func.FuncOp) -> bool:
            saved = before - count_bytes(kernel)
            pays = SHARE * saved >= before or before <= SMALL or taken <= made  # what is made of sums alone is a launch less
            return pays and saved > 0 and _unite(kernel) and _pays(kernel, kernels, self.target)

        return self.merges.taken(edges, takes)


def _kind(kernel: func.FuncOp | None, target: Target) -> str | None:
    generics = generics_of(kernel) if is_open(kernel) and not writes_parts(kernel) else []
    if not generics or sum(len(body(g).operations) for g in generics) > LARGEST:
        return None
    if len(generics) == 1 and is_elementwise(generics[0]):
        (generic,) = generics
        own = maps(generic)[len(inputs(generic)):]
        return "map" if inputs(generic) and all(m == own[0] for m in own) and not walk(generic, "tensor.extract", "scf.if") else None
    found = reductions.planned(kernel, target) if any(is_reduction(g) for g in generics) else None
    if found is None or found[0].extremum is not None or found[0].exponentials is not None or walk(kernel, "tensor.extract"):
        return None
    return "sums" if is_for("reductions", kernel, target) else None


def _pays(kernel: func.FuncOp, before: list[func.FuncOp], target: Target) -> bool:
    """Whether the generator of reductions takes a kernel, in less time than what it stands for."""
    found = reductions.planned(kernel, target)
    if found is None:
        return False
    c, s = found
    if len(c.combiners) > _MOST_SUMS or len(c.block.operations) > LARGEST or not is_for("reductions", kernel, target):
        return False
    return reductions.estimate(s, c, target) + c.uncoalesced < sum(_apart(k, target) for k in before)


def _apart(kernel: func.FuncOp, target: Target) -> float:
    """Microseconds of a kernel by itself: a map has tiles for what lies in another order, sums have not."""
    found = reductions.planned(kernel, target)
    return alone(kernel, target) + (0.0 if found is None else found[0].uncoalesced)


def _unite(kernel: func.FuncOp) -> bool:
    """Let a kernel be maps, then one operation of all sums, then at most one of what is behind these; whether that can be."""
    generics = generics_of(kernel)
    sums, behind = [g for g in generics if is_reduction(g)], []
    made = {r for g in sums for r in g.results}
    for g in generics:
        if any(whole_of(v) in made for v in inputs(g)):
            if g in sums or any(v not in made for v in inputs(g)) or not _is_plain(g):
                return False
            behind.append(g)
            made.update(g.results)
    end = operations_in(kernel)[-1]
    if any(user.owner not in (end, *behind) for result in made for user in result.uses):  # a scan of what is behind sums, say
        return False
    for each in sums:
        each.move_before(end)  # behind all maps; what is behind sums is made anew
    if behind and not put_behind(kernel, sums, behind):
        return False
    return len(sums) == 1 or merge_generics(sums) is not None


def _is_plain(generic: ir.Operation) -> bool:
    """Whether it goes over operands that are alike, element by element."""
    identity = ir.AffineMap.get_identity(len(kinds(generic)))
    return is_elementwise(generic) and all(m == identity for m in maps(generic)) and not walk(generic, "tensor.extract", "scf.if", "linalg.index")
