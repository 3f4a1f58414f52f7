"""On a GPU, let kernels write their results where a concatenation has them: along its outermost dimension a piece is memory that lies together.

``torch.stack`` of what layers give, ``torch.cat`` of two halves of a batch: one kernel for each piece, and one that copies them side by side.  Where a piece
is all of what another kernel has made, and nothing needs that to be elsewhere, it is inserted into the concatenation in ``@main`` (``tensor.insert_slice``), by
which ``plan-launches`` knows that it lies there from the beginning.  What the kernel of the concatenation computes or copies beside is a map for each such
piece, which is inserted as well.
"""

from dataclasses import dataclass, field
from math import prod

from inferno.element_sizes import element_bytes
from inferno.errors import PassError
from inferno.mlir import clone_onto, erase_dead, func, ir, is_read, owner, tensor, walk
from inferno.passes.generics import body, inputs, is_elementwise, maps, use_count, yielded
from inferno.passes.programs import callee, operations_in, readers, root_of
from inferno.passes.shapes import reassociation_attribute, row_major
from inferno.schedule.analysis.accesses import placed
from inferno.schedule.assign import choose
from inferno.schedule.attributes import ATTRIBUTE, from_attribute, to_attribute
from inferno.schedule.analysis.cost import KERNEL_RATE, KERNEL_TIME, tensor_bytes
from inferno.schedule.maps.elementwise import Elementwise
from inferno.schedule.passes.calls import generics_of, inputs_of, new_kernel, tell_sources
from inferno.schedule.passes.rewrite import Rewrite, rewrite_calls
from inferno.schedule.passes.stacked import Stack, case_of, stack_of
from inferno.target import find_target

_ALIGNED = 128  # bytes: a line, of which no two kernels write parts


def place_results(module: ir.Module, target: str) -> None:
    """Rewrite ``@main`` and its kernels; nothing for targets other than GPUs."""
    machine = find_target(target)
    if machine.kind == "nvptx":
        _Program.rewrite(module, machine)


@dataclass(frozen=True)
class _Concatenation:
    """What a kernel puts together: for each piece the number of the argument that it is all of, None where it is computed."""

    stack: Stack
    pieces: tuple[int | None, ...]


@dataclass
class _Program(Rewrite):
    """``made``: the kernels of pieces, with the numbers of the arguments that they take, by the kernel that makes all of them and their number."""

    known: dict[str, _Concatenation | None] = field(default_factory=dict)
    made: dict[tuple[str, int], tuple[func.FuncOp, tuple[int, ...]] | None] = field(default_factory=dict)
    placed: set[ir.Value] = field(default_factory=set)  # what has been inserted

    def run(self) -> bool:
        """Whether anything was changed."""
        return rewrite_calls(self.main, self.place) or any(self.made.values())

    def place(self, call: ir.Operation) -> bool:
        """Insert the pieces of a concatenation in the place of its call, if that pays; whether it was done."""
        name = callee(call)
        if name not in self.known:
            self.known[name] = _read(self.kernels.get(name))
        found = self.known[name]
        whole = call.operands[len(call.operands) - 1]
        if found is None or owner(whole) is None or owner(whole).name != "tensor.empty" or use_count(whole) != 1:
            return False
        pieces = {n: call.operands[p] for n, p in enumerate(found.pieces) if p is not None and self.may_lie_there(call.operands[p], call)}
        if len({root_of(v) for v in pieces.values()}) < len(pieces) or not _pays(found, list(pieces.values())):
            return False
        computed = [self.piece(name, found.stack, n) if n not in pieces else None for n in range(found.stack.count)]
        if any(made is None and n not in pieces for n, made in enumerate(computed)):
            return False
        with ir.InsertionPoint(call), call.location:
            result = whole
            for number, made in enumerate(computed):
                value = pieces[number] if made is None else _computed(call, *made)
                result = found.stack.insert(_reshaped(value, found.stack.box_of(number)), result, number)
                self.placed.add(root_of(value))
        call.results[0].replace_all_uses_with(result)
        call.erase()
        return True

    def may_lie_there(self, value: ir.Value, reader: ir.Operation) -> bool:
        """Whether what an operand of a concatenation is may lie in that: a kernel's own memory, which no other one begins to change, or leaves to another."""
        root = root_of(value)
        made = owner(root)
        if made is None or made.name != "func.call" or root in self.placed or self.copies(made):
            return False
        out = made.operands[len(made.operands) - len(made.results) + list(made.results).index(root)]
        if owner(out) is None or owner(out).name != "tensor.empty" or use_count(out) != 1:
            return False
        return all(u == reader or (u.name == "func.call" and not self.copies(u) and not self.writes_to(u, root)) for u in readers(root))

    def copies(self, call: ir.Operation) -> bool:
        """Whether a call is of a kernel that copies a tensor as it is, which might be left out."""
        return callee(call) not in self.kernels or bool(walk(self.kernels[callee(call)], "linalg.copy"))

    @staticmethod
    def writes_to(call: ir.Operation, root: ir.Value) -> bool:
        """Whether a call has a value as a destination."""
        return any(root_of(v) == root for v in list(call.operands)[len(inputs_of(call)):])

    def piece(self, name: str, stack: Stack, number: int) -> tuple[func.FuncOp, tuple[int, ...]] | None:
        """A kernel that computes one piece; None where no generator takes it."""
        if (name, number) not in self.made:
            made, case = _piece(self.module, self.kernels[name], stack, number)
            taken = self.scheduled(made) if case is not None else None
            if taken is None:
                made.operation.erase()
            else:
                self.kernels[made.name.value] = made
            self.made[name, number] = (made, taken) if taken is not None else None
        return self.made[name, number]

    def scheduled(self, kernel: func.FuncOp) -> tuple[int, ...] | None:
        """Give a kernel its schedule, and leave it the arguments that it reads, whose numbers are returned; None where no generator takes it."""
        erase_dead(operations_in(kernel)[:-1])
        count = len(kernel.entry_block.arguments) - 1
        taken = tuple(n for n in range(count) if is_read(kernel.entry_block.arguments[n]))
        for number in reversed(range(count)):
            if number not in taken:
                kernel.entry_block.erase_argument(number)
        type_ = ir.FunctionType.get([a.type for a in kernel.entry_block.arguments], kernel.type.results)
        kernel.attributes["function_type"] = ir.TypeAttr.get(type_)
        try:
            kernel.attributes[ATTRIBUTE] = to_attribute(choose(kernel, self.target))
        except PassError:
            return None
        return taken


