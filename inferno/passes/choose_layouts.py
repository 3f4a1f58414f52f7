"""Choose the layout (order of dimensions in memory) of every tensor of the program at once: channels last where there are convolutions.

A generic reads and writes tensors in any order by its maps, and what only moves data does so in any order; a transposition is left where
arguments, results, or what knows row-major tensors alone, meet the rest.
"""

from collections.abc import Sequence

from inferno.mlir import func, ir, owner, tensor, walk
from inferno.passes.affine import projection
from inferno.passes.contraction import CONVOLUTIONS, has_windows
from inferno.passes.convolution import Order, sums_taps
from inferno.passes.generics import PARALLEL, body, build, clone_body, dims, inputs, inverse, is_copy, is_generic, kinds, maps, substitute
from inferno.passes.movements import is_free, move, moves, order_before, remake, reshape, sources
from inferno.passes.orders import Orders, identity
from inferno.passes.programs import MAIN, programs
from inferno.passes.shapes import shape
from inferno.passes.size_values import mixed

# Of a generic, what ``build`` makes anew.
_OWN = ("indexing_maps", "iterator_types", "operandSegmentSizes", "linalg.memoized_indexing_maps")


def choose_layouts(module: ir.Module) -> None:
    """Rewrite ``@main`` so that its tensors lie in the orders that are best (see ``orders``).  A program without marked convolutions stays."""
    for main in programs(module)[:1] if CONVOLUTIONS in module.operation.attributes else ():
        if main.name.value == MAIN and len(main.regions[0].blocks) == 1:
            _Rewriter(main).run()


class _Rewriter:
    def __init__(self, main: func.FuncOp) -> None:
        for op in walk(main, "linalg.generic"):
            if has_windows(op):
                _read_whole(op)
                if sums_taps(op):
                    _read_as_made(op)
        self.main, self.orders = main, Orders(main)
        self.operations = [o.operation for o in main.regions[0].blocks[0].operations]
        self.new: dict[ir.Value, ir.Value] = {}  # in its order, each tensor that is not in row-major order
        self.converted: dict[tuple[ir.Value, Order], ir.Value] = {}

    def run(self) -> None:
        replaced = []
        for op in self.operations:
            with ir.InsertionPoint(op), op.location:
                if is_generic(op):
                    done = self._is_touched(op) and self._generic(op)
                elif moves(op):
                    done = any(v in self.orders.of for v in (*sources(op), op.results[0])) and self._movement(op)
                else:
                    done = self._leave(op)
            if done:
                replaced.append(op)
        for op in reversed(replaced):
            op.erase()

    def _is_touched(self, op: ir.Operation) -> bool:
        read = [v for o in walk(op) for v in o.operands]
        return any(v in self.orders.of for v in (*read, *op.results)) or op.results[0] in self.orders.convolutions

    def _get(self, value: ir.Value, order: Order) -> ir.Value:
        """A tensor in an order, at the insertion point."""
        given = self.orders.order(value)
        if given == order:
            return self.new.get(value, value)
        key = value, order
        if key not in self.converted:
            self.converted[key] = remake(value, order) if is_free(value) else _transposed(self.new.get(value, value), given, order, self.main)
        return self.converted[key]

    def _set(self, value: ir.Value, made: ir.Value) -> bool:
        if value in self.orders.of:
            self.new[value] = made
        else:
            value.replace_all_uses_with(made)
        return True

    def _leave(self, op: ir.Operation) -> bool:
        for inner in walk(op):
            for i, value in enumerate(inner.operands):
                if value in self.orders.of:
                    inner.operands[i] = self._get(value, identity(value))
        return False

    def _movement(self, op: ir.Operation) -> bool:
        order = self.orders.order(op.results[0])
        before = order_before(op, order)
        return self._set(op.results[0], move(op, [self._get(v, before) for v in sources(op)], order))

    def _generic(self, op: ir.Operation) -> bool:
        wanted = [self.orders.order(v) if isinstance(v.type, ir.RankedTensorType) else () for v in (*inputs(op), *op.results)]
        roles = self.orders.convolutions.get(op.results[0])
        if roles is not None:
            wanted = [roles.image, roles.weight, roles.result]
        values = [self._get(v, order) if order else v for v, order in zip(op.operands, wanted)]
        indexing = [_permuted(m, order) if order else m for m, order in zip(maps(op), wanted)]
        count = len(inputs(op))
        first = dims(indexing[count])
        if any(owner_of_index.parent != op for owner_of_index in walk(op, "linalg.index")) or first is None:
            loops = list(range(len(kinds(op))))
        else:
            rest = [d for d in range(len(kinds(op))) if d not in first]
            loops = [*first, *(d for d in rest if kinds(op)[d] == PARALLEL), *(roles.terms if roles else (d for d in rest if kinds(op)[d] != PARALLEL))]
        renamed = [ir.AffineDimExpr.get(d) for d in inverse(loops)]
        indexing = [substitute(m, renamed, len(loops)) for m in indexing]
        if is_copy(op) and indexing[0] == indexing[1] and values[0].type == values[1].type:
            return self._set(op.results[0], values[0])
        new = build(
            values[:count], values[count:], indexing, [kinds(op)[d] for d in loops], lambda a: clone_body(body(op), a, renamed), op.location,
        )
        for name in op.attributes:
            if name not in _OWN:
                new.attributes[name] = op.attributes[name]
        self._read_elements(new)
        for old, made in zip(op.results, new.results):
            self._set(old, made)
        return True

    def _read_elements(self, generic: ir.Operation) -> None:
        """Let the elements that a body reads by their places come from where they are now."""
        for op in walk(generic, "tensor.extract"):
            value, place = op.operands[0], list(op.operands)[1:]
            if value in self.orders.of:
                with ir.InsertionPoint(op), op.location:
                    found = tensor.extract(self.new[value], [place[d] for d in self.orders.of[value]])
                op.results[0].replace_all_uses_with(found)
                op.erase()
        with ir.InsertionPoint(generic):
            self._leave(generic)


