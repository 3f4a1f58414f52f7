"""Merge kernels that were generated one by one into one kernel, an *arm* each: a range of its blocks runs each of them.

The one that is launched branches on the block's number: an arm is the body of one of them, which sees its blocks counted from 0.  Parts that
are equal are one arm; which tensors it works on its block's number says.  Whatever a block has is as large as the largest arm needs.
Where how many blocks a part has varies, the ends of ranges are parameters, which the call computes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate
from math import prod
from typing import Any

from inferno.codegen.builders.conditions import if_else
from inferno.codegen.builders.integers import Integer
from inferno.codegen.builders.launcher import launch, launcher, scalar
from inferno.codegen.builders.launcher import size as sized
from inferno.codegen.nvvm.builder import Words, special_register
from inferno.dialect import AT_CALL
from inferno.errors import CompileError
from inferno.mlir import arith, clone_onto, func, gpu, ir, owner, terminator, walk
from inferno.passes.programs import anonymous, operations_in
from inferno.passes.shapes import known_size, symbol_arguments
from inferno.schedule.analysis.kernel_parts import extract, parts_of
from inferno.size_forms import substitute
from inferno.symbolic import Int

_REGISTERS = 65536  # of a multiprocessor
_PARAMETER_BYTES = 4096
"""Of a launch; CUDA takes more on some GPUs, with some drivers."""
_KEPT = {
    "llvm.func": ("gpu.kernel", "nvvm.kernel", "nvvm.reqntid", "nvvm.minctasm", "nvvm.cluster_dim"),
    "gpu.func": ("known_block_size", "nvvm.minctasm"),
}
# What counts blocks: an arm gets numbers from 0.
_BLOCK, _CLUSTER = "nvvm.read.ptx.sreg.ctaid.x", "nvvm.read.ptx.sreg.clusterid.x"
_COUNTS = ("nvvm.read.ptx.sreg.nctaid.x", "nvvm.read.ptx.sreg.nclusterid.x", "gpu.grid_dim")


def members_of(kernel: func.FuncOp, schedules: Sequence[Any], generate: Callable[[int, func.FuncOp], int | None]) -> list["Member"]:
    """The kernel's independent parts, generated: ``generate(number, part)`` has the part made by its generator, and gives what ``Arm.most`` is.
    Parts that are equal and have equal ``schedules`` are one arm.  CompileError where there are not as many parts as schedules."""
    name, groups = kernel.name.value, parts_of(kernel)
    if len(groups) != len(schedules):
        raise CompileError(f"@{name} has {len(groups)} independent parts, and its schedule is for {len(schedules)}")
    arms: dict[tuple[str, Any], Arm] = {}
    members = []
    for i, (group, schedule) in enumerate(zip(groups, schedules)):
        with ir.InsertionPoint(kernel.operation), kernel.location:
            part, numbers = extract(kernel, group, f"{name}_arm{i}")
        key = anonymous(part), schedule
        if key in arms:
            part.operation.erase()
        else:
            most = generate(i, part)
            arms[key] = Arm.find(kernel, f"{name}_arm{i}", most)
        members.append(Member(arms[key], numbers))
    return members


def merge(kernel: func.FuncOp, members: Sequence["Member"]) -> None:
    """Make one kernel of the members' arms, and ``kernel`` its launcher.  CompileError where their blocks are of different sizes."""
    name, made = kernel.name.value, list(dict.fromkeys(m.arm for m in members))
    if any((a.block, a.cluster) != (made[0].block, made[0].cluster) for a in made):
        raise CompileError(f"@{name}: its parts have blocks of different sizes")
    _raise_registers(made)
    with launcher(kernel) as arguments:
        parameters = _Parameters()
        for member in members:
            member.take(arguments, parameters)
        ends = [(e, None if isinstance(e, int) else parameters.add(scalar(sized(e)), ir.IndexType.get(), "")) for e in accumulate(m.blocks for m in members)]
        grid = ends[-1][0]
        launch(f"{name}_gpu", name, parameters.values, (grid, 1, 1), made[0].block, made[0].cluster, max(a.shared for a in made))
    _merge(name, members, parameters, ends)


