"""In which layout (order of dimensions in memory) each tensor of a program is best stored.

Convolutions say what they want of image, weight and result; from there orders spread through what computes elements, reduces, or moves data, to
the next convolution.  The first that comes to a tensor holds.  Arguments and results of the program lie in row-major order.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from math import prod

from inferno.mlir import dim_of, func, ir, owner, users, walk
from inferno.passes.contraction import ends_of_convolution, is_convolution, is_sum_of_products
from inferno.passes.convolution import Order, Roles, has_phases, is_depthwise, is_pointwise, is_whole, loops_in, roles, sums_taps
from inferno.passes.generics import PARALLEL, body, inputs, is_copy, is_generic, kinds, maps
from inferno.passes.movements import is_free, moves, order_after, order_before, sources
from inferno.passes.programs import RESHAPES

Keys = list[int | None]
"""The loop behind each dimension of a tensor; None where there is none, or several."""


def identity(value: ir.Value) -> Order:
    """The order in which a tensor's dimensions are."""
    return tuple(range(value.type.rank))


class Orders:
    """``of``: the orders of tensors that are not in row-major order; ``convolutions``: the roles of each convolution's dimensions, by its result."""

    def __init__(self, main: func.FuncOp) -> None:
        self._operations = [o.operation for o in main.regions[0].blocks[0].operations]
        self.of: dict[ir.Value, Order] = {}
        self.convolutions: dict[ir.Value, Roles] = {}
        self._pending: deque[ir.Value] = deque()
        found = [op for op in self._operations if is_convolution(op)]
        in_any_order = [op for op in found if sums_taps(op)]
        found = [op for op in found if op not in in_any_order]
        if all(map(is_whole, found)):  # contractions read and write any order, and so the one that is returned
            found = [op for op in found if not _is_returned(op.results[0])]
        if all(is_whole(op) or is_depthwise(op) for op in found):  # which are read in the order that they are in already
            found = [op for op in found if is_whole(op) or not (_is_given(inputs(op)[0]) and _is_returned_in_order(op.results[0]))]
        if all(is_pointwise(op) and not has_phases(op) and _is_given(inputs(op)[0]) and _is_returned_in_order(op.results[0]) for op in found):
            found = []  # products of what lies as it is returned, in which rows and columns do not take turns
        for op in found:
            self._set(op.results[0], roles(op).result)
        for op in found:
            if not is_whole(op):
                self._assign(inputs(op)[0], roles(op).image)
        self._spread()
        for op in found:
            image, weight = inputs(op)
            self.convolutions[op.results[0]] = roles(op, self.of.get(image))
            self._assign(weight, self.convolutions[op.results[0]].weight)
        self._spread()
        for value in (v for op in in_any_order for v in inputs(op)):
            self._assign(value, self._as_made(value))
        self._spread()
        self._return_reshaped()
        self._spread()
        self._produce_where_needed()
        self.of = {v: order for v, order in self.of.items() if order != identity(v)}

    def order(self, value: ir.Value) -> Order:
        return self.of.get(value) or identity(value)

    def _set(self, value: ir.Value, order: Order) -> None:
        self.of[value] = order
        self._pending.append(value)

    def _assign(self, value: ir.Value, order: Order) -> None:
        """Let a tensor have an order, if none has come to it yet and what makes it can."""
        made = owner(value)
        if value in self.of or made is None or is_free(value):
            return
        if is_generic(made):
            fits = not is_sum_of_products(made)
        else:
            fits = moves(made) and order_before(made, order) is not None
        if fits:
            self._set(value, order)

    def _as_made(self, value: ir.Value) -> Order:
        """The order that a tensor has where nothing on the way from an argument to it, or from what has an order, is transposed."""
        path = [value]
        while path[-1] not in self.of and (made := owner(path[-1])) is not None:
            if is_generic(made) and not is_sum_of_products(made):
                read = [v for v in inputs(made) if isinstance(v.type, ir.RankedTensorType) and v.type.rank == path[-1].type.rank]
            else:
                read = sources(made) if moves(made) else []
            if not read:
                break
            path.append(read[0])
        order = self.order(path[-1])
        for source, result in zip(path[:0:-1], path[-2::-1]):
            made = owner(result)
            if is_generic(made):
                keys = dict(_reads(made))
                after = _derive(order, keys[source], keys[result], result.type.shape)
            else:
                after = order_after(made, order)
            order = after or identity(result)
        return order

    def _spread(self) -> None:
        while self._pending:
            value = self._pending.popleft()
            for op in {o.results[0]: o for o in (owner(value), *map(_outermost, users(value))) if len(o.results)}.values():
                if is_generic(op) and not is_sum_of_products(op):
                    self._through_generic(op, value)
                elif moves(op):
                    self._through_movement(op, value)

    def _through_generic(self, op: ir.Operation, value: ir.Value) -> None:
        found = list(_reads(op))
        keys = next((k for v, k in found if v == value), None)
        for other, its in found if keys is not None else ():
            if other != value and (order := _derive(self.of[value], keys, its, other.type.shape)) is not None:
                self._assign(other, order)

    def _through_movement(self, op: ir.Operation, value: ir.Value) -> None:
        result, order = op.results[0], self.of[value]
        if value == result:
            before = order_before(op, order)
        else:
            before, after = order, order_after(op, order)
            if after is None:
                return
            self._assign(result, after)
        for source in sources(op):
            if source.type.rank == len(before):
                self._assign(source, before)

    def _return_reshaped(self) -> None:
        """What is reshaped and then only transposed, as the program gives it back, is made in that order: a pixel shuffle of channels last is one
        transposition."""
        for op in filter(is_copy, self._operations):
            (value,), (read, written) = inputs(op), maps(op)
            made, given_back = owner(value), all(not len(u.results) for u in users(op.results[0]))
            if given_back and made is not None and made.name in RESHAPES and read.is_permutation and written.is_permutation:
                self._assign(value, tuple(list(read.results).index(e) for e in written.results))

    def _produce_where_needed(self) -> None:
        """Row-major order for what a generic makes for those alone who need that; not where it may become the end of a convolution's kernel,
        whose result lies as its reduction wants it, but for what is behind a tensor of its size that lies row-major, too."""
        for op in reversed(self._operations):
            if is_generic(op) and any(v in self.of and self._needs_row_major(v) for v in op.results):
                ends = ends_of_convolution(op)
                for value in (v for o in ([op] if ends is None else self._behind_row_major(ends)) for v in o.results if v in self.of):
                    del self.of[value]

    def _behind_row_major(self, ends: set[ir.Operation]) -> list[ir.Operation]:
        """Those of the ends of a convolution that read a tensor of their size in no other order, or what such have made: neighbours in the convolution's tiles
        are apart there (on an H200, bf16, 64 images of 3x20x20 to 256, silu and a sum: 54 us with it, 16 without, and 6 of a kernel that transposes)."""
        known: dict[ir.Operation, bool] = {}
        return [end for end in ends if self._is_behind_row_major(end, ends, known)]

    def _is_behind_row_major(self, end: ir.Operation, ends: set[ir.Operation], known: dict[ir.Operation, bool]) -> bool:
        if end not in known:
            makers = [made for made in map(owner, inputs(end)) if made is not None and made in ends]
            known[end] = self._reads_row_major(end) or any(self._is_behind_row_major(made, ends, known) for made in makers)
        return known[end]

    def _reads_row_major(self, op: ir.Operation) -> bool:
        """Whether an operation reads a tensor of its result's size that has no other order."""
        sizes = op.results[0].type
        given = [v.type for v in inputs(op) if isinstance(v.type, ir.RankedTensorType) and v not in self.of and not is_free(v)]
        return sizes.has_static_shape and any(t.has_static_shape and prod(t.shape) == prod(sizes.shape) for t in given)

    def _needs_row_major(self, value: ir.Value) -> bool:
        readers = [_outermost(u) for u in users(value)]
        return bool(readers) and all(not is_generic(o) and (not moves(o) or self.of.get(o.results[0]) in (None, identity(o.results[0]))) for o in readers)


