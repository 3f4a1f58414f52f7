"""On a GPU, write only the changed slice of a tensor: ``x[:, 1:] += y`` is one elementwise kernel, which reads and writes that slice of ``x``.

``outline-kernels`` leaves a kernel that makes the part, and one that copies the whole tensor and then the part into it.  The second one becomes elementwise
(``written_parts.py``), and takes in what makes the part where that is elementwise, too, and reads of the old tensor no more than the elements that it writes:
otherwise the part is computed by itself, before anything is written.  Parts of one tensor, or of several, that one kernel makes are written by one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from inferno.mlir import erase_dead, func, ir, linalg, owner, tensor
from inferno.passes.generics import PARALLEL, body, build, clone_body, inputs, is_elementwise, kinds, maps
from inferno.passes.programs import callee, operations_in, readers, root_of
from inferno.passes.shapes import slice_parts
from inferno.schedule.assign import choose
from inferno.schedule.maps.elementwise import Elementwise
from inferno.schedule.passes.calls import generics_of, in_order, inputs_of, may_change
from inferno.schedule.passes.mark_overwrites import begins_to_overwrite
from inferno.schedule.analysis.written_parts import writes_parts
from inferno.schedule.passes.edges import Edges, edges_of, wait_for_each_other
from inferno.schedule.passes.pairs import MOST_INPUTS, MOST_RESULTS
from inferno.schedule.passes.rewrite import Rewrite, rewrite_calls
from inferno.target import find_target

_WRITE = ["linalg.copy", "tensor.insert_slice", "func.return"]


def write_parts(module: ir.Module, target: str) -> None:
    """Rewrite ``@main`` and its kernels; nothing for the CPU."""
    machine = find_target(target)
    if machine.kind == "nvptx":
        _Program.rewrite(module, machine)


def is_part_write(kernel: func.FuncOp | None) -> bool:
    """Whether a kernel copies a tensor, and another one into a part of the copy."""
    return may_change(kernel) and [o.name for o in operations_in(kernel)] == _WRITE


@dataclass
class _Program(Rewrite):
    def run(self) -> bool:
        """Whether anything was changed."""
        self.writing = {name for name, k in self.kernels.items() if is_part_write(k)}
        making = {name for name, k in self.kernels.items() if self.writing and _is_map(k)}
        joined = rewrite_calls(self.main, lambda call: callee(call) in making and self.join(call))
        return rewrite_calls(self.main, lambda call: callee(call) in self.writing and self.replace((call,))) or joined

    def join(self, call: ir.Operation) -> bool:
        """Make one kernel of a map and of the writes of what it makes, or of the first one of them."""
        writes = [r for v in call.results for r in readers(v) if r.name == "func.call" and callee(r) in self.writing and root_of(inputs_of(r)[0]) == v]
        writes = in_order(set(writes))[:MOST_RESULTS]
        groups = [(call, *writes[:count]) for count in range(len(writes), 0, -1)]
        return any(not wait_for_each_other(group) and self.replace(group) for group in groups)

    def replace(self, group: Sequence[ir.Operation]) -> bool:
        """Whether calls became one of an elementwise kernel."""
        edges = edges_of(group, views=False)
        return self.merges.merge(edges, lambda kernel: self.takes(kernel, edges)) is not None

    def takes(self, kernel: func.FuncOp, edges: Edges) -> bool:
        """Whether the kernel of calls, which is changed for that, computes into the parts."""
        if len(edges.captured) > MOST_INPUTS or not _store_there(kernel) or not isinstance(choose(kernel, self.target), Elementwise):
            return False
        return len(edges.calls) == 1 or all(begins_to_overwrite(kernel, n) for n, v in enumerate(edges.exported) if owner(v) != edges.calls[0])


def _is_map(kernel: func.FuncOp | None) -> bool:
    """Whether a kernel is one elementwise operation, of tensors of their own."""
    generics = generics_of(kernel) if may_change(kernel) and not writes_parts(kernel) else []
    return len(generics) == 1 and is_elementwise(generics[0])


def _store_there(kernel: func.FuncOp) -> bool:
    """Let a kernel's map compute into the parts that its results are copied to, and a kernel without one have one that copies; whether that can be."""
    *old, end = operations_in(kernel)
    generic = next(iter(generics_of(kernel)), None)
    destinations = list(kernel.entry_block.arguments)[-len(kernel.type.results):]
    results = [_Result.read(v, d, generic) for v, d in zip(end.operands, destinations)]
    if None in results:
        return False
    with ir.InsertionPoint(generic or end), end.location:
        outs = [v for r in results for v in r.begin()]
        if generic is None:
            made = _copied_into(results[0].writes[0].operands[0], outs)
        else:
            made = _computed_into(generic, [p for r in results for p in r.parts], outs)
    with ir.InsertionPoint(end), end.location:
        values = iter(made.results)
        func.ReturnOp([r.end(values) for r in results])
    end.erase()
    erase_dead(old)
    return True


