"""Outline every group of operations that is one kernel into a private function; ``@main`` becomes the program of calls.

A group is an *anchor*, any operation that computes a tensor, together with what it needs that costs nothing on its own:
constants, ``tensor.empty``, fills and scalar arithmetic, which are cloned into each kernel that uses them.  Reshapes stay
in ``@main``: every tensor is one contiguous buffer, so they are free there.

A kernel function passes destinations: with R results its last R arguments are where they go, in order.  An operation that
has ``outs`` computes into the destination; the value of any other is copied there, which generators turn around.
Kernel functions carry no locations, so that equal kernels are equal text; the calls say where they come from.
"""

from dataclasses import dataclass

from inferno.errors import PassError
from inferno.mlir import PassManager, arith, func, ir, linalg, owner, tensor, users, walk
from inferno.passes.kernel_names import Names
from inferno.passes.locations import describe

_VIEWS = {"tensor.expand_shape", "tensor.collapse_shape", "tensor.cast"}
_KEPT = _VIEWS | {"tensor.empty", "func.call", "func.return"}
_STARTS = {"tensor.empty", "linalg.fill", "arith.constant"}
_SCALAR_DIALECTS = ("arith.", "math.", "complex.", "index.")
# Operations without ``outs`` that change a part of a tensor: the number of the operand that they change.
_UPDATES = {"tensor.insert_slice": 1, "tensor.insert": 1, "tensor.scatter": 1}


@dataclass(frozen=True)
class _Group:
    """The operations of one kernel in order, the anchor last; ``inputs`` are the tensors that they take from ``@main``,
    ``live`` the anchor's results that are used."""

    operations: list[ir.Operation]
    inputs: list[ir.Value]
    live: list[ir.Value]

    @property
    def anchor(self) -> ir.Operation:
        return self.operations[-1]


def outline_kernels(module: ir.Module) -> None:
    """Outline the kernels of ``@main``.  Raises PassError for dynamic sizes and for operations that have no tensor form."""
    main = next((op for op in module.body.operations if isinstance(op, func.FuncOp) and op.name.value == "main"), None)
    if main is None:
        raise PassError("outline-kernels: the module has no @main")
    if len(main.regions[0].blocks) != 1:
        raise PassError("outline-kernels: @main has branches")
    _check_static(main)
    block = main.regions[0].blocks[0]
    _erase_dead(block)
    names = Names(module)
    for op in [o.operation for o in block.operations]:
        if _is_anchor(op):
            _outline(main, op, names)
    _erase_dead(block)
    for op in block.operations:
        if op.operation.name not in _KEPT:
            raise PassError(f"outline-kernels: {op.operation.name} cannot be part of a kernel: {str(op)[:200]}")


def _check_static(main: func.FuncOp) -> None:
    values = [*main.regions[0].blocks[0].arguments, *(r for op in walk(main) for r in op.results)]
    for value in values:
        if isinstance(value.type, ir.ShapedType) and not (value.type.has_rank and value.type.has_static_shape):
            raise PassError(f"outline-kernels: dynamic sizes are not supported yet: {value.type}")


def _is_tensor(value: ir.Value) -> bool:
    return isinstance(value.type, ir.RankedTensorType)


def _is_cheap(op: ir.Operation | None) -> bool:
    """Whether an operation is cloned into its users' kernels instead of being one."""
    if op is None or not len(op.results):
        return False
    if op.name in _STARTS:
        return True
    if op.name in _VIEWS:
        return _is_cheap(owner(op.operands[0]))
    return op.name.startswith((*_SCALAR_DIALECTS, "tensor.extract", "tensor.dim")) and not any(_is_tensor(r) for r in op.results)


def _is_anchor(op: ir.Operation) -> bool:
    if op.name in _KEPT or not len(op.results):
        return False
    return not _is_cheap(op) or (_is_tensor(op.results[0]) and any(_needs_memory(user) for user in users(op.results[0])))


def _needs_memory(user: ir.Operation) -> bool:
    """Whether a fill or constant that ``user`` uses has to be in memory: it is returned, as it is or reshaped."""
    if user.name in ("func.return", "func.call"):
        return True
    return user.name in _VIEWS and any(_needs_memory(next_) for next_ in users(user.results[0]))


def _outline(main: func.FuncOp, anchor: ir.Operation, names: Names) -> None:
    live = [r for r in anchor.results if any(True for _ in r.uses)]
    if not live:
        return
    _forget_unread(anchor)
    operations = _slice(anchor)
    group = _Group(operations, _captured(operations), live)
    kernel = _build(main, names.make(anchor), group)
    types = list(kernel.type.results)
    cheap = _is_cheap(anchor)
    with ir.InsertionPoint(anchor), anchor.location:
        destinations = [tensor.EmptyOp(list(t.shape), t.element_type).result for t in types]
        call = func.CallOp(kernel, [*group.inputs, *destinations])
        call.operation.attributes["inferno.source"] = ir.ArrayAttr.get([ir.StringAttr.get(s) for s in describe(anchor.location)])
        new = [result if _is_tensor(old) else _unpack(result, old.type) for old, result in zip(live, call.results, strict=True)]
    for old, value in zip(live, new, strict=True):
        if not cheap:
            old.replace_all_uses_with(value)
            continue
        for user in list(users(old)):  # the others still clone it
            if _needs_memory(user):
                user.replace_uses_of_with(old, value)
    if not cheap:
        anchor.erase()