def _read_whole(op: ir.Operation) -> None:
    """Let a convolution read all of an image of which ``trim-windows`` cut off what no window reaches: that is a copy, and none is needed where
    no loop of its own goes along the dimension."""
    image, cut = op.operands[0], owner(op.operands[0])
    if cut is None or cut.name != "tensor.extract_slice" or len(cut.operands) != 1 or not cut.operands[0].type.has_static_shape:
        return
    begins, steps = (list(ir.DenseI64ArrayAttr(cut.attributes[n])) for n in ("static_offsets", "static_strides"))
    whole, taken = list(cut.operands[0].type.shape), list(ir.DenseI64ArrayAttr(cut.attributes["static_sizes"]))
    kept = [n for n, t in zip(whole, taken) if n != 1 or t != 1]
    if any(begins) or any(s != 1 for s in steps) or len(kept) != image.type.rank:
        return
    if all(n == t or not isinstance(e, ir.AffineDimExpr) for n, t, e in zip(kept, image.type.shape, maps(op)[0].results)):
        with ir.InsertionPoint(op), op.location:
            op.operands[0] = reshape(cut.operands[0], kept)
        _read_whole(op)  # along one dimension after the other


def _read_as_made(op: ir.Operation) -> None:
    """Let an operation that takes its operands in any order read what they are transpositions of."""
    indexing = maps(op)
    for number in range(len(inputs(op))):
        while is_copy(made := owner(op.operands[number])) and all(m.is_permutation for m in maps(made)):
            read, order = list(indexing[number].results), inverse(dims(maps(made)[1]))
            indexing[number] = substitute(maps(made)[0], [read[d] for d in order], len(kinds(op)))
            op.operands[number] = inputs(made)[0]
    op.attributes["indexing_maps"] = ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in indexing])


def _permuted(map_: ir.AffineMap, order: Order) -> ir.AffineMap:
    results = list(map_.results)
    return ir.AffineMap.get(map_.n_dims, 0, [results[d] for d in order])


def _transposed(value: ir.Value, given: Order, wanted: Order, main: func.FuncOp) -> ir.Value:
    """A tensor that is in one order in another one."""
    sizes = shape(value)
    new = [sizes[given.index(d)] for d in wanted]
    if _large(given, given, sizes) == _large(wanted, given, sizes) and value.type.has_static_shape and 0 not in sizes:
        return reshape(value, new)
    out = tensor.EmptyOp(mixed(new, main.operation), value.type.element_type).result
    read = projection([wanted.index(d) for d in given], len(given))
    location = ir.Location.current
    return build([value], [out], [read, ir.AffineMap.get_identity(len(given))], [PARALLEL] * len(given), lambda a: [a[0]], location).results[0]


def _large(order: Order, given: Order, sizes: Sequence[int]) -> list[int]:
    """The dimensions that are not of size 1, in this order."""
    return [d for d in order if sizes[given.index(d)] != 1]


