"""What a mask picks, between functions of points and what puts it back or adds it up, is computed as a whole."""

import pytest
import torch
import torch.nn.functional as F

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


def test_losses_of_parts():
    def points(x, y):
        mask = x > 0
        picked, wanted, shares = x[mask], y[mask], y[mask].sigmoid()
        losses = F.mse_loss(picked, wanted), F.l1_loss(picked, wanted, reduction="sum"), F.smooth_l1_loss(picked, wanted)
        losses = *losses, F.huber_loss(picked, wanted, delta=0.5), F.kl_div(picked, shares, reduction="sum")
        chances = F.binary_cross_entropy_with_logits(picked, shares), F.binary_cross_entropy(picked.sigmoid(), shares)
        return *losses, *chances, F.soft_margin_loss(picked, wanted.sign()), F.mse_loss(picked, wanted, reduction="none").sum(), torch.dot(picked, wanted)

    def classes(x, y):
        mask = y[:, 2] > 0
        wrong = torch.where(mask, y[:, 0].abs().mul(3).long().clamp(max=3), 77)  # there is no such class
        wrong[-1] = -100
        rows, targets = x[mask], wrong[mask]
        smooth, near = F.cross_entropy(rows, targets, y[0].abs(), label_smoothing=0.1), F.cosine_similarity(rows, y[mask], dim=-1).sum()
        return F.cross_entropy(rows, targets), smooth, near, F.nll_loss(rows.log_softmax(-1), targets, reduction="sum")

    right(points)
    right(classes)


def test_rows_of_parts():
    def model(x, y):
        rows, other = x[x[:, 1] > 0], y[x[:, 1] > 0]
        found = torch.cat([rows.softmax(1), other.cumsum(-1), F.layer_norm(rows, (4,))], 1).sum(0)
        parts = (rows[:, 2] * other[:, 1:3].amax(1)).sum(), torch.stack([rows, other], 1).mean((0, -1)), rows.unsqueeze(-1).sum(0)
        along = (rows.softmax(0) * other).sum(0), rows[:, 0].log_softmax(0).sum(), (x[x > 0].softmax(0) * y[x > 0]).sum(), (rows.cumsum(0) * other).sum(0)
        return found, *parts, *along, rows.sum(1, keepdim=True).sum(), rows.var(1).mean(), rows.argmax(1).sum()

    right(model)


def test_reductions_of_parts():
    def model(x, y):
        mask, rows = x > 0, x[x[:, 1] > 0]
        kept = x[mask].sum(0, keepdim=True), rows.mean(0, keepdim=True), rows.sum((0, 1), keepdim=True), rows.half().sum(0, dtype=torch.float32)
        spread = x[mask].std(), rows.var(0), rows.var(0, unbiased=False, keepdim=True), *torch.std_mean(rows), rows.double().var((0, 1), correction=3)
        others = (x[mask] / 9).prod(), rows.prod(0, keepdim=True), (x[mask] > 7).any(), (rows > 0).all(0), rows.count_nonzero()
        return *kept, *spread, *others, x[mask].norm(), rows.norm(p=1, dim=0), x.masked_select(mask).mean(), ((x[mask] - x[mask].mean()) ** 2).mean()

    right(model)


def test_numbers_of_rows():
    def model(x, y):
        picked, half = x[x > 0], y.half()[x > 0]
        return picked.sum() / picked.shape[0], half.sum() / max(half.numel(), 1), y.relu() * x[x[:, 1] > 0].numel(), picked.pow(2).sum() / (2 * picked.shape[0])

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


def counted_whole(x, y):
    picked = (x * 3).int()[x > 0]
    return picked.sum() // picked.shape[0]  # of integers: where nothing is picked, eager's division ends in an error


def greatest(x, y):
    return x[x > 0].max()  # of nothing it is an error


def multiplied(x, y):
    return (x[x[:, 1] > 0] @ y.t()).sum()  # of few rows it is less work


def changed_view(x, y):
    picked = x[x > 0]
    picked[None].mul_(2)
    return picked.sum()


def the_first_few(x, y):
    return x[x > 0][:3].sum()


@pytest.mark.parametrize("function", [
    divided, of_another_mask, changed_mask, returned, counted_whole, greatest, multiplied, changed_view, the_first_few,
])
def test_what_is_left(function):
    class Model(torch.nn.Module):
        def forward(self, x, y):
            return function(x, y)

    graph = torch.export.export(Model(), (X.clone(), X.clone()), strict=False).graph
    before = str(graph)
    compute_wholes(graph)
    assert str(graph) == before


def test_targets_that_are_picked_already():
    """Beside a part they are as many as are picked, and no whole of the mask's shape."""
    mask, x, y = torch.tensor([[1, 0, 1], [0, 1, 0]], dtype=torch.bool), torch.randn(2, 3, 5), torch.tensor([1, 4, 0])

    def model(x, y):
        return F.cross_entropy(x[mask], y), torch.dot(x[..., 0][mask], y.float())

    found = inferno.compile(model, (x, y), target="cpu")(x, y)
    torch.testing.assert_close(found, model(x, y))


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8], ids=str)
def test_softmax_of_picked_integers(dtype):
    x = torch.arange(12).reshape(3, 4).to(dtype)
    model = lambda x: torch.softmax(x[x > 4], 0, dtype=torch.float32).sum()  # noqa: E731
    torch.testing.assert_close(inferno.compile(model, (x,), target="cpu")(x), model(x))


def test_entropy_of_picked_probabilities():
    """Of what is not picked there may be none."""
    def model(x, y):
        mask = (x > 0) & (x < 1)
        return F.binary_cross_entropy(x[mask], y[mask]), F.binary_cross_entropy(x[mask], y[mask], reduction="none").sum()

    x, y = torch.linspace(-2, 2, 20).reshape(5, 4), torch.rand(5, 4)
    torch.testing.assert_close(inferno.compile(model, (x, y), target="cpu")(x, y), model(x, y))
