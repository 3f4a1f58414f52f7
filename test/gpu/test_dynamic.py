"""Programs whose sizes vary, on a GPU: compiled once, right for every size, by the generators of choice."""

import sys
from pathlib import Path

import pytest
import torch
import torch._dynamo.testing
from torch.export import Dim

import inferno
from checks import assert_close_to_float64, check

for folder in ("codegen", "runtime"):
    sys.path.insert(0, str(Path(__file__).parents[1] / folder))
from dynamic_cases import CALLED_WITH, CASES, COMPILED_FOR, SUMS  # noqa: E402
from test_dynamic_models import bert, inputs, llama  # noqa: E402
from test_one_graph import MODELS as PIECES, compiled as one_graph, examples  # noqa: E402

F = torch.nn.functional


@pytest.mark.parametrize("name", CASES)
def test_right_for_every_size(name):
    torch.manual_seed(0)
    model, inputs, dynamic_shapes, sizes = CASES[name]()
    model = model.cuda() if isinstance(model, torch.nn.Module) else model
    if name == "positions":
        pytest.skip("it makes a tensor on the CPU")
    on_gpu = lambda each: tuple(t.cuda() for t in inputs(*each))  # noqa: E731
    made = inferno.compile(model, on_gpu(sizes[0]), dynamic_shapes=dynamic_shapes, fallback=False)
    for each in [*sizes, sizes[0]]:
        found = check(made, model, on_gpu(each))
        assert found.right, f"{each}: {found}"


@pytest.mark.parametrize("length", COMPILED_FOR)
@pytest.mark.parametrize("name", SUMS)
def test_sums_however_long_the_call_makes_them(name, length):
    torch.manual_seed(0)
    model, inputs, dynamic_shapes = SUMS[name]()
    made = inferno.compile(model, tuple(t.cuda() for t in inputs(length)), dynamic_shapes=dynamic_shapes, fallback=False)
    for each in (*CALLED_WITH, length):
        found = check(made, model, tuple(t.cuda() for t in inputs(each)))
        assert found.right, f"{each}: {found}"


