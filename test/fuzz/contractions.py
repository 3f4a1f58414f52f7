"""Draws programs around matrix products: any sizes, layouts and dtypes, what is fused before and after them, several of one operand."""

from dataclasses import dataclass, field

from hypothesis import strategies as st

from fuzz.programs import LAYOUTS, Input, Line, Program

ROWS = (1, 2, 3, 5, 8, 9, 16, 17, 31, 33, 64, 65, 100, 128, 200, 256, 300, 513)
COLUMNS = (1, 3, 8, 16, 24, 31, 40, 64, 72, 100, 128, 200, 256, 264, 320, 513, 520)
TERMS = (1, 2, 7, 8, 16, 33, 40, 64, 100, 128, 200, 256, 513, 520, 1000, 1024)
BATCHES = ((), (), (), (), (2,), (3,), (7,), (2, 3))
_ACTIVATIONS = ("torch.relu({})", "F.gelu({})", "F.gelu({}, approximate='tanh')", "F.silu({})", "torch.tanh({})", "torch.sigmoid({})", "{} * 0.5 + 1")
_ROW_OPERATIONS = (
    "torch.softmax({}, -1)", "F.layer_norm({0}, {0}.shape[-1:])", "{0} * torch.rsqrt({0}.float().square().mean(-1, keepdim=True) + 1e-3).to({0}.dtype)",
    "{}.sum(-1)", "{}.amax(-1, keepdim=True)",
)


@dataclass
class _Builder:
    draw: st.DrawFn
    dtype: str
    inputs: list[Input] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)

    def one(self, *of):
        return self.draw(st.sampled_from(of))

    def rarely(self) -> bool:
        return self.draw(st.integers(0, 3)) == 0

    def input(self, *shape: int, dtype: str | None = None) -> str:
        name = f"x{len(self.inputs)}"
        layout = self.one(*LAYOUTS) if self.rarely() else "contiguous"
        self.inputs.append(Input(name, shape, dtype or self.dtype, layout))
        return name

    def line(self, text: str, *used: str) -> str:
        name = f"v{len(self.lines)}"
        self.lines.append(Line(f"{name} = {text}", (name,), used))
        return name

    def before(self, name: str, *shape: int) -> str:
        """What may be done to an operand where it is read."""
        kind = self.one("plain", "plain", "plain", "relu", "rows", "columns", "cast")
        if kind == "relu":
            return self.line(f"torch.relu({name})", name)
        if kind in ("rows", "columns"):
            scale = self.input(*((shape[-2], 1) if kind == "rows" else (shape[-1],)))
            return self.line(f"{name} * {scale}", name, scale)
        if kind == "cast":
            other = self.input(*shape, dtype=self.one("f32", "bf16", "f16", "i32"))
            return self.line(f"{other}.to({self.dtype})", other)
        return name

    def product(self, x: str, batch: tuple[int, ...], n: int, k: int) -> str:
        form = self.one("linear", "linear", "matmul", "matmul", "transposed")
        if form == "linear":
            w = self.before(self.input(n, k), n, k)
            bias = self.input(n) if self.rarely() else None
            return self.line(f"F.linear({x}, {w}{f', {bias}' if bias else ''})", x, w, *([bias] if bias else []))
        shape = (*(batch if self.rarely() else ()), *((k, n) if form == "matmul" else (n, k)))
        w = self.before(self.input(*shape), *shape)
        return self.line(f"{x} @ {w}{'.mT' if form == 'transposed' else ''}", x, w)

    def heads(self) -> tuple[str, tuple[int, ...]]:
        """Attention's products: tensors of [batch, length, heads, features], whose heads may share keys."""
        b, s, t, h, g, d = self.one(1, 2, 3), self.one(1, 5, 64, 100), self.one(7, 64, 130), self.one(1, 2, 4), self.one(1, 1, 2, 3), self.one(8, 33, 64)
        q, k = self.input(b, s, h * g, d), self.input(b, t, h, d)
        queries = self.line(f"{q}.transpose(1, 2)", q)
        keys = self.shared(self.line(f"{k}.transpose(1, 2)", k), b, h, g, t, d)
        scores = self.line(f"{queries} @ {keys}.mT", queries, keys)
        if self.rarely():
            return scores, (b, h * g, s, t)
        if self.one(True, False):
            scores = self.line(f"torch.softmax({scores} * {d**-0.5}, -1)", scores)
        v = self.input(b, t, h, d)
        values = self.shared(self.line(f"{v}.transpose(1, 2)", v), b, h, g, t, d)
        made = self.line(f"({scores} @ {values}).transpose(1, 2)", scores, values)
        if self.one(True, False):
            return made, (b, s, h * g, d)
        return self.line(f"{made}.reshape({b}, {s}, {h * g * d})", made), (b, s, h * g * d)

    def shared(self, name: str, b: int, h: int, g: int, t: int, d: int) -> str:
        return name if g == 1 else self.line(f"{name}[:, :, None].expand({b}, {h}, {g}, {t}, {d}).reshape({b}, {h * g}, {t}, {d})", name)

    def after(self, name: str, *shape: int) -> str:
        """One elementwise operation on a result."""
        kind = self.one("activation", "activation", "residual", "bias", "row", "cast")
        if kind == "activation":
            return self.line(self.one(*_ACTIVATIONS).format(name), name)
        if kind == "cast":
            return self.line(f"{name}.to({self.one('f32', 'bf16', 'f16')}).to({self.dtype})", name)
        other = self.input(*{"residual": shape, "bias": shape[-1:], "row": (shape[-2], 1)}[kind])
        return self.line(f"{name} {self.one('+', '*')} {other}", name, other)


@st.composite
def contractions(draw) -> Program:
    """One product, two that meet (SwiGLU), several of one operand, or one after another; their results, or one more besides."""
    b = _Builder(draw, draw(st.sampled_from(("bf16", "bf16", "bf16", "f16", "f32", "f32", "f64"))))
    batch, m, n, k = b.one(*BATCHES), b.one(*ROWS), b.one(*COLUMNS), b.one(*TERMS)
    form = b.one("one", "one", "one", "meet", "several", "chain", "transposed", "heads", "heads")
    shape = (*batch, m, n)
    if form == "heads":
        made, shape = b.heads()
    elif form == "transposed":
        x = b.line(f"{b.input(*batch, k, m)}.mT", "x0")
    else:
        x = b.before(b.input(*batch, m, k), *batch, m, k)
    if form != "heads":
        made = b.product(x, batch, n, k)
    outputs = []
    if form == "meet":
        gate = b.line(b.one(*_ACTIVATIONS).format(made), made)
        other = b.product(x, batch, n, k)
        made = b.line(f"{gate} * {other}", gate, other)
    elif form == "several":
        for _ in range(b.one(1, 2)):
            columns = b.one(n, *COLUMNS)
            other = b.product(x, batch, columns, k)
            outputs.append(b.after(other, *batch, m, columns) if b.rarely() else other)
    elif form == "chain":
        halved = b.line(f"torch.tanh({made})", made)
        following = b.one(*COLUMNS)
        made, shape = b.product(halved, batch, following, n), (*batch, m, following)
    for _ in range(b.one(0, 0, 1, 1, 2, 3)):
        if b.rarely():
            outputs.append(made)
        made = b.after(made, *shape)
    if b.rarely():
        made = b.line(b.one(*_ROW_OPERATIONS).format(made), made)
    return Program(tuple(b.inputs), tuple(b.lines), tuple(dict.fromkeys((made, *outputs))), draw(st.integers(0, 99)))
