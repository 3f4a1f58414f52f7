"""Concatenations of which pieces are computed, and what is made of their rows."""

import torch

F = torch.nn.functional

# What is computed of two tensors of the same rows, and in how many launches at most.
PROGRAMS = {
    "gated": (lambda x, y: torch.softmax(torch.cat((F.silu(x) * x.sin(), y), -1), -1), 1),
    "several tensors in one piece": (lambda x, y: torch.cat((x * x.flip(0)[:1], y, x + y[:, :1], y * y[0]), -1).cumsum(-1), 3),
    "scaled by rows and columns": (lambda x, y: F.layer_norm(torch.cat((y * y[0], x * x[:, :1]), -1), (x.shape[1] + y.shape[1],)), 1),
    "and wanted": (lambda x, y: ((z := torch.cat((x.exp(), y - 1), -1)), F.normalize(z, dim=-1)), 1),
    "a number beside it": (lambda x, y: torch.log_softmax(torch.cat((torch.tanh(x), torch.zeros_like(y), y), -1), -1), 2),
    "of wider numbers": (lambda x, y: torch.cat((x.float().exp(), y.float()), -1).logsumexp(-1), 1),
}
SHAPES = (((30, 39), (30, 40)), ((7, 16), (7, 8)), ((5, 1), (5, 130)), ((40, 24), (40, 520)))
