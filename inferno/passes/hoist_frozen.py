"""What depends on frozen arguments alone, or on nothing, becomes a program of its own, ``@prepare``, which runs when they have changed.

A frozen argument is a weight, which changes rarely; a constant never does.  A value that is hoisted is computed once and kept, as a
result of ``@prepare`` and another argument of ``@main``; so it must be worth its memory: it is no larger than what ``@main`` would
read instead, or costs more than reading.  Where nothing is frozen, what is put together of constants is kept, such as a mask that is written part by
part (a kernel for each part); not what is computed of places alone, which its readers do themselves.
"""

from dataclasses import dataclass

from inferno.dialect.random import RANDOM
from inferno.element_sizes import element_bytes
from inferno.mlir import clone_onto, func, ir, is_unread, outside_values, owner
from inferno.passes.expand_pieces import EXPAND
from inferno.passes.fuse_elementwise import is_cheap_body
from inferno.passes.generics import is_elementwise
from inferno.passes.lift_constants import ATTRIBUTE as CONSTANT
from inferno.passes.programs import ARGUMENT, FREEZE, FROZEN, MAIN, PREPARE, PREPARED, programs
from inferno.passes.shapes import argument_attributes
from inferno.symbolic import product

# Bytes of constants that are kept where nothing is frozen: Swin-T's masks take 0.4 MB.
_CONSTANTS = 1 << 24

# What is free where it is read: no kernel, or none that takes time.
_FREE = frozenset({
    "tensor.empty", "tensor.expand_shape", "tensor.collapse_shape", "tensor.cast", "arith.constant", "linalg.fill",
})


@dataclass(frozen=True)
class _Known:
    """A value that no call changes: the ``operations`` that make it, in order, and the arguments that they read."""

    operations: dict[ir.Operation, None]
    arguments: dict[ir.Value, None]

    @property
    def is_free(self) -> bool:
        return all(op.name in _FREE for op in self.operations)

    @property
    def is_costly(self) -> bool:
        """Whether computing it takes more than reading what it is made of."""
        return any(op.name not in _FREE and not (is_elementwise(op) and is_cheap_body(op)) for op in self.operations)

    @property
    def is_put_together(self) -> bool:
        """Whether it takes kernels of its own, wherever it is read."""
        return any(op.name not in _FREE and not is_elementwise(op) for op in self.operations)


def hoist_frozen(module: ir.Module) -> None:
    """Move what is made of frozen arguments and constants, and is worth it, from ``@main`` to ``@prepare``.

    ``inferno.freeze`` on ``@main`` is how many bytes may be kept; what is left of them is put there.
    """
    found = {f.name.value: f for f in programs(module)}
    main = found.get(MAIN)
    if main is not None and PREPARE not in found and (has_frozen(main) or EXPAND in module.operation.attributes):
        _Hoist(main).run()


def known_values(main: func.FuncOp) -> dict[ir.Value, _Known]:
    """The values of ``@main`` that are the same at every call as long as the frozen arguments are."""
    block, entries = main.regions[0].blocks[0], argument_attributes(main.operation)
    given = [a for a, e in zip(block.arguments, entries) if (CONSTANT in e or (FROZEN in e and FREEZE in main.attributes)) and _is_static(a)]
    known = {a: _Known({}, {a: None}) for a in given}
    for op in block.operations:
        op = op.operation
        if not _is_pure(op):
            continue
        operations, arguments = {}, {}
        operands = outside_values(op)
        if all(v in known for v in operands):
            for value in operands:
                operations.update(known[value].operations)
                arguments.update(known[value].arguments)
            found = _Known({**operations, op: None}, arguments)
            known.update((r, found) for r in op.results)
    return known


def has_frozen(main: func.FuncOp) -> bool:
    """Whether arguments of ``@main`` are frozen, and what is made of them may be kept."""
    return FREEZE in main.attributes and any(FROZEN in e for e in argument_attributes(main.operation))


