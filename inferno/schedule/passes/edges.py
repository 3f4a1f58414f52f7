"""What calls of kernels that follow each other have to do with the rest of ``@main``: what they take, what others read, and who waits for them."""

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from inferno.errors import UnsupportedOperation
from inferno.mlir import ir, owner
from inferno.passes.programs import VIEWS, callee, readers, root_of
from inferno.passes.shapes import function_of, is_dynamic, known_size, shape, symbol_arguments
from inferno.schedule.passes.calls import first_of, inputs_of, tensors_of
from inferno.schedule.passes.size_factors import factors_of
from inferno.symbolic import Int, symbols_of


@dataclass(frozen=True)
class Edges:
    """What calls that follow each other have to do with the rest of the program: tensors and sizes that they take, and those of their results that
    are read elsewhere.  ``sizes``: those that are computed of the symbols of ``@main`` that are ``captured`` in their place, or of ``factors``, sizes
    that are."""

    calls: tuple[ir.Operation, ...]
    captured: tuple[ir.Value, ...]
    exported: tuple[ir.Value, ...]
    sizes: Mapping[ir.Value, Int] = field(default_factory=dict)
    factors: Mapping[ir.Value, Int] = field(default_factory=dict)


def edges_of(calls: Sequence[ir.Operation], views: bool) -> Edges:
    """With ``views`` a tensor is taken as it was made, and reshaped inside; otherwise only the calls' own results are."""
    made, inside = {r: None for c in calls for r in c.results}, set(calls)
    captured = (v if not views else root_of(v) for c in calls for v in inputs_of(c) if root_of(v) not in made)
    return Edges(tuple(calls), tuple(dict.fromkeys(captured)), tuple(r for r in made if any(u not in inside for u in readers(r))))


def by_symbols(edges: Edges) -> Edges:
    """The same, in which sizes are the symbols of ``@main`` that they are computed of: then it is known how they depend on each other, and tensors
    that go from one call to another may be reshaped between them.  Where all are products of sizes that have nothing to do with each other, they are
    these, whatever they are computed of.  UnknownSize where a size is not computed of symbols."""
    symbols = symbol_arguments(function_of(edges.calls[0]))
    taken = [v for c in edges.calls for v in inputs_of(c)]
    for value in taken:
        if (op := owner(value)) is not None and op.name in VIEWS:
            taken += op.operands
    known = {v: known_size(v) for v in taken if isinstance(v.type, ir.IndexType)}
    tensors = [v for v in (*taken, *edges.captured, *edges.exported, *(r for c in edges.calls for r in c.results)) if is_dynamic(v)]
    values = {size: v for v, size in known.items()}
    factors = factors_of([*known.values(), *(s for v in tensors for s in shape(v))], values)
    if factors is not None:
        named = {values[f]: f for f in factors}
        return replace(edges, captured=(*named, *(v for v in edges.captured if v not in known)), sizes=known, factors=named)
    needed = [*known.values(), *(s for v in (*edges.captured, *edges.exported) if is_dynamic(v) for s in shape(v))]
    used = dict.fromkeys(symbols[s] for size in needed for s in symbols_of(size))
    return replace(edges, captured=(*used, *(v for v in edges.captured if v not in known)), sizes=known)


def edges_by_symbols(calls: Sequence[ir.Operation], views: bool) -> Edges | None:
    """What calls have to do with the rest, by symbols where they take sizes; None where these are not computed of symbols."""
    found = edges_of(calls, views)
    try:
        return by_symbols(found) if any(isinstance(v.type, ir.IndexType) for v in found.captured) else found
    except UnsupportedOperation:
        return None


def edges_across(calls: Sequence[ir.Operation], views: bool) -> Edges | None:
    """As ``edges_of``; by symbols where tensors whose sizes vary are reshaped on the way into a call, whose sizes say nothing of what they were or of
    what they become; None where these are not computed of symbols."""
    found = edges_of(calls, views)
    ends = {*found.captured, *(r for c in calls for r in c.results)}
    reshaped = [v for c in calls for v in tensors_of(c) if v not in ends]
    try:
        return by_symbols(found) if any(is_dynamic(v) or is_dynamic(root_of(v)) for v in reshaped) else found
    except UnsupportedOperation:
        return None


def pattern(edges: Edges) -> Hashable:
    """What is equal for calls that make equal kernels: which kernels they are of, and what goes from one to another."""
    numbers = {v: i for i, v in enumerate((*edges.captured, *(r for c in edges.calls for r in c.results)))}
    exported = set(edges.exported)
    place = lambda v: (str(edges.sizes[v]) if v in edges.sizes else numbers[v] if v in numbers else numbers[root_of(v)], str(v.type))  # noqa: E731
    taken = tuple(str(v.type) for v in edges.captured)
    return taken, tuple((callee(c), tuple(map(place, inputs_of(c))), tuple(r in exported for r in c.results)) for c in edges.calls)


def reads_reshaped(edges: Edges) -> bool:
    """Whether one of the calls reads another's result reshaped."""
    made = {r for c in edges.calls for r in c.results}
    return any(v not in made and root_of(v) in made for c in edges.calls for v in inputs_of(c))


def stays_in_order(edges: Edges) -> bool:
    """Whether all that reads the calls' results comes behind the last one, and none of the calls reads another's reshaped."""
    made, inside = {r for c in edges.calls for r in c.results}, set(edges.calls)
    return not reads_reshaped(edges) and all(edges.calls[-1].is_before_in_block(u) for r in made for u in readers(r) if u not in inside)


class Waiting:
    """Which calls need the result of something outside of a ``group``, of calls of one block, that needs the group's.

    What does not need the group's is looked at once, whoever asks.  ``makers``: of operations what makes their operands, which gets those that were looked
    at, for questions about other groups before anything changes.
    """

    def __init__(self, group: Collection[ir.Operation], makers: dict[ir.Operation, list[ir.Operation]] | None = None) -> None:
        self._group, self._first = set(group), first_of(group)
        self._block = self._first.block
        self._makers = {} if makers is None else makers
        self._free: set[ir.Operation] = set()

    def __call__(self, call: ir.Operation) -> bool:
        group, free, seen = self._group, self._free, set()
        pending = [made for v in inputs_of(call) if (made := owner(root_of(v))) is not None and made not in group]
        while pending:
            op = pending.pop()
            if op in group:
                return True
            if op in free or op in seen or op.block != self._block or op.is_before_in_block(self._first):
                continue
            seen.add(op)
            if op not in self._makers:
                self._makers[op] = [made for v in op.operands if (made := owner(root_of(v))) is not None]
            pending += self._makers[op]
        free |= seen
        return False


def waits(call: ir.Operation, group: Collection[ir.Operation]) -> bool:
    """Whether a call needs the result of something outside of the group that needs the group's."""
    return Waiting(group)(call)


def wait_for_each_other(calls: Collection[ir.Operation], makers: dict[ir.Operation, list[ir.Operation]] | None = None) -> bool:
    """Whether one of the calls needs the result of something outside of them that needs theirs: they cannot be one.  ``makers``: as ``Waiting`` has it."""
    return any(map(Waiting(calls, makers), calls))
