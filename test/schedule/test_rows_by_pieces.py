"""Rows that are read from pieces: what their threads compute and wait for says whether they are one kernel; and which schedules small rows have."""

import re

import torch
import torch.nn.functional as F
from choices import generators, scheduled

bf16 = torch.bfloat16


def test_rows_of_one_piece_each_are_like_others():
    """However much is computed of them, and with a total of all."""
    def model(first, x, w):
        y = F.gelu(torch.softmax(torch.cat((first, x), 1), -1)) * torch.exp(-w.abs())
        return y, y.float().square().mean()

    args = torch.empty(1, 1, 1024, dtype=bf16), torch.empty(1, 1500, 1024, dtype=bf16), torch.empty(1501, 1, dtype=bf16)
    assert generators(model, args) == ["rows", "reductions"]


def test_branches_inside_of_branches_are_another_kernel():
    """Eight blocks would wait for each of their vectors in turn."""
    def model(x):
        y = x.roll((1, 2), (2, 3)).roll((1, 2), (2, 3))
        return y, y.float().square().mean()

    assert generators(model, (torch.empty(5, 48, 14, 14, dtype=bf16),)) == ["elementwise", "rows"]
    assert generators(lambda x: torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2).sum(-1), (torch.empty(1029, 512, dtype=bf16),)) == ["rows"]


def test_rows_that_are_under_way_at_once_compute_values_once():
    """Of many more rows others are read meanwhile, and registers are for these."""
    few, many = (scheduled(lambda x: F.layer_norm(x, (1001,)), (torch.empty(n, 1001, dtype=bf16),)) for n in (200, 134000))
    assert "packed = false, persistent" in few and "packed = true" in many


def test_columns_that_are_written_by_themselves_are_whole_sectors():
    """Of 33 columns pieces of 16 bytes would be put together by caches."""
    def model(x):
        y = x.view(64, 250, 2, 33).mean(2)
        return (y * torch.sigmoid(y.mean(1, keepdim=True))).float()

    (across,) = re.findall(r'across = (\d+) [^}]*generator = "columns"', str(scheduled(model, (torch.empty(64, 500, 33, dtype=bf16),))))
    assert int(across) >= 16
