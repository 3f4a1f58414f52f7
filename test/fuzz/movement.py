"""Random programs that move data: every value is as wide as any type, and most lines take elements from places, put them there, order, pad, join or resize.

Where elements are put without being added their places are permutations, so that the result is one; indices depend on an input.
"""

import math

from hypothesis import strategies as st

from fuzz.programs import ALL_DTYPES, LAYOUTS, Input, Program
from fuzz.strategy import MOST_OUTPUTS, State

# More than one dimension of such sizes is seldom.
_SIZES = (1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 16, 17, 33)
_INDICES = 200  # elements of the input that places are made of
_MOST = 3000


def _dim(s: State, v: str) -> int:
    return s.integer(0, len(s.shape(v)) - 1)


def _ranked(s: State, least: int = 1, most: int = 9) -> str | None:
    return s.pick(lambda n: n != "i0" and least <= len(s.shape(n)) <= most)


def _filled(s: State, least: int = 1, most: int = 9) -> str | None:
    """One that has elements."""
    return s.pick(lambda n: n != "i0" and least <= len(s.shape(n)) <= most and s.values[n].numel() > 0)


def _is_real(s: State, n: str) -> bool:
    return not s.values[n].is_complex()


def _places(s: State, shape: tuple[int, ...], size: int) -> str:
    """Numbers below ``size``, of the input of indices; now and then counted from the end."""
    text = f"((i0[{s.integer(0, 7)}:][:{math.prod(shape)}] * {s.one(1, 3)} + {s.integer(0, 5)}) % {size}).reshape({shape})"
    return s.one(text, text, f"({text} - {size})") if size else text


def _whole(s: State, shape: tuple[int, ...], size: int) -> str:
    text = f"((i0[{s.integer(0, 7)}:][:{math.prod(shape)}] + {s.integer(0, 5)}) % {size}).reshape({shape})"
    return s.one(text, text, f"{text}.clone()")


def _orders(s: State, shape: tuple[int, ...], d: int) -> str:
    """A permutation of a dimension at each place of the others."""
    return f"i0[{s.integer(0, 7)}:][:{math.prod(shape)}].reshape({shape}).argsort({d}, stable=True)"


def _fits(s: State, v: str) -> bool:
    return s.values[v].numel() <= _INDICES - 8


def take(s: State) -> None:
    v = _filled(s)
    if not v:
        return
    d, shape = _dim(s, v), s.shape(v)
    count = s.one(1, 2, 5, 9)
    other = (*shape[:d], count, *shape[d + 1:])
    small = tuple(min(n, s.integer(1, 4)) if e != d else count for e, n in enumerate(shape))
    options = [f"{v}.index_select({d}, {_whole(s, (count,), shape[d])})", f"{v}[{':, ' * d}{_places(s, (count,), shape[d])}]",
               f"{v}[{':, ' * d}{_places(s, s.one((2, 2), (1, 3), (0, 2), (2, 1, 2)), shape[d])}]", f"torch.take({v}, {_places(s, (3, 2), math.prod(shape))})",
               f"torch.gather({v}, {d}, {_whole(s, small, shape[d])})", f"{v}[[{', '.join(str(s.integer(-shape[0], shape[0] - 1)) for _ in range(3))}]]",
               f"{v}[..., {_places(s, (1,), shape[-1])}]"]
    none = [()] if s.varies else []  # an index without dimensions is a number that depends on a value
    options += [f"{v}[..., {_places(s, shape_, shape[-1])}]" for shape_ in none]
    if math.prod(other) < _INDICES - 8:
        options += [f"torch.gather({v}, {d}, {_whole(s, other, shape[d])})", f"torch.take_along_dim({v}, {_places(s, other, shape[d])}, {d})"]
    if len(shape) > 1:
        e = s.integer(0, len(shape) - 2)
        i, j = _places(s, s.one((3,), (2, 1), (1, 2)), shape[e]), _places(s, s.one((3,), (1,), (2, 1), *none), shape[e + 1])
        k = _places(s, (3,), shape[-1])
        options += [f"{v}[{':, ' * e}{i}, {j}]", f"{v}[{_places(s, (3,), shape[0])}, ..., {k}]", f"{v}[{_places(s, (3,), shape[0])}, 1:, ...]"]
    s.emit(s.one(*options), (v, "i0"))


