"""Kernels whose results are tensors with a changed slice: as a function a copy of the old tensor, an operation into a slice of that, and an insertion.

The copy is a launch of its own, which is left out where the result lies in the old tensor's place (see ``mark-overwrites``); what is new is stored where it
belongs.  Parts that are all of a new tensor are inserted into that without a copy.
"""

from dataclasses import dataclass
from itertools import combinations

from inferno.mlir import destination_of, func, ir, owner, users
from inferno.passes.generics import use_count
from inferno.passes.shapes import UnknownSize, slice_parts
from inferno.symbolic import Int, bounds, product

Place = tuple[list[Int], list[Int], list[Int]]
"""Offsets, sizes and steps of a slice."""


@dataclass(frozen=True)
class Begin:
    """The kernel's argument ``target``, a destination, is a copy of its argument ``source`` at first."""

    source: int
    target: int


def writes_parts(kernel: func.FuncOp) -> bool:
    """Whether a kernel may be one of these."""
    return any(o.operation.name == "tensor.insert_slice" for o in kernel.entry_block.operations)


def take_parts(kernel: func.FuncOp) -> tuple[Begin, ...] | None:
    """Let the kernel's one operation have slices of destinations as its own, without the copies, which are said instead; in place.  None, and nothing is
    changed, where the kernel is anything else.  What the function returns is then what the operation makes."""
    end, count = list(kernel.entry_block.operations)[-1], len(kernel.type.results)
    given, destinations = list(kernel.entry_block.arguments)[:-count], list(kernel.entry_block.arguments)[-count:]
    begins, made, copies, writes = [], [], [], []
    for value, destination in zip(end.operands, destinations):
        inserted = _writes(value)
        results = [w.operands[0] for w in inserted] or [value]
        if any((op := owner(r)) is None or op.name != "linalg.generic" for r in results):
            return None
        made += results
        if not inserted:
            if destination_of(value) != destination:
                return None
            continue
        writes += inserted
        whole = inserted[0].operands[1]
        copy = owner(whole)
        if not _are_parts(inserted, whole):
            return None
        if copy is None:
            if whole != destination or not _are_all(inserted):
                return None
            continue
        if not _is_begin(copy, given, destination):
            return None
        begins.append(Begin(ir.BlockArgument(copy.operands[0]).arg_number, ir.BlockArgument(destination).arg_number))
        copies.append(copy)
    generic = owner(made[0])
    if not writes or set(made) != set(generic.results) or len(made) != len(generic.results):
        return None
    with ir.InsertionPoint(end), end.location:
        func.ReturnOp(list(generic.results))
    for op in (end.operation, *reversed(writes)):
        op.erase()
    for copy in copies:
        copy.results[0].replace_all_uses_with(copy.operands[1])
        copy.erase()
    return tuple(begins)


def touched_elements(kernel: func.FuncOp) -> dict[int, Int]:
    """How many elements are written of the arguments that begin as copies of others, and read of those, where both are one: by their numbers."""
    found: dict[int, Int] = {}
    for op in kernel.entry_block.operations if writes_parts(kernel) else ():
        if op.operation.name != "linalg.copy" or not all(isinstance(v, ir.BlockArgument) for v in op.operands):
            continue
        source, target, value = *op.operands, op.results[0]
        found[target.arg_number] = 0
        while (write := next((u for u in users(value) if u.name == "tensor.insert_slice" and u.operands[1] == value), None)) is not None:
            found[target.arg_number], value = found[target.arg_number] + _elements(write), write.results[0]
        read = [u for u in users(source) if u != op.operation]
        if all(u.name == "tensor.extract_slice" for u in read):
            found[source.arg_number] = sum(map(_elements, read))
    return found


def _elements(part: ir.Operation) -> Int:
    return product(slice_parts(part)[1])


def are_apart(one: Place, other: Place) -> bool:
    """Whether two slices of a tensor have no element in common."""
    return any(_are_apart(*a, *b) for a, b in zip(zip(*one), zip(*other)))


def _are_apart(begin: Int, size: Int, step: Int, other: Int, others: Int, its: Int) -> bool:
    """The same along one dimension."""
    if bounds(other - begin - step * (size - 1))[0] > 0 or bounds(begin - other - its * (others - 1))[0] > 0:
        return True
    return isinstance(step, int) and step == its and isinstance(begin - other, int) and (begin - other) % step != 0


def _writes(value: ir.Value) -> list[ir.Operation]:
    """The ``tensor.insert_slice`` that a value is made by, the first one first."""
    found: list[ir.Operation] = []
    while (op := owner(value)) is not None and op.name == "tensor.insert_slice":
        found.insert(0, op)
        value = op.operands[1]
    return found


def _is_begin(copy: ir.Operation, given: list[ir.Value], destination: ir.Value) -> bool:
    """Whether an operation copies an argument to a destination."""
    if copy.name != "linalg.copy" or copy.operands[1] != destination or copy.operands[0] not in given:
        return False
    return copy.operands[0].type == destination.type and use_count(destination) == 1


def _are_all(writes: list[ir.Operation]) -> bool:
    """Whether parts that have no element in common are all of a tensor."""
    return sum(map(_elements, writes)) == product(writes[0].results[0].type.shape)


def _are_parts(writes: list[ir.Operation], whole: ir.Value) -> bool:
    """Whether what is written to parts of a tensor is computed into these parts, and they have no element in common."""
    places = []
    for write in writes:
        part = owner(destination_of(write.operands[0]))
        if part is None or part.name != "tensor.extract_slice" or part.operands[0] != whole:
            return False
        try:
            places.append(slice_parts(write))
            if slice_parts(part) != places[-1] or part.results[0].type != write.operands[0].type:
                return False
        except UnknownSize:
            return False
        if use_count(part.results[0]) != 1 or use_count(write.operands[0]) != 1 or use_count(write.results[0]) != 1:
            return False
    return use_count(whole) == len(writes) + 1 and all(are_apart(a, b) for a, b in combinations(places, 2))
