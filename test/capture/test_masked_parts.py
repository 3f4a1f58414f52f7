"""What a mask picks, between functions of points and what puts it back or adds it up, is computed as a whole."""

import pytest
import torch

import inferno
from inferno.capture.masked_parts import compute_wholes

X, Y = torch.arange(-10.0, 10).reshape(5, 4), torch.arange(20.0).reshape(5, 4).sin()


def right(model):
    fast = inferno.compile(model, (X.clone(), Y.clone()), target="cpu", fallback=False)
    for x, y in ((X, Y), (Y, X), (-X.abs() - 1, Y)):  # the last one picks nothing
        ours, eager = (x.clone(), y.clone()), (x.clone(), y.clone())
        for found, expected in zip((*fast(*ours), *ours), (*model(*eager), *eager), strict=True):
            torch.testing.assert_close(found, expected, equal_nan=True)


def test_parts_that_are_put_back():
    def model(x, y):
        mask, z, rows, w = x > 0, y * 1, y[:, 0] > 0, torch.zeros_like(x)
        z[mask] = torch.log(x[mask]) * y[mask].abs().sqrt() + 1  # of what is not picked there is no logarithm
        z[~mask] *= 2
        y[y > 0.5] -= torch.where(x[y > 0.5] > 0, x[y > 0.5], 1.0)
        w[rows, 1] = x[rows, 2]
        w[:, 2:][rows] = x[:, :2][rows].exp()
        before = x[mask]
        x.mul_(2)
        x[mask] = before
        return z, w

    right(model)


def test_sums_and_means_of_parts():
    def model(x, y):
        mask, rows = x > 0, x[:, 1] > 0
        loss = (x[mask] - y[mask]).pow(2).mean()
        picked = y[mask]
        before, changed = picked + 1, picked.mul_(2)
        means = loss, x[rows].mean((0, 1)), x[rows].double().relu().mean(0), x[mask].to(torch.float16).mean()
        return *means, (before * changed).sum() + picked.sum(), x[rows].sum(0), (x[mask] > y[mask]).sum()

    right(model)


def test_a_loop_that_keeps_the_least():
    def farthest(x, y):
        points, found, least, last = torch.stack([x, y], -1).reshape(-1, 2), [], torch.full((20,), 1e10), torch.zeros((), dtype=torch.int64)
        for _ in range(3):
            found.append(last)
            distance = (points - points[last]).square().sum(-1)
            nearer = distance < least
            least[nearer] = distance[nearer]
            last = least.argmax()
        return (torch.stack(found),)

    right(farthest)


def divided(x, y):
    whole, other = (x * 3).int(), (y * 3).int()
    mask, found = other != 0, torch.zeros_like(whole)
    found[mask] = whole[mask] // other[mask]  # elsewhere are zeros
    return found


def of_another_mask(x, y):
    picked, mask = x[x > 0], x > 0
    x.mul_(-1)
    y[x > 0] = y[x > 0] * picked
    return y, mask


def changed_mask(x, y):
    mask = x > 0
    picked = x[mask]
    mask.logical_not_()
    return picked.sum(), mask


def returned(x, y):
    picked = x[x > 0]
    return picked.sum(), picked


def counted(x, y):
    picked = x[x > 0]
    return picked.sum() / picked.shape[0]


@pytest.mark.parametrize("function", [divided, of_another_mask, changed_mask, returned, counted])
def test_what_is_left(function):
    class Model(torch.nn.Module):
        def forward(self, x, y):
            return function(x, y)

    graph = torch.export.export(Model(), (X.clone(), X.clone()), strict=False).graph
    before = str(graph)
    compute_wholes(graph)
    assert str(graph) == before
