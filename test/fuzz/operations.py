"""The operations that random programs are made of: each is a function that adds a line to a State, or nothing where none fits."""

import math

from hypothesis import strategies as st

from fuzz.programs import DTYPES
from fuzz.strategy import State

UNARY_EXACT = ("torch.relu({})", "-{}", "{}.abs()", "{}.clamp(-1, 1)", "{}.clamp(min=0.25)", "F.hardtanh({})", "{}.clone()", "{}.contiguous()")
UNARY = (
    "torch.sigmoid({})", "torch.tanh({})", "F.gelu({})", "F.gelu({}, approximate='tanh')", "F.silu({})", "torch.exp({}.clamp(-4, 4))",
    "torch.sin({})", "torch.cos({})", "torch.erf({})", "({}.abs() + 1).sqrt()", "torch.log1p({}.abs())", "torch.rsqrt({} * {} + 1)",
    "1 / ({}.abs() + 1)", "{} ** 2", "{} ** 3", "F.leaky_relu({}, 0.1)", "F.softplus({})", "F.elu({})", "F.hardswish({})", "{} * 0.5",
    "{} + 1", "2 - {}", "{} / 3", "torch.expm1({}.clamp(-2, 2))", "torch.atan({})", "F.mish({})", "F.logsigmoid({})", "torch.exp2({}.clamp(-3, 3))",
    "({}.abs() + 0.5).log()", "({}.abs() + 1) ** 0.3",
)
UNARY_INTEGER = (
    "-{}", "{}.abs()", "~{}", "{}.clamp(-3, 5)", "{} * 3", "{} + 2", "7 - {}", "{} // 3", "{} % 5", "{} % -3", "{} // -2", "{} << 1", "{} >> 1",
    "torch.sign({})", "{} ** 2", "torch.div({}, 3, rounding_mode='trunc')",
)
BINARY = ("{} + {}", "{} - {}", "{} * {}", "torch.maximum({}, {})", "torch.minimum({}, {})", "{} / ({}.abs() + 1)", "torch.add({}, {}, alpha=0.5)",
          "torch.atan2({}, {}.abs() + 1)", "torch.lerp({}, {}, 0.3)")
BINARY_INTEGER = ("{} + {}", "{} - {}", "{} * {}", "torch.maximum({}, {})", "torch.minimum({}, {})", "{} & {}", "{} | {}", "{} ^ {}")
COMPARISONS = ("{} > {}", "{} >= {}", "{} < {}", "{} <= {}", "{} == {}", "{} != {}")


def unary(s: State) -> None:
    v = s.pick(s.is_float)
    if v:
        text = s.one(*UNARY)
        s.emit(text.replace("{}", v), (v,), exact=False)


def unary_exact(s: State) -> None:
    v = s.pick(s.is_float)
    if v:
        s.emit(s.one(*UNARY_EXACT).format(v), (v,))


def unary_integer(s: State) -> None:
    v = s.pick(s.is_integer)
    if v:
        s.emit(s.one(*UNARY_INTEGER).format(v), (v,))


def binary(s: State) -> None:
    a = s.pick(s.is_float)
    b = s.pick(lambda n: not s.is_bool(n))
    if a and b:
        text = s.one(*BINARY)
        a, b = s.one((a, b), (b, a))
        s.emit(text.format(a, b), (a, b), exact="imum" in text and s.values[a].dtype == s.values[b].dtype)


def binary_integer(s: State) -> None:
    a, b = s.pick(s.is_integer), s.pick(lambda n: not s.is_float(n))
    if a and b:
        s.emit(s.one(*BINARY_INTEGER).format(a, b), (a, b))


def compare(s: State) -> None:
    a = s.pick(lambda n: s.exact[n])
    b = s.pick(lambda n: s.exact[n]) if s.one(True, False) else None
    if a:
        s.emit(s.one(*COMPARISONS).format(a, b or s.one("0", "1", "0.25", "-2")), (a, b) if b else (a,))


def boolean(s: State) -> None:
    a, b = s.pick(s.is_bool), s.pick(s.is_bool)
    if a:
        s.emit(s.one("{} & {}", "{} | {}", "{} ^ {}", "~{}", "torch.logical_not({})").format(a, b), (a, b))


