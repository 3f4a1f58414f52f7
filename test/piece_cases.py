"""Models that concatenate, pad and pool, and their inputs: small ones, of even and of odd sizes."""

import torch

randn, F = torch.randn, torch.nn.functional


def cat(*pieces, dim=-1):
    return torch.cat(pieces, dim)


def halves(x):
    low, high = x.chunk(2, -1)
    return torch.cat((-high, low), -1)


def rope(x, cos, sin):
    return x * cos + halves(x) * sin


def rotated_pairs(x, e):
    """Pairs of 16 bits that matrices of two by two rotate."""
    y = x.float().view(*x.shape[:-1], -1, 1, 2)
    return (e[..., 0] * y[..., 0] + e[..., 1] * y[..., 1]).view(x.shape).to(x.dtype)


def rope_both(q, k, cos, sin):
    return rope(q, cos, sin), rope(k, cos, sin)


def rope_wide(x, cos, sin):
    return rope(x.float(), cos, sin).to(x.dtype)


def rope_pieces(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def rope_part(x, cos, sin):
    rotated, rest = x[..., :8], x[..., 8:]
    return torch.cat((rope(rotated, cos, sin), rest), -1)


def neighbours(x, cos, sin):
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


def rotated_neighbours(x, cos, sin):
    return x * cos + torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2) * sin


def projections(x, cos, sin):
    """Of one tensor with queries, keys and values."""
    q, k, v = x.unbind(2)
    return rope(q, cos, sin).transpose(1, 2), rope(k, cos, sin).transpose(1, 2), v


def running_sums(x):
    """By steps that each reach twice as far."""
    step = 1
    while step < x.shape[-1]:
        x = torch.cat((x[..., :step], x[..., step:] + x[..., :-step]), -1)
        step *= 2
    return x


def recurrence(a, b):
    """Of numbers ``y[i] = a[i] * y[i - 1] + b[i]``, by such steps."""
    step = 1
    while step < a.shape[-1]:
        b = torch.cat((b[..., :step], b[..., step:] + a[..., step:] * b[..., :-step]), -1)
        a = torch.cat((a[..., :step], a[..., step:] * a[..., :-step]), -1)
        step *= 2
    return b


def turned(x):
    """By one column, twelve times, the last one another one's neighbour."""
    for _ in range(12):
        x = torch.cat((x[:, 1:], x[:, :1] * 0.5 + x[:, 1:2]), 1)
    return x


def half(*shape):
    return randn(*shape).bfloat16()


