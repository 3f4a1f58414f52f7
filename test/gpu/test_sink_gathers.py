"""Rows that are taken more often than there are rows, on the GPU: graphs' edges, tokens of small vocabularies, rows of transposed tensors."""

import pytest
import torch
from checks import assert_right

F = torch.nn.functional
PROGRAMS = {
    "attention of a graph": lambda x, w, s, d: F.leaky_relu((x[s] * w[0]).sum(-1) + (x[d] * w[1]).sum(-1)),
    "messages": lambda x, w, s, d: F.relu(F.linear(torch.cat((x[s], x[d]), -1), torch.cat((w, w.t()), 1)[:32])),
    "projected tokens": lambda x, w, s, d: F.gelu(x[s.view(-1, 10)] @ w).mean(-1),
    "variances": lambda x, w, s, d: x[s].var(-1),
    "rows of the transposed": lambda x, w, s, d: x.t()[s % 64][:, :500].amax(-1),
}


@pytest.mark.parametrize("name, dtype", [(name, (torch.float32, torch.bfloat16)[n % 2]) for n, name in enumerate(PROGRAMS)], ids=str)
def test_right(name, dtype):
    torch.manual_seed(0)
    x, w = torch.randn(1000, 64, device="cuda").to(dtype), torch.randn(64, 64, device="cuda").to(dtype)
    s, d = (torch.randint(-1000, 1000, (60000,), device="cuda") for _ in range(2))
    assert_right(PROGRAMS[name], (x, w, s, d))