def where(s: State) -> None:
    c, a = s.pick(s.is_bool), s.pick()
    b = s.pick()
    if c:
        text, used = s.one(
            ("torch.where({c}, {a}, {b})", (c, a, b)), ("torch.where({c}, {a}, 0)", (c, a)), ("{a}.masked_fill({c}, -1)", (c, a)),
            ("torch.where({c}, 1.5, {a})", (c, a)),
        )
        s.emit(text.format(c=c, a=a, b=b), used)


def cast(s: State) -> None:
    v, to = s.pick(), s.one(*DTYPES)
    source = s.values[v].dtype
    if source is DTYPES[to] or (source.is_floating_point and not DTYPES[to].is_floating_point and not s.exact[v]):
        return
    widens = source.is_floating_point and DTYPES[to].is_floating_point and DTYPES[to].itemsize > source.itemsize
    s.emit(f"{v}.to({to})", (v,), exact=widens or not DTYPES[to].is_floating_point)


def view(s: State) -> None:
    v = s.pick(lambda n: len(s.shape(n)) > 0)
    if not v:
        return
    shape = s.shape(v)
    rank = len(shape)
    d, e = s.integer(0, rank - 1), s.integer(0, rank - 1)
    begin = s.integer(0, max(0, shape[d] - 1))
    end = s.integer(begin, shape[d])
    step = s.one(1, 1, 2, 3)
    index = ", ".join([":"] * d)
    order = s.draw(st.permutations(range(rank)))
    choices = (
        f"{v}.transpose({d}, {e})", f"{v}.permute({tuple(order)})", f"{v}.flatten({min(d, e)}, {max(d, e)})", f"{v}.unsqueeze({d})",
        f"{v}.unsqueeze(-1)", f"{v}.squeeze()", f"{v}.squeeze({d})", f"{v}[{index + ', ' if index else ''}{begin}:{end}:{step}]",
        f"{v}.select({d}, {begin})", f"{v}.flip({d})", f"torch.roll({v}, {begin + 1}, {d})", f"{v}[..., None, :]", f"{v}[..., ::{step}]",
        f"{v}.narrow({d}, {begin}, {end - begin})", f"{v}.repeat_interleave(2, {d})", f"{v}.movedim({d}, {e})", f"{v}.mT", f"{v}[{begin}]",
        f"{v}.reshape(-1)", f"{v}.diagonal()", f"{v}.unfold({d}, {max(1, min(2, shape[d]))}, 1)",
    )
    s.emit(s.one(*choices), (v,))


def reshape(s: State) -> None:
    v = s.pick(lambda n: s.values[n].numel() > 1)
    if not v:
        return
    left, to = s.values[v].numel(), []
    for _ in range(s.integer(0, 2)):
        factor = s.one(*[f for f in (1, 2, 3, 4, 5, 7, 8, 13, 16) if left % f == 0])
        to.append(factor)
        left //= factor
    to.insert(s.integer(0, len(to)), s.one(left, -1))
    s.emit(f"{v}.reshape({', '.join(map(str, to))})", (v,))


def spread(s: State) -> None:
    v = s.pick()
    shape = list(s.shape(v))
    size = s.draw(st.sampled_from(s.sizes))
    target = [s.draw(st.sampled_from(s.sizes)) if n == 1 else n for n in shape]
    s.emit(s.one(
        f"{v}.expand({', '.join(map(str, [size, *target]))})", f"{v}.expand({', '.join(map(str, target))})" if shape else f"{v}.expand({size})",
        f"{v}.repeat({', '.join(map(str, [2, *[1] * len(shape)]))})", f"{v}.expand({size}, *[-1] * {len(shape)})",
    ), (v,))


def join(s: State) -> None:
    a = s.pick(lambda n: len(s.shape(n)) > 0)
    if not a:
        return
    d = s.integer(0, len(s.shape(a)) - 1)
    rest = s.shape(a)[:d] + s.shape(a)[d + 1:]
    b = s.pick(lambda n: len(s.shape(n)) == len(s.shape(a)) and s.shape(n)[:d] + s.shape(n)[d + 1:] == rest)
    same = s.pick(lambda n: s.shape(n) == s.shape(a))
    if s.one(True, True, False):
        c = s.one((a, b), (b, a), (a, b, a))
        s.emit(f"torch.cat([{', '.join(c)}], {d})", (a, b), exact=s.values[a].dtype == s.values[b].dtype)
    else:
        s.emit(f"torch.stack([{a}, {same}], {d})", (a, same), exact=s.values[a].dtype == s.values[same].dtype)


