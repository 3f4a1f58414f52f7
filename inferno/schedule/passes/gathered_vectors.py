"""Of ``hoist-vectors``: what a map computes of elements that it gathers at one place of small tensors, again for each of its many points.

An image that a gate scales and that is then padded, or put beside another one, computes the gate in a branch, of a mean and of a largest element that are
read at the point's place: once for every channel.  A map of these tensors alone computes it once, and the gate is gathered instead.
"""

from dataclasses import dataclass, field
from math import prod

from inferno.element_sizes import element_bytes
from inferno.mlir import backward_slice, clone_onto, dim_of, erase_dead, func, ir, owner, tensor, users, walk
from inferno.passes.generics import PARALLEL, build, dims, maps
from inferno.passes.programs import operations_in
from inferno.schedule.analysis.accesses import loop_sizes
from inferno.schedule.passes.calls import call_in_two, new_kernel


@dataclass
class Gathered:
    """A number that is computed of what is gathered at ``place`` of tensors of the sizes ``shape``: the operations, in their order."""

    place: tuple[ir.Value, ...]
    shape: tuple[int, ...]
    operations: dict[ir.Operation, None] = field(default_factory=dict)

    @property
    def tables(self) -> list[ir.Value]:
        return list(dict.fromkeys(op.operands[0] for op in self.operations if op.name == "tensor.extract"))

    def written(self, value: ir.Value) -> int:
        """Bytes of all such numbers."""
        return prod(self.shape) * element_bytes(value.type)


def gathered_values(generic: ir.Operation, fewer: int) -> dict[ir.Value, Gathered]:
    """The floating-point numbers that a body computes of elements of arguments at one place, of which there are so many times fewer, and that it reads with
    others.  Those of a place that neighbours have in common a thread computes once for a vector of them."""
    points, known, found, inner = prod(loop_sizes(generic)), {}, {}, (dims(maps(generic)[-1]) or [0])[-1]
    for op in [o for o in walk(generic) if o != generic]:
        made = None
        if op.name == "tensor.extract":
            table = op.operands[0]
            told = all(owner(p) is not None for p in list(op.operands)[1:])
            if owner(table) is None and told and table.type.has_static_shape and 0 < fewer * prod(table.type.shape) <= points and table.type.rank:
                made = Gathered(tuple(op.operands)[1:], tuple(table.type.shape), {op: None})
        elif op.name.startswith(("arith.", "math.")) and not len(op.regions) and len(op.results) == 1 and isinstance(op.results[0].type, ir.FloatType):
            made = _joined([known.get(v) for v in op.operands if not _is_constant(v)], op)
        if made is not None:
            known[op.results[0]] = made
        else:
            found.update((v, known[v]) for v in op.operands if v in known)
    return {v: made for v, made in found.items() if owner(v).name != "tensor.extract" and any(_follows(p, inner) for p in made.place)}


def _follows(place: ir.Value, loop: int) -> bool:
    """Whether a place is computed of a loop's number."""
    made = (owner(v) for v in backward_slice([place]))
    return any(op is not None and op.name == "linalg.index" and dim_of(op) == loop for op in made)


def _joined(of: list[Gathered | None], op: ir.Operation) -> Gathered | None:
    """What an operation makes of numbers of one place; None where it makes it of anything else."""
    if not of or any(g is None or (g.place, g.shape) != (of[0].place, of[0].shape) for g in of):
        return None
    return Gathered(of[0].place, of[0].shape, {**{o: None for g in of for o in g.operations}, op: None})


def _is_constant(value: ir.Value) -> bool:
    return (made := owner(value)) is not None and made.name == "arith.constant"


def unread_without(value: ir.Value, made: Gathered) -> list[ir.Operation]:
    """The operations that nothing needs once the value is gathered."""
    gone: dict[ir.Operation, None] = {}
    for op in reversed(made.operations):
        if op.results[0] == value or all(u in gone for u in users(op.results[0])):
            gone[op] = None
    return list(gone)


def hoist_gathered(
    module: ir.Module, kernel: func.FuncOp, call: ir.Operation, value: ir.Value, made: Gathered,
) -> tuple[ir.Operation, func.FuncOp]:
    """Two calls in the place of one: of a kernel that computes the value for every place, and of one that gathers it, which are given."""
    first = _kernel_of_values(module, kernel, value, made)
    rest, left = _kernel_of_rest(module, kernel, value, made)
    return call_in_two(call, first, made.tables, rest, left), rest


def _kernel_of_values(module: ir.Module, kernel: func.FuncOp, value: ir.Value, made: Gathered) -> func.FuncOp:
    """A map of the tensors that are gathered of, at the same place of all."""
    type_ = ir.RankedTensorType.get(made.shape, value.type)
    new = new_kernel(module, kernel, f"{kernel.name.value}_vectors", [t.type for t in made.tables], [type_])
    with ir.InsertionPoint(new.entry_block), kernel.location:
        own, outside = list(new.entry_block.arguments), {}
        for op in operations_in(kernel):
            if op.name == "arith.constant":
                clone_onto(op, outside)

        def compute(arguments: list[ir.Value]) -> list[ir.Value]:
            known, read = dict(outside), dict(zip(made.tables, arguments))
            for op in made.operations:
                if op.name == "tensor.extract":
                    known[op.results[0]] = read[op.operands[0]]
                    continue
                for constant in (owner(v) for v in op.operands if _is_constant(v) and v not in known):
                    clone_onto(constant, known)
                clone_onto(op, known)
            return [known[value]]

        same = ir.AffineMap.get_identity(len(made.shape))
        func.ReturnOp(build(own[:-1], own[-1:], [same] * len(own), [PARALLEL] * len(made.shape), compute, kernel.location).results)
    erase_dead(operations_in(new))
    return new


def _kernel_of_rest(module: ir.Module, kernel: func.FuncOp, value: ir.Value, made: Gathered) -> tuple[func.FuncOp, list[ir.Value]]:
    """``kernel`` with the values as an argument, and the arguments of its own that it still reads, which come before it."""
    gone, arguments, results = unread_without(value, made), list(kernel.entry_block.arguments), len(kernel.type.results)
    inside = [op for op in walk(kernel) if op != kernel.operation and op not in gone]
    read = {v for op in inside for v in op.operands}
    left = [v for v in arguments[:len(arguments) - results] if v in read]
    type_ = ir.RankedTensorType.get(made.shape, value.type)
    rest = new_kernel(module, kernel, kernel.name.value, [*(v.type for v in left), type_], list(kernel.type.results))
    own = list(rest.entry_block.arguments)
    known = dict(zip([*left, *arguments[len(arguments) - results:]], [*own[:len(left)], *own[len(left) + 1:]]))
    number = walk(kernel).index(owner(value))
    with ir.InsertionPoint(rest.entry_block), kernel.location:
        before = list(walk(kernel))
        for op in operations_in(kernel):
            clone_onto(op, known)
    after = list(walk(rest))
    twins = dict(zip(before, after))
    op = after[number]
    with ir.InsertionPoint(op), op.location:
        places = [twins[owner(p)].results[ir.OpResult(p).result_number] for p in made.place]
        op.results[0].replace_all_uses_with(tensor.extract(own[len(left)], places))
    for old in gone:
        twins[old].erase()
    erase_dead(operations_in(rest))
    return rest, left
