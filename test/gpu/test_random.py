"""Random numbers on a GPU: bit for bit those of eager, and the generator ends where eager leaves it."""

import itertools
import threading

import pytest
import torch
import torch._inductor.config
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import inferno
from inferno.runtime.region.generator import generator_of

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
# Less than a block, blocks that are not full, all threads of an H200 once and several times, with and without vectors.
SIZES = (1, 2, 7, 256, 1002, 270336, 270337, 4 * 270336, 8 * 270336 + 4, 3_000_001, 20_000_006)
native_dropout = torch.ops.aten.native_dropout


def both(f, *args, seed=5, calls=2, **options):
    """What ``calls`` calls of the compiled function and of the function give from one seed, and the numbers that eager draws next."""
    fast = inferno.compile(f, args, **options)
    found = []
    for g in (fast, f):
        torch.manual_seed(seed)
        torch.rand(10, device="cuda")
        made = [g(*args) for _ in range(calls)]
        found.append(([torch.utils._pytree.tree_leaves(m) for m in made], torch.rand(4, device="cuda"), torch.cuda.default_generators[0].get_offset()))
    (ours, after, offset), (theirs, expected, other) = found
    assert torch.equal(after, expected) and offset == other
    return fast, list(itertools.chain(*ours)), list(itertools.chain(*theirs))


def same(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        assert torch.equal(a, b), f"{a.dtype} {tuple(a.shape)}: {(a != b).sum()} of {a.numel()} elements differ"


def test_this_torch_draws_as_ours_do():
    generator = generator_of(torch.device("cuda", 0))
    assert all(generator.draws_alike(kind) for kind in ("float32", "float64", "integer"))
    assert all(generator.dropout_vector(dtype) >= 2 for dtype in DTYPES)


@pytest.mark.parametrize("size", SIZES)
def test_every_size(size):
    def f(*xs):
        return [(native_dropout(x, 0.3, True), torch.rand_like(x), torch.ops.aten.bernoulli.p(x, 0.7)) for x in xs]

    xs = [torch.randn(size, device="cuda").to(d) for d in DTYPES]
    fast, ours, theirs = both(f, *xs)
    same(ours, theirs)
    assert not fast.fallbacks


def test_integers_and_other_ways_to_ask():
    def f(x):
        return (
            torch.randint(-7, 100000, (3, 1001), device="cuda"), torch.randint(5, (70,), device="cuda", dtype=torch.int32), torch.randint_like(x, 9),
            torch.rand(2, 3, device="cuda", dtype=torch.float64), torch.empty_like(x).uniform_(), torch.empty_like(x).bernoulli_(0.25),
            F.dropout(x, 0.9), F.alpha_dropout(x, 0.2, True), F.dropout2d(x.view(1, 60, 5, 10)), F.dropout(x, 0.0), F.dropout(x, 1.0),
        )

    _, ours, theirs = both(f, torch.randn(60, 50, device="cuda"))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_layouts(dtype):
    """Transposed, channels last, a part of a tensor that begins anywhere, with gaps."""
    base = torch.randn(16, 24, 10, 6, device="cuda").to(dtype)
    flat = lambda begin: torch.randn(5000, device="cuda").to(dtype)[begin : begin + 4000]  # noqa: E731
    inputs = [
        base.permute(2, 0, 3, 1), base.to(memory_format=torch.channels_last), base.clone()[..., ::2], flat(1), flat(2), flat(4), flat(8),
        base.clone().transpose(1, 2)[:, :, :23], base[:15, :23, :9, :5].clone(memory_format=torch.channels_last), flat(0)[:1].expand(9, 9),
    ]
    _, ours, theirs = both(lambda *xs: [(native_dropout(x, 0.4, True), torch.rand_like(x)) for x in xs], *inputs)
    same(ours, theirs)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dropout_beside_others(dtype):
    """Numbers are drawn where they are used, for several neighbours at once where these are one row's."""
    def f(x, y, b):
        return native_dropout(x, 0.1, True)[0] + y, native_dropout(y * 1, 0.5, True)[0] * x + b, F.dropout(x.mT.contiguous(), 0.3)

    for rows, columns in ((1024, 2048), (900, 1023), (77, 12), (3, 100_000)):
        x, y = (torch.randn(rows, columns, device="cuda").to(dtype) for _ in range(2))
        _, ours, theirs = both(f, x, y, y[0])
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, b, rtol=2e-2 if dtype.itemsize == 2 else 1e-5, atol=2e-2 if dtype.itemsize == 2 else 1e-5)