def pad(s: State) -> None:
    v = s.pick(lambda n: 0 < len(s.shape(n)) < 4 and not s.is_bool(n))
    if v:
        widths = [s.integer(-1, 2) for _ in range(2 * s.integer(1, len(s.shape(v))))]
        s.emit(f"F.pad({v}, {widths}, value={s.one(0, 1, -2)})", (v,))


def pieces(s: State) -> None:
    v = s.pick(lambda n: len(s.shape(n)) > 0)
    if not v:
        return
    d = s.integer(0, len(s.shape(v)) - 1)
    size = s.shape(v)[d]
    if size >= 2:
        first = s.integer(1, size - 1)
        s.emit(s.one(f"{v}.split([{first}, {size - first}], {d})", f"{v}.chunk(2, {d})"), (v,), count=2)


def _dims(s: State, v: str) -> tuple[str, bool]:
    rank = len(s.shape(v))
    dims = s.draw(st.lists(st.sampled_from(range(-rank, rank)), min_size=1, max_size=rank, unique_by=lambda d: d % rank)) if rank else []
    return f"{tuple(dims)}, keepdim={s.one(True, False)}", bool(rank)


def reduce(s: State) -> None:
    v = s.pick(lambda n: not s.is_bool(n) or s.one(True, False))
    if not v:
        return
    dims, ranked = _dims(s, v)
    kinds = ("sum", "mean", "amax", "amin", "var", "std", "logsumexp", "norm") if s.is_float(v) else ("sum", "amax", "amin", "any", "all")
    kind = s.one(*kinds)
    extreme = kind in ("amax", "amin")
    if not ranked or s.one(*[False] * 5, True):
        s.emit(f"{v}.{kind if kind != 'logsumexp' else 'sum'}()", (v,), exact=extreme)
    elif kind in ("var", "std"):
        # The square root has no slope at 0, and the variance of one number is NaN.
        s.emit(f"{v}.var({dims.replace('keepdim', 'unbiased=False, keepdim')})" + (".add(1).sqrt()" if kind == "std" else ""), (v,), exact=False)
    elif kind in ("any", "all") and not s.one(True, False):
        s.emit(f"{v}.{kind}({s.integer(0, len(s.shape(v)) - 1)})", (v,))
    elif kind == "norm":
        s.emit(f"torch.linalg.vector_norm({v}, dim={dims})", (v,), exact=False)
    else:
        s.emit(f"{v}.{kind}({dims})", (v,), exact=extreme)


def positions(s: State) -> None:
    """What depends on the order of values: exact ones, of 32 bits and more, where there are no ties but of equal bits."""
    v = s.pick(lambda n: len(s.shape(n)) > 0 and s.exact[n] and not s.is_bool(n))
    if v:
        d, keep = s.integer(0, len(s.shape(v)) - 1), s.one(True, False)
        # Of equal numbers topk may take any, which is seen in its gradient: there are none in an input of 32 bits and more.
        distinct = v.startswith("x") and s.values[v].dtype in (DTYPES["f32"], DTYPES["f64"]) and 0 not in s.values[v].stride()
        top = f"torch.topk({v}, {min(2, s.shape(v)[d])}, {d})[0]" if distinct or not s.is_float(v) else f"{v}.amax({d})"
        text = s.one(
            f"{v}.argmax({d}, keepdim={keep})", f"{v}.argmin({d}, keepdim={keep})", f"torch.sort({v}, dim={d}, stable=True)[0]",
            f"torch.sort({v}, dim={d}, descending=True, stable=True)[1]", top,
            f"{v}.argsort({d}, stable=True)", f"{v}.max({d})[0]", f"{v}.min({d})[1]", f"{v}.cummax({d})[0]",
        )
        s.emit(text, (v,))


def running(s: State) -> None:
    v = s.pick(lambda n: len(s.shape(n)) > 0 and not s.is_bool(n))
    if v:
        s.emit(f"{v}.cumsum({s.integer(0, len(s.shape(v)) - 1)})", (v,), exact=False)


def _scaled(s: State, text: str, k: int) -> str:
    return f"{text} * {1 / math.sqrt(k):.4g}" if k > 4 and s.one(True, False) else text


