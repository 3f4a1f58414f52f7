"""What integers come to that depend on no input is said in their place."""

import pytest
import torch
from checks import assert_right

from inferno.capture import capture


def _packed(x):
    """Which of several sequences in a row a position belongs to, as transformers finds it out, and a causal mask."""
    positions = torch.arange(x.shape[1]).unsqueeze(0).expand(x.shape[0], -1)
    sequence = (torch.diff(positions, prepend=positions[:, :1] - 1, dim=-1) != 1).cumsum(-1)
    b, i = torch.arange(x.shape[0])[:, None, None], torch.arange(x.shape[1])
    same = sequence[b, i[:, None]] == sequence[b, i[None, :]]
    return x[:, :, None] + torch.where(same & (positions[b, i[None, :]] <= positions[b, i[:, None]]), 1.0, 0.0)


CASES = {  # function, what its text has, what it has not
    "packed": (_packed, ("aten.le",), ("cumsum", "aten.index", "aten.ne", "aten.eq")),
    "counted": (lambda x: x + (torch.arange(12).reshape(3, 4).cumsum(1) * 0 + torch.arange(4, 8)).sum(0)[:, None].float(), (), ("cumsum",)),
    "a table": (lambda x: x + torch.arange(5).flip(0).cumsum(0)[None, None, :].float(), ("cumsum",), ()),
    "returned": (lambda x: (x + 1, torch.ones(3, dtype=torch.int64).cumsum(0) * 0), ("cumsum",), ()),
    "drawn of the input": (lambda x: x + torch.full((4,), 2)[(x[0, :, 0] > 0).long()][:, None].float(), ("aten.index",), ()),
}


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("name", CASES)
def test_what_remains(name):
    function, has, lacks = CASES[name]
    args = (torch.randn(2, 4) if name == "packed" else torch.randn(3, 4, 5),)
    text = capture(function, args).text
    assert all(word in text for word in has) and not any(f"{word}" in text for word in lacks)
    assert_right(function, args, target="cpu")


def test_sizes_that_vary_are_left():
    n = torch.export.Dim("n", min=2, max=64)
    text = capture(_packed, (torch.randn(2, 4),), dynamic_shapes=({1: n},)).text
    assert "cumsum" in text
