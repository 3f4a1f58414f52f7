"""``tm_tensor.sort`` by ranks: one thread an element counts the elements of its row that go before it, and writes it there.

Every pair is compared, which costs the square of a row's length but uses the whole machine, needs no barrier and is stable.
NaN goes where eager puts it, behind every number: without that its comparisons would contradict each other.
"""

from dataclasses import dataclass

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.device_function import DeviceFunction
from inferno.codegen.builders.inline import inline_body
from inferno.codegen.builders.integers import Integer
from inferno.mlir import arith, ir, memref, owner, scf
from inferno.passes.shapes import known_shape
from inferno.symbolic import Int, ceildiv, product

_THREADS = 256  # of a block


@dataclass(frozen=True)
class Sort:
    """The first half of the operands is read, the second written; they are ``sources`` and ``targets`` of the rows along ``dim``."""

    operation: ir.Operation
    dim: int
    shape: tuple[Int, ...]

    @property
    def points(self) -> Int:
        return product(self.shape)

    @property
    def launch(self) -> tuple[Int, int]:
        return ceildiv(self.points, _THREADS), _THREADS


def read_sort(op: ir.Operation) -> Sort:
    """What a ``tm_tensor.sort`` sorts."""
    return Sort(op, ir.IntegerAttr(op.attributes["dimension"]).value, known_shape(op.operands[0]))


def emit_sort(sort: Sort, function: DeviceFunction, sources: list[ir.Value], targets: list[ir.Value]) -> None:
    """The whole kernel; ``sort`` is of the operation cloned into ``function``, whose operands are not used."""
    ints = function.ints
    body = sort.operation.regions[0].blocks[0]
    order_nan(body)
    block = ints.block()
    thread = ints.thread(_THREADS)
    point = ints.add(ints.mul(block, _THREADS), thread)
    with only_if(ints.less(point, sort.points)):
        at = ints.split(point, list(sort.shape))
        own, length = at[sort.dim], sort.shape[sort.dim]

        def load(source: ir.Value, position: Integer) -> ir.Value:
            return memref.load(source, [ints.index(position if d == sort.dim else x) for d, x in enumerate(at)])

        mine = [load(s, own) for s in sources]

        def before(a: list[ir.Value], b: list[ir.Value]) -> ir.Value:
            return inline_body(body, [x for pair in zip(a, b) for x in pair])[0]

        def count(begin: Integer, end: Integer, start: ir.Value, first: bool) -> ir.Value:
            loop = scf.ForOp(ints.value(begin), ints.value(end), ints.value(1), [start])
            with ir.InsertionPoint(loop.body):
                other = [load(s, loop.induction_variable) for s in sources]
                # Of two that may stand in either order the one that comes first now stays first.
                yes = before(other, mine) if first else arith.xori(before(mine, other), arith.constant(ir.IntegerType.get_signless(1), 1))
                scf.YieldOp([arith.addi(loop.inner_iter_args[0], arith.extui(ints.type, yes))])
            return loop.results[0]

        rank = count(0, own, ints.value(0), True)
        rank = count(ints.add(own, 1), length, rank, False)
        for value, target in zip(mine, targets):
            memref.store(value, target, [ints.index(rank if d == sort.dim else x) for d, x in enumerate(at)])


def order_nan(body: ir.Block) -> None:
    """Make ordered comparisons of two elements take NaN as greater than all numbers and equal to itself."""
    for op in [o.operation for o in body.operations]:
        if op.name != "arith.cmpf" or any(owner(v) is not None for v in op.operands):
            continue
        predicate = arith.CmpFPredicate(ir.IntegerAttr(op.attributes["predicate"]).value)
        if predicate not in (arith.CmpFPredicate.OLE, arith.CmpFPredicate.OGE, arith.CmpFPredicate.OLT, arith.CmpFPredicate.OGT):
            continue
        low, high = op.operands if predicate in (arith.CmpFPredicate.OLE, arith.CmpFPredicate.OLT) else reversed(list(op.operands))
        with ir.InsertionPoint.at_block_terminator(body), op.location:
            last = arith.cmpf(arith.CmpFPredicate.UNO, high, high)
            if predicate in (arith.CmpFPredicate.OLT, arith.CmpFPredicate.OGT):
                last = arith.andi(last, arith.cmpf(arith.CmpFPredicate.ORD, low, low))
            new = arith.ori(op.results[0], last)
        made = [o.operation for o in body.operations][-2]
        for use in list(op.results[0].uses):
            if use.owner.operation != made:
                use.owner.operation.operands[use.operand_number] = new
