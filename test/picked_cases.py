"""Programs that pick elements of values that others read, too."""

import torch
import torch.nn.functional as F


def wide(x):
    """In float32, or as the reference has it."""
    return x if x.dtype == torch.float64 else x.float()


def accept(target, draft, tokens, u):
    """Speculative decoding: which tokens are taken, and from what another one is drawn behind them."""
    p, q = wide(target).softmax(-1), wide(draft).softmax(-1)
    pt, qt = p.gather(-1, tokens[..., None])[..., 0], q.gather(-1, tokens[..., None])[..., 0]
    n = (u < (pt / qt).clamp(max=1)).long().cumprod(-1).sum(-1)
    left = (p - q).clamp(min=0)
    left = left / left.sum(-1, keepdim=True).clamp(min=1e-10)
    return left.gather(1, n.clamp(max=3)[:, None, None].expand(-1, 1, left.shape[-1]))[:, 0]


def shift(x):
    """A shift of some channels in time, and the difference to the step before."""
    f = 4
    a = F.pad(x[:, 1:, :f], (0, 0, 0, 0, 0, 0, 0, 1))
    b = F.pad(x[:, :-1, f:2 * f], (0, 0, 0, 0, 0, 0, 1, 0))
    y = torch.cat((a, b, x[:, :, 2 * f:]), 2)
    m = y - F.pad(y[:, :-1], (0, 0, 0, 0, 0, 0, 1, 0))
    return y * torch.sigmoid(m.mean((3, 4), keepdim=True)), m.abs().amax(2)


def loss(x, i):
    """A likelihood beside an entropy."""
    logs = x.log_softmax(-1)
    return logs.gather(-1, i[:, None])[:, 0], -(logs.exp() * logs).sum(-1)
