"""BERT and Llama, small, with batch and sequence that vary: one compile, every size right, on the CPU."""

import pytest
import torch
from torch.export import Dim

import inferno
from checks import check

transformers = pytest.importorskip("transformers")
SIZES = [(3, 9), (1, 1), (1, 7), (2, 64), (1, 200), (64, 2)]


class Wrapped(torch.nn.Module):
    """A model of transformers as a function of tensors."""

    def __init__(self, model: torch.nn.Module, result: str, **keywords) -> None:
        super().__init__()
        self.model, self.result, self.keywords = model, result, keywords

    def forward(self, ids, mask):
        return getattr(self.model(ids, attention_mask=mask, **self.keywords), self.result)


def bert(**sizes) -> Wrapped:
    small = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64, "vocab_size": 50}
    config = transformers.BertConfig(**{**small, **sizes})
    return Wrapped(transformers.BertModel(config).eval(), "last_hidden_state")


def llama(**sizes) -> Wrapped:
    small = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 64, "vocab_size": 50}
    config = transformers.LlamaConfig(**{**small, **sizes})
    return Wrapped(transformers.LlamaForCausalLM(config).eval(), "logits", use_cache=False)


def inputs(batch: int, length: int, vocabulary: int = 50, device: str = "cpu") -> tuple[torch.Tensor, torch.Tensor]:
    mask = torch.ones(batch, length, dtype=torch.int64, device=device)
    mask[0, length - length // 3 :] = 0
    return torch.randint(0, vocabulary, (batch, length), device=device), mask


@pytest.mark.thorough
@pytest.mark.covering(most=1)
@pytest.mark.parametrize("model", [bert, llama])
def test_right_for_every_size(model):
    torch.manual_seed(0)
    module = model()
    dims = {0: Dim("b", min=1, max=64), 1: Dim("s", min=1, max=512)}
    made = inferno.compile(module, inputs(*SIZES[0]), dynamic_shapes=(dims, dims), target="cpu", fallback=False)
    for each in SIZES:
        found = check(made, module, inputs(*each))
        assert found.right, f"{each}: {found}"
