"""Tiny models of transformers, with their own outputs, masks and caches, reach linalg."""

import pytest
import torch

transformers = pytest.importorskip("transformers")

from inferno.capture import capture  # noqa: E402
from inferno.mlir import ir, idle_context  # noqa: E402
from inferno.passes.manager import run_pipeline  # noqa: E402

SIZES = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64}
TEXT = {**SIZES, "vocab_size": 99, "max_position_embeddings": 32}
IDS = torch.arange(16).reshape(2, 8)


def bert():
    return transformers.BertModel(transformers.BertConfig(**TEXT)), (IDS,), {"attention_mask": torch.ones_like(IDS)}


def gpt2():
    config = transformers.GPT2Config(n_embd=32, n_layer=1, n_head=4, vocab_size=99, n_positions=32)
    return transformers.GPT2LMHeadModel(config), (IDS,), {}


def llama():
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**TEXT, num_key_value_heads=2)), (), {"input_ids": IDS, "use_cache": False}


def mixtral():
    config = transformers.MixtralConfig(**TEXT, num_key_value_heads=2, num_local_experts=4)
    return transformers.MixtralForCausalLM(config), (IDS,), {"use_cache": False}


def vit():
    return transformers.ViTModel(transformers.ViTConfig(**SIZES, image_size=16, patch_size=4)), (torch.randn(1, 3, 16, 16),), {}


def resnet():
    config = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic")
    return transformers.ResNetForImageClassification(config), (torch.randn(1, 3, 32, 32),), {}


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("build", [bert, gpt2, llama, mixtral, vit, resnet], ids=lambda f: f.__name__)
def test_reaches_linalg(build):
    model, args, kwargs = build()
    captured = capture(model.eval(), args, kwargs)
    module = ir.Module.parse(captured.text, idle_context())
    run_pipeline(module, "inferno-import")
    text = str(module)
    assert "torch." not in text and "dense_resource" not in text
    with torch.no_grad():
        expected = model(*args, **kwargs)
    leaves = [torch.zeros(r.shape, dtype=r.dtype) for r in captured.signature.results if r.kind == "output"]
    ours = captured.signature.build_output(leaves)
    assert type(ours) is type(expected) and ours.keys() == expected.keys()
    for name, value in expected.items():
        assert not isinstance(value, torch.Tensor) or (ours[name].shape == value.shape and ours[name].dtype == value.dtype)
