"""Say of each kernel which inputs its result may take the place of (``inferno.overwrites``, the numbers of those arguments), and compute what
could take the place of an argument of ``@main`` when nothing needs the argument's old value any more.

An elementwise kernel reads an input's element where it writes the result's, and nowhere else, so both can be one element in memory.  That is said
only of kernels of one operation and one result: what computes the result's element has then read all that it needs before it writes.

A cache that a token is written to is read by attention as it was, with the token in its place: fusion has made two readers of it.  The one that
writes the new cache goes behind the other.
"""

from inferno.mlir import func, ir, users
from inferno.passes.generics import is_elementwise, maps
from inferno.passes.programs import VIEWS, callee, readers, root_of
from inferno.schedule.assign import kernels
from inferno.schedule.cost import tensor_bytes

OVERWRITES = "inferno.overwrites"
# What a call that moves may keep alive until then, next to what its result takes; and bytes that are nothing.
_KEPT, _FEW = 1 / 4, 1 << 16


def mark_overwrites(module: ir.Module) -> None:
    """Mark the kernels of a module at the ``scheduled`` stage, and put the calls of ``@main`` in order."""
    marks: dict[str, list[int]] = {}
    with module.context:
        for kernel in kernels(module):
            found = overwritable(kernel)
            if found:
                marks[kernel.name.value] = found
                kernel.attributes[OVERWRITES] = ir.DenseI64ArrayAttr.get(found)
    main = next((o for o in module.body.operations if isinstance(o, func.FuncOp) and o.name.value == "main"), None)
    if marks and main is not None:
        _move(main, marks)


def overwritable(kernel: func.FuncOp) -> list[int]:
    """The arguments whose place the result may take."""
    block = kernel.regions[0].blocks[0]
    operations = [o.operation for o in block.operations if o.operation.name not in ("arith.constant", "func.return")]
    if len(operations) != 1 or len(operations[0].results) != 1 or not is_elementwise(operations[0]):
        return []
    (op,), arguments = operations, list(block.arguments)
    operands, accesses = list(op.operands), maps(op)
    if operands[-1] != arguments[-1] or not arguments[-1].type.has_static_shape:
        return []
    return [
        i for i, argument in enumerate(arguments[:-1])
        if argument.type == operands[-1].type and all(user == op for user in users(argument))
        and all(m == accesses[-1] for v, m in zip(operands, accesses) if v == argument)
    ]


def updated(call: ir.Operation, kernel: func.FuncOp) -> list[int]:
    """The arguments of ``kernel`` that are the program's own and whose place its result may take, where the program returns that: a cache, a weight.
    A kernel that does more could not write there."""
    if not any(u.name == "func.return" for r in call.results for u in readers(r)):
        return []
    return [n for n in overwritable(kernel) if isinstance(root_of(call.operands[n]), ir.BlockArgument)]


def _move(main: func.FuncOp, marks: dict[str, list[int]]) -> None:
    block = main.regions[0].blocks[0]
    operations = [o.operation for o in block.operations]
    end, last = operations[-1], {}
    for place, op in enumerate(operations):
        for operand in op.operands:
            root = root_of(operand)
            if op.name == "func.call" and isinstance(root, ir.BlockArgument):
                last[root] = place
    for place, op in enumerate(operations):
        if op.name != "func.call" or len(op.results) != 1:
            continue
        overwritten = marks.get(callee(op), [])
        later = any(last.get(root, place) > place for i in overwritten if isinstance(root := root_of(op.operands[i]), ir.BlockArgument))
        views = _only_returned(op.results[0])
        if later and views is not None and _holds_little(op):
            for moved in (op, *views):
                moved.move_before(end)


def _only_returned(value: ir.Value) -> list[ir.Operation] | None:
    """The views between a value and the return, in order; None where anybody else uses it."""
    found: list[ir.Operation] = []
    for user in users(value):
        if user.name in VIEWS:
            further = _only_returned(user.results[0])
            if further is None:
                return None
            found += [user, *further]
        elif user.name != "func.return":
            return None
    return found


def _holds_little(call: ir.Operation) -> bool:
    """Whether what a call reads of other kernels' results is little next to its own."""
    operands = list(call.operands)
    read = [v for v in operands[:-1] if isinstance(v.type, ir.RankedTensorType) and not isinstance(root_of(v), ir.BlockArgument)]
    if not all(v.type.has_static_shape for v in read):
        return False
    return sum(tensor_bytes(v.type) for v in read) <= max(_FEW, _KEPT * tensor_bytes(operands[-1].type))