def matmul(s: State) -> None:
    a = s.pick(lambda n: s.is_float(n) and len(s.shape(n)) > 0)
    if not a:
        return
    k, dtype = s.shape(a)[-1], s.values[a].dtype
    same = lambda n: s.values[n].dtype == dtype and len(s.shape(n)) > 0  # noqa: E731
    b = s.pick(lambda n: same(n) and (s.shape(n)[-2:-1] == (k,) or s.shape(n) == (k,)))
    w = s.pick(lambda n: same(n) and len(s.shape(n)) == 2 and s.shape(n)[1] == k)
    t = s.pick(lambda n: same(n) and len(s.shape(n)) >= 2 and s.shape(n)[-1] == k)
    kind = s.integer(0, 3)
    if kind == 0 and b:
        s.emit(_scaled(s, f"({a} @ {b})", k), (a, b), exact=False)
    elif kind == 1 and t:
        s.emit(_scaled(s, f"({a} @ {t}.transpose(-1, -2))", k), (a, t), exact=False)
    elif kind == 2 and w:
        bias = s.pick(lambda n: same(n) and s.shape(n) == s.shape(w)[:1])
        s.emit(_scaled(s, f"F.linear({a}, {w}{f', {bias}' if bias else ''})", k), (a, w, *([bias] if bias else [])), exact=False)
    elif len(s.shape(a)) >= 2:
        s.emit(_scaled(s, f"({a}.transpose(-1, -2) @ {a})", s.shape(a)[-2]), (a,), exact=False)


def batched(s: State) -> None:
    a = s.pick(lambda n: s.is_float(n) and len(s.shape(n)) in (2, 3))
    if not a:
        return
    shape, dtype = s.shape(a), s.values[a].dtype
    b = s.pick(lambda n: s.values[n].dtype == dtype and len(s.shape(n)) == len(shape) and s.shape(n)[:-2] == shape[:-2] and s.shape(n)[-2] == shape[-1])
    text_b, used = (b, (a, b)) if b else (f"{a}.transpose(-1, -2)", (a,))
    columns = s.shape(b)[-1] if b else shape[-2]
    out = (*shape[:-1], columns)
    c = s.pick(lambda n: s.values[n].dtype == dtype and _spreads(s.shape(n), out))
    if c and s.one(True, False):
        name, factors = ("baddbmm" if len(shape) == 3 else "addmm"), s.one("", ", beta=0.5, alpha=0.25", ", alpha=0.5", ", beta=0")
        s.emit(f"torch.{name}({c}, {a}, {text_b}{factors})", (c, *used), exact=False)
    elif len(shape) == 3:
        s.emit(_scaled(s, f"torch.bmm({a}, {text_b})", shape[-1]), used, exact=False)
    else:
        s.emit(f"torch.einsum('ij,jk->ki', {a}, {text_b})", used, exact=False)


