"""State and aliasing on a GPU: the same as on the CPU, where addresses are the device's."""

import copy

import pytest
import torch
from torch import nn

import inferno


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(64)
        self.register_buffer("total", torch.zeros(32, 64))

    def forward(self, x, y):
        x = self.norm(x)
        self.total.add_(x)
        y.mul_(2)
        q, k = (x @ y).chunk(2, 1)
        return y, self.total[1:], q, k, x.t() + 1, x + 1, x + 1


def memory(tensors):
    return [[i for i, o in enumerate(tensors) if o.untyped_storage().data_ptr() == t.untyped_storage().data_ptr()] for t in tensors]


@pytest.mark.parametrize("cuda_graphs", [False, True])
def test_what_is_written_and_shared(cuda_graphs):
    torch.manual_seed(0)
    model = Model().cuda()
    other = copy.deepcopy(model)
    compiled = inferno.compile(model, (torch.randn(32, 64, device="cuda"), torch.randn(64, 64, device="cuda").t()), cuda_graphs=cuda_graphs)
    copied = copy.deepcopy(compiled)
    for _ in range(3):
        x, y = torch.randn(32, 64, device="cuda"), torch.randn(64, 64, device="cuda").t()
        a, b = x.clone(), y.clone()
        with torch.no_grad():
            ours, eager = compiled(x, y), other(a, b)
        assert ours[0] is y and memory((x, *ours)) == memory((a, *eager))
        assert [t.stride() for t in ours] == [t.stride() for t in eager]
        for p, q in zip((*ours, y), (*eager, b)):
            torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-4)
        for name, value in other.state_dict().items():
            torch.testing.assert_close(model.state_dict()[name], value, rtol=1e-4, atol=1e-4)
    assert copied.total.abs().sum() == 0
    copied(x, y)
    assert copied.norm.num_batches_tracked == 1 and model.norm.num_batches_tracked == 3
    whole = torch.randn(6144, device="cuda")
    with pytest.raises(inferno.InputError, match="share memory"):
        compiled(whole[:2048].view(32, 64), whole[1024:5120].view(64, 64))
    compiled(whole[:2048].view(32, 64), whole[2048:].view(64, 64))


def test_a_cache_as_an_argument():
    transformers = pytest.importorskip("transformers")
    from benchmarks.generate import compile_steps, generate, new_cache

    torch.manual_seed(0)
    sizes = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, vocab_size=512, max_position_embeddings=128)).eval().cuda()
    prompt = torch.randint(3, 512, (1, 16), device="cuda")
    expected = generate(model, model, new_cache(model, 80), prompt, 64)
    for options in ({}, {"cuda_graphs": True}):
        steps = compile_steps(model, prompt, 80, **options)
        for _ in range(2):
            assert generate(*steps, new_cache(model, 80), prompt, 64) == expected
