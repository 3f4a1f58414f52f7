"""On a GPU: concatenations that are transposed, flips that nobody makes, and rows that are taken by vectors, against float64, of whole and cut tiles."""

import pytest
import torch
from checks import assert_right

F = torch.nn.functional
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def taken(x, y):
    return x[y[:, 0].abs().mul(100).long() % x.shape[0]]


# Of two tensors of one shape.
PROGRAMS = {
    "pieces, transposed": lambda x, y: torch.cat((torch.where((a := x * y[:, :1]) > 0, a, y), x), -1).t().contiguous(),
    "pieces of both orders": lambda x, y: torch.tanh(torch.cat((x.t() * y.reshape(x.t().shape), y.t()), -1)).t().contiguous(),
    "taken rows of pieces, transposed": lambda x, y: taken(torch.cat((x, y), -1).clamp(-2, 2) * y[:, :1], y.flip(0)).flip(-1).t().contiguous(),
    "a flip behind a norm": lambda x, y: F.normalize(x + y, dim=-1).flip(-1),
    "sums of a flip": lambda x, y: (F.silu(x - x.amax(-1, keepdim=True)) * y).flip(-1).sum(-1),
    "sums of columns of a flipped norm": lambda x, y: torch.tanh(F.silu(F.rms_norm(x, x.shape[1:], y[0]).flip(-1)) * y).sum(0),
    "half of a norm of taken rows": lambda x, y: F.layer_norm(taken(x, y), x.shape[1:], y[0])[:, : x.shape[1] // 2 + 1],
    "half of running sums": lambda x, y: (x.cumsum(-1) / 64)[:, : x.shape[1] // 2 + 1].softmax(-1),
    "returned transposed": lambda x, y: ((c := torch.where(x > 0, torch.tanh(x), y).clamp(-1, 1)).sum(-1), c.t().contiguous()),
    "a softmax of what is transposed": lambda x, y: (torch.softmax(x.t(), 0) * y.t()).contiguous(),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("shape", [(4, 320), (130, 66), (3001, 130), (515, 1025)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
def test_right(name, shape, dtype):
    assert_right(PROGRAMS[name], tuple(torch.randn(shape, device="cuda", dtype=dtype) for _ in range(2)))
