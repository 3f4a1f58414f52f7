"""A function on buffers made of loops -> ``gpu.launch`` for each parallel loop, one thread a point of its range.

Upstream's mapping gives each dimension of a loop to one dimension of the grid and stops at three; here the range is
flattened, so that any rank works and neighbouring threads touch neighbouring elements of the innermost dimension.
What is left on the host, single stores and serial loops, becomes kernels of one thread.
"""

import math

from inferno.codegen.reduce_in_blocks import reduce_in_block
from inferno.errors import CompileError
from inferno.mlir import arith, func, gpu, ir, owner, scf, walk
from inferno.schedule.universal import Universal

_SERIAL = {"memref.store", "scf.for", "scf.while", "scf.if", "scf.execute_region", "memref.copy"}


def to_launches(function: func.FuncOp, schedule: Universal) -> None:
    """Rewrite the loops at the top of ``function`` in place; its allocations stay."""
    block = function.regions[0].blocks[0]
    _group_serial(block)
    for op in [o.operation for o in block.operations]:
        if op.name == "scf.parallel":
            for inner in walk(op, "scf.parallel"):
                if inner != op:
                    serialise(inner)
            if not reduce_in_block(op, schedule):
                _launch(op, schedule.threads)
    for op in walk(function, "gpu.launch"):
        _sink(op)
    for op in reversed([o.operation for o in block.operations]):
        if op.name == "memref.dealloc":
            op.erase()
        elif op.name not in ("gpu.launch", "func.return", "memref.alloc") and not any(True for r in op.results for _ in r.uses):
            op.erase()
    left = {o.operation.name for o in block.operations} - {"gpu.launch", "func.return", "memref.alloc"}
    if left:
        raise CompileError(f"{', '.join(sorted(left))} would have to run on the host")


def index(value: int) -> ir.Value:
    return arith.constant(ir.IndexType.get(), value)


def constant_value(value: ir.Value) -> int | None:
    """The integer that ``value`` always is, if it is one."""
    op = owner(value)
    return ir.IntegerAttr(op.attributes["value"]).value if op is not None and op.name == "arith.constant" else None


