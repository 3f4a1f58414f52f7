"""A long sum with a block of threads of its own: each thread adds every T-th term, then the partial results meet in a tree.

One thread a sum leaves the machine idle when the sums are few, and adds so many terms one after the other that float sums
lose accuracy.  The tree has a fixed shape, so results are the same run after run.
"""

import math

from inferno.mlir import arith, gpu, ir, memref, owner, scf, walk
from inferno.schedule.universal import Universal

# The combiners that may be applied in any order, and the value that changes nothing.
_IDENTITY = {
    "arith.addf": 0.0, "arith.mulf": 1.0, "arith.maximumf": -math.inf, "arith.minimumf": math.inf, "arith.maxnumf": -math.inf,
    "arith.minnumf": math.inf, "arith.addi": 0, "arith.muli": 1, "arith.andi": -1, "arith.ori": 0, "arith.xori": 0,
    "arith.maxsi": "least", "arith.minsi": "most", "arith.maxui": 0, "arith.minui": -1,
}


def reduce_in_block(loop: ir.Operation, schedule: Universal) -> bool:
    """Turn a parallel loop around one reduction into a launch of one block a point; False where that does not fit or pay."""
    from inferno.codegen.to_launches import constant_value, delinearise, extents, index

    source = loop.regions[0].blocks[0]
    operations = [o.operation for o in source.operations]
    reductions = [o for o in operations if o.name == "scf.for"]
    points = math.prod(extents(loop))
    if len(reductions) != 1 or points == 0:
        return False
    nest = _perfect_nest(reductions[0])
    sizes = [_trip_count(f, constant_value) for f in nest]
    if any(s is None for s in sizes):
        return False
    length = math.prod(sizes)
    if length < 64 or (length < schedule.long and points >= schedule.few):
        return False
    combiners = _combiners(nest)
    if combiners is None:
        return False
    threads = min(schedule.reduction_threads, 1 << (length - 1).bit_length())
    after = operations[operations.index(reductions[0]) + 1 :] if False else _after(operations, reductions[0])
    with ir.InsertionPoint(loop), loop.location:
        one = index(1)
        launch = gpu.LaunchOp((index(points), one, one), (index(threads), one, one))
        block = launch.regions[0].blocks[0]
        with ir.InsertionPoint(block):
            values = delinearise(block.arguments[0], loop)
            thread = block.arguments[3]
            end = gpu.TerminatorOp().operation
        for argument, value in zip(source.arguments, values):
            argument.replace_all_uses_with(value)
        for op in operations:
            if op == reductions[0]:
                break
            op.move_before(end)
        with ir.InsertionPoint(end):
            partial = _partial_sums(nest, sizes, thread, threads, length, combiners, index)
            totals = [_tree(p, c, thread, threads, index) for p, c in zip(partial, combiners)]
            starts = list(nest[0].operands)[3:]
            totals = [_combine(c, s, t) for c, s, t in zip(combiners, starts, totals)]
            first = scf.IfOp(arith.cmpi(arith.CmpIPredicate.eq, thread, index(0)))
            with ir.InsertionPoint(first.then_block):
                last = scf.YieldOp([]).operation
        for result, total in zip(reductions[0].results, totals):
            result.replace_all_uses_with(total)
        for op in after:
            if op.name != "scf.reduce":
                op.move_before(last)
    loop.erase()
    return True


def _after(operations: list[ir.Operation], reduction: ir.Operation) -> list[ir.Operation]:
    position = next(i for i, o in enumerate(operations) if o == reduction)
    return operations[position + 1 :]


def _perfect_nest(outer: ir.Operation) -> list[ir.Operation]:
    """The loops of a nest in which each carries its values through the next and does nothing else."""
    nest = [outer]
    while True:
        body = nest[-1].regions[0].blocks[0]
        operations = [o.operation for o in body.operations]
        if len(operations) != 2 or operations[0].name != "scf.for":
            return nest
        inner, end = operations
        if list(inner.operands)[3:] != list(body.arguments)[1:] or list(end.operands) != list(inner.results):
            return nest
        nest.append(inner)