@dataclass
class _Result:
    """What a kernel returns: ``base`` with the map's results of numbers ``parts`` in the places of ``writes``, the first one first; without these such a
    result."""

    destination: ir.Value
    base: ir.Value | None
    writes: list[ir.Operation]
    parts: list[int]
    whole: ir.Value | None = None  # the copy that the parts are put into

    @classmethod
    def read(cls, value: ir.Value, destination: ir.Value, generic: ir.Operation | None) -> "_Result | None":
        writes: list[ir.Operation] = []
        while (op := owner(value)) is not None and op.name in ("tensor.insert_slice", "linalg.copy"):
            if op.name == "tensor.insert_slice":
                writes.insert(0, op)
            value = op.operands[1 if op.name == "tensor.insert_slice" else 0]
        if generic is None:
            return cls(destination, value, writes, [0]) if op is None and len(writes) == 1 else None
        made = [root_of(w.operands[0]) for w in writes] or [value]
        if any(owner(v) != generic for v in made) or any(not _has_shape_of(v, w) for v, w in zip(made, writes)) or (writes and op is not None):
            return None
        return cls(destination, value if writes else None, writes, [ir.OpResult(v).result_number for v in made])

    def begin(self) -> list[ir.Value]:
        """What the map is to compute into, at the insertion point."""
        if self.base is None:
            return [self.destination]
        self.whole = linalg.copy(self.base, outs=[self.destination])
        return [tensor.ExtractSliceOp(_part_type(w), self.whole, [], [], [], *slice_parts(w)).result for w in self.writes]

    def end(self, values: Iterator[ir.Value]) -> ir.Value:
        """What is returned, of what the map has computed into these."""
        if self.base is None:
            return next(values)
        for write in self.writes:
            self.whole = tensor.InsertSliceOp(next(values), self.whole, [], [], [], *slice_parts(write)).result
        return self.whole


def _part_type(write: ir.Operation) -> ir.Type:
    """Of what is written, as it was made."""
    return root_of(write.operands[0]).type


def _has_shape_of(value: ir.Value, write: ir.Operation) -> bool:
    """Whether a value has the sizes of the part that it is written to, some of 1 left out."""
    wanted = list(value.type.shape)
    for size in slice_parts(write)[1]:
        if wanted[:1] == [size]:
            wanted.pop(0)
        elif size != 1:
            return False
    return not wanted


def _computed_into(generic: ir.Operation, numbers: Sequence[int], outs: Sequence[ir.Value]) -> ir.Operation:
    """A map like another one, at the insertion point, of whose results these go there."""
    given, every, block = inputs(generic), maps(generic), body(generic)
    indexing = [*every[:len(given)], *(every[len(given) + n] for n in numbers)]

    def fill(arguments: list[ir.Value]) -> list[ir.Value]:
        found = clone_body(block, [*arguments[:len(given)], *[None] * len(generic.results)])
        return [found[n] for n in numbers]

    return build(given, outs, indexing, kinds(generic), fill, generic.location)


def _copied_into(value: ir.Value, outs: Sequence[ir.Value]) -> ir.Operation:
    """A map that copies a tensor, at the insertion point."""
    identity = ir.AffineMap.get_identity(value.type.rank)
    return build([value], outs, [identity, identity], [PARALLEL] * value.type.rank, lambda arguments: arguments[:1], ir.Location.unknown())
