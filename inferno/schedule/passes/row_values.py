"""Split what an elementwise kernel on rows and columns looks up for a whole row, in a table, off into a kernel of its own: where a contraction is to end with
the operation, each column would look it up, and the generators of contractions read tensors by loops alone."""

from inferno.mlir import clone_onto, dim_of, func, ir, is_unread, linalg, owner, tensor, walk
from inferno.passes.generics import PARALLEL, body, build, clone_body, dims, inputs, is_elementwise, kinds, maps
from inferno.passes.programs import callee, operations_in
from inferno.schedule.passes.calls import inputs_of, new_kernel, tell_sources

_COMPUTED = ("arith.", "linalg.index", "tensor.extract")


def look_up_before(module: ir.Module, kernels: dict[str, func.FuncOp], call: ir.Operation) -> ir.Operation:
    """``call``, or the one in its place that takes what its kernel looks up for rows of calls in front of it."""
    kernel = kernels[callee(call)]
    generics = [o for o in operations_in(kernel) if o.name == "linalg.generic"]
    if len(generics) != 1 or not is_elementwise(generics[0]) or kinds(generics[0]) != [PARALLEL] * 2:
        return call
    generic = generics[0]
    found = [e for e in walk(generic, "tensor.extract") if e.parent == generic and _of_row(e.results[0], generic) and owner(e.operands[0]) is None]
    last = [e for e in found if not any(_reads(other, e.results[0]) for other in found if other != e)]
    if not last:
        return call
    values = [_call(module, kernels, call, generic, e) for e in last]
    return _taking(module, kernels, call, generic, last, values)


def _of_row(value: ir.Value, generic: ir.Operation) -> bool:
    """Whether a value in the body is the same for all columns."""
    op = owner(value)
    if op is None:
        block = list(body(generic).arguments)
        return value not in block or (block.index(value) < len(inputs(generic)) and dims(maps(generic)[block.index(value)]) in ([], [0]))
    if op.name == "linalg.index":
        return dim_of(op) == 0
    return op.name.startswith(_COMPUTED) and not len(op.regions) and all(_of_row(v, generic) for v in op.operands)


def _reads(op: ir.Operation, value: ir.Value) -> bool:
    return any(v == value or ((made := owner(v)) is not None and _reads(made, value)) for v in op.operands)


def _slice(op: ir.Operation, generic: ir.Operation) -> list[ir.Operation]:
    """The operations that ``op`` is computed by, in order, with it."""
    wanted, todo = {op}, [op]
    while todo:
        made = [m for v in todo.pop().operands if (m := owner(v)) is not None and m not in wanted]
        wanted.update(made)
        todo += made
    outside = [o for o in operations_in(generic.parent.opview) if o in wanted]
    return [*outside, *(o.operation for o in body(generic).operations if o.operation in wanted)]


def _call(module: ir.Module, kernels: dict[str, func.FuncOp], call: ir.Operation, generic: ir.Operation, extract: ir.Operation) -> ir.Value:
    """The value for each row, of a kernel of its own."""
    rows, element = generic.results[0].type.shape[0], extract.results[0].type
    steps, block = _slice(extract, generic), list(body(generic).arguments)
    used = {v for o in steps for v in o.operands}
    read = [i for i, a in enumerate(block[: len(inputs(generic))]) if a in used]
    tables = list(dict.fromkeys(o.operands[0] for o in steps if o.name == "tensor.extract"))
    arguments = list(dict.fromkeys([*(inputs(generic)[i] for i in read), *tables]))
    type_ = ir.RankedTensorType.get([rows], element)
    made = new_kernel(module, kernels[callee(call)], "look_up", [a.type for a in arguments], [type_])
    kernels[made.name.value] = made
    with ir.InsertionPoint(made.entry_block), generic.location:
        given = dict(zip(arguments, made.entry_block.arguments))
        drop = lambda m: ir.AffineMap.get(1, 0, m.results)  # noqa: E731

        def fill(values: list[ir.Value]) -> list[ir.Value]:
            known = {**given, **dict(zip((block[i] for i in read), values))}
            for op in steps:
                if op.name == "linalg.index":
                    known[op.results[0]] = linalg.IndexOp(0).result
                else:
                    clone_onto(op, known)
            return [known[extract.results[0]]]

        indexing = [*(drop(maps(generic)[i]) for i in read), ir.AffineMap.get_identity(1)]
        result = build(
            [given[inputs(generic)[i]] for i in read], [made.entry_block.arguments[len(arguments)]], indexing, [PARALLEL], fill, generic.location)
        func.ReturnOp(list(result.results))
    taken = [list(call.operands)[ir.BlockArgument(a).arg_number] for a in arguments]
    with ir.InsertionPoint(call), call.location:
        new = func.CallOp(made, [*taken, tensor.EmptyOp([rows], element).result]).operation
    tell_sources(new, [call])
    return new.results[0]


def _taking(
    module: ir.Module, kernels: dict[str, func.FuncOp], call: ir.Operation, generic: ir.Operation, extracts: list[ir.Operation], values: list[ir.Value],
) -> ir.Operation:
    """The call of a kernel that takes ``values`` in the place of ``extracts``."""
    kernel, count = kernels[callee(call)], len(inputs_of(call))
    old = list(kernel.entry_block.arguments)
    made = new_kernel(
        module, kernel, kernel.name.value, [*(a.type for a in old[:count]), *(v.type for v in values)], [a.type for a in old[count:]])
    kernels[made.name.value] = made
    new = list(made.entry_block.arguments)
    known = dict(zip(old, [*new[:count], *new[count + len(values):]]))
    with ir.InsertionPoint(made.entry_block), generic.location:
        for op in operations_in(kernel):
            if op.name == "func.return":
                func.ReturnOp([known[v] for v in op.operands])
            elif op != generic:
                clone_onto(op, known)
            else:
                result = _build(generic, extracts, new[count: count + len(values)], known)
                known.update(zip(generic.results, result.results))
    with ir.InsertionPoint(call), call.location:
        instead = func.CallOp(made, [*inputs_of(call), *values, *list(call.operands)[count:]]).operation
    tell_sources(instead, [call])
    for before, after in zip(call.results, instead.results):
        before.replace_all_uses_with(after)
    call.erase()
    return instead


def _build(generic: ir.Operation, extracts: list[ir.Operation], values: list[ir.Value], known: dict[ir.Value, ir.Value]) -> ir.Operation:
    number, row = len(inputs(generic)), ir.AffineMap.get(2, 0, [ir.AffineDimExpr.get(0)])
    places = [list(o.operation for o in body(generic).operations).index(e) for e in extracts]
    outs = [known[v] for v in list(generic.operands)[number:]]

    def fill(arguments: list[ir.Value]) -> list[ir.Value]:
        results = clone_body(body(generic), [*arguments[:number], *[None] * len(outs)])
        block = ir.InsertionPoint.current.block
        cloned = [o.operation for o in block.operations]
        for place, value in zip(places, arguments[number:]):
            results = [value if r == cloned[place].results[0] else r for r in results]
            cloned[place].results[0].replace_all_uses_with(value)
        for op in reversed(cloned):  # what the places were computed of
            if is_unread(op) and not any(r in results for r in op.results):
                op.erase()
        return results

    indexing = [*maps(generic)[:number], *[row] * len(values), *maps(generic)[number:]]
    made = build([*(known[v] for v in inputs(generic)), *values], outs, indexing, kinds(generic), fill, generic.location)
    for inner in walk(made):
        if inner != made:
            for i, value in enumerate(inner.operands):
                if value in known:
                    inner.operands[i] = known[value]
    return made