def _trip_count(loop: ir.Operation, constant_value) -> int | None:
    lower, upper, step = (constant_value(v) for v in list(loop.operands)[:3])
    return upper if lower == 0 and step == 1 else None


def _combiners(nest: list[ir.Operation]) -> list[ir.Operation] | None:
    """The operation that adds a term to each carried value; None if one is not known or uses the value otherwise."""
    body = nest[-1].regions[0].blocks[0]
    carried = list(body.arguments)[1:]
    end = body.operations[len(body.operations) - 1]
    if not carried:
        return None
    inside = [o.operation for o in body.operations]
    if any(o.name in ("memref.store", "scf.for", "scf.while") for o in walk(nest[-1]) if o != nest[-1]):
        return None
    found = []
    for argument, value in zip(carried, end.operands):
        op = owner(value)
        if op is None or op.name not in _IDENTITY or not any(op == o for o in inside) or list(op.operands).count(argument) != 1:
            return None
        if sum(1 for _ in argument.uses) != 1 or sum(1 for _ in value.uses) != 1:
            return None
        found.append(op)
    return found


def _partial_sums(nest, sizes, thread, threads, length, combiners, index) -> list[ir.Value]:
    """Each thread's share of the terms."""
    identities = [_identity(c) for c in combiners]
    loop = scf.ForOp(thread, index(length), index(threads), identities)
    body = nest[-1].regions[0].blocks[0]
    with ir.InsertionPoint(loop.body):
        rest = loop.induction_variable
        for i in reversed(range(len(nest))):
            variable = nest[i].regions[0].blocks[0].arguments[0]
            variable.replace_all_uses_with(rest if i == 0 else arith.remui(rest, index(sizes[i])))
            rest = rest if i == 0 else arith.divui(rest, index(sizes[i]))
        for argument, value in zip(list(body.arguments)[1:], loop.inner_iter_args):
            argument.replace_all_uses_with(value)
        yielded = list(body.operations[len(body.operations) - 1].operands)
        for op in [o.operation for o in body.operations]:
            if op.name != "scf.yield":
                loop.body.append(op)
        scf.YieldOp(yielded)
    return list(loop.results)


def _tree(value: ir.Value, combiner: ir.Operation, thread: ir.Value, threads: int, index) -> ir.Value:
    """The combination of all threads' values, the same in every thread, through shared memory."""
    space = ir.Attribute.parse("#gpu.address_space<workgroup>")
    shared = _shared(ir.MemRefType.get([threads], value.type, memory_space=space))
    memref.store(value, shared, [thread])
    gpu.barrier()
    half = threads // 2
    while half:
        inside = scf.IfOp(arith.cmpi(arith.CmpIPredicate.ult, thread, index(half)))
        with ir.InsertionPoint(inside.then_block):
            mine = memref.load(shared, [thread])
            other = memref.load(shared, [arith.addi(thread, index(half))])
            memref.store(_combine(combiner, mine, other), shared, [thread])
            scf.YieldOp([])
        gpu.barrier()
        half //= 2
    return memref.load(shared, [index(0)])


def _shared(type_: ir.MemRefType) -> ir.Value:
    """A workgroup buffer of the launch that is being built; outlining makes it the kernel's own."""
    return memref.AllocaOp(type_, [], []).memref


def _combine(combiner: ir.Operation, a: ir.Value, b: ir.Value) -> ir.Value:
    attributes = {name: combiner.attributes[name] for name in combiner.attributes}
    return ir.Operation.create(combiner.name, results=[a.type], operands=[a, b], attributes=attributes).results[0]


def _identity(combiner: ir.Operation) -> ir.Value:
    type_, value = combiner.results[0].type, _IDENTITY[combiner.name]
    if isinstance(value, float):
        return arith.constant(type_, ir.FloatAttr.get(type_, value))
    width = ir.IntegerType(type_).width
    value = {"least": -(1 << (width - 1)), "most": (1 << (width - 1)) - 1}.get(value, value)
    return arith.constant(type_, ir.IntegerAttr.get(type_, value))