HEADS = (2, 4, 5, 16)
# The model and its inputs.
CASES = {
    "last": (cat, (randn(6, 8), randn(6, 16))),
    "last bf16": (cat, (half(6, 16), half(6, 8))),
    "odd": (cat, (randn(6, 5), randn(6, 3))),
    "odd bf16": (cat, (half(5, 13), half(5, 11), half(5, 8))),
    "even": (cat, (randn(6, 6), randn(6, 10))),
    "first": (lambda *p: cat(*p, dim=0), (randn(6, 8), randn(3, 8), randn(1, 8))),
    "first odd": (lambda *p: cat(*p, dim=0), (randn(3, 7), randn(5, 7))),
    "middle": (lambda *p: cat(*p, dim=1), (randn(3, 6, 7), randn(3, 2, 7))),
    "channels": (lambda x, y: F.relu(cat(x, y, dim=1)), (half(2, 3, 6, 6), half(2, 5, 6, 6))),
    "channels, odd": (lambda x, y: cat(x, y, dim=1) * 2, (randn(2, 3, 5, 7), randn(2, 2, 5, 7))),
    "parts": (lambda x, y: cat(x[:, 4:12], y[:, 8:]), (randn(6, 16), randn(6, 16))),
    "parts with steps": (lambda x, y: cat(x[:, 4:12], y[:, ::2]), (randn(6, 16), randn(6, 16))),
    "parts of parts": (lambda x: cat(x[1:, 2:][:, 2:6], x[1:, 8:]), (randn(6, 16),)),
    "booleans": (lambda x: cat(x, ~x), (randn(30, 32) > 0,)),
    "one": (lambda x: torch.cat((x, x), -1), (randn(4, 4),)),
    "many": (lambda x: cat(*x.unbind(0)), (randn(9, 4, 3),)),
    "constants": (lambda x: cat(torch.ones_like(x), x, torch.zeros_like(x)), (randn(4, 12),)),
    "of broadcasts": (lambda x, y: cat(x.expand(6, 8), y.expand(6, 8)), (randn(6, 1), randn(8))),
    "of transposes": (lambda x, y: cat(x.t(), y), (randn(8, 6), randn(6, 8))),
    "before gelu": (lambda *p: F.gelu(cat(*p)), (half(6, 16), half(6, 24))),
    "of gelu": (lambda x, y: cat(F.gelu(x), y * 2), (half(6, 16), half(6, 24))),
    "read twice": (lambda x, y: (cat(x, y) + 1, cat(x, y).sum(0)), (randn(6, 16), randn(6, 24))),
    "in a sum": (lambda x, y: cat(x, y).square().sum(-1), (randn(6, 16), randn(6, 24))),
    "nested": (lambda x, y: cat(cat(x, y) * 2, y), (randn(6, 12), randn(6, 4))),
    "stack": (lambda x, y: torch.stack((x, y), -1), (half(6, 16), half(6, 16))),
    "stack of three": (lambda *p: torch.stack(p, -1), (randn(6, 8), randn(6, 8), randn(6, 8))),
    "stack, middle": (lambda x, y: torch.stack((x, y), 1), (half(6, 16), half(6, 16))),
    "roll": (lambda x: x.roll(5, -1), (half(6, 32),)),
    "roll both": (lambda x: x.roll((2, -3), (0, 1)), (randn(6, 15),)),
    "flip of cat": (lambda x, y: cat(x, y).flip(-1), (half(6, 16), half(6, 8))),
    "pad": (lambda x: F.pad(x, (3, 2, 1, 0)), (half(2, 3, 6, 19),)),
    "pad, value": (lambda x: F.pad(x, (4, 8), value=7.0) * 2, (randn(3, 20),)),
    "pad and crop": (lambda x: F.pad(x, (-3, 2, 1, -1)), (randn(2, 6, 19),)),
    "max_pool": (lambda x: F.max_pool2d(x, 3, 2, 1), (half(2, 3, 12, 16),)),
    "max_pool, ceil": (lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True) + 1, (randn(2, 3, 11, 15),)),
    "max_pool, dilated": (lambda x: F.max_pool2d(x.relu(), (2, 3), (1, 2), (1, 0), (2, 1)), (randn(2, 3, 12, 16),)),
    "max_pool1d": (lambda x: F.max_pool1d(x, 3), (half(3, 4, 24),)),
    "max_pool3d": (lambda x: F.max_pool3d(x, 2), (randn(2, 3, 4, 6, 8),)),
    "max_pool of integers": (lambda x: F.max_pool2d(x, 2), (torch.randint(-9, 9, (2, 3, 8, 8)),)),
    "avg_pool": (lambda x: F.avg_pool2d(x, 2), (half(2, 3, 12, 16),)),
    "avg_pool, padded": (lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), (half(2, 3, 12, 16),)),
    "lp_pool": (lambda x: F.lp_pool2d(x.abs(), 2, 3), (randn(2, 3, 12, 16),)),
    "local_response_norm": (lambda x: F.local_response_norm(x, 5), (randn(2, 6, 4, 8),)),
    "running sums": (running_sums, (randn(6, 32),)),
    "recurrence": (recurrence, (torch.rand(6, 32), randn(6, 32))),
    "turned": (turned, (randn(6, 20),)),
    "rope": (rope, (randn(*HEADS), randn(5, 16), randn(5, 16))),
    "rope of two": (rope_both, (half(*HEADS), half(2, 2, 5, 16), half(2, 1, 5, 16), half(2, 1, 5, 16))),
    "rope in f32": (rope_wide, (half(*HEADS), randn(5, 16), randn(5, 16))),
    "rope in pieces": (rope_pieces, (half(*HEADS), half(5, 8), half(5, 8))),
    "rope of a part": (rope_part, (half(*HEADS), half(5, 8), half(5, 8))),
    "rope of neighbours": (neighbours, (half(*HEADS), half(5, 8), half(5, 8))),
    "rope of rotated neighbours": (rotated_neighbours, (half(*HEADS), half(5, 16), half(5, 16))),
    "rope of projections": (projections, (half(2, 5, 3, 4, 16), half(5, 1, 16), half(5, 1, 16))),
}
