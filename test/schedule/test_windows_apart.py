"""Windows whose elements are kept inside of an image are a kernel of their own, which reads by vectors, in front of rows."""

import pytest
import torch

import inferno

aten = torch.ops.aten


def kernels(model, *args):
    return inferno.compile(model, args, target="sm_90a").explain().rows


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_poolings_gradient_in_front_of_rows(dtype):
    def model(grad, x, w):
        made = aten.avg_pool2d_backward.default(grad, x, [3, 3], [1, 1], [1, 1], False, False, None) - grad
        return made, made.float().sum((2, 3)), (made.float() * w[:, None, None] * x).sum((2, 3))

    rows = kernels(model, torch.randn(16, 64, 56, 56).to(dtype), torch.randn(16, 64, 56, 56).to(dtype), torch.randn(64).to(dtype))
    (window,) = [r for r in rows if "gather" in r.kernel]
    assert window.generator == "elementwise" and "windows=true" in str(window.schedule)
