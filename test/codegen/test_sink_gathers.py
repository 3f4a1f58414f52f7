"""Rows that are taken more often than there are rows, and what they come to: computed once for each row that there is, and where not."""

import pytest
import torch
from checks import check
from universal_program import SimulatedModel

from inferno.passes import sink_gathers, split_concats

F = torch.nn.functional
ROWS, TAKEN, WIDTH = 20, 230, 36
SUNK = {
    "means": lambda x, w, i: x[i].mean(-1),
    "norms of two kinds": lambda x, w, i: (lambda r: (r.norm(dim=-1), r.abs().amax(-1, keepdim=True)))(x[i] * w[0]),
    "variances": lambda x, w, i: x[i].var(-1),
    "a layer": lambda x, w, i: F.relu(F.linear(x[i], w[:24], w[0, :24])),
    "two layers": lambda x, w, i: F.gelu(x[i] @ w) @ w[:, :8],
    "a table of two dimensions": lambda x, w, i: F.softplus(x[i.view(23, 10)] @ w[:, :8]).square(),
    "planes": lambda x, w, i: x.view(4, 5, 36)[:, i % 5].sum(-1),
    "parts of columns": lambda x, w, i: x[i][:, 3:20].amin(-1),
    "heads": lambda x, w, i: (x.view(20, 4, 9)[i] * w[0].view(4, 9)).sum(-1).sigmoid(),
    "rows of the transposed": lambda x, w, i: x.t().contiguous()[i % 36].sum(-1),
    "edges": lambda x, w, i: F.silu(torch.cat((x[i], x[i.flip(0)]), -1) @ torch.cat((w, 2 * w))[:, :8]),
    "edges with a number each": lambda x, w, i: torch.cat((w.flatten()[:TAKEN, None].cos(), x[i], x[i * 3 % 20]), -1) @ torch.cat((w, w.t(), w[:1]))[:, :8],
    "an end and what is made of it": lambda x, w, i: (lambda s: (s, s + w.sum()))(x[i].logsumexp(-1)),
}
KEPT = {
    "the rows themselves, too": lambda x, w, i: (lambda r: (r, r.mean(-1)))(x[i]),
    "by place": lambda x, w, i: (x[i] * torch.arange(TAKEN)[:, None]).sum(-1),
    "with others of as many": lambda x, w, i: (x[i] * w.flatten()[:TAKEN, None]).sum(-1),
    "all together": lambda x, w, i: x[i].sum(0),
    "pieces that others read, too": lambda x, w, i: torch.cat((x[i], x[i.flip(0)]), -1) @ torch.cat((w, 2 * w))[:, :8] + x[i].sum(-1, keepdim=True),
    "rows of pieces": lambda x, w, i: torch.cat((x[i], x[i.flip(0)]), 0) @ w[:, :8],
    "softmax": lambda x, w, i: F.softmax(x[i], -1),
    "remainders": lambda x, w, i: (i % 7)[i % TAKEN, None].expand(TAKEN, WIDTH).remainder(i[:WIDTH] + 1).sum(-1),
}


@pytest.fixture
def launches_are_free(monkeypatch):
    for module in (sink_gathers, split_concats):
        monkeypatch.setattr(module, "LAUNCH", 0)
    torch.manual_seed(0)


def drawn(dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    return torch.randn(ROWS, WIDTH).to(dtype), torch.randn(WIDTH, WIDTH).to(dtype), torch.randint(-ROWS, ROWS, (TAKEN,))


def moves_rows(simulated: SimulatedModel) -> bool:
    """Whether a kernel goes over the rows that are taken, or over their parts."""
    return any(f"{TAKEN}x{n}x" in simulated.program.gpu or f"23x10x{n}x" in simulated.program.gpu for n in (WIDTH, 17, 4 * 9))


@pytest.mark.covering
@pytest.mark.parametrize("name, dtype", [(name, (torch.float32, torch.bfloat16)[n % 2]) for n, name in enumerate(SUNK)], ids=str)
def test_what_there_is_is_reduced(launches_are_free, name, dtype):
    args = drawn(dtype)
    simulated = SimulatedModel(SUNK[name], args)
    found = check(simulated, SUNK[name], args)
    assert found.right and not moves_rows(simulated), str(found)


@pytest.mark.covering
@pytest.mark.parametrize("name, dtype", [(name, (torch.float32, torch.bfloat16)[n % 2]) for n, name in enumerate(KEPT)], ids=str)
def test_right(launches_are_free, name, dtype):
    args = drawn(dtype)
    found = check(SimulatedModel(KEPT[name], args), KEPT[name], args)
    assert found.right, str(found)
