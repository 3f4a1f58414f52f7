"""Complex numbers are pairs of real ones: what is computed of them is right, and rotary embeddings by them are one kernel of real arithmetic."""

import pytest
import torch
from choices import generators
from torch.export import Dim
from torch.fx.experimental.proxy_tensor import make_fx

import inferno
from inferno.capture.complex_numbers import split_complex
from inferno.runtime.check.comparison import compare

torch.manual_seed(0)
aten = torch.ops.aten
X, F = torch.randn(2, 6, 3, 8), torch.polar(torch.rand(6, 4) + 0.5, torch.randn(6, 4))
REAL = torch.randn(6, 4)


def rotate(x, f):
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * f[None, :, None]).flatten(3).type_as(x)


CASES = {
    "rotary": (rotate, (X, F)),
    "rotary of 16 bits": (rotate, (X.bfloat16(), F)),
    "pairs that are no part of a row": (lambda x, f: torch.view_as_real(torch.view_as_complex(x) * f), (torch.randn(3, 6, 4, 2), F)),
    "with numbers": (lambda f: (f * 2, f * 2j, f / 3, f - 1j, 2j + f, -f), (F,)),
    "behind numbers": (lambda f, r: (1 - f, 1j - f, 3 + f, torch.rsub(f, 2, alpha=3), 1j - r, 2 - 1j + r, 3 * f, 3 / f, 1j / f, 1j / r), (F, REAL)),
    "with real tensors": (lambda f, r: (f + r, r - f, torch.sub(f, r, alpha=2), torch.sub(r, f, alpha=2), f * r[:1], r * f[:, :1], f / r), (F, REAL)),
    "that grow": (lambda f, r: (f[:1] + r, r - f[:, :1]), (F, REAL)),
    "parts": (lambda f: (f.real * f.imag, f.conj().imag, f.conj() * f, torch.view_as_real(f) + 1), (F,)),
    "moved": (lambda f: (f.t()[1:], torch.cat([f, f * 2]).reshape(4, 12), f.unsqueeze(0).expand(3, 6, 4) + 1, f[torch.tensor([2, 0])], f.sum(0)), (F,)),
    "exponentials": (lambda r: torch.exp(r * 1j).real + torch.polar(torch.ones_like(r), r).imag, (REAL,)),
    "of other types": (lambda f, r: (f.to(torch.complex128) * 2, r.to(torch.complex64) * f, f * r.double()), (F, REAL)),
    "with what is not known": (lambda f: (f @ f.mT.conj()).real + (f * 2).sin().sum().real, (F,)),
    "joined with real ones": (lambda f, r: (torch.cat([f * 2, r]), torch.cat([r, f])), (F, REAL)),
    "sums with numbers": (lambda r: (r + 0j, r - 2j, r * 1j, torch.add(r, 1 + 2j, alpha=3), torch.sub(r, 1 - 2j, alpha=2)), (REAL,)),
    "returned as they came": (lambda f, r: (f, r * 2), (F, REAL)),
}


def spectral(x, w):
    """The middle of a Fourier neural operator's layer."""
    made = torch.zeros(2, 4, 6, 4, dtype=x.dtype)
    made[:, :, :2, :2] = torch.einsum("bixy,ioxy->boxy", x[:, :, :2, :2], w)
    made[:, :, -2:, :2] = torch.einsum("bixy,ioxy->boxy", x[:, :, -2:, :2], w)
    return made


def chosen(f, r):
    return torch.where(r > 0, f * 2, r), f.masked_fill(r > 0, 1 - 2j), torch.nn.functional.pad(f * 2, (1, 1), value=3.0), torch.full((6, 4), 1 + 2j) * f