@dataclass(eq=False)
class Arm:
    """A generated part: its launcher, the module of its code, and the kernel in it.  ``most``: its blocks where they walk over tiles, of
    which there may be fewer."""

    launcher: func.FuncOp
    module: ir.Operation
    kernel: ir.Operation
    start: ir.Operation
    most: int | None

    @staticmethod
    def find(kernel: func.FuncOp, name: str, most: int | None) -> "Arm":
        """What a generator made of the part ``name``, next to the kernel function."""
        symbols = {ir.StringAttr(o.attributes["sym_name"]).value: o for o in kernel.operation.block.operations if "sym_name" in o.attributes}
        starter, module = symbols[name], symbols[f"{name}_gpu"].operation
        starts = [o for o in operations_in(starter) if o.name in ("inferno.launch", "inferno.library")]
        kernels = [o.operation for o in module.regions[0].blocks[0].operations if o.operation.name in ("llvm.func", "gpu.func")]
        if len(starts) != 1 or len(kernels) != 1 or starts[0].name != "inferno.launch":
            raise CompileError(f"@{name} is {len(starts)} launches, of {len(kernels)} kernels that can be arms of one")
        return Arm(starter, module, kernels[0], starts[0], most)

    @property
    def block(self) -> list[int]:
        return _numbers(self.start, "block")

    @property
    def cluster(self) -> list[int]:
        return _numbers(self.start, "cluster")

    @property
    def blocks(self) -> Int:
        """Of its sizes, where their number varies."""
        count, *others = _numbers(self.start, "grid")
        if count == AT_CALL and self.most is not None:
            count = self.most
        elif count == AT_CALL and others == [1, 1] and self.kernel.name == "gpu.func":
            return known_size(owner(list(self.start.operands)[-1]).operands[0])
        if count < 1 or others != [1, 1]:
            raise CompileError(f"@{self.launcher.name.value} has a grid of {[count, *others]}; one of a known number of blocks is needed")
        return count

    @property
    def given(self) -> list[ir.Value]:
        """The kernel's parameters in the launcher."""
        operands = list(self.start.operands)
        return operands[: len(operands) - _numbers(self.start, "grid").count(AT_CALL)]

    @property
    def arrays(self) -> list[ir.Type]:
        """The types of its arrays in shared memory, beside what is given at the launch."""
        return [a.type for a in list(self.kernel.regions[0].blocks[0].arguments)[len(self.given):]]

    @property
    def shared(self) -> int:
        return ir.IntegerAttr(self.start.attributes["shared"]).value


class _Parameters:
    """The parameters of the one kernel, each once, and where their types' attributes stand."""

    def __init__(self) -> None:
        self.values: list[ir.Value] = []
        self.kinds: list[tuple[ir.Type, str]] = []
        self._numbers: dict[str, int] = {}

    def add(self, value: ir.Value, type_: ir.Type, attributes: str) -> int:
        """The number of a parameter that is made by an operation on buffers: an equal one, if there is one."""
        made = value.owner.operation
        operands = " ".join(str(_identity(v)) for v in made.operands)
        key = f"{type_} {attributes} {made.name} {operands} {sorted((n, str(made.attributes[n])) for n in made.attributes)}"
        if key in self._numbers:
            made.erase()
        else:
            self._numbers[key] = len(self.values)
            self.values.append(value)
            self.kinds.append((type_, attributes))
        return self._numbers[key]


def _identity(value: ir.Value) -> str:
    return f"argument {value.arg_number}" if isinstance(value, ir.BlockArgument) else str(value)


