"""Inline the body of a ``linalg.generic`` on scalars or, lane by lane, on vectors."""

from collections.abc import Sequence

from inferno.mlir import ir, vector


def inline_body(
    block: ir.Block, arguments: Sequence[ir.Value], indices: Sequence[ir.Value] = (), lanes: int = 0,
) -> list[ir.Value]:
    """Clone the operations of ``block`` at the insertion point and return what it yields.

    ``arguments`` stand for the block's arguments and ``indices`` for ``linalg.index``.  With ``lanes`` > 0 arguments
    may be vectors of that many lanes (mixed with scalars, which are broadcast) and the body's operations become
    operations on vectors; everything in arith and math is elementwise, so this is always possible for them.
    """
    known: dict[ir.Value, ir.Value] = dict(zip(block.arguments, arguments))

    def widen(type_: ir.Type) -> ir.Type:
        return ir.VectorType.get([lanes], type_)

    def as_vector(value: ir.Value) -> ir.Value:
        return value if isinstance(value.type, ir.VectorType) else vector.broadcast(widen(value.type), value)

    for op in block.operations:
        op = op.operation
        operands = [known.get(v, v) for v in op.operands]
        if op.name == "linalg.yield":
            return operands
        if op.name == "linalg.index":
            known[op.results[0]] = indices[ir.IntegerAttr(op.attributes["dim"]).value]
            continue
        if lanes and any(isinstance(v.type, ir.VectorType) for v in operands):
            attributes = {name: op.attributes[name] for name in op.attributes}
            new = ir.Operation.create(
                op.name, results=[widen(r.type) for r in op.results], operands=[as_vector(v) for v in operands],
                attributes=attributes, loc=op.location,
            )
        else:
            new = op.clone()
            for i, v in enumerate(operands):
                new.operands[i] = v
            if len(op.regions):
                for old, value in known.items():
                    _replace_inside(new, old, value)
        known.update(zip(op.results, new.results))
    raise ValueError("the block has no linalg.yield")


def _replace_inside(op: ir.Operation, old: ir.Value, new: ir.Value) -> None:
    def visit(o: ir.Operation) -> ir.WalkResult:
        o.replace_uses_of_with(old, new)
        return ir.WalkResult.ADVANCE

    op.walk(visit)
