"""Stack the rows of an image that a window spans as channels, for images of few channels: a window is then contiguous in memory.

The first convolution of a network for images has 3 channels and windows of 3x3 or 7x7 taps.  The image ``[n, y, x, c]`` is written once as
``[n, p, x, (c, r)]``, with ``r`` going over the rows of the windows of the result's row ``p``, zeros around the image included.  What is left is a
convolution along ``x`` alone, and its windows, that overlap, are rows of a matrix: of 7x7x3 terms three times 128 bytes, of 3x3x3 once.
Zeros that fill the channels meet zeros in the window, so that what is not finite stays where it is; folding a stride into the channels, and filling the
window, would multiply zeros with pixels.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, inf

from inferno.mlir import arith, ir, linalg, owner, tensor, walk
from inferno.passes.affine import factors_in
from inferno.passes.contraction import CONVOLUTIONS, has_windows, pads_convolutions
from inferno.passes.convolution import is_small
from inferno.passes.expand_pieces import either, element_of
from inferno.passes.generics import PARALLEL, REDUCTION, body, build, clone_body, dims, index, inputs, kinds, knows_sizes, loop_sizes, maps, outputs, substitute
from inferno.passes.padding import padding
from inferno.passes.programs import MAIN, programs
from inferno.passes.shapes import function_of, shape
from inferno.passes.size_values import mixed
from inferno.symbolic import Int, hint, product

_WHOLE = 8  # elements of 16 bits in what the copy engine reads
_ROW = 128  # bytes of a row of its tiles
# Measured on an H200: microseconds of a launch, bytes and multiply-adds of windows on CUDA cores in one (32x3x224x224 to 32 features: 39.4), and
# rows of 7 x 8 channels that the copy engine reads (7 x 401408 in 160.5); guessed: rows of more bytes that overlap less.
_LAUNCH, _RATE, _MULTIPLIED, _OVERLAPPING, _ROWS = 2.0, 4.0e6, 8.8e6, 17.5e3, 28e3


@dataclass(frozen=True)
class _Form:
    """The loops of a convolution that are rows and columns of the result and of the window, and channels; the steps of the result's and of the
    window's rows.  Of the new channels, ``rows`` lie side by side for each of the image's."""

    p: int
    q: int
    r: int
    s: int
    c: int
    stride: int
    dilation: int
    low: tuple[int, ...]
    high: tuple[int, ...]
    rows: int
    channels: int


def stack_rows(module: ir.Module) -> None:
    """Rewrite those convolutions of ``@main`` in 16 bits, with channels last, that have less than 8 channels and two or three spatial dimensions, where an
    estimate says that it is faster.  Only modules with marked convolutions are changed."""
    if CONVOLUTIONS not in module.operation.attributes:
        return
    for main in programs(module)[:1]:
        if main.name.value == MAIN:
            for op in walk(main, "linalg.generic"):
                if has_windows(op) and knows_sizes(op) and (form := _form(op)) is not None and _is_faster(op, form):
                    _rewrite(op, form)


def _form(op: ir.Operation) -> _Form | None:
    image = inputs(op)[0]
    where, read, sizes = maps(op)[0].results, dims(maps(op)[1]), loop_sizes(op)
    if image.type.element_type.width != 16 or len(where) < 3 or read is None or len(read) < 3 or walk(op, "linalg.index"):
        return None
    steps = [factors_in(e, len(sizes)) for e in where]
    c, columns, rows = (steps[len(steps) - n] for n in (1, 2, 3))
    if not all(steps) or len(c) != 1 or len(columns) != 2 or len(rows) != 2:
        return None
    (c,) = c
    (q, s), (p, r) = (sorted(x, key=lambda d: kinds(op)[d] == REDUCTION) for x in (columns, rows))
    loops = (p, q, r, s, c)
    if [kinds(op)[d] for d in loops] != [PARALLEL] * 2 + [REDUCTION] * 3 or columns[s] != 1 or read[-2:] != [s, c] or r not in read:
        return None
    if len(set(loops)) < 5 or not all(isinstance(sizes[d], int) for d in loops) or sizes[c] >= _WHOLE or sizes[r] < 2 or sizes[s] < 2:
        return None
    low, high = ((0,) * len(where),) * 2
    if pads_convolutions(owner(image)):
        low, high = map(tuple, padding(owner(image)))
    channels = ceil(sizes[c] * sizes[r] / _WHOLE) * _WHOLE
    # Rows that divide the channels, if those can hold them: eight neighbours then are rows of one channel, or of two.
    apart = next((n for n in range(sizes[r], channels + 1) if channels % n == 0 and channels // n >= sizes[c]), sizes[r])
    return _Form(p, q, r, s, c, rows[p], rows[r], low, high, apart, channels)


def _is_faster(op: ir.Operation, form: _Form) -> bool:
    """Whether writing the image anew and multiplying matrices takes less than reading the image as it is, or with more channels."""
    sizes, image = loop_sizes(op), inputs(op)[0]
    points = hint(product(shape(op.results[0])))
    terms = product(n for n, k in zip(sizes, kinds(op)) if k == REDUCTION)
    pixels = hint(product(n for d, (n, k) in enumerate(zip(sizes, kinds(op))) if k == PARALLEL and d not in dims(maps(op)[1])))
    further = terms // (sizes[form.r] * sizes[form.s] * sizes[form.c])  # taps along a further dimension
    if is_small(sizes[form.c], terms):
        now = _LAUNCH + points * terms / _MULTIPLIED
    else:
        now = 2 * _LAUNCH + pixels * sizes[form.r] * further / _OVERLAPPING
    moved = 2 * (hint(product(shape(_source(image)))) + 2 * hint(product(_stacked(op, form))) + points)
    rows = pixels * ceil(sizes[form.s] * form.channels * 2 / _ROW) * further
    return 2 * _LAUNCH + max(moved / _RATE, rows / _ROWS) < (now if points > pixels else -inf)


def _source(image: ir.Value) -> ir.Value:
    return owner(image).operands[0] if pads_convolutions(owner(image)) else image


def _stacked(op: ir.Operation, form: _Form) -> list[Int]:
    """The shape of the image with rows stacked."""
    sizes, steps = loop_sizes(op), factors_in(maps(op)[0].results[-2], maps(op)[0].n_dims)
    width = (sizes[form.q] - 1) * steps[form.q] + sizes[form.s]
    return [*shape(inputs(op)[0])[:-3], sizes[form.p], width, form.channels]


def _rewrite(op: ir.Operation, form: _Form) -> None:
    sizes, (image, window) = loop_sizes(op), inputs(op)
    taps, channels = sizes[form.r], sizes[form.c]
    read = dims(maps(op)[1])
    at = read.index(form.r)
    source = _source(image)

    def of_channel(channel: ir.Value) -> tuple[ir.Value, ir.Value, list[ir.Value]]:
        """The row of the window, the image's channel, and what holds where there are such."""
        c, r = arith.divui(channel, index(form.rows)), arith.remui(channel, index(form.rows))
        return r, c, [*([_below(r, taps)] if form.rows > taps else []), *([_below(c, channels)] if form.channels > form.rows * channels else [])]

    def pixel(place: list[ir.Value]) -> ir.Value:
        r, c, inside = of_channel(place[-1])
        row = arith.addi(arith.muli(place[-3], index(form.stride)), arith.muli(r, index(form.dilation)))
        where = [arith.subi(x, index(n)) if n else x for x, n in zip([*place[:-3], row, place[-2]], form.low)]
        for d, x in enumerate(where):
            # What is in front of the first element is a huge number without a sign.
            if form.low[d] or form.high[d]:
                inside.append(_below(x, shape(source)[d]))
        return _where(inside, lambda: element_of(source, [*where, c], op), source)

    def weight(place: list[ir.Value]) -> ir.Value:
        r, c, inside = of_channel(place[-1])
        return _where(inside, lambda: element_of(window, [*place[:at], r, *place[at:-1], c], op), window)

    with ir.InsertionPoint(op), op.location:
        made = _made(_stacked(op, form), source, pixel, op)
        weights = _made([*(sizes[d] for d in read if d not in (form.r, form.c)), form.channels], window, weight, op)
        count = len(sizes) - 1
        loops = [ir.AffineDimExpr.get(d - (d > form.r)) for d in range(len(sizes))]
        where = list(maps(op)[0].results)
        where[-3] = ir.AffineDimExpr.get(form.p)
        kept = [ir.AffineDimExpr.get(d) for d in read if d != form.r]
        indexing = [ir.AffineMap.get(len(sizes), 0, where), ir.AffineMap.get(len(sizes), 0, kept), *maps(op)[2:]]
        new = build(
            [made, weights], outputs(op), [substitute(m, loops, count) for m in indexing], [k for d, k in enumerate(kinds(op)) if d != form.r],
            lambda a: clone_body(body(op), a), op.location,
        )
    op.results[0].replace_all_uses_with(new.results[0])
    op.erase()


def _below(x: ir.Value, size: int) -> ir.Value:
    return arith.cmpi(arith.CmpIPredicate.ult, x, index(size))


def _where(conditions: list[ir.Value], element: Callable[[], ir.Value], source: ir.Value) -> ir.Value:
    """An element where all conditions hold, zero elsewhere."""
    if not conditions:
        return element()
    every, type_ = conditions[0], source.type.element_type
    for condition in conditions[1:]:
        every = arith.andi(every, condition)
    zero = arith.constant(type_, 0.0)
    return either(every, element, lambda: zero, type_)


def _made(sizes: list[Int], source: ir.Value, element: Callable[[list[ir.Value]], ir.Value], op: ir.Operation) -> ir.Value:
    """A tensor of which each element is computed of its place."""
    out = tensor.EmptyOp(mixed(sizes, function_of(op)), source.type.element_type).result
    rank = len(sizes)
    fill = lambda _: [element([linalg.IndexOp(d).result for d in range(rank)])]  # noqa: E731
    return build([], [out], [ir.AffineMap.get_identity(rank)], [PARALLEL] * rank, fill, op.location).results[0]