@dataclass(eq=False)
class Member:
    """One part: its arm, and which of the kernel function's arguments it works on; then which of the kernel's parameters, and its blocks."""

    arm: Arm
    numbers: Sequence[int]
    parameters: Sequence[int] = ()
    blocks: Int = 0

    def take(self, arguments: Sequence[ir.Value], parameters: _Parameters) -> None:
        """The launcher's operations but the launch, on these arguments, at the insertion point."""
        arm = self.arm
        known: dict[ir.Value, ir.Value] = dict(zip(arm.launcher.entry_block.arguments, (arguments[n] for n in self.numbers)))
        for op in arm.launcher.entry_block.operations:
            if op.operation not in (arm.start, terminator(arm.launcher.entry_block)):
                clone_onto(op.operation, known)
        for size in list(arm.start.operands)[len(arm.given):]:  # of the grid
            known[size].owner.erase()
        attributes = [str(a) for a in arm.kernel.attributes["arg_attrs"]] if "arg_attrs" in arm.kernel.attributes else []
        block = arm.kernel.regions[0].blocks[0]
        self.parameters = [
            parameters.add(known[v], a.type, attributes[i] if attributes else "")
            for i, (v, a) in enumerate(zip(arm.given, block.arguments))
        ]
        own = symbol_arguments(arm.launcher.operation)
        self.blocks = substitute(arm.blocks, {s: known_size(arguments[self.numbers[v.arg_number]]) for s, v in own.items()})


def _raise_registers(arms: Sequence[Arm]) -> None:
    """Let no arm ask for fewer registers than its threads start with, which is an illegal instruction: those are as many as any arm asks
    for, or fewer where the threads of a block cannot all have them."""
    grown = {
        op: ir.IntegerAttr(op.attributes["regCount"]).value
        for arm in arms for op in walk(arm.kernel, "nvvm.setmaxregister") if "increase" in str(op.attributes["action"])
    }
    start = min(max(grown.values(), default=0), _REGISTERS // prod(arms[0].block) // 8 * 8)
    for op, count in grown.items():
        op.attributes["regCount"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), max(count, start))


def _merge(name: str, members: Sequence[Member], parameters: _Parameters, ends: Sequence[tuple[Int, int | None]]) -> None:
    """The one kernel, in the first arm's module; the others' code goes.  ``ends`` of the members' blocks, with the parameters that say those that vary."""
    arms = list(dict.fromkeys(m.arm for m in members))
    first = arms[0]
    size = sum(128 if "byval" in attributes else 8 for _, attributes in parameters.kinds)
    if size > _PARAMETER_BYTES:
        raise CompileError(f"@{name} has {size} bytes of parameters; a launch has {_PARAMETER_BYTES}")
    function = _function(first.module, name, [a.kernel for a in arms], parameters, _arrays(arms))
    block = function.regions[0].blocks[0]
    with ir.InsertionPoint.at_block_terminator(block), first.kernel.location:
        values, words = list(block.arguments), Words()
        number = special_register("ctaid.x") if function.name == "llvm.func" else words.narrow(gpu.block_id(gpu.Dimension.x))
        at = [0, *(end if place is None else words.narrow(values[place]) for end, place in ends)]
        _Arms(values[:len(parameters.kinds)], values[len(parameters.kinds):], number, list(zip(at, at[1:], members))).emit(arms)
    held = {ir.StringAttr(o.operation.attributes["sym_name"]).value for o in first.module.regions[0].blocks[0].operations}
    for arm in arms:
        for op in [o.operation for o in arm.module.regions[0].blocks[0].operations if o.operation.name == "llvm.mlir.global"]:
            if (symbol := ir.StringAttr(op.attributes["sym_name"]).value) not in held:  # dynamic shared memory by a generator's own name
                held.add(symbol)
                ir.InsertionPoint.at_block_begin(first.module.regions[0].blocks[0]).insert(op.detach_from_parent())
        arm.kernel.erase()
        arm.launcher.operation.erase()
        if arm is not first:
            arm.module.erase()
    first.module.attributes["sym_name"] = ir.StringAttr.get(f"{name}_gpu")


def _arrays(arms: Sequence[Arm]) -> list[ir.Type]:
    """The arrays in shared memory that the arms have in common."""
    found: list[ir.Type] = []
    for arm in arms:
        left = list(found)
        for type_ in arm.arrays:
            if type_ in left:
                left.remove(type_)
            else:
                found.append(type_)
    return found


