"""Maps in front of a reduction over the same points as one operation with it: an element is read once, what is made of it is a term, or part of one, and is
also written to memory where it is a result."""

from collections.abc import Collection

from inferno.mlir import ir, users, walk
from inferno.passes.generics import Operands, body, build, clone_body, indices_are_simple, inputs, is_elementwise, kinds, maps, outputs, substitute
from inferno.passes.locations import merge
from inferno.passes.programs import whole_of
from inferno.passes.widen_arithmetic import drop_round_trips, mark_rounding
from inferno.schedule.analysis.accesses import sink_constants
from inferno.schedule.analysis.shared_points import loops_at
from inferno.schedule.maps.supported import supported_body


def take_in(map_: ir.Operation, reduction: ir.Operation, returned: Collection[ir.Value]) -> ir.Operation | None:
    """A reduction that computes what an elementwise operation makes, in place of both; those of the map's results that are ``returned`` are further results of
    it, behind its own.  None, and nothing is changed, where they are not of the same points, the reduction reads a result in another order, or what is made of
    the sums reads one."""
    if not is_elementwise(map_) or not supported_body(map_) or walk(map_, "tensor.extract", "scf.if") or not sink_constants(map_):
        return None
    if any(user != reduction.operation and user.name != "func.return" for result in map_.results for user in users(result)):
        return None
    loops, made, count = loops_at(map_, reduction), list(map_.results), len(kinds(reduction))
    if loops is None or not indices_are_simple(map_, loops):
        return None
    own, number = [substitute(m, loops, count) for m in maps(map_)], len(inputs(map_))
    places = dict(zip(made, own[number:]))
    if any(whole_of(v) in made and (v not in made or m != places[v]) for v, m in zip(inputs(reduction), maps(reduction))):
        return None
    mark_rounding(map_)  # what is stored and what is added up are the same numbers
    operands = Operands()
    added = [operands.number(v, m) for v, m in zip(inputs(map_), own)]
    kept = [-1 - made.index(v) if v in made else operands.number(v, m) for v, m in zip(inputs(reduction), maps(reduction))]
    stored = [i for i, r in enumerate(made) if r in returned]
    outs = [*outputs(reduction), *(outputs(map_)[i] for i in stored)]
    every = [*operands.maps, *maps(reduction)[len(inputs(reduction)):], *(own[number + i] for i in stored)]

    def fill(arguments: list[ir.Value]) -> list[ir.Value]:
        running = arguments[len(operands.values):][: len(reduction.results)]
        points = clone_body(body(map_), [*(arguments[i] for i in added), *[None] * len(made)], loops)
        terms = clone_body(body(reduction), [*(points[-1 - i] if i < 0 else arguments[i] for i in kept), *running])
        return [*terms, *(points[i] for i in stored)]

    with ir.InsertionPoint(reduction), reduction.location:
        new = build(operands.values, outs, every, kinds(reduction), fill, merge(reduction.location, map_.location))
    for old, result in zip((*reduction.results, *(made[i] for i in stored)), new.results):
        old.replace_all_uses_with(result)
    reduction.erase()
    map_.erase()
    drop_round_trips(new)
    return new
