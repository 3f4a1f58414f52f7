"""Let upstream's bufferization see torch-mlir's tm_tensor operations (scan, sort, scatter, topk).

They have destinations like structured operations do, but not the bufferization interface, and torch-mlir's own pass copies
every operand.  So each is replaced by a ``linalg.generic`` that reads and writes the same tensors and stands for it while
``one-shot-bufferize`` works; afterwards the operation is put back, on buffers.
"""

from dataclasses import dataclass

from inferno.errors import CompileError
from inferno.mlir import arith, ir, linalg, owner, walk
from inferno.passes.affine import projection

_MARK = "inferno.stand_in"


@dataclass(frozen=True)
class StandIns:
    """The operations that were replaced, in ``holder``, in the order of their stand-ins' numbers."""

    holder: ir.Module

    def restore(self, function) -> None:
        """Put the operations back in place of their stand-ins below ``function``, which are on buffers now."""
        originals = [o.operation for o in self.holder.body.operations if o.operation.name.startswith("tm_tensor.")]
        for op in walk(function, "linalg.generic"):
            if _MARK not in op.attributes:
                continue
            original = originals[ir.IntegerAttr(op.attributes[_MARK]).value]
            with ir.InsertionPoint(op), op.location:
                back = ir.Operation.create(
                    original.name, operands=list(op.operands), attributes={n: original.attributes[n] for n in original.attributes},
                    regions=len(original.regions),
                )
                copy = original.clone()
            for source, region in zip(copy.regions, back.regions):
                for block in list(source.blocks):
                    block.append_to(region)
            copy.erase()
            op.erase()


def stand_in(function) -> StandIns:
    """Replace every tm_tensor operation on tensors below ``function``."""
    holder = ir.Module.create()
    number = 0
    for op in walk(function):
        if not op.name.startswith("tm_tensor.") or not len(op.results):
            continue
        _sink_constants(op)
        with op.location:
            empties = []
            with ir.InsertionPoint(holder.body):
                for value in op.operands:
                    empties.append(ir.Operation.create("tensor.empty", results=[value.type]).results[0])
                kept = op.clone()
            for i, value in enumerate(empties):
                kept.operands[i] = value
            with ir.InsertionPoint(op):
                new = _generic(op)
            new.attributes[_MARK] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number)
        number += 1
        for old, result in zip(op.results, new.results):
            old.replace_all_uses_with(result)
        op.erase()
    return StandIns(holder)


def _sink_constants(op: ir.Operation) -> None:
    """Clone into the body what it takes from around it: the original waits in a module that knows nothing of the function."""
    inside = {r for inner in walk(op) if inner != op for r in inner.results}
    inside.update(a for inner in walk(op) for region in inner.regions for block in region.blocks for a in block.arguments)
    for inner in walk(op):
        if inner == op:
            continue
        for i, value in enumerate(inner.operands):
            if value in inside:
                continue
            producer = owner(value)
            if producer is None or producer.name != "arith.constant":
                raise CompileError(f"the body of {op.name} computes with a value from outside that is no constant: {value}")
            with ir.InsertionPoint(inner):
                inner.operands[i] = producer.clone().results[0]


def _generic(op: ir.Operation) -> ir.Operation:
    """A generic with loops of their own for each operand, whose body reads every operand and cannot be simplified."""
    operands, results = list(op.operands), len(op.results)
    ranks = [v.type.rank for v in operands]
    loops = sum(ranks)
    maps = [
        projection([sum(ranks[:i]) + d for d in range(rank)], loops) for i, rank in enumerate(ranks)
    ]
    kind = ir.Attribute.parse("#linalg.iterator_type<reduction>")
    generic = linalg.GenericOp(
        [v.type for v in operands[-results:]], operands[:-results], operands[-results:],
        ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in maps]), ir.ArrayAttr.get([kind] * loops),
    )
    elements = [v.type.element_type for v in operands]
    body = generic.regions[0].blocks.append(*elements, arg_locs=[op.location] * len(elements))
    with ir.InsertionPoint(body):
        condition = arith.constant(ir.IntegerType.get_signless(1), 1)
        for argument in body.arguments:
            condition = arith.xori(condition, _bit(argument))
        linalg.YieldOp([arith.select(condition, a, _doubled(a)) for a in list(body.arguments)[-results:]])
    return generic.operation


def _bit(value: ir.Value) -> ir.Value:
    if isinstance(value.type, ir.IntegerType):
        return arith.cmpi(arith.CmpIPredicate.slt, value, arith.constant(value.type, 0))
    return arith.cmpf(arith.CmpFPredicate.OLT, value, _doubled(value))


def _doubled(value: ir.Value) -> ir.Value:
    return arith.addi(value, value) if isinstance(value.type, ir.IntegerType) else arith.addf(value, value)
