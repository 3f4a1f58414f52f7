"""Operations in the order in which their results are needed, so that kernels that compute the same in another order are the same text."""

from inferno.mlir import ir, outside_values, owner


def order_by_need(block: ir.Block) -> None:
    """Put each operation of the block, and of the blocks inside of it, behind those that it takes something of, by the order of its operands;
    what nothing needs goes."""
    operations = [o.operation for o in block.operations]
    end, placed = operations[-1], set()

    def place(op: ir.Operation) -> None:
        for value in outside_values(op):
            made = owner(value)
            if made is not None and made.block == block and made not in placed:
                place(made)
        placed.add(op)
        if op != end:
            op.move_before(end)

    place(end)
    for op in reversed(operations):
        if op not in placed:
            op.erase()
        else:
            for region in op.regions:
                for inner in region.blocks:
                    order_by_need(inner)