def test_the_order_among_what_is_drawn_in_eager():
    def f(x):
        a = F.dropout(x.sin(), 0.5)
        b = torch.randn_like(x) + a
        c = F.dropout(b.cos(), 0.1) + torch.rand_like(x)
        d = torch.bernoulli(c.sigmoid())
        return a, b, c, d, torch.randperm(9, device="cuda"), torch.rand(3, device="cuda") * 2

    _, ours, theirs = both(f, torch.randn(300, 70, device="cuda"))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("seed", [0, 2**40 + 3, -1, 2**63 + 5])
def test_seeds_and_states(seed):
    fast, ours, theirs = both(lambda x: native_dropout(x, 0.5, True), torch.randn(1000, device="cuda"), seed=seed)
    same(ours, theirs)
    x = torch.randn(1000, device="cuda")
    state = torch.cuda.get_rng_state()
    first = fast(x)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        other = fast(x)
    second = fast(x)
    torch.cuda.set_rng_state(state)
    same(fast(x), first)
    same(fast(x), second)
    assert not torch.equal(first[1], other[1]) and not torch.equal(first[1], second[1])


def test_large_offsets():
    fast = inferno.compile(lambda x: native_dropout(x, 0.5, True), (torch.randn(1000, device="cuda"),))
    x, found = torch.randn(1000, device="cuda"), []
    for f in (fast, lambda x: native_dropout(x, 0.5, True)):
        torch.cuda.default_generators[0].set_offset(2**40 - 4)
        found.append([t for _ in range(2) for t in f(x)])
    same(*found)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_training(dtype):
    x, found = torch.randn(64, 100, 48, device="cuda").to(dtype), []
    f = lambda x: F.dropout(x, 0.1)  # noqa: E731
    for g in (torch.compile(f, backend="inferno", fullgraph=True), f):
        torch.manual_seed(3)
        leaf = x.clone().requires_grad_()
        y = g(leaf)
        y.backward(torch.ones_like(y))
        found.append((y.detach(), leaf.grad, torch.rand(4, device="cuda")))
    same(*found)
    torch.compiler.reset()


def test_a_transformer_trains_as_in_eager(exact_float32):
    """Twelve dropouts, among them the attentions', which torch's own kernels draw."""
    losses = []
    for backend in ("inferno", None):
        torch.manual_seed(7)
        model = nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 4, 128, dropout=0.2, batch_first=True), 3).cuda().train()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        step = torch.compile(model, backend=backend) if backend else model
        x = torch.randn(8, 33, 64, device="cuda")
        losses.append([])
        for _ in range(4):
            optimizer.zero_grad()
            loss = step(x).square().mean()
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.item())
        torch.compiler.reset()
    assert losses[0] == pytest.approx(losses[1], rel=1e-4) and len(set(losses[0])) == 4


