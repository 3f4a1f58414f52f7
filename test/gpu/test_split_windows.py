"""Large windows that overlap, one side after the other, on images of odd sizes, with paddings, steps and NaN."""

import pytest
import torch
from checks import assert_right

F = torch.nn.functional


def moments(x, y):
    mean = F.avg_pool2d(x, 7, 1)
    return F.avg_pool2d(x * y, 7, 1) - mean * mean, F.avg_pool2d(x * x, 7, 1).mean()


MODELS = {
    "means": lambda x, y: F.avg_pool2d(x, 7, 1), "padded": lambda x, y: F.avg_pool2d(x * y, 9, 1, 4),
    "of what is inside": lambda x, y: F.avg_pool2d(x, 7, 2, 3, count_include_pad=False),
    "of another shape": lambda x, y: F.avg_pool2d(x, (11, 5), (1, 2)) + 1, "with a rest": lambda x, y: F.avg_pool2d(x, 8, 3, ceil_mode=True),
    "a pyramid": lambda x, y: torch.cat([x] + [F.max_pool2d(x, k, 1, k // 2) for k in (5, 9, 13)], 1),
    "dilated": lambda x, y: F.max_pool2d(x, 6, 1, dilation=2), "moments": moments,
    "volumes": lambda x, y: F.avg_pool3d(x[None], (min(5, x.shape[1]), 5, 5), 1)[0],
}


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=["rows", "channels last"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(4, 8, 64, 64), (2, 5, 47, 39), (8, 3, 256, 256)], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_right(name, shape, dtype, layout):
    x, y = (torch.randn(shape, device="cuda", dtype=dtype).contiguous(memory_format=layout) for _ in range(2))
    if name in ("a pyramid", "dilated"):
        x[0, 0, 10, 12] = float("nan")
    assert_right(MODELS[name], (x, y))
