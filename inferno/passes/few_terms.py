"""Which reductions of few terms are better recomputed by their readers, for each point, than computed by a kernel of their own.

Four kinds are. Sums over what is spread, as the distances of all pairs of points in space: the terms are made of far fewer numbers than there are sums, and
a sum that is written and read takes longer than its few terms. And sums or extrema over planes, as the gray of an image's colors, or over neighbouring rows,
as tokens that are pooled: who goes over the same points reads each plane once, as the reduction would. So does a total over the points of a few columns, as
a loss of boxes: sums of their rows are made of the same. And sums of blocks of rows, whoever reads them.
"""

from math import prod

from inferno.mlir import ir, owner, users, walk
from inferno.passes.contraction import ended_contraction, is_convolution, is_sum_of_products
from inferno.passes.generics import REDUCTION, dims, inputs, is_elementwise, is_generic, is_reduction, kinds, loop_sizes, maps, outputs

_MOST = 8  # terms
# Of blocks of rows, whose sums a block of threads has for few neighbours: the gradient of an image with channels last that was enlarged, sums of 2x2 of
# 12x64x64x16, took an H200 15.5 us in float32 and 18.4 in bf16, and 1.2 in bf16 as maps; to channels first 19.5 and 1.6.
_MOST_OF_BLOCKS = 16
_SPREAD = 4  # sums that each of the numbers is in, at least
_COLUMNS, _DEPTH = 4, 4  # terms of a row, and maps between it and columns
_TINY = 16  # times fewer numbers than sums, as a weight for each plane


def few_terms(op: ir.Operation) -> list[int] | None:
    """The loops that an operation on tensors of known sizes reduces, if it has few terms."""
    if not is_generic(op) or not all(t.has_static_shape for t in (v.type for v in op.operands) if isinstance(t, ir.RankedTensorType)):
        return None
    reduced, sizes = [d for d, k in enumerate(kinds(op)) if k == REDUCTION], loop_sizes(op)
    if not all(isinstance(n, int) for n in sizes) or any(dims(m) is None for m in maps(op)):
        return None
    return reduced if 1 < prod(sizes[d] for d in reduced) <= (_MOST if len(reduced) == 1 else _MOST_OF_BLOCKS) else None


def loops_of_few(op: ir.Operation) -> list[int] | None:
    """The loops of a reduction of few terms that its readers should compute."""
    loops = few_terms(op)
    if loops is None or len(op.results) != 1 or is_convolution(op) or walk(op, "linalg.index", "tensor.extract", "scf.if"):
        return None
    start, order = owner(outputs(op)[0]), dims(maps(op)[-1])
    if start is None or start.name != "linalg.fill" or order != sorted(order):
        return None
    if _is_spread(op, loops) and _meets_maps(op):
        return loops
    if _is_of_columns(op, loops) and _meets_maps(op) and any(is_reduction(r) for r in _readers(op.results[0])):
        return loops
    return loops if _is_of_planes(op, loops) and (_is_of_blocks(op, loops) or _has_equal_readers(op)) else None


def _terms(op: ir.Operation, loops: list[int]) -> list[tuple[ir.Value, list[int]]]:
    """The tensors that have another element for each term, and the loops that read them."""
    return [(v, read) for v, m in zip(inputs(op), maps(op)) if not set(loops).isdisjoint(read := dims(m))]


def _points(op: ir.Operation) -> int:
    return prod(op.results[0].type.shape)


def _is_spread(op: ir.Operation, loops: list[int]) -> bool:
    """Whether each number that terms are made of is in several sums.  Products of matrices are other kernels'."""
    count, own = prod(loop_sizes(op)[d] for d in loops), [v for v, _ in _terms(op, loops)]
    return bool(own) and not is_sum_of_products(op) and all(_SPREAD * prod(v.type.shape) <= count * _points(op) for v in own)


def _is_of_planes(op: ir.Operation, loops: list[int]) -> bool:
    """Whether terms are those of planes, with a weight for each plane, or for each row of one, or without."""
    own, points = _terms(op, loops), _points(op)
    planes = [(v, read) for v, read in own if len(read) == len(kinds(op))]
    if not planes or any(read[-1] in loops for _, read in planes):
        return False
    return all(len(read) == len(kinds(op)) or _TINY * prod(v.type.shape) <= points for v, read in own)