def extents(loop: ir.Operation) -> list[int]:
    """The number of iterations of each dimension of an ``scf.parallel``, all of them constants."""
    count = len(loop.regions[0].blocks[0].arguments)
    bounds = [constant_value(v) for v in list(loop.operands)[: 3 * count]]
    if any(b is None for b in bounds):
        raise CompileError("a parallel loop's bounds are not constants")
    return [max(0, -(-(bounds[count + i] - bounds[i]) // bounds[2 * count + i])) for i in range(count)]


def delinearise(flat: ir.Value, loop: ir.Operation) -> list[ir.Value]:
    """The loop's induction variables at a flat position, the last dimension fastest."""
    count = len(loop.regions[0].blocks[0].arguments)
    operands, sizes = list(loop.operands), extents(loop)
    values: list[ir.Value] = [flat] * count
    rest = flat
    for i in reversed(range(count)):
        value = rest if i == 0 else arith.remui(rest, index(sizes[i]))
        rest = rest if i == 0 else arith.divui(rest, index(sizes[i]))
        lower, step = constant_value(operands[i]), constant_value(operands[2 * count + i])
        value = value if step == 1 else arith.muli(value, index(step))
        values[i] = value if lower == 0 else arith.addi(value, index(lower))
    return values


def _group_serial(block: ir.Block) -> None:
    """Wrap runs of operations that only the host could do in loops of one iteration."""
    run: list[ir.Operation] = []
    for op in [*(o.operation for o in block.operations)]:
        if op.name in _SERIAL or (op.name == "scf.parallel" and len(op.results)):
            if any(True for r in op.results for u in r.uses if u.owner.operation.parent == op.parent and u.owner.operation.name not in _SERIAL):
                pass  # its values are needed by what follows in the run; _wrap checks that they stay inside
            run.append(op)
        elif run and op.name in ("scf.parallel", "func.return", "memref.alloc"):
            _wrap(run, block)
            run = []
    if run:
        _wrap(run, block)


def _wrap(run: list[ir.Operation], block: ir.Block) -> None:
    """Move the run, and what lies between its operations, into ``scf.parallel 0..1``."""
    operations = [o.operation for o in block.operations]
    first = next(i for i, o in enumerate(operations) if o == run[0])
    last = next(i for i, o in enumerate(operations) if o == run[-1])
    inside = operations[first : last + 1]
    loc = run[0].location
    with ir.InsertionPoint(inside[0]), loc:
        zero, one = index(0), index(1)
        loop = ir.Operation.create(
            "scf.parallel", operands=[zero, one, one], regions=1, attributes={"operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 1, 1, 0])},
        )
        body = loop.regions[0].blocks.append(ir.IndexType.get(), arg_locs=[loc])
        with ir.InsertionPoint(body):
            end = ir.Operation.create("scf.reduce")
    results = {r for o in inside for r in o.results}
    outside = operations[last + 1 :]
    for op in outside:
        for inner in walk(op):
            if any(v in results for v in inner.operands):
                raise CompileError(f"a value of a serial part is used by {inner.name} in another kernel")
    for op in inside:
        op.move_before(end)


def serialise(loop: ir.Operation) -> None:
    """``scf.parallel``, with or without reductions, as a nest of ``scf.for``, in place."""
    source = loop.regions[0].blocks[0]
    count, operands = len(source.arguments), list(loop.operands)
    carried, nest = operands[3 * count :], []
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


def _launch(loop: ir.Operation, threads: int) -> None:
    """One thread for each point of the loop."""
    total = math.prod(extents(loop))
    if total == 0:
        loop.erase()
        return
    threads = 1 if total == 1 else min(threads, -(-total // 32) * 32)
    with ir.InsertionPoint(loop), loop.location:
        one = index(1)
        launch = gpu.LaunchOp((index(-(-total // threads)), one, one), (index(threads), one, one))
        block = launch.regions[0].blocks[0]
        with ir.InsertionPoint(block):
            flat = arith.addi(arith.muli(block.arguments[0], index(threads)), block.arguments[3])
            if total % threads:
                guard = scf.IfOp(arith.cmpi(arith.CmpIPredicate.ult, flat, index(total)))
                with ir.InsertionPoint(guard.then_block):
                    scf.YieldOp([])
                body = guard.then_block
            gpu.TerminatorOp()
            if not total % threads:
                body = block
        end = body.operations[len(body.operations) - 1].operation
        source = loop.regions[0].blocks[0]
        with ir.InsertionPoint(end):
            values = delinearise(flat, loop)
        for argument, value in zip(source.arguments, values):
            argument.replace_all_uses_with(value)
        for op in [o.operation for o in source.operations]:
            if op.name != "scf.reduce":
                op.move_before(end)
    loop.erase()


def _sink(launch: ir.Operation) -> None:
    """Clone into the kernel whatever it uses that is neither an argument nor an allocation: constants, views, loads of scalars."""
    block = launch.regions[0].blocks[0]
    while True:
        outside = _captured(launch)
        movable = next((v for v in outside if owner(v) is not None and owner(v).name != "memref.alloc"), None)
        if movable is None:
            return
        producer = owner(movable)
        if len(producer.regions):
            raise CompileError(f"{producer.name} would have to run on the host")
        with ir.InsertionPoint(block.operations[0]), launch.location:
            clone = producer.clone()
        for old, new in zip(producer.results, clone.results):
            for op in walk(launch):
                if op != launch and op != clone:
                    op.replace_uses_of_with(old, new)


def _captured(launch: ir.Operation) -> list[ir.Value]:
    """The values from outside that the body of a launch uses."""
    inside: set[ir.Value] = set()
    operations = [o for o in walk(launch) if o != launch]
    inside.update(launch.regions[0].blocks[0].arguments)
    for op in operations:
        inside.update(op.results)
        for region in op.regions:
            for block in region.blocks:
                inside.update(block.arguments)
    found: list[ir.Value] = []
    for op in operations:
        found += [v for v in op.operands if v not in inside and v not in found]
    return found