# In one piece on both targets: no part of them is complex but what is returned.
WHOLE = {
    "products": (lambda f, r: (f @ f.mT, r.mT @ f.real, r.to(f.dtype).mT @ f, torch.linalg.vecdot(f, f)), (F, REAL)),
    "layer of frequencies": (spectral, (torch.randn(2, 4, 6, 4, dtype=torch.complex64), torch.randn(4, 4, 2, 2, dtype=torch.complex64))),
    "quotients of two widths": (lambda f, r: (r.double() / f, f.to(torch.complex128) / F, F / f.to(torch.complex128), f / r.double()), (F, REAL)),
    "replaced": (lambda f: torch.where(f.real > 0, f, torch.nan).nan_to_num(0.5, 1, 2) + (f / 0).nan_to_num(neginf=-3).real.clamp(-9, 9), (F,)),
    "quotients": (lambda f, r: (f / F[:1], 1 / f, r / f, f / (1 + 2j), f.reciprocal(), aten.div.Scalar(f, 3)), (F, REAL)),
    "sizes": (lambda f: (f.abs(), f.sgn(), f.mean(), f.cumsum(1), f**2), (F,)),
    "products of many": (lambda f: (f.prod(0), f.prod(1, keepdim=True), f.prod(), (f[:5] * 2).prod(-1), f[:1].prod(0)), (F,)),
    "running products": (lambda f: (f.cumprod(0), (f * 2).cumprod(-1), f[0, 0].cumprod(0), f[:, :1].cumprod(1)), (F,)),
    "long running products": (lambda f: (f.cumprod(1), f.prod(1)), (torch.polar(torch.ones(3, 100), torch.randn(3, 100)),)),
    "sizes of many": (lambda f: f.abs(), (torch.randn(4096, dtype=torch.complex64),)),
    "chosen": (chosen, (F, REAL)),
    "equal": (lambda f, r: (f == f[:1], f != r, f == 1, (f * r).isfinite()), (F, REAL)),
    "convolutions with what they make": (
        lambda x, w: torch.complex(torch.nn.functional.conv2d(x, w, padding=1), x), (torch.randn(1, 8, 5, 5), torch.randn(8, 8, 3, 3)),
    ),
}
CASES |= WHOLE


def wide(values):
    return tuple(v.to(torch.complex128) if v.is_complex() else v.double() for v in values)


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("name", CASES)
def test_right(name):
    function, args = CASES[name]
    fast = inferno.compile(function, args)
    found = compare(fast(*args), function(*args), function(*wide(args)) if "types" not in name else function(*args))
    assert found.right, str(found)


@pytest.mark.covering(most=4)
@pytest.mark.parametrize("name", WHOLE)
def test_whole_on_a_gpu(name):
    inferno.compile(*WHOLE[name], target="sm_90a", fallback=False)


def test_quotients_and_sizes_at_the_edges():
    f, inf, nan = F * 1e30, float("inf"), float("nan")
    nothing, edges = F * 0, torch.tensor([complex(inf, nan), complex(nan, 1), complex(0, -inf), 0j])
    function = lambda f, nothing, edges: (f / f, f.abs(), f / nothing, 2 / nothing, edges.abs())  # noqa: E731
    for ours, eager in zip(inferno.compile(function, (f, nothing, edges))(f, nothing, edges), function(f, nothing, edges)):
        torch.testing.assert_close(ours, eager, equal_nan=True)


def test_a_conjugate_that_nobody_has_computed_yet():
    fast = inferno.compile(lambda f: f.imag * 2, (F,))
    assert torch.equal(fast(F.conj()), F.conj().imag * 2)


def test_outputs_that_eager_computes_when_they_are_read():
    def function(f):
        y = f * 2
        return f.conj(), f.conj().imag, y, y.conj(), y.conj().imag

    for ours, eager in zip(inferno.compile(function, (F,))(F), function(F)):
        torch.testing.assert_close(ours.resolve_conj().resolve_neg(), eager.resolve_conj().resolve_neg())


def test_gradients():
    """What a backward gets may be a conjugate that nobody has computed yet."""
    def loss(x, w):
        return rotate(x, F).square().sum() + ((w * w).conj() * w).real.sum()

    found = []
    for function in (loss, torch.compile(loss, backend="inferno")):
        x, w = X.clone().requires_grad_(), F.clone().requires_grad_()
        function(x, w).backward()
        found.append((x.grad, w.grad))
    for eager, ours in zip(*found):
        torch.testing.assert_close(ours, eager)


def test_gradients_of_products_with_a_complex_number():
    """torch multiplies the gradient by the number's conjugate, which is an operation of no tensor."""
    def function(x):
        return torch.exp((1j * x - x) * 0.5).real.sum()

    fast, x = torch.compile(function, backend="inferno", options={"fallback": False}), X.clone().requires_grad_()
    torch.testing.assert_close(torch.autograd.grad(fast(x), x), torch.autograd.grad(function(x), x))


def test_arguments_are_pairs_and_nothing_is_complex():
    graph = make_fx(rotate, tracing_mode="fake")(X, F).graph
    split_complex(graph)
    assert not any(n.meta["val"].is_complex() for n in graph.nodes if n.op != "output")
    assert [tuple(n.meta["val"].shape) for n in graph.nodes if n.op == "placeholder"] == [(2, 6, 3, 8), (6, 4, 2)]


