"""More of what random programs are made of: convolutions and pools, scatters, losses, running values, integers, and changes of parts
in place."""

from hypothesis import strategies as st

from fuzz.programs import DTYPES
from fuzz.strategy import State


def _like(s: State, v: str, shape: tuple[int, ...]) -> str | None:
    """A value that fits ``v`` in type and has ``shape``."""
    return s.pick(lambda n: s.shape(n) == shape and s.values[n].dtype == s.values[v].dtype)


def convolution(s: State) -> None:
    """The weights are made of the input's own first elements."""
    v = s.pick(lambda n: s.is_float(n) and len(s.shape(n)) in (3, 4))
    if not v:
        return
    dims, channels = len(s.shape(v)) - 2, s.shape(v)[1]
    kernel = [min(s.one(1, 2, 3), n) for n in s.shape(v)[2:]]
    count, groups = s.one(1, 2, 4), channels if s.one(True, False, False) else 1
    outer = count * groups
    size = outer * (channels // max(1, groups)) * max(1, kernel[0]) * (kernel[1] if dims == 2 else 1)
    if not 0 < size <= s.values[v].numel():
        return
    weight = f"{v}.reshape(-1)[:{size}].reshape({outer}, {channels // groups}, {', '.join(map(str, kernel))})"
    options = f"stride={s.one(1, 1, 2)}, padding={s.one(0, 0, 1)}, dilation={s.one(1, 1, 2)}, groups={groups}"
    s.emit(f"F.conv{dims}d({v}, {weight}, {options}) * {0.5 / max(1, size // outer):.3g}", (v,), exact=False)


def pool(s: State) -> None:
    v = s.pick(lambda n: s.is_float(n) and len(s.shape(n)) in (3, 4))
    if not v:
        return
    dims = len(s.shape(v)) - 2
    k, step, padding = s.one(1, 2, 3), s.one(1, 2, 3), s.one(0, 0, 1)
    text, exact = s.one(
        (f"F.max_pool{dims}d({v}, {k}, {step}, {min(padding, k // 2)})", True), (f"F.avg_pool{dims}d({v}, {k}, {step}, {min(padding, k // 2)})", False),
        (f"F.adaptive_avg_pool{dims}d({v}, {s.one(1, 2, 3)})", False),
        (f"F.interpolate({v}, scale_factor=2, mode='{'bilinear' if dims == 2 else 'linear'}')", False), (f"F.interpolate({v}, scale_factor=2)", True),
    )
    s.emit(text, (v,), exact=exact)


def grouped_norm(s: State) -> None:
    v = s.pick(lambda n: s.is_float(n) and len(s.shape(n)) in (3, 4))
    if v:
        channels = s.shape(v)[1]
        groups = s.one(*[g for g in (1, 2, 4) if channels % g == 0])
        s.emit(s.one(
            f"F.group_norm({v}, {groups}, eps=0.1)", f"F.instance_norm({v}, eps=0.1)", f"F.batch_norm({v}, None, None, training=True, eps=0.1)",
        ), (v,), exact=False)


def more_running(s: State) -> None:
    v = s.pick(lambda n: len(s.shape(n)) > 0 and not s.is_bool(n))
    if not v:
        return
    d = s.integer(0, len(s.shape(v)) - 1)
    if s.is_float(v):
        s.emit(s.one(f"{v}.logcumsumexp({d})", f"{v}.clamp(-1, 1).cumprod({d})", f"{v}.diff(dim={d})"), (v,), exact=False)
    else:
        s.emit(s.one(f"{v}.cumsum({d})", f"{v}.cummin({d})[0]", f"{v}.diff(dim={d})", f"{v}.sign().cumprod({d})"), (v,))


def more_integers(s: State) -> None:
    a = s.pick(s.is_integer)
    b = s.pick(s.is_integer)
    if a and b:
        divisor = s.one(f"({b}.abs() + 1)", f"({b}.abs() * -2 - 1)", f"{b}.where({b} != 0, 3)")
        s.emit(s.one(
            f"{a} // {divisor}", f"{a} % {divisor}", f"torch.fmod({a}, {divisor})", f"torch.div({a}, {divisor}, rounding_mode='trunc')", f"torch.gcd({a}, {b})",
            f"torch.fmod({a}, 3)", f"torch.bitwise_left_shift({a}, {b}.abs() % 3)", f"{a}.clamp({b}, {b} + 2)", f"{a}.sign().prod()",
        ), (a, b))


def more_booleans(s: State) -> None:
    c, a = s.pick(s.is_bool), s.pick(s.is_float)
    if c and a:
        s.emit(s.one(
            f"{a} * {c}", f"{c} + {a}", f"torch.where({c}, {a}, {a} * 0.5)", f"{a}.masked_fill({c}, 2)", f"{a}.masked_fill(~{c}, -0.5)",
        ), (c, a), exact=False)
    elif c:
        s.emit(s.one(f"{c}.sum()", f"{c}.int()", f"{c}.any()", f"{c}.all()", f"{c} * 3", f"{c}.cumsum(0)"), (c,))


def scatters(s: State) -> None:
    """Values in places: of sums the places may repeat, of others they are a permutation."""
    v = s.pick(lambda n: len(s.shape(n)) > 0 and not s.is_bool(n))
    i = s.pick(lambda n: s.values[n].dtype is DTYPES["i64"] and 0 < len(s.shape(n)) == len(s.shape(v)) if v else False)
    if not v or not s.values[v].numel():
        return
    d = s.integer(0, len(s.shape(v)) - 1)
    size = s.shape(v)[d]
    order = f"torch.arange({size}).flip(0)"
    texts = [
        (f"{v}.index_copy({d}, {order}, {v})", (v,), True), (f"{v}.index_fill({d}, {order}[:1] - {size}, 2)", (v,), True),
        (f"{v}.index_put(({order} - {size},), {s.shape(v)[0]})" if d == 0 else f"{v}.index_select({d}, {order})", (v,), True),
        (f"{v}.index_put(({order}.clamp(max=1) % {s.shape(v)[0]},), {v}[:1] * 0.5, accumulate=True)" if d == 0 else f"{v}.roll(1, {d})", (v,), False),
    ]
    if i:
        place = f"({i} % {size})"
        smaller = ", ".join(f":{min(a, b)}" for a, b in zip(s.shape(v), s.shape(i)))
        within = f"{place}[{smaller}]"
        texts += [
            (f"{v}.scatter_add({d}, {within}, {v}[{smaller}])", (v, i), False), (f"{v}.scatter_reduce({d}, {within}, {v}[{smaller}], 'amax')", (v, i), True),
            (f"{v}.scatter_reduce({d}, {within}, {v}[{smaller}], 'amin', include_self=False)", (v, i), True), (f"{v}.scatter({d}, {within}, 1)", (v, i), True),
        ]
    text, used, exact = s.one(*texts)
    s.emit(text, used, exact=exact)


def ordered(s: State) -> None:
    """Gathers by the order of values: exact ones."""
    v = s.pick(lambda n: len(s.shape(n)) > 0 and s.exact[n] and not s.is_bool(n))
    if v:
        d = s.integer(0, len(s.shape(v)) - 1)
        s.emit(s.one(
            f"{v}.gather({d}, {v}.argsort({d}, stable=True))", f"torch.sort({v}, dim={d}, stable=True)[1].argsort({d})", f"{v}.amin({d}, keepdim=True) == {v}",
            f"torch.searchsorted({v}.reshape(-1).sort()[0], {v})", f"torch.bucketize({v}, torch.arange(4) - 2)", f"{v}.cummax({d})[1]",
        ), (v,))


def several(s: State) -> None:
    v = s.pick(lambda n: s.is_float(n) and len(s.shape(n)) > 0)
    if v:
        d = s.integer(0, len(s.shape(v)) - 1)
        s.emit(s.one(f"torch.var_mean({v}, {d}, unbiased=False)", f"torch.aminmax({v}, dim={d})", f"{v}.tensor_split(2, {d})"), (v,), exact=False, count=2)


def loss(s: State) -> None:
    v = s.pick(s.is_float)
    if not v:
        return
    w, i = _like(s, v, s.shape(v)), s.pick(lambda n: s.values[n].dtype is DTYPES["i64"] and len(s.shape(n)) == 1)
    texts = [(f"F.mse_loss({v}, {w})", (v, w)), (f"F.smooth_l1_loss({v}, {w}, reduction='none')", (v, w)), (f"F.normalize({v}.reshape(1, -1), eps=0.5)", (v,))]
    rows = s.shape(v)[0] if len(s.shape(v)) == 2 else 0
    if i and rows and s.shape(i) == (rows,) and s.shape(v)[1]:
        texts += [(f"F.cross_entropy({v}, {i} % {s.shape(v)[1]})", (v, i)), (f"F.nll_loss({v}, {i} % {s.shape(v)[1]}, reduction='none')", (v, i))]
    if i:
        texts.append((f"F.one_hot({i} % 5, 5)", (i,)))
    text, used = s.one(*texts)
    s.emit(text, used, exact=False)


def products(s: State) -> None:
    v = s.pick(lambda n: s.is_float(n) and len(s.shape(n)) in (1, 2))
    if not v:
        return
    if len(s.shape(v)) == 1:
        s.emit(s.one(f"torch.outer({v}, {v})", f"torch.dot({v}, {v})", f"torch.kron({v}, {v})"), (v,), exact=False)
    else:
        s.emit(s.one(
            f"torch.einsum('ij,kj->ik', {v}, {v}) * 0.1", f"torch.einsum('ij,ij->i', {v}, {v})", f"torch.addmm({v}.sum(), {v}, {v}.mT, alpha=0.1)",
            f"torch.einsum('ij,ik->jk', {v}, {v}) * 0.1", f"torch.cdist({v}, {v} + 1)", f"F.linear({v}, {v}, {v}[:, 0]) * 0.1",
        ), (v,), exact=False)


def part_in_place(s: State) -> None:
    """Change a part of an intermediate or an input: every other element, a transposed view, where a mask is, places of a list."""
    v = s.pick(lambda n: (n.startswith("v") or s.one(False, False, True)) and not s.is_bool(n) and len(s.shape(n)) > 0)
    if not v or not s.values[v].numel():
        return
    rank, rows = len(s.shape(v)), s.shape(v)[0]
    d = s.integer(0, rank - 1)
    index = ":, " * d
    options = [
        (f"{v}[{index}::2] = 1", (), True), (f"{v}[{index}1::2].add_(1)", (), False), (f"{v}.select({d}, -1).neg_()", (), True),
        (f"{v}[[0, {rows - 1}]] = 2", (), True), (f"{v}.index_fill_({d}, torch.arange({s.shape(v)[d]})[-1:], 3)", (), True),
        (f"{v}.transpose(0, {d}).clamp_(-1, 1)", (), True), (f"{v}.narrow({d}, 0, 1).fill_(-2)", (), True),
        (f"{v}[torch.arange({rows}).flip(0)] += 1", (), False), (f"{v}.flatten()[:1].zero_()", (), True), (f"{v}.view(-1)[-1:].fill_(4)", (), True),
    ]
    mask = s.pick(lambda n: s.is_bool(n) and s.shape(n) == s.shape(v))
    if mask:
        options += [(f"{v}.masked_fill_({mask}, 1)", (mask,), True), (f"{v}[{mask}] = 0", (mask,), True)]
    like = _like(s, v, s.shape(v))
    options += [(f"{v}[{index}::2] = {like}[{index}::2] if {like} is not {v} else 5", (like,), True), (f"{v}.copy_({like}.flip(0))", (like,), True)]
    i = s.pick(lambda n: s.values[n].dtype is DTYPES["i64"] and len(s.shape(n)) == 1 and s.shape(n)[0] > 0)
    if i:
        options.append((f"{v}.index_add_(0, {i} % {rows}, {v}[{i} % {rows}])", (i,), False))
    text, used, exact = s.one(*options)
    s.emit_change(text, v, used, exact)


def slices(s: State) -> None:
    """Several dimensions cut at once, with steps and new dimensions, and lists of places."""
    v = s.pick(lambda n: len(s.shape(n)) > 1)
    if not v:
        return
    parts = []
    for n in s.shape(v):
        begin = s.integer(0, max(0, n - 1))
        parts.append(s.one(":", f"{begin}:", f":{begin + 1}", f"{begin}::2", f"-{begin + 1}:", f"{begin}:{begin + 3}", f"{begin}:{begin + 1}"))
    if s.one(True, False):
        parts.insert(s.integer(0, len(parts)), "None")
    if s.one(True, False, False) and s.shape(v)[0]:
        parts[0] = s.draw(st.sampled_from(("[0]", "[-1, 0]", "[0, 0, 0]"))) if parts[0] != "None" else "None"
    s.emit(f"{v}[{', '.join(parts)}]", (v,))


OPERATIONS = (
    *[convolution] * 2, *[pool] * 2, grouped_norm, more_running, *[more_integers] * 2, more_booleans, *[scatters] * 2, ordered, several, loss,
    products, *[part_in_place] * 3, *[slices] * 2,
)
