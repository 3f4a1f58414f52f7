"""Models of transformers have their attention in one kernel each, with a schedule for Hopper's tensor cores."""

import re

import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("transformers")

from benchmarks.zoo import ZOO

import inferno
from inferno.capture import capture
from inferno.runtime.workers import jobs

# Layers with attention, and kernels that there are of it.
MODELS = {"bert": (2, 1), "gpt2": (2, 1), "llama-padded": (2, 1), "gemma2": (2, 2), "t5": (6, 3), "clip": (4, 2)}


@pytest.mark.thorough
@pytest.mark.covering(most=1)
@pytest.mark.parametrize("name", MODELS)
def test_models(name):
    model, args, kwargs = ZOO[name]()
    halves = {key: v.bfloat16() if v.is_floating_point() else v for key, v in kwargs.items() if isinstance(v, torch.Tensor)}
    linalg, _ = jobs.lower_to_linalg(capture(model.bfloat16(), args, {**kwargs, **halves}).text)
    text = jobs.fuse(linalg, "sm_90a", features=["attention"]).stages["scheduled"]
    main, kernels = text.split("func.func private", 1)
    assert (len(re.findall(r"call @attention\w*\(", main)), len(re.findall(r'generator = "(?:short_)?attention"', kernels))) == MODELS[name]
    assert "reduce_maximumf" not in main
    if name == "bert":
        assert 'generator = "attention"' not in jobs.fuse(linalg, "sm_90a").stages["scheduled"]


@pytest.mark.thorough
@pytest.mark.covering(most=1)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_bias_of_a_product(dtype):
    """The scores are q times k, not the product behind it whose result is added to them and is the same in each of a batch."""
    def attend(q, k, v, pairs, w):
        return (q @ k.mT / 5.6 + (pairs @ w).permute(2, 0, 1)).softmax(-1) @ v

    q, k, v = (torch.randn(16, 8, 128, 32, dtype=dtype) for _ in range(3))
    report = inferno.compile(attend, (q, k, v, torch.randn(128, 128, 64, dtype=dtype), torch.randn(64, 8, dtype=dtype)), target="sm_90a").explain()
    made = {r.kernel: r.generator for r in report.rows}
    assert list(made.values()).count("attention") == 1
    assert max(b.bytes for b in report.boundaries) <= 8 * 128 * 128 * 4  # the bias: scores are 16 times as many


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("layout", ["(b, l, 3, h, d)", "(b, l, h, 3, d)", "(3, b, h, l, d)"])
@pytest.mark.parametrize("columns", [64, 192])
def test_one_tensor_of_all(layout, columns):
    """What queries, keys and values are parts of is not read as a whole for each: large as it is, copies of the parts would take less time."""
    sizes = {"3": 3, "b": 32, "l": 128, "h": 25, "d": columns}
    order = layout.strip("()").split(", ")

    def attend(x):
        q, k, v = x.permute([order.index(name) for name in "3bhld"])
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)

    args = (torch.empty([sizes[name] for name in order], dtype=torch.bfloat16),)
    linalg, _ = jobs.lower_to_linalg(capture(attend, args).text)
    kernels = jobs.fuse(linalg, "sm_90a", features=["attention"]).stages["scheduled"].split("func.func private")[1:]
    assert [re.findall(r'generator = "(\w+)"', k) for k in kernels] == [["attention"]]
