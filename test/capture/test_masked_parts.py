"""What a mask picks, between functions of points and what puts it back or adds it up, is computed as a whole."""

import torch

import inferno

X, Y = torch.arange(-10.0, 10).reshape(5, 4), torch.arange(20.0).reshape(5, 4).sin()


def right(model, *, whole=True):
    fast = inferno.compile(model, (X.clone(), Y.clone()), target="cpu", fallback=not whole)
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
        return loss, x[rows].sum(0), x[rows].mean((0, 1)), (x[mask] > y[mask]).sum(), x[rows].double().relu().mean(0), x[mask].to(torch.float16).mean()

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


def test_what_has_to_be_there():
    def model(x, y):
        whole, other = (x * 3).int(), (y * 3).int()
        mask, some = other != 0, x > 0
        divided = torch.zeros_like(whole)
        divided[mask] = whole[mask] // other[mask]  # elsewhere are zeros
        picked, count = x[some], x[y > 0]
        some.logical_not_()
        return divided, picked.sum(), count.sum() / count.shape[0], y[y < 0]

    right(model, whole=False)
