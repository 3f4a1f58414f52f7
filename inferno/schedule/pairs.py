"""Kernels that become one two at a time: which are asked about, and what bounds the kernels that they become."""

from collections.abc import Callable, Iterator

from inferno.mlir import func, ir, owner
from inferno.passes.programs import readers, root_of
from inferno.schedule.merge_calls import inputs_of, places_in

MOST_RESULTS, MOST_INPUTS = 8, 16  # tensors of a kernel: each takes registers for its address
LARGEST = 300  # operations of a body
# Operations of ``@main`` between two kernels: what reads the first one's results waits for the second, and what they hold stays in memory as long.
FAR = 48
SHARE = 8  # times: what two kernels move, beside what one of both saves
SMALL = 8 << 20  # bytes: a launch takes longer than what kernels that move less could lose

Places = dict[ir.Operation, int]


def near(call: ir.Operation, places: Places) -> Iterator[ir.Operation]:
    """Calls in front of a call, but not far, that make what it reads, and then those that read the same, the nearest first."""
    makers = [owner(root_of(v)) for v in inputs_of(call)]
    beside = {u for v in inputs_of(call) for u in readers(root_of(v)) if u.name == "func.call" and u in places}
    found = dict.fromkeys(m for m in makers if m is not None)
    found.update(dict.fromkeys(sorted(beside, key=places.__getitem__, reverse=True)))
    return (o for o in found if o in places and 0 < places[call] - places[o] <= FAR)


def join_pairs(main: func.FuncOp, places: Places, join: Callable[[ir.Operation, Places], ir.Operation | None]) -> tuple[bool, Places]:
    """Ask about each call of ``@main``, and about what it becomes with one in front of it: ``join`` makes them one, if that pays, and says the new call.
    Whether there was one, and the places behind it."""
    changed, pending = False, [o for o in places if o.name == "func.call"]
    while pending:
        new = join(pending.pop(0), places)
        if new is not None:
            changed, places = True, places_in(main)
            pending = [new, *(c for c in pending if c in places)]
    return changed, places
