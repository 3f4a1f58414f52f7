"""A canonical order of operations, so that kernels that compute the same in another order are the same text."""

from inferno.mlir import ir, outside_values, owner


def order_by_need(block: ir.Block) -> None:
    """Put each operation of the block, and of the blocks inside of it, behind those that it takes something of, by the order of its operands;
    what nothing needs goes."""
    operations = [o.operation for o in block.operations]
    end, placed = operations[-1], set()

    pending = [(end, iter(outside_values(end)))]  # what is needed is looked for without recursion: the steps of a loop need each other
    while pending:
        op, values = pending[-1]
        made = next((m for m in map(owner, values) if m is not None and m.block == block and m not in placed), None)
        if made is not None:
            pending.append((made, iter(outside_values(made))))
            continue
        pending.pop()
        placed.add(op)
        if op != end:
            op.move_before(end)
    for op in reversed(operations):
        if op not in placed:
            op.erase()
        else:
            for region in op.regions:
                for inner in region.blocks:
                    order_by_need(inner)
