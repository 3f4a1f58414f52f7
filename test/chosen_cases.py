"""Sums, and largest elements and their places, of what is chosen between pieces: a function of two tensors, and their sizes."""

import torch
import torch.nn.functional as F

CASES = {
    "columns": (lambda x, y: torch.cat((x, y), 1).sum(0), (40, 24), (40, 16)),
    "columns of odd pieces": (lambda x, y: torch.cat((x, y, x), 1).amax(0), (33, 23), (33, 15)),
    "columns, pieces above each other": (lambda x, y: torch.cat((x, y), 0).sum(0), (29, 48), (61, 48)),
    "rows": (lambda x, y: torch.cat((x.T, y.T), 0).sum(0), (64, 70), (64, 90)),
    "all": (lambda x, y: torch.cat((x, y), 1).square().sum(), (300, 24), (300, 56)),
    "a part": (lambda x, y: torch.cat((x, y), 1)[:, 5:40].sum(0), (40, 24), (40, 16)),
    "nested": (lambda x, y: (torch.cat((torch.cat((x, y), 1) * 2, x), 1) + 1).prod(0), (6, 24), (6, 16)),
    "padded": (lambda x, y: F.pad(x, (3, 2, 1, 4), value=2.0).sum(0), (40, 24), (1,)),
    "padded by vectors": (lambda x, y: F.pad(x * 3, (8, 16)).sum(0), (40, 24), (1,)),
    "three dimensions": (lambda x, y: torch.cat((x, y), 2).sum((0, 1)), (5, 12, 24), (5, 12, 40)),
    "the middle": (lambda x, y: torch.cat((x, y), 1).sum(1), (5, 12, 24), (5, 30, 24)),
    "truths": (lambda x, y: (torch.cat((x, y), 1) > 0).any(0), (40, 24), (40, 16)),
    "two sums": (lambda x, y: (lambda z: (z.sum(0), z.square().sum(0)))(torch.cat((x, y), 1)), (40, 24), (40, 16)),
    "long": (lambda x, y: torch.cat((x, y), 1).sum(0), (5000, 8), (5000, 8)),
    "flipped": (lambda x, y: torch.cat((x.flip(1), y), 1).sum(0), (40, 24), (40, 16)),
    "means of parts of rows": (lambda x, y: torch.cat((x, y), 1).mean(0), (400, 24), (400, 37)),
    "scaled by totals": (lambda x, y: torch.cat((F.layer_norm(x, (600,)), y), 1).sum(0), (60, 600), (60, 120)),
    "rotated": (lambda x, y: (lambda a, b: torch.cat((a / y - b, b / y + a), 1).sum(0))(*x.chunk(2, 1)), (70, 48), (70, 1)),
    "many columns": (lambda x, y: torch.cat((x, y, x * 2, y * 3, x - 1, y + 1, x * x), 1).sum(0), (40, 8), (40, 16)),
    "columns of rows": (lambda x, y: torch.cat((torch.cat((x, y), 0), torch.cat((y, x), 0) * 2), 1).sum(0), (29, 16), (61, 16)),
    "places, columns": (lambda x, y: torch.cat((x, y), 1).argmax(0), (40, 24), (40, 16)),
    "places, odd pieces": (lambda x, y: torch.cat((x, y, x), 1).argmin(1), (33, 23), (33, 15)),
    "places, pieces above each other": (lambda x, y: tuple(torch.cat((x, y), 0).max(0)), (29, 48), (61, 48)),
    "places, along": (lambda x, y: tuple(torch.cat((x, y), 1).min(1)), (20, 64), (20, 96)),
    "places, long": (lambda x, y: torch.cat((x, y), 1).argmax(1), (3, 5000), (3, 3000)),
    "places, long columns": (lambda x, y: torch.cat((x, y), 0).argmax(0), (5000, 8), (3000, 8)),
    "places, maps in front": (lambda x, y: torch.cat((x * 2, y.abs()), 1).argmax(1), (20, 64), (20, 96)),
    "places, the middle": (lambda x, y: torch.cat((-x, y), 1).argmin(1), (5, 12, 24), (5, 30, 24)),
    "places, rows that are transposed": (lambda x, y: torch.cat((x.T, y.T), 0).argmax(0), (64, 70), (64, 90)),
    "places, padded": (lambda x, y: F.pad(x, (3, 2, 1, 4), value=2.0).argmax(1), (40, 24), (1,)),
    "places, few": (lambda x, y: torch.cat((x, y), 1).argmax(1), (40, 3), (40, 5)),
}
