"""Why a program did not come from ``torch`` to ``linalg``: the operation, the user's line and the shapes.

MLIR's message is often about a constant next to the culprit.  So each different operation of the program is tried alone, as
a program of one operation: the first that fails is the one.
"""

import re
from collections.abc import Callable, Iterator

from inferno.errors import UnsupportedOperation
from inferno.mlir import func, ir, owner, parse, walk

_HELPERS = ("torch.constant", "torch.prim.ListConstruct", "torch.prim.TupleConstruct", "torch.vtensor.literal")


def explain_failure(text: str, diagnostics: str, lowers: Callable[[str], bool] | None = None) -> UnsupportedOperation:
    """The error for a ``torch`` module that did not lower with ``diagnostics``.

    ``lowers(text)`` says whether a module lowers; it should do so in another process, which the operation may end.
    Without it, an operation that torch-mlir does not know at all (``torch.operator``) is taken, or one that MLIR names.
    """
    module = parse(text)
    operations = [o for o in walk(module) if o.name.startswith("torch.") and not o.name.startswith(_HELPERS)]
    culprit = next((o for o in operations if o.name == "torch.operator"), None)
    if culprit is None and lowers is not None:
        culprit = next((o for o, program in _alone(operations) if not lowers(program)), None)
    if culprit is None:
        named = set(re.findall(r"""['"](torch\.(?!constant|prim)[\w.]+)['"]""", diagnostics))
        culprit = next((o for o in operations if o.name in named), None)
    if culprit is None:
        return UnsupportedOperation(f"the model does not lower to linalg: {_reason(diagnostics)}")
    shapes = ", ".join(_describe(v.type) for v in _tensors(culprit))
    return UnsupportedOperation(f"{_name(culprit)}{_place(culprit.location)} on ({shapes}) is not supported: it has no lowering to linalg")


def _alone(operations: list[ir.Operation]) -> Iterator[tuple[ir.Operation, str]]:
    """The operations with the text of a program that does nothing else; of equal ones the first."""
    seen = set()
    for op in operations:
        if len(op.regions) or not len(op.results) or any(not _is_tensor(r.type) for r in op.results):
            continue
        program = _program_of(op)
        if program not in seen:
            seen.add(program)
            yield op, program


def _program_of(op: ir.Operation) -> str:
    """A module whose ``@main`` is ``op`` alone: its tensors are arguments, its constants and lists are kept."""
    with op.context, ir.Location.unknown():
        module = ir.Module.create()
        tensors = list(_tensors(op))
        types = [v.type for v in tensors], [r.type for r in op.results]
        with ir.InsertionPoint(module.body):
            main = func.FuncOp("main", types)
        block = main.add_entry_block()
        made: dict[ir.Value, ir.Value] = dict(zip(tensors, block.arguments))
        with ir.InsertionPoint(block):
            clone = _clone(op, made)
            func.ReturnOp(list(clone.results))
        return module.operation.get_asm()


def _clone(op: ir.Operation, made: dict[ir.Value, ir.Value]) -> ir.Operation:
    """Clone ``op`` here, and before it what it needs that is no tensor."""
    for value in op.operands:
        if value not in made:
            copy = _clone(owner(value), made)
            made.update(zip(owner(value).results, copy.results))
    copy = op.clone()
    for i, value in enumerate(op.operands):
        copy.operands[i] = made[value]
    return copy


def _tensors(op: ir.Operation) -> Iterator[ir.Value]:
    """The tensors that ``op`` takes, also in lists, each once."""
    seen, todo = set(), list(op.operands)
    while todo:
        value = todo.pop(0)
        if value in seen:
            continue
        seen.add(value)
        if _is_tensor(value.type):
            yield value
        elif (producer := owner(value)) is not None:
            todo = [*producer.operands, *todo]


def _is_tensor(type_: ir.Type) -> bool:
    return str(type_).startswith("!torch.vtensor")


def _name(op: ir.Operation) -> str:
    name = ir.StringAttr(op.attributes["name"]).value if op.name == "torch.operator" else op.name
    return name.removeprefix("torch.")


def _reason(diagnostics: str) -> str:
    lines = [line.strip() for line in diagnostics.splitlines() if line.strip()]
    return next((line for line in lines if "error:" in line), lines[0] if lines else "no reason given")[:500]


def _place(location: ir.Location) -> str:
    match = re.search(r'"([^"]+)":(\d+):\d+', str(location))
    return f" at {match[1]}:{match[2]}" if match else ""


def _describe(type_: ir.Type) -> str:
    match = re.match(r"!torch\.vtensor<(\[[^\]]*\]),?(\w*)", str(type_))
    return f"{match[2]}{match[1].replace(',', ', ')}" if match else str(type_)
