"""Key-value caches that a model writes to, as buffers and as arguments: generation gives eager's tokens."""

import pytest
import torch

import inferno

transformers = pytest.importorskip("transformers")

from benchmarks.generate import compile_steps, generate, new_cache  # noqa: E402

LENGTH = 72


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, vocab_size=99, max_position_embeddings=LENGTH)).eval()


@pytest.mark.thorough
def test_a_cache_as_an_argument(model):
    prompt = torch.randint(3, 99, (1, 8))
    prefill, decode = compile_steps(model, prompt, LENGTH)
    expected = generate(model, model, new_cache(model, LENGTH), prompt, 64)
    assert len(set(expected)) > 5  # it says something
    for _ in range(2):
        cache = new_cache(model, LENGTH)
        keys = cache.layers[0].keys
        assert generate(prefill, decode, cache, prompt, 64) == expected
        assert cache.layers[0].keys is keys and cache.layers[1].cumulative_length == LENGTH - 1
    output = decode(input_ids=prompt[:, :1], past_key_values=new_cache(model, LENGTH))
    assert isinstance(output.past_key_values, transformers.StaticCache)
    with pytest.raises(inferno.InputError, match="past_key_values"):
        decode(input_ids=prompt[:, :1], past_key_values=new_cache(model, LENGTH + 1))


def test_a_cache_in_buffers(model):
    from transformers.integrations.executorch import TorchExportableModuleWithStaticCache

    model.generation_config.cache_implementation = "static"
    held = TorchExportableModuleWithStaticCache(model, batch_size=1, max_cache_len=24, device="cpu")
    first = {"input_ids": torch.tensor([[3]]), "cache_position": torch.tensor([0])}
    compiled = inferno.compile(held, (), kwargs=first, fallback=False)
    tokens = [3]
    with torch.no_grad():
        for i in range(16):
            logits = compiled(input_ids=torch.tensor([tokens[-1:]]), cache_position=torch.tensor([i]))
            tokens.append(int(logits[0, -1].argmax()))
        expected = generate(model, model, new_cache(model, 24), torch.tensor([[3]]), 16)
    assert tokens[1:] == expected
    assert held.static_cache.layers[1].cumulative_length == 16


@pytest.mark.parametrize("shape, dim, slices", [((1, 2, 8, 4), 2, 1), ((2, 8, 3), -2, 3), ((5,), 0, 7)])
def test_copies_of_slices_are_choices(shape, dim, slices):
    torch.manual_seed(0)
    part = list(shape)
    part[dim] = slices
    x, source = torch.randn(shape), torch.randn(part)
    index = torch.randint(shape[dim], (slices,))  # with repetitions in the last case: the last one stays
    compiled = inferno.compile(lambda x, i, s: x.index_copy(dim, i, s), (x, index, source), fallback=False)
    assert "tm_tensor" not in compiled.ir("linalg")
    assert torch.equal(compiled(x, index, source), x.index_copy(dim, index, source))
    assert torch.equal(compiled(x, torch.full((slices,), 1 << 20), source), x)  # eager refuses; nothing is written to
