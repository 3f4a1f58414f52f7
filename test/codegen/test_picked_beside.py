"""What is picked of a value that others read, too, is made anew where it is picked: as a program is scheduled for a GPU, on the simulator."""

import pytest
import torch
import torch.nn.functional as F
from scheduled_program import assert_right, launches


def accept(target, draft, tokens, u):
    """Speculative decoding: which tokens are taken, and from what another one is drawn behind them."""
    p, q = target.float().softmax(-1), draft.float().softmax(-1)
    pt, qt = p.gather(-1, tokens[..., None])[..., 0], q.gather(-1, tokens[..., None])[..., 0]
    n = (u < (pt / qt).clamp(max=1)).long().cumprod(-1).sum(-1)
    left = (p - q).clamp(min=0)
    left = left / left.sum(-1, keepdim=True).clamp(min=1e-10)
    return left.gather(1, n.clamp(max=3)[:, None, None].expand(-1, 1, left.shape[-1]))[:, 0]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_probabilities_are_not_written(dtype):
    torch.manual_seed(0)
    text = assert_right(accept, (*((torch.randn(3, 4, 4096) * 2).to(dtype) for _ in range(2)), torch.randint(0, 4096, (3, 4)), torch.rand(3, 4).to(dtype)))
    assert launches(text) == 3 and "-> tensor<3x4x4096xf32>" not in text[: text.index("func.func private")]


def shift(x):
    """A shift of some channels in time, and the difference to the step before."""
    f = 4
    a = F.pad(x[:, 1:, :f], (0, 0, 0, 0, 0, 0, 0, 1))
    b = F.pad(x[:, :-1, f:2 * f], (0, 0, 0, 0, 0, 0, 1, 0))
    y = torch.cat((a, b, x[:, :, 2 * f:]), 2)
    m = y - F.pad(y[:, :-1], (0, 0, 0, 0, 0, 0, 1, 0))
    return y * torch.sigmoid(m.mean((3, 4), keepdim=True)), m.abs().amax(2)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_what_is_put_together_is_not_written(dtype):
    torch.manual_seed(0)
    assert launches(assert_right(shift, (torch.randn(2, 5, 16, 12, 12).to(dtype),))) == 2


def loss(x, i):
    """A likelihood beside an entropy."""
    logs = x.log_softmax(-1)
    return logs.gather(-1, i[:, None])[:, 0], -(logs.exp() * logs).sum(-1)


@pytest.mark.parametrize("columns", [60, 3000])
def test_a_logarithm_of_each_row(columns):
    torch.manual_seed(0)
    text = assert_right(loss, (torch.randn(40, columns), torch.randint(0, columns, (40,))))
    assert f"-> tensor<40x{columns}xf32>" not in text[: text.index("func.func private")]
