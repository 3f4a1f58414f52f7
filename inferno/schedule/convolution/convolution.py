"""What a kernel that is a convolution computes, read off its indexing maps."""

from dataclasses import dataclass
from math import prod

from inferno.mlir import func, ir, owner, users
from inferno.passes.affine import linear
from inferno.passes.generics import REDUCTION, dims, is_copy, is_widening, kinds, maps, outputs
from inferno.passes.padding import zero_padding
from inferno.passes.programs import operations_in, root_of, VIEWS
from inferno.schedule.analysis.accesses import argument_index, filled
from inferno.window_limits import window_count

_ELEMENTS = ("f32", "f64", "bf16", "f16")
_FREE = ("arith.constant", "tensor.empty", "func.return", *VIEWS)


@dataclass(frozen=True)
class Convolution:
    """``out[n, g, f, o...] = start + sum of image[n, g, c, o * stride + k * dilation - padding...] * weight[g, f, c, k...]``, where the image is zero
    outside.

    ``image``, ``weight`` and ``start`` (None: zero) are numbers of the kernel's arguments; the result goes to its last one.  The
    shapes have groups and channels, or groups and features, in one dimension.  ``bias``: ``start`` has a number for each feature of a group, not a
    tensor of the result's shape.  ``image_lies``, ``weight_lies`` and ``result_lies``: how each lies in memory.
    """

    image: int
    weight: int
    start: int | None
    bias: bool
    image_shape: tuple[int, ...]
    weight_shape: tuple[int, ...]
    image_lies: "Lies"
    weight_lies: "Lies"
    result_lies: "Lies"
    groups: int
    strides: tuple[int, ...]
    padding: tuple[int, ...]
    dilations: tuple[int, ...]

    @property
    def multiplications(self) -> int:
        sizes = zip(self.image_shape[2:], self.weight_shape[2:], self.strides, self.padding, self.dilations)
        return self.image_shape[0] * prod(window_count(*each) for each in sizes) * prod(self.weight_shape)


@dataclass(frozen=True)
class Lies:
    """The sizes of a tensor's dimensions in the order in which they lie in memory, and which of them is each of those above: batches, groups and
    channels, or groups and features, windows or places."""

    sizes: tuple[int, ...]
    order: tuple[int, ...]


def parse_convolution(kernel: func.FuncOp) -> Convolution | None:
    """The convolution that ``kernel`` is; None for anything else.  Its image must lie as (n, g, c, ...) or (n, ..., g, c), each without what is one, its
    weight and its result in any order; it may start from zero, from a tensor of the result's shape, or from one of (g, f), and pad the image with as many
    zeros in front of a dimension as behind it."""
    operations = operations_in(kernel)
    op = owner(operations[-1].operands[0]) if len(kernel.type.results) == 1 else None
    if op is None or op.name != "linalg.generic" or len(op.operands) != 3 or len(op.results) != 1:
        return None
    pad = _padded(op.operands[0])
    image, weight = (argument_index(kernel, root_of(v)) for v in (op.operands[0] if pad is None else pad.operands[0], op.operands[1]))
    last = len(kernel.type.inputs) - 1
    begin = _start(kernel, outputs(op)[0], last)
    if None in (image, weight) or begin is None or not _multiplies_and_adds(op):
        return None
    known = [op, *begin.operations, *([pad, *users(pad.results[0])] if pad is not None else [])]
    if any(o not in known and o.name not in _FREE for o in operations):
        return None
    types = [ir.RankedTensorType(v.type) for v in op.operands]
    if not all(t.has_static_shape and 0 not in t.shape for t in types) or str(types[0].element_type) not in _ELEMENTS:
        return None
    if types[0].element_type != types[1].element_type:
        return None
    if begin.biased is not None and ir.RankedTensorType(kernel.type.inputs[begin.argument]).element_type != types[0].element_type:
        return None  # torch takes no bias of another type
    return _read_maps(op, types, image, weight, begin, pad)


def _padded(value: ir.Value) -> ir.Operation | None:
    """The ``tensor.pad`` whose copy a value is, if it pads with zeros."""
    copy = owner(root_of(value))
    pad = owner(copy.operands[0]) if copy is not None and copy.name == "linalg.copy" else None
    return pad if zero_padding(pad) is not None and len(list(users(pad.results[0]))) == 1 else None


