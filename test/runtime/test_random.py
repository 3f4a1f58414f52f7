"""Random numbers as kernels: torch's own, for a GPU that is made up, whose launches are played thread by thread."""

import numpy as np
import pytest
import torch
from made_up_generator import MOST_THREADS, WORD, MadeUp, philox
from torch import nn

import inferno
from inferno.capture.draws import _TensorWords, numbers_at, score_numbers
from inferno.philox import SCORES, Draw, score, threads_of
from inferno.runtime.region import region as regions

@pytest.fixture
def made_up(monkeypatch):
    """The made-up generator is that of the CPU.  What Dynamo compiled before has the generator of its time."""
    torch.compiler.reset()
    used = MadeUp()
    monkeypatch.setattr(regions, "generator_of", lambda device: used)
    monkeypatch.setattr("inferno.runtime.compile.generator_of", lambda device: used)
    return used


def same(a, b):
    assert a.dtype == b.dtype and a.shape == b.shape
    assert torch.equal(a, b), f"{(a != b).sum()} of {a.numel()} elements differ"


def test_the_published_vectors():
    """Random123's known answers, and those that torch.manual_seed(0) gives on every NVIDIA GPU."""
    assert philox((0, 0, 0, 0), (0, 0)) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert philox((WORD,) * 4, (WORD,) * 2) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]
    pi = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344)
    assert philox(pi, (0xA4093822, 0x299F31D0)) == [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]
    zero = torch.zeros((), dtype=torch.int64)
    found = numbers_at(Draw("float32", (3,), 256), zero, zero, torch.arange(3))
    assert [round(v, 4) for v in found.tolist()] == [0.3990, 0.5167, 0.0249]


DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("count", [1, 255, 700, 2 * 4 * MOST_THREADS + 9])
def test_rand(made_up, count):
    fast = inferno.compile(lambda *xs: [x + torch.rand(count, dtype=x.dtype) for x in xs], tuple(torch.zeros(count, dtype=d) for d in DTYPES))
    assert not fast.fallbacks and sum(len(p.kernels) for p in fast.programs) == len(DTYPES)
    theirs = MadeUp()
    for _ in range(2):  # a second call draws the next numbers
        for found, dtype in zip(fast(*(torch.zeros(count, dtype=d) for d in DTYPES)), DTYPES):
            same(found, theirs.rand(count, dtype=dtype))
        assert made_up.offset == theirs.offset


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("shape", [(3, 5), (6, 7), (3, 4, 20), (9, 8 * MOST_THREADS // 4)], ids=str)
def test_dropout(made_up, shape):
    fast = inferno.compile(lambda *xs: [torch.ops.aten.native_dropout(x, 0.3, True)[0] for x in xs], tuple(torch.ones(shape, dtype=d) for d in DTYPES))
    assert not fast.fallbacks and sum(len(p.kernels) for p in fast.programs) == len(DTYPES)
    xs = [torch.randn(shape).to(dtype) for dtype in DTYPES]
    xs[0][0] = float("inf")
    theirs = MadeUp()
    for x, found in zip(xs, fast(*xs)):
        expected, mask = theirs.dropout(x, 0.3)
        assert torch.equal(found.isnan(), expected.isnan()) and torch.equal(found.isnan(), x.isinf() & ~mask)
        same(found.nan_to_num(), expected.nan_to_num())


def test_dropout_and_a_residual_are_one_kernel(made_up):
    fast = inferno.compile(lambda x, y: y.sin() + torch.ops.aten.native_dropout(x.t(), 0.3, True)[0], (torch.ones(24, 36), torch.ones(36, 24)))
    assert not fast.fallbacks and sum(len(p.kernels) for p in fast.programs) == 1
    x, y = torch.randn(24, 36), torch.randn(36, 24)
    torch.testing.assert_close(fast(x, y), y.sin() + MadeUp().dropout(x, 0.3)[0].t())


def test_training_saves_the_mask(made_up):
    def step(x, p):
        y, mask = torch.ops.aten.native_dropout(x, p, True)
        return y * 2, mask

    fast = inferno.compile(lambda x: step(x, 0.25), (torch.ones(40, 12),))
    x = torch.randn(40, 12)
    value, mask = MadeUp().dropout(x, 0.25)
    found, kept = fast(x)
    same(kept, mask)
    same(found, value * 2)


@pytest.mark.parametrize("order", [(1, 0, 2), (2, 0, 1)])
def test_dropout_goes_by_memory_in_vectors_and_by_indices_one_by_one(made_up, order):
    f = lambda x: torch.ops.aten.native_dropout(x.sin(), 0.5, True)[1]  # noqa: E731
    theirs = MadeUp()
    for shape in ((4, 6, 8), (3, 5, 7)):
        x = torch.randn(shape).permute(order)
        fast = inferno.compile(f, (x,))
        if x.numel() % 2:
            expected = theirs.dropout(x.contiguous(), 0.5)[1]
        else:
            expected = theirs.dropout(x.permute([order.index(i) for i in range(3)]).contiguous(), 0.5)[1].permute(order)
        same(fast(x), expected)


def test_bernoulli_and_integers(made_up):
    def f(x):
        return torch.ops.aten.bernoulli.p(x, 0.7), torch.randint(-5, 1000, (30, 40)), torch.randint_like(x, 9, dtype=torch.int64), torch.rand_like(x)

    x = torch.ones(4, 300)
    fast = inferno.compile(f, (x,))
    assert not fast.fallbacks
    a, b, c, d = fast(x)
    theirs = MadeUp()
    same(a, (theirs.uniform(1200) < np.float32(0.7)).float().view(4, 300))
    same(b, theirs.randint(-5, 1000, (30, 40)))
    same(c, theirs.randint(0, 9, (4, 300)))
    same(d, theirs.rand(4, 300))


def test_the_order_among_other_draws(made_up):
    """What is not compiled draws from the same state, in the program's order."""
    log = []

    @torch.library.custom_op("inferno_test::other_draw", mutates_args=(), tags=(torch.Tag.nondeterministic_seeded,))
    def other(x: torch.Tensor) -> torch.Tensor:
        log.append(made_up.offset)
        made_up.offset += 8
        return x.clone()

    other.register_fake(lambda x: torch.empty_like(x))

    def f(x):
        a = torch.rand(8) + x
        b = torch.rand(8) * x
        c = torch.ops.inferno_test.other_draw(x)
        return a, b, c, torch.rand(8) + c

    fast = inferno.compile(f, (torch.ones(8),))
    start = made_up.offset
    a, b, _, d = fast(torch.ones(8))
    assert log == [start + 8] and made_up.offset == start + 20
    theirs = MadeUp()
    same(a, theirs.rand(8) + 1)
    same(b, theirs.rand(8))
    theirs.offset += 8
    same(d, theirs.rand(8) + 1)


class Block(nn.Module):
    """Linear, dropout, residual and norm."""

    def __init__(self, width):
        super().__init__()
        self.linear, self.norm = nn.Linear(width, width), nn.LayerNorm(width)

    def forward(self, x):
        return self.norm(x + torch.ops.aten.native_dropout(self.linear(x), 0.1, True)[0])


@pytest.mark.thorough
def test_equal_layers_are_equal_kernels_and_train(made_up):
    torch.manual_seed(1)
    model, x = nn.Sequential(*(Block(32) for _ in range(3))), torch.randn(2, 16, 32)
    compiled = torch.compile(model, backend="inferno")
    loss = compiled(x).square().mean()
    loss.backward()
    gradients = [p.grad.clone() for p in model.parameters()]
    theirs = MadeUp()
    masks = [theirs.dropout(x, 0.1)[1] for _ in range(3)]
    assert made_up.offset == theirs.offset
    model.zero_grad()
    y = x
    for block, mask in zip(model, masks):
        y = block.norm(y + block.linear(y) * mask / 0.9)
    expected = y.square().mean()
    expected.backward()
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(gradients, [p.grad for p in model.parameters()], rtol=1e-4, atol=1e-6)
    report = inferno.explain(compiled)
    assert not report.fallbacks and [r.calls for r in report.rows if "philox" in r.kernel] == [3]
    torch.compiler.reset()


def test_what_stays_in_eager(made_up):
    """Other generators, normal numbers, probabilities of a tensor."""
    own = torch.Generator().manual_seed(5)

    def f(x):
        return torch.randn(4) + x, torch.bernoulli(x.sigmoid()), torch.rand(4, generator=own) + x, torch.randperm(4)

    before = made_up.offset
    compiled = torch.compile(f, backend="inferno")
    compiled(torch.ones(4))
    assert made_up.offset == before
    torch.compiler.reset()


def test_among_sizes_that_vary(made_up):
    """Numbers for sizes that are known are compiled with the rest; those for sizes that vary are eager's."""
    compiled = torch.compile(lambda x: (x.sin() + torch.rand(8), torch.rand_like(x) + x), backend="inferno", dynamic=True)
    for rows in (3, 5):
        theirs = MadeUp(offset=made_up.offset)
        x = torch.randn(rows, 8)
        first, _ = compiled(x)
        torch.testing.assert_close(first, x.sin() + theirs.rand(8))
        assert made_up.offset == theirs.offset
    torch.compiler.reset()


def test_without_fallback(made_up):
    fast = inferno.compile(lambda x: torch.ops.aten.native_dropout(x, 0.5, True)[0] + x, (torch.ones(16),), fallback=False)
    same(fast(torch.ones(16)), MadeUp().dropout(torch.ones(16), 0.5)[0] + 1)


def test_the_threads_of_a_launch():
    assert [threads_of(n, 132 * 2048) for n in (1, 256, 257, 10**9)] == [256, 256, 512, 132 * 2048]
    assert [Draw(kind, (1025,), 256).increment for kind in ("float32", "float64")] == [8, 12]


def test_numbers_of_scores():
    """Whole blocks of them, as eager makes them, are those of each score."""
    class Whole(_TensorWords):
        def convert(self, draw, words):
            return words[0]

    seed, places = torch.tensor(-123_456_789_012_345_678), (torch.arange(n).view([-1 if i == d else 1 for i in range(3)]) for d, n in enumerate((6, 37, 50)))
    each = score(Whole(), Draw(SCORES, (), 0), seed, *places)
    assert torch.equal(score_numbers(seed, [2, 3, 37, 50]), each.float().view(2, 3, 37, 50)) and each.unique().numel() > 10000