def _is_returned(value: ir.Value) -> bool:
    """Whether a tensor is a result of the program, maybe moved, or with what else is computed of its elements alone."""
    while len(readers := [_outermost(u) for u in users(value)]) == 1 and len(readers[0].results) == 1:
        (op,) = readers
        if not (moves(op) or (is_generic(op) and not is_sum_of_products(op))):
            return False
        value = op.results[0]
    return len(readers) == 1 and not len(readers[0].results)


def _is_returned_in_order(value: ir.Value) -> bool:
    """Whether all that is made of a tensor is results of the program as they lie, maybe moved, or computed of its elements alone."""
    seen, pending = set(), [value]
    while pending:
        value = pending.pop()
        for op in (_outermost(u) for u in users(value)):
            if is_convolution(op) and sums_taps(op):
                continue
            if len(op.results) and not _keeps_order(op, value):
                return False
            pending += [r for r in op.results if r not in seen]
            seen.update(op.results)
    return True


def _is_given(value: ir.Value) -> bool:
    """Whether a tensor is an argument of the program as it lies, maybe moved, or what is computed of its elements alone."""
    while (made := owner(value)) is not None:
        read = sources(made) if moves(made) else inputs(made) if is_generic(made) and not is_sum_of_products(made) else []
        same = [v for v in read if isinstance(v.type, ir.RankedTensorType) and (v.type.rank == value.type.rank or made.name in RESHAPES)]
        if len(same) != 1 or not _keeps_order(made, same[0]):
            return False
        value = same[0]
    return True


