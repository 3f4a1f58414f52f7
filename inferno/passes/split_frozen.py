"""Split the part of an operation's body that reads frozen arguments alone off into an operation of its own.

Of batch norm's ``(x - mean) * rsqrt(var + eps) * weight + bias`` it is the reciprocal root, one number for each channel, which
``hoist-frozen`` then has computed once.
"""

from inferno.element_sizes import element_bytes
from inferno.mlir import clone_onto, ir, is_unread, tensor
from inferno.passes.affine import projection, renumber
from inferno.passes.generics import PARALLEL, body, build, dims, inputs, kinds, loop_sizes, maps, outputs, substitute
from inferno.passes.hoist_frozen import has_frozen, known_values, tensor_bytes
from inferno.passes.programs import MAIN, programs
from inferno.symbolic import product


def split_frozen(module: ir.Module) -> None:
    """Split the bodies of ``@main``'s generics where the part's result takes no more memory than what it is made of.

    What reads ``linalg.index`` or a tensor by an index stays; so does a body that is frozen as a whole.
    """
    for main in programs(module)[:1]:
        if main.name.value != MAIN:
            return
        known = known_values(main) if has_frozen(main) else {}
        for op in [o.operation for o in main.regions[0].blocks[0].operations] if known else []:
            if op.name == "linalg.generic" and not all(r in known for r in op.results):
                parts = _parts(op, [v in known for v in inputs(op)])
                if parts:
                    _split(op, parts)


def _parts(op: ir.Operation, frozen: list[bool]) -> dict[ir.Value, tuple[list[ir.Operation], list[int]]]:
    """The values of the body to compute apart: the operations that make each, in order, and the inputs that they read."""
    block = body(op)
    made: dict[ir.Value, tuple[dict[ir.Operation, None], dict[int, None]]] = {
        a: ({}, {i: None}) for i, (a, f) in enumerate(zip(block.arguments, frozen)) if f
    }
    found: dict[ir.Value, None] = {}
    for inner in block.operations:
        inner = inner.operation
        operands = list(inner.operands)
        own = [v for v in operands if _is_inside(v, block)]
        pure = inner.name.startswith(("arith.", "math.")) and not len(inner.regions) and len(inner.results) == 1
        if pure and all(v in made for v in own):
            operations, reads = {}, {}
            for value in own:
                operations.update(made[value][0])
                reads.update(made[value][1])
            made[inner.results[0]] = {**operations, inner: None}, reads
        else:
            found.update((v, None) for v in own if v in made and made[v][1] and made[v][0])
    return {v: (list(made[v][0]), list(made[v][1])) for v in found if _pays(op, v, list(made[v][1]))}


def _is_inside(value: ir.Value, block: ir.Block) -> bool:
    return value.owner == block if isinstance(value, ir.BlockArgument) else value.owner.operation.block == block


def _pays(op: ir.Operation, value: ir.Value, reads: list[int]) -> bool:
    """Whether the value at all points that its inputs have takes no more memory than they do."""
    loops = _loops(op, reads)
    if loops is None or isinstance(value.type, (ir.IndexType, ir.ComplexType)):
        return False
    sizes = loop_sizes(op)
    if any(not isinstance(sizes[d], int) for d in loops):
        return False
    size = product(sizes[d] for d in loops) * element_bytes(value.type)
    return size <= sum(tensor_bytes(inputs(op)[i]) for i in reads)


def _loops(op: ir.Operation, reads: list[int]) -> list[int] | None:
    """The loops that some inputs are read by, in order; None where a map does anything but select."""
    selected = [dims(maps(op)[i]) for i in reads]
    return None if None in selected else sorted({d for s in selected for d in s})


def _split(op: ir.Operation, parts: dict[ir.Value, tuple[list[ir.Operation], list[int]]]) -> None:
    values, indexing = inputs(op), maps(op)
    count, given = len(kinds(op)), len(values)
    made, made_maps = [], []
    for value, (operations, reads) in parts.items():
        loops = _loops(op, reads)
        made.append(_apart(op, value, operations, reads, loops))
        made_maps.append(projection(loops, count))
    block = body(op)

    def fill(arguments: list[ir.Value]) -> list[ir.Value]:
        new = arguments[given:given + len(made)]
        known = dict(zip(block.arguments, [*arguments[:given], *arguments[given + len(made):]]))
        known.update(zip(parts, new))
        return _clone([o.operation for o in block.operations], known)

    with ir.InsertionPoint(op), op.location:
        new = build([*values, *made], outputs(op), [*indexing[:given], *made_maps, *indexing[given:]], kinds(op), fill, op.location)
    for name in op.attributes:
        if name not in ("indexing_maps", "iterator_types", "operandSegmentSizes"):
            new.attributes[name] = op.attributes[name]
    _drop_unread(body(new))
    for old, result in zip(op.results, new.results):
        old.replace_all_uses_with(result)
    op.erase()


def _apart(op: ir.Operation, value: ir.Value, operations: list[ir.Operation], reads: list[int], loops: list[int]) -> ir.Value:
    """One part as a tensor, with a dimension for each of the ``loops``."""
    sizes = loop_sizes(op)
    renamed = renumber(loops, len(sizes))
    arguments = [body(op).arguments[i] for i in reads]
    indexing = [substitute(maps(op)[i], renamed, len(loops)) for i in reads]

    def fill(given: list[ir.Value]) -> list[ir.Value]:
        known = dict(zip(arguments, given))
        _clone(operations, known)
        return [known[value]]

    with ir.InsertionPoint(op), op.location:
        out = tensor.EmptyOp([sizes[d] for d in loops], value.type).result
        same = ir.AffineMap.get_identity(len(loops))
        return build([inputs(op)[i] for i in reads], [out], [*indexing, same], [PARALLEL] * len(loops), fill, op.location).results[0]


def _clone(operations: list[ir.Operation], known: dict[ir.Value, ir.Value]) -> list[ir.Value]:
    """Clone operations at the insertion point on values that are ``known``; what the yield among them yields."""
    for op in operations:
        if op.name == "linalg.yield":
            return [known.get(v, v) for v in op.operands]
        if len(op.results) == 1 and op.results[0] in known:
            continue
        clone_onto(op, known)
    return []


def _drop_unread(block: ir.Block) -> None:
    """Erase what the body computes for nothing now."""
    for op in reversed([o.operation for o in block.operations]):
        if op.name.startswith(("arith.", "math.")) and is_unread(op):
            op.erase()