class _Hoist:
    def __init__(self, main: func.FuncOp) -> None:
        self.main = main
        self.block = main.regions[0].blocks[0]
        self.known = known_values(main)
        self.frozen = has_frozen(main)

    def run(self) -> None:
        needed = [op.operation for op in self.block.operations if not all(r in self.known for r in op.operation.results) or not len(op.operation.results)]
        candidates = self._candidates([value for op in needed for value in outside_values(op) if value in self.known])
        # What costs time first, and of that what takes little memory.
        order = sorted(candidates, key=lambda v: (not self.known[v].is_costly, tensor_bytes(v)))
        chosen, left = [], ir.IntegerAttr(self.main.attributes[FREEZE]).value if self.frozen else _CONSTANTS
        for value in order:
            if tensor_bytes(value) <= left:
                chosen.append(value)
                left -= tensor_bytes(value)
        if chosen:
            place = {v: i for i, v in enumerate(candidates)}
            self._move(sorted(chosen, key=place.get))
        if chosen and self.frozen:
            self.main.attributes[FREEZE] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), left)

    def _candidates(self, values: list[ir.Value]) -> dict[ir.Value, None]:
        """Of ``values``, which a call needs, each, or what it is made of as far as that is worth it."""
        found: dict[ir.Value, None] = {}
        pending, seen = values[::-1], set()
        while pending:
            value = pending.pop()
            known = self.known[value]
            if value in seen or known.is_free or not isinstance(value.type, ir.RankedTensorType):
                continue
            seen.add(value)
            read = sum(tensor_bytes(a) for a in known.arguments)
            if (known.is_costly or tensor_bytes(value) <= read) if self.frozen else known.is_put_together:
                found[value] = None
            else:
                pending += reversed(list(outside_values(owner(value))))
        return found

    def _move(self, chosen: list[ir.Value]) -> None:
        operations: dict[ir.Operation, None] = {}
        for value in chosen:
            operations.update(self.known[value].operations)
        arguments = list(dict.fromkeys(a for v in chosen for a in self.known[v].arguments))
        prepare = new_prepare(self.main, arguments, [v.type for v in chosen])
        clones = dict(zip(arguments, prepare.regions[0].blocks[0].arguments))
        with ir.InsertionPoint(prepare.regions[0].blocks[0]):
            for op in [o.operation for o in self.block.operations if o.operation in operations]:
                clone_onto(op, clones)
            with self.main.location:
                func.ReturnOp([clones[v] for v in chosen])
        given = add_prepared(self.main, [v.type for v in chosen], 0)
        for value, argument in zip(chosen, given):
            value.replace_all_uses_with(argument)
        for op in reversed(list(operations)):
            if is_unread(op):
                op.erase()


def new_prepare(main: func.FuncOp, arguments: list[ir.Value], results: list[ir.Type]) -> func.FuncOp:
    """An empty ``@prepare`` behind ``@main``, which takes these arguments of it."""
    place = ir.InsertionPoint(main.operation)
    with place, main.location:
        prepare = func.FuncOp(PREPARE, ([a.type for a in arguments], results))
        prepare.operation.move_after(main.operation)
        prepare.add_entry_block()
        prepare.attributes["arg_attrs"] = ir.ArrayAttr.get([_entry(main, a) for a in arguments])
    return prepare


def add_argument(prepare: func.FuncOp, main: func.FuncOp, argument: ir.Value) -> ir.Value:
    """The argument of ``@prepare`` that is this one of ``@main``, a new one if there is none yet."""
    block, entry = prepare.regions[0].blocks[0], _entry(main, argument)
    entries = argument_attributes(prepare.operation)
    for known, given in zip(block.arguments, entries):
        if given[ARGUMENT] == entry[ARGUMENT]:
            return known
    new = block.add_argument(argument.type, main.location)
    prepare.attributes["arg_attrs"] = ir.ArrayAttr.get([*entries, entry])
    inputs = [a.type for a in block.arguments]
    prepare.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, list(prepare.type.results)))
    return new


def _entry(main: func.FuncOp, argument: ir.Value) -> ir.DictAttr:
    """What ``@prepare`` says of an argument of ``@main``: its number among those that a call gets, its name and kind."""
    entries = argument_attributes(main.operation)
    number = argument.arg_number
    before = list(zip(main.regions[0].blocks[0].arguments, entries))[:number]
    given = sum(isinstance(a.type, ir.RankedTensorType) and RANDOM not in e for a, e in before)
    kept = {name: entries[number][name] for name in ("inferno.name", "inferno.kind") if name in entries[number]}
    return ir.DictAttr.get({**kept, ARGUMENT: ir.IntegerAttr.get(ir.IntegerType.get_signless(64), given)})


def add_prepared(main: func.FuncOp, types: list[ir.Type], first: int) -> list[ir.Value]:
    """More arguments of ``@main``: the results of ``@prepare`` from number ``first`` on."""
    block = main.regions[0].blocks[0]
    entries = argument_attributes(main.operation)
    with main.context:
        i64 = ir.IntegerType.get_signless(64)
        for i, type_ in enumerate(types, first):
            block.add_argument(type_, main.location)
            name = ir.StringAttr.get(f"prepared {i}")
            entries.append(ir.DictAttr.get({PREPARED: ir.IntegerAttr.get(i64, i), "inferno.name": name, "inferno.kind": ir.StringAttr.get("prepared")}))
        arguments = list(block.arguments)
        results = list(main.type.results)
        main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([a.type for a in arguments], results))
        main.attributes["arg_attrs"] = ir.ArrayAttr.get(entries)
    return arguments[len(arguments) - len(types):]


def _is_pure(op: ir.Operation) -> bool:
    """Whether an operation only computes tensors, or scalars, of sizes that are known."""
    if not len(op.results) or op.name.startswith("func.") or not all(_is_static(r) for r in op.results):
        return False
    return op.name.startswith(("linalg.", "tensor.", "arith.", "math.", "complex.", "tm_tensor.", "index."))


def _is_static(value: ir.Value) -> bool:
    type_ = value.type
    return type_.has_static_shape if isinstance(type_, ir.RankedTensorType) else not isinstance(type_, ir.ShapedType)


def tensor_bytes(value: ir.Value) -> int:
    """Bytes that a tensor of known sizes takes."""
    type_ = value.type
    if not isinstance(type_, ir.RankedTensorType):
        return 0
    return product(type_.shape) * element_bytes(type_.element_type)
