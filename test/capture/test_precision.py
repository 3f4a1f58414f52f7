"""16-bit floats: sums of more elements than float16 can count, and numbers that the type does not have, as torch computes them."""

import pytest
import torch
from checks import assert_right
from torch.nn import functional as F

import inferno

N = 100_000  # float16 ends at 65504


def data(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0)) + 1


COUNTED = {
    "mean": (lambda x: (x.mean(), x.mean(1), x.mean(0, keepdim=True)), data(2, N)),
    "mean of another type": (lambda x: (x.mean(1, dtype=torch.float32), x.float().mean(1, dtype=x.dtype)), data(2, N)),
    "mean of columns": (lambda x: x.mean(0), data(N, 3)),
    "var": (lambda x: (x.var(), x.std(1), *torch.var_mean(x, 1)), data(2, N)),
    "layer_norm": (lambda x: F.layer_norm(x, (N,)), data(2, N)),
    "group_norm": (lambda x: F.group_norm(x, 1), data(1, 10, N // 10)),
    "batch_norm": (lambda x: F.batch_norm(x, None, None, training=True), data(N // 10, 2, 10)),
    "rms_norm": (lambda x: F.rms_norm(x, (N,), x[0]), data(2, N)),
    "norms": (lambda x: (x.norm(), x.norm(dim=1), torch.linalg.norm(x), torch.linalg.vector_norm(x, 3, 1)), data(2, N)),
    "norms of differences": (lambda x: (F.normalize(x, dim=1), F.pairwise_distance(x, -x)), data(2, N)),
    "cosine_similarity": (lambda x: F.cosine_similarity(x[:1], x[1:]), data(2, N)),
    "avg_pool1d": (lambda x: F.avg_pool1d(x, N), data(1, 2, N)),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, (250, 400), padding=(2, 3)), data(1, 2, 250, 400)),
    "avg_pool2d without padding": (lambda x: F.avg_pool2d(x, (250, 400), padding=(2, 3), count_include_pad=False), data(1, 2, 250, 400)),
    "adaptive_avg_pool": (lambda x: (F.adaptive_avg_pool2d(x, 1), F.adaptive_avg_pool3d(x, 1)), data(2, 2, 250, 400)),
    "losses": (lambda x: (F.l1_loss(x, -x), F.mse_loss(x, -x), F.huber_loss(x, -x)), data(N)),
}
NUMBERS = {
    "a count": (lambda x: x / 1000 * x.numel() / N, data(N)),
    "quotient": (lambda x: x * 1000 / N, data(50)),
    "small": (lambda x: x * 1000 * 1e-6, data(50)),
    "mask": (lambda x: (x > 0).to(x.dtype) * -1e9, data(50)),
    "powers": (lambda x: x.abs() ** 0.3 + (x.abs() + 1) ** -1.3, data(50)),
    "values": (lambda x: torch.addcmul(x, x, x, value=0.3) - torch.add(x, x, alpha=1e-5), data(50)),
}


@pytest.mark.covering(most=4)
@pytest.mark.parametrize("name", COUNTED)
def test_counts_beyond_float16(name):
    model, x = COUNTED[name]
    assert_right(model, (x.half(),), target="cpu")


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("name", ["mean", "layer_norm", "rms_norm", "norms", "avg_pool2d"])
def test_sums_of_bfloat16(name):
    model, x = COUNTED[name]
    assert_right(model, (x.bfloat16(),), target="cpu")


@pytest.mark.covering(most=4)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_that_the_type_does_not_have(name, dtype):
    model, x = NUMBERS[name]
    assert_right(model, (x.to(dtype),), target="cpu")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_numbers_that_are_sizes(dtype):
    """Of a size that varies it is not known whether the type has it."""
    def model(x):
        n = x.shape[0]
        return x * n, x / n, x + n, torch.add(x, x, alpha=n), x.square() / (n - 1), x.clamp(max=n // 100), x % n, torch.full_like(x, n)

    compiled = inferno.compile(model, (data(64, 3).to(dtype),), dynamic_shapes=({0: torch.export.Dim("n", min=2, max=10_000)},))
    assert compiled.explain().fallbacks == ()
    for n in (64, 300, 5001):
        x = data(n, 3).to(dtype)
        for ours, eager, exact in zip(compiled(x), model(x), model(x.double())):
            assert ours.dtype == dtype
            assert (ours.double() - exact).norm() <= 1.01 * (eager.double() - exact).norm()


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("options", [{}, {"label_smoothing": 0.1, "ignore_index": 2}, {"weight": torch.tensor([0.1, 2.0, 3.0, 0.7])}])
def test_cross_entropy(options):
    target = torch.randint(0, 4, (4000,), generator=torch.Generator().manual_seed(0))
    options = {k: v.half() if k == "weight" else v for k, v in options.items()}

    def loss(logits, target, weight=None):
        return F.cross_entropy(logits, target, **{**options, "weight": weight})

    weight = [options["weight"]] if "weight" in options else []
    assert_right(loss, (data(4000, 4).half(), target, *weight), target="cpu")


def test_rms_norm_adds_the_unit_of_float32():
    """torch's epsilon, where none is given, is that of the type it computes in; beside 1e-6 it can be seen."""
    for x in (data(2, 300) / 1000, data(2, 300).half() / 1000):
        exact = F.rms_norm(x.double(), (300,), eps=torch.finfo(torch.float32).eps)
        compiled = assert_right(lambda x: F.rms_norm(x, (300,)), (x,), target="cpu")
        assert (compiled(x).double() - exact).norm() <= torch.finfo(x.dtype).eps * exact.norm()


def test_norms_of_vectors_and_matrices():
    def norms(x):
        return torch.linalg.norm(x, 1, dim=1), torch.linalg.norm(x, "fro"), torch.linalg.norm(x, float("inf"), dim=0), torch.linalg.norm(x[0], 3)

    assert_right(norms, (data(30, 40),), target="cpu")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int32], ids=str)
def test_short_powers(dtype):
    """A first and a second power, which are the number and a product."""
    x = (data(7, 33) * 3).to(dtype)
    assert_right(lambda x: (x**1, x**2 + 1, x.pow(2), *((x.pow(2.0), x.pow(1.0)) if dtype.is_floating_point else ())), (x,))
    special = torch.tensor([0.0, -0.0, float("inf"), -float("inf"), float("nan")])
    torch.testing.assert_close(inferno.compile(lambda x: (x**1, x**2), (special,))(special), (special, special * special), rtol=0, atol=0, equal_nan=True)


FINE = {
    "expm1": torch.expm1, "log1p": torch.log1p, "elu": F.elu, "softplus": lambda x: F.softplus(-1 / x.abs() ** 0.2),
    "xlog1py": lambda x: torch.special.xlog1py(x.abs() + 2, x), "angle": torch.angle,
}


@pytest.mark.parametrize("name", FINE)
def test_float64_keeps_its_digits(name):
    """Of small numbers, each by itself."""
    x = torch.logspace(-12, -1, 45, dtype=torch.float64)
    x = torch.cat([x, -x])
    with torch.no_grad():
        expected, found = FINE[name](x), inferno.compile(FINE[name], (x,), target="cpu", fallback=False)(x)
    torch.testing.assert_close(found, expected, rtol=1e-14, atol=0)


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("bins,low,high", [(4, -3, 3), (10, 0, 1), (7, -1, 6), (100, 0, 0)])
def test_numbers_on_the_borders_of_bins(dtype, bins, low, high):
    """In the bins that they are in, which 16 bits alone do not tell."""
    x = torch.cat([torch.linspace(-2.5, 2.5, 41, dtype=torch.float64).to(dtype).repeat(9), data(500).to(dtype)])
    model = lambda x: torch.histc(x, bins, low, high)  # noqa: E731
    found = inferno.compile(model, (x,), target="cpu", fallback=False)(x)
    assert (found.double() - model(x.double() if dtype.itemsize == 2 else x).double()).abs().sum() <= 2  # one that is a rounding away from a border
