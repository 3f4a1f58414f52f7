"""What a kernel that is a convolution computes, read off its indexing maps."""

from dataclasses import dataclass

from inferno.mlir import func, ir
from inferno.schedule.accesses import argument_index, filled, iterators, linear, maps, outputs

_ELEMENTS = ("f32", "f64", "bf16", "f16")


@dataclass(frozen=True)
class Convolution:
    """``out[n, g, f, o...] = start + sum of image[n, g, c, o * stride + k * dilation...] * weight[g, f, c, k...]``.

    ``image``, ``weight`` and ``start`` (None: zero) are numbers of the kernel's arguments; the result goes to its last one.  The
    shapes have groups and channels, or groups and features, in one dimension.
    """

    image: int
    weight: int
    start: int | None
    image_shape: tuple[int, ...]
    weight_shape: tuple[int, ...]
    groups: int
    strides: tuple[int, ...]
    dilations: tuple[int, ...]


def parse_convolution(kernel: func.FuncOp) -> Convolution | None:
    """The convolution that ``kernel`` is; None for anything else.  Its operands must lie as (n, [g,] c, ...) and (
    [g,] f, c, ...), its result as (n, [g,] f, ...), and it may start from zero or from a tensor of the result's shape."""
    operations = [o.operation for o in kernel.entry_block.operations]
    allowed = ("linalg.generic", "linalg.fill", "linalg.copy", "arith.constant", "func.return")
    generics = [o for o in operations if o.name == "linalg.generic"]
    if any(o.name not in allowed for o in operations) or len(generics) != 1 or len(kernel.type.results) != 1:
        return None
    op = generics[0]
    if len(op.operands) != 3 or len(op.results) != 1 or operations[-1].operands[0] != op.results[0]:
        return None
    image, weight = (argument_index(kernel, v) for v in list(op.operands)[:2])
    last = len(kernel.type.inputs) - 1
    begin = _start(kernel, outputs(op)[0], last)
    if None in (image, weight) or begin is None or not _multiplies_and_adds(op):
        return None
    types = [ir.RankedTensorType(v.type) for v in op.operands]
    if not all(t.has_static_shape and 0 not in t.shape for t in types) or str(types[0].element_type) not in _ELEMENTS:
        return None
    if types[0].element_type != types[1].element_type:
        return None
    return _read_maps(op, types, image, weight, None if begin == last else begin)


def _start(kernel: func.FuncOp, value: ir.Value, last: int) -> int | None:
    """``last`` for a fill with zero of the destination, the argument that is copied there, or None."""
    if isinstance(value, ir.BlockArgument):
        return None
    op = value.owner.operation
    if argument_index(kernel, op.operands[1]) != last:
        return None
    if op.name == "linalg.copy":
        return argument_index(kernel, op.operands[0])
    constant = filled(value)
    return last if constant is not None and constant.value == 0 else None


def _multiplies_and_adds(op: ir.Operation) -> bool:
    """``acc + a * b``, the factors at most extended."""
    block = op.regions[0].blocks[0]
    names = [o.operation.name for o in block.operations]
    if [n for n in names if n != "arith.extf"] != ["arith.mulf", "arith.addf", "linalg.yield"]:
        return False
    multiply, add = (next(o.operation for o in block.operations if o.operation.name == n) for n in ("arith.mulf", "arith.addf"))
    factors = [v if isinstance(v, ir.BlockArgument) else v.owner.operation.operands[0] for v in multiply.operands]
    sums = {block.arguments[2], multiply.results[0]}
    return {f for f in factors} == set(list(block.arguments)[:2]) and set(add.operands) == sums and \
        block.operations[len(names) - 1].operands[0] == add.results[0]


def _read_maps(op: ir.Operation, types, image: int, weight: int, start: int | None) -> Convolution | None:
    kinds, (x, w, out) = iterators(op), [_exprs(m, len(iterators(op))) for m in maps(op)]
    if None in (x, w, out):
        return None
    plain = lambda e: _dim(e)  # noqa: E731
    spatial = len(x) - next((i for i, e in enumerate(x) if _dim(e) is None), len(x))
    if not 1 <= spatial <= 3 or len(x) - spatial not in (2, 3):
        return None
    grouped = len(x) - spatial == 3
    heads = [plain(e) for e in x[: len(x) - spatial]], [plain(e) for e in w[: len(w) - spatial]], [plain(e) for e in out[: len(out) - spatial]]
    tails = [plain(e) for e in w[len(w) - spatial:]], [plain(e) for e in out[len(out) - spatial:]]
    if any(d is None for part in (*heads, *tails) for d in part) or len(heads[0]) != len(heads[2]) or len(heads[1]) != len(heads[0]):
        return None
    n, c, f = heads[0][0], heads[0][-1], heads[2][-1]
    groups = heads[0][1:2] if grouped else []
    if heads[0] != [n, *groups, c] or heads[1] != [*groups, f, c] or heads[2] != [n, *groups, f]:
        return None
    loops = [n, *groups, f, c, *tails[0], *tails[1]]
    if sorted(loops) != list(range(len(kinds))) or {d for d, k in enumerate(kinds) if k == "reduction"} != {c, *tails[0]}:
        return None
    strides, dilations = [], []
    for expr, k, o in zip(x[len(x) - spatial:], *tails):
        coefficients, constant = expr
        if constant or any(v for d, v in enumerate(coefficients) if d not in (k, o)) or min(coefficients[k], coefficients[o]) < 1:
            return None
        strides.append(coefficients[o])
        dilations.append(coefficients[k])
    a, b, result = (list(t.shape) for t in types)
    count = a[1] if grouped else 1
    head, tail = (a[0], count * a[2 if grouped else 1]), a[len(a) - spatial:]
    kernel_sizes, sizes = b[len(b) - spatial:], result[len(result) - spatial:]
    for size, window, wanted, s, d in zip(tail, kernel_sizes, sizes, strides, dilations):
        if (size - d * (window - 1) - 1) // s + 1 != wanted:
            return None  # the image is larger than the windows reach
    features = b[1] if grouped else b[0]
    return Convolution(
        image, weight, start, (*head, *tail), (count * features, b[-spatial - 1], *kernel_sizes), count, tuple(strides), tuple(dilations),
    )


def _exprs(map_: ir.AffineMap, dims: int) -> list | None:
    found = [linear(e, dims) for e in map_.results]
    return None if any(f is None for f in found) else found


def _dim(part) -> int | None:
    coefficients, constant = part
    used = [d for d, v in enumerate(coefficients) if v]
    return used[0] if not constant and len(used) == 1 and coefficients[used[0]] == 1 else None
