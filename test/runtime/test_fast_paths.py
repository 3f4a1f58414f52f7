"""The layers that torch.nn calls as one operation in inference are compiled in their parts."""

import pytest
import torch
from torch import nn

import inferno
from inferno.runtime.check.comparison import compare
from inferno.tools.check import reference


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("options", [{}, {"norm_first": True, "activation": "gelu"}])
def test_an_encoder_layer(options):
    torch.manual_seed(0)
    model = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, **options).eval()
    x = torch.randn(2, 9, 32)
    compiled = torch.compile(model, backend="inferno")
    inferno.stats(reset=True)
    with torch.no_grad():
        assert compare(compiled(x), model(x), reference(model, (x,))).right
    assert inferno.stats().graphs == 1 and inferno.stats().fallbacks == 0


def test_attention_of_a_sequence_with_itself():
    torch.manual_seed(0)
    attention, x = nn.MultiheadAttention(32, 4, batch_first=True).eval(), torch.randn(2, 9, 32)
    model = lambda x: attention(x, x, x, need_weights=False)[0]  # noqa: E731
    compiled = torch.compile(model, backend="inferno")
    inferno.stats(reset=True)
    with torch.no_grad():
        ours, eager = compiled(x), model(x)
        attention.double()
        assert compare(ours, eager, model(x.double())).right
    assert inferno.stats().fallbacks == 0
