"""Independent contractions of one tensor in one launch, against float64."""

import sys
from pathlib import Path

import pytest
import torch
from checks import assert_right, check, poison_memory
from on_gpu import on_hopper
from torch import nn

import inferno
from inferno.schedule.composite.siblings import Siblings

sys.path.insert(0, str(Path(__file__).parents[1] / "codegen"))
from siblings_program import compile_merged

F = torch.nn.functional
HALVES = [torch.bfloat16, torch.float16]

pytestmark = on_hopper


@pytest.fixture(autouse=True)
def on(monkeypatch):
    monkeypatch.setenv("INFERNO_SIBLINGS", "1")


def randn(*shape, dtype=torch.bfloat16, scale=1.0):
    return (torch.randn(shape, device="cuda") * scale).to(dtype)


def weights(k, *columns, dtype=torch.bfloat16, transposed=False):
    return tuple(randn(*((k, n) if transposed else (n, k)), dtype=dtype, scale=k**-0.5) for n in columns)


def projections(x, *ws):
    return tuple(F.linear(x, w) for w in ws)


def merged(compiled) -> int:
    """Calls of kernels that are several."""
    return sum(row.calls for row in compiled.explain().rows if row.generator == "siblings")


def right_merged(function, args, count=1, **options):
    compiled = assert_right(function, args, **options)
    assert merged(compiled) == count, str(compiled.explain())
    return compiled


@pytest.mark.parametrize("rows", [65, 17, 300])
def test_one_weight_is_computed_first(rows):
    """Arms that rewrite tiles in shared memory, and others that do not."""
    def projections(x, w, v, u):
        return F.linear(x, torch.relu(w)), x @ v, F.linear(x, u)

    for k, n in ((16, 72), (200, 40)):
        assert_right(projections, (randn(rows, k), randn(3 * n, k), randn(k, n), randn(n, k)))


@pytest.mark.parametrize("rows, dtype", [*((m, torch.bfloat16) for m in (1, 3, 8, 16, 64, 100, 513, 2048)), *((m, torch.float16) for m in (1, 33, 300))])
def test_grouped_heads(rows, dtype):
    right_merged(projections, (randn(rows, 1024, dtype=dtype), *weights(1024, 1024, 256, 256, dtype=dtype)))


@pytest.mark.parametrize("rows", [2, 16, 200, 1024])
def test_other_layout(rows):
    def transposed(x, *ws):
        return tuple(x @ w for w in ws)

    right_merged(transposed, (randn(rows, 768), *weights(768, 768, 128, 128, transposed=True)))


@pytest.mark.parametrize("rows", [7, 300])
def test_layouts_and_sizes_differ(rows):
    def mixed(x, w, v, u):
        return x @ w, F.linear(x, v), x @ u

    right_merged(mixed, (randn(rows, 520), *weights(520, 264, transposed=True), *weights(520, 72), *weights(520, 136, transposed=True)))


@pytest.mark.parametrize("rows", [1, 16, 77, 512])
@pytest.mark.parametrize("dtype", HALVES)
def test_biases_and_epilogues(rows, dtype):
    def block(x, w, v, u, b, c, r):
        gate = F.linear(x, w, b)
        return gate, F.gelu(F.linear(x, v, c)), F.linear(x, u) * 0.125 + r, torch.relu(gate)

    args = (randn(rows, 512, dtype=dtype), *weights(512, 512, 256, 320, dtype=dtype), randn(512, dtype=dtype), randn(256, dtype=dtype),
            randn(rows, 320, dtype=dtype))
    right_merged(block, args)


def test_float32_vectors(exact_float32):
    right_merged(projections, (randn(3, 1024, dtype=torch.float32), *weights(1024, 1024, 256, 256, dtype=torch.float32)))


@pytest.mark.parametrize("rows, k, columns", [(12, 512, (512, 128, 128)), (64, 4096, (1024, 256, 256)), (300, 768, (768, 768, 768)), (100, 100, (40, 36, 72))])
def test_float32(exact_float32, rows, k, columns):
    right_merged(projections, (randn(rows, k, dtype=torch.float32), *weights(k, *columns, dtype=torch.float32)))


@pytest.mark.parametrize("rows", [30, 300])
def test_float64(rows):
    whole = [(8 * torch.randn(shape, device="cuda")).round().double() for shape in ((rows, 512), (256, 512), (128, 512), (128, 512))]
    right_merged(projections, tuple(whole))  # whose sums are exact


