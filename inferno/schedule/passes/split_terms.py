"""On a GPU, split a reduction whose terms are gathered into a kernel that gathers the terms and one that reduces them.

The generator of reductions reads whole vectors, and what it gathers an element at a time; one that makes terms can be part of the kernel whose rows
they are of, as the losses of a cross entropy are.  (On an H200 the gather of 16384 losses with its sum took 16 us as one kernel.)
"""

from math import prod

from inferno.mlir import clone_onto, dim_of, func, ir, linalg, owner, tensor, walk
from inferno.passes.affine import projection
from inferno.passes.generics import PARALLEL, body, build, inputs, is_generic, kinds, maps, outputs, use_count, yielded
from inferno.passes.places import place_of
from inferno.passes.programs import callee, operations_in
from inferno.schedule.analysis.accesses import filled, loop_sizes
from inferno.schedule.analysis.affine_extracts import follows_loops
from inferno.schedule.attributes import ATTRIBUTE
from inferno.schedule.passes.calls import calls_in, inputs_of, new_kernel, tell_sources
from inferno.schedule.passes.rewrite import merge_in
from inferno.target import find_target

_MOST = 1 << 18  # terms, which are written and read again: a microsecond
_MOST_OF_ONE = 1 << 24  # and of a single sum, whose terms are one of each of many rows: mostly the kernel that has the rows makes them


def split_terms(module: ir.Module, target: str) -> None:
    """Rewrite ``@main`` and its kernels; nothing for the CPU."""
    if find_target(target).kind != "nvptx":
        return

    def merge(main: func.FuncOp, functions: dict[str, func.FuncOp]) -> bool:
        calls = calls_in(main)
        found = [(c, g) for c in calls if (g := _reduction(functions.get(callee(c)))) is not None]
        for call, generic in found:
            _split(module, functions[callee(call)], call, generic)
        return bool(found)

    merge_in(module, merge)


def _reduction(kernel: func.FuncOp | None) -> ir.Operation | None:
    """The only structured operation of a kernel, if it reduces terms that it reads at computed places."""
    if kernel is None or ATTRIBUTE in kernel.attributes or any(isinstance(t, ir.IndexType) for t in kernel.type.inputs):
        return None
    generics = [o for o in operations_in(kernel) if is_generic(o)]
    if len(generics) != 1 or len(generics[0].results) != 1 or len(kernel.type.results) != 1 or not walk(generics[0], "tensor.extract"):
        return None
    (generic,), end = generics, list(kernel.entry_block.operations)[-1]
    sizes = loop_sizes(generic)
    if any(not isinstance(s, int) for s in sizes) or set(kinds(generic)) == {PARALLEL}:
        return None
    gathers = walk(generic, "tensor.extract")
    if all(_counts(op, generic) for op in gathers):
        return None
    far = PARALLEL not in kinds(generic) and not all(follows_loops(op, generic) for op in gathers)
    if not 0 < prod(sizes) <= (_MOST_OF_ONE if far else _MOST):
        return None
    block, start = body(generic), outputs(generic)[0]
    last, running = owner(yielded(generic)[0]), block.arguments[len(inputs(generic))]
    direct = last is not None and last.parent == generic and len(last.operands) == 2 and list(last.operands).count(running) == 1 and not len(last.regions)
    given = [v for v in inputs(generic) if not isinstance(v, ir.BlockArgument)]
    others = [o.name for o in kernel.entry_block.operations if o.name not in ("arith.constant", "linalg.fill", "linalg.generic", "func.return")]
    alone = direct and use_count(running) == 1 and filled(start) is not None and not given and not others
    return generic if alone and end.operands[0] == generic.results[0] else None


def _counts(op: ir.Operation, generic: ir.Operation) -> bool:
    """Whether what is extracted lies in order along loops of its own, from the beginning or the end: the generator reads whole vectors of it."""
    places = [place_of(v) for v in list(op.operands)[1:]]
    loops = [p[0] for p in places if p is not None and p[0] is not None]
    return None not in places and len(set(loops)) == len(loops) and all(p[1] in (0, 1, -1) for p in places) and follows_loops(op, generic)


def _plain(op: ir.Operation, block: ir.Block, sizes: list[int]) -> ir.AffineMap | None:
    """How an extraction whose places are numbers of loops would be an operand of the operation itself.  None where the tensor is longer than a
    loop, as where a diagonal of one that is not square is read: an operand is as long as its loops."""
    makers = [owner(v) for v in list(op.operands)[1:]]
    if op.block != block or any(m is None or m.name != "linalg.index" for m in makers):
        return None
    loops = [dim_of(m) for m in makers]
    if [sizes[i] for i in loops] != list(ir.RankedTensorType(op.operands[0].type).shape):
        return None
    return projection(loops, len(sizes))


def _split(module: ir.Module, kernel: func.FuncOp, call: ir.Operation, generic: ir.Operation) -> None:
    sizes, given, block = loop_sizes(generic), inputs_of(call), body(generic)
    last = owner(yielded(generic)[0])
    running = block.arguments[len(inputs(generic))]
    (term,) = [v for v in last.operands if v != running]
    made = ir.RankedTensorType.get(sizes, term.type)
    types = list(kernel.type.inputs)[: len(given)]
    terms, result = new_kernel(module, kernel, f"{kernel.name.value}_terms", types, [made]), kernel.type.results[0]
    identity = ir.AffineMap.get_identity(len(sizes))
    with ir.InsertionPoint(terms.entry_block):
        known = dict(zip(kernel.entry_block.arguments, list(terms.entry_block.arguments)[: len(given)]))
        for op in [o for o in operations_in(kernel) if o.name == "arith.constant"]:
            clone_onto(op, known)

        plain = [(op, map_) for op in walk(generic, "tensor.extract") if (map_ := _plain(op, block, sizes)) is not None]

        def fill(values: list[ir.Value]) -> list[ir.Value]:
            known.update(zip([*list(block.arguments)[: len(inputs(generic))], *(op.results[0] for op, _ in plain)], values))
            for op in [o.operation for o in block.operations][:-1]:
                if op != last and not any(op == other for other, _ in plain):
                    clone_onto(op, known)
            return [known.get(term, term)]

        own = [known[v] for v in (*inputs(generic), *(op.operands[0] for op, _ in plain))]
        every = [*maps(generic)[: len(inputs(generic))], *(m for _, m in plain), identity]
        func.ReturnOp(build(own, [terms.entry_block.arguments[len(given)]], every, [PARALLEL] * len(sizes), fill, generic.location).results)
    total = new_kernel(module, kernel, kernel.name.value, [made], [result])
    with ir.InsertionPoint(total.entry_block):
        x, to = total.entry_block.arguments
        start = linalg.fill(owner(owner(outputs(generic)[0]).operands[0]).clone().results[0], outs=[to])

        def combine(values: list[ir.Value]) -> list[ir.Value]:
            operands = [values[1] if v == running else values[0] for v in last.operands]
            attributes = {n: last.attributes[n] for n in last.attributes}
            return list(ir.Operation.create(last.name, results=[last.results[0].type], operands=operands, attributes=attributes).results)

        func.ReturnOp(build([x], [start], [identity, maps(generic)[-1]], kinds(generic), combine, generic.location).results)
    with ir.InsertionPoint(call), call.location:
        first = func.CallOp(terms, [*given, tensor.EmptyOp(sizes, term.type).result]).operation
        second = func.CallOp(total, [first.results[0], call.operands[len(given)]]).operation
    for new in (first, second):
        tell_sources(new, [call])
    call.results[0].replace_all_uses_with(second.results[0])
    call.erase()