def _function(
    module: ir.Operation, name: str, kernels: Sequence[ir.Operation], parameters: _Parameters, arrays: Sequence[ir.Type],
) -> ir.Operation:
    """An empty kernel in ``module`` with these parameters and arrays, and what else is said of all ``kernels``."""
    like = kernels[0]
    inside = ", ".join(f"%a{i}: {type_} {attributes}" for i, (type_, attributes) in enumerate(parameters.kinds))
    kept = ", ".join(
        f"{n}{'' if isinstance(v := like.attributes[n], ir.UnitAttr) else f' = {v}'}" for n in like.attributes
        if n in _KEPT[like.name] and all(n in k.attributes and k.attributes[n] == like.attributes[n] for k in kernels)
    )
    if like.name == "llvm.func":
        text = f'llvm.func @"{name}"({inside}) attributes {{{kept}}} {{ llvm.return }}'
    else:
        held = ", ".join(f"%s{i} : {type_} {{llvm.align = 16 : i64}}" for i, type_ in enumerate(arrays))
        text = f'gpu.func @"{name}"({inside}) {f"workgroup({held})" if arrays else ""} kernel attributes {{{kept}}} {{ gpu.return }}'
    shell = ir.Module.parse(f"gpu.module @shell {{ {text} }}", like.context)
    function = shell.body.operations[0].regions[0].blocks[0].operations[0].operation.detach_from_parent()
    module.regions[0].blocks[0].append(function)
    return function


@dataclass(frozen=True)
class _Arms:
    """The body of the one kernel: ``members`` with the number of their first block, and of the one behind their last."""

    parameters: list[ir.Value]
    arrays: list[ir.Value]
    block: ir.Value
    members: list[tuple[Integer, Integer, Member]]

    def emit(self, arms: Sequence[Arm]) -> None:
        """Branch to one of these arms."""
        if len(arms) == 1:
            self._arm(arms[0])
            return
        words, (arm, *others) = Words(), arms
        own = [words.less(words.sub(self.block, begin), words.sub(end, begin)) for begin, end, m in self.members if m.arm is arm]
        if_else(reduce(arith.ori, own), [], lambda: self.emit([arm]), lambda: self.emit(others))

    def _arm(self, arm: Arm) -> None:
        words, mine = Words(), [(begin, m) for begin, _, m in self.members if m.arm is arm]
        begin, values = words.value(mine[0][0]), [self.parameters[p] for p in mine[0][1].parameters]
        for other, member in mine[1:]:  # from the last range whose first block is not behind this one
            here = words.at_least(self.block, other)
            begin = words.select(here, other, begin)
            others = [self.parameters[p] for p in member.parameters]
            values = [v if v == o else arith.select(here, o, v) for v, o in zip(values, others)]
        body = arm.kernel.regions[0].blocks[0]
        known: dict[ir.Value, ir.Value] = dict(zip(body.arguments, [*values, *self._own(arm)]))
        *operations, _ = body.operations
        made = [clone_onto(op.operation, known) for op in operations]
        blocks = arm.cluster[0]
        for op in [o for m in made for o in walk(m)]:
            if op.name in _COUNTS:
                raise CompileError(f"@{arm.launcher.name.value} asks for the number of blocks")
            if op.name in (_BLOCK, _CLUSTER, "gpu.block_id"):
                with ir.InsertionPoint.after(op), op.location:
                    first = begin if op.name != _CLUSTER or blocks == 1 else words.div(begin, blocks)
                    if op.name == "gpu.block_id":
                        first = words.index(first)
                    counted = arith.subi(op.results[0], first)
                op.results[0].replace_all_uses_except(counted, counted.owner.operation)

    def _own(self, arm: Arm) -> list[ir.Value]:
        """The arm's arrays in shared memory: some of all."""
        left, own = list(self.arrays), []
        for type_ in arm.arrays:
            own.append(next(v for v in left if v.type == type_))
            left.remove(own[-1])
        return own


def _numbers(op: ir.Operation, name: str) -> list[int]:
    return [ir.IntegerAttr(a).value for a in op.attributes[name]]
