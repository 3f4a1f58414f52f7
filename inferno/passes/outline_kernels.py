"""Outline every group of operations that is one kernel into a private function; ``@main`` becomes the program of calls.

A group is an *anchor*, any operation that computes a tensor, together with what it needs that costs nothing on its own:
constants, ``tensor.empty``, fills and scalar arithmetic, which are cloned into each kernel that uses them.  Reshapes stay
in ``@main``: every tensor is one contiguous buffer, so they are free there.

A kernel function passes destinations: with R results its last R arguments are where they go, in order.
"""

import re

from inferno.errors import PassError
from inferno.mlir import func, ir, linalg, owner, tensor, walk
from inferno.passes.locations import describe

_VIEWS = {"tensor.expand_shape", "tensor.collapse_shape", "tensor.cast"}
_KEPT = _VIEWS | {"tensor.empty", "func.call", "func.return"}
_SCALAR_DIALECTS = ("arith.", "math.", "complex.")


def outline_kernels(module: ir.Module) -> None:
    """Outline the kernels of ``@main``.  Raises PassError for dynamic sizes and for operations that have no tensor form."""
    main = _main(module)
    block = main.regions[0].blocks[0]
    _check_static(main)
    names = _Names(module)
    for op in [o.operation for o in block.operations]:
        if _is_anchor(op):
            _outline(module, main, op, names)
    _erase_dead(block)
    for op in block.operations:
        if op.operation.name not in _KEPT:
            raise PassError(f"outline-kernels: {op.operation.name} is left in @main: {str(op)[:200]}")


def _main(module: ir.Module) -> func.FuncOp:
    for op in module.body.operations:
        if isinstance(op, func.FuncOp) and op.name.value == "main":
            return op
    raise PassError("outline-kernels: the module has no @main")


def _check_static(main: func.FuncOp) -> None:
    for op in walk(main):
        for value in op.results:
            if isinstance(value.type, ir.RankedTensorType) and not value.type.has_static_shape:
                raise PassError(f"outline-kernels: sizes that vary are not supported: {op.name} has the type {value.type}")


def _is_tensor(value: ir.Value) -> bool:
    return isinstance(value.type, ir.RankedTensorType)


def _is_cheap(op: ir.Operation | None) -> bool:
    """Whether an operation is cloned into its users' kernels instead of being one."""
    if op is None or len(op.regions) and op.name != "linalg.fill":
        return False
    if op.name in ("tensor.empty", "linalg.fill", "arith.constant"):
        return True
    if op.name in ("tensor.extract", "tensor.dim") or op.name.startswith(_SCALAR_DIALECTS):
        return not any(_is_tensor(r) for r in op.results)
    return op.name in _VIEWS and _is_cheap(owner(op.operands[0]))


def _is_anchor(op: ir.Operation) -> bool:
    if op.name in _KEPT or not len(op.results):
        return False
    if not _is_cheap(op):
        return True
    # A fill or constant that a view, a call or the return reads is a tensor of its own.
    return op.name in ("linalg.fill", "arith.constant") and _is_tensor(op.results[0]) and any(
        use.owner.operation.name in _VIEWS | {"func.return"} and not _is_absorbed(use.owner.operation) for use in op.results[0].uses
    )


def _is_absorbed(view: ir.Operation) -> bool:
    """Whether all that a view of a fill leads to are kernels, which clone it."""
    return view.name in _VIEWS and all(
        use.owner.operation.name not in _VIEWS | {"func.return"} or _is_absorbed(use.owner.operation) for use in view.results[0].uses
    )


class _Names:
    """Unique symbols made of what a kernel computes."""

    def __init__(self, module: ir.Module) -> None:
        self._taken = {op.name.value for op in module.body.operations if isinstance(op, func.FuncOp)}

    def make(self, anchor: ir.Operation) -> str:
        base = _describe(anchor)[:40].rstrip("_")
        name, count = base, 1
        while name in self._taken:
            name, count = f"{base}_{count}", count + 1
        self._taken.add(name)
        return name


def _describe(anchor: ir.Operation) -> str:
    short = re.sub(r"^(linalg|tensor|tm_tensor|scf|arith)\.", "", anchor.name)
    if anchor.name.startswith("tm_tensor."):
        return f"tm_{short}"
    if anchor.name != "linalg.generic":
        return short
    body = [o.name.split(".")[1] for o in walk(anchor) if o.name not in ("linalg.generic", "linalg.yield", "linalg.index", "arith.constant")]
    body = [n for n in body if n not in ("extf", "truncf", "cmpi", "andi", "cmpf") or len(body) == 1]
    reduces = "reduction" in str(anchor.attributes["iterator_types"])
    if reduces and body[:2] in (["mulf", "addf"], ["muli", "addi"]):
        rest = [n for n in dict.fromkeys(body[2:]) if n != "select" or "maximumf" not in body]
        return "_".join(["matmul", *rest])
    parts = list(dict.fromkeys(body)) or ["copy"]
    return "_".join((["reduce"] if reduces else []) + parts)


