"""Kernels that read the same data of sizes that vary, as one, on a GPU."""

import pytest
import torch
from checks import check
from merged_read_cases import MODELS, of_none, overlapping
from torch.export import Dim

import inferno

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.float16), ids=str)
@pytest.mark.parametrize("varying", ((0,), (1,), (0, 1)), ids=("rows", "columns", "both"))
@pytest.mark.parametrize("model", MODELS)
def test_right(model, varying, dtype):
    if model is overlapping and dtype != torch.bfloat16:
        pytest.skip("one number made of four sums: in float16 these are infinite, in float32 its last digits are chance")
    torch.manual_seed(0)
    make = lambda *shape: tuple((torch.randn(shape, device="cuda") + 0.5).to(dtype) for _ in range(2))  # noqa: E731
    dims = {d: Dim.DYNAMIC for d in varying}
    example = (4096, 2048)
    made = inferno.compile(model, make(*example), dynamic_shapes=(dims, dims), fallback=False)
    read = 2 * example[0] * example[1] * dtype.itemsize
    assert sum(r.bytes > read // 4 for r in made.explain().rows) <= 3
    for other in (example, (3000, 777), (2, 3), (37, 129), (300, 8), (9001, 4100), example):
        args = make(*(o if d in varying else n for d, (o, n) in enumerate(zip(other, example))))
        found = check(made, model, args)
        assert found.right, f"{other}: {found}"


def test_none_and_one():
    sizes = {d: Dim(name, min=0, max=1 << 20) for d, name in enumerate(("n", "m"))}
    make = lambda *shape: tuple(torch.randn(shape, device="cuda") for _ in range(2))  # noqa: E731
    made = inferno.compile(of_none, make(4096, 1024), dynamic_shapes=(sizes, sizes), fallback=False)
    for shape in ((0, 7), (1, 1), (5, 3), (3, 0), (1, 40), (77, 1), (999, 1001)):
        args = make(*shape)
        for found, expected in zip(made(*args), of_none(*args)):
            torch.testing.assert_close(found, expected, equal_nan=True)