def test_frozen_float32(exact_float32):
    """Weights that have been split; and again when they change."""
    model = nn.ModuleList(nn.Linear(768, n) for n in (768, 256, 256)).cuda()

    class Projections(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = model

        def forward(self, x):
            return tuple(part(x) for part in self.parts)

    compiled = right_merged(Projections(), (randn(600, 768, dtype=torch.float32),), freeze=True)
    assert 'generator = "presplit"' in compiled.ir("scheduled")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(-0.5)
    assert (found := check(compiled, Projections(), (randn(600, 768, dtype=torch.float32),))).right, str(found)


def test_tf32(tf32):
    right_merged(projections, (randn(200, 512, dtype=torch.float32), *weights(512, 512, 128, 128, dtype=torch.float32)), unit=2**-10)


def test_weights_gradients():
    """What is shared is the other operand."""
    right_merged(lambda x, g, h: (g.t() @ x, h.t() @ x), (randn(512, 768), randn(512, 768), randn(512, 256)))


def test_batches():
    right_merged(lambda x, w, v: (x @ w, x @ v), (randn(6, 64, 128), randn(6, 128, 256, scale=0.1), randn(6, 128, 64, scale=0.1)))


def test_eight_and_two_more():
    right_merged(projections, (randn(16, 512), *weights(512, *([128] * 10))), count=2)


def test_rows_of_a_larger_tensor():
    right_merged(lambda x, *ws: projections(x[:, 3:], *ws), (randn(2, 40, 512), *weights(512, 512, 128, 128)))


@pytest.mark.parametrize("rows, k, columns", [(16, 4096, (1024, 256, 256)), (1, 2048, (768, 256)), (64, 1024, (1024, 1024, 1024)), (512, 768, (768, 256, 256))])
def test_every_schedule(rows, k, columns, monkeypatch):
    """Sizes of tiles and numbers of parts of a sum, the best first."""
    monkeypatch.setattr(Siblings, "pays", True)
    torch.manual_seed(0)
    args, number, count = (randn(rows, k), *weights(k, *columns)), 0, 1
    while number < min(count, 6):
        compiled, (count,) = compile_merged(projections, args, torch.device("cuda"), number)
        poison_memory()
        found = check(compiled, projections, args)
        assert found.right, f"{compiled.ir('scheduled')[:2000]}\n{found}"
        number += 1


def convolved(image, features, channels, window, count, dtype, last=True, **options):
    """Convolutions of one image, with what follows each, and their arguments."""
    x, *ws = randn(*image, dtype=dtype), *(randn(features, channels, window, window, dtype=dtype, scale=1 / window / channels**0.5) for _ in range(count))
    kept = torch.channels_last if last else torch.contiguous_format
    args = [t.contiguous(memory_format=kept) for t in (x, *ws)] + [randn(features, dtype=dtype) for _ in ws]
    each = [{name: values[i] for name, values in options.items()} for i in range(count)]

    def branches(x, *given):
        ends = (torch.relu, F.silu, torch.tanh)
        return tuple(ends[i % 3](F.conv2d(x, w, b, **each[i])) for i, (w, b) in enumerate(zip(given[:count], given[count:])))

    return branches, tuple(args)


@pytest.mark.parametrize("dtype", [*HALVES, torch.float32])
@pytest.mark.parametrize("image, features, window, count, options", [
    ((1, 256, 25, 34), 256, 3, 2, {"padding": (1, 1)}),
    ((2, 512, 33, 33), 256, 3, 3, {"padding": (6, 12, 18), "dilation": (6, 12, 18)}),
    ((4, 64, 40, 40), 64, 3, 5, {"padding": (1,) * 5}),
    ((3, 64, 15, 15), 128, 3, 2, {"padding": (1, 1), "stride": (2, 2)}),
], ids=["heads", "dilated", "five", "strided"])
def test_convolutions_of_one_image(image, features, window, count, options, dtype, tf32):
    branches, args = convolved(image, features, image[1], window, count, dtype, **options)
    unit = 2**-10 if dtype == torch.float32 else None
    right_merged(branches, args, unit=unit)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("image, features, window, kept", [
    ((64, 512, 4, 4), 256, 4, torch.contiguous_format), ((64, 256, 8, 8), 128, 4, torch.contiguous_format), ((64, 128, 16, 16), 64, 4, torch.channels_last),
])
def test_phases_of_a_transposed_convolution(image, features, window, kept, dtype, tf32):
    x, w = randn(*image, dtype=dtype), randn(image[1], features, window, window, dtype=dtype, scale=1 / window / image[1]**0.5)
    args = (x.contiguous(memory_format=kept), w.contiguous(memory_format=kept), randn(features, dtype=dtype))
    unit = 2**-10 if dtype == torch.float32 else None
    right_merged(lambda x, w, b: torch.relu(F.conv_transpose2d(x, w, b, stride=2, padding=1)), args, unit=unit)


@pytest.mark.parametrize("rows, cuda_graphs", [(1, True), (16, False), (16, True), (512, True)])
def test_many_calls(rows, cuda_graphs):
    """The kernels around it are launched early, and buffers and weights change."""
    def block(x, w, v, u):
        y = F.rms_norm(x, (x.shape[-1],))
        q, k, t = F.linear(y, w), F.linear(y, v), F.linear(y, u)
        return x + q, torch.softmax(k, -1), torch.tanh(t)

    x, ws = randn(rows, 512), weights(512, 512, 512, 512)
    compiled = right_merged(block, (x, *ws), cuda_graphs=cuda_graphs)
    for _ in range(20):
        x = randn(rows, 512)
        ws = weights(512, 512, 512, 512)
        found = check(compiled, block, (x, *ws))
        assert found.right, str(found)


class Attention(nn.Module):
    """``heads`` queries, ``groups`` keys and values, rotated, with a norm in front and the sum behind."""

    def __init__(self, hidden=512, heads=8, groups=2, bias=False):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, hidden // heads
        self.norm = nn.RMSNorm(hidden)
        self.q = nn.Linear(hidden, hidden, bias)
        self.k = nn.Linear(hidden, groups * self.size, bias)
        self.v = nn.Linear(hidden, groups * self.size, bias)
        self.out = nn.Linear(hidden, hidden, bias)

    def turn(self, x, cosine, sine):
        a, b = x.chunk(2, -1)
        return x * cosine + torch.cat([-b, a], -1) * sine

    def forward(self, x, cosine, sine):
        y = self.norm(x)
        batch, length, _ = y.shape
        q = self.q(y).view(batch, length, self.heads, self.size).transpose(1, 2)
        k = self.k(y).view(batch, length, self.groups, self.size).transpose(1, 2)
        v = self.v(y).view(batch, length, self.groups, self.size).transpose(1, 2)
        q, k = self.turn(q, cosine, sine), self.turn(k, cosine, sine)
        z = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return x + self.out(z.transpose(1, 2).reshape(batch, length, -1))


class Layers(nn.Module):
    def __init__(self, count, **options):
        super().__init__()
        self.layers = nn.ModuleList(Attention(**options) for _ in range(count))

    def forward(self, x, cosine, sine):
        for layer in self.layers:
            x = layer(x, cosine, sine)
        return x


LLAMA, BERT = {}, {"groups": 8, "bias": True}


@pytest.mark.parametrize("options, batch, length, cuda_graphs", [
    (LLAMA, 1, 1, False), (LLAMA, 1, 16, True), (LLAMA, 2, 128, True), (BERT, 1, 16, False), (BERT, 2, 128, True),
])
@torch.no_grad()
def test_attention(options, batch, length, cuda_graphs):
    torch.manual_seed(0)
    model = Layers(2, **options).cuda().bfloat16().eval()
    args = randn(batch, length, 512), randn(length, 64), randn(length, 64)
    compiled = right_merged(model, args, count=2, cuda_graphs=cuda_graphs)
    assert sum(row.generator == "siblings" for row in compiled.explain().rows) == 1  # equal layers have one kernel


class Three(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList(nn.Linear(512, n) for n in (512, 512, 128))

    def forward(self, x):
        q, k, v = (part(x) for part in self.parts)
        return q.sum(-1, keepdim=True) * torch.sigmoid(v) + torch.softmax(k, -1).square().sum(-1, keepdim=True)


def test_training():
    """Gradients of the input and of the weights: the projections are one launch, and so are products with the input behind them."""
    torch.manual_seed(0)
    model, exact = Three().cuda().bfloat16(), Three().cuda().double()
    exact.load_state_dict(model.state_dict())
    x, results = randn(300, 512), []
    for function, each in ((exact, exact), (model, model), (torch.compile(model, backend="inferno"), model)):
        given = x.to(next(each.parameters()).dtype).requires_grad_()
        results.append(torch.autograd.grad(function(given).sum(), [given, *each.parameters()]))
    for wanted, eager, ours in zip(*results):
        error, allowed = ((found.double() - wanted).norm() / wanted.norm() for found in (ours, eager))
        assert error <= max(1.5 * allowed, torch.finfo(x.dtype).eps)


def test_package(tmp_path):
    args = randn(16, 512), *weights(512, 512, 128, 128)
    compiled = right_merged(projections, args)
    compiled.save(tmp_path / "projections.inferno")
    loaded = inferno.load(tmp_path / "projections.inferno")
    assert all(torch.equal(a, b) for a, b in zip(loaded(*args), compiled(*args)))