def _outline(module: ir.Module, main: func.FuncOp, anchor: ir.Operation, names: _Names) -> None:
    group = _slice(anchor)
    inputs = _captured(group)
    live = [r for r in anchor.results if any(True for _ in r.uses)]
    if not live:
        return
    if any(not _is_tensor(r) for r in live):
        raise PassError(f"outline-kernels: {anchor.name} gives something that is not a tensor: {str(anchor)[:200]}")
    kernel, results = _build(main, names.make(anchor), group, anchor, inputs, live)
    with ir.InsertionPoint(anchor), anchor.location:
        destinations = [tensor.EmptyOp(list(r.type.shape), r.type.element_type).result for r in live]
        call = func.CallOp(kernel, [*inputs, *destinations])
        call.operation.attributes["inferno.source"] = ir.ArrayAttr.get([ir.StringAttr.get(s) for s in describe(anchor.location)])
    for old, new in zip(live, call.results):
        old.replace_all_uses_with(new)
    anchor.erase()


def _slice(anchor: ir.Operation) -> list[ir.Operation]:
    """The anchor and the cheap operations that it needs, in order of definition."""
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> None:
        for value in _operands(op):
            producer = owner(value)
            if _is_cheap(producer) and producer not in found and producer.parent == anchor.parent:
                visit(producer)
        found.append(op)

    visit(anchor)
    return found


def _operands(op: ir.Operation) -> list[ir.Value]:
    """The operands of an operation and of all inside its regions."""
    return [v for o in walk(op) for v in o.operands] if len(op.regions) else list(op.operands)


def _captured(group: list[ir.Operation]) -> list[ir.Value]:
    """The tensors that the group reads and does not make."""
    inside = {r for op in group for o in walk(op) for r in o.results}
    inside |= {a for op in group for o in walk(op) for region in o.regions for b in region.blocks for a in b.arguments}
    found: list[ir.Value] = []
    for op in group:
        for value in _operands(op):
            if value not in inside and value not in found:
                if not _is_tensor(value):
                    raise PassError(f"outline-kernels: a scalar from outside of a kernel: {value}")
                found.append(value)
    return found


def _build(
    main: func.FuncOp, name: str, group: list[ir.Operation], anchor: ir.Operation, inputs: list[ir.Value], live: list[ir.Value],
) -> tuple[func.FuncOp, list[ir.Value]]:
    """The kernel function: the group on arguments, its results computed into the trailing arguments."""
    types = [v.type for v in [*inputs, *live]]
    unknown = ir.Location.unknown(main.context)
    with ir.InsertionPoint(main.operation.parent.regions[0].blocks[0]), unknown:
        kernel = func.FuncOp(name, (types, [r.type for r in live]), visibility="private")
    block = kernel.add_entry_block([unknown] * len(types))
    known = dict(zip(inputs, block.arguments))
    with ir.InsertionPoint(block), unknown:
        for op in group:
            clone = op.clone()
            for o in walk(clone):
                for i, value in enumerate(o.operands):
                    if value in known:
                        o.operands[i] = known[value]
            known.update(zip(op.results, clone.results))
        made = owner(known[live[0]])
        for i, result in enumerate(live):
            _into_destination(made, known[result], block.arguments[len(inputs) + i])
        outputs = [_final(known[r], block.arguments[len(inputs) + i]) for i, r in enumerate(live)]
        func.ReturnOp(outputs)
    _erase_dead(block)
    return kernel, outputs


def _initials(op: ir.Operation) -> list[int]:
    """The numbers of the operands that an operation's results start from (``outs``), one for each result; [] without any."""
    count = len(op.results)
    if op.name.startswith("linalg.") or op.name in ("tm_tensor.scan", "tm_tensor.sort", "tm_tensor.scatter", "tm_tensor.attention", "tm_tensor.topk"):
        return list(range(len(op.operands) - count, len(op.operands)))
    return []


def _into_destination(anchor: ir.Operation, result: ir.Value, destination: ir.Value) -> None:
    """Make an operation with ``outs`` start from the destination instead of from a tensor of its own."""
    initials = _initials(anchor)
    if not initials:
        return
    number = initials[list(anchor.results).index(result)]
    start = anchor.operands[number]
    producer = owner(start)
    with ir.InsertionPoint(anchor):
        if producer is not None and producer.name == "tensor.empty":
            anchor.operands[number] = destination
        elif producer is not None and producer.name == "linalg.fill":
            anchor.operands[number] = linalg.fill(producer.operands[0], outs=[destination])
        else:
            anchor.operands[number] = linalg.copy(start, outs=[destination])


def _final(value: ir.Value, destination: ir.Value) -> ir.Value:
    """The value in its destination: copied, where the operation that makes it cannot be told where to put it."""
    made = owner(value)
    return value if made is not None and _initials(made) else linalg.copy(value, outs=[destination])


def _erase_dead(block: ir.Block) -> None:
    for op in reversed([o.operation for o in block.operations]):
        if op.name not in ("func.return", "func.call") and not any(True for r in op.results for _ in r.uses):
            op.erase()