def _spreads(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    return len(shape) <= len(to) and all(a in (1, b) for a, b in zip(shape[::-1], to[::-1]))


def norm(s: State) -> None:
    v = s.pick(lambda n: s.is_float(n) and len(s.shape(n)) > 0)
    if not v:
        return
    shape, d = s.shape(v), s.integer(0, len(s.shape(v)) - 1)
    tail = shape[-s.one(1, 1, 2):]
    like = s.pick(lambda n: s.shape(n) == tail and s.values[n].dtype == s.values[v].dtype)
    affine, used = (f", {like}, {like}", (v, like)) if like and s.one(True, False) else ("", (v,))
    text, used = s.one(
        (f"F.softmax({v}, {d})", (v,)), (f"F.log_softmax({v}, {d})", (v,)), (f"F.layer_norm({v}, {tail}{affine}, eps=0.1)", used),
        (f"F.rms_norm({v}, {tail}, eps=0.1)", (v,)), (f"{v} / (1 + {v}.norm(dim={d}, keepdim=True))", (v,)),
        (f"F.softmax({v}, {d}, dtype=f32)", (v,)), (f"{v} - {v}.mean({d}, keepdim=True)", (v,)),
    )
    s.emit(text, used, exact=False)


def attention(s: State) -> None:
    v = s.pick(lambda n: s.is_float(n) and len(s.shape(n)) in (3, 4))
    if v:
        same = s.pick(lambda n: s.shape(n) == s.shape(v) and s.values[n].dtype == s.values[v].dtype)
        s.emit(f"F.scaled_dot_product_attention({v}, {same}, {v}{s.one('', ', is_causal=True')})", (v, same), exact=False)


def lookup(s: State) -> None:
    v = s.pick(lambda n: len(s.shape(n)) > 0)
    if not v:
        return
    d = s.integer(0, len(s.shape(v)) - 1)
    size = s.shape(v)[d]
    i = s.pick(lambda n: s.values[n].dtype is DTYPES["i64"] and len(s.shape(n)) > 0)
    if not i or not size:
        return
    flat = s.one(f"({i} % {size})", f"({i} % {size} - {size})" if s.one(True, False) else f"({i}.abs() % {size})")
    index = ":, " * d
    plain = f"({i} % {size})"
    s.emit(s.one(
        f"{v}[{index}{flat}]", f"torch.index_select({v}, {d}, {plain}.reshape(-1))", f"F.embedding({plain}, {v})",
        f"torch.gather({v}, {d}, {plain})", f"torch.take_along_dim({v}, {plain}, {d})",
    ), (v, i))


def triangle(s: State) -> None:
    v = s.pick(lambda n: len(s.shape(n)) >= 2 and not s.is_bool(n))
    if v:
        s.emit(f"torch.{s.one('triu', 'tril')}({v}, {s.integer(-2, 2)})", (v,))


def make(s: State) -> None:
    """Tensors out of nothing, and like others."""
    v, n = s.pick(), s.draw(st.sampled_from(s.sizes))
    s.emit(s.one(
        f"torch.arange({n})", f"torch.arange({n}, dtype=f32) * 0.125", f"torch.zeros_like({v})", f"torch.ones({n}, dtype={s.short(v)})",
        f"torch.full_like({v}, 3)", f"torch.arange({n}, dtype=i32)[:, None]",
    ), (v,))


def in_place(s: State) -> None:
    """Change an intermediate or an input in place."""
    v = s.pick(lambda n: (n.startswith("v") or s.one(False, False, True)) and not s.is_bool(n))
    if not v:
        return
    w = s.pick(lambda n: _spreads(s.shape(n), s.shape(v)) and (s.is_float(v) or not s.is_float(n)) and not s.is_bool(n))
    same = bool(w) and s.values[v].dtype == s.values[w].dtype
    rows = s.shape(v)[0] if s.shape(v) else 0
    options = [(f"{v}.mul_(2)", (), False), (f"{v}.add_(1)", (), False), (f"{v}.zero_()", (), True)]
    options += [(f"{v}.clamp_(-1, 1)", (), True), (f"{v}.neg_()", (), True)]
    if w:
        options += [(f"{v}.add_({w})", (w,), False), (f"{v}.copy_({w})", (w,), same), (f"{v}.sub_({w})", (w,), False)]
    if rows:
        i = s.integer(0, rows - 1)
        options += [(f"{v}[{i}] = 1", (), True), (f"{v}[{i}:] *= 0.5" if s.is_float(v) else f"{v}[{i}:] += 3", (), False), (f"{v}[..., 0] = -1", (), True)]
        part = s.pick(lambda n: _spreads(s.shape(n), s.shape(v)[1:]) and s.values[n].dtype == s.values[v].dtype)
        if part:
            options.append((f"{v}[{i}] = {part}", (part,), True))
    text, used, exact = s.one(*options)
    s.emit_change(text, v, used, exact)


def scatter(s: State) -> None:
    v = s.pick(lambda n: len(s.shape(n)) > 0 and not s.is_bool(n))
    if not v or not s.shape(v)[0]:
        return
    size = s.shape(v)[0]
    i = s.pick(lambda n: s.values[n].dtype is DTYPES["i64"] and len(s.shape(n)) == 1 and s.shape(n)[0] > 0)
    if i:
        rows = f"{v}[({i} % {size})]"
        s.emit(s.one(f"{v}.index_add(0, {i} % {size}, {rows})", f"torch.zeros_like({v}).index_add(0, {i} % {size}, {rows})"), (v, i), exact=False)


OPERATIONS = (
    *[unary] * 4, *[unary_exact] * 2, *[unary_integer] * 2, *[binary] * 4, *[binary_integer] * 2, compare, boolean, *[where] * 2, *[cast] * 2,
    *[view] * 5, *[reshape] * 2, *[spread] * 2, *[join] * 2, pad, pieces, *[reduce] * 4, positions, running, *[matmul] * 3, *[batched] * 2,
    *[norm] * 2, attention, lookup, triangle, make, *[in_place] * 2, scatter,
)
