"""Keep a reduction's running value in a register.

Upstream's loops load and store the accumulator in memory at every step.  In ``for k { a = load M[i]; ...; store f(a), M[i] }``
with i from outside of the loop and no other access of M in it, the value can be carried from step to step instead.
"""

from inferno.mlir import ir, memref, scf, walk


def register_accumulators(function) -> None:
    """Rewrite every such loop below ``function``, inner loops first, so that a value goes through a whole nest."""
    for loop in walk(function, "scf.for"):
        if not len(loop.results):
            _rewrite(loop)


def _rewrite(loop: ir.Operation) -> None:
    body = loop.regions[0].blocks[0]
    operations = [o.operation for o in body.operations]
    accumulators = _accumulators(loop, body, operations)
    if not accumulators:
        return
    with loop.location:
        with ir.InsertionPoint(loop):
            start = [memref.load(load.operands[0], list(load.operands)[1:]) for load, _ in accumulators]
            new = scf.ForOp(*list(loop.operands)[:3], start)
        carried = list(new.inner_iter_args)
        values = [store.operands[0] for _, store in accumulators]
        values = [next((c for (load, _), c in zip(accumulators, carried) if load.results[0] == v), v) for v in values]
        for (load, _), value in zip(accumulators, carried):
            load.results[0].replace_all_uses_with(value)
        body.arguments[0].replace_all_uses_with(new.induction_variable)
        for _, store in accumulators:
            store.erase()
        for load, _ in accumulators:
            load.erase()
        for op in [o.operation for o in body.operations]:
            if op.name != "scf.yield":
                new.body.append(op)
        with ir.InsertionPoint(new.body):
            scf.YieldOp(values)
        with ir.InsertionPoint(loop):
            for result, memory in zip(new.operation.results, [(m, i) for m, i in _places(start)]):
                memref.store(result, memory[0], memory[1])
    loop.erase()


def _places(loads: list[ir.Value]) -> list[tuple[ir.Value, list[ir.Value]]]:
    return [(v.owner.operation.operands[0], list(v.owner.operation.operands)[1:]) for v in loads]


def _accumulators(loop: ir.Operation, body: ir.Block, operations: list[ir.Operation]) -> list[tuple[ir.Operation, ir.Operation]]:
    """(load, store) of each value that can be carried."""
    local = {r for o in operations for r in o.results} | set(body.arguments)
    touched: dict[ir.Value, int] = {}
    for op in walk(loop):
        for value in op.operands:
            if isinstance(value.type, ir.MemRefType):
                touched[value] = touched.get(value, 0) + 1
        if op.name in ("func.call", "scf.parallel"):
            return []
    found = []
    for store in operations:
        if store.name != "memref.store" or any(v in local for v in list(store.operands)[1:]):
            continue
        place = list(store.operands)[1:]
        loads = [o for o in operations if o.name == "memref.load" and list(o.operands) == place]
        if len(loads) == 1 and touched[place[0]] == 2:
            found.append((loads[0], store))
    return found
