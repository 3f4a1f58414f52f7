"""On a GPU, let readers compute elements that a kernel over rows has computed and writes for them, where that takes less time than writing and reading them.

``fuse-reductions`` makes one kernel of what goes over the same rows, and what others read of it is written, whatever it is made of.  Where a reader goes
over other rows, as the transposed ones of a softmax, that are its exponentials, in float32: the reader computes them as well from what the kernel reads and
from numbers of its rows, which are few.  This is known only now that there are kernels, for what fits into a group costs nothing beside it.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from math import prod

from inferno.mlir import clone_onto, erase_dead, func, ir, owner, tensor, walk
from inferno.passes.generics import inputs, is_elementwise, is_generic, is_reduction, outputs
from inferno.passes.programs import VIEWS, callee, operations_in, returned
from inferno.schedule.analysis.accesses import filled
from inferno.schedule.assign import generator_for
from inferno.schedule.passes.calls import empty_like, generics_of, inputs_of, may_change, new_kernel, tell_sources
from inferno.schedule.passes.edges import edges_of, pattern
from inferno.schedule.passes.recompute_maps import compute_first, computing, erase, pairs_of, readers_of, replace_readers, take_more, time_of
from inferno.schedule.passes.rewrite import Rewrite, rewrite_calls
from inferno.target import find_target

_LEAST = 1 << 17  # elements: of fewer, launches are what kernels take
_LITTLE = 16  # times fewer than what is computed again are numbers of rows that are written for it instead
_KNOWN = ("rows", "grid_rows", "columns", "transposed_rows", "reductions")  # that take a kernel over rows


def recompute_results(module: ir.Module, target: str) -> None:
    """Rewrite ``@main`` and its kernels; nothing for the CPU."""
    machine = find_target(target)
    if machine.kind == "nvptx":
        _Program.rewrite(module, machine)


@dataclass(frozen=True)
class _Made:
    """How a kernel makes its result of that number: the operations, in their order, of what they read: the kernel's arguments, and numbers of rows, of which
    ``more`` are not given back yet."""

    kernel: func.FuncOp
    number: int
    operations: list[ir.Operation]
    read: list[ir.Value]
    more: list[ir.Value]

    def kept(self) -> list[int]:
        """The numbers of the other results."""
        return [n for n in range(len(self.kernel.type.results)) if n != self.number]

    def results(self, first: ir.Operation, again: ir.Operation) -> dict[int, ir.Value]:
        """Which values of the two calls that stand for a call of the kernel are its results, by their numbers."""
        return {**dict(zip(self.kept(), first.results)), self.number: again.results[0]}


@dataclass
class _Program(Rewrite):
    """``refused``: the patterns of calls and readers that stay as they are: the layers of a model ask for the same ones."""

    refused: set[Hashable] = field(default_factory=set)

    def run(self) -> bool:
        """Whether anything was changed."""
        return rewrite_calls(self.main, lambda call: any(self.recompute(call, n) for n in range(len(call.results))))

    def recompute(self, call: ir.Operation, number: int) -> bool:
        """Let the readers of a result compute it, if that pays; whether they do."""
        kernel, result = self.kernels.get(callee(call)), call.results[number]
        if not isinstance(result.type, ir.RankedTensorType) or not may_change(kernel) or len(generics_of(kernel)) < 2 or prod(result.type.shape) < _LEAST:
            return False
        readers = readers_of(self, call, result)
        made = _making(kernel, number) if readers else None
        asked = (number, *(pattern(edges_of([call, reader], views=True)) for reader in readers))
        if made is None or asked in self.refused:
            return False
        parts = _parts(self.module, made) if take_more(self, readers) else None
        if parts is not None and self.split(call, made, parts, readers):
            return True
        erase(parts or ())
        self.refused.add(asked)
        return False

    def split(self, call: ir.Operation, made: _Made, parts: tuple[func.FuncOp, func.FuncOp], readers: list[ir.Operation]) -> bool:
        """Call the two parts of a kernel in its place, the second by all that reads its result, if that takes less time; whether it does."""
        left, apart = parts
        before = time_of([made.kernel, *(self.kernels[callee(r)] for r in readers)], self.target)
        first, again = _calls(call, made, left, apart)
        self.kernels |= {part.name.value: part for part in parts}
        pairs = pairs_of(again, readers)
        found = computing(self, pairs)
        pays = found is not None and time_of([left, *found], self.target) < before
        if pays and generator_for(left, self.target) in _KNOWN:
            replace_readers(self, pairs, found)
            again.erase()
            call.erase()
            return True
        erase(found or ())
        _take_back(call, made, first, again)
        for part in parts:
            del self.kernels[part.name.value]
        return False


def _making(kernel: func.FuncOp, number: int) -> _Made | None:
    """How a kernel that reduces makes a result by elementwise operations; None where it needs anything else than its arguments and numbers of rows."""
    if not any(is_reduction(g) for g in generics_of(kernel)):
        return None
    value, given = returned(kernel)[number], len(kernel.type.inputs) - len(kernel.type.results)
    few = prod(value.type.shape) // _LITTLE
    pending, operations, read = [value], set(), {}
    while pending:
        v = pending.pop()
        op = owner(v)
        if op is None:
            if ir.BlockArgument(v).arg_number >= given:
                return None
            read[v] = None
        elif op in operations:
            continue
        elif filled(v) is not None:
            operations.add(op)
        elif op.name in VIEWS or op.name == "tensor.extract_slice":
            if any(not isinstance(x.type, ir.RankedTensorType) for x in op.operands):
                return None
            operations.add(op)
            pending.append(op.operands[0])
        elif v != value and prod(v.type.shape) <= few:
            read[v] = None
        elif is_generic(op) and is_elementwise(op) and len(op.results) == 1 and not walk(op, "tensor.extract", "scf.if"):
            operations.add(op)
            pending += inputs(op)
        else:
            return None
    order = [op for op in operations_in(kernel) if op in operations]
    more = [v for v in read if owner(v) is not None and v not in returned(kernel)]
    return _Made(kernel, number, order, list(read), more) if any(is_generic(op) and filled(op.results[0]) is None for op in order) else None


def _begun(value: ir.Value) -> ir.Value | None:
    """The empty tensor in whose place a value of rows is made, of which nothing else is; None where there is none."""
    op = owner(value)
    while op is not None and (is_generic(op) or op.name == "linalg.fill"):
        into = outputs(op)[0] if is_generic(op) else op.operands[1]
        if len(op.results) != 1 or len(list(into.uses)) != 1:
            return None
        if (op := owner(into)) is not None and op.name == "tensor.empty":
            return into
    return None


def _parts(module: ir.Module, made: _Made) -> tuple[func.FuncOp, func.FuncOp] | None:
    """The kernel without the result, and a map that computes this; None where there are none."""
    left = _without(module, made)
    apart = _apart(module, made) if left is not None else None
    if left is not None and apart is None:
        left.operation.erase()
    return None if apart is None else (left, apart)


def _without(module: ir.Module, made: _Made) -> func.FuncOp | None:
    """The kernel without the result, and with the numbers of rows that this is made of behind the others; None where nothing would be left, or one of these
    has no tensor of its own."""
    kernel, kept = made.kernel, made.kept()
    values, given = returned(kernel), len(kernel.type.inputs) - len(kernel.type.results)
    begun = [_begun(v) for v in made.more]
    if any(b is None for b in begun):
        return None
    types = [*(values[n].type for n in kept), *(v.type for v in made.more)]
    if not types:
        return None
    arguments = list(kernel.entry_block.arguments)
    new = new_kernel(module, kernel, kernel.name.value, [a.type for a in arguments[:given]], types)
    own = list(new.entry_block.arguments)
    known: dict[ir.Value, ir.Value] = dict(zip([*arguments[:given], *(arguments[given + n] for n in kept), *begun], own))
    with ir.InsertionPoint(new.entry_block), kernel.location:
        dropped = arguments[given + made.number]
        known[dropped] = tensor.EmptyOp(list(dropped.type.shape), dropped.type.element_type).result
        for op in operations_in(kernel)[:-1]:
            if not (op.name == "tensor.empty" and op.results[0] in begun):
                clone_onto(op, known)
        func.ReturnOp([known[v] for v in (*(values[n] for n in kept), *made.more)])
    erase_dead(operations_in(new))
    return new


def _apart(module: ir.Module, made: _Made) -> func.FuncOp | None:
    """A map that computes the result of what it is made of; None where it is not one operation."""
    kernel, value = made.kernel, returned(made.kernel)[made.number]
    new = new_kernel(module, kernel, "recomputed", [v.type for v in made.read], [value.type])
    known: dict[ir.Value, ir.Value] = dict(zip(made.read, new.entry_block.arguments))
    with ir.InsertionPoint(new.entry_block), kernel.location:
        for op in operations_in(kernel):
            if op.name == "arith.constant":
                clone_onto(op, known)
        for op in made.operations:
            into = outputs(op)[0] if is_generic(op) else op.operands[1] if op.name == "linalg.fill" else None
            if into is not None:
                last = op == owner(value)
                known[into] = new.entry_block.arguments[len(made.read)] if last else tensor.EmptyOp(list(into.type.shape), into.type.element_type).result
            clone_onto(op, known)
        func.ReturnOp([known[value]])
    while len(generics_of(new)) > 1:
        if not compute_first(new):
            new.operation.erase()
            return None
    erase_dead(operations_in(new))
    return new


def _calls(call: ir.Operation, made: _Made, left: func.FuncOp, apart: func.FuncOp) -> tuple[ir.Operation, ir.Operation]:
    """Calls of the two in front of the one that there is, which nothing reads then."""
    values = returned(made.kernel)
    with ir.InsertionPoint(call), call.location:
        into = [tensor.EmptyOp(list(t.shape), t.element_type).result for t in left.type.results]
        first = func.CallOp(left, [*inputs_of(call), *into]).operation
        known: dict[ir.Value, ir.Value] = dict(zip(made.kernel.entry_block.arguments, call.operands))
        known |= dict(zip([*(values[n] for n in made.kept()), *made.more], first.results))
        again = func.CallOp(apart, [*(known[v] for v in made.read), *empty_like([call.results[made.number]])]).operation
    for new in (first, again):
        tell_sources(new, [call])
    for n, value in made.results(first, again).items():
        call.results[n].replace_all_uses_with(value)
    return first, again


def _take_back(call: ir.Operation, made: _Made, first: ir.Operation, again: ir.Operation) -> None:
    """Erase the two calls, and let what reads them read the one that there was."""
    for n, value in made.results(first, again).items():
        value.replace_all_uses_with(call.results[n])
    begun = [owner(v) for new in (first, again) for v in list(new.operands)[len(inputs_of(new)):]]
    again.erase()
    first.erase()
    erase_dead(begun)