# What a kernel puts together.


def _read(kernel: func.FuncOp | None) -> _Concatenation | None:
    """None where it does anything else, or pieces do not lie together."""
    generics = generics_of(kernel) if kernel is not None and ATTRIBUTE in kernel.attributes else []
    if len(generics) != 1 or not isinstance(from_attribute(kernel.attributes[ATTRIBUTE]), Elementwise):
        return None
    (generic,) = generics
    if len(generic.results) != 1 or not is_elementwise(generic) or not maps(generic)[-1].is_permutation:
        return None
    stack = stack_of(generic)
    if stack is None or stack.inner or any(n != 1 for n in stack.shape[:stack.dim]):
        return None
    line = prod(stack.shape[stack.dim + 1:]) * element_bytes(generic.results[0].type.element_type)
    if any(b * line % _ALIGNED for b in stack.begins):
        return None
    pieces = []
    for number in range(stack.count):
        made, case = _piece(kernel.operation.parent, kernel, stack, number)
        pieces.append(_whole_argument(made, case, stack.box_of(number)) if case is not None else None)
        made.operation.erase()
    return _Concatenation(stack, tuple(pieces)) if set(pieces) != {None} else None


def _piece(module: ir.Module, kernel: func.FuncOp, stack: Stack, number: int) -> tuple[func.FuncOp, ir.Operation | None]:
    """A kernel of the same arguments with one piece as its result, and its map; None in the place of that where a choice would be left open."""
    arguments = list(kernel.entry_block.arguments)
    type_ = ir.RankedTensorType.get(stack.box_of(number), kernel.type.results[0].element_type)
    made = new_kernel(module, kernel, kernel.name.value, [a.type for a in arguments[:-1]], [type_])
    known = dict(zip(arguments, list(made.entry_block.arguments)[:-1]))
    with ir.InsertionPoint(made.entry_block), kernel.location:
        for op in operations_in(kernel)[:-1]:
            clone_onto(op, known)
        generic = owner(known[generics_of(kernel)[0].results[0]])
        out = made.entry_block.arguments[len(arguments) - 1]
        case = case_of(generic, stack, number, out)
        generic.erase()
        func.ReturnOp([case.results[0] if case is not None else out])
    return made, case


def _whole_argument(kernel: func.FuncOp, case: ir.Operation, box: tuple[int, ...]) -> int | None:
    """The number of the argument that a map gives back as it is."""
    if len(inputs(case)) != 1 or yielded(case) != [body(case).arguments[0]]:
        return None
    at = placed(kernel, inputs(case)[0], maps(case)[0])
    plain = at is not None and at.offset == 0 and at.strides == row_major(box) and prod(at.shape) == prod(box)
    return at.argument if plain else None


def _pays(found: _Concatenation, placed: list[ir.Value]) -> bool:
    """Whether what is not read and written again takes longer than the launches that come to it."""
    moved = 2 * sum(tensor_bytes(v.type) for v in placed)
    return bool(placed) and moved / KERNEL_RATE > (found.stack.count - len(placed) - 1) * KERNEL_TIME


def _computed(call: ir.Operation, kernel: func.FuncOp, taken: tuple[int, ...]) -> ir.Value:
    """What a kernel computes of some of the operands of a call, at the insertion point."""
    type_ = kernel.type.results[0]
    out = tensor.EmptyOp(list(type_.shape), type_.element_type).result
    new = func.CallOp(kernel, [*(call.operands[n] for n in taken), out]).operation
    tell_sources(new, [call])
    return new.results[0]


def _reshaped(value: ir.Value, shape: tuple[int, ...]) -> ir.Value:
    """A tensor of as many elements in another shape, at the insertion point."""
    if list(value.type.shape) == list(shape):
        return value
    element = value.type.element_type
    if value.type.rank > 1:
        flat = ir.RankedTensorType.get([prod(shape)], element)
        value = tensor.CollapseShapeOp(flat, value, reassociation_attribute([range(value.type.rank)])).result
    if len(shape) == 1:
        return value
    type_ = ir.RankedTensorType.get(shape, element)
    return tensor.ExpandShapeOp(type_, value, reassociation_attribute([range(len(shape))]), [], list(shape)).result