@dataclass(frozen=True)
class _Start:
    """What sums begin with: an argument, by number, or zero (None), of the result's shape, or of ``biased`` elements, each for as many neighbours as
    ``lines`` says; and what makes it that."""

    argument: int | None
    operations: tuple[ir.Operation, ...]
    biased: int | None = None
    lines: int = 1


def _start(kernel: func.FuncOp, value: ir.Value, last: int) -> _Start | None:
    op = owner(value)
    if op is None or len(op.operands) < 2 or argument_index(kernel, op.operands[1]) != last:
        return None
    constant = filled(value)
    if constant is not None:
        return _Start(None, (op,)) if constant.value == 0 else None
    made = owner(root_of(op.operands[0])) if op.name == "linalg.copy" else None
    source = root_of(op.operands[0] if made is None else made.operands[0])
    argument = argument_index(kernel, source) if op.name == "linalg.copy" else None
    if argument is None or made is None:
        return _Start(argument, (op,)) if argument is not None else None
    read, shape = dims(maps(made)[0]) if is_copy(made) or is_widening(made) else None, list(made.results[0].type.shape)
    if read is None or read != list(range(read[0], read[0] + len(read)) if read else []) or maps(made)[1] != ir.AffineMap.get_identity(len(shape)):
        return None
    end = read[0] + len(read) if read else 0
    return _Start(argument, (op, made), prod(shape[d] for d in read), prod(shape[end:]))


def _multiplies_and_adds(op: ir.Operation) -> bool:
    """``acc + a * b``, the factors at most extended."""
    block = op.regions[0].blocks[0]
    names = [o.operation.name for o in block.operations]
    if [n for n in names if n != "arith.extf"] != ["arith.mulf", "arith.addf", "linalg.yield"]:
        return False
    multiply, add = (next(o.operation for o in block.operations if o.operation.name == n) for n in ("arith.mulf", "arith.addf"))
    made = {v for v in multiply.operands if not isinstance(v, ir.BlockArgument)}
    if any(v.owner.operation.name != "arith.extf" for v in made):  # a number
        return False
    factors = [v.owner.operation.operands[0] if v in made else v for v in multiply.operands]
    sums = {block.arguments[2], multiply.results[0]}
    return {f for f in factors} == set(list(block.arguments)[:2]) and set(add.operands) == sums and \
        block.operations[len(names) - 1].operands[0] == add.results[0]


