"""Groups of calls that become one kernel: nothing outside of one may need what it makes and make what it needs."""

import torch
from checks import scheduled


def test_sums_that_join_behind_what_waits_for_them():
    """A group norm's gradient with channels last: both sums of a channel are read by products, which the map behind them reads, and its own sums."""
    def gradients(dy, x, z, mean, rstd, w):
        dy, x, z = (t.permute(0, 3, 1, 2) for t in (dy, x, z))
        dy = torch.ops.aten.silu_backward(dy, z)
        dx, dw, db = torch.ops.aten.native_group_norm_backward(dy, x, mean, rstd, w, 2, 1280, 256, 32, [True, True, True])
        return dx.permute(0, 2, 3, 1).contiguous(), dw, db, dx.sum((2, 3))

    args = [torch.empty(s, dtype=torch.bfloat16) for s in (*[(2, 16, 16, 1280)] * 3, (2, 32), (2, 32), (1280,))]
    assert "native_group_norm_backward" in str(scheduled(gradients, tuple(args)))