def _forget_unread(anchor: ir.Operation) -> None:
    """Let ``outs`` that the anchor does not read be new tensors: what they were is no input."""
    if not anchor.name.startswith("linalg.") or len(anchor.regions) != 1:
        return
    arguments = anchor.regions[0].blocks[0].arguments
    if len(arguments) != len(anchor.operands):
        return
    for number in range(len(anchor.operands) - len(anchor.results), len(anchor.operands)):
        value = anchor.operands[number]
        if not any(True for _ in arguments[number].uses):
            with ir.InsertionPoint(anchor), anchor.location:
                anchor.operands[number] = tensor.EmptyOp(list(value.type.shape), value.type.element_type).result


def _unpack(result: ir.Value, type_: ir.Type) -> ir.Value:
    """The scalar that a kernel computed: read where it is used, inside of other kernels."""
    value = tensor.ExtractOp(result, []).result
    return value if value.type == type_ else arith.index_cast(type_, value)


def _slice(anchor: ir.Operation) -> list[ir.Operation]:
    """The cheap operations that ``anchor`` needs, in order of definition, and the anchor."""
    found: dict[ir.Operation, None] = {}

    def visit(op: ir.Operation) -> None:
        for value in _operands(op):
            producer = owner(value)
            if producer not in found and _is_cheap(producer) and producer.block == anchor.block:
                visit(producer)
        found[op] = None

    visit(anchor)
    return list(found)


def _operands(op: ir.Operation) -> list[ir.Value]:
    """The operands of an operation and of all inside its regions."""
    return [v for o in walk(op) for v in o.operands] if len(op.regions) else list(op.operands)


def _captured(operations: list[ir.Operation]) -> list[ir.Value]:
    """The tensors that the operations read and do not make; the anchor's first, in its order."""
    inside: set[ir.Value] = set()
    for op in operations:
        for o in walk(op):
            inside.update(o.results)
            inside.update(a for region in o.regions for block in region.blocks for a in block.arguments)
    found = dict.fromkeys(v for op in (operations[-1], *operations) for v in _operands(op) if v not in inside)
    for value in found:
        if not _is_tensor(value):
            raise PassError(f"outline-kernels: a kernel needs {value.type}, which is not a tensor, from outside: {str(operations[-1])[:200]}")
    return list(found)


def _build(main: func.FuncOp, name: str, group: _Group) -> func.FuncOp:
    """The kernel function: the group on arguments, its results computed into the trailing arguments."""
    results = [r.type if _is_tensor(r) else _packed(r.type) for r in group.live]
    types = [*(v.type for v in group.inputs), *results]
    with ir.InsertionPoint(main.operation.block), ir.Location.unknown():
        kernel = func.FuncOp(name, (types, results), visibility="private")
        block = kernel.add_entry_block()
        known = dict(zip(group.inputs, block.arguments))
        destinations = list(block.arguments)[len(group.inputs):]
        with ir.InsertionPoint(block):
            for op in group.operations:
                clone = op.clone()
                for o in walk(clone):
                    for i, value in enumerate(o.operands):
                        if value in known:
                            o.operands[i] = known[value]
                known.update(zip(op.results, clone.results))
            outputs = []
            for old, destination in zip(group.live, destinations):
                outputs.append(_into(known[old], destination))
            func.ReturnOp(outputs)
    _erase_dead(block)
    # Clones keep their locations, which would make equal kernels differ.
    PassManager.parse("func.func(strip-debuginfo)").run(kernel.operation)
    return kernel


def _packed(type_: ir.Type) -> ir.RankedTensorType:
    """The tensor that a scalar leaves a kernel in."""
    return ir.RankedTensorType.get([], ir.IntegerType.get_signless(64) if isinstance(type_, ir.IndexType) else type_)


def _into(value: ir.Value, destination: ir.Value) -> ir.Value:
    """Have ``value`` computed into ``destination``: changes the operation that makes it, or copies."""
    if not _is_tensor(value):
        element = destination.type.element_type
        scalar = value if value.type == element else arith.index_cast(element, value)
        return linalg.fill(scalar, outs=[destination])
    op = owner(value)
    if op.name in _UPDATES:
        number = _UPDATES[op.name]
    elif op.name.startswith(("linalg.", "tm_tensor.")):
        number = len(op.operands) - len(op.results) + list(op.results).index(value)
    else:
        return linalg.copy(value, outs=[destination])
    start = op.operands[number]
    producer = owner(start)
    with ir.InsertionPoint(op):
        if producer is not None and producer.name == "tensor.empty":
            op.operands[number] = destination
        elif producer is not None and producer.name == "linalg.fill":
            op.operands[number] = linalg.fill(producer.operands[0], outs=[destination])
        else:
            op.operands[number] = linalg.copy(start, outs=[destination])
    return value


def _erase_dead(block: ir.Block) -> None:
    """Erase what has results of which none is used.  Operations on tensors have no other effect; calls stay."""
    for op in reversed([o.operation for o in block.operations]):
        if len(op.results) and op.name != "func.call" and not any(True for r in op.results for _ in r.uses):
            op.erase()