def _read_maps(op: ir.Operation, types: list, image: int, weight: int, start: _Start, pad: ir.Operation | None) -> Convolution | None:
    """Dimensions of one element have no loop: a batch of one, one channel, a window one wide.  ``x``, ``w`` and ``out`` are in order of memory."""
    kind, (x, w, out) = kinds(op), [_exprs(m, len(kinds(op))) for m in maps(op)]
    if None in (x, w, out):
        return None
    walked, made = [_dim(e) for e in w], [_dim(e) for e in out]
    if None in walked or None in made:
        return None
    sizes = {**dict(zip(walked, types[1].shape)), **dict(zip(made, types[2].shape))}
    roles = {d: (d in walked, d in made) for d in sizes}
    order = _channels_first([_dim(e) for e in x], roles)
    x = [x[i] for i in order]
    heads = [_dim(e) for e in x]

    def leading(begin: int, role: tuple[bool, bool], most: int) -> list[int]:
        """The dimensions from ``begin`` on, ``most`` at most, that weights and results have as ``role`` says."""
        end = begin
        while end < min(len(heads), begin + most) and heads[end] is not None and roles.get(heads[end]) == role:
            end += 1
        return heads[begin:end]

    batch = leading(0, (False, True), len(heads))
    groups = leading(len(batch), (True, True), 1)
    channels = leading(len(batch) + len(groups), (True, False), 1)
    first = len(batch) + len(groups) + len(channels)
    spatial = [_window(e, roles) for e in x[first:]]
    if not 1 <= len(spatial) <= 3 or None in spatial or all(d is not None for d in heads[first:]):
        return None
    features = [d for d in walked if roles[d] == (True, True) and d not in groups]
    windows, places = [s.window for s in spatial if s.window is not None], [s.place for s in spatial if s.place is not None]
    weights, results = [*groups, *features, *channels, *windows], [*batch, *groups, *features, *places]
    if len(features) > 1 or sorted(walked) != sorted(weights) or sorted(made) != sorted(results):
        return None
    loops = [*batch, *groups, *features, *channels, *windows, *places]
    if sorted(loops) != list(range(len(kind))) or {d for d, k in enumerate(kind) if k == REDUCTION} != {*channels, *windows}:
        return None
    lies = Lies(tuple(types[0].shape), tuple(order))
    tail, ends = [lies.sizes[i] for i in order[first:]], [0] * len(spatial)
    if pad is not None:
        low, high = (_of_image(part, list(pad.results[0].type.shape), lies) for part in zero_padding(pad))
        if low is None or low != high or any(low[:first]):
            return None
        ends = low[first:]
    each = [(size - 2 * p, 1 if s.window is None else sizes[s.window], s.stride, p, s.dilation) for size, s, p in zip(tail, spatial, ends)]
    if [window_count(*e) for e in each] != [1 if s.place is None else sizes[s.place] for s in spatial]:
        return None  # the image is larger than the windows reach
    n, g, f, c = (prod(sizes[d] for d in part) for part in (batch, groups, features, channels))
    own = [made.index(d) for d in (*groups, *features)]
    if start.biased is not None and g * f > 1 and (own != list(range(own[0], own[0] + len(own))) or start.lines != prod(sizes[d] for d in made[own[-1] + 1:])):
        return None
    if start.biased is not None and start.biased != g * f:
        return None
    tail, windows_, strides, padding, dilations = zip(*each)
    unpadded = dict(zip(order[first:], tail))
    return Convolution(
        image, weight, start.argument, start.biased is not None, (n, g * c, *tail), (g * f, c, *windows_),
        Lies(tuple(unpadded.get(i, size) for i, size in enumerate(lies.sizes)), lies.order),
        Lies(tuple(types[1].shape), tuple(walked.index(d) for d in weights)), Lies(tuple(types[2].shape), tuple(made.index(d) for d in results)),
        g, strides, padding, dilations)


def _channels_first(heads: list[int | None], roles: dict[int, tuple[bool, bool]]) -> list[int]:
    """The image's dimensions in order, by number in memory: groups and channels, which weights have too, are in front of where windows are."""
    moving = [i for i, d in enumerate(heads) if d is None]
    if not moving or any(roles.get(d, (False,))[0] for d in heads[:moving[0]]):
        return list(range(len(heads)))
    behind = [i for i in range(moving[-1] + 1, len(heads)) if roles.get(heads[i], (False,))[0]]
    return [*range(moving[0]), *behind, *(i for i in range(moving[0], len(heads)) if i not in behind)]


def _of_image(ends: list[int], shape: list[int], lies: Lies) -> list[int] | None:
    """What a tensor of ``shape``, which is the image reshaped, has at one end of each of its dimensions, by the image's in order."""
    found = [0] * len(lies.sizes)
    for dim, end in enumerate(ends):
        if end:
            behind = prod(shape[dim + 1:])
            same = [i for i, size in enumerate(lies.sizes) if size == shape[dim] and prod(lies.sizes[i + 1:]) == behind]
            if not same:
                return None
            found[same[0]] = end
    return [found[i] for i in lies.order]


@dataclass(frozen=True)
class _Spatial:
    """``place * stride + window * dilation``, loops' numbers; None for one of one element."""

    place: int | None
    window: int | None
    stride: int
    dilation: int


def _window(expr: tuple, roles: dict[int, tuple[bool, bool]]) -> _Spatial | None:
    coefficients, constant = expr
    used = {roles.get(d): d for d, v in enumerate(coefficients) if v}
    place, window = used.get((False, True)), used.get((True, False))
    found = [d for d in (place, window) if d is not None]
    if constant or len(found) != sum(v != 0 for v in coefficients) or any(coefficients[d] < 1 for d in found):
        return None
    return _Spatial(place, window, coefficients[place] if place is not None else 1, coefficients[window] if window is not None else 1)


def _exprs(map_: ir.AffineMap, dims: int) -> list | None:
    found = [linear(e, dims) for e in map_.results]
    return None if any(f is None for f in found) else found


def _dim(part) -> int | None:
    coefficients, constant = part
    used = [d for d, v in enumerate(coefficients) if v]
    return used[0] if not constant and len(used) == 1 and coefficients[used[0]] == 1 else None
