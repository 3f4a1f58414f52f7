"""Merge calls of ``@main`` that do not depend on each other into one call of a function that computes all of them.

It takes the place of the first one, or of the last one's operands; what is between waits for none of them, or else they stay apart.  Which
calls, and with which schedule, a subclass says (see ``merge-siblings`` and ``bundle-kernels``).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from inferno.mlir import clone_onto, func, ir, is_read, tensor, users, walk
from inferno.passes.kernel_names import Names
from inferno.passes.programs import MAIN, VIEWS, callee, readers, root_of
from inferno.schedule.analysis.kept_operands import PARTS, keep, kept
from inferno.schedule.analysis.kernel_parts import OWN
from inferno.schedule.assign import kernels
from inferno.schedule.attributes import ATTRIBUTE, to_attribute
from inferno.schedule.passes.calls import empty_like, inputs_of, places_in, tell_sources
from inferno.schedule.passes.merge_calls import size_attributes
from inferno.target import Target, find_target

# Operations of @main between the first and the last one: what is computed earlier than it would be takes memory until then.
FAR = 64


@dataclass(frozen=True)
class Group:
    """Calls that can be one, which is to stand in front of operation ``place`` of ``@main``."""

    calls: tuple[ir.Operation, ...]
    place: int


class Merge(ABC):
    """Merges until nothing more is found."""

    suffix: str
    """Of the new functions' names."""

    def __init__(self, module: ir.Module, functions: dict[str, func.FuncOp], target: Target) -> None:
        self.module, self.main, self.target = module, functions[MAIN], target
        self.kernels = {k.name.value: k for k in kernels(module)}
        self.merged: dict[tuple, func.FuncOp | None] = {}  # by callees and which operands are one: equal layers have one
        self.names = Names(module)
        self.mergeable = {name for name, kernel in self.kernels.items() if self.is_mergeable(kernel)}

    @classmethod
    def rewrite(cls, module: ir.Module, target: str) -> None:
        """Merge the calls of ``@main``; nothing for targets other than GPUs."""
        functions, machine = {o.name.value: o for o in module.body.operations if isinstance(o, func.FuncOp)}, find_target(target)
        if MAIN in functions and machine.kind == "nvptx":
            with module.context, ir.Location.unknown():
                cls(module, functions, machine).run()

    @abstractmethod
    def is_mergeable(self, kernel: func.FuncOp) -> bool:
        """Whether the kernel may be one of several."""

    @abstractmethod
    def choices(self) -> Iterator[Iterable[Group]]:
        """Calls that can be one, as ``together`` has it, the better ones of some calls first; ``order`` has the places of ``@main``'s operations."""

    @abstractmethod
    def schedule(self, kernel: func.FuncOp, parts: Sequence[func.FuncOp]) -> Any | None:
        """The schedule of the function that holds the parts; None where it does not pay."""

    def run(self) -> None:
        block = self.main.entry_block
        if any(not _is_fresh(v) for op in block.operations if op.operation.name == "func.call" for v in _destinations(op.operation)):
            return  # what is written in place may be read before that only
        while found := self._find():
            # Looked up before anything changes: what is made for one group has no place, and is among what another one takes.
            for replace in [self._replacement(*each) for each in found]:
                replace()
        called = {callee(c) for c in walk(self.module.operation, "func.call")}
        for name, kernel in self.kernels.items():
            if name not in called:
                kernel.operation.erase()

    def _find(self) -> list[tuple[Group, func.FuncOp]]:
        """Calls that should be one, and the function of all; no two groups have a place between the others' calls."""
        self.order = places_in(self.main)
        self._known: dict[int, tuple[int, list[int]]] = {}
        found, taken = [], []
        for groups in self.choices():
            for group in groups:
                at = [self.order[c] for c in group.calls]
                if any(begin <= max(at) and min(at) <= end for begin, end in taken):
                    break  # the next time, and not fewer of them now
                if (kernel := self.kernel(group.calls)) is not None:
                    found.append((group, kernel))
                    taken.append((min(at), max(at)))
        return found

    def calls(self) -> list[ir.Operation]:
        """Those of kernels that may be one of several, in order."""
        return [op for op in self.order if op.name == "func.call" and callee(op) in self.mergeable]

    def together(self, calls: tuple[ir.Operation, ...]) -> Group | None:
        """The place where these calls can be one: behind all operands, in front of whoever reads a result."""
        at = [self.order[c] for c in calls]
        known = [self._around(c, n) for c, n in zip(calls, at)]
        place = max(max(behind for behind, _ in known) + 1, min(at))
        uses = [use for _, own in known for use in own]
        apart = not set(uses) & set(at) and place <= min(uses, default=place)
        return Group(calls, place) if apart and max(at) - min(at) <= FAR else None

    def runs(self, calls: Sequence[ir.Operation], most: int, fits: Callable[[tuple[ir.Operation, ...]], bool] = lambda _: True) -> Iterator[tuple[Group, ...]]:
        """From each call on that is in no group yet, those near it that follow and can join it."""
        done = -1
        for i, first in enumerate(calls):
            if self.order[first] <= done:
                continue
            group = Group((first,), self.order[first])
            for call in calls[i + 1:]:
                if self.order[call] - self.order[first] > FAR or len(group.calls) == most:
                    break
                joined = (*group.calls, call)
                if fits(joined):
                    group = self.together(joined) or group
            if len(group.calls) > 1:
                done = self.order[group.calls[-1]]
                yield (group,)

    def _around(self, call: ir.Operation, number: int) -> tuple[int, list[int]]:
        """The last operation that a call waits for, -1 for none, and those that read its results; it is tried with many others."""
        if number not in self._known:
            behind = max((self._made(v) for v in inputs_of(call)), default=-1)
            self._known[number] = behind, [self.order[u] for r in call.results for u in readers(r)]
        return self._known[number]

    def _made(self, value: ir.Value) -> int:
        """Which operation of ``@main`` makes what a value is a view of; -1 for an argument."""
        root = root_of(value)
        return -1 if isinstance(root, ir.BlockArgument) else self.order[root.owner.operation]

    # The function.

    def kernel(self, calls: tuple[ir.Operation, ...]) -> func.FuncOp | None:
        """The function that computes what all of these calls do, with its schedule; None where there is none, or it does not pay."""
        arguments, places = _arguments(calls)
        key = (tuple(callee(c) for c in calls), places)
        if key not in self.merged:
            self.merged[key] = self._make(calls, [a.type for a in arguments], places)
        return self.merged[key]

    def _make(self, calls: tuple[ir.Operation, ...], inputs: list[ir.Type], places: tuple[tuple[int, ...], ...]) -> func.FuncOp | None:
        parts = [self.kernels[callee(c)] for c in calls]
        marks = [{n: str(k.attributes[n]) for n in k.attributes if n not in OWN} for k in parts]
        if any(m != marks[0] for m in marks):
            return None
        results = [t for k in parts for t in k.type.results]
        with ir.InsertionPoint(parts[0].operation):
            new = func.FuncOp(self.names.unique(f"{_base(parts[0])}_{self.suffix}"), ([*inputs, *results], results), visibility="private")
        for name in marks[0]:
            new.attributes[name] = parts[0].attributes[name]
        given = range(len(inputs), len(inputs) + len(results))
        ends = [sum(len(k.type.results) for k in parts[:i]) for i in range(len(parts) + 1)]
        said, _ = size_attributes([(k, [*own, *given[a:b]]) for k, own, a, b in zip(parts, places, ends, ends[1:])], len(new.type.inputs))
        if any(said):
            new.attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(each) for each in said])
        keep(new, PARTS, {own[weight]: own[split] for k, own in zip(parts, places) for weight, split in kept(k, PARTS).items()})
        block = new.add_entry_block()
        destinations = iter(list(block.arguments)[len(inputs):])
        returned: list[ir.Value] = []
        with ir.InsertionPoint(block):
            for part, numbers in zip(parts, places):
                own = [*(block.arguments[n] for n in numbers), *(next(destinations) for _ in part.type.results)]
                known = dict(zip(part.entry_block.arguments, own))
                *operations, end = part.entry_block.operations
                for op in operations:
                    clone_onto(op.operation, known)
                returned += [known[v] for v in end.operands]
            func.ReturnOp(returned)
        schedule = self.schedule(new, parts)
        if schedule is None:
            new.operation.erase()
            return None
        new.attributes[ATTRIBUTE] = to_attribute(schedule)
        return new

    # The call.

    def _replacement(self, group: Group, kernel: func.FuncOp) -> Callable[[], None]:
        """What puts the one call in the place of all."""
        results = [r for c in group.calls for r in c.results]
        sooner = [op for v in _arguments(group.calls)[0] for op in _made_by_views(v) if self.order[op] >= group.place]
        later = [op for r in results for op in _views(r) if self.order[op] < group.place]
        with ir.InsertionPoint(list(self.order)[group.place]):
            here = tensor.EmptyOp([0], ir.IntegerType.get_signless(1)).operation

        def replace() -> None:
            for view in dict.fromkeys(sooner):
                view.move_before(here)
            arguments, _ = _arguments(group.calls)  # some may be another group's results by now
            with ir.InsertionPoint(here):
                empties = empty_like(results)
                new = func.CallOp(kernel, [*arguments, *empties]).operation
            tell_sources(new, group.calls)
            for view in later:
                view.move_before(here)
            for old, made in zip(results, new.results):
                old.replace_all_uses_with(made)
            for call in group.calls:
                left = dict.fromkeys(v.owner.operation for v in _destinations(call))
                call.erase()
                for empty in left:
                    if not is_read(empty.results[0]):
                        empty.erase()
            here.erase()

        return replace


