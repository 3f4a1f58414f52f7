"""What reads the same data, of sizes that may vary: losses, statistics, and maps beside their sums."""

import torch.nn.functional as F


def losses(x, y):
    return F.smooth_l1_loss(x, y), F.l1_loss(x, y), F.mse_loss(x, y)


def weighted(x, y):
    return 0.7 * F.l1_loss(x, y) + 0.3 * F.huber_loss(x, y) + 0.1 * F.mse_loss(x, y)


def overlapping(x, y):
    p = x.sigmoid()
    return F.binary_cross_entropy_with_logits(x, y.abs()) + 1 - (2 * (p * y.abs()).sum() + 1) / (p.sum() + y.abs().sum() + 1)


def statistics(x, y):
    return x.mean(), x.var(), x.abs().max(), (x > 0).sum(), x.shape[0] * y.amin()


def deviation(x, y):
    return x.std(correction=0), x.amax()


def by_column(x, y):
    return x.mean(0), x.var(0), x.amin(0), y.abs().amax(0)


def beside(x, y):
    z = x + y
    return z, z.sum(), (z * z).sum()


def columns(x, y):
    z = F.gelu(x) * y
    return z, z.sum(0), z.amax(0)


def turned(x, y):
    z = x + y.t().contiguous().t()
    return z, z.sum()


MODELS = (losses, weighted, overlapping, statistics, deviation, by_column, beside, columns, turned)


def of_none(x, y):
    z = x + y
    return z, z.abs().sum(), z.var(correction=0), z.mean(), (z > 0).sum(), z.var(0, correction=0)