REDUCED = {  # what is reduced, and the dimensions that vary
    "all": (lambda x: (x[..., 1:] - x[..., :-1]).abs().mean(), (0, 2)), "all of any size": (lambda x: x.square().sum(), (0, 2, 3)),
    "batch norm": (lambda x: (x.mean((0, 2, 3)), x.var((0, 2, 3))), (0, 2, 3)), "rows": (lambda x: x.amax(-1), (3,)), "columns": (lambda x: x.sum(0), (0, 2)),
    "channels last": (lambda x: x.permute(0, 2, 3, 1).contiguous().sum((0, 1, 2)), (0, 2, 3)), "numbers": (lambda x: (x > 0).sum((2, 3)), (2, 3)),
    "means": (lambda x: (x.square().mean(), x.abs().mean((0, 2, 3))), (0, 2, 3)), "distances from a mean": (lambda x: x.float().std(), (0, 2, 3)),
    "weighted": (lambda x: (x[:, :, 0] * x[:, :, 1, :1]).sum(1) / (x[:, 0, 0, 0].abs()[:, None] + 1), (0, 2, 3)),
    "picks": (lambda x: torch.nn.functional.nll_loss(x.flatten(1), torch.arange(x.shape[0], device=x.device) % 12, reduction="sum"), (0, 2, 3)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", REDUCED)
def test_reductions_of_any_size(name, dtype):
    torch.manual_seed(0)
    model, varying = REDUCED[name]
    make = lambda *shape: torch.randn(shape, device="cuda", dtype=dtype)  # noqa: E731
    made = inferno.compile(model, (make(8, 16, 60, 64),), dynamic_shapes=({d: Dim.DYNAMIC for d in varying},), fallback=False)
    assert "reductions" in generators(made) or (name, dtype) == ("weighted", torch.float32)  # a product of float32
    assert "universal" not in generators(made)
    for other in [(8, 16, 60, 64), (2, 16, 3, 5), (33, 16, 111, 70), (64, 16, 300, 257), (3, 16, 2, 2)]:
        shape = [o if d in varying else e for d, (o, e) in enumerate(zip(other, (8, 16, 60, 64)))]
        found = check(made, model, (make(*shape),))
        assert found.right, f"{shape}: {found}"


PARTS = {  # what reads parts of what it is given, of its first size and its last
    "sampled": lambda x: F.grid_sample(x[:, :2, None], x[:, 2:, :, None].movedim(1, -1).tanh().expand(-1, -1, 9, -1), align_corners=False),
    "broadcast": lambda x: x[:, None].expand(-1, 64, -1, -1).contiguous(),
    "gated": lambda x: torch.sigmoid(x[:, :2]) * x[:, 2:],
    "neighbours": lambda x: (x[..., 1:] - x[..., :-1]).abs().sum(0),
    "half": lambda x: x[x.shape[0] // 2 :] * 2 + 1,
    "every other": lambda x: x[:, :, ::2] * 2 + 1,
    "rows": lambda x: torch.softmax(x.transpose(1, 2)[..., 1:], -1),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", PARTS)
def test_parts_of_any_size(name, dtype):
    torch.manual_seed(0)
    model = PARTS[name]
    make = lambda n, m: torch.randn(n, 4, m, device="cuda", dtype=dtype)  # noqa: E731
    made = inferno.compile(model, (make(16, 100),), dynamic_shapes=({0: Dim.DYNAMIC, 2: Dim.DYNAMIC},))
    assert "universal" not in generators(made)
    for sizes in [(16, 100), (4, 3), (3, 1111), (70, 30)]:
        found = check(made, model, (make(*sizes),))
        assert found.right, f"{sizes}: {found}"


ROWS = {  # what goes over rows, the example's sizes, the dimensions that vary, others
    "softmax": (lambda x: torch.softmax(x * 0.125, -1), (12, 256, 256), (1, 2), [(12, 300, 300), (12, 7, 5), (12, 1000, 1000), (12, 65, 2047), (12, 3, 40001)]),
    "log_softmax": (lambda x: torch.log_softmax(x, -1), (4000, 1000), (0, 1), [(3, 2), (999, 1001), (70, 4096), (20, 50257), (5, 300000)]),
    "layer norm": (lambda x: F.layer_norm(x, x.shape[-1:]), (512, 768), (1,), [(512, 5), (512, 191), (512, 3072), (512, 3073), (512, 20001)]),
    "instance norm": (lambda x: F.relu(F.instance_norm(x)), (4, 32, 64, 64), (2, 3), [(4, 32, 2, 3), (4, 32, 45, 31), (4, 32, 128, 128), (4, 32, 255, 301)]),
    "RMS norm": (lambda x: x * (x.float().square().mean(-1, keepdim=True) + 1e-6).rsqrt().to(x.dtype), (999, 512), (0, 1), [(3, 100), (9, 513), (70, 9999)]),
    "deviation": (lambda x: x.float().std(-1), (32, 64, 300), (0, 2), [(3, 64, 2), (9, 64, 999), (2, 64, 5000)]),
    "causal": (lambda x: torch.softmax(x.masked_fill(torch.ones(x.shape[-2:], dtype=torch.bool, device=x.device).triu(1), float("-inf")), -1),
               (12, 128, 128), (1, 2), [(12, 7, 7), (12, 333, 333), (3 * 4, 1025, 1025)]),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ROWS)
def test_rows_of_any_length(name, dtype):
    assert "rows" in generators(right_at_all_sizes(*ROWS[name], dtype))


SCANS = {  # as in ROWS
    "length": (lambda x: x.cumsum(-1), (64, 10000), (1,), [(64, 5), (64, 1000), (64, 50001), (64, 400000)]),
    "rows and length": (lambda x: (x * 2).cumsum(-1), (64, 1000), (0, 1), [(3, 2), (5000, 77), (4, 300001), (257, 20000)]),
    "long rows": (lambda x: x.cumsum(-1), (8, 200000), (0,), [(2, 200000), (300, 200000)]),
    "one row": (lambda x: x.cumsum(0), (1000000,), (0,), [(7,), (16385,), (30000001,)]),
    "the middle": (lambda x: x.cumsum(1), (16, 1000, 256), (1,), [(16, 2, 256), (16, 2222, 256), (16, 20000, 256)]),
    "the middle, few rows": (lambda x: torch.sigmoid(x.cumsum(1)) * x, (2, 400, 64), (0, 1), [(2, 3, 64), (3, 100000, 64), (700, 50, 64)]),
    "the first": (lambda x: x.cumsum(0), (400, 640), (0, 1), [(3, 7), (5000, 999), (100000, 3)]),
    "maxima, and where they are": (lambda x: x.cummax(1), (64, 1000), (0, 1), [(3, 2), (70, 9999), (2, 200001)]),
    "logarithms of sums": (lambda x: x.logcumsumexp(1), (64, 1000), (0, 1), [(3, 2), (70, 9999), (2, 200001)]),
    "places": (lambda x: ((x > 0).cumsum(1) - 1).clamp(min=0), (16, 512), (0, 1), [(3, 2), (70, 9999), (2, 200001)]),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", SCANS)
def test_scans_of_any_size(name, dtype):
    assert "universal" not in generators(right_at_all_sizes(*SCANS[name], dtype))


COLUMNS = {  # the same side by side
    "first": (lambda x: torch.softmax(x * 0.5, 0), (4096, 512), (0,), [(2, 512), (1024, 512), (1025, 512), (4097, 512), (16385, 512), (70001, 512)]),
    "middle": (lambda x: torch.log_softmax(x, 1), (8, 100, 256), (0, 1), [(3, 2, 256), (70, 25, 256), (9, 401, 256), (2, 5000, 256)]),
    "batch": (lambda x: torch.softmax(x, 1), (8, 100, 256), (0,), [(2, 100, 256), (133, 100, 256)]),
    "columns": (lambda x: torch.softmax(x, 0), (1000, 512), (0, 1), [(3, 7), (999, 1001), (5000, 33), (40, 100003)]),
    "images": (lambda x: F.normalize(x, dim=1), (4, 64, 32, 32), (0, 2, 3), [(2, 64, 3, 3), (3, 64, 45, 31), (9, 64, 128, 128)]),
    "deviation": (lambda x: (x - x.mean(1, keepdim=True)) / (x.var(1, keepdim=True) + 1e-5).sqrt(), (4, 1000, 64), (1,), [(4, 2, 64), (4, 9999, 64)]),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", COLUMNS)
def test_columns_of_any_length(name, dtype):
    assert "columns" in generators(right_at_all_sizes(*COLUMNS[name], dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_group_norms_of_images_of_any_size(dtype):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.GroupNorm(8, 32), torch.nn.SiLU()).cuda().to(dtype)
    for p in model.parameters():
        torch.nn.init.normal_(p)
    model.requires_grad_(False)
    make = lambda *sizes: torch.randn(4, 32, *sizes, device="cuda", dtype=dtype)  # noqa: E731
    made = inferno.compile(model, (make(32, 32),), dynamic_shapes=({2: Dim.DYNAMIC, 3: Dim.DYNAMIC},), fallback=False)
    assert "rows" in generators(made)
    for sizes in ((32, 32), (2, 2), (3, 3), (45, 31), (64, 64), (99, 101)):
        found = check(made, model, (make(*sizes),))
        assert found.right, f"{sizes}: {found}"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_rows_of_any_length_beside_a_mask(dtype):
    torch.manual_seed(0)
    model = lambda x, m, b: torch.softmax((x + b).masked_fill(~m, float("-inf")), -1)  # noqa: E731

    def inputs(rows, length):
        mask = torch.rand(rows, length, device="cuda") > 0.3
        mask[:, 0] = True
        return torch.randn(12, rows, length, device="cuda", dtype=dtype), mask, torch.randn(rows, length, device="cuda", dtype=dtype)

    both = {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}
    made = inferno.compile(model, inputs(100, 512), dynamic_shapes=({1: Dim.DYNAMIC, 2: Dim.DYNAMIC}, both, both), fallback=False)
    assert "rows" in generators(made)
    for sizes in ((100, 512), (7, 5), (33, 515), (64, 1000), (5, 2001), (3, 30001)):
        found = check(made, model, inputs(*sizes))
        assert found.right, f"{sizes}: {found}"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_transformer_layer(dtype):
    torch.manual_seed(0)
    model = torch.nn.TransformerEncoderLayer(128, 4, 512, batch_first=True, activation="gelu", dropout=0.0).cuda().to(dtype).eval()
    dims = ({0: Dim("b", min=1, max=64), 1: Dim("s", min=1, max=4096)},)
    inputs = lambda b, s: (torch.randn(b, s, 128, device="cuda", dtype=dtype),)  # noqa: E731
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        made = inferno.compile(model, inputs(4, 100), dynamic_shapes=dims, fallback=False)
        for each in [(4, 100), (1, 1), (1, 7), (3, 64), (2, 513), (1, 2000)]:
            found = check(made, model, inputs(*each))
            assert found.right, f"{each}: {found}"
        if torch.cuda.get_device_capability() == (9, 0):
            assert ("bf16x6" if dtype is torch.float32 else "wgmma") in generators(made)
    finally:
        torch.backends.mha.set_fastpath_enabled(True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_weighted_means_of_any_length(dtype):
    torch.manual_seed(0)
    model = lambda x, m: torch.einsum("btc,bt->bc", x, m) / m.sum(1, keepdim=True).clamp(min=1)  # noqa: E731
    make = lambda b, t: tuple(torch.rand(s, device="cuda", dtype=dtype) for s in ((b, t, 768), (b, t)))  # noqa: E731
    both = {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}
    made = inferno.compile(model, make(32, 128), dynamic_shapes=(both, both), fallback=False)
    assert generators(made) == {"reductions"}
    for sizes in ((32, 128), (3, 2), (5, 300), (2, 20001)):
        found = check(made, model, make(*sizes))
        assert found.right, f"{sizes}: {found}"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", [torch.nn.LSTMCell, torch.nn.GRUCell])
def test_recurrent_cells_without_a_state(kind, dtype):
    torch.manual_seed(0)
    model = kind(64, 96).cuda().to(dtype).requires_grad_(False)
    make = lambda n: torch.randn(n, 64, device="cuda", dtype=dtype)  # noqa: E731
    made = inferno.compile(model, (make(50),), dynamic_shapes=({0: Dim.DYNAMIC},), fallback=False)
    assert "universal" not in generators(made)
    for n in (50, 2, 7, 1000):
        found = check(made, model, (make(n),))
        assert found.right, f"{n}: {found}"


def right_at_all_sizes(model, example, varying, others, dtype):
    """What ``model`` becomes of the example's size, where these dimensions vary, held against float64 at that size, at others and at that again."""
    torch.manual_seed(0)
    make = lambda *shape: torch.randn(shape, device="cuda", dtype=dtype)  # noqa: E731
    made = inferno.compile(model, (make(*example),), dynamic_shapes=({d: Dim.DYNAMIC for d in varying},), fallback=False)
    for shape in (example, *others, example):
        found = check(made, model, (make(*shape),))
        assert found.right, f"{shape}: {found}"
    return made


def generators(made) -> set[str]:
    return {name for row in made.explain().rows for name in row.generator.split(" or ")}


MODELS = {
    "bert": lambda: bert(hidden_size=256, num_hidden_layers=2, num_attention_heads=4, intermediate_size=1024, vocab_size=500),
    "llama": lambda: llama(hidden_size=256, num_hidden_layers=2, intermediate_size=768, vocab_size=500),
}
MODEL_SIZES = [(2, 100), (1, 1), (1, 7), (3, 33), (2, 64), (1, 129), (16, 16), (64, 3), (2, 512), (8, 512), (1, 1000)]


def tokens(batch: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    return inputs(batch, length, 500, "cuda")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_models_of_any_batch_and_length(name, dtype):
    """One compile, every size right; the contractions are the tensor cores'."""
    torch.manual_seed(0)
    model = MODELS[name]().cuda().to(dtype)
    dims = {0: Dim("b", min=1, max=64), 1: Dim("s", min=1, max=512 if name == "bert" else 1024)}
    sizes = [s for s in MODEL_SIZES if s[1] <= dims[1].max]
    inferno.stats(reset=True)
    made = inferno.compile(model, tokens(*sizes[0]), dynamic_shapes=(dims, dims), fallback=False)
    for each in [*sizes, sizes[0]]:
        found = check(made, model, tokens(*each))
        assert found.right, f"{each}: {found}"
    if torch.cuda.get_device_capability() == (9, 0):
        assert ("bf16x6" if dtype is torch.float32 else "wgmma") in generators(made)
    assert inferno.stats().recompiles == 0 and inferno.stats().graphs <= 1


@pytest.mark.parametrize("name", MODELS)
def test_models_under_torch_compile(name):
    """Dynamo makes graphs of their own of sizes 0 and 1; all others run in one."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = MODELS[name]().cuda()
    fast = torch.compile(model, backend="inferno", dynamic=True)
    sizes = [s for s in MODEL_SIZES if min(s) > 1 and s[1] <= 512]
    inferno.stats(reset=True)
    for each in sizes:
        found = check(fast, model, tokens(*each))
        assert found.right, f"{each}: {found}"
    assert inferno.stats().recompiles == 0 and inferno.stats().graphs == 1


def places(x, stem, up, down, scale):
    """A norm of rows that are the places of an image of which every fourth is computed."""
    y = torch.nn.functional.conv2d(x, stem, None, 4, 3).flatten(2).transpose(1, 2)
    y = y + torch.nn.functional.linear(torch.nn.functional.gelu(torch.nn.functional.linear(y, up)), down)
    return torch.nn.functional.layer_norm(y, (64,), scale)


def sorted_rows(x):
    values, indices = x.flatten(0, 1).sort(-1)
    return values.view(x.shape).flatten(1)[:, 3:], torch.gather(x.flatten(0, 1), 1, indices)


# The function, its inputs' shapes with letters for sizes that vary, and their values.
SHAPES = {
    "places of an image": (places, (("b", 3, "h", "w"), (64, 3, 7, 7), (256, 64), (64, 256), (64,)), [(2, 64, 96), (5, 33, 131), (1, 224, 224), (2, 640, 480)]),
    "sorted rows": (sorted_rows, (("b", "h", 96),), [(2, 64, 0), (5, 33, 0), (40, 1000, 0)]),
    "images by steps": (
        lambda x, w: torch.relu(torch.nn.functional.conv2d(x, w, None, 2, 1)), (("b", 64, 56, 56), (128, 64, 3, 3)),
        [(8, 0, 0), (2, 0, 0), (33, 0, 0), (256, 0, 0)],
    ),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", SHAPES)
def test_sizes_that_are_computed_of_others(name, dtype):
    function, shapes, sizes = SHAPES[name]

    def inputs(*values):
        at = dict(zip("bhw", values))
        return tuple(torch.randn([at.get(s, s) for s in shape], device="cuda", dtype=dtype) for shape in shapes)

    varying = tuple({d: Dim.AUTO for d, s in enumerate(shape) if isinstance(s, str)} or None for shape in shapes)
    made = inferno.compile(function, inputs(*sizes[0]), dynamic_shapes=varying, fallback=False)
    assert not any(row.note for row in made.explain().rows)
    if dtype is torch.bfloat16 and torch.cuda.get_device_capability() == (9, 0):
        assert "universal" not in generators(made)
    for each in [s for s in sizes if s[0] > 1]:  # (of 1 torch makes a program of its own)
        found = check(made, function, inputs(*each))
        assert found.right, f"{each}: {found}"


@pytest.mark.parametrize("order", [(1, 0, 2, 3), (0, 1, 2, 3), (0, 2, 1, 3)])
def test_a_view_of_an_input_of_any_size(order):
    f = lambda x: x.transpose(1, 2).reshape(x.shape[0] * x.shape[2], x.shape[1], x.shape[3])  # noqa: E731
    torch._dynamo.reset()
    fast = torch.compile(f, backend="inferno", dynamic=True)
    for sizes in ((5, 3, 4, 6), (7, 2, 6, 4)):
        x = torch.randn([sizes[d] for d in order], device="cuda").permute(sorted(range(4), key=order.__getitem__))
        assert torch.equal(fast(x), f(x))


def test_calls_are_captured_in_a_graph():
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.LayerNorm(64)).cuda().eval()
    made = inferno.compile(model, (torch.randn(8, 64, device="cuda"),), dynamic_shapes=({0: Dim("n", min=1, max=4096)},), fallback=False)
    x = torch.randn(77, 64, device="cuda")
    with torch.no_grad():
        expected = made(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = made(x)
        graph.replay()
    assert torch.equal(result, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_no_rows_and_many(dtype):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.Linear(512, 256)).cuda().to(dtype).eval()
    inputs = lambda n: (torch.randn(n, 256, device="cuda", dtype=dtype),)  # noqa: E731
    made = inferno.compile(model, inputs(1000), dynamic_shapes=({0: Dim("n", min=0, max=20000)},), fallback=False)
    if dtype is torch.bfloat16 and torch.cuda.get_device_capability() == (9, 0):
        assert "wgmma" in made.ir("scheduled")
    for n in (1000, 1, 9, 127, 128, 129, 20000):
        found = check(made, model, inputs(n))
        assert found.right, f"{n}: {found}"
    assert made(*inputs(0)).shape == (0, 256)
    with pytest.raises(inferno.InputError, match="expected a size from 0 to 20000, got 20001"):
        made(*inputs(20001))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_embeddings_and_their_norm(dtype):
    """One kernel, which picks the rows that it normalises."""
    class Embedded(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places, self.norm = torch.nn.Embedding(30000, 768), torch.nn.Parameter(torch.randn(2048, 768)), torch.nn.LayerNorm(768)

        def forward(self, i):
            return self.norm(self.tokens(i) + self.places[: i.shape[1]])

    torch.manual_seed(0)
    model = Embedded().to("cuda", dtype).requires_grad_(False)
    make = lambda *shape: (torch.randint(30000, shape, device="cuda"),)  # noqa: E731
    made = inferno.compile(model, make(8, 512), dynamic_shapes=({0: Dim.AUTO, 1: Dim.AUTO},), fallback=False)
    assert len(made.explain().rows) == 1
    for shape in ((8, 512), (2, 2), (3, 777), (16, 2048), (100, 33), (8, 512)):
        found = check(made, model, make(*shape))
        assert found.right, f"{shape}: {found}"


@pytest.mark.parametrize("name", PIECES)
def test_one_graph_serves_every_size(name):
    """Through torch.compile: nothing is compiled again, and only what torch's library does faster may be in eager."""
    model = PIECES[name].cuda() if isinstance(PIECES[name], torch.nn.Module) else PIECES[name]
    fast = one_graph(model)
    for x in examples("cuda"):
        with torch.no_grad():
            assert_close_to_float64(fast(x), model, (x,))
    found = inferno.stats()
    assert (found.graphs, found.recompiles) == (graphs_of_dynamo(model), 0)


def graphs_of_dynamo(model):
    """How often Dynamo itself traces: torch's shapes of pools ask on a GPU whether sizes are even."""
    torch._dynamo.reset()
    counter = torch._dynamo.testing.CompileCounter()
    traced = torch.compile(model, backend=counter)
    for x in examples("cuda"):
        with torch.no_grad():
            traced(x)
    return counter.frame_count
