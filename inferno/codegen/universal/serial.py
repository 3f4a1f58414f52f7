"""Operations that one thread does: loops and branches around tensors, single stores."""

from inferno.errors import CompileError
from inferno.mlir import ir, scf, walk


def is_scalar(op: ir.Operation) -> bool:
    """Whether an operation only computes a number, which kernels can compute again for themselves."""
    if len(op.regions) or not len(op.results):
        return False
    pure = op.name.startswith(("arith.", "math.", "index.", "affine.apply")) or op.name == "memref.load"
    return pure and not any(isinstance(r.type, ir.MemRefType) for r in op.results)


def make_serial(operations: list[ir.Operation]) -> None:
    """Prepare operations for a thread: structured operations and parallel loops inside become loops, allocations move to the host."""
    for op in operations:
        for inner in walk(op, "memref.alloc"):
            _hoist(inner, op)
        for inner in walk(op, "memref.dealloc"):
            inner.erase()


def _hoist(alloc: ir.Operation, top: ir.Operation) -> None:
    if alloc == top:
        return
    if _escapes(alloc.results[0]):
        raise CompileError("a loop hands a buffer that it allocates to its next iteration")
    alloc.move_before(top)


def _escapes(buffer: ir.Value) -> bool:
    for use in buffer.uses:
        user = use.owner.operation
        if user.name in ("scf.yield", "scf.condition"):
            return True
        if any(isinstance(r.type, ir.MemRefType) for r in user.results) and any(_escapes(r) for r in user.results):
            return True
    return False


def serialise(loop: ir.Operation) -> None:
    """``scf.parallel``, with or without reductions, as a nest of ``scf.for``, in place."""
    source = loop.regions[0].blocks[0]
    count, operands = len(source.arguments), list(loop.operands)
    carried, nest = operands[3 * count:], []
    with loop.location:
        place = ir.InsertionPoint(loop)
        for i in range(count):
            with place:
                nest.append(scf.ForOp(operands[i], operands[count + i], operands[2 * count + i], carried))
            carried = list(nest[-1].inner_iter_args)
            source.arguments[i].replace_all_uses_with(nest[-1].induction_variable)
            place = ir.InsertionPoint(nest[-1].body)
        inner, end = nest[-1].body, None
        for op in [o.operation for o in source.operations]:
            if op.name == "scf.reduce":
                end = op
            else:
                inner.append(op)
        values = []
        for k, (accumulator, value) in enumerate(zip(carried, end.operands)):
            combine = end.regions[k].blocks[0]
            combine.arguments[0].replace_all_uses_with(accumulator)
            combine.arguments[1].replace_all_uses_with(value)
            for op in [o.operation for o in combine.operations]:
                if op.name == "scf.reduce.return":
                    values.append(op.operands[0])
                else:
                    inner.append(op)
        with ir.InsertionPoint(inner):
            scf.YieldOp(values)
        for outer, below in reversed(list(zip(nest, nest[1:]))):
            with ir.InsertionPoint(outer.body):
                scf.YieldOp(list(below.operation.results))
    for result, value in zip(loop.results, nest[0].operation.results):
        result.replace_all_uses_with(value)
    loop.erase()
