"""A classifier's loss reads its logits: what they become, of which one element of a row counts, is no tensor in memory."""

import pytest
import torch
from checks import check

import inferno

F = torch.nn.functional


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("rows, columns", [(1, 4096), (64, 512), (7, 5000), (4096, 64)])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy_keeps_no_log_probabilities(rows, columns, reduction):
    x, target = torch.randn(rows, columns), torch.randint(columns, (rows,))
    target[rows // 2:rows // 2 + 1] = -100 if rows > 1 else 3

    def loss(x, target):
        return F.cross_entropy(x, target, reduction=reduction)

    assert inferno.compile(loss, (x, target), target="sm_90a").explain().workspace < 4 * rows * columns
    compiled = inferno.compile(loss, (x, target))
    assert compiled.explain().workspace < 4 * rows * columns
    check(compiled, loss, (x, target))
