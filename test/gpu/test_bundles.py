"""Independent small kernels in one launch, against float64."""

import sys
from pathlib import Path

import pytest
import torch
from checks import assert_right, poison_memory

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
