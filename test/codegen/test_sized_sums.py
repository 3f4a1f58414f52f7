"""Products with vectors whose terms vary in number, as sums of products on the simulator, of other lengths than the example's."""

import pytest
import torch
from checks import assert_close_to_float64
from kernels import TARGET
from torch.export import Dim
from universal_program import SimulatedModel

from inferno.schedule.maps import elementwise
from inferno.schedule.reductions import reductions, sized_sums

A = Dim.AUTO
CASES = {  # the model, the shapes for a length, what varies
    "columns": (lambda v, w: v @ w, lambda n: ((n,), (n, 40)), ({0: A}, {0: A})),
    "rows": (lambda w, v: torch.relu(w @ v), lambda n: ((24, n), (n,)), ({1: A}, {0: A})),
    "batch": (torch.bmm, lambda n: ((3, 1, n), (3, n, 16)), ({2: A}, {1: A})),
    "weighted mean": (lambda x, m: torch.einsum("btc,bt->bc", x, m) / m.sum(1, keepdim=True).clamp(min=1), lambda n: ((3, n, 16), (3, n)), ({1: A}, {1: A})),
}


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_numbers(name, dtype):
    model, shapes, varying = CASES[name]
    found = []

    def choose(kernel):
        s = sized_sums.choose(kernel, TARGET)
        found.extend([s] if s is not None else [])
        return s or reductions.choose(kernel, TARGET) or elementwise.choose(kernel, TARGET)

    torch.manual_seed(0)
    run = SimulatedModel(model, tuple(torch.rand(s).to(dtype) for s in shapes(30)), varying, choose)
    assert found
    for length in (30, 2, 7, 131, 600):
        inputs = tuple(torch.rand(s).to(dtype) for s in shapes(length))
        assert_close_to_float64(run(*inputs), model, inputs)