def test_what_is_not_known_reads_what_is_put_together():
    graph = make_fx(lambda f: aten.pow.Tensor_Tensor(f * 2, f), tracing_mode="fake")(F).graph
    split_complex(graph)
    power = graph.find_nodes(op="call_function", target=aten.pow.Tensor_Tensor)[0]
    assert [a.target for a in power.args] == [aten.complex.default, "f_1"]


def test_a_rotary_embedding_is_one_kernel():
    x, f = torch.randn(2, 64, 8, 64).bfloat16(), torch.polar(torch.ones(64, 32), torch.randn(64, 32))
    assert generators(rotate, (x, f)) == ["elementwise"]


def test_sizes_that_vary():
    """Results are as large as what a call gives, not as the example."""
    model, x = lambda x: x * 2j, torch.randn(4, 5, dtype=torch.complex64)
    compiled = inferno.compile(model, (x,), dynamic_shapes=({0: Dim.AUTO},), fallback=False)
    for rows in (9, 4, 2):
        x = torch.randn(rows, 5, dtype=torch.complex64)
        torch.testing.assert_close(compiled(x), model(x))


ELEMENTARY = {
    "logarithms": lambda z: (z.log(), z.log2(), z.log10()),
    "roots": lambda z: (z.sqrt(), z.rsqrt(), z**0.5, z**-0.5),
    "powers": lambda z: (z**3, z**-1, z**-2, z**2.5, z ** (1 + 2j), 2**z, (1 - 1j)**z),
    "powers of tensors": lambda z: (z ** z.real, z ** (z * 0.3), z.real.abs() ** z, torch.pow(z[:, :1], torch.arange(4))),
    "of circles": lambda z: (z.sin(), z.cos(), z.tan()),
    "hyperbolic": lambda z: (z.sinh(), z.cosh(), z.tanh(), z.sigmoid()),
    "angles": lambda z: (z.angle(), z.sgn(), torch.polar(z.abs(), z.angle())),
    "whether": lambda z: (z.isnan(), z.isinf(), z.any(0), z.all(), (z * (z.real > 0)).any(1), (z * 0).logical_not(), (z * 0).bool()),
    "spread": lambda z: (z.var(1), z.std(0), torch.linalg.vector_norm(z, dim=1), torch.linalg.vector_norm(z, 1), z.norm()),
    "diagonals": lambda z: (z[:4].diagonal(), z[:4].trace(), z.tril()),
}
PUT = {
    "rows": lambda z, i: z.index_put((i,), z[:3] * 2),
    "rows added": lambda z, i: z.index_add(0, i, z[:3] * 2),
    "elements added": lambda z, i: (z * 2).scatter_add(0, i[:, None].expand(3, 4), z[3:]),
    "elements": lambda z, i: z.scatter(0, torch.stack([i, (i + 1) % 6], 1), z[:3, :2]),
}


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
@pytest.mark.parametrize("name", [*ELEMENTARY, *PUT])
def test_functions(name, dtype):
    """In one piece, for a CPU and for a GPU."""
    z, i = torch.randn(6, 4, dtype=dtype), torch.tensor([4, 0, 2])
    function, args = (ELEMENTARY[name], (z,)) if name in ELEMENTARY else (PUT[name], (z, i))
    fast = inferno.compile(function, args, fallback=False)
    found = compare(fast(*args), function(*args), function(*(a.to(torch.complex128) if a.is_complex() else a for a in args)))
    assert found.right, str(found)
    inferno.compile(function, args, target="sm_90a", fallback=False)


def test_functions_at_the_edges():
    """Of zeros, of infinite parts, and of numbers whose squares or exponentials are infinite."""
    inf = float("inf")
    z = torch.tensor([0j, -0j, 1 + 0j, -4 + 0j, complex(-4, -0.0), 3e30 - 2e30j, 1e-30 + 1e-30j, 40 + 1j, -90 - 2j, 300 + 0.5j])
    edges = torch.tensor([complex(inf, 1), complex(-inf, -1), complex(2, inf), complex(2, -inf)])
    for function, args in ((lambda z: (z.sqrt(), z.log(), z.tanh(), z**2.5, z.isinf()), z), (lambda z: (z.sqrt(), z.log(), z.isinf(), z.isnan()), edges)):
        for ours, eager in zip(inferno.compile(function, (args,), fallback=False)(args), function(args)):
            torch.testing.assert_close(ours, eager, rtol=1e-5, atol=0)