def put(s: State) -> None:
    """Single elements and rows, put or added."""
    v = _filled(s)
    if not v or not _fits(s, v):
        return
    d, shape = _dim(s, v), s.shape(v)
    exact = not s.is_float(v) and _is_real(s, v)
    part = tuple(s.integer(1, n) for n in shape)
    cut, line = ", ".join(f":{n}" for n in part), (*shape[:d], part[d], *shape[d + 1:])
    order, place = f"{_orders(s, shape, d)}[{cut}]", f"{_whole(s, part, shape[d])}"
    other = s.one(v, f"{v}.flip({d})", f"{v}.roll(1, {d})", f"{v}.contiguous()")
    few, rows = f"{_orders(s, (shape[d],), 0)}[:{part[d]}]", f"{other}.narrow({d}, 0, {part[d]})"
    index = ":, " * d
    moved = [
        f"{v}.scatter({d}, {order}, {other})", f"{v}.scatter({d}, {order}, {other}[{cut}])", f"{v}.scatter({d}, {place}, {s.one(0, 1, 2)})",
        f"{v}.index_copy({d}, {few}, {rows})", f"{v}.index_fill({d}, {few} - {shape[d]}, {s.one(0, 1)})",
        f"torch.zeros_like({v}).index_put(({few if d == 0 else _orders(s, (shape[0],), 0)},), {v}[:{part[d] if d == 0 else shape[0]}])",
        f"{v}.masked_scatter(({_whole(s, shape, 3)}) > 0, {other})", f"{v}.select_scatter({other}.select({d}, 0), {d}, {shape[d] - 1})",
        f"{v}.slice_scatter({other}.narrow({d}, 0, {-(-shape[d] // 2)}), {d}, 0, {shape[d]}, 2)", f"{v}.put({_orders(s, (math.prod(shape),), 0)}, {other})",
    ]
    if len(shape) > 1:
        moved += [f"{v}.diagonal_scatter({other}.diagonal({s.integer(-1, 1)}).mul(1), {s.integer(-1, 1)})",
                  f"{v}.index_put(({_orders(s, (shape[0],), 0)}, {_places(s, (shape[0],), shape[1])}), {other}[:, 0])"]
    added = [
        f"{v}.index_add({d}, {_whole(s, (part[d],), shape[d])}, {rows})", f"{v}.scatter_add({d}, {place}, {other})",
        f"{v}.index_put(({_places(s, (part[0],), shape[0])},), {v}[:{part[0]}], accumulate=True)",
        f"{v}.index_put(({_places(s, (3, 2), shape[0])},), {v}[:1], accumulate=True)", f"torch.zeros_like({v}).scatter_add({d}, {place}, {other}[{cut}])",
        f"{v}.put({_places(s, (part[0],), math.prod(shape))}, {v}.reshape(-1)[:{part[0]}], accumulate=True)",
        f"{v}.scatter_reduce({d}, {place}, {other}, '{s.one('sum', 'mean')}', include_self={s.one(True, False)})",
        f"{v}.index_add({d}, {_whole(s, (part[d],), shape[d])}, {rows}, alpha={s.one(1, 2)})",
    ]
    if len(shape) > 1:
        i, j = _places(s, (3,), shape[0]), _places(s, s.one((3,), (1,), (2, 1)), shape[1])
        added += [f"{v}.index_put(({i}, {j}), {v}.reshape(-1)[:1], accumulate=True)"]
        added += [f"{v}.index_put((None, {_places(s, (2,), shape[1])}), {v}[:, :1], accumulate=True)"]
    best = [f"{v}.scatter_reduce({d}, {place}, {other}, '{s.one('amax', 'amin')}', include_self={s.one(True, False)})",
            f"{v}.index_reduce({d}, {_whole(s, (part[d],), shape[d])}, {rows}, '{s.one('amax', 'amin')}', include_self={s.one(True, False)})"]
    kind = s.one(moved, moved, added, best)
    _ = line, index
    s.emit(s.one(*kind), (v, "i0"), exact=None if kind is not added or exact else False)


def masked(s: State) -> None:
    v = _ranked(s)
    if not v:
        return
    c = s.pick(lambda n: s.is_bool(n) and s.shape(n) == s.shape(v))
    mask, used = (c, (v, c)) if c else (f"(torch.arange({s.shape(v)[-1]}) % 3 > 0)", (v,))
    w = s.pick(lambda n: s.shape(n) == s.shape(v) and s.values[n].dtype == s.values[v].dtype)
    s.emit(s.one(f"{v}.masked_fill({mask}, {s.one(0, 1)})", f"torch.where({mask}, {v}, {w})", f"torch.where({mask}, {v}, {v}.flip(-1))",
                 f"{v}.masked_fill({mask}, 1).masked_fill(~{mask}, 0)"), (*used, w))