def _keeps_order(op: ir.Operation, value: ir.Value) -> bool:
    """Whether what moves a tensor or computes with its elements goes along its dimensions in their order."""
    if not is_generic(op):
        return moves(op)
    known = dict(zip((*inputs(op), *op.results), maps(op)))
    return not is_sum_of_products(op) and value in known and known[value] == known[op.results[0]]

def _outermost(op: ir.Operation) -> ir.Operation:
    while op.parent is not None and op.parent.name != "func.func":
        op = op.parent.operation
    return op


def _reads(op: ir.Operation) -> Iterator[tuple[ir.Value, Keys]]:
    """The tensors that a generic reads and makes, with the loops that go along their dimensions."""
    for value, map_ in zip((*inputs(op), *op.results), maps(op)):
        if isinstance(value.type, ir.RankedTensorType):
            yield value, [_key(loops_in(e), op) for e in map_.results]
    for extract in walk(op, "tensor.extract"):
        yield extract.operands[0], [_key(_indices(v, op), op) for v in list(extract.operands)[1:]]


def _key(loops: Sequence[int], op: ir.Operation) -> int | None:
    parallel = [d for d in loops if kinds(op)[d] == PARALLEL]
    loops = list(dict.fromkeys(parallel or loops))
    return loops[0] if len(loops) == 1 else None


def _indices(value: ir.Value, op: ir.Operation) -> list[int]:
    """The loops whose numbers a place in a tensor is computed of."""
    found, pending, seen, own = [], [value], set(), list(body(op).arguments)
    while pending:
        value = pending.pop()
        made = owner(value)
        if value in seen:
            continue
        seen.add(value)
        if made is None and value in own:  # a table of places is read along these loops
            found += [d for e in maps(op)[own.index(value)].results for d in loops_in(e)]
        if made is None or made.parent is None or _outermost(made) != op:
            continue
        if made.name == "linalg.index":
            found.append(dim_of(made))
        pending += list(made.operands)
    return found


def _derive(order: Order, keys: Keys, others: Keys, sizes: Sequence[int]) -> Order | None:
    """The order of a tensor that loops go along as they go along one in ``order``; None where they do not go along all of its dimensions."""
    place = {keys[d]: i for i, d in reversed(list(enumerate(order))) if keys[d] is not None}
    places, last = [], -1
    for key, size in zip(others, sizes):
        if key in place:
            last = place[key]
        elif size != 1:
            return None
        places.append(last)
    return tuple(sorted(range(len(others)), key=places.__getitem__))
