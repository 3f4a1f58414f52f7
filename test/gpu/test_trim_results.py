"""Results of which parts are read, on a GPU: their numbers, and that a language model's last token takes less than all."""

import sys
from pathlib import Path

import pytest
import torch
from checks import check

import inferno

sys.path.insert(0, str(Path(__file__).parents[1] / "passes"))
from test_trim_results import PARTS, WIDTH, block, gated, masked_by_hand, weights

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float32), ids=str)
@pytest.mark.parametrize("model", [block, gated, masked_by_hand])
@pytest.mark.parametrize("name", [n for n in PARTS if n != "where it is"])  # (of 16 bits the largest may be two)
def test_right(name, model, dtype):
    torch.manual_seed(0)
    args = tuple(t.cuda().to(dtype) for t in (torch.randn(4, 10, WIDTH), *weights()))
    device_model = lambda *args: PARTS[name](model(*args))  # noqa: E731
    found = check(inferno.compile(device_model, args, fallback=False), device_model, args)
    assert found.right, str(found)


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float32), ids=str)
@pytest.mark.parametrize("images, tokens, width", [(1, 512, 256), (8, 197, 384), (3, 77, 512)])
@pytest.mark.parametrize("name", ["first", "last"])
def test_tokens_of_layers(name, images, tokens, width, dtype):
    """Two layers of real sizes, and a head."""
    torch.manual_seed(0)
    make = lambda *shape: (torch.randn(shape, device="cuda") / shape[0] ** 0.5).to(dtype)  # noqa: E731
    x = torch.randn(images, tokens, width, device="cuda").to(dtype)
    layer, head = [make(width, 3 * width), make(width, width), make(width, 4 * width), make(4 * width, width)], make(width, 1000)

    def model(x, layer, head):
        y = gated_layers(gated_layers(x, *layer), *layer)
        return PARTS[name](y @ head)

    def gated_layers(x, qkv, out, up, down):
        heads = lambda t: t.unflatten(-1, (-1, 64)).transpose(1, 2)  # noqa: E731
        q, k, v = (heads(t) for t in (torch.nn.functional.rms_norm(x, (width,)) @ qkv).chunk(3, -1))
        x = x + torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=name == "last").transpose(1, 2).flatten(2) @ out
        return x + torch.nn.functional.gelu(torch.nn.functional.rms_norm(x, (width,)) @ up) @ down

    found = check(inferno.compile(model, (x, layer, head), fallback=False), model, (x, layer, head))
    assert found.right, str(found)
