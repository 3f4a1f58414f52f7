"""Passes that merge kernels two at a time: which pairs are considered, and limits for the merged kernels."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from inferno.mlir import ir, owner
from inferno.passes.programs import readers, root_of
from inferno.schedule.passes.calls import calls_in, inputs_of, places_in
from inferno.schedule.passes.rewrite import Rewrite

MOST_RESULTS, MOST_INPUTS = 8, 16  # tensors of a kernel: each takes registers for its address
LARGEST = 300  # operations of a body
# Operations of ``@main`` between two kernels: what reads the first one's results waits for the second, and what they hold stays in memory as long.
FAR = 48
SHARE = 8  # times: what two kernels move, beside what one of both saves
SMALL = 8 << 20  # bytes: a launch takes longer than what kernels that move less could lose


@dataclass
class Pairs(Rewrite):
    """Asks about each call, and about what it becomes with one in front of it.  ``places``: the operations of ``@main`` by their order."""

    def __post_init__(self) -> None:
        self.places = places_in(self.main)

    @abstractmethod
    def others(self, call: ir.Operation) -> Iterable[ir.Operation]:
        """Calls in front of a call that could be one with it."""

    @abstractmethod
    def join(self, first: ir.Operation, second: ir.Operation) -> ir.Operation | None:
        """Make two calls one, if that pays; the new call."""

    def near(self, call: ir.Operation) -> Iterator[ir.Operation]:
        """Calls in front of a call, but not far, that make what it reads, and then those that read the same, the nearest first."""
        places = self.places
        makers = [owner(root_of(v)) for v in inputs_of(call)]
        beside = {u for v in inputs_of(call) for u in readers(root_of(v)) if u.name == "func.call" and u in places}
        found = dict.fromkeys(m for m in makers if m is not None)
        found.update(dict.fromkeys(sorted(beside, key=places.__getitem__, reverse=True)))
        return (o for o in found if o in places and 0 < places[call] - places[o] <= FAR)

    def tell(self) -> None:
        """Say of operations why they are not one, once all are merged that are to be."""

    def run(self) -> bool:
        """Whether anything was merged."""
        changed, pending = False, calls_in(self.main)
        while pending:
            call = pending.pop(0)
            new = next((n for other in self.others(call) if (n := self.join(other, call)) is not None), None)
            if new is not None:
                changed, self.places = True, places_in(self.main)
                pending = [new, *(c for c in pending if c in self.places)]
        self.tell()
        return changed
