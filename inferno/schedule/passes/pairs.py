"""Passes that merge kernels two at a time: which pairs are considered, and limits for the merged kernels."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from inferno.mlir import func, ir, owner
from inferno.passes.programs import readers, root_of
from inferno.schedule.passes.calls import inputs_of, places_in
from inferno.schedule.passes.merge_calls import merge_in
from inferno.target import find_target

MOST_RESULTS, MOST_INPUTS = 8, 16  # tensors of a kernel: each takes registers for its address
LARGEST = 300  # operations of a body
# Operations of ``@main`` between two kernels: what reads the first one's results waits for the second, and what they hold stays in memory as long.
FAR = 48
SHARE = 8  # times: what two kernels move, beside what one of both saves
SMALL = 8 << 20  # bytes: a launch takes longer than what kernels that move less could lose


def near(call: ir.Operation, places: dict[ir.Operation, int]) -> Iterator[ir.Operation]:
    """Calls in front of a call, but not far, that make what it reads, and then those that read the same, the nearest first."""
    makers = [owner(root_of(v)) for v in inputs_of(call)]
    beside = {u for v in inputs_of(call) for u in readers(root_of(v)) if u.name == "func.call" and u in places}
    found = dict.fromkeys(m for m in makers if m is not None)
    found.update(dict.fromkeys(sorted(beside, key=places.__getitem__, reverse=True)))
    return (o for o in found if o in places and 0 < places[call] - places[o] <= FAR)


def merge_pairs(
    module: ir.Module, target: str, program_of: Callable[..., Any], others: Callable[[Any, ir.Operation], Iterable[ir.Operation]],
    join: Callable[[Any, ir.Operation, ir.Operation], ir.Operation | None], tell: Callable[[Any], None] = lambda program: None,
) -> None:
    """Rewrite ``@main`` and its kernels; nothing for the CPU.  Each call is asked about, and what it becomes with one in front of it: ``join`` makes one of
    the ``others`` and it one, if that pays, and says the new call.  ``program_of(module, kernels, target, places)`` is what they know, of which ``places``
    are kept; ``tell`` comes last, for what is said of an operation changes its hash."""
    machine = find_target(target)
    if machine.kind != "nvptx":
        return

    def merge(main: func.FuncOp, kernels: dict[str, func.FuncOp]) -> bool:
        program, changed = program_of(module, kernels, machine, places_in(main)), False
        pending = [o for o in program.places if o.name == "func.call"]
        while pending:
            call = pending.pop(0)
            new = next((n for other in others(program, call) if (n := join(program, other, call)) is not None), None)
            if new is not None:
                changed, program.places = True, places_in(main)
                pending = [new, *(c for c in pending if c in program.places)]
        tell(program)
        return changed

    merge_in(module, merge)