def _destinations(call: ir.Operation) -> list[ir.Value]:
    return list(call.operands)[len(call.operands) - len(call.results):]


def _is_fresh(value: ir.Value) -> bool:
    return not isinstance(value, ir.BlockArgument) and value.owner.operation.name == "tensor.empty"


def _views(value: ir.Value) -> Iterator[ir.Operation]:
    """The operations that make views of a value, in order."""
    for user in users(value):
        if user.name in VIEWS:
            yield user
            yield from _views(user.results[0])


def _made_by_views(value: ir.Value) -> list[ir.Operation]:
    """The views that make a value of what it is a view of, in order."""
    if isinstance(value, ir.BlockArgument) or value.owner.operation.name not in VIEWS:
        return []
    return [*_made_by_views(value.owner.operation.operands[0]), value.owner.operation]


def _arguments(calls: tuple[ir.Operation, ...]) -> tuple[list[ir.Value], tuple[tuple[int, ...], ...]]:
    """What goes into any of the calls, each once, and for each call which of these its inputs are."""
    found: list[ir.Value] = []
    numbers: dict[tuple[ir.Value, str], int] = {}
    places = []
    for call in calls:
        own = []
        for value in inputs_of(call):
            key = (root_of(value), str(value.type))
            if key not in numbers:
                numbers[key] = len(found)
                found.append(value)
            own.append(numbers[key])
        places.append(tuple(own))
    return found, tuple(places)


def _base(kernel: func.FuncOp) -> str:
    """A kernel's name without its number."""
    name = kernel.name.value
    head, _, tail = name.rpartition("_")
    return head if head and tail.isdigit() else name
