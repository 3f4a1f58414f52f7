"""Drop results that nothing reads: a softmax's maximum is imported as a reduction of values and of their indices, which nothing reads.

What is left is a reduction of one kind, which generators may regroup.
"""

from inferno.mlir import backward_slice, ir, is_read, is_unread, terminator, walk
from inferno.passes.generics import body, build, clone_body, covers_loops, inputs, kinds, knows_sizes, maps, outputs, yielded


def drop_results(module: ir.Module) -> None:
    """Rewrite each ``linalg.generic`` without the results that nothing reads, unless those that are read depend on what they become."""
    for op in walk(module.operation, "linalg.generic"):
        drop_unread(op)


def drop_unread(op: ir.Operation) -> ir.Operation:
    """The same of one ``linalg.generic``; what stands in its place, which may be itself."""
    dead = [i for i, r in enumerate(op.results) if not is_read(r)]
    if dead and len(dead) < len(op.results) and knows_sizes(op) and not _needs(op, dead):
        return _rebuild(op, dead)
    return op


def _needs(op: ir.Operation, dead: list[int]) -> bool:
    """Whether what is read depends on the running value of something that is not."""
    count, values = len(inputs(op)), yielded(op)
    arguments = {body(op).arguments[count + i] for i in dead}
    live = [v for i, v in enumerate(values) if i not in dead]
    return any(v in arguments for v in backward_slice(live, lambda made: made.parent == op))


def _rebuild(op: ir.Operation, dead: list[int]) -> ir.Operation:
    count, block, outs = len(inputs(op)), body(op), outputs(op)
    live = [i for i in range(len(op.results)) if i not in dead]
    indexing = [*maps(op)[:count], *(maps(op)[count + i] for i in live)]
    if not covers_loops(indexing, len(kinds(op))):
        return op
    end = terminator(block)
    for i in dead:
        end.operands[i] = block.arguments[count + i]
    for inner in reversed([o.operation for o in block.operations]):
        if len(inner.results) and is_unread(inner):
            inner.erase()

    def fill(arguments: list[ir.Value]) -> list[ir.Value]:
        running = dict(zip(live, arguments[count:]))
        made = clone_body(block, [*arguments[:count], *(running.get(i) for i in range(len(outs)))])
        return [made[i] for i in live]

    with ir.InsertionPoint(op), op.location:
        new = build(inputs(op), [outs[i] for i in live], indexing, kinds(op), fill, op.location)
    for i, result in zip(live, new.results):
        op.results[i].replace_all_uses_with(result)
    op.erase()
    return new