def _is_of_blocks(op: ir.Operation, loops: list[int]) -> bool:
    """Whether the rows are those of a block, or the sums of its rows, as an extremum over several dimensions is that of extrema."""
    if len(loops) > 1:
        return True
    makers = [made for v, _ in _terms(op, loops) if (made := owner(v)) is not None and is_reduction(made)]
    inner = [prod(loop_sizes(made)[d] for d in own) for made in makers if (own := few_terms(made)) is not None]
    return any(loop_sizes(op)[loops[0]] * count <= _MOST_OF_BLOCKS for count in inner)


def _is_of_columns(op: ir.Operation, loops: list[int]) -> bool:
    """Whether terms are rows of up to four numbers, of which others read columns: a row lies in a sector of memory, as the sides of a box.  (What maps make of
    such sums a kernel of rows makes as well, but no total of all rows.)"""
    own, loop = _terms(op, loops), loops[-1]
    if len(loops) > 1 or not own or loop_sizes(op)[loop] > _COLUMNS or not all(read[-1] == loop and len(read) == len(kinds(op)) for _, read in own):
        return False
    return not is_sum_of_products(op) and all(_has_columns(v, _DEPTH) for v, _ in own)


def _has_columns(value: ir.Value, depth: int) -> bool:
    """Whether single columns of a tensor are read, of what it is a part of, or of what maps make of it row by row."""
    made = owner(value)
    if made is not None and made.name == "tensor.extract_slice" and _has_columns(made.operands[0], depth):
        return True
    for user in _readers(value):
        if user.name == "tensor.extract_slice" and len(user.operands) == 1 and _is_column(user):
            return True
        same = is_elementwise(user) and len(user.results) == 1 and user.results[0].type.shape == value.type.shape
        if same and depth and _has_columns(user.results[0], depth - 1):
            return True
    return False


def _is_column(cut: ir.Operation) -> bool:
    """Whether a slice has one element of the last dimension, of several."""
    whole, sizes = list(cut.operands[0].type.shape), list(ir.DenseI64ArrayAttr(cut.attributes["static_sizes"]))
    return len(whole) > 1 and 1 < whole[-1] and sizes[-1] == 1 and sizes[:-1] == whole[:-1]


def _readers(value: ir.Value) -> list[ir.Operation]:
    """Operations of the program that read a value, by their bodies or without."""
    found = []
    for user in users(value):
        while user.parent is not None and user.parent.name != "func.func":
            user = user.parent.operation
        found.append(user)
    return found


def _meets_maps(op: ir.Operation) -> bool:
    """Whether all that reads an operation's result, beside its being returned, are maps and reductions of as many points, which may compute what they read."""
    readers = [r for r in _readers(op.results[0]) if r.name != "func.return"]
    return bool(readers) and all(_computes(r) and _reads_each(r, op.results[0]) for r in readers)


def _computes(reader: ir.Operation) -> bool:
    return is_generic(reader) and (is_elementwise(reader) or not is_sum_of_products(reader)) and ended_contraction(reader) is None


def _reads_each(reader: ir.Operation, value: ir.Value) -> bool:
    """Whether an operation on tensors of known sizes reads each element of a value at one of its points."""
    read, sizes = [dims(m) for v, m in zip(inputs(reader), maps(reader)) if v == value], loop_sizes(reader)
    return len(read) == 1 and read[0] is not None and all(isinstance(n, int) for n in sizes) and prod(sizes) == prod(value.type.shape)


def _has_equal_readers(op: ir.Operation) -> bool:
    """Whether all readers are maps of the same points, or the only one is a reduction of them: of each point they read the planes once.  What they make is
    not taken off the planes, which a kernel that goes over these does with the reduction."""
    readers, value = _readers(op.results[0]), op.results[0]
    if not all(is_generic(r) and (is_elementwise(r) or (len(readers) == 1 and _computes(r))) for r in readers):
        return False
    maps_ = [r for r in readers if value in inputs(r)]  # others gather elements of it
    return bool(maps_) and all(_reads_each(r, value) for r in maps_) and not _is_spread_later(maps_, _points(op))


def _is_spread_later(readers: list[ir.Operation], points: int) -> bool:
    """Whether operations of more points read what maps of so many make, or what maps of these do."""
    pending, seen = [v for r in readers if is_elementwise(r) for v in r.results], []
    while pending:
        value = pending.pop()
        for user in users(value):
            if not is_generic(user) or user in seen:
                continue
            sizes = loop_sizes(user)
            if not all(isinstance(n, int) for n in sizes) or prod(sizes) > points:
                return True
            seen.append(user)
            pending += user.results if is_elementwise(user) else []
    return False