def test_checkpoints_draw_the_same_again():
    """What is computed again in the backward pass drops what the forward pass dropped.  Its numbers are of generators that AOTAutograd
    makes for them, unless ``fallback_random`` asks for eager's."""
    block = lambda x: F.dropout(x.sin(), 0.5) * x  # noqa: E731
    f = lambda x: checkpoint(block, F.dropout(x, 0.1), use_reentrant=False) + torch.rand_like(x)  # noqa: E731
    x = torch.randn(500, 30, device="cuda")

    def run(g):
        torch.manual_seed(3)
        leaf = x.clone().requires_grad_()
        y = g(leaf)
        y.sum().backward()
        return y.detach(), leaf.grad, torch.rand(4, device="cuda")

    leaf = x.clone().requires_grad_()
    y = torch.compile(lambda x: checkpoint(block, x, use_reentrant=False), backend="inferno")(leaf)
    y.sum().backward()
    torch.testing.assert_close(leaf.grad, (x.cos() * x + x.sin()) * 2 * (y != 0), rtol=1e-5, atol=1e-5)
    assert 0.4 < (y == 0).float().mean() < 0.6
    torch.compiler.reset()
    with torch._inductor.config.patch(fallback_random=True):
        found = run(torch.compile(f, backend="inferno"))
    for a, b in zip(found, run(f)):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)
    torch.compiler.reset()


def test_a_captured_stream_draws_anew_in_each_replay():
    """By the kernels, whose states an operation of torch's draws in each replay."""
    f = lambda x: (native_dropout(x, 0.3, True)[0], torch.rand_like(x), torch.rand_like(x))  # noqa: E731
    x = torch.ones(1 << 20, device="cuda")
    fast = inferno.compile(f, (x,))
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        fast(x)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made = fast(x)

    def replays():
        torch.manual_seed(9)
        found = []
        for _ in range(3):
            graph.replay()
            found.append([t.clone() for t in made])
        return found

    first, again = replays(), replays()
    for ours, same_ in zip(first, again):
        same(ours, same_)
    # Of so many numbers a mean is off by 5 deviations once in a million times, and numbers drawn apart have nothing to do with each other.
    off = 5 / x.numel() ** 0.5
    uniform = [n - 0.5 for _, *numbers in first for n in numbers]
    assert all(abs(float(n.mean())) < 0.29 * off for n in uniform)
    assert all(abs(float((a * b).mean())) < off / 12 for a, b in itertools.combinations(uniform, 2))
    kept = [(value > 0).double() - 0.7 for value, *_ in first]
    assert all(abs(float(k.mean())) < 0.46 * off for k in kept)
    assert all(abs(float((a * b).mean())) < 0.21 * off for a, b in itertools.combinations([*kept, *uniform], 2))


def test_graphs_of_our_own():
    f = lambda x: (native_dropout(native_dropout(x, 0.5, True)[0], 0.1, True), torch.rand_like(x).sum(0))  # noqa: E731
    _, ours, theirs = both(f, torch.randn(200, 64, device="cuda"), calls=5, cuda_graphs=True)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_checked_calls(dtype):
    f = lambda x: F.dropout(x.sin(), 0.3) * torch.rand_like(x) + torch.randint_like(x, 5)  # noqa: E731
    x = torch.randn(33, 40, device="cuda").to(dtype)
    inferno.compile(f, (x,), check=True)(x)
    torch.compile(f, backend="inferno", options={"check": True})(x)
    torch.compiler.reset()


@pytest.mark.parametrize("dynamic", [True, False])
def test_sizes_that_vary(dynamic):
    f = lambda x: F.dropout(x * 2, 0.5)  # noqa: E731
    fast = torch.compile(f, backend="inferno", dynamic=dynamic)
    for rows in (3, 64, 1001):
        x = torch.randn(rows, 24, device="cuda")
        torch.manual_seed(2)
        ours = fast(x)
        torch.manual_seed(2)
        assert torch.equal(ours, f(x))
    torch.compiler.reset()


def test_threads_draw_different_numbers():
    x, made = torch.empty(64, device="cuda"), []
    fast = inferno.compile(lambda x: torch.rand_like(x) * 1, (x,))

    def work():
        made.extend(fast(x) for _ in range(20))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len({tuple(m.tolist()) for m in made}) == 80