def cut(s: State) -> None:
    v = _ranked(s)
    if not v:
        return
    parts = []
    for n in s.shape(v):
        begin, end = s.integer(0, max(0, n - 1)), s.integer(-2, n + 1)
        parts.append(s.one(":", ":", f"{begin}:", f"{begin}::{s.integer(1, 3)}", f"-{begin + 1}:", f":{end}:2", f"{begin}:{begin + 1}", str(begin)))
    if s.one(True, False, False):
        parts.insert(s.integer(0, len(parts)), "None")
    s.emit(f"{v}[{', '.join(parts)}]", (v,))


def turn(s: State) -> None:
    v = _ranked(s)
    if not v:
        return
    rank, shape = len(s.shape(v)), s.shape(v)
    d, e = _dim(s, v), _dim(s, v)
    dims = s.draw(st.lists(st.integers(0, rank - 1), min_size=1, max_size=rank, unique=True))
    shifts = [s.integer(-9, 9) for _ in dims]
    options = [f"{v}.flip({dims})", f"{v}.roll({shifts}, {dims})", f"{v}.roll({s.integer(-4, 9)})", f"{v}.transpose({d}, {e})", f"{v}.movedim({d}, {e})",
               f"{v}.permute({s.draw(st.permutations(range(rank)))})", f"{v}.unfold({d}, {s.integer(1, max(1, shape[d]))}, {s.one(1, 2, 3)})",
               f"{v}.repeat_interleave({s.one(2, 3)}, {d})", f"{v}.repeat({[s.one(1, 1, 2) for _ in range(rank + s.one(0, 1))]})",
               f"{v}.unsqueeze({d}).expand({[*shape[:d], s.one(1, 2, 3), *shape[d:]]})", f"{v}.tile(2)", f"{v}.flatten({min(d, e)}, {max(d, e)})",
               f"{v}.contiguous()", f"{v}.T if {rank} == 2 else {v}.mT"]
    if rank > 1:
        first, second = dims[0], (dims[0] + 1) % rank
        options += [f"torch.rot90({v}, {s.integer(-1, 3)}, ({first}, {second}))", f"{v}.diagonal({s.integer(-2, 2)}, {first}, {second})",
                    f"torch.{s.one('tril', 'triu')}({v}, {s.integer(-3, 3)})"]
    if rank < 3:
        options += [f"torch.diag_embed({v}, {s.integer(-1, 1)})"]
    if rank == 1:
        options += [f"torch.diag({v})", f"torch.block_diag({v}, {v}.flip(0))"]
    size = s.values[v].numel()
    factors = [f for f in (1, 2, 3, 4, 5, 7, 8) if size and size % f == 0]
    if factors:
        f = s.one(*factors)
        g = s.one(*[g for g in factors if size // f % g == 0])
        options += [f"{v}.reshape({f}, {g}, -1)", f"{v}.reshape(-1, {f})", f"{v}.reshape({f}, {size // f // g}, {g}).transpose(0, 2)"]
    s.emit(s.one(*options), (v,))


def join(s: State) -> None:
    v = _ranked(s)
    if not v:
        return
    d, shape = _dim(s, v), s.shape(v)
    w = s.pick(lambda n: len(s.shape(n)) == len(shape) and s.shape(n)[:d] + s.shape(n)[d + 1:] == shape[:d] + shape[d + 1:])
    same = s.values[v].dtype == s.values[w].dtype
    one = s.one(w, w, f"{w}.flip({d})", f"{w}.narrow({d}, 0, {s.integer(0, s.shape(w)[d])})")
    text = f"torch.cat([{', '.join(s.one((v, one), (one, v), (v, one, v), (v, v.join(('', '.flip(0)')), one)))}], {d})"
    if s.shape(w) == shape and s.one(True, False):
        text = f"torch.stack([{v}, {w}, {v}], {s.integer(0, len(shape))})"
    s.emit(text, (v, w), exact=None if same else not (s.is_float(v) or s.is_float(w)))


def pieces(s: State) -> None:
    v = _ranked(s)
    if not v:
        return
    d = _dim(s, v)
    size = s.shape(v)[d]
    a = s.integer(0, size)
    s.emit(s.one(f"{v}.split([{a}, {size - a}], {d})", f"{v}.chunk(2, {d})", f"{v}.tensor_split(2, {d})", f"{v}.tensor_split([{a}], {d})",
                 f"{v}.narrow({d}, 0, {min(2, size)}).unbind({d})"), (v,), count=2)


def pad(s: State) -> None:
    v = _ranked(s, 1, 5)
    if not v:
        return
    shape, mode = s.shape(v), s.one("constant", "constant", "reflect", "replicate", "circular")
    if mode == "constant":
        widths = [s.integer(-2, 3) for _ in range(2 * s.integer(1, len(shape)))]
        s.emit(f"F.pad({v}, {widths}, value={s.one(0, 1)})", (v,))
        return
    spatial = s.one(*[n for n in (1, 2, 3) if n + 1 <= len(shape) <= n + 2] or [1])
    most = [min(3, n - 1) if mode == "reflect" else min(3, n) for n in shape[-spatial:]]
    widths = [s.integer(-1 if n > 1 and mode == "circular" else 0, max(0, n)) for n in reversed(most) for _ in range(2)]
    s.emit(f"F.pad({v}, {widths}, mode='{mode}')", (v,))


def order(s: State) -> None:
    """What depends on the order of values."""
    v = s.pick(lambda n: n != "i0" and s.shape(n) and s.exact[n] and _is_real(s, n))
    if not v:
        return
    d, shape, keep = _dim(s, v), s.shape(v), s.one(True, False)
    size = shape[d]
    descending = f"dim={d}, descending={s.one(True, False)}, stable=True"
    options = [f"torch.sort({v}, {descending})[{s.one(0, 1)}]", f"torch.argsort({v}, {descending})", f"{v}.argmax({d}, keepdim={keep})",
               f"{v}.argmin({d}, keepdim={keep})", f"{v}.max({d}, keepdim={keep})[{s.one(0, 1)}]", f"torch.cummax({v}, {d})[{s.one(0, 1)}]",
               f"torch.cummin({v}, {d})[{s.one(0, 1)}]", f"{v}.amax({d}, keepdim={keep})", f"torch.msort({v})",
               f"{v}.aminmax(dim={d})[{s.one(0, 1)}]", f"torch.searchsorted({v}.reshape(-1).sort()[0], {v}, right={keep})",
               f"torch.bucketize({v}, torch.arange(5) - 2, right={keep})", f"torch.isin({v}, {v}.reshape(-1)[:3])"]
    if not s.is_bool(v):
        k = s.integer(1, max(1, size))
        options += [f"{v}.kthvalue({k}, {d}, keepdim={keep})[0]", f"{v}.median({d}, keepdim={keep})[0]", f"{v}.median()", f"{v}.nanmedian({d})[0]",
                    f"torch.topk({v}, {k}, {d}, largest={keep})[0]", f"{v}.mode({d})[0]"]
        if s.varies:
            options += [f"torch.unique({v}, dim={d})", f"torch.unique({v})", f"torch.unique_consecutive({v})"]
    s.emit(s.one(*options), (v,))


def count(s: State) -> None:
    v = s.pick(lambda n: n != "i0" and s.exact[n] and _is_real(s, n))
    if not v:
        return
    options = [f"({v} > 0).sum({_dim(s, v) if s.shape(v) else ''})", f"({v} > 0).cumsum({_dim(s, v) if s.shape(v) else 0})", f"torch.count_nonzero({v})"]
    if s.varies:
        options += [f"torch.nonzero({v})", f"{v}[{v} > 0]"]
    if s.values[v].dtype in (ALL_DTYPES["i64"], ALL_DTYPES["i32"], ALL_DTYPES["u8"], ALL_DTYPES["i16"], ALL_DTYPES["i8"]):
        long = f"({v}.long() % 5)"
        options += [f"F.one_hot({long}, 5)", f"F.one_hot({long}[..., None] * 2, 11).squeeze(-2)", f"{v}.sum({_dim(s, v) if s.shape(v) else ''})"]
        if s.varies:
            options += [f"torch.bincount({long}.reshape(-1))", f"torch.bincount({long}.reshape(-1), minlength=7)"]
    if s.is_float(v):
        options += [f"torch.histc({v}, {s.one(4, 10)}, -2, 2)", f"torch.histc({v}, 5)"]
    s.emit(s.one(*options), (v,))


def resize(s: State) -> None:
    v = s.pick(lambda n: s.is_float(n) and 3 <= len(s.shape(n)) <= 5)
    if not v:
        return
    dims = len(s.shape(v)) - 2
    mode = s.one("nearest", "nearest-exact", "area", *{1: ["linear"], 2: ["bilinear", "bicubic"], 3: ["trilinear"]}[dims])
    size = tuple(s.integer(1, 7) for _ in range(dims))
    by = s.one(f"size={size}", f"scale_factor={s.one(2, 0.5, 1.5, 3)}", f"scale_factor={s.one(1.7, 0.4)}, recompute_scale_factor=True")
    corners = f", align_corners={s.one(True, False)}" if "linear" in mode or mode == "bicubic" else ""
    smooth = ", antialias=True" if mode in ("bilinear", "bicubic") and s.one(True, False, False) else ""
    s.emit(f"F.interpolate({v}, {by}, mode='{mode}'{corners}{smooth})", (v,), exact=None if "nearest" in mode else False)


def pool(s: State) -> None:
    v = s.pick(lambda n: s.is_float(n) and 2 <= len(s.shape(n)) <= 5)
    if not v:
        return
    rank = len(s.shape(v))
    dims = s.one(*[n for n in (1, 2, 3) if n + 1 <= rank <= n + 2])
    k = [s.integer(1, 3) for _ in range(dims)]
    step, padding = [s.integer(1, 3) for _ in range(dims)], [s.integer(0, n // 2) for n in k]
    ceil, size = s.one(True, False), [s.integer(1, 5) for _ in range(dims)]
    text, exact = s.one(
        (f"F.max_pool{dims}d({v}, {k}, {step}, {padding}, {s.one(1, 2)}, ceil_mode={ceil})", None),
        (f"F.max_pool{dims}d({v}, {k}, {step}, {padding}, ceil_mode={ceil}, return_indices=True)[1]", None),
        (f"F.avg_pool{dims}d({v}, {k}, {step}, {padding}, ceil_mode={ceil}, count_include_pad={s.one(True, False)})", False),
        (f"F.adaptive_avg_pool{dims}d({v}, {size})", False), (f"F.adaptive_max_pool{dims}d({v}, {size})", None),
        (f"F.adaptive_max_pool{dims}d({v}, {size}, return_indices=True)[1]", None),
        (f"F.lp_pool{dims}d({v}.abs(), 2, {tuple(k) if dims > 1 else k[0]})", False),
        (f"F.max_unpool{dims}d(*F.max_pool{dims}d({v}, 2, return_indices=True), 2)", None),
    )
    if (text.endswith("[1]") or "unpool" in text) and not s.exact[v]:
        return
    s.emit(text, (v,), exact=exact)


def window(s: State) -> None:
    v = s.pick(lambda n: len(s.shape(n)) == 4)
    if not v:
        return
    _, c, h, w = s.shape(v)
    k, step, padding, dilation = s.one(1, 2, 3), s.one(1, 2), s.one(0, 1), s.one(1, 1, 2)
    said = f"{k}, dilation={dilation}, padding={padding}, stride={step}"
    s.emit(s.one(
        f"F.unfold({v}, {said})", f"F.fold(F.unfold({v}, {said}), ({h}, {w}), {said})", f"F.pixel_unshuffle({v}, {s.one(1, 2)})",
        f"F.pixel_shuffle({v}, {s.one(1, 2)})", f"F.channel_shuffle({v}, {s.one(*[g for g in (1, 2, 3) if c % g == 0])})",
        f"{v}.unfold(2, {k}, {step}).unfold(3, {k}, {step}).permute(0, 1, 4, 5, 2, 3)",
    ), (v,), exact=False if s.is_float(v) else None)


def grid(s: State) -> None:
    v = s.pick(lambda n: s.is_float(n) and len(s.shape(n)) == 4 and s.values[n].dtype in (ALL_DTYPES["f32"], ALL_DTYPES["f64"]))
    if v:
        name = s.short(v)
        theta = f"torch.tensor([[[0.9, 0.2, 0.1], [-0.3, 0.8, 0.05]]], dtype={name}).expand({s.shape(v)[0]}, 2, 3)"
        size, corners = (s.shape(v)[0], s.shape(v)[1], s.integer(1, 5), s.integer(1, 5)), s.one(True, False)
        s.emit(f"F.grid_sample({v}, F.affine_grid({theta}, {size}, align_corners={corners}), '{s.one('bilinear', 'bicubic')}', "
               f"'{s.one('zeros', 'border', 'reflection')}', align_corners={corners})", (v,), exact=False)


def cast(s: State) -> None:
    v, to = s.pick(lambda n: n != "i0"), s.one(*ALL_DTYPES)
    source, target = s.values[v].dtype, ALL_DTYPES[to]
    if source is target or source.is_complex or (source.is_floating_point and not target.is_floating_point and not (s.exact[v] and target.is_signed)):
        return
    widens = not source.is_floating_point or target.itemsize > source.itemsize
    s.emit(f"{v}.to({to})", (v,), exact=None if widens or not target.is_floating_point else False)


def compute(s: State) -> None:
    """Something between moves."""
    v = s.pick(lambda n: n != "i0")
    if s.is_bool(v):
        s.emit(f"~{v}", (v,))
    elif s.is_float(v):
        s.emit(s.one(f"{v} * 0.5", f"{v}.abs()", f"-{v}", f"torch.relu({v})", f"{v} > 0", f"{v}.clamp(-1, 1)"), (v,))
    elif _is_real(s, v):
        s.emit(s.one(f"{v} + 1", f"{v} // 2", f"{v} % 3", f"{v} == 0", f"-{v}", f"{v} * {v}"), (v,))
    else:
        s.emit(s.one(f"{v}.conj()", f"-{v}", f"{v}.real", f"{v}.imag", f"torch.view_as_real({v})"), (v,))


def change(s: State) -> None:
    """Parts of an intermediate written in place."""
    v = s.pick(lambda n: n.startswith("v") and len(s.shape(n)) > 0 and s.values[n].numel() > 0)
    if not v or not _fits(s, v):
        return
    d, shape = _dim(s, v), s.shape(v)
    index = ":, " * d
    options = [
        f"{v}[{index}::2] = {v}.clone()[{index}:1]", f"{v}.copy_({v}.flip({d}).clone())", f"{v}[{index}{_places(s, (2,), shape[d])}] = 1",
        f"{v}.index_copy_({d}, {_orders(s, (shape[d],), 0)}, {v}.clone())", f"{v}.narrow({d}, {shape[d] // 2}, 1).fill_(0)",
        f"{v}.scatter_({d}, {_orders(s, shape, d)}, {v}.clone())", f"{v}.masked_fill_(torch.arange({shape[-1]}) % 2 > 0, 1)", f"{v}.select({d}, -1).zero_()",
    ]
    s.emit_change(s.one(*options), v, ("i0",), True)


OPERATIONS = (
    *[take] * 4, *[put] * 5, *[masked] * 2, *[cut] * 3, *[turn] * 4, *[join] * 3, pieces, *[pad] * 3, *[order] * 3, *[count] * 2, *[resize] * 3, *[pool] * 3,
    *[window] * 2, grid, *[cast] * 2, *[compute] * 2, *[change] * 2,
)


def _input(s: State, name: str) -> Input:
    rank = s.one(1, 2, 2, 3, 3, 4, 4, 5)
    shape = [s.one(*s.sizes) for _ in range(rank)]
    while math.prod(shape) > _MOST:
        shape[shape.index(max(shape))] = s.one(1, 2, 3)
    return Input(name, tuple(shape), s.one(*ALL_DTYPES), s.one("contiguous", "contiguous", *LAYOUTS[1:]))


@st.composite
def movements(draw, most_lines: int = 8, varies: bool = False) -> Program:
    """A program of 3 to ``most_lines`` lines; ``varies``: some of whose sizes depend on values."""
    sizes = [*draw(st.lists(st.sampled_from(_SIZES), min_size=2, max_size=4)), *([0] if draw(st.integers(0, 15)) == 15 else [])]
    s = State(draw, sizes, draw(st.integers(0, 999)), varies=varies)
    s.inputs = [Input("i0", (_INDICES,), "i64"), *(_input(s, f"x{n}") for n in range(draw(st.integers(1, 2))))]
    for one, value in zip(s.inputs, Program(tuple(s.inputs), (), (), s.seed).make_inputs()):
        s.values[one.name], s.exact[one.name] = value, True
    for _ in range(draw(st.integers(3, most_lines))):
        for _ in range(6):
            before = len(s.lines)
            draw(st.sampled_from(OPERATIONS))(s)
            if len(s.lines) > before:
                break
    made = [n for line in s.lines for n in line.made] or list(s.values)
    last = [n for n in made if not any(n in line.used for line in s.lines)] or made[-1:]
    return Program(tuple(s.inputs), tuple(s.lines), tuple(last[-MOST_OUTPUTS:]), s.seed).cut()
