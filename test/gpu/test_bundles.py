"""Independent small kernels in one launch, against float64."""

import sys
from pathlib import Path

import pytest
import torch
from checks import assert_right, check, poison_memory

import inferno

sys.path.insert(0, str(Path(__file__).parents[1] / "codegen"))
from bundle_cases import CASES

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.mark.parametrize("name", CASES)
def test_right(name):
    function, args, bundles = CASES[name]
    args = tuple(a.cuda() for a in args)
    poison_memory()
    compiled = assert_right(function, args)
    assert sum(r.generator == "bundle" for r in compiled.explain().rows) == len(bundles)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_block_of_a_llama(dtype):
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=8, num_key_value_heads=2, vocab_size=512)
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config).to("cuda", dtype).eval()
    ids = torch.randint(0, 512, (2, 33), device="cuda")
    compiled = assert_right(model, (ids,), {"use_cache": False})
    assert any(r.generator == "bundle" for r in compiled.explain().rows)


def test_many_equal_ones():
    args = tuple(torch.randn(7 + i % 3, device="cuda") for i in range(40))
    compiled = assert_right(lambda *args: tuple(torch.sin(a)[:, None] * args[0] for a in args), args)
    assert len(compiled.program.launch_plan().steps) == 3


def test_replayed_in_a_cuda_graph():
    function, args, _ = CASES["several generators"]
    args = tuple(a.cuda() for a in args)
    compiled = inferno.compile(function, args, cuda_graphs=True)
    for _ in range(3):
        for ours, theirs in zip(compiled(*args), function(*args)):
            torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("name", ["several generators", "equal parts", "bytes and halves", "a transposing one", "of nothing"])
def test_sizes_that_vary(name):
    function, args, _ = CASES[name]
    compiled = inferno.compile(
        function, tuple(a.cuda() for a in args), dynamic_shapes=tuple({d: torch.export.Dim.DYNAMIC for d in range(a.dim())} for a in args), fallback=False)
    assert sum(r.generator == "bundle" for r in compiled.explain().rows) == 1
    for part in (1.0, 0.4, 2.3, 17.0, 1.0):
        poison_memory()
        given = tuple(torch.randn([max(2, int(n * part)) for n in a.shape], device="cuda") for a in args)
        found = check(compiled, function, given)
        assert found.right, f"{part}: {found}"


def test_parts_without_blocks():
    """Where a size is 0, whichever part has that."""
    function = lambda x, y, z: (torch.sin(x)[:, None] * z, torch.softmax(z, -1), torch.cos(y)[:, None] + z, torch.exp(y)[:, None] * z)  # noqa: E731
    make = lambda *sizes: tuple(torch.randn(n, device="cuda") for n in sizes)  # noqa: E731
    sizes = tuple({0: torch.export.Dim(name, min=0, max=1 << 20)} for name in ("n", "m"))
    compiled = inferno.compile(function, make(9, 300, 8), dynamic_shapes=(*sizes, None), fallback=False)
    for n, m in ((9, 300), (0, 300), (300, 0), (0, 0), (1, 1)):
        args = make(n, m, 8)
        torch.testing.assert_close(compiled(*args), function(*args))
