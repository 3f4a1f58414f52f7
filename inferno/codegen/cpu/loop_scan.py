"""Cumulative sums, products and maxima (``tm_tensor.scan``) as loops on the CPU: rows are items, a row is one loop.

The running value of a float sum or product is float64, as in eager.
"""

from collections.abc import Callable, Sequence

from inferno.codegen.builders.inline import inline_body
from inferno.codegen.cpu.loop_nests import erase_dead, take_combiner
from inferno.codegen.cpu.loop_operands import operand_of, root_of
from inferno.codegen.cpu.running_values import combine, identity, narrow, running_type, widen
from inferno.mlir import arith, ir, memref, scf, terminator
from inferno.passes.affine import projection
from inferno.passes.shapes import shape
from inferno.symbolic import Int, product


class Scan:
    """A scan along ``dim``, understood; the same face as ``Nest``."""

    partial_sizes: Sequence = ()
    results: Sequence = ()

    def __init__(self, op: ir.Operation, combiner: str | None, running: ir.Type) -> None:
        self.op, self._combiner, self._running = op, combiner, running
        self.block = op.regions[0].blocks[0]
        self._shape = shape(op.operands[0])
        self.numbers: Callable[[Int], ir.Value] | None = None  # as a Nest's
        self._dim = ir.IntegerAttr(op.attributes["dimension"]).value
        rank = len(self._shape)
        identity_map = ir.AffineMap.get_identity(rank)
        others = projection([d for d in range(rank) if d != self._dim], rank)
        self._source, self._target = (operand_of(op.operands[i], identity_map) for i in range(2))
        self._last = operand_of(op.operands[2], others)

    @property
    def extent(self) -> Int:
        return product(s for d, s in enumerate(self._shape) if d != self._dim) if 0 not in self._shape else 0

    @property
    def roots(self) -> list[ir.Value]:
        return list(dict.fromkeys(o.root for o in (self._source, self._target, self._last)))

    def emit(self, begin: ir.Value, end: ir.Value, flat: Callable, scalar: Callable, partials: Sequence[ir.Value] = ()) -> None:
        """The loops, at the insertion point; see ``Nest.emit``."""
        index = ir.IndexType.get()
        constant = lambda v: arith.constant(index, v) if isinstance(v, int) else self.numbers(v)  # noqa: E731
        rows = scf.ForOp(begin, end, constant(1))
        with ir.InsertionPoint(rows.body):
            number, at = rows.induction_variable, {}
            for d in reversed([d for d in range(len(self._shape)) if d != self._dim]):
                at[d] = arith.remui(number, constant(self._shape[d]))
                number = arith.divui(number, constant(self._shape[d]))

            def place(operand, along: ir.Value | None) -> ir.Value:
                total = constant(operand.offset)
                for d, stride in enumerate(operand.strides):
                    iv = at.get(d, along)
                    if stride != 0 and iv is not None:
                        total = arith.addi(total, arith.muli(iv, constant(stride)))
                return total

            length = self._shape[self._dim]
            if self._combiner is None:  # whatever the body computes of the running value and an element
                start = memref.load(flat(self._source.root), [place(self._source, constant(0))])
                memref.store(start, flat(self._target.root), [place(self._target, constant(0))])
                loop = scf.ForOp(constant(1), constant(length), constant(1), [start])
            else:
                start = identity(self._combiner, self._running)
                if self._combiner == "arith.addf":
                    start = arith.constant(self._running, ir.FloatAttr.get(self._running, -0.0))  # so that a row may begin with -0
                loop = scf.ForOp(constant(0), constant(length), constant(1), [start])
            with ir.InsertionPoint(loop.body):
                element = memref.load(flat(self._source.root), [place(self._source, loop.induction_variable)])
                value = self._step(loop.inner_iter_args[0], element, scalar)
                memref.store(narrow(value, element.type), flat(self._target.root), [place(self._target, loop.induction_variable)])
                scf.YieldOp([value])
            last = narrow(loop.results_[0], self._last.value.type.element_type)
            memref.store(last, flat(self._last.root), [place(self._last, None)])
            scf.YieldOp([])

    def _step(self, running: ir.Value, element: ir.Value, scalar: Callable) -> ir.Value:
        """The running value with one more element."""
        if self._combiner is None:
            return scalar(inline_body(self.block, [running, element])[0])
        term = scalar(inline_body(self.block, [None, element])[0])
        return combine(self._combiner, running, widen(term, self._running))


def read_scan(op: ir.Operation) -> Scan | None:
    """Understand a ``tm_tensor.scan`` on buffers; None for an exclusive one, or one of rows that may be empty whose body is no known combination."""
    inclusive = "inclusive" in op.attributes and ir.BoolAttr(op.attributes["inclusive"]).value
    block = op.regions[0].blocks[0]
    end = terminator(block)
    if not inclusive or len(op.operands) != 3 or root_of(op.operands[0]) in [root_of(v) for v in list(op.operands)[1:]]:
        return None
    combiner = take_combiner(block, end, 0, 0)
    element, length = ir.MemRefType(op.operands[1].type).element_type, shape(op.operands[0])[ir.IntegerAttr(op.attributes["dimension"]).value]
    if combiner is None and (not isinstance(length, int) or end.operands[0].type != element):
        return None
    erase_dead(block)
    scan = Scan(op, combiner, running_type(combiner, end.operands[0].type, element) if combiner is not None else element)
    return None if None in (scan._source, scan._target, scan._last) else scan
